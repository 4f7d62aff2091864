/* The agent's life as a table, see life.h. */
#include "elastic/agent/base/life.h"

#include "elastic/agent/base/agent_state.h"

#define L(state) (1u << RG__LIFE_##state)
#define TAKEOVER (L(ADOPTING) | L(STANDING) | L(VIEWING))
#define GOES_ON  (L(OPENING) | TAKEOVER | L(WORKING))
#define ENDS     (L(ENDING) | L(UNSEEN))
#define RESTS    (L(OVER) | L(ENDED))

#define ROW(from, event, to)                                                   \
    {                                                                          \
        from, RG__LIFE_ON_##event, to                                          \
    }

static const rg__transition machine[] = {
    ROW(L(OPENING), ADOPT, RG__LIFE_ADOPTING),
    ROW((GOES_ON & ~L(OPENING)) | ENDS | RESTS, ADOPT, RG__NEVER),
    ROW(L(ADOPTING), STAND, RG__LIFE_STANDING),
    ROW(L(UNSEEN) | RESTS, STAND, RG__STAYS),
    ROW((GOES_ON & ~L(ADOPTING)) | L(ENDING), STAND, RG__NEVER),
    ROW(L(STANDING), VIEW, RG__LIFE_VIEWING),
    ROW((GOES_ON & ~L(STANDING)) | ENDS | RESTS, VIEW, RG__NEVER),
    ROW(L(OPENING) | L(VIEWING), WORK, RG__LIFE_WORKING),
    ROW(L(WORKING) | ENDS | RESTS, WORK, RG__STAYS),
    ROW(L(ADOPTING) | L(STANDING), WORK, RG__NEVER),
    ROW(L(OPENING) | L(WORKING), END, RG__LIFE_ENDING),
    ROW(TAKEOVER, END, RG__LIFE_UNSEEN),
    ROW(L(OVER), END, RG__LIFE_ENDED),
    ROW(ENDS | L(ENDED), END, RG__NEVER),
    ROW(GOES_ON, REST, RG__LIFE_OVER),
    ROW(ENDS, REST, RG__LIFE_ENDED),
    ROW(RESTS, REST, RG__STAYS),
};

const rg__machine rg__life_machine =
    RG__MACHINE("agent", RG__LIFE_STATES, RG__LIFE_EVENTS, machine);

void rg__life_step(rg__agent *a, rg__life_event event)
{
    a->life.state = (rg__life_state)rg__machine_next(
        &rg__life_machine, (int)a->life.state, (int)event);
}

static bool is_in(const rg__agent *a, unsigned states)
{
    return (states >> a->life.state & 1) != 0;
}

bool rg__life_is_over(const rg__agent *a)
{
    return is_in(a, RESTS);
}

bool rg__life_is_ending(const rg__agent *a)
{
    return rg__life_ends(a->life.state);
}

bool rg__life_takes_over(const rg__agent *a)
{
    return is_in(a, TAKEOVER | L(UNSEEN));
}

bool rg__life_ends(rg__life_state state)
{
    return ((ENDS | L(ENDED)) >> state & 1) != 0;
}
