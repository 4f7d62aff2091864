/* Ranks that wait for each other, in calls of MPI or wherever, without a death
 * that would end their launch. Only the program knows how long a step may take:
 * the person that starts it says when the launch is over (--hang-timeout), and
 * without that word it is reported. A step ends on all ranks, so each agent
 * looks at its own ranks alone. */
#include "elastic/agent/mpirun/mpirun_parts.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"

#include "sdk/base/clock.h"

#define LOOK_NS (1000 * RG__MS)
#define SLOW    10 /* so many times its usual time */

static bool is_in_world(const rg__agent *a)
{
    const rg__proposal *decided = rg__view_decided(a);
    return !a->is_done && !a->launches->is_over && !a->launch.ends_itself &&
           a->aborted < a->delivered && decided != NULL &&
           decided->launch == a->launches->number;
}

/* A step here, or the world's beginning; 0: no rank is here. Pages are the
 * ranks', and may be scribbled. */
static uint64_t last_step_ns(const rg__agent *a, uint64_t now, uint64_t *took_p)
{
    uint64_t last = 0;
    *took_p = 0;
    for (int i = 0; i < a->params->slots; i++) {
        const rg__page *page = a->slot[i].w.page;
        if (page == NULL || !rg__slot_is_alive(&a->slot[i]))
            continue;
        const uint64_t at = atomic_load(&page->step_ns);
        const uint64_t took = atomic_load(&page->step_took_ns);
        if (last == 0)
            last = a->launches->world_ns;
        if (at > last && at <= now)
            last = at;
        if (took > *took_p && took <= now)
            *took_p = took;
    }
    return last;
}

static void report(rg__agent *a, uint64_t waited, uint64_t took)
{
    const uint64_t stall = a->params->stall_ms * RG__MS;
    if (stall != 0 && waited >= stall && waited / SLOW >= took)
        rg__wait_begin(a, RG__WAIT_STEP, 0,
                       "a step of launch %llu to end (the last one here, or "
                       "rg_init, was %llu s ago)",
                       (unsigned long long)a->launches->number,
                       (unsigned long long)(waited / (1000 * RG__MS)));
    else
        rg__wait_end(a, RG__WAIT_STEP, 0);
}

static void look(void *arg)
{
    rg__agent *a = arg;
    const uint64_t now = rg__now_ns(), hang = a->params->hang_ms * RG__MS;
    uint64_t took, last;
    if (a->is_paused) /* its end is a beginning */
        a->launches->world_ns = now;
    last = is_in_world(a) ? last_step_ns(a, now, &took) : 0;
    if (last == 0) {
        rg__wait_end(a, RG__WAIT_STEP, 0);
        return;
    }
    const uint64_t waited = now - last;
    report(a, waited, took);
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
