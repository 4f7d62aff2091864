/* How the agent's parts are wired. The job is opened (open_job.c), workers
 * start, and then everything happens in callbacks: the list below says what
 * follows from each event (base/events.h), and in which order. At the end every
 * worker goes before the agent does (end.c). */
#include "elastic/agent/agent.h"
#include "elastic/agent/wiring.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/tell.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/checkpoint/checkpoints.h"
#include "elastic/agent/dump/dump.h"
#include "elastic/agent/timeline/timeline.h"
#include "elastic/agent/control/control.h"
#include "elastic/agent/control/scrape.h"
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/hosts/peers.h"
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/mpirun/mpirun.h"
#include "elastic/agent/output/output.h"
#include "elastic/agent/scalars/scalars.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/vault/vaults.h"
#include "elastic/agent/workers/workers.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"

#define PORT_TRIES 8
#define OLD_TRIES  50 /* of the port of an agent before, 5 ms each */

/* --------------------------------------------- what follows from each event */

static void start_working(rg__agent *a)
{
    rg__life_step(a, RG__LIFE_ON_WORK);
    rg__publish(a);
    rg__beat_start(a);
    rg__slots_start(a);
    rg__workers_ping(a);
}

/* A launcher no longer waits for a host before it. */
static void follow_first_world(rg__agent *a)
{
    if (a->life.has_world || a->view.lines == 0)
        return;
    a->life.has_world = true;
    rg__agent_tell_sizes(a);
}

/* `regroup scale` has changed the bounds of the world. */
static void follow_size(rg__agent *a)
{
    const rg__size *size = &a->view.size;
    if (size->mod_revision == 0 ||
        (size->min == a->own.min && size->max == a->own.max))
        return;
    a->own.min = size->min;
    a->own.max = size->max;
    rg__agent_tell_sizes(a);
    rg__log(RG__INFO, "agent", "the world has %d to %d worker%s from now on",
            size->min, size->max, rg__plural(size->max));
}

/* Asked for by an agent without members, or by the leader. Others without
 * members wait for the end, which the leader writes if nobody else can. */
static void follow_stop(rg__agent *a)
{
    const rg__end *stop = &a->view.stop;
    if (!stop->is_set || a->is_done ||
        !(rg__view_has_members(a) || rg__view_i_lead(a)))
        return;
    a->verdict.is_asked |= stop->is_asked;
    rg__agent_stop_job(a, stop->code, "%s", stop->why);
}

static void follow_view_moved(rg__agent *a)
{
    if (rg__life_is_ending(a)) { /* all but its last checkpoint is over */
        rg__checkpoint_follow(a);
        return;
    }
    if (a->view.end.is_set) {
        a->verdict.is_asked = a->view.end.is_asked;
        rg__agent_stop(a, a->view.end.code, "%s", a->view.end.why);
        return;
    }
    const bool is_first =
        a->life.state == RG__LIFE_OPENING || a->life.state == RG__LIFE_VIEWING;
    follow_size(a);
    follow_first_world(a);
    rg__resume_view(a);
    rg__generation_follow(a);
    rg__mpirun_follow(a);
    follow_stop(a);
    rg__checkpoint_follow(a);
    rg__leader_follow(a);
    rg__beat_follow(a);
    rg__suspect_follow(a);
    rg__paths_follow(a);
    rg__drain_follow(a, is_first && a->life.agents == 1);
    if (is_first && a->life.agents > 1) {
        rg__agent_tell_sizes(a);
        rg__suspect_take_over(a);
    }
    if (is_first)
        start_working(a);
}

static void follow_offered(rg__agent *a)
{
    if (rg__view_read(a, a->mirror, &a->view) == RG_OK)
        follow_view_moved(a);
}

/* The keys under it are gone. */
static void follow_lease_renewed(rg__agent *a)
{
    rg__publish_again(a);
    rg__generation_fin_again(a);
    rg__leader_follow(a);
}

static void on_etcd_state(void *arg, bool up, const char *why)
{
    rg__agent *a = arg;
    if (up) {
        rg__log(RG__WARN, "agent", "etcd answers again");
        rg__leader_etcd_is_back(a);
        rg__suspect_forgive(a); /* we may have been the one cut off */
        rg__leader_look(a);
    } else {
        rg__leader_etcd_is_away(a);
        rg__log(RG__WARN, "agent",
                "etcd %s: %s; training goes on, membership changes wait",
                rg__etcd_lack(a->etcd), why);
        rg__publish_if_dirty(a);
    }
    rg__outage_look(a);
}

