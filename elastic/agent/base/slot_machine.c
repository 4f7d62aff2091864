/* The slot's states, see slot_machine.h. */
#include "elastic/agent/base/slot_machine.h"

#include "elastic/agent/base/agent_state.h"

#define S(state) (1u << SLOT_##state)
#define ALIVE    (S(MET) | S(READY) | S(DOOR))
#define DYING    (S(LOST) | S(FENCING))
#define RUNNING  (S(STARTING) | ALIVE | DYING | S(REAPING))
#define RESTING  (S(IDLE) | S(BACKOFF) | S(HELD) | S(GIVEN_UP) | S(CLOSED))
#define OVER     (S(STARTING) | S(REAPING) | S(HELD))

#define ROW(from, event, to)                                                   \
    {                                                                          \
        from, SLOT_ON_##event, to                                              \
    }
#define REST(from, event, to) ROW((RUNNING | RESTING) & ~(from), event, to)

static const rg__transition machine[] = {
    ROW(S(IDLE) | S(BACKOFF), BEGIN, SLOT_STARTING),
    REST(S(IDLE) | S(BACKOFF), BEGIN, RG__NEVER),
    ROW(S(STARTING), UNABLE, SLOT_BACKOFF),
    REST(S(STARTING), UNABLE, RG__NEVER),
    ROW(S(IDLE) | S(STARTING), MEET, SLOT_MET),
    REST(S(IDLE) | S(STARTING), MEET, RG__NEVER),
    ROW(S(MET), RUNS, SLOT_READY),
    REST(S(MET), RUNS, RG__STAYS),
    ROW(S(MET) | S(READY), COME, SLOT_DOOR),
    REST(S(MET) | S(READY), COME, RG__STAYS),
    ROW(ALIVE, DIE, SLOT_LOST),
    REST(ALIVE, DIE, RG__NEVER),
    ROW(S(LOST), FENCE, SLOT_FENCING),
    REST(S(LOST), FENCE, RG__NEVER),
    ROW(DYING, FENCED, SLOT_REAPING),
    ROW(S(REAPING) | S(CLOSED), FENCED, RG__STAYS),
    REST(DYING | S(REAPING) | S(CLOSED), FENCED, RG__NEVER),
    ROW(OVER, AGAIN, SLOT_BACKOFF),
    REST(OVER, AGAIN, RG__NEVER),
    ROW(S(STARTING) | S(REAPING), HOLD, SLOT_HELD),
    REST(S(STARTING) | S(REAPING), HOLD, RG__NEVER),
    ROW(OVER, GIVE_UP, SLOT_GIVEN_UP),
    REST(OVER, GIVE_UP, RG__NEVER),
    ROW(RUNNING | S(HELD), CLOSE, SLOT_CLOSED),
    ROW(S(CLOSED), CLOSE, RG__STAYS),
    REST(RUNNING | S(HELD) | S(CLOSED), CLOSE, RG__NEVER),
    ROW(S(BACKOFF) | S(HELD), DISMISS, SLOT_IDLE),
    REST(S(BACKOFF) | S(HELD), DISMISS, RG__STAYS),
    ROW(RUNNING, ADOPT, SLOT_STARTING),
    REST(RUNNING, ADOPT, RG__NEVER),
    ROW(RUNNING | S(BACKOFF), ADOPT_NONE, SLOT_IDLE),
    REST(RUNNING | S(BACKOFF), ADOPT_NONE, RG__STAYS),
};

const rg__machine rg__slot_machine =
    RG__MACHINE("slot", RG__SLOT_STATES, RG__SLOT_EVENTS, machine);

bool rg__slot_rests(const rg__slot *s)
{
    return (RESTING >> s->saved.state & 1) != 0;
}

void rg__slot_step(rg__slot *s, rg__slot_event event)
{
    s->saved.state = (rg__slot_state)rg__machine_next(
        &rg__slot_machine, (int)s->saved.state, (int)event);
}
