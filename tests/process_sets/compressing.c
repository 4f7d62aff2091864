/* What compression of gradients claims, on any number of ranks; or with
 * `train STEPS WAY` an elastic loop that checks each step.
 *
 * The oracle of top k simulates all ranks with a sort; that of halves is the
 * average in double. */
#include <math.h>

#include "sdk/base/unseen.h"
#include "tests/process_sets/gradients.h"

#define COUNT   5003 /* a prime: no block ends with it */
#define TRAINED 300000
#define STEPS   12
#define RANKS   8

RG__UNSEEN static double value(int r, int step, int k)
{
    const int mix = (r * 7919 + step * 104729 + k * 31) % 1009;
    return (mix - 504) * 0.0137 + (k % 11) * 0.25 * (r + 1);
}

static rg_reducer *make(const rg_reducer_params *params, void *data,
                        rg_type type)
{
    rg_reducer *r = NULL;
    static float small[3];
    CHECK_OK(rg_reducer_create(set, params, &r));
    CHECK_OK(rg_reducer_add(r, "small", small, 3, RG_F32, NULL));
    CHECK_OK(rg_reducer_compress(r, 0, RG_COMPRESS_NONE));
    CHECK_OK(rg_reducer_add(r, "large", data, COUNT, type, NULL));
    return r;
}

static void *memory_of(rg_reducer *r)
{
    void *at = NULL;
    CHECK_OK(rg_reducer_tensor(r, 1, &at));
    return at;
}

static void step_of(rg_reducer *r)
{
    void *small = NULL;
    CHECK_OK(rg_reducer_tensor(r, 0, &small));
    for (int k = 0; k < 3; k++)
        ((float *)small)[k] = 1.0f + 0x1p-20f;
    CHECK_OK(rg_reducer_start_step(r));
    CHECK_OK(rg_reducer_ready(r, 1));
    CHECK_OK(rg_reducer_ready(r, 0));
    CHECK_OK(rg_reducer_finish(r));
    /* It was not compressed. */
    const double one = (double)((float *)small)[2];
    CHECK(fabs(one - 1 - 0x1p-20) < 0x1p-22 ||
          fabs(one / size - 1 - 0x1p-20) < 0x1p-22);
}

static double get(const void *data, rg_type type, int k)
{
    return type == RG_F64 ? ((const double *)data)[k]
                          : (double)((const float *)data)[k];
}

static void put(void *data, rg_type type, int k, double x)
{
    if (type == RG_F64)
        ((double *)data)[k] = x;
    else
        ((float *)data)[k] = (float)x;
}

/* ------------------------------------------------------------------- halves */

RG__UNSEEN static double average(int step, int k)
{
    double sum = 0;
    for (int r = 0; r < size; r++)
        sum += value(r, step, k);
    return sum / size;
}

/* Rounded once on each rank, and once for each host and in the end; no sum is
 * larger than the largest of all. */
static void halves_are_near(rg_compression way, rg_type type, int is_view)
{
    const rg_reducer_params params = {.size = sizeof params,
                                      .compression = way};
    const double unit = way == RG_COMPRESS_F16 ? 0x1p-11 : 0x1p-8;
    void *own = is_view ? NULL : calloc(COUNT, sizeof(double));
    rg_reducer *r = make(&params, own, type);
    void *data = memory_of(r);
    CHECK(is_view ? data != NULL : data == own);
    for (int step = 0; step < 3; step++) {
        for (int k = 0; k < COUNT; k++)
            put(data, type, k, value(rank, step, k));
        step_of(r);
        for (int k = 0; k < COUNT; k++) {
            double most = 0;
            for (int q = 0; q < size; q++)
                most = fmax(most, fabs(value(q, step, k)));
            const double off = get(data, type, k) - average(step, k);
            CHECK(fabs(off) <= (3 + size) * unit * most + 1e-6);
        }
        all_have_equal_bits(data, COUNT * rg_type_size(type));
    }
    rg_reducer_destroy(r);
    free(own);
}

/* A gradient between two halves, the same in each step: with feedback the mean
 * of the results comes to it, without it never does. */
static void feedback_keeps_what_is_rounded(rg_compression way, int is_fed)
{
    const rg_reducer_params params = {
        .size = sizeof params, .compression = way, .error_feedback = is_fed};
    const float x = way == RG_COMPRESS_F16 ? 1.0f + 0x1p-13f : 1.0f + 0x1p-10f;
    static float data[COUNT];
    rg_reducer *r = make(&params, data, RG_F32);
    double sum = 0;
    for (int step = 0; step < 64; step++) {
        for (int k = 0; k < COUNT; k++)
            data[k] = x;
        step_of(r);
        sum += (double)data[COUNT - 1];
    }
    const double off = fabs(sum / 64 - (double)x);
    CHECK(is_fed ? off < (double)(x - 1) / 4 : off == (double)(x - 1));
    rg_reducer_destroy(r);
}

