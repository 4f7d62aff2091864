/* What a reducer claims, and an elastic loop with one.
 *
 *   reducing claims        in a static job of any size
 *   reducing train STEPS   in an elastic one
 *
 * Tensors are of all kinds: small and large, in their buckets and elsewhere. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/check.h"

#define TENSORS 23
#define STEPS   14
#define PERIOD  1013 /* a prime: no page of a tensor is like another */

#ifdef __SANITIZE_THREAD__ /* which takes a hundred times as long per byte */
#define SHARE 8
#else
#define SHARE 1
#endif

typedef struct model {
    rg_reducer *reducer;
    char name[TENSORS][16];
    float *data[TENSORS];
    uint64_t count[TENSORS];
} model;

static uint64_t count_of(int i)
{
    static const uint64_t counts[] = {1, 7, 64, 1000, 5000, 30000, 40000};
    const uint64_t n = i == 5 ? 300000 : counts[i % 7];
    return n < SHARE ? n : n / SHARE; /* the largest fills twelve buckets */
}

/* Some live in their buckets: all, none, or every other one. */
static void make(model *m, rg_set *set, const rg_reducer_params *params,
                 int views)
{
    *m = (model){0};
    CHECK_OK(rg_reducer_create(set, params, &m->reducer));
    for (int i = 0; i < TENSORS; i++) {
        const int is_view = views == 2 || (views == 1 && i % 2 == 0);
        int index = -1;
        m->count[i] = count_of(i);
        snprintf(m->name[i], sizeof m->name[i], "w%d", i);
        m->data[i] = is_view ? NULL : calloc(m->count[i], sizeof(float));
        CHECK_OK(rg_reducer_add(m->reducer, m->name[i], m->data[i], m->count[i],
                                RG_F32, &index));
        CHECK_EQ(index, i);
    }
    for (int i = 0; i < TENSORS; i++) {
        void *at = NULL;
        CHECK_OK(rg_reducer_tensor(m->reducer, i, &at));
        CHECK(m->data[i] == NULL || m->data[i] == at);
        if (m->data[i] == NULL)
            m->data[i] = at;
    }
}

static void destroy(model *m, int views)
{
    rg_reducer_destroy(m->reducer);
    for (int i = 0; i < TENSORS; i++)
        if (views == 0 || (views == 1 && i % 2 != 0))
            free(m->data[i]);
}

static float value(int rank, int step, int i, uint64_t k)
{
    return (float)(rank + 1) * 0.37f + (float)((step * 31 + i) % 17) * 1.01f +
           (float)(k % PERIOD) * 0.0013f;
}

/* One period, and its copies. */
static void fill(float *to, uint64_t n, int rank, int step, int i)
{
    for (uint64_t k = 0; k < n && k < PERIOD; k++)
        to[k] = value(rank, step, i, k);
    for (uint64_t k = PERIOD; k < n; k += PERIOD)
        memcpy(to + k, to, (n - k < PERIOD ? n - k : PERIOD) * sizeof *to);
}

static void compute(const model *m, int i, int rank, int step)
{
    fill(m->data[i], m->count[i], rank, step, i);
}

/* Equal bits to those of an allreduce of the tensor alone. */
static void check(const model *m, rg_set *set, int step, rg_op op)
{
    const int rank = rg_set_rank(set);
    for (int i = 0; i < TENSORS; i++) {
        float *alone = malloc(m->count[i] * sizeof *alone);
        fill(alone, m->count[i], rank, step, i);
        CHECK_OK(rg_allreduce(set, alone, alone, m->count[i], RG_F32, op));
        if (memcmp(alone, m->data[i], m->count[i] * sizeof *alone) != 0)
            CHECK_FAIL("tensor %d of step %d has other bits: %g, not %g", i,
                       step, (double)m->data[i][0], (double)alone[0]);
        free(alone);
    }
}

/* Each rank in an order of its own. */
static void one_step(const model *m, rg_set *set, int step, int shift)
{
    const int rank = rg_set_rank(set);
    CHECK_OK(rg_reducer_start_step(m->reducer));
    for (int k = 0; k < TENSORS; k++) {
        const int i = (k * 5 + shift) % TENSORS;
        compute(m, i, rank, step);
        CHECK_OK(rg_reducer_ready(m->reducer, i));
    }
    CHECK_OK(rg_reducer_finish(m->reducer));
}