static void follow_round_over(rg__agent *a)
{
    rg__suspect_look(a);
    rg__leader_look(a);
}

static void follow_slot_untold(rg__slot *s)
{
    rg__slot_lost(s, "can't be told: no memory");
}

static void follow_slot_met(rg__slot *s)
{
    rg__checkpoint_show(s);
    rg__generation_show_begun(s);
    rg__vault_show_segments(s); /* before it has any of its own */
    rg__slots_kind_is_known(s->a);
    rg__timeline_met(s);
    rg__publish(s->a);
}

static void follow_slot_at_door(rg__slot *s, uint64_t registered)
{
    rg__agent *a = s->a;
    rg__last_note_loaded(s);
    if (a->is_done)
        rg__worker_tell_mark(s, RG__DONE, 0);
    if (!s->w.waits && !rg__job_spec_take(s, registered))
        return;
    rg__paths_follow(a);
    rg__publish(a);
}

static void follow_slot_left(rg__slot *s)
{
    rg__mpirun_rank_left(s);
    rg__generation_try_ack(s->a);
}

static void follow_workers_let_go(rg__agent *a)
{
    if (!rg__life_is_ending(a))
        rg__generation_try_ack(a);
}

static void follow_slot_committed(rg__slot *s)
{
    rg__replication_committed(s->a);
    rg__generation_try_begin(s->a);
}

/* Nothing is known to have broken: the program waits for what does not come. */
static void dump_if_late(rg__agent *a, uint64_t generation, const char *why)
{
    if (strstr(why, RG__LATE_TEXT) != NULL ||
        strncmp(why, RG__SILENT_TEXT, strlen(RG__SILENT_TEXT)) == 0)
        rg__dump_write(a, generation, why);
}

static void follow_slot_broken(rg__slot *s, uint64_t generation,
                               const rg__proposal_host *host, const char *why)
{
    rg__agent *a = s->a;
    if (!rg__view_is_only_announced(a, generation))
        rg__generation_abort(a, generation);
    if (a->is_done) { /* no leader plans any more, and this agent ends soon */
        rg__beat_abort(a, generation, NULL);
    } else if (host == NULL) {
        rg__publish_reason(a, generation, s, why);
    } else {
        rg__beat_link_broke(a, host->id);
        rg__publish_broken_link(a, generation, s, host->name, why);
    }
    dump_if_late(a, generation, why);
}

static void follow_slot_stuck(rg__slot *s, uint64_t host, uint64_t bytes)
{
    rg__beat_ask(s->a, host);
    if (bytes > 0)
        rg__beat_note_stuck(s->a, host, bytes);
}

/* Pages first, then neighbours, then etcd. */
static void follow_slot_lost(rg__slot *s, const char *why)
{
    rg__agent *a = s->a;
    const rg__proposal *decided = rg__view_decided(a);
    rg__mpirun_rank_ended(s); /* its reason is the launch's, too */
    if (rg__view_has_place(decided, s)) {
        rg__generation_abort(a, decided->generation);
        rg__publish_death(a, decided->generation, s, why);
        dump_if_late(a, decided->generation, why);
    } else if (rg__view_has_place(rg__view_newest(a), s)) {
        rg__publish_death(a, a->view.cur.generation, s, why);
    }
}

static void follow_slot_dead(rg__slot *s)
{
    if (s->saved.is_loss)
        rg__mpirun_rank_ended(s);
    rg__publish(s->a);
    rg__resume_look(s->a);
}

static void follow_slot_reaped(rg__slot *s, rg__member_id was)
{
    rg__vault_drop_owner(s->a, was);
    rg__generation_try_ack(s->a); /* this one may have been waited for */
}

static void follow_slot_stood(rg__slot *s, bool is_at_door, uint64_t registered)
{
    rg__last_note_loaded(s);
    if (is_at_door && !s->w.waits && !rg__job_spec_take(s, registered))
        return;
    rg__paths_follow(s->a);
    rg__resume_look(s->a);
}