/* What is out of range is seen, once. */
static void infinity_leaves_no_residual(rg_compression way)
{
    const rg_reducer_params params = {.size = sizeof params,
                                      .compression = way,
                                      .error_feedback = 1,
                                      .top_k = 1};
    static float data[COUNT];
    rg_reducer *r = make(&params, data, RG_F32);
    for (int step = 0; step < 2; step++) {
        for (int k = 0; k < COUNT; k++)
            data[k] = step == 1 ? 1 : k == 7 ? INFINITY : k == 9 ? NAN : 1;
        step_of(r);
        CHECK(step == 1 ? data[7] == 1 : isinf(data[7]));
        CHECK(step == 1 ? data[9] == 1 : isnan(data[9]));
    }
    rg_reducer_destroy(r);
}

/* -------------------------------------------------------------------- top k */

static const float *sorted_by;

RG__UNSEEN static int by_magnitude(const void *a, const void *b)
{
    const int i = *(const int *)a, j = *(const int *)b;
    const float x = fabsf(sorted_by[i]), y = fabsf(sorted_by[j]);
    return x > y ? -1 : x < y ? 1 : (i > j) - (i < j);
}

static void simulate(float residual[RANKS][COUNT], float *sum, int kept,
                     int step)
{
    static int index[COUNT];
    memset(sum, 0, COUNT * sizeof *sum);
    for (int r = 0; r < size; r++) {
        for (int k = 0; k < COUNT; k++) {
            residual[r][k] += (float)value(r, step, k);
            index[k] = k;
        }
        sorted_by = residual[r];
        qsort(index, COUNT, sizeof *index, by_magnitude);
        for (int k = 0; k < kept; k++) {
            sum[index[k]] += residual[r][index[k]];
            residual[r][index[k]] = 0;
        }
    }
}

static void largest_travel(double part, int is_view)
{
    const rg_reducer_params params = {.size = sizeof params,
                                      .sum = 1,
                                      .compression = RG_COMPRESS_TOP_K,
                                      .top_k = part};
    static float residual[RANKS][COUNT], sum[COUNT], own[COUNT];
    const int kept = part * COUNT < 1 ? 1 : (int)(part * COUNT);
    rg_reducer *r = make(&params, is_view ? NULL : own, RG_F32);
    float *data = memory_of(r);
    memset(residual, 0, sizeof residual);
    for (int step = 0; step < STEPS; step++) {
        for (int k = 0; k < COUNT; k++)
            data[k] = (float)value(rank, step, k);
        step_of(r);
        simulate(residual, sum, kept, step);
        for (int k = 0; k < COUNT; k++)
            if (data[k] != sum[k])
                CHECK_FAIL("element %d of step %d is %.9g, not %.9g", k, step,
                           (double)data[k], (double)sum[k]);
    }
    rg_reducer_destroy(r);
}

/* All that was given and has not come is in the residuals, and comes within
 * some times 1 / top_k steps in which none gives any. */
static void nothing_is_lost(void)
{
    enum { GIVING = 40, ALL = 200 };
    const rg_reducer_params params = {
        .size = sizeof params, .compression = RG_COMPRESS_TOP_K, .top_k = 0.02};
    static double data[COUNT], given[COUNT], came[COUNT];
    rg_reducer *r = make(&params, data, RG_F64);
    for (int step = 0; step < ALL; step++) {
        for (int k = 0; k < COUNT; k++) {
            data[k] = step < GIVING ? value(rank, step, k) : 0;
            given[k] += step < GIVING ? average(step, k) : 0;
        }
        step_of(r);
        for (int k = 0; k < COUNT; k++)
            came[k] += data[k];
    }
    for (int k = 0; k < COUNT; k++)
        CHECK(fabs(given[k] - came[k]) < 1e-6);
    rg_reducer_destroy(r);
}

/* ------------------------------------------------------ ranks that joined */

/* Rank r has r more steps than rank 0. */
static void ranks_may_join(rg_compression way)
{
    const rg_reducer_params params = {
        .size = sizeof params, .sum = 1, .compression = way, .top_k = 1};
    rg_reducer *r = NULL;
    void *at = NULL;
    CHECK_OK(rg_reducer_create(set, &params, &r));
    CHECK_OK(rg_reducer_add(r, "w", NULL, 100, RG_F32, NULL));
    CHECK_OK(rg_reducer_tensor(r, 0, &at));
    float *data = at;
    for (int step = 0; step < 2 + rank; step++) {
        for (int k = 0; k < 100; k++)
            data[k] = 1;
        CHECK_OK(rg_reducer_start_step(r));
        CHECK_OK(rg_reducer_ready(r, 0));
        CHECK_OK(rg_reducer_finish(r));
        for (int k = 0; k < 100; k++)
            CHECK(data[k] == (float)(step < 2 ? size : size - (step - 1)));
    }
    CHECK_OK(rg_join(set, NULL));
    rg_reducer_destroy(r);
}

