/* Life of an agent: open the job in etcd, take the lease, list the keys, start
 * workers; then everything happens in callbacks; at the end every worker is
 * gone before the agent is. */
#include "elastic/agent/inside.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/tell.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/keeper.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"
#include "sdk/base/proof.h"

#define LEASE_S      10
#define OPEN_NS      (10000 * RG__MS) /* etcd must answer within, at first */
#define TERM_NS      (5000 * RG__MS)  /* asked to end, then SIGKILL */
#define FN_NS        (2000 * RG__MS)  /* to return from rg_run, then SIGTERM */
#define PORT_TRIES   8
#define OLD_TRIES    50 /* of the port that an agent before has had, 5 ms each */
#define LAST_NS      (30000 * RG__MS) /* for the job's last checkpoint */
#define GOODBYE_NS   (1000 * RG__MS)  /* for the last words to etcd */
#define STEP_NS      (10000 * RG__MS) /* for the step that is under way */
#define STEP_LOOK_NS (2 * RG__MS)
#define OTHERS_NS    (12000 * RG__MS) /* for a step of other hosts */

/* ------------------------------------------------------------------ the end */

static bool is_slot_over(const agent *a, const slot *s)
{
    const bool is_closed =
        s->is_closed && !s->is_given_up; /* the leader says */
    return s->child == 0 && (is_closed || a->is_ending || a->is_done) &&
           !(s->w.pid != 0 && !s->w.is_fenced);
}

void rg__agent_check_end(agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        if (!is_slot_over(a, &a->slot[i]))
            return;
    if (a->outputs != NULL && !a->is_hurried)
        return; /* called again when it is written */
    if (rg__checkpoint_is_busy(a) && !a->is_cut_short)
        return; /* likewise */
    if (!a->is_over)
        rg__summary_say(a);
    a->is_over = true;
    if (rg__view_is_static(a) && !a->is_leaving) {
        a->is_leaving = true; /* for good, and for nobody else to notice */
        rg__publish(a);
    }
    const bool is_telling = rg__notice_tells(a);
    const bool is_speaking =
        is_telling || a->is_saying_end || (a->is_leaving && a->publishing);
    rg__timer_set(a->end_timer, is_speaking ? GOODBYE_NS : 0);
}

static void kill_rest(agent *a)
{
    a->is_hurried = true;
    rg__slots_signal(a, SIGKILL);
    rg__slots_await_end(a);
    rg__timer_set(a->kill_timer, a->params->grace_ms * RG__MS);
    rg__agent_check_end(a);
}

static void hurry(agent *a)
{
    a->is_cut_short = true;
    if (!a->is_hurried)
        kill_rest(a);
    else
        rg__agent_check_end(a);
}

/* SIGTERM has not been enough; and then, SIGKILL. */
static void on_kill_timer(void *arg)
{
    agent *a = arg;
    if (!a->is_hurried) {
        kill_rest(a);
        return; /* and back here */
    }
    rg__slots_leave_behind(a);
    rg__agent_check_end(a);
}

static void on_end_written(void *arg, rg_status st, const rg__txn_reply *reply)
{
    agent *a = arg;
    (void)st;
    (void)reply; /* whoever else ends the job has said why */
    a->is_saying_end = false;
    if (a->is_over)
        rg__agent_check_end(a);
}

void rg__agent_send_end(agent *a, rg__txn *txn, int code)
{
    rg__end end = {.is_set = true, .is_asked = a->is_asked, .code = code};
    snprintf(end.why, sizeof end.why, "%s", a->why);
    char *key = rg__record_key(a->prefix, "all/end", 0, NULL);
    char *text = rg__end_text(&end);
    rg__txn_put(txn, RG__THEN, key, text, 0); /* NULL: all or nothing */
    a->is_saying_end = rg__etcd_txn(a->etcd, txn, on_end_written, a) != NULL;
    free(key);
    free(text);
}

static void write_end(agent *a, int code)
{
    char *key = rg__record_key(a->prefix, "all/end", 0, NULL);
    rg__txn *txn = rg__txn_create();
    rg__txn_if_create(txn, key, 0);
    rg__agent_send_end(a, txn, code);
    free(key);
}

/* Until SIGKILL: what a program does behind rg_run has no less time than the
 * drain has. */
static uint64_t time_to_end(const agent *a)
{
    const uint64_t now = rg__now_ns();
    return a->is_draining && a->drain_end_ns > now + TERM_NS
               ? a->drain_end_ns - now
               : TERM_NS;
}

/* What the others are to know of it is said. With the last host, or at an
 * operator's word, the job ends. */
