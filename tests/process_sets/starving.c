/* A reducer, Adasum and sums of rows where the last rank has no memory: the
 * call fails on all ranks, none waits, and the next one is right.
 *
 * It stands in for calloc, so it does not run under a sanitizer. */
#include <stdbool.h>

#include "tests/process_sets/gradients.h"

#define TENSORS 600  /* their buckets take more than LARGE */
#define LARGE   8192 /* bytes */
#define ROWS    2000

void *__libc_calloc(size_t n, size_t bytes);

static _Thread_local bool is_starving;

RG_API void *calloc(size_t n, size_t bytes)
{
    return is_starving && n * bytes >= LARGE ? NULL : __libc_calloc(n, bytes);
}

static rg_status without_memory(rg_status (*call)(void *), void *arg)
{
    is_starving = rank == size - 1;
    const rg_status st = call(arg);
    is_starving = false;
    return st;
}

static rg_status start(void *reducer)
{
    return rg_reducer_start_step(reducer);
}

static rg_status finish(void *reducer)
{
    return rg_reducer_finish(reducer);
}

static void be_ready(rg_reducer *r, float *data)
{
    for (int i = 0; i < TENSORS; i++) {
        data[i] = (float)(rank + i);
        CHECK_OK(rg_reducer_ready(r, i));
    }
}

static void check(const float *data)
{
    for (int i = 0; i < TENSORS; i++)
        CHECK_EQ(data[i], size * (size - 1) / 2 + size * i);
}

/* At its beginning, and when it makes the first plan. */
static void reducers(void)
{
    static float data[TENSORS];
    const rg_reducer_params params = {.size = sizeof params, .sum = 1};
    rg_reducer *r = NULL;
    CHECK_OK(rg_reducer_create(set, &params, &r));
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        CHECK_OK(rg_reducer_add(r, name, &data[i], 1, RG_F32, NULL));
    }
    CHECK_STATUS(without_memory(start, r), RG_ERR_MEMORY);
    CHECK_OK(rg_reducer_start_step(r));
    be_ready(r, data);
    CHECK_STATUS(without_memory(finish, r), RG_ERR_MEMORY);
    for (int step = 0; step < 3; step++) {
        CHECK_OK(rg_reducer_start_step(r));
        be_ready(r, data);
        CHECK_OK(rg_reducer_finish(r));
        check(data);
    }
    rg_reducer_destroy(r);
}

static rg_status adasum(void *data)
{
    return rg_adasum(set, data, TENSORS, RG_F32);
}

static void gradients(void)
{
    float data[TENSORS] = {1};
    CHECK_STATUS(without_memory(adasum, data), RG_ERR_MEMORY);
    CHECK_OK(adasum(data));
    CHECK(data[0] == 1);
}

static rg_status add_rows(void *sum_p)
{
    static uint64_t at[ROWS];
    static float rows[ROWS];
    for (int i = 0; i < ROWS; i++) {
        at[i] = (uint64_t)i;
        rows[i] = 1;
    }
    return rg_allreduce_rows(set, at, rows, ROWS, 1, RG_F32, RG_SUM, sum_p);
}

static void rows(void)
{
    rg_rows *sum = NULL;
    CHECK_STATUS(without_memory(add_rows, &sum), RG_ERR_MEMORY);
    CHECK_OK(add_rows(&sum));
    CHECK_EQ(sum->n, ROWS);
    CHECK_EQ(((const float *)sum->rows)[ROWS - 1], size);
    rg_rows_free(sum);
}

int main(void)
{
    begin();
    gradients();
    rows();
    reducers();
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
