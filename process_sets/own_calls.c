/* Collectives for Regroup's own use: over the world, or over any channel. */
#include "process_sets/sets_parts.h"

static rg_status agree(rg_ctx *ctx, const char *what, const char *absent,
                       uint64_t tag, const int64_t in[4], int64_t out[4])
{
    const rg__coll coll = {.kind = RG__AGREE,
                           .type = RG_I64,
                           .op = RG_MAX,
                           .count = 4,
                           .send = in,
                           .recv = out,
                           .tag = tag,
                           .what = what,
                           .absent = absent};
    return rg__channel_run(ctx->sets->world.channel, &coll, 4 * sizeof *in,
                           4 * sizeof *out);
}

rg_status rg__world_agree(rg_ctx *ctx, const char *what, uint64_t tag,
                          const int64_t in[4], int64_t out[4])
{
    return agree(ctx, what, NULL, tag, in, out);
}

rg_status rg__world_agree_first(rg_ctx *ctx, const char *what, uint64_t tag,
                                const int64_t in[4], int64_t out[4])
{
    return agree(ctx, what,
                 "have not left fn since the generation before ended: fn must "
                 "return the status that it got, and not try again",
                 tag, in, out);
}

rg_status rg__world_broadcast(rg_ctx *ctx, void *data, uint64_t bytes, int root)
{
    const rg__coll coll = {.kind = RG__BROADCAST,
                           .type = RG_U8,
                           .root = root,
                           .count = bytes,
                           .recv = data};
    return rg__channel_run(ctx->sets->world.channel, &coll, 0, bytes);
}

rg_status rg__gather_over(rg__channel *channel, const char *what,
                          const void *mine, void *all, uint64_t bytes, int size)
{
    const rg__coll coll = {.kind = RG__ALLGATHER,
                           .type = RG_U8,
                           .count = bytes,
                           .send = mine,
                           .recv = all,
                           .what = what};
    return rg__channel_run(channel, &coll, bytes, bytes * (uint64_t)size);
}

rg_status rg__world_gather(rg_ctx *ctx, const char *what, const void *mine,
                           void *all, uint64_t bytes, int size)
{
    return rg__gather_over(ctx->sets->world.channel, what, mine, all, bytes,
                           size);
}

rg_status rg__reduce_over(rg__channel *channel, const char *what, uint64_t tag,
                          rg_type type, rg_op op, void *words, uint64_t n)
{
    const rg__coll coll = {.kind = RG__ALLREDUCE,
                           .type = type,
                           .op = op,
                           .count = n,
                           .send = words,
                           .recv = words,
                           .tag = tag,
                           .what = what};
    return rg__channel_run(channel, &coll, 8 * n, 8 * n);
}

rg_status rg__world_reduce(rg_ctx *ctx, const char *what, uint64_t tag,
                           double *v, uint64_t n, rg_op op)
{
    return rg__reduce_over(ctx->sets->world.channel, what, tag, RG_F64, op, v,
                           n);
}