static void follow_world_over(rg__agent *a, uint64_t generation)
{
    rg__generation_abort(a, generation);
    rg__beat_abort(a, generation, NULL);
}

/* A caller's first frame. */
static bool follow_agent_asked(rg__agent *a, rg__connection *c, uint32_t type,
                               const void *body, size_t n)
{
    switch (type) {
    case RG__PEER_FETCH:
        return rg__fetch_serve(a, c, body, n);
    case RG__PEER_COPY:
        return rg__replication_serve(a, c, body, n);
    case RG__PEER_PROVE:
        return rg__paths_serve(a, c, body, n);
    case RG__PEER_BEGIN:
        return rg__mpirun_serve(a, c, body, n);
    case RG__PEER_DUMP:
        return rg__dump_serve(a, c, body, n);
    case RG__PEER_TIMELINE:
        return rg__timeline_serve(a, c, body, n);
    default:
        return false;
    }
}

static void follow_beats_sent(rg__agent *a)
{
    rg__ack_repeat(a);
    rg__suspect_look(a);
}

static void follow_host_aborted(rg__agent *a, uint64_t generation)
{
    rg__generation_abort(a, generation);
    rg__suspect_told(a, generation);
    if (rg__view_i_lead(a))
        rg__beat_abort(a, generation, NULL);
}

static void follow_host_missed(rg__agent *a)
{
    rg__slots_end_world(a);
}

static void follow_no_etcd_changed(rg__agent *a)
{
    rg__leader_look(a);
}

static void follow_ended_for(rg__agent *a, uint64_t generation, const char *why)
{
    rg__publish_reason(a, generation, NULL, why);
}

static void follow_fetched(rg__agent *a)
{
    rg__generation_pass_on(a);
    rg__generation_follow(a);
}

static void follow_copy_broken(rg__agent *a, uint64_t generation,
                               const char *host, const char *why)
{
    rg__generation_abort(a, generation);
    if (host != NULL)
        rg__publish_broken_link(a, generation, NULL, host, why);
    else
        rg__publish_reason(a, generation, NULL, why);
}

static void follow_done(rg__agent *a)
{
    rg__slots_finish(a);
    rg__last_done(a);
    rg__resume_note(a);
    rg__mpirun_done(a);
    rg__agent_check_end(a);
}

const rg__events rg__agent_events = {
    .leave = rg__agent_follow_leave,
    .end = rg__agent_follow_end,
    .view_moved = follow_view_moved,
    .lease_renewed = follow_lease_renewed,
    .open_late = rg__open_on_late,
    .settled = rg__agent_check_end,
    .workers_let_go = follow_workers_let_go,
    .noted = rg__resume_note,
    .slot_untold = follow_slot_untold,
    .slot_met = follow_slot_met,
    .slot_at_door = follow_slot_at_door,
    .slot_left = follow_slot_left,
    .slot_built = rg__generation_try_ack,
    .slot_fin = rg__generation_try_fin,
    .slot_committed = follow_slot_committed,
    .slot_broken = follow_slot_broken,
    .slot_gave_up = rg__mpirun_rank_gave_up,
    .slot_stuck = follow_slot_stuck,
    .slot_lost = follow_slot_lost,
    .page_told = rg__generation_abort,
    .slot_dead = follow_slot_dead,
    .slot_fenced = rg__generation_try_ack,
    .slot_reaped = follow_slot_reaped,
    .slot_changed = rg__publish,
    .slot_stood = follow_slot_stood,
    .world_over = follow_world_over,
    .workers_pinged = rg__generation_mind_record,
    .process_ended = rg__mpirun_rank_ended,
    .generation_ended = rg__mpirun_generation_ended,
    .delivered = rg__mpirun_tell,
    .swept = rg__publish,
    .launch_calls = rg__mpirun_called,
    .sets_told = rg__questions_look,
    .slot_recalled = rg__slot_recall,
    .worker_calls = rg__guest_accept,
    .agent_calls = rg__peers_accept,
    .asked = rg__question,
    .agent_asked = follow_agent_asked,
    .beats_sent = follow_beats_sent,
    .host_acked = rg__ack_hear,
    .host_told_death = rg__death_hear,
    .host_offers = rg__offer_hear,
    .host_expects = rg__expect_hear,
    .offered = follow_offered,
    .expected = rg__generation_expect,
    .host_aborted = follow_host_aborted,
    .round_over = follow_round_over,
    .host_missed = follow_host_missed,
    .name_conflict_judged = rg__publish_name_conflict,
    .no_etcd_changed = follow_no_etcd_changed,
    .leader_missed = rg__leader_follow,
    .paths_judged = rg__publish,
    .ended_for = follow_ended_for,
    .fetched = follow_fetched,
    .fetch_failed = rg__generation_follow, /* what has waited behind it */
    .copy_broken = follow_copy_broken,
    .done = follow_done};

