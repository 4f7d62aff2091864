/* An agent that only waits for etcd.
 *
 * While etcd is away, a world that trains loses nothing. A world that is
 * finished, broken, not made yet or not begun goes on only when etcd is back.
 * So the clock of --etcd-timeout runs from the moment when both hold, and when
 * that time is over this host leaves. The clock begins again whenever etcd is
 * back, or a process here has something to do again. This is a poll, and only
 * while etcd is away: what it checks comes from workers, from other agents and
 * from the kernel. */
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/leaving/leaving_parts.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"

#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define LOOK_NS (100 * RG__MS)

typedef enum standstill {
    GOES_ON,
    FINISHED,
    BROKEN,
    NOT_MADE,
    NOT_BEGUN
} standstill;

/* Its first commit is made, and it does not enter fn before etcd has recorded
 * that. Until then the program may do anything, as after rg_world_wait. */
static bool awaits_record(const rg__agent *a, const rg__worker *w)
{
    return !rg__view_is_static(a) && w->page != NULL &&
           atomic_load(&w->page->zero) == w->entered &&
           atomic_load(&w->page->begun) == 0;
}

/* In a generation that was decided and, as far as is known here, goes on. */
static bool is_in_world(const rg__agent *a, const rg__worker *w)
{
    const bool is_decided = rg__life_takes_over(a) ? w->decided == w->entered
                                                   : a->delivered >= w->entered;
    return w->entered > a->aborted && is_decided;
}

/* A process that has not connected or come to the door may do anything. */
static bool is_busy(const rg__agent *a, const rg__slot *s)
{
    if (!rg__slot_is_alive(s))
        return s->saved.state == SLOT_STARTING;
    return is_in_world(a, &s->w)
               ? s->w.fin != s->w.entered && !awaits_record(a, &s->w)
               : s->w.entered == 0 && s->saved.state != SLOT_DOOR;
}

/* Another host's world may train on while this one has no place in it. */
static bool is_elsewhere(const rg__agent *a)
{
    const rg__proposal *world = rg__view_decided(a);
    return world != NULL && world->generation > a->aborted &&
           !rg__view_has_host(a, a->id);
}

static standstill judge(const rg__agent *a)
{
    bool has_finished = false, is_unrecorded = false;
    for (int i = 0; i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        if (is_busy(a, s))
            return GOES_ON;
        if (!rg__slot_is_alive(s) || !is_in_world(a, &s->w))
            continue;
        if (awaits_record(a, &s->w))
            is_unrecorded = true;
        else
            has_finished = true;
    }
    if (is_elsewhere(a))
        return GOES_ON;
    return has_finished                                 ? FINISHED
           : is_unrecorded                              ? NOT_BEGUN
           : a->delivered > 0 || rg__life_takes_over(a) ? BROKEN
                                                        : NOT_MADE;
}

static void say_wait(rg__agent *a, standstill why)
{
    static const char *const what[] = {
        [FINISHED] = "etcd, to record that all workers here have finished",
        [BROKEN] = "etcd, to make a new world of the broken one",
        [NOT_MADE] = "etcd, to make the first world",
        [NOT_BEGUN] = "etcd, to record the first commit"};
    rg__wait_begin(a, RG__WAIT_OUTAGE, 0, "%s", what[why]);
}

/* Once, and not only the wait: people must know that no worker trains. */
static void say_standstill(const rg__agent *a, standstill why)
{
    if (why == NOT_BEGUN)
        rg__log(RG__WARN, "agent",
                "generation %llu cannot begin until etcd is back and has its "
                "first commit on record: no worker trains",
                (unsigned long long)a->delivered);
    if (why == BROKEN && a->delivered > 0)
        rg__log(RG__WARN, "agent",
                "generation %llu is broken and cannot be followed until etcd "
                "is back: no worker trains",
                (unsigned long long)a->delivered);
}

static void give_up(rg__agent *a, standstill why)
{
    const unsigned long long s = a->params->user.etcd_timeout_ms / 1000;
    if (why == FINISHED)
        rg__agent_leave(a, RG__EXIT_STORE,
                        "all workers of host %s have finished job %s, but etcd "
                        "has been away for longer than --etcd-timeout (%llu s) "
                        "and can't record it: %s; what they wrote is complete",
                        a->params->host, a->params->job, s,
                        rg__etcd_why(a->etcd));
    else
        rg__agent_leave(
            a, why == NOT_MADE ? RG__EXIT_STORE : RG__EXIT_BELOW_MIN,
            "job %s has no world that trains, and etcd has been away for "
            "longer than --etcd-timeout (%llu s); start it again when etcd "
            "answers, with --replace-job if all its hosts have left (%s)",
            a->params->job, s, rg__etcd_why(a->etcd));
}

void rg__outage_look(void *agent_arg)
{
    rg__agent *a = agent_arg;
    const uint64_t now = rg__now_ns();
    const bool is_over = rg__life_is_ending(a) || a->is_done;
    const bool is_away = !rg__etcd_is_up(a->etcd) && !is_over;
    const bool is_open = a->mirror != NULL || rg__life_takes_over(a);
    const standstill why = is_away && is_open ? judge(a) : GOES_ON;
    if (is_away)
        rg__timer_set(a->leaving->outage_timer, LOOK_NS);
    if (why == GOES_ON) {
        a->leaving->outage_ns = 0;
        rg__wait_end(a, RG__WAIT_OUTAGE, 0);
        return;
    }
    if (a->leaving->outage_ns == 0)
        say_standstill(a, why);
    if (a->leaving->outage_ns == 0)
        a->leaving->outage_ns = now;
    say_wait(a, why);
    if (now - a->leaving->outage_ns >= a->params->user.etcd_timeout_ms * RG__MS)
        give_up(a, why);
}
