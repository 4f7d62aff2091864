/* Groups of operations. */
#include "process_sets/inside.h"
#include "sdk/base/fail.h"

rg_status rg__group_add(rg_set *set, const rg__start *start, rg_req **req_p)
{
    return rg__channel_begin(set->channel, start, req_p);
}

void rg__group_spoil(rg_status st)
{
    (void)st;
}

rg_status rg_group_start(rg_ctx *ctx)
{
    (void)ctx;
    return rg__fail(RG_ERR_UNSUPPORTED,
                    "groups can't be started yet; start operations one by one");
}

rg_status rg_group_end(rg_ctx *ctx)
{
    (void)ctx;
    return rg__fail(RG_ERR_INVALID, "rg_group_end without rg_group_start");
}
