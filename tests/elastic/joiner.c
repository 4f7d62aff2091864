/* The first rank has no data and joins; the others add up so many MiB of i32.
 *
 *   joiner MIB */
#include <stdio.h>
#include <stdlib.h>

#include "regroup/regroup.h"

static rg_status add_up(rg_set *set, uint64_t count)
{
    const int others = rg_set_size(set) - 1;
    int32_t *data = malloc(count * sizeof *data);
    if (data == NULL)
        return RG_ERR_MEMORY;
    for (uint64_t i = 0; i < count; i++)
        data[i] = (int32_t)i;
    rg_status st = rg_allreduce(set, data, data, count, RG_I32, RG_SUM);
    for (uint64_t i = 0; i < count && st == RG_OK; i++)
        if (data[i] != (int32_t)i * others)
            st = RG_ERR_SYSTEM;
    free(data);
    return st;
}

int main(int argc, char **argv)
{
    rg_ctx *ctx = NULL;
    rg_status st = argc == 2 ? rg_init(NULL, &ctx) : RG_ERR_INVALID;
    const uint64_t mib = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
    if (st == RG_OK && rg_rank(ctx) > 0)
        st = add_up(rg_world(ctx), mib << 18);
    if (st == RG_OK)
        st = rg_join(rg_world(ctx), NULL);
    if (st != RG_OK)
        fprintf(stderr, "joiner: %s: %s\n", rg_status_name(st),
                rg_last_error());
    rg_finalize(ctx);
    return st == RG_OK ? 0 : 1;
}