static void stop(agent *a, int code, bool ends_job)
{
    a->is_ending = true;
    a->ends_job = ends_job || a->is_done || !a->is_leaving;
    a->exit_code = code;
    rg__checkpoint_bound(a, ends_job ? LAST_NS : TERM_NS);
    if (ends_job)
        rg__last_begin(a);
    rg__resume_note(a);
    if (code != 0)
        rg__say("%s", a->why);
    rg__text m = {
        .head = {a->is_asked ? RG__LEAVE : RG__ENDED, RG__WIRE_VERSION}};
    snprintf(m.text, sizeof m.text, "%s", a->why);
    for (int i = 0; i < a->params->slots; i++) {
        rg__timer_stop(a->slot[i].respawn);
        rg__timer_stop(a->slot[i].hold);
        rg__worker_tell(&a->slot[i], &m, sizeof m, -1);
    }
    rg__slots_ask(a);
    rg__timer_set(a->term_timer, FN_NS);
    rg__timer_set(a->kill_timer, time_to_end(a));
    rg__agent_check_end(a);
}

void rg__agent_stop(agent *a, int code, const char *format, ...)
{
    if (a->is_ending)
        return;
    va_list args;
    va_start(args, format);
    rg__agent_set_why(a, format, args);
    va_end(args);
    stop(a, code, a->view.end.is_set);
}

/* The list's: END and LEAVE. */
static void end_job(agent *a, int code)
{
    if (a->mirror != NULL)
        write_end(a, code);
    stop(a, code, true);
}

static void leave_job(agent *a, int code)
{
    const bool is_last = a->mirror != NULL && rg__drain_is_alone(a);
    a->is_asked |= code == 0;
    if (a->mirror != NULL)
        rg__leave_say(a, code);
    stop(a, code, is_last);
}

/* ----------------------------------------------------------- the last step */

static bool is_step_under_way(const agent *a)
{
    for (int i = 0; i < a->params->slots; i++) {
        const worker *w = &a->slot[i].w;
        if (rg__slot_is_alive(&a->slot[i]) && w->entered == a->delivered &&
            w->fin != a->delivered)
            return true;
    }
    return false;
}

/* What one rank is told travels with the agreement at the end of its step, so
 * all leave the generation at that commit, wherever they are. */
bool rg__agent_awaits_step(agent *a)
{
    const uint64_t now = rg__now_ns();
    if (!rg__last_is_wanted(a) || rg__view_is_static(a) ||
        a->aborted >= a->delivered || !is_step_under_way(a))
        return false;
    if (a->step_end_ns == 0)
        a->step_end_ns = now + STEP_NS;
    rg__generation_announce(a, a->delivered + 1);
    return now < a->step_end_ns;
}

/* Hosts of the world do what they do at a signal of their own. */
static void ask_others(agent *a)
{
    rg__end word = {
        .is_set = true, .is_asked = a->is_asked, .code = a->stop_code};
    snprintf(word.why, sizeof word.why, "%s", a->why);
    char *key = rg__record_key(a->prefix, "all/stop", 0, NULL);
    char *text = rg__end_text(&word);
    rg__txn *txn = rg__txn_create();
    rg__txn_if_create(txn, key, 0);
    rg__txn_put(txn, RG__THEN, key, text, 0);
    rg__etcd_txn(a->etcd, txn, rg__agent_ignore, a);
    free(key);
    free(text);
}

/* They end the job, which is seen as all/end. */
static bool awaits_others(agent *a)
{
    const uint64_t now = rg__now_ns();
    if (rg__view_has_members(a) || a->view.begun == 0 || !rg__last_is_wanted(a))
        return false;
    if (a->step_end_ns == 0) {
        a->step_end_ns = now + OTHERS_NS;
        ask_others(a);
    }
    return now < a->step_end_ns;
}

static void end_now(agent *a)
{
    char why[sizeof a->why];
    memcpy(why, a->why, sizeof why);
    rg__agent_end_job(a, a->stop_code, "%s", why);
}

static void end_at_once(agent *a)
{
    end_now(a);
    hurry(a);
}

static void look_at_step(void *arg)
{
    agent *a = arg;
    if (!a->is_stopping || a->is_ending || a->is_done)
        return;
    if (awaits_others(a) || rg__agent_awaits_step(a))
        rg__timer_set(a->step_timer, STEP_LOOK_NS);
    else
        end_now(a);
}

