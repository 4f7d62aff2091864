/* Adasum and sums of rows, on any number of ranks, beside oracles in double. */
#include <math.h>

#include "tests/process_sets/gradients.h"

#define COUNT 3001
#define RANKS 8

static double value(int r, int i, int k)
{
    return ((r * 7919 + i * 101 + k * 31) % 1009 - 504) * 0.004 +
           (k % 3 == 0 ? 0.5 : 0);
}

/* ------------------------------------------------------------------- Adasum */

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (int k = 0; k < COUNT; k++)
        sum += a[k] * b[k];
    return sum;
}

static void add(double *a, const double *b)
{
    const double ab = dot(a, b), aa = dot(a, a), bb = dot(b, b);
    const double x = aa == 0 ? 1 : 1 - ab / (2 * aa);
    const double y = bb == 0 ? 1 : 1 - ab / (2 * bb);
    for (int k = 0; k < COUNT; k++)
        a[k] = x * a[k] + y * b[k];
}

/* The definition, step by step. The result is in the first vector. */
static void add_all(double v[RANKS][COUNT])
{
    int power = 1;
    while (2 * power <= size)
        power *= 2;
    for (int i = power; i < size; i++)
        add(v[i - power], v[i]);
    for (int apart = 1; apart < power; apart *= 2)
        for (int i = 0; i < power; i += 2 * apart)
            add(v[i], v[i + apart]);
}

/* All of a type, made from the last one to the first. */
static const float *halves(rg_type type)
{
    static float of_f16[65536], of_bf16[65536];
    float *all = type == RG_F16 ? of_f16 : of_bf16;
    for (int h = 65535; h > 0 && all[1] == 0; h--) {
        const int exponent = h >> 10 & 31, fraction = h & 1023;
        const uint32_t bits = (uint32_t)h << 16;
        if (type == RG_BF16)
            memcpy(&all[h], &bits, sizeof bits);
        else
            all[h] = (float)((h >> 15 ? -1 : 1) *
                             (exponent == 0
                                  ? ldexp(fraction, -24)
                                  : ldexp(1024 + fraction, exponent - 25)));
    }
    return all;
}

static double get(const void *data, rg_type type, int k)
{
    if (type == RG_F64)
        return ((const double *)data)[k];
    if (type == RG_F32)
        return (double)((const float *)data)[k];
    return (double)halves(type)[((const uint16_t *)data)[k]];
}

/* Truncated; what is too small is 0. */
static uint16_t half_of(double x)
{
    int e = 0;
    const int fraction = (int)(frexp(fabs(x), &e) * 2048) - 1024;
    if (x == 0 || e < -13)
        return 0;
    return (uint16_t)((x < 0) << 15 | (e + 14) << 10 | fraction);
}

static void put(void *data, rg_type type, int k, double x)
{
    const float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (type == RG_F64)
        ((double *)data)[k] = x;
    else if (type == RG_F32)
        ((float *)data)[k] = f;
    else
        ((uint16_t *)data)[k] =
            type == RG_F16 ? half_of(x) : (uint16_t)(bits >> 16);
}

static void check(const void *data, rg_type type, int i, double unit)
{
    static double v[RANKS][COUNT], x[COUNT];
    for (int r = 0; r < size; r++)
        for (int k = 0; k < COUNT; k++) {
            put(x, type, k, value(r, i, k));
            v[r][k] = get(x, type, k);
        }
    add_all(v);
    for (int k = 0; k < COUNT; k++)
        if (fabs(get(data, type, k) - v[0][k]) > 8 * unit)
            CHECK_FAIL("element %d is %.9g, not %.9g", k, get(data, type, k),
                       v[0][k]);
    all_have_equal_bits(data, COUNT * rg_type_size(type));
}

static void adasum_has_its_definition(rg_type type, double unit)
{
    static double data[COUNT];
    for (int k = 0; k < COUNT; k++)
        put(data, type, k, value(rank, 1, k));
    CHECK_OK(rg_adasum(set, data, COUNT, type));
    check(data, type, 1, unit);
}

