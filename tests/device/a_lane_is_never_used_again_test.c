/* The states of a lane: whatever happens in whichever of them, it comes to its
 * end by the same way, and from that way nothing leads back.
 *
 * Covers: nccl/device.c */
#include "sdk/transport/nccl/device.h"
#include "tests/check.h"

static bool is_on_its_way_out(lane_state state)
{
    return state == LANE_MARKED || state == LANE_QUIET || state == LANE_GONE;
}

static void check_way_out(lane_state from)
{
    const lane_state marked = rg__lane_next(from, LANE_CLOSED);
    CHECK_EQ(marked, LANE_MARKED);
    CHECK_EQ(rg__lane_next(marked, LANE_DONE), LANE_QUIET);
    CHECK_EQ(rg__lane_next(LANE_QUIET, LANE_DONE), LANE_GONE);
}

int main(void)
{
    for (int state = 0; state < LANE_STATES; state++)
        for (int event = 0; event < LANE_EVENTS; event++) {
            const lane_state next =
                rg__lane_next((lane_state)state, (lane_event)event);
            if (is_on_its_way_out((lane_state)state))
                CHECK_EQ(is_on_its_way_out(next) && (int)next >= state, 1);
            else if (event == LANE_CLOSED)
                check_way_out((lane_state)state);
            else if (event == LANE_FAILED)
                CHECK_EQ(next, LANE_BROKEN);
        }
    CHECK_EQ(rg__lane_next(LANE_BOOTING, LANE_DONE), LANE_SPLITTING);
    CHECK_EQ(rg__lane_next(LANE_SPLITTING, LANE_DONE), LANE_WARMING);
    CHECK_EQ(rg__lane_next(LANE_WARMING, LANE_DONE), LANE_READY);
    return 0;
}
