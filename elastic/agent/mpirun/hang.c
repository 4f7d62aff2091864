/* Ranks that wait for each other, in calls of MPI or elsewhere, without a death
 * that would end their launch. Only the program knows how long a step may take:
 * the person that starts it says when the launch is over (--hang-timeout);
 * without that the wait is only reported. A step ends on all ranks, so each
 * agent looks at its own ranks alone. Ranks that have not come to
 * rg_state_resume may never end a step: then no step is awaited. */
#include "elastic/agent/mpirun/mpirun_parts.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"

#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define LOOK_NS (1000 * RG__MS)
#define SLOW    10 /* a step may take so many times its usual time */

static bool is_in_world(const rg__agent *a)
{
    const rg__proposal *decided = rg__view_decided(a);
    return !a->is_done && !a->launches->is_over && !a->launch.ends_itself &&
           a->aborted < a->delivered && decided != NULL &&
           decided->launch == a->launches->number;
}

typedef struct steps {
    uint64_t last_ns; /* one ended here, or the world began; 0: no rank here */
    uint64_t took_ns;
    bool are_awaited;
} steps;

/* Pages belong to the ranks, and may hold anything. */
static steps find_steps(const rg__agent *a, uint64_t now)
{
    steps s = {0};
    for (int i = 0; i < a->params->slots; i++) {
        const rg__page *page = a->slot[i].w.page;
        if (page == NULL || !rg__slot_is_alive(&a->slot[i]))
            continue;
        const uint64_t at = atomic_load(&page->step_ns);
        const uint64_t took = atomic_load(&page->step_took_ns);
        if (s.last_ns == 0)
            s.last_ns = a->launches->world_ns;
        if (at > s.last_ns && at <= now)
            s.last_ns = at;
        if (took > s.took_ns && took <= now)
            s.took_ns = took;
        if (atomic_load(&page->synced_ns) != 0)
            s.are_awaited = true;
    }
    return s;
}

static void tell_of_no_steps(rg__agent *a, uint64_t waited)
{
    if (a->launches->has_told_of_steps)
        return;
    a->launches->has_told_of_steps = true;
    rg__log(RG__WARN, "agent",
            "no rank on host %s has called rg_state_resume in the %llu s since "
            "rg_init: nothing can tell whether they hang, and after a loss "
            "they begin from the beginning",
            a->params->host, (unsigned long long)(waited / (1000 * RG__MS)));
}

static void report(rg__agent *a, uint64_t waited, const steps *s)
{
    const uint64_t stall = a->params->stall_ms * RG__MS;
    const bool is_long =
        stall != 0 && waited >= stall && waited / SLOW >= s->took_ns;
    if (is_long && s->are_awaited)
        rg__wait_begin(a, RG__WAIT_STEP, 0,
                       "a step of launch %llu to end (the last one here, or "
                       "rg_init, was %llu s ago)",
                       (unsigned long long)a->launches->number,
                       (unsigned long long)(waited / (1000 * RG__MS)));
    else
        rg__wait_end(a, RG__WAIT_STEP, 0);
    if (is_long && !s->are_awaited)
        tell_of_no_steps(a, waited);
}

static void look(void *arg)
{
    rg__agent *a = arg;
    const uint64_t now = rg__now_ns(), hang = a->params->user.hang_ms * RG__MS;
    steps s = {0};
    if (a->is_paused) /* it counts as the end of a step */
        a->launches->world_ns = now;
    if (is_in_world(a))
        s = find_steps(a, now);
    if (s.last_ns == 0) {
        rg__wait_end(a, RG__WAIT_STEP, 0);
        return;
    }
    const uint64_t waited = now - s.last_ns;
    report(a, waited, &s);
    if (hang != 0 && waited >= hang) {
        rg__wait_end(a, RG__WAIT_STEP, 0);
        rg__launch_broke(a, RG__BROKE_BY_OTHERS, 0,
                         "no rank on host %.63s has ended a step for %.1f s "
                         "(--hang-timeout)",
                         a->params->host, (double)waited / 1e9);
        return;
    }
    rg__timer_set(a->launches->hang, hang != 0 && hang - waited < LOOK_NS
                                         ? hang - waited
                                         : LOOK_NS);
}

void rg__hang_begin(rg__agent *a)
{
    a->launches->world_ns = rg__now_ns();
    rg__timer_set(a->launches->hang, 1);
}

bool rg__hang_create(rg__agent *a)
{
    a->launches->hang = rg__timer_create(a->loop, look, a);
    return a->launches->hang != NULL;
}
