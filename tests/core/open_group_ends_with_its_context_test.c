/* What a thread has noted in a group when it finalizes the context ends there:
 * a request of it may be taken afterwards, and the next group may begin.
 *
 * Covers: context.c process_sets/open_group.c */
#include "tests/check.h"

int main(void)
{
    rg_ctx *ctx = NULL;
    int32_t one = 1, sum = 7;
    rg_req *req = NULL;
    CHECK_OK(rg_init(NULL, &ctx));
    CHECK_OK(rg_group_start(ctx));
    CHECK_OK(rg_allreduce_start(rg_world(ctx), &one, &sum, 1, RG_I32, RG_SUM,
                                NULL, &req));
    CHECK_STATUS(rg_wait(&req, -1), RG_IN_PROGRESS);
    CHECK_OK(rg_finalize(ctx));
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "rg_finalize was called"));
    CHECK(req == NULL);
    CHECK_EQ(sum, 7);
    return 0;
}
