/* A set on which a group has noted an operation is given back only when the
 * group has ended.
 *
 * Covers: process_sets/open_group.c sets.c */
#include "tests/check.h"

int main(void)
{
    rg_ctx *ctx = NULL;
    rg_set *set = NULL;
    rg_req *req = NULL;
    const int rank = 0;
    int32_t one = 1, sum = 7;
    CHECK_OK(rg_init(NULL, &ctx));
    CHECK_OK(rg_set_create(
        ctx, &rank, 1,
        &(rg_set_params){.size = sizeof(rg_set_params), .name = "mine"}, &set));
    CHECK_OK(rg_group_start(ctx));
    CHECK_OK(
        rg_allreduce_start(set, &one, &sum, 1, RG_I32, RG_SUM, NULL, &req));
    CHECK_STATUS(rg_set_destroy(set), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "set mine has operations in an open group"));
    CHECK_OK(rg_group_end(ctx));
    CHECK_OK(rg_wait(&req, -1));
    CHECK_EQ(sum, 1);
    CHECK_OK(rg_set_destroy(set));
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