void rg__agent_stop_job(agent *a, int code, const char *format, ...)
{
    if (a->is_ending || a->is_stopping)
        return;
    va_list args;
    va_start(args, format);
    rg__agent_set_why(a, format, args);
    va_end(args);
    a->is_stopping = true;
    a->stop_code = code;
    rg__resume_note(a);
    look_at_step(a);
}

static void drain_by_signal(agent *a, int signum)
{
    rg__notice_signal(a);
    rg__drain_start(a, a->params->deadline_ms, strsignal(signum));
}

/* A signal to what began the job means the job. One that the kernel sends since
 * that was killed means this host, where others can go on without it. */
static bool ends_job(const agent *a)
{
    const bool was_killed = a->keeper != 0 && getppid() != a->keeper;
    return a->params->creates_job &&
           !(was_killed && a->params->has_remotes && !a->params->has_etcd);
}

static void end_by_signal(agent *a, int signum)
{
    a->is_asked = true;
    if (ends_job(a))
        rg__agent_stop_job(a, 128 + signum, "stopped by signal %d (%s)", signum,
                           strsignal(signum));
    else
        rg__agent_leave(a, 128 + signum, "stopped by signal %d (%s)", signum,
                        strsignal(signum));
}

static void on_signal(void *arg, int fd, uint32_t events)
{
    (void)events;
    agent *a = arg;
    struct signalfd_siginfo info;
    if (read(fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo == SIGTSTP || info.ssi_signo == SIGCONT)
        rg__slots_pause(a, info.ssi_signo == SIGTSTP);
    else if (a->is_ending)
        hurry(a);
    else if (a->is_stopping)
        end_at_once(a);
    else if (!ends_job(a) && !a->is_draining && a->elastic == 1)
        drain_by_signal(a, (int)info.ssi_signo);
    else
        end_by_signal(a, (int)info.ssi_signo);
}

/* ---------------------------------------------------------------- the view */

void rg__agent_end_wiped(agent *a)
{
    rg__agent_stop(a, RG__EXIT_STORE,
                   "etcd has lost the keys of job %s: it was wiped, or another "
                   "job of that name took its place; start the job again",
                   a->params->job);
}

static void start_working(agent *a)
{
    a->is_working = true;
    rg__publish(a);
    rg__beat_start(a);
    rg__slots_start(a);
    rg__workers_ping(a);
}

/* `regroup scale` has changed the bounds of the world. */
static void follow_size(agent *a)
{
    const rg__size *size = &a->view.size;
    if (size->mod_revision == 0 ||
        (size->min == a->own.min && size->max == a->own.max))
        return;
    a->own.min = size->min;
    a->own.max = size->max;
    rg__agent_tell_sizes(a);
    rg__log(RG__INFO, "agent", "the world has %d to %d workers from now on",
            size->min, size->max);
}

/* Asked for by an agent without members. Others that have none wait for the
 * end. */
static void follow_stop(agent *a)
{
    const rg__end *stop = &a->view.stop;
    if (!stop->is_set || a->is_done || !rg__view_has_members(a))
        return;
    a->is_asked |= stop->is_asked;
    rg__agent_stop_job(a, stop->code, "%s", stop->why);
}

static void on_mirror(void *arg, int64_t revision, bool wiped)
{
    agent *a = arg;
    if (wiped) {
        rg__agent_end_wiped(a);
        return;
    }
    if (rg__view_read(a, a->mirror, &a->view) != RG_OK)
        return;
    if (a->is_ending) { /* all but its last checkpoint is over */
        rg__checkpoint_follow(a);
        return;
    }
    if (a->view.end.is_set) {
        a->is_asked = a->view.end.is_asked;
        rg__agent_stop(a, a->view.end.code, "%s", a->view.end.why);
        return;
    }
    rg__log(RG__TRACE, "agent", "the view stands at revision %" PRId64,
            revision);
    follow_size(a);
    rg__resume_view(a);
    rg__generation_follow(a);
    follow_stop(a);
    rg__checkpoint_follow(a);
    rg__leader_follow(a);
    rg__beat_follow(a);
    rg__suspect_follow(a);
    rg__paths_follow(a);
    rg__drain_follow(a, !a->is_working && a->agents == 1);
    if (!a->is_working && a->agents > 1)
        rg__suspect_take_over(a);
    if (!a->is_working)
        start_working(a);
}

static void on_lease(void *arg, rg__lease_event event)
{
    agent *a = arg;
    if (event == RG__LEASE_LOST) {
        rg__log(RG__WARN, "agent",
                "the lease of host %s was lost; taking it again",
                a->params->host);
        return;
    }
    if (a->mirror != NULL) { /* held again: the keys under it are gone */
        a->finning = 0;
        a->host_revision = 0;
        rg__publish(a);
        rg__generation_try_fin(a);
        rg__leader_follow(a);
        return;
    }
    char *meta = rg__record_key(a->prefix, "meta", 0, NULL);
    const rg_status st = rg__mirror_create(a->etcd, a->all, a->all_end, meta,
                                           on_mirror, a, &a->mirror);
    free(meta);
    if (st != RG_OK)
        rg__agent_leave(a, RG__EXIT_SYSTEM, "%s", rg_last_error());
}

/* ------------------------------------------------------------- open the job */

void rg__agent_tell_sizes(agent *a)
{
    const rg__kept_sizes sizes = {a->own.min, a->own.max};
    rg__keep_put(a->keep, RG__KEPT_SIZES, &sizes, sizeof sizes, NULL, 0);
}

void rg__agent_take_lease(agent *a, const rg__meta *meta)
{
    a->meta = *meta;
    memcpy(a->key, meta->key, sizeof a->key);
    a->own.min = meta->min;
    a->own.max = meta->max;
    rg__timer_stop(a->end_timer);
    rg__agent_tell_sizes(a);
    const rg_status st =
        a->lease_id == 0
            ? rg__lease_create(a->etcd, LEASE_S, on_lease, a, &a->lease)
            : rg__lease_resume(a->etcd, a->lease_id, LEASE_S, on_lease, a,
                               &a->lease);
    if (st != RG_OK) {
        rg__agent_leave(a, RG__EXIT_SYSTEM, "%s", rg_last_error());
        return;
    }
    a->lease_id = rg__lease_id(a->lease);
    rg__resume_note(a);
}

static void refuse_running(agent *a, const char *host)
{
    rg__agent_leave(a, RG__EXIT_STORE,
                    "a job named %s runs already%s%s, or ran less than %d s "
                    "ago; choose another --job, or end that one with `regroup "
                    "stop %s`",
                    a->params->job, host[0] != '\0' ? ", on host " : "", host,
                    LEASE_S, a->params->job);
}

static void on_meta(void *arg, rg_status st, const rg__txn_reply *reply)
{
    agent *a = arg;
    if (st != RG_OK) {
        rg__agent_leave(a, RG__EXIT_STORE, "%s", rg_last_error());
        return;
    }
    rg__snapshot found;
    rg__snapshot_read(&found, a->prefix, reply->kv, reply->kv_count);
    const bool is_ours = found.meta.create_revision != 0 &&
                         strcmp(found.meta.uuid, a->meta.uuid) == 0;
    if (reply->succeeded || is_ours)
        rg__agent_take_lease(a, &a->meta);
    else if (found.meta.create_revision == 0)
        rg__agent_leave(
            a, RG__EXIT_STORE,
            "etcd holds a record of job %s that is not Regroup's or "
            "another version's; choose another --job",
            a->params->job);
    else if (a->params->creates_job)
        refuse_running(a, "");
    else if (found.meta.is_one_host)
        rg__agent_leave(
            a, RG__EXIT_USAGE,
            "job %s is on one host, where nobody listens for others; start it "
            "with `regroup run --etcd-listen ADDRESS` to let others join",
            a->params->job);
    else
        rg__agent_take_lease(a, &found.meta);
    rg__snapshot_free(&found);
}

static void write_meta(agent *a)
{
    char *key = rg__record_key(a->prefix, "meta", 0, NULL);
    char *text = rg__meta_text(&a->meta);
    rg__txn *txn = rg__txn_create();
    rg__resume_note_job(a);
    if (key != NULL && text != NULL && txn != NULL) {
        rg__txn_if_create(txn, key, 0);
        rg__txn_put(txn, RG__THEN, key, text, 0);
        rg__txn_get(txn, RG__ELSE, key, NULL);
        rg__etcd_txn(a->etcd, txn, on_meta, a);
    }
    free(key);
    free(text);
}

static void open_job(agent *a);

static void on_cleared(void *arg, rg_status st, const rg__txn_reply *reply)
{
    agent *a = arg;
    if (st != RG_OK)
        rg__agent_leave(a, RG__EXIT_STORE, "%s", rg_last_error());
    else if (reply->succeeded)
        write_meta(a);
    else
        open_job(a); /* it has changed: look at it again */
}

/* What a job of that name left behind, as long as nobody adds to it. */
static void clear_old(agent *a, int64_t revision)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_if_unchanged(txn, a->prefix, a->prefix_end, revision);
    rg__txn_delete(txn, RG__THEN, a->prefix, a->prefix_end);
    rg__etcd_txn(a->etcd, txn, on_cleared, a);
}