/* Equal vectors are averaged, orthogonal ones are added. */
static void adasum_has_its_closed_forms(void)
{
    static float data[2 * RANKS];
    for (int k = 0; k < 2 * RANKS; k++)
        data[k] = (float)k;
    CHECK_OK(rg_adasum(set, data, 2 * RANKS, RG_F32));
    for (int k = 0; k < 2 * RANKS; k++)
        CHECK(fabs((double)data[k] - k) < 1e-5);
    for (int k = 0; k < 2 * RANKS; k++)
        data[k] = k % RANKS == rank ? 3 : 0;
    CHECK_OK(rg_adasum(set, data, 2 * RANKS, RG_F32));
    for (int k = 0; k < 2 * RANKS; k++)
        CHECK(data[k] == (k % RANKS < size ? 3 : 0));
    memset(data, 0, sizeof data);
    CHECK_OK(rg_adasum(set, data, 2 * RANKS, RG_F32));
    CHECK(data[0] == 0);
}

/* Each tensor has its own factors; more elements than one message has. */
static void reducers_have_it_too(void)
{
    const rg_reducer_params params = {.size = sizeof params, .adasum = 1};
    static double wide[COUNT];
    static float more[700001];
    rg_reducer *r = NULL;
    void *view = NULL;
    CHECK_OK(rg_reducer_create(set, &params, &r));
    CHECK_OK(rg_reducer_add(r, "view", NULL, COUNT, RG_F32, NULL));
    CHECK_OK(rg_reducer_add(r, "wide", wide, COUNT, RG_F64, NULL));
    CHECK_OK(rg_reducer_add(r, "more", more, 700001, RG_F32, NULL));
    CHECK_OK(rg_reducer_tensor(r, 0, &view));
    for (int step = 0; step < 3; step++) {
        for (int k = 0; k < COUNT; k++) {
            put(view, RG_F32, k, value(rank, 2, k));
            put(wide, RG_F64, k, value(rank, 3, k));
        }
        for (int k = 0; k < 700001; k++)
            more[k] = (float)(k % 1000);
        CHECK_OK(rg_reducer_start_step(r));
        for (int i = 0; i < 3; i++)
            CHECK_OK(rg_reducer_ready(r, i));
        CHECK_OK(rg_reducer_finish(r));
        check(view, RG_F32, 2, 0x1p-22);
        check(wide, RG_F64, 3, 0x1p-48);
        for (int k = 0; k < 700001; k++)
            CHECK(fabsf(more[k] - (float)(k % 1000)) < 1e-3f);
    }
    rg_reducer_destroy(r);
}

/* Rank r has r more calls than rank 0; those that are there are equal. */
static void ranks_may_have_joined(void)
{
    float data[100];
    for (int call = 0; call < 1 + rank; call++) {
        const uint64_t at[] = {(uint64_t)rank};
        rg_rows *rows = NULL;
        for (int k = 0; k < 100; k++)
            data[k] = 5;
        CHECK_OK(rg_adasum(set, data, 100, RG_F32));
        for (int k = 0; k < 100; k++)
            CHECK(fabsf(data[k] - 5) < 1e-5f);
        CHECK_OK(
            rg_allreduce_rows(set, at, data, 1, 100, RG_F32, RG_SUM, &rows));
        CHECK_EQ(rows->n, size - call);
        CHECK_EQ(rows->at[0], call);
        rg_rows_free(rows);
    }
    CHECK_OK(rg_join(set, NULL));
}

/* --------------------------------------------------------------------- rows */

/* Rank r gives 5 r + 1 rows, one place twice, and one of all ranks. */
static int rows_of(int r, uint64_t *at)
{
    const int n = 5 * r + 1;
    for (int i = 0; i < n; i++)
        at[i] = i == 0 ? 40 : (uint64_t)((r * 13 + i / 2 * 17) % 40);
    return n;
}