static void mistakes_are_named(void)
{
    const rg_reducer_params bad = {.size = sizeof bad, .top_k = 1.5};
    rg_reducer *r = NULL;
    CHECK_STATUS(rg_reducer_create(set, &bad, &r), RG_ERR_INVALID);
    CHECK_OK(rg_reducer_create(set, NULL, &r));
    CHECK_OK(rg_reducer_add(r, "w", NULL, 8, RG_F32, NULL));
    CHECK_STATUS(rg_reducer_compress(r, 1, RG_COMPRESS_F16), RG_ERR_INVALID);
    if (size > 1) {
        CHECK_OK(rg_reducer_compress(
            r, 0, rank == size - 1 ? RG_COMPRESS_BF16 : RG_COMPRESS_NONE));
        CHECK_STATUS(rg_reducer_start_step(r), RG_ERR_MISMATCH);
        CHECK(strstr(rg_last_error(), "8 of f32 as bf16"));
    }
    rg_reducer_destroy(r);
}

static int claims(void)
{
    static const rg_compression halves[] = {RG_COMPRESS_F16, RG_COMPRESS_BF16};
    begin();
    for (int w = 0; w < 2; w++) {
        halves_are_near(halves[w], RG_F32, w);
        halves_are_near(halves[w], RG_F64, !w);
        feedback_keeps_what_is_rounded(halves[w], 0);
        feedback_keeps_what_is_rounded(halves[w], 1);
        infinity_leaves_no_residual(halves[w]);
        ranks_may_join(halves[w]);
    }
    largest_travel(0.01, 0);
    largest_travel(0.3, 1);
    largest_travel(1e-9, 0);
    infinity_leaves_no_residual(RG_COMPRESS_TOP_K);
    nothing_is_lost();
    ranks_may_join(RG_COMPRESS_TOP_K);
    mistakes_are_named();
    CHECK_OK(rg_finalize(ctx));
    return 0;
}

/* ------------------------------------------------------------------ elastic */

typedef struct job {
    rg_ctx *ctx;
    rg_reducer *reducer;
    float *data;
    uint64_t steps, step;
    rg_compression way;
} job;

/* With the larger half of the elements, what travels is 64 of one half in the
 * first step of a generation, when nothing is left of former ones; then 80 of
 * the other half and 128 of the first one by turns. */
static rg_status step_in(job *j, int nth)
{
    const int n = rg_size(j->ctx), all = j->way != RG_COMPRESS_TOP_K;
    const int first = all || nth == 0 ? 64 : nth % 2 == 0 ? 128 : 0;
    const int second = all ? 40 : nth % 2 == 0 ? 0 : 80;
    for (int k = 0; k < TRAINED; k++)
        j->data[k] = k < TRAINED / 2 ? 64 : 40;
    rg_status st = rg_reducer_start_step(j->reducer);
    if (st == RG_OK)
        st = rg_reducer_ready(j->reducer, 0);
    if (st == RG_OK)
        st = rg_reducer_finish(j->reducer);
    for (int k = 0; k < TRAINED && st == RG_OK; k++)
        CHECK(j->data[k] == (float)(n * (k < TRAINED / 2 ? first : second)));
    return st;
}

static rg_status train(rg_state *state, void *arg)
{
    job *j = arg;
    rg_status st = RG_OK;
    for (int nth = 0; st == RG_OK && j->step < j->steps; nth++) {
        st = step_in(j, nth);
        if (st != RG_OK)
            break;
        j->step++;
        st = rg_state_commit(state);
    }
    printf("%s after %llu steps in generation %llu\n", rg_status_name(st),
           (unsigned long long)j->step,
           (unsigned long long)rg_generation(j->ctx));
    fflush(stdout);
    return st;
}

static int run(uint64_t steps, rg_compression way)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    const rg_reducer_params how = {.size = sizeof how,
                                   .sum = 1,
                                   .error_feedback = 1,
                                   .compression = way,
                                   .top_k = 0.5};
    static job j;
    rg_state *state = NULL;
    void *at = NULL;
    j.steps = steps;
    j.way = way;
    CHECK_OK(rg_init(&params, &j.ctx));
    CHECK_OK(rg_state_create(j.ctx, NULL, &state));
    CHECK_OK(rg_state_add(state, "step", &j.step, sizeof j.step, NULL));
    CHECK_OK(rg_reducer_create(rg_world(j.ctx), &how, &j.reducer));
    CHECK_OK(rg_reducer_add(j.reducer, "w", NULL, TRAINED, RG_F32, NULL));
    CHECK_OK(rg_reducer_tensor(j.reducer, 0, &at));
    j.data = at;
    const rg_status st = rg_run(state, train, &j);
    rg_reducer_destroy(j.reducer);
    rg_state_destroy(state);
    rg_finalize(j.ctx);
    return rg_exit_code(st);
}

int main(int argc, char **argv)
{
    return argc > 3
               ? run(strtoull(argv[2], NULL, 10), (rg_compression)atoi(argv[3]))
               : claims();
}