static const rg__kv *find_key(const agent *a, const rg__txn_reply *job,
                              const char *what)
{
    for (size_t i = 0; i < job->kv_count; i++)
        if (strcmp(job->kv[i].key + strlen(a->prefix), what) == 0)
            return &job->kv[i];
    return NULL;
}

static bool does_fit(agent *a, const rg__txn_reply *job)
{
    const rg__kv *shape = find_key(a, job, "shape");
    return shape == NULL || rg__shape_fits(a, shape);
}

/* Hosts that have an agent. */
static const rg__host_record *present(const rg__snapshot *s)
{
    for (int i = 0; i < s->hosts; i++)
        if (!s->host[i].is_gone)
            return &s->host[i];
    return NULL;
}

static void refuse_unended(agent *a)
{
    rg__agent_leave(a, RG__EXIT_STORE,
                    "job %s has not ended, though none of its hosts is in "
                    "etcd: they may train on, cut off from it; if you know "
                    "that it is dead, start with --replace-job, or wait for "
                    "`regroup gc`; else choose another --job",
                    a->params->job);
}

/* A lease that has lapsed is no death: a job that has not ended goes by the
 * operator's word alone. That is for a job that has had a world: two agents
 * that are started together begin one job. */
static bool is_dead(const agent *a, const rg__snapshot *old)
{
    return a->params->replaces_job &&
           (a->params->creates_job || old->cur.generation != 0);
}

