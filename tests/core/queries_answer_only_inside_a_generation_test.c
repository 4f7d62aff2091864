/* rg_rank and its like are -1, and the generation 0, unless the context
 * computes in a generation; slot and host are always known.
 *
 * Covers: context.c */
#include "sdk/core/context.h"
#include "tests/check.h"

static void check_nowhere(const rg_ctx *ctx)
{
    CHECK_EQ(rg_rank(ctx), -1);
    CHECK_EQ(rg_size(ctx), -1);
    CHECK_EQ(rg_local_rank(ctx), -1);
    CHECK_EQ(rg_local_size(ctx), -1);
    CHECK_EQ(rg_host_index(ctx), -1);
    CHECK_EQ(rg_host_count(ctx), -1);
    CHECK_EQ(rg_generation(ctx), 0);
}

int main(void)
{
    rg_ctx ctx = {.slot = 4, .host = "h1"};
    rg__member_id member[3] = {{1, 0, 1}, {1, 1, 1}, {2, 0, 5}};
    const rg__membership m = {9, 2, 3, 0, 1, 1, 2, member};
    CHECK_OK(rg__context_init(&ctx));
    check_nowhere(&ctx);
    check_nowhere(NULL);
    CHECK_OK(rg__context_set_membership(&ctx, &m));
    check_nowhere(&ctx); /* not decided yet */
    rg__context_set_computing(&ctx, true);
    CHECK_EQ(rg_rank(&ctx), 2);
    CHECK_EQ(rg_size(&ctx), 3);
    CHECK_EQ(rg_local_rank(&ctx), 0);
    CHECK_EQ(rg_local_size(&ctx), 1);
    CHECK_EQ(rg_host_index(&ctx), 1);
    CHECK_EQ(rg_host_count(&ctx), 2);
    CHECK_EQ(rg_generation(&ctx), 9);
    CHECK_EQ(rg_slot(&ctx), 4);
    CHECK_STR(rg_host(&ctx), "h1");

    rg__membership copy;
    member[2].start = 6; /* the context has its own */
    CHECK_OK(rg__context_copy_membership(&ctx, &copy));
    CHECK_EQ(copy.member[2].start, 5);
    CHECK_EQ(copy.size, 3);
    free(copy.member);

    rg__context_set_computing(&ctx, false);
    check_nowhere(&ctx);
    const rg__membership none = {.rank = -1};
    CHECK_OK(rg__context_set_membership(&ctx, &none));
    CHECK_OK(rg__context_copy_membership(&ctx, &copy));
    CHECK(copy.member == NULL);
    rg__context_clear(&ctx);
    return 0;
}