/* ------------------------------------------------------------------- set up */

static rg_status make_timers(rg__agent *a)
{
    a->sockets.resend = rg__timer_create(a->loop, rg__workers_resend, a);
    a->owed.timer = rg__timer_create(a->loop, rg__job_pay, a);
    return rg__agent_made(a->sockets.resend != NULL && a->owed.timer != NULL);
}

typedef rg_status (*make_fn)(rg__agent *a);

/* In that order; the first that fails ends it. */
static rg_status make_all(rg__agent *a, const make_fn *make, size_t n)
{
    rg_status st = RG_OK;
    for (size_t i = 0; i < n && st == RG_OK; i++)
        st = make[i](a);
    return st;
}

static rg_status find_names(rg__agent *a)
{
    const rg_status st = rg__open_names(a);
    return st == RG_OK && !rg__resume_names(a) ? rg__address_choose(a) : st;
}

static rg_status try_port(rg__agent *a)
{
    rg_status st = rg__peers_listen(a);
    if (st == RG_OK)
        st = rg__beat_open(a);
    if (st != RG_OK)
        rg__peers_close(a);
    return st;
}

/* TCP and UDP use one number; one that is free for TCP may be taken for UDP. An
 * agent that takes over uses the number that other hosts know. */
static rg_status open_port(rg__agent *a)
{
    rg_status st = RG_ERR_SYSTEM;
    if (a->params->is_one_host)
        return rg__beat_open(a); /* and hears no other */
    for (int i = 0; a->port != 0 && st != RG_OK && i < OLD_TRIES; i++) {
        if (i > 0)
            rg__sleep_ns(5 *
                         RG__MS); /* a child of the dead agent still holds it */
        st = try_port(a);
    }
    for (int i = 0; st != RG_OK && i < PORT_TRIES; i++) {
        a->port = 0;
        st = try_port(a);
    }
    return st;
}

static void on_finish(void *arg, int code, const char *why)
{
    rg__agent *a = arg;
    if (code == 0)
        rg__agent_leave(a, 0, "%s", ""); /* all went well: no word */
    else
        rg__agent_end_job(a, code, "%s", why);
}

static void on_supervisor_gone(void *arg)
{
    const rg__agent *a = arg;
    rg__log(RG__WARN, "agent",
            "the process that started the agent of host %s is gone; no other "
            "agent would take over",
            a->params->host);
}

static void on_process_ended(void *agent_arg, int32_t pid, int32_t status)
{
    rg__slots_on_ended(agent_arg, pid, status);
    rg__mpirun_on_ended(agent_arg, pid, status);
}

static rg_status watch_supervisor(rg__agent *a)
{
    const rg__fdstore_events events = {.ended = on_process_ended,
                                       .gone = on_supervisor_gone,
                                       .finish = on_finish,
                                       .arg = a};
    return rg__fdstore_watch(a->fdstore, a->loop, &events);
}

#ifdef RG_FAILPOINTS
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TURN_NS (500 * RG__MS)
#else
#define TURN_NS (50 * RG__MS)
#endif

/* Nothing may hold the loop up: others would miss our beats. A test that finds
 * this line in a log fails. */
static void on_slow_turn(void *arg, const rg__turn *turn)
{
    Dl_info at = {0};
    (void)arg;
    if (rg__failpoint_has_struck())
        return;
    dladdr((void *)turn->slowest, &at); /* NOLINT: an address to print */
    rg__log(RG__ERROR, "agent",
            "a turn of the loop took %.1f ms, of which %.1f ms were spent in "
            "the callback at %#zx of %s",
            (double)turn->ns / 1e6, (double)turn->slowest_ns / 1e6,
            (size_t)(turn->slowest - (uintptr_t)at.dli_fbase),
            at.dli_fname != NULL ? at.dli_fname : "?");
}
#endif

