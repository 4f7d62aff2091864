/* See machine.h. */
#include "sdk/base/machine.h"

#include "sdk/base/log.h"

int rg__machine_next(const rg__machine *m, int state, int event)
{
    int to = RG__NEVER;
    for (int i = 0; i < m->rows; i++)
        if (rg__row_answers(&m->row[i], state, event))
            to = m->row[i].to;
    if (to == RG__NEVER)
        rg__log(RG__ERROR, "base", "%s: %s can't come in state %s", m->name,
                m->event[event], m->state[state]);
    return to < m->states ? to : state;
}