static void rows_are_added_up(rg_type type, rg_op op, int width, double unit)
{
    uint64_t at[64], places = 0;
    static double given[64 * 37], table[41][37], number[41];
    rg_rows *rows = NULL;
    memset(table, 0, sizeof table);
    memset(number, 0, sizeof number);
    for (int r = 0; r < size; r++) {
        const int n = rows_of(r, at);
        for (int i = 0; i < n; i++) {
            number[at[i]]++;
            for (int k = 0; k < width; k++) {
                put(given, type, 0, value(r, i, k));
                table[at[i]][k] +=
                    get(given, type, 0) / (op == RG_AVG ? size : 1);
            }
        }
    }
    const int n = rows_of(rank, at);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < width; k++)
            put(given, type, i * width + k, value(rank, i, k));
    CHECK_OK(rg_allreduce_rows(set, at, given, (uint64_t)n, (uint64_t)width,
                               type, op, &rows));
    for (int p = 0; p <= 40; p++) {
        if (number[p] == 0)
            continue;
        CHECK_EQ(rows->at[places], p);
        for (int k = 0; k < width; k++)
            CHECK(fabs(get(rows->rows, type, (int)places * width + k) -
                       table[p][k]) <= unit * (fabs(table[p][k]) + 1));
        places++;
    }
    CHECK_EQ(rows->n, places);
    all_have_equal_bits(rows->rows,
                        rows->n * (uint64_t)width * rg_type_size(type));
    rg_rows_free(rows);
}

static void mistakes_are_named(void)
{
    const uint64_t at = 1;
    double row[2] = {1, 2};
    rg_rows *rows = NULL;
    CHECK_STATUS(rg_allreduce_rows(set, &at, row, 1, 0, RG_F64, RG_SUM, &rows),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_allreduce_rows(set, &at, row, 1, 2, RG_F64, RG_MAX, &rows),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_adasum(set, row, 2, RG_I32), RG_ERR_INVALID);
    CHECK_OK(rg_allreduce_rows(set, NULL, NULL, 0, 2, RG_F64, RG_SUM, &rows));
    CHECK_EQ(rows->n, 0);
    rg_rows_free(rows);
    if (size > 1) {
        CHECK_STATUS(rg_adasum(set, row, 2, rank == 0 ? RG_F32 : RG_F16),
                     RG_ERR_MISMATCH);
        CHECK(strstr(rg_last_error(), "differ in the arguments of Adasum"));
        CHECK_STATUS(rg_adasum(set, row, rank == 0 ? 1 : 2, RG_F64),
                     RG_ERR_MISMATCH);
        CHECK(strstr(rg_last_error(), "differ in the arguments of Adasum"));
    }
    if (size > 1)
        CHECK_STATUS(rg_allreduce_rows(set, &at, row, 1, rank == 0 ? 1 : 2,
                                       RG_F64, RG_SUM, &rows),
                     RG_ERR_MISMATCH);
    if (size > 1)
        CHECK_STATUS(rg_allreduce_rows(set, &at, row, 1, 2, RG_F64,
                                       rank == 0 ? RG_SUM : RG_AVG, &rows),
                     RG_ERR_MISMATCH);
}

int main(void)
{
    begin();
    adasum_has_its_definition(RG_F64, 0x1p-48);
    adasum_has_its_definition(RG_F32, 0x1p-22);
    adasum_has_its_definition(RG_F16, 0x1p-10);
    adasum_has_its_definition(RG_BF16, 0x1p-7);
    adasum_has_its_closed_forms();
    reducers_have_it_too();
    rows_are_added_up(RG_F32, RG_SUM, 37, 0x1p-23);
    rows_are_added_up(RG_F64, RG_AVG, 1, 0x1p-50);
    rows_are_added_up(RG_F16, RG_AVG, 5, 0x1p-10);
    rows_are_added_up(RG_BF16, RG_SUM, 3, 0x1p-7);
    mistakes_are_named();
    ranks_may_have_joined();
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