static rg_reducer_info info_of(const model *m)
{
    rg_reducer_info info = {.size = sizeof info};
    CHECK_OK(rg_reducer_info_get(m->reducer, &info));
    return info;
}

/* The order of the first step is the plan; rank 0's other order, kept for
 * eight steps, is the second one. */
static void sums_are_right(rg_set *set, int views, int is_sum)
{
    const rg_reducer_params params = {
        .size = sizeof params, .sum = is_sum, .bucket_bytes = 100000 / SHARE};
    model m;
    make(&m, set, &params, views);
    for (int step = 0; step < STEPS; step++) {
        one_step(&m, set, step, step < 3 ? 0 : 11 + rg_set_rank(set));
        check(&m, set, step, is_sum ? RG_SUM : RG_AVG);
        CHECK_EQ(info_of(&m).plans, step < 10 ? 1 : 2);
    }
    CHECK_EQ(info_of(&m).steps, STEPS);
    CHECK(info_of(&m).buckets > 3);
    CHECK_STATUS(rg_reducer_add(m.reducer, "late", NULL, 1, RG_F32, NULL),
                 RG_ERR_INVALID);
    destroy(&m, views);
}

typedef struct helper {
    const model *m;
    int rank;
    atomic_int *next;
} helper;

static void *help(void *arg)
{
    const helper *h = arg;
    for (int i; (i = atomic_fetch_add(h->next, 1)) < TENSORS;) {
        compute(h->m, i, h->rank, 5);
        CHECK_OK(rg_reducer_ready(h->m->reducer, i));
    }
    return NULL;
}

static void threads_may_be_ready(rg_set *set)
{
    model m;
    pthread_t thread[3];
    atomic_int next = 0;
    make(&m, set, NULL, 1);
    const helper h = {&m, rg_set_rank(set), &next};
    for (int round = 0; round < 3; round++) {
        next = 0;
        CHECK_OK(rg_reducer_start_step(m.reducer));
        for (int t = 0; t < 3; t++)
            CHECK(pthread_create(&thread[t], NULL, help, (void *)&h) == 0);
        for (int t = 0; t < 3; t++)
            pthread_join(thread[t], NULL);
        CHECK_OK(rg_reducer_finish(m.reducer));
        check(&m, set, 5, RG_AVG);
    }
    destroy(&m, 1);
}

static void mistakes_are_named(rg_set *set)
{
    model m;
    const int rank = rg_set_rank(set), last = rg_set_size(set) - 1;
    make(&m, set, NULL, 0);
    CHECK_STATUS(rg_reducer_ready(m.reducer, 0), RG_ERR_INVALID);
    CHECK_STATUS(rg_reducer_finish(m.reducer), RG_ERR_INVALID);
    CHECK_OK(rg_reducer_start_step(m.reducer));
    CHECK_STATUS(rg_reducer_start_step(m.reducer), RG_ERR_INVALID);
    CHECK_STATUS(rg_reducer_ready(m.reducer, TENSORS), RG_ERR_INVALID);
    CHECK_STATUS(rg_reducer_ready(m.reducer, -1), RG_ERR_INVALID);
    for (int i = 0; i < TENSORS; i++)
        if (i != 4 || rank != last)
            CHECK_OK(rg_reducer_ready(m.reducer, i));
    CHECK_STATUS(rg_reducer_ready(m.reducer, 3), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "second time"));
    CHECK_STATUS(rg_reducer_finish(m.reducer), RG_ERR_INVALID);
    char words[64];
    snprintf(words, sizeof words, "tensor 4 (\"w4\") was not ready on rank %d",
             last);
    if (strstr(rg_last_error(), words) == NULL)
        CHECK_FAIL("\"%s\" is not in \"%s\"", words, rg_last_error());
    one_step(&m, set, 1, 0);
    check(&m, set, 1, RG_AVG);
    destroy(&m, 0);
}

static void what_is_missing_is_zero(rg_set *set)
{
    const rg_reducer_params params = {
        .size = sizeof params, .sum = 1, .may_miss = 1};
    const int n = rg_set_size(set), rank = rg_set_rank(set);
    model m;
    make(&m, set, &params, 1);
    CHECK_OK(rg_reducer_start_step(m.reducer));
    for (int i = 0; i < TENSORS; i++) {
        for (uint64_t k = 0; k < m.count[i]; k++)
            m.data[i][k] = 1;
        if (rank == n - 1 || i % 3 != 0)
            CHECK_OK(rg_reducer_ready(m.reducer, i));
    }
    CHECK_OK(rg_reducer_finish(m.reducer));
    for (int i = 0; i < TENSORS; i++)
        for (uint64_t k = 0; k < m.count[i]; k++)
            CHECK(m.data[i][k] == (float)(i % 3 == 0 ? 1 : n));
    destroy(&m, 1);
}

