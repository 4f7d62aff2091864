/* Steps of a reducer while it measures bucket sizes:
 *
 *   tuning STEPS [deterministic | top_k]
 *
 * Each step has an operation of the program's own behind the last tensor, which
 * is late on another rank each time. Then rank 1 ends the step late, but with
 * the smallest buckets rank 0 does: by its own clock alone, rank 0 would
 * choose that size, and rank 1 another one. Each step's sum is checked, and
 * rank 0 says how many buckets there were before and after. A step counts in
 * the state, so that a loss may come at any of them; STEPS are made in the last
 * generation. With top_k, whose work is done as tensors become ready, no sum is
 * checked, and each rank says how long that took at least. */
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"

#define TENSORS 40
#define COUNT   60000 /* 240 kB: sizes of buckets make a difference */
#define PERIOD  5     /* of a tensor's elements */

#define STEPS_OF_SIZE 5 /* in which a size is measured */
#define SMALLEST      1 /* the second one; the others make fewer buckets */

typedef struct job {
    rg_ctx *ctx;
    rg_reducer *reducer;
    int steps;
    bool is_top_k;
    double least_ms; /* in rg_reducer_ready, of all steps */
    uint64_t step;
} job;

static int buckets_of(const job *j)
{
    rg_reducer_info info = {.size = sizeof info};
    CHECK_OK(rg_reducer_info_get(j->reducer, &info));
    return info.buckets;
}

/* Element k is `first` and k % PERIOD. */
static void fill(float *at, int first)
{
    for (int k = 0; k < PERIOD; k++)
        at[k] = (float)(first + k);
    for (size_t n = PERIOD, more; n < COUNT; n += more) {
        more = n < COUNT - n ? n : COUNT - n;
        memcpy(at + n, at, more * sizeof *at);
    }
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static rg_status step_of(job *j, int nth)
{
    double ready_ms = 0;
    rg_status st = rg_reducer_start_step(j->reducer);
    for (int i = TENSORS - 1; i >= 0 && st == RG_OK; i--) {
        void *at = NULL;
        CHECK_OK(rg_reducer_tensor(j->reducer, i, &at));
        fill(at, rg_rank(j->ctx) + nth + i);
        if (i == 0 && rg_rank(j->ctx) == nth % 2)
            usleep(3000);
        const double begin = now_ms();
        st = rg_reducer_ready(j->reducer, i);
        ready_ms += now_ms() - begin;
    }
    if (nth == 0 || ready_ms < j->least_ms)
        j->least_ms = ready_ms;
    const int one = 1;
    int sum = 0;
    if (st == RG_OK)
        st = rg_allreduce(rg_world(j->ctx), &one, &sum, 1, RG_I32, RG_SUM);
    if (rg_rank(j->ctx) == ((nth - 1) / STEPS_OF_SIZE == SMALLEST ? 0 : 1))
        usleep(3000); /* only the others wait */
    return st == RG_OK ? rg_reducer_finish(j->reducer) : st;
}

static void check(const job *j, int nth)
{
    const int n = rg_size(j->ctx);
    for (int i = 0; i < TENSORS && !j->is_top_k; i++) {
        void *at = NULL;
        CHECK_OK(rg_reducer_tensor(j->reducer, i, &at));
        const float *sum = at;
        for (int k = 0; k < PERIOD; k++)
            CHECK(sum[k] == (float)(n * (n - 1) / 2 + n * (nth + i + k)));
        CHECK(memcmp(sum, sum + PERIOD, (COUNT - PERIOD) * sizeof *sum) == 0);
    }
}

static rg_status train(rg_state *state, void *arg)
{
    job *j = arg;
    rg_status st = RG_OK;
    int first = 0;
    for (int nth = 0; nth < j->steps && st == RG_OK; nth++) {
        st = step_of(j, nth);
        if (st != RG_OK)
            break;
        check(j, nth);
        first = nth == 0 ? buckets_of(j) : first;
        j->step++;
        st = rg_state_commit(state);
    }
    printf("%s in generation %llu: %d buckets, then %d; ready: %.3f ms\n",
           rg_status_name(st), (unsigned long long)rg_generation(j->ctx), first,
           buckets_of(j), j->least_ms);
    fflush(stdout);
    return st;
}

int main(int argc, char **argv)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    static float own[TENSORS][COUNT];
    static job j;
    rg_state *state = NULL;
    j.is_top_k = argc > 2 && strcmp(argv[2], "top_k") == 0;
    const rg_reducer_params how = {.size = sizeof how,
                                   .sum = 1,
                                   .compression = j.is_top_k ? RG_COMPRESS_TOP_K
                                                             : RG_COMPRESS_NONE,
                                   .deterministic = argc > 2 && !j.is_top_k};
    j.steps = argc > 1 ? atoi(argv[1]) : 1;
    CHECK_OK(rg_init(&params, &j.ctx));
    CHECK_OK(rg_state_create(j.ctx, NULL, &state));
    CHECK_OK(rg_state_add(state, "step", &j.step, sizeof j.step, NULL));
    CHECK_OK(rg_reducer_create(rg_world(j.ctx), &how, &j.reducer));
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        CHECK_OK(rg_reducer_add(j.reducer, name, i % 2 ? own[i] : NULL, COUNT,
                                RG_F32, NULL));
    }
    const rg_status st = rg_run(state, train, &j);
    rg_reducer_destroy(j.reducer);
    rg_state_destroy(state);
    rg_finalize(j.ctx);
    return rg_exit_code(st);
}
