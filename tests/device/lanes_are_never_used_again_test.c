/* The states of a lane: whatever happens in any of them, the lane ends in the
 * same way, and no state leads back from there.
 *
 * Covers: nccl/device.c */
#include "sdk/transport/nccl/device.h"
#include "tests/check.h"

static bool is_on_its_way_out(rg__lane_state state)
{
    return state == RG__LANE_MARKED || state == RG__LANE_QUIET ||
           state == RG__LANE_GONE;
}

static void check_way_out(rg__lane_state from)
{
    const rg__lane_state marked = rg__lane_next(from, RG__LANE_CLOSED);
    CHECK_EQ(marked, RG__LANE_MARKED);
    CHECK_EQ(rg__lane_next(marked, RG__LANE_DONE), RG__LANE_QUIET);
    CHECK_EQ(rg__lane_next(RG__LANE_QUIET, RG__LANE_DONE), RG__LANE_GONE);
}

int main(void)
{
    for (int state = 0; state < RG__LANE_STATES; state++)
        for (int event = 0; event < RG__LANE_EVENTS; event++) {
            const rg__lane_state next =
                rg__lane_next((rg__lane_state)state, (rg__lane_event)event);
            if (is_on_its_way_out((rg__lane_state)state))
                CHECK_EQ(is_on_its_way_out(next) && (int)next >= state, 1);
            else if (event == RG__LANE_CLOSED)
                check_way_out((rg__lane_state)state);
            else if (event == RG__LANE_FAILED)
                CHECK_EQ(next, RG__LANE_BROKEN);
        }
    CHECK_EQ(rg__lane_next(RG__LANE_BOOTING, RG__LANE_DONE),
             RG__LANE_SPLITTING);
    CHECK_EQ(rg__lane_next(RG__LANE_SPLITTING, RG__LANE_DONE),
             RG__LANE_WARMING);
    CHECK_EQ(rg__lane_next(RG__LANE_WARMING, RG__LANE_DONE), RG__LANE_READY);
    return 0;
}
