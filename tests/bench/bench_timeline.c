/* bench_timeline: what a timeline costs a training step, with and without one
 * by turns in one run:
 *
 *   regroup run -n 2 bench_timeline [--turns N] [--steps N] [--step-ms MS]
 *
 * A step is a fixed amount of work that fills --step-ms (5) together with its
 * operations, so that what the agent and the writer of the timeline take from
 * the ranks' processors counts too. The operations, on ResNet-50's gradients
 * divided by 64:
 *
 *   buckets  by a reducer, in as many buckets as the whole ones have
 *   calls    an rg_allreduce for each
 *
 * Rank 0 begins and ends timelines (`regroup timeline`) in a file that it
 * removes. Prints the mean step of the turns without and with, medians, and the
 * median of the pairs' ratios. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "regroup/regroup.h"
#include "tests/bench/models.h"

#define PART         64
#define BUCKET_BYTES (((uint64_t)4 << 20) / PART)
#define TURNS_MAX    200
#define WARM         5 /* steps of a turn that do not count */

typedef enum way { BUCKETS, CALLS, WAYS } way;
static const char *const names[] = {"buckets", "calls"};

static rg_ctx *ctx;
static rg_reducer *reducer;
static model all;
static float *own[MODEL_TENSORS_MAX];
static uint64_t work;
static volatile double sink;

static void need(bool is_well, const char *what)
{
    if (is_well)
        return;
    fprintf(stderr, "bench_timeline: %s\n", what);
    exit(1);
}

static void need_ok(rg_status st)
{
    need(st == RG_OK, rg_last_error());
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void compute(uint64_t n)
{
    double x = 0.5;
    for (uint64_t i = 0; i < n; i++)
        x = x * 0.999 + 1e-3;
    sink = x;
}

/* ------------------------------------------------------------------- steps */

static void reduce(way w)
{
    if (w == BUCKETS)
        need_ok(rg_reducer_start_step(reducer));
    for (int i = all.tensors - 1; i >= 0; i--)
        need_ok(w == BUCKETS ? rg_reducer_ready(reducer, i)
                             : rg_allreduce(rg_world(ctx), own[i], own[i],
                                            all.count[i], RG_F32, RG_MAX));
    if (w == BUCKETS)
        need_ok(rg_reducer_finish(reducer));
}

static double steps_ms(way w, int n)
{
    double begin = 0;
    for (int i = -WARM; i < n; i++) {
        if (i == 0) {
            need_ok(rg_barrier(rg_world(ctx)));
            begin = now_ms();
        }
        compute(work);
        reduce(w);
    }
    return (now_ms() - begin) / n;
}

static double shortest_ms(way w)
{
    double least = steps_ms(w, 50);
    for (int i = 0; i < 4; i++) {
        const double ms = steps_ms(w, 50);
        least = ms < least ? ms : least;
    }
    return least;
}

/* The same on all ranks: a step of the slowest is long enough. */
static void choose_work(way w, double step_ms)
{
    const uint64_t tried = 1000000;
    work = 0;
    const double left_ms = step_ms - shortest_ms(w);
    const double begin = now_ms();
    compute(tried);
    const double one_ms = (now_ms() - begin) / (double)tried;
    work = left_ms > 0 ? (uint64_t)(left_ms / one_ms) : 0;
    need_ok(rg_allreduce(rg_world(ctx), &work, &work, 1, RG_U64, RG_MAX));
}

/* --------------------------------------------------------------- timelines */

static void begin_or_end(const char *arguments)
{
    char self[PATH_MAX] = "", command[2 * PATH_MAX];
    need(readlink("/proc/self/exe", self, sizeof self - 1) > 0,
         "it does not know where it is");
    char *name = strrchr(self, '/');
    *name = '\0';
    snprintf(command, sizeof command, "%s/regroup timeline %s >&2", self,
             arguments);
    need(system(command) == 0, command); /* NOLINT: no input of others */
}

static void trace(bool is_traced)
{
    char arguments[64];
    snprintf(arguments, sizeof arguments, "start /tmp/bench_timeline.%d.json",
             (int)getpid());
    if (rg_rank(ctx) == 0)
        begin_or_end(is_traced ? arguments : "stop");
    need_ok(rg_barrier(rg_world(ctx)));
}

static double turn_ms(way w, int steps, bool is_traced)
{
    if (is_traced)
        trace(true);
    double ms = steps_ms(w, steps);
    if (is_traced)
        trace(false);
    need_ok(rg_allreduce(rg_world(ctx), &ms, &ms, 1, RG_F64, RG_MAX));
    return ms;
}

/* ------------------------------------------------------------------- table */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of, int n)
{
    qsort(of, (size_t)n, sizeof *of, by_size);
    return n % 2 == 1 ? of[n / 2] : (of[n / 2 - 1] + of[n / 2]) / 2;
}

static void measure(way w, int turns, int steps, double step_ms)
{
    double without[TURNS_MAX], with[TURNS_MAX], ratio[TURNS_MAX];
    choose_work(w, step_ms);
    for (int i = 0; i < turns; i++) {
        const bool is_first = i % 2 == 1;
        if (is_first)
            with[i] = turn_ms(w, steps, true);
        without[i] = turn_ms(w, steps, false);
        if (!is_first)
            with[i] = turn_ms(w, steps, true);
        ratio[i] = with[i] / without[i];
    }
    const double typical = median(ratio, turns);
    if (rg_rank(ctx) == 0)
        printf("%-8s %9.3f %9.3f %9.4f %9.4f %9.4f\n", names[w],
               median(without, turns), median(with, turns), typical,
               ratio[turns / 10], ratio[turns - 1 - turns / 10]);
    fflush(stdout);
}

static void make_tensors(void)
{
    const rg_reducer_params params = {.size = sizeof params,
                                      .bucket_bytes = BUCKET_BYTES};
    model_resnet50(&all);
    need_ok(rg_reducer_create(rg_world(ctx), &params, &reducer));
    for (int i = 0; i < all.tensors; i++) {
        all.count[i] = (all.count[i] + PART - 1) / PART;
        need_ok(rg_reducer_add(reducer, "", NULL, all.count[i], RG_F32, NULL));
        own[i] = calloc(all.count[i], sizeof *own[i]);
        need(own[i] != NULL, "no memory for a tensor");
    }
}

static double flag(int argc, char **argv, const char *name, double otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return atof(argv[i + 1]); /* NOLINT: limited by those that ask */
    return otherwise;
}

static int limited(double asked, int most)
{
    return asked < 1 ? 1 : asked > most ? most : (int)asked;
}

int main(int argc, char **argv)
{
    const int turns = limited(flag(argc, argv, "--turns", 15), TURNS_MAX);
    const int steps = limited(flag(argc, argv, "--steps", 100), 100000);
    const double step_ms = flag(argc, argv, "--step-ms", 5);
    need_ok(rg_init(NULL, &ctx));
    make_tensors();
    if (rg_rank(ctx) == 0)
        printf("# np %d, %d tensors, %d turns of %d steps\n# way     without  "
               "    with     ratio       p10       p90  (ms)\n",
               rg_size(ctx), all.tensors, turns, steps);
    for (int w = 0; w < WAYS; w++)
        measure((way)w, turns, steps, step_ms);
    rg_reducer_destroy(reducer);
    need_ok(rg_finalize(ctx));
    return 0;
}
