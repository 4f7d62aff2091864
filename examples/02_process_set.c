/* The same ranks in two sets at once: the world, and "even" or "odd". An
 * operation on each is in flight at the same time; neither waits for the other.
 *
 *   regroup run -n 4 build/dev/bin/process_set
 *
 * prints, in any order and after each worker's name:
 *
 *   rank 0 is 0 of 2 in even: the set's ranks add up to 2, the world's to 6
 *   rank 1 is 0 of 2 in odd: the set's ranks add up to 4, the world's to 6
 *   rank 2 is 1 of 2 in even: the set's ranks add up to 2, the world's to 6
 *   rank 3 is 1 of 2 in odd: the set's ranks add up to 4, the world's to 6
 */
#include <stdio.h>

#include <regroup/regroup.h>

#define MAX_RANKS 64

/* The set of ranks first, first + 2, ...: all ranks of the world make it,
 * members or not. */
static rg_status every_second(rg_ctx *ctx, int first, const char *name,
                              rg_set **set_p)
{
    int ranks[MAX_RANKS], n = 0;
    for (int rank = first; rank < rg_size(ctx) && n < MAX_RANKS; rank += 2)
        ranks[n++] = rank;
    const rg_set_params params = {.size = sizeof params, .name = name};
    return rg_set_create(ctx, ranks, n, &params, set_p);
}

static rg_status add_ranks(rg_ctx *ctx, rg_set *set)
{
    const int32_t mine = rg_rank(ctx);
    int32_t in_set = 0, in_world = 0;
    rg_req *reqs[2] = {NULL, NULL};
    rg_status st = rg_allreduce_start(set, &mine, &in_set, 1, RG_I32, RG_SUM,
                                      NULL, &reqs[0]);
    if (st == RG_OK)
        st = rg_allreduce_start(rg_world(ctx), &mine, &in_world, 1, RG_I32,
                                RG_SUM, NULL, &reqs[1]);
    if (st == RG_OK)
        st = rg_wait_all(reqs, 2, -1);
    if (st != RG_OK)
        return st;
    printf("rank %d is %d of %d in %s: the set's ranks add up to %d, the "
           "world's to %d\n",
           rg_rank(ctx), rg_set_rank(set), rg_set_size(set), rg_set_name(set),
           (int)in_set, (int)in_world);
    return RG_OK;
}

static rg_status story(rg_ctx *ctx)
{
    if (rg_size(ctx) < 2) {
        printf("a world of one has no odd rank; run it with -n 4\n");
        return RG_OK;
    }
    rg_set *even = NULL, *odd = NULL;
    rg_status st = every_second(ctx, 0, "even", &even);
    if (st == RG_OK)
        st = every_second(ctx, 1, "odd", &odd);
    if (st == RG_OK)
        st = add_ranks(ctx, rg_set_rank(even) >= 0 ? even : odd);
    rg_set_destroy(odd);
    rg_set_destroy(even);
    return st;
}

int main(void)
{
    rg_ctx *ctx = NULL;
    rg_status st = rg_init(NULL, &ctx);
    if (st == RG_OK)
        st = story(ctx);
    if (st != RG_OK)
        fprintf(stderr, "process_set: %s: %s\n", rg_status_text(st),
                rg_last_error());
    rg_finalize(ctx);
    return st == RG_OK ? 0 : 1;
}