static void lists_are_compared(rg_set *set)
{
    static float a[8], b[8];
    const int n = rg_set_size(set), is_last = rg_set_rank(set) == n - 1;
    rg_reducer *r = NULL;
    CHECK_OK(rg_reducer_create(set, NULL, &r));
    CHECK_OK(rg_reducer_add(r, "a", a, 8, RG_F32, NULL));
    CHECK_OK(rg_reducer_add(r, is_last ? "c" : "b", b, 8, RG_F32, NULL));
    if (n > 1) {
        CHECK_STATUS(rg_reducer_start_step(r), RG_ERR_MISMATCH);
        CHECK(strstr(rg_last_error(),
                     "tensor 1 is \"b\", 8 of f32 on rank 0 and \"c\""));
    }
    rg_reducer_destroy(r);
}

/* Rank 0 has joined: the difference is one between the others. */
static void lists_are_compared_without_rank_0(rg_set *set)
{
    static float a[8];
    const int n = rg_set_size(set), is_last = rg_set_rank(set) == n - 1;
    rg_reducer *r = NULL;
    if (n > 2 && rg_set_rank(set) != 0) {
        CHECK_OK(rg_reducer_create(set, NULL, &r));
        CHECK_OK(rg_reducer_add(r, is_last ? "c" : "b", a, 8, RG_F32, NULL));
        CHECK_STATUS(rg_reducer_start_step(r), RG_ERR_MISMATCH);
        CHECK(strstr(rg_last_error(),
                     "tensor 0 is \"b\", 8 of f32 on rank 1 and \"c\""));
        rg_reducer_destroy(r);
    }
    CHECK_OK(rg_join(set, NULL));
}

/* Three backward passes add up before a step begins, also before the first one,
 * and when the buckets change: a step begins with what the tensors hold. */
static void gradients_may_be_accumulated(rg_set *set, int views)
{
    const rg_reducer_params params = {.size = sizeof params, .sum = 1};
    const int n = rg_set_size(set), rank = rg_set_rank(set);
    model m;
    make(&m, set, &params, views);
    for (int step = 0; step < 7; step++) {
        for (int i = 0; i < TENSORS; i++)
            memset(m.data[i], 0, m.count[i] * sizeof(float));
        for (int pass = 1; pass <= 3; pass++)
            for (int i = 0; i < TENSORS; i++)
                for (uint64_t k = 0; k < m.count[i]; k++)
                    m.data[i][k] += (float)(pass * (rank + 1) + i);
        CHECK_OK(rg_reducer_start_step(m.reducer));
        for (int i = 0; i < TENSORS; i++)
            CHECK_OK(rg_reducer_ready(m.reducer, i));
        CHECK_OK(rg_reducer_finish(m.reducer));
        for (int i = 0; i < TENSORS; i++)
            for (uint64_t k = 0; k < m.count[i]; k++)
                CHECK_EQ(m.data[i][k], 3 * n * (n + 1) + 3 * n * i);
    }
    destroy(&m, views);
}

/* The sums are the same whatever is copied; equal on all ranks. */
static int buckets_with(rg_set *set, uint64_t own_bytes)
{
    const rg_reducer_params params = {.size = sizeof params,
                                      .bucket_bytes = (uint64_t)4 << 20,
                                      .own_bytes = own_bytes};
    model m;
    make(&m, set, &params, 0);
    one_step(&m, set, 3, 0);
    check(&m, set, 3, RG_AVG);
    const int buckets = info_of(&m).buckets;
    destroy(&m, 0);
    return buckets;
}

static void own_bytes_say_what_is_copied(rg_set *set)
{
    const int none = buckets_with(set, UINT64_MAX);
    CHECK(buckets_with(set, 20000 / SHARE) >= none + 8);
    const uint64_t mine = rg_set_rank(set) == 0 ? 64 : 128;
    const rg_reducer_params params = {.size = sizeof params, .own_bytes = mine};
    model m;
    make(&m, set, &params, 0);
    if (rg_set_size(set) > 1)
        CHECK_STATUS(rg_reducer_start_step(m.reducer), RG_ERR_MISMATCH);
    destroy(&m, 0);
}