static void judge_old(agent *a, const rg__snapshot *old,
                      const rg__txn_reply *job)
{
    const rg__host_record *host = present(old);
    const bool is_over = rg__snapshot_is_over(old);
    if (host != NULL && a->params->creates_job)
        refuse_running(a, host->name);
    else if (host != NULL && is_over)
        rg__agent_leave(a, RG__EXIT_STORE,
                        "job %s has ended; wait until its agents are gone, or "
                        "choose another --job",
                        a->params->job);
    else if (host == NULL && (is_over || is_dead(a, old)))
        clear_old(a, job->revision);
    else if (host == NULL && (a->params->creates_job || old->is_static))
        refuse_unended(a);
    else if (does_fit(a, job))
        write_meta(a);
}

static void on_looked(void *arg, rg_status st, const rg__txn_reply *reply)
{
    agent *a = arg;
    if (st != RG_OK) {
        rg__agent_leave(a, RG__EXIT_STORE, "%s", rg_last_error());
        return;
    }
    rg__snapshot old;
    rg__snapshot_read(&old, a->prefix, reply->kv, reply->kv_count);
    if (reply->kv_count == 0)
        write_meta(a);
    else if (find_key(a, reply, "meta") == NULL)
        clear_old(a, reply->revision); /* a word said too late to a dead job */
    else if (old.meta.create_revision == 0)
        write_meta(a); /* of somebody else: it says so */
    else if (strcmp(old.meta.uuid, a->meta.uuid) == 0)
        rg__agent_take_lease(a, &a->meta); /* the agent before us wrote it */
    else
        judge_old(a, &old, reply);
    rg__snapshot_free(&old);
}

/* The job is over here, or could not be opened. */
static void on_end_timer(void *arg)
{
    agent *a = arg;
    if (a->is_over) {
        rg__loop_stop(a->loop);
        return;
    }
    rg__agent_leave(a, RG__EXIT_STORE,
                    "job %s can't be opened: etcd at %s %s for %d s: %s%s",
                    a->params->job, a->params->endpoints,
                    rg__etcd_lack(a->etcd), (int)(OPEN_NS / (1000 * RG__MS)),
                    rg__etcd_why(a->etcd),
                    rg__etcd_is_refusing(a->etcd) ? "" : "; is it running?");
}

static void open_job(agent *a)
{
    rg__txn *txn = rg__txn_create();
    if (txn == NULL)
        return;
    rg__txn_get(txn, RG__THEN, a->prefix, a->prefix_end);
    rg__etcd_txn(a->etcd, txn, on_looked, a);
    rg__timer_set(a->end_timer, OPEN_NS);
}

/* ------------------------------------------------------------------ set up */

static void on_etcd_state(void *arg, bool up, const char *why)
{
    agent *a = arg;
    if (up) {
        rg__log(RG__WARN, "agent", "etcd answers again");
        rg__plan_leave_out(&a->clock, a->away_ns, rg__now_ns());
        a->away_ns = 0;
        rg__suspect_forgive(a); /* we may have been the one cut off */
        rg__leader_look(a);
    } else {
        a->away_ns = rg__now_ns();
        rg__log(RG__WARN, "agent",
                "etcd %s: %s; training goes on, membership changes wait",
                rg__etcd_lack(a->etcd), why);
        if (a->is_dirty)
            rg__publish(a);
    }
    rg__outage_look(a);
}

