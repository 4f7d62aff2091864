#include "tests/bench/collectives/late.h"

#include <stddef.h>

static void before_late(const trial *t)
{
    late *l = t->arg;
    if (l->held != NULL)
        work_write(l->held, 0);
    if (l->held != NULL && !l->is_late)
        need(work_start(l->held, &l->req), kind_names[l->held->kind]);
}

/* The late rank comes once the timed set is through. */
static void after_late(const trial *t)
{
    late *l = t->arg;
    if (l->gate != NULL)
        need(rg_barrier(l->gate), "rg_barrier");
    if (l->is_late)
        need(work_start(l->held, &l->req), kind_names[l->held->kind]);
    if (l->held != NULL)
        need(rg_wait(&l->req, -1), kind_names[l->held->kind]);
}

/* What the held operation can do without its last rank is done by then: it
 * waits, and nothing else. */
static long quiet_ns(const late *l)
{
    return QUIET_NS + (l->here != NULL ? 2 * (long)work_bytes(l->here) : 0);
}

void late_trials(late *l, const char *const *names, int at, trial *trials)
{
    for (int i = 0; i < LATE_TRIALS; i++)
        trials[i] = (trial){.name = names[i],
                            .run = run_in_turn,
                            .before = i == 0 ? NULL : before_late,
                            .after = i == 0 ? NULL : after_late,
                            .works = &l->here,
                            .n = l->here != NULL,
                            .line = l->here != NULL ? l->here->set : NULL,
                            .quiet_ns = quiet_ns(l),
                            .arg = l,
                            .moves = 1,
                            .beside = -1,
                            .bases = {i == 0 ? -1 : at, -1}};
}