/* Rank r has r more steps than rank 0. */
static void ranks_may_join(rg_set *set)
{
    const rg_reducer_params params = {.size = sizeof params, .sum = 1};
    const int n = rg_set_size(set), rank = rg_set_rank(set);
    model m;
    int last = -1;
    make(&m, set, &params, 1);
    for (int step = 0; step < 2 + rank; step++) {
        CHECK_OK(rg_reducer_start_step(m.reducer));
        for (int i = 0; i < TENSORS; i++) {
            m.data[i][0] = 1;
            CHECK_OK(rg_reducer_ready(m.reducer, i));
        }
        CHECK_OK(rg_reducer_finish(m.reducer));
        const int there = step < 2 ? n : n - (step - 1);
        for (int i = 0; i < TENSORS; i++)
            CHECK_EQ(m.data[i][0], there);
    }
    CHECK_OK(rg_join(set, &last));
    CHECK_EQ(last, n - 1);
    destroy(&m, 1);
}

/* Rank 0 goes on alone in an order of its own, before the others' first step
 * (views only) and after it; the steps of all that follow are right. With
 * bucket_bytes of 0 it has steps enough for another size of buckets. */
static void no_plan_without_those_that_joined(rg_set *set, int is_first,
                                              uint64_t bucket_bytes)
{
    const rg_reducer_params params = {.size = sizeof params,
                                      .bucket_bytes = bucket_bytes};
    model m;
    make(&m, set, &params, 2);
    if (!is_first)
        one_step(&m, set, 0, 0);
    for (int step = 1; step < STEPS && rg_set_rank(set) == 0; step++)
        one_step(&m, set, step, 11);
    CHECK_OK(rg_join(set, NULL));
    for (int step = STEPS; step < STEPS + 3; step++) {
        one_step(&m, set, step, 3);
        check(&m, set, step, RG_AVG);
    }
    destroy(&m, 2);
}

/* Two reducers whose tensors are ready in another order on one rank, with
 * other names and with the same ones. */
static void buckets_are_not_confused(rg_set *set, const char *const name[2])
{
    static float data[2][8];
    const int n = rg_set_size(set), is_last = rg_set_rank(set) == n - 1;
    rg_reducer *r[2];
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rg_reducer_create(set, NULL, &r[i]));
        CHECK_OK(rg_reducer_add(r[i], name[i], data[i], 8, RG_F32, NULL));
        CHECK_OK(rg_reducer_start_step(r[i]));
    }
    CHECK_OK(rg_reducer_ready(r[is_last], 0));
    CHECK_OK(rg_reducer_ready(r[1 - is_last], 0));
    for (int i = 0; i < 2; i++) {
        if (n > 1)
            CHECK_STATUS(rg_reducer_finish(r[i]), RG_ERR_MISMATCH);
        rg_reducer_destroy(r[i]);
    }
}

typedef struct late {
    model *m;
    atomic_int begun, ready;
} late;

static void *be_late(void *arg)
{
    late *l = arg;
    for (int i = 0; i < TENSORS; i++) {
        l->begun = i + 1;
        const rg_status st = rg_reducer_ready(l->m->reducer, i);
        if (st == RG_OK)
            l->ready = i + 1;
        else
            CHECK_EQ(st, RG_ERR_INVALID);
    }
    return NULL;
}

/* What another thread does at that moment counts whole, or not at all. */
static void finish_may_come_early(rg_set *set)
{
    const rg_reducer_params params = {
        .size = sizeof params, .sum = 1, .may_miss = 1};
    model m;
    make(&m, set, &params, 0);
    for (int step = 0; step < TENSORS; step += 5) {
        pthread_t thread;
        late l = {.m = &m};
        int there[TENSORS];
        for (int i = 0; i < TENSORS; i++)
            for (uint64_t k = 0; k < m.count[i]; k++)
                m.data[i][k] = 1;
        CHECK_OK(rg_reducer_start_step(m.reducer));
        CHECK(pthread_create(&thread, NULL, be_late, &l) == 0);
        while (l.begun <= step)
            ;
        CHECK_OK(rg_reducer_finish(m.reducer));
        pthread_join(thread, NULL);
        for (int i = 0; i < TENSORS; i++)
            there[i] = i < l.ready;
        CHECK_OK(rg_allreduce(set, there, there, TENSORS, RG_I32, RG_SUM));
        for (int i = 0; i < TENSORS; i++)
            for (uint64_t k = 0; k < m.count[i]; k++)
                CHECK_EQ(m.data[i][k], there[i]);
    }
    destroy(&m, 0);
}

