#include "elastic/agent/hosts/delays.h"

static uint64_t turn_at(const rg__delays *d, uint64_t now_ns)
{
    return (now_ns - d->begun_ns) / RG__DELAYS_TURN_NS;
}

void rg__delays_note(rg__delays *d, uint64_t now_ns, uint64_t late_ns)
{
    if (late_ns > RG__DELAYS_MOST_NS)
        return;
    if (d->begun_ns == 0)
        d->begun_ns = now_ns;
    const uint64_t number = turn_at(d, now_ns), at = number % RG__DELAYS_TURNS;
    if (d->turn[at].number != number) {
        d->turn[at].number = number;
        d->turn[at].worst_ns = 0;
    }
    if (late_ns > d->turn[at].worst_ns)
        d->turn[at].worst_ns = late_ns;
}

uint64_t rg__delays_worst(const rg__delays *d, uint64_t now_ns)
{
    const uint64_t number = turn_at(d, now_ns);
    uint64_t worst_ns = 0;
    for (int i = 0; i < RG__DELAYS_TURNS; i++) {
        const uint64_t of = d->turn[i].number;
        const bool counts =
            of + RG__DELAYS_TURNS > number && (of > 0 || number == 0);
        if (counts && d->turn[i].worst_ns > worst_ns)
            worst_ns = d->turn[i].worst_ns;
    }
    return worst_ns;
}

static uint64_t at_least(uint64_t ns, uint64_t least_ns)
{
    return ns > least_ns ? ns : least_ns;
}

uint64_t rg__delays_budget(const rg__delays *d, uint64_t now_ns,
                           uint64_t first_ns)
{
    const uint64_t steps = (rg__delays_worst(d, now_ns) * RG__DELAYS_FACTOR +
                            RG__DELAYS_STEP_NS - 1) /
                           RG__DELAYS_STEP_NS;
    const uint64_t ns =
        at_least(steps * RG__DELAYS_STEP_NS, RG__DELAYS_LEAST_NS);
    const bool is_new = d->begun_ns == 0 || turn_at(d, now_ns) == 0;
    if (ns > RG__DELAYS_MOST_NS)
        return RG__DELAYS_MOST_NS;
    return is_new ? at_least(ns, first_ns) : ns;
}
