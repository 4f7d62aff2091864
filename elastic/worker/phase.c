/* The worker's phase, as a table. */
#include "elastic/worker/worker.h"

#define P(phase) (1u << RG__PHASE_##phase)
#define LIVE     (P(OUT) | P(DOOR) | P(DECIDED))
#define LAST     (P(DONE) | P(ENDED))

#define ROW(from, event, to)                                                   \
    {                                                                          \
        from, RG__ON_##event, to                                               \
    }
#define REST(from, event) ROW((LIVE | LAST) & ~(from), event, RG__STAYS)

static const rg__transition machine[] = {
    ROW(P(OUT), COME, RG__PHASE_DOOR),
    REST(P(OUT), COME),
    ROW(P(OUT), COME_ALONE, RG__PHASE_DECIDED),
    REST(P(OUT), COME_ALONE),
    ROW(P(DOOR), DECIDE, RG__PHASE_DECIDED),
    REST(P(DOOR), DECIDE),
    ROW(P(DECIDED), LEAVE, RG__PHASE_DOOR),
    REST(P(DECIDED), LEAVE),
    ROW(LIVE, DONE, RG__PHASE_DONE),
    REST(LIVE, DONE),
    ROW(LIVE, END, RG__PHASE_ENDED),
    REST(LIVE, END),
};

const rg__machine rg__phase_machine =
    RG__MACHINE("worker", RG__PHASES, RG__PHASE_EVENTS, machine);

bool rg__worker_step(rg__worker *w, rg__phase_event event)
{
    const rg__phase was = w->phase;
    w->phase =
        (rg__phase)rg__machine_next(&rg__phase_machine, (int)was, (int)event);
    pthread_cond_broadcast(&w->changed);
    return w->phase != was;
}