static void mind_turns(rg__agent *a)
{
#ifdef RG_FAILPOINTS
    rg__loop_mind_turns(a->loop, TURN_NS, on_slow_turn, a);
#else
    (void)a;
#endif
}

static rg_status open_etcd(rg__agent *a)
{
    rg__etcd_params etcd = a->params->etcd;
    etcd.on_state = on_etcd_state;
    etcd.arg = a;
    return rg__etcd_create(a->loop, &etcd, &a->etcd);
}

/* What each room keeps, still empty, and the names. */
static const make_fn parts[] = {make_timers,           rg__printer_create,
                                rg__suspect_create,    rg__store_create,
                                rg__generation_create, rg__crew_create,
                                rg__mpirun_create,     rg__leaving_create,
                                rg__control_create,    find_names};

/* What is opened then, or taken over. */
static const make_fn openings[] = {
    watch_supervisor,       open_port,          rg__vault_create,
    rg__replication_create, rg__paths_create,   rg__checkpoint_create,
    rg__slots_create,       rg__workers_listen, rg__end_watch_signals,
    rg__scrape_open,        rg__notice_open,    rg__timeline_open,
    rg__scalars_open,       open_etcd};

static rg_status set_up(rg__agent *a)
{
    rg_status st = rg__loop_create(&a->loop);
    if (st == RG_OK)
        st = make_all(a, parts, sizeof parts / sizeof *parts);
    rg__failpoint_start(a->life.agents);
    return st == RG_OK
               ? make_all(a, openings, sizeof openings / sizeof *openings)
               : st;
}

static void tear_down(rg__agent *a)
{
    rg__mpirun_destroy(a);
    rg__notice_close(a);
    uint64_t events, dropped;
    rg__dumps_drop(a);
    rg__timeline_stop(a, &events, &dropped);
    rg__scalars_close(a);
    rg__control_destroy(a); /* while there are slots to tell of */
    if (a->slot != NULL)
        rg__slots_destroy(a);
    rg__printer_destroy(a);
    rg__checkpoint_destroy(a);
    rg__workers_close(a);
    rg__beat_close(a);
    rg__fetch_cancel(a);
    rg__replication_destroy(a);
    rg__paths_destroy(a);
    rg__peers_close(a);
    rg__lease_destroy(a->lease);
    rg__mirror_destroy(a->mirror);
    rg__leader_close(a);
    rg__etcd_destroy(a->etcd);
    rg__vault_destroy(a);
    rg__waits_drop(a);
    rg__generation_destroy(a);
    rg__suspect_destroy(a);
    rg__crew_destroy(a);
    rg__leaving_destroy(a);
    rg__timer_destroy(a->sockets.resend);
    rg__timer_destroy(a->owed.timer);
    rg__fdstore_unwatch(a->fdstore);
    rg__loop_destroy(a->loop);
    rg__snapshot_free(&a->view);
    rg__snapshot_free(&a->known);
    free(a->prefix);
    free(a->prefix_end);
}

int rg__agent_run(const rg__agent_params *params, rg__fdstore *fdstore)
{
    rg__agent *a = calloc(1, sizeof *a);
    if (a == NULL)
        return RG__EXIT_SYSTEM;
    a->on = &rg__agent_events;
    a->own = *params;
    a->params = &a->own;
    a->fdstore = fdstore;
    a->elastic = -1;
    a->life.agents = 1;
    a->sockets.listener = a->sockets.peer_listener = -1;
    rg__log_who(params->host, -1, 0, 0);
    const rg_status st = set_up(a);
    if (st == RG_OK) {
        if (!rg__life_takes_over(a))
            rg__open_job(a);
        else
            rg__resume_begin(a);
        mind_turns(a);
        rg__loop_run(a->loop);
    } else {
        rg__say("%s", rg_last_error());
        a->verdict.code =
            st == RG_ERR_INVALID ? RG__EXIT_USAGE : RG__EXIT_SYSTEM;
    }
    const int code = a->verdict.code;
    tear_down(a);
    free(a);
    return code;
}
