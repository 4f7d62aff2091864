/* The same calls in C, for bench_python: in its process and its world. Times in
 * seconds for each call; below 0: a call has failed. */
#include <time.h>

#include "regroup/regroup.h"

#define MOST 1024

double bench_allreduce(rg_set *set, void *data, uint64_t count, int n);
double bench_group(rg_ctx *ctx, rg_set *set, void **data, int tensors,
                   uint64_t count, int n);

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

RG_API double bench_allreduce(rg_set *set, void *data, uint64_t count, int n)
{
    const double begin = now_s();
    for (int i = 0; i < n; i++)
        if (rg_allreduce(set, data, data, count, RG_F32, RG_MAX) != RG_OK)
            return -1;
    return (now_s() - begin) / n;
}

static rg_status reduce_group(rg_ctx *ctx, rg_set *set, void **data,
                              int tensors, uint64_t count)
{
    rg_req *reqs[MOST] = {NULL};
    rg_status st = rg_group_start(ctx);
    for (int i = 0; i < tensors && st == RG_OK; i++)
        st = rg_allreduce_start(set, data[i], data[i], count, RG_F32, RG_MAX,
                                NULL, &reqs[i]);
    if (st == RG_OK)
        st = rg_group_end(ctx);
    return st == RG_OK ? rg_wait_all(reqs, tensors, -1) : st;
}

RG_API double bench_group(rg_ctx *ctx, rg_set *set, void **data, int tensors,
                          uint64_t count, int n)
{
    const double begin = now_s();
    for (int i = 0; i < n; i++)
        if (tensors > MOST ||
            reduce_group(ctx, set, data, tensors, count) != RG_OK)
            return -1;
    return (now_s() - begin) / n;
}