static void set_stays_until_its_reducer_has_gone(rg_ctx *ctx)
{
    const int first = 0;
    rg_set *set = NULL;
    rg_reducer *r = NULL;
    CHECK_OK(rg_set_create(ctx, &first, 1, NULL, &set));
    CHECK_OK(rg_reducer_create(set, NULL, &r));
    CHECK_STATUS(rg_set_destroy(set), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "has a reducer"));
    rg_reducer_destroy(r);
    CHECK_OK(rg_set_destroy(set));
}

static int claims(void)
{
    rg_ctx *ctx = NULL;
    rg_set *set = NULL;
    int ranks[8];
    CHECK_OK(rg_init(NULL, &ctx));
    for (int i = 0; i < rg_size(ctx); i++)
        ranks[i] = rg_size(ctx) - 1 - i;
    CHECK_OK(rg_set_create(ctx, ranks, rg_size(ctx), NULL, &set));
    for (int views = 0; views < 3; views++)
        sums_are_right(views == 1 ? set : rg_world(ctx), views, views == 2);
    for (int views = 0; views < 3; views++)
        gradients_may_be_accumulated(set, views);
    threads_may_be_ready(set);
    mistakes_are_named(set);
    what_is_missing_is_zero(rg_world(ctx));
    lists_are_compared(set);
    lists_are_compared_without_rank_0(set);
    own_bytes_say_what_is_copied(set);
    buckets_are_not_confused(set, (const char *[]){"a", "b"});
    buckets_are_not_confused(set, (const char *[]){"a", "a"});
    finish_may_come_early(set);
    set_stays_until_its_reducer_has_gone(ctx);
    ranks_may_join(rg_world(ctx));
    no_plan_without_those_that_joined(rg_world(ctx), 0, 100000 / SHARE);
    no_plan_without_those_that_joined(set, 1, 100000 / SHARE);
    no_plan_without_those_that_joined(rg_world(ctx), 0, 0);
    CHECK_OK(rg_set_destroy(set));
    CHECK_OK(rg_finalize(ctx));
    return 0;
}

/* ------------------------------------------------------------------ elastic */

typedef struct job {
    rg_ctx *ctx;
    model m;
    uint64_t steps, step;
} job;

static rg_status step_of(job *j)
{
    const int rank = rg_rank(j->ctx), step = (int)j->step;
    rg_status st = rg_reducer_start_step(j->m.reducer);
    for (int i = TENSORS - 1; i >= 0 && st == RG_OK; i--) {
        compute(&j->m, i, rank, step);
        st = rg_reducer_ready(j->m.reducer, i);
    }
    return st == RG_OK ? rg_reducer_finish(j->m.reducer) : st;
}

static rg_status train(rg_state *state, void *arg)
{
    job *j = arg;
    rg_status st = RG_OK;
    while (st == RG_OK && j->step < j->steps) {
        st = step_of(j);
        if (st != RG_OK)
            break;
        for (int i = 0; i < TENSORS; i++) {
            float mean = 0;
            for (int r = 0; r < rg_size(j->ctx); r++)
                mean += value(r, (int)j->step, i, 0);
            mean = mean / (float)rg_size(j->ctx) - j->m.data[i][0];
            CHECK(mean < 1e-4f && mean > -1e-4f);
        }
        j->step++;
        st = rg_state_commit(state);
    }
    printf("%s after %llu steps in generation %llu\n", rg_status_name(st),
           (unsigned long long)j->step,
           (unsigned long long)rg_generation(j->ctx));
    fflush(stdout);
    return st;
}

static int run(uint64_t steps)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    static job j;
    rg_state *state = NULL;
    j.steps = steps;
    CHECK_OK(rg_init(&params, &j.ctx));
    CHECK_OK(rg_state_create(j.ctx, NULL, &state));
    CHECK_OK(rg_state_add(state, "step", &j.step, sizeof j.step, NULL));
    make(&j.m, rg_world(j.ctx), NULL, 1);
    const rg_status st = rg_run(state, train, &j);
    destroy(&j.m, 1);
    rg_state_destroy(state);
    rg_finalize(j.ctx);
    return rg_exit_code(st);
}

int main(int argc, char **argv)
{
    return argc > 2 ? run(strtoull(argv[2], NULL, 10)) : claims();
}
