/* An operation waits for a member that is held back until another set has
 * completed many; the two have ranks in common or none, and the late one may
 * be part of a group over both. With one queue for several sets the held member
 * would never be released. Also when ranks start on two sets in different
 * orders.
 *
 * Covers: mpi_comm.c */
#include <stdbool.h>

#include "tests/mpi/mpi_check.h"

#define TIMES 20

static rg_ctx *ctx;
static int rank, size;

static rg_set *make(int first, int n)
{
    int ranks[MEMBERS_MAX];
    rg_set *set = NULL;
    for (int i = 0; i < n; i++)
        ranks[i] = first + i;
    CHECK_OK(rg_set_create(ctx, ranks, n, NULL, &set));
    return set;
}

static bool is_member(const rg_set *set)
{
    return rg_set_rank(set) >= 0;
}

static rg_req *start(rg_set *set, int *sum)
{
    static const int one = 1;
    rg_req *req = NULL;
    CHECK_OK(rg_allreduce_start(set, &one, sum, 1, RG_I32, RG_SUM, NULL, &req));
    return req;
}

/* On the sets given that this rank is in, in a group or not. */
static void start_on(bool is_group, rg_set *late, rg_req **late_p, int *sum,
                     rg_set *set, rg_req **quick_p, int *other)
{
    if (is_group)
        CHECK_OK(rg_group_start(ctx));
    if (late != NULL && is_member(late))
        *late_p = start(late, sum);
    if (set != NULL && is_member(set))
        *quick_p = start(set, other);
    if (is_group)
        CHECK_OK(rg_group_end(ctx));
}

/* The world's barrier releases the held rank. */
static void hold(rg_set *late, rg_set *set, bool is_group)
{
    const bool is_held = rank == size - 1;
    int sum = 0, other = 0;
    rg_req *req = NULL, *quick = NULL;
    start_on(is_group, is_held ? NULL : late, &req, &sum, set, &quick, &other);
    for (int i = 0; i < TIMES && is_member(set); i++) {
        if (quick == NULL)
            quick = start(set, &other);
        CHECK_OK(rg_wait(&quick, -1));
        CHECK_EQ(other, rg_set_size(set));
    }
    if (req != NULL)
        CHECK_STATUS(rg_wait(&req, 0), RG_IN_PROGRESS);
    CHECK_OK(rg_barrier(rg_world(ctx)));
    if (is_held)
        start_on(is_group, late, &req, &sum, NULL, NULL, NULL);
    if (req == NULL)
        return;
    CHECK_OK(rg_wait(&req, -1));
    CHECK_EQ(sum, rg_set_size(late));
}

static void any_order(rg_set *a, rg_set *b)
{
    int in_a = 0, in_b = 0;
    for (int i = 0; i < 50; i++) {
        const int is_first = (rank + i) % 2;
        rg_req *one = start(is_first ? a : b, is_first ? &in_a : &in_b);
        rg_req *two = start(is_first ? b : a, is_first ? &in_b : &in_a);
        CHECK_OK(rg_wait(&one, -1));
        CHECK_OK(rg_wait(&two, -1));
        CHECK_EQ(in_a, size);
        CHECK_EQ(in_b, size);
    }
}

int main(void)
{
    CHECK_OK(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    rg_set *all = make(0, size), *most = make(0, size - 1);
    rg_set *low = make(0, size / 2), *high = make(size / 2, size - size / 2);
    for (int is_group = 0; is_group < 2; is_group++) {
        hold(all, most, is_group != 0);
        hold(high, low, is_group != 0);
    }
    any_order(all, rg_world(ctx));
    CHECK_OK(rg_set_destroy(high));
    CHECK_OK(rg_set_destroy(low));
    CHECK_OK(rg_set_destroy(most));
    CHECK_OK(rg_set_destroy(all));
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