static rg_status make_names(agent *a)
{
    uint8_t uuid[16];
    rg_status st = rg__random_bytes(&a->id, sizeof a->id);
    if (st == RG_OK)
        st = rg__random_bytes(a->meta.key, sizeof a->meta.key);
    if (st == RG_OK)
        st = rg__random_bytes(uuid, sizeof uuid);
    if (st != RG_OK)
        return st;
    for (size_t i = 0; i < sizeof uuid; i++)
        snprintf(a->meta.uuid + 2 * i, 3, "%02x", uuid[i]);
    a->meta.min = a->params->min;
    a->meta.max = a->params->max;
    a->meta.is_one_host = a->params->is_one_host;
    rg__resume_job(a);
    if (asprintf(&a->prefix, "/regroup/v1/%s/", a->params->job) < 0)
        a->prefix = NULL;
    a->all =
        a->prefix != NULL ? rg__record_key(a->prefix, "all/", 0, NULL) : NULL;
    a->prefix_end = a->prefix != NULL ? rg__prefix_end(a->prefix) : NULL;
    a->all_end = a->all != NULL ? rg__prefix_end(a->all) : NULL;
    return a->prefix_end != NULL && a->all_end != NULL
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY, "no memory for an agent");
}

static rg_status watch_signals(agent *a)
{
    sigset_t set, stops;
    rg__keeper_signals(&set);
    sigdelset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    /* we write to a terminal from the background: `stty tostop` is for others
     */
    sigemptyset(&stops);
    sigaddset(&stops, SIGTTOU);
    sigprocmask(SIG_BLOCK, &stops, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* ignored, children would reap themselves */
    a->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (a->signal_fd < 0)
        return rg__fail(RG_ERR_SYSTEM, "signals can't be watched");
    return rg__loop_watch(a->loop, a->signal_fd, EPOLLIN, on_signal, a);
}

/* A round of looks is over. */
static void on_suspect_timer(void *arg)
{
    rg__suspect_look(arg);
    rg__leader_look(arg);
}

static rg_status make_timers(agent *a)
{
    a->ping = rg__timer_create(a->loop, rg__workers_ping, a);
    a->look_timer = rg__timer_create(a->loop, rg__leader_look, a);
    a->term_timer = rg__timer_create(a->loop, rg__slots_hasten, a);
    a->kill_timer = rg__timer_create(a->loop, on_kill_timer, a);
    a->suspect_timer = rg__timer_create(a->loop, on_suspect_timer, a);
    a->drain_timer = rg__timer_create(a->loop, rg__drain_look, a);
    a->notice_timer = rg__timer_create(a->loop, rg__notice_look, a);
    a->end_timer = rg__timer_create(a->loop, on_end_timer, a);
    a->resend = rg__timer_create(a->loop, rg__workers_resend, a);
    a->step_timer = rg__timer_create(a->loop, look_at_step, a);
    a->outage_timer = rg__timer_create(a->loop, rg__outage_look, a);
    a->prepare_timer = rg__timer_create(a->loop, rg__generation_hand_out, a);
    a->missed_timer = rg__timer_create(a->loop, rg__slots_end_world, a);
    if (a->step_timer == NULL || a->outage_timer == NULL ||
        a->notice_timer == NULL || a->drain_timer == NULL ||
        a->suspect_timer == NULL || a->resend == NULL ||
        a->prepare_timer == NULL || a->missed_timer == NULL ||
        a->ping == NULL || a->look_timer == NULL || a->kill_timer == NULL ||
        a->term_timer == NULL || a->end_timer == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for timers");
    return RG_OK;
}

static rg_status try_port(agent *a)
{
    rg_status st = rg__peers_listen(a);
    if (st == RG_OK)
        st = rg__beat_open(a);
    if (st != RG_OK)
        rg__peers_close(a);
    return st;
}

/* One number for both; the one that TCP gets may be taken for UDP. The next
 * agent takes that of the one before, which others know. */
static rg_status open_port(agent *a)
{
    const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
    rg_status st = RG_ERR_SYSTEM;
    if (a->params->is_one_host)
        return rg__beat_open(a); /* and hears nobody */
    for (int i = 0; a->port != 0 && st != RG_OK && i < OLD_TRIES; i++) {
        if (i > 0)
            nanosleep(&pause, NULL); /* a child of the dead one has it still */
        st = try_port(a);
    }
    for (int i = 0; st != RG_OK && i < PORT_TRIES; i++) {
        a->port = 0;
        st = try_port(a);
    }
    return st;
}

static void on_keeper_gone(void *arg)
{
    const agent *a = arg;
    rg__log(RG__WARN, "agent",
            "the process that started the agent of host %s is gone; nobody "
            "would take over any more",
            a->params->host);
}

static void on_finish(void *arg, int code, const char *why)
{
    agent *a = arg;
    if (code == 0)
        rg__agent_leave(a, 0, "%s", ""); /* all went well: no word */
    else
        rg__agent_end_job(a, code, "%s", why);
}

static rg_status watch_keeper(agent *a)
{
    const rg__keep_events events = {.ended = rg__slots_on_ended,
                                    .gone = on_keeper_gone,
                                    .finish = on_finish,
                                    .arg = a};
    a->keeper = a->keep != NULL ? getppid() : 0;
    return rg__keep_watch(a->keep, a->loop, &events);
}

#ifdef RG_FAILPOINTS
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TURN_NS (500 * RG__MS)
#else
#define TURN_NS (50 * RG__MS)
#endif

/* Nothing may hold the loop up: others would miss our beats. A test fails that
 * finds this line in a log. */
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

static void mind_turns(agent *a)
{
#ifdef RG_FAILPOINTS
    rg__loop_mind_turns(a->loop, TURN_NS, on_slow_turn, a);
#else
    (void)a;
#endif
}

static rg_status set_up(agent *a)
{
    const rg__etcd_params etcd = {.endpoints = a->params->endpoints,
                                  .user = a->params->user,
                                  .password = a->params->password,
                                  .cacert = a->params->cacert,
                                  .cert = a->params->cert,
                                  .key = a->params->key,
                                  .on_state = on_etcd_state,
                                  .arg = a};
    rg__keep_descriptors(a->keep, &a->descriptors);
    rg_status st = make_names(a);
    if (st == RG_OK && !rg__resume_names(a))
        st = rg__address_choose(a);
    rg__failpoint_start(a->agents);
    if (st == RG_OK)
        st = rg__loop_create(&a->loop);
    if (st == RG_OK)
        st = watch_keeper(a);
    if (st == RG_OK)
        st = make_timers(a);
    if (st == RG_OK)
        st = open_port(a);
    if (st == RG_OK)
        st = rg__vault_create(a);
    if (st == RG_OK)
        st = rg__copies_create(a);
    if (st == RG_OK)
        st = rg__paths_create(a);
    if (st == RG_OK)
        st = rg__checkpoint_create(a);
    if (st == RG_OK)
        st = rg__slots_create(a);
    if (st == RG_OK)
        st = rg__workers_listen(a);
    if (st == RG_OK)
        st = watch_signals(a);
    if (st == RG_OK)
        st = rg__scrape_open(a);
    if (st == RG_OK)
        st = rg__notice_open(a);
    return st == RG_OK ? rg__etcd_create(a->loop, &etcd, &a->etcd) : st;
}

static void tear_down(agent *a)
{
    rg__notice_close(a);
    rg__scrape_close(a);
    rg__questions_end(a); /* while there are slots to tell of */
    rg__drain_asks_drop(a);
    rg__scale_asks_drop(a);
    if (a->slot != NULL)
        rg__slots_destroy(a);
    rg__outputs_drop(a);
    rg__checkpoint_destroy(a);
    rg__workers_close(a);
    rg__beat_close(a);
    rg__transfer_cancel(a);
    rg__copies_destroy(a);
    rg__paths_destroy(a);
    rg__peers_close(a);
    rg__lease_destroy(a->lease);
    rg__mirror_destroy(a->mirror);
    rg__mirror_destroy(a->whole);
    rg__etcd_destroy(a->etcd);
    rg__vault_destroy(a);
    rg__waits_drop(a);
    rg__timer_destroy(a->ping);
    rg__timer_destroy(a->look_timer);
    rg__timer_destroy(a->term_timer);
    rg__timer_destroy(a->kill_timer);
    rg__timer_destroy(a->end_timer);
    rg__timer_destroy(a->outage_timer);
    rg__timer_destroy(a->step_timer);
    rg__timer_destroy(a->resend);
    rg__timer_destroy(a->prepare_timer);
    rg__timer_destroy(a->missed_timer);
    rg__timer_destroy(a->suspect_timer);
    rg__timer_destroy(a->drain_timer);
    rg__timer_destroy(a->notice_timer);
    if (a->signal_fd >= 0)
        close(a->signal_fd);
    rg__keep_unwatch(a->keep);
    rg__loop_destroy(a->loop);
    rg__snapshot_free(&a->view);
    rg__snapshot_free(&a->known);
    rg__plan_clock_reset(&a->clock);
    free(a->change);
    free(a->accused);
    free(a->ack);
    free(a->reason);
    free(a->prefix);
    free(a->prefix_end);
    free(a->all);
    free(a->all_end);
}

/* --------------------------------------------- what follows from each event */

static void follow_slot_untold(slot *s)
{
    rg__slot_lost(s, "can't be told: no memory");
}

static void follow_slot_stood(slot *s)
{
    rg__resume_look(s->a);
}

/* A caller's first frame. */
static bool follow_agent_asked(agent *a, connection *c, uint32_t type,
                               const void *body, size_t n)
{
    switch (type) {
    case RG__PEER_FETCH:
        return rg__transfer_serve(a, c, body, n);
    case RG__PEER_COPY:
        return rg__copies_serve(a, c, body, n);
    case RG__PEER_PROVE:
        return rg__paths_serve(a, c, body, n);
    default:
        return false;
    }
}

static void follow_beats_sent(agent *a)
{
    rg__ack_repeat(a);
    rg__suspect_look(a);
}

static void follow_host_aborted(agent *a, uint64_t generation)
{
    rg__generation_abort(a, generation);
    if (!rg__view_i_lead(a))
        return;
    rg__suspect_told(a, generation);
    rg__beat_abort(a, generation);
}

static void follow_host_missed(agent *a)
{
    rg__slots_end_world(a);
}

static void follow_mute_changed(agent *a)
{
    rg__leader_look(a);
}

static void follow_ended_for(agent *a, uint64_t generation, const char *why)
{
    rg__publish_reason(a, generation, NULL, false, why);
}

static void follow_fetched(agent *a)
{
    rg__generation_pass_on(a);
    rg__generation_follow(a);
}

static void follow_copy_broken(agent *a, uint64_t generation, const char *host,
                               const char *why)
{
    rg__generation_abort(a, generation);
    if (host != NULL)
        rg__publish_broken_link(a, generation, NULL, host, why);
    else
        rg__publish_reason(a, generation, NULL, false, why);
}

static void follow_done(agent *a)
{
    rg__slots_finish(a);
    rg__resume_note(a);
    rg__agent_check_end(a);
}

const rg__events rg__agent_events = {
    .leave = leave_job,
    .end = end_job,
    .settled = rg__agent_check_end,
    .noted = rg__resume_note,
    .slot_untold = follow_slot_untold,
    .slot_stood = follow_slot_stood,
    .sets_told = rg__questions_look,
    .worker_calls = rg__guest_accept,
    .agent_calls = rg__peers_accept,
    .asked = rg__question,
    .agent_asked = follow_agent_asked,
    .beats_sent = follow_beats_sent,
    .host_acked = rg__ack_hear,
    .host_aborted = follow_host_aborted,
    .host_missed = follow_host_missed,
    .rival_judged = rg__publish_rival,
    .mute_changed = follow_mute_changed,
    .leader_missed = rg__leader_follow,
    .paths_judged = rg__publish,
    .ended_for = follow_ended_for,
    .fetched = follow_fetched,
    .fetch_failed = rg__generation_follow, /* what has waited behind it */
    .copy_broken = follow_copy_broken,
    .done = follow_done};

int rg__agent_run(const rg__agent_params *params, rg__keep *keep)
{
    agent *a = calloc(1, sizeof *a);
    if (a == NULL)
        return RG__EXIT_SYSTEM;
    a->on = &rg__agent_events;
    a->own = *params;
    a->params = &a->own;
    a->keep = keep;
    a->elastic = -1;
    a->agents = 1;
    a->listener = a->signal_fd = a->vault_fd = a->peer_listener = -1;
    rg__log_who(params->host, -1, 0, 0);
    const rg_status st = set_up(a);
    if (st == RG_OK) {
        if (a->resume == RESUME_NOT)
            open_job(a);
        else
            rg__resume_begin(a);
        mind_turns(a);
        rg__loop_run(a->loop);
    } else {
        rg__say("%s", rg_last_error());
        a->exit_code = st == RG_ERR_INVALID ? RG__EXIT_USAGE : RG__EXIT_SYSTEM;
    }
    const int code = a->exit_code;
    tear_down(a);
    free(a);
    return code;
}
