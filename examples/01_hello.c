/* Every worker says who it is, and all of them add their ranks.
 *
 *   regroup run -n 4 build/dev/bin/hello
 *
 * prints one line per worker, in any order, each with its worker's name in
 * front:
 *
 *   h1.0 r0 | rank 0 of 4 on host h1, slot 0: the ranks add up to 6
 *
 * Without `regroup run` it is a world of one, and the sum is 0. */
#include <stdio.h>

#include <regroup/regroup.h>

static rg_status hello(rg_ctx *ctx)
{
    const int32_t mine = rg_rank(ctx);
    int32_t sum = 0;
    rg_status st = rg_allreduce(rg_world(ctx), &mine, &sum, 1, RG_I32, RG_SUM);
    if (st != RG_OK)
        return st;
    printf("rank %d of %d on host %s, slot %d: the ranks add up to %d\n",
           rg_rank(ctx), rg_size(ctx), rg_host(ctx), rg_slot(ctx), (int)sum);
    return RG_OK;
}

int main(void)
{
    rg_ctx *ctx = NULL;
    rg_status st = rg_init(NULL, &ctx); /* waits until the world has formed */
    if (st == RG_OK)
        st = hello(ctx);
    if (st != RG_OK)
        fprintf(stderr, "hello: %s: %s\n", rg_status_text(st), rg_last_error());
    rg_finalize(ctx);
    return st == RG_OK ? 0 : 1;
}
