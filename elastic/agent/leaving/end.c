/* How an agent ends: this host leaves or the job ends (exits.h), with the step
 * that is under way if that is worth a checkpoint; workers are ended, and the
 * agent ends when nothing of them is left. */
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/leaving/leaving_parts.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/tell.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/checkpoint/checkpoints.h"
#include "elastic/agent/dump/dump.h"
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/mpirun/mpirun.h"
#include "elastic/agent/supervisor/supervisor.h"
#include "elastic/agent/workers/workers.h"
#include "elastic/agent/output/output.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define TERM_NS      (5000 * RG__MS)  /* asked to end, then SIGKILL */
#define FN_NS        (2000 * RG__MS)  /* to return from rg_run, then SIGTERM */
#define LAST_NS      (30000 * RG__MS) /* for the job's last checkpoint */
#define GOODBYE_NS   (1000 * RG__MS)  /* for the last words to etcd */
#define STEP_NS      (10000 * RG__MS) /* for the step that is under way */
#define SECOND_NS    (1000 * RG__MS)
#define STEP_LOOK_NS (2 * RG__MS)
#define WORD_NS      (2000 * RG__MS) /* for their word that it has ended */
#define SAY_NS       (500 * RG__MS)  /* a longer wait is reported */

/* ------------------------------------------------------------------ the end */

static bool is_slot_over(const rg__agent *a, const rg__slot *s)
{
    return s->saved.child == 0 && !rg__slot_can_store(s) &&
           (s->saved.state == SLOT_CLOSED || rg__life_is_ending(a) ||
            a->is_done);
}

/* 128 + a signal that a program gives itself. */
static bool is_crash(int code)
{
    const int signal = code - 128;
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT ||
           signal == SIGFPE || signal == SIGILL;
}

/* A death after done is no fault; an exit code is the program's word, and so is
 * a crash, unless its MPI has broken and spoken for it. */
static bool has_said(const rg__agent *a, int code)
{
    const bool is_word = code <= 128 || (!a->params->is_mpi && is_crash(code));
    return code != 0 && is_word && !rg__mpirun_may_have_said(a, code);
}

/* As ranks that call MPI_Abort are, whose code mpirun alone knows. Else its
 * code may be made of those of several ranks. */
static bool is_any_killed(const rg__agent *a)
{
    for (int i = 0; a->is_done && i < a->params->slots; i++)
        if (a->slot[i].saved.exit_code == 128 + SIGKILL)
            return true;
    return false;
}

/* The first that ends with a code counts: an end that is no success may break
 * the MPI of other ranks, which then end with codes that it chose. */
static void take_code(rg__agent *a)
{
    const rg__slot_saved *first = NULL;
    for (int i = 0; i < a->params->slots; i++) {
        const rg__slot_saved *s = &a->slot[i].saved;
        if (s->has_finished && has_said(a, s->exit_code) &&
            (first == NULL || s->ended_ns < first->ended_ns))
            first = s;
    }
    const int of_mpirun = is_any_killed(a) ? rg__mpirun_code(a) : 0;
    if (a->verdict.code != 0)
        return;
    if (first != NULL)
        a->verdict.code = first->exit_code;
    else if (has_said(a, of_mpirun))
        a->verdict.code = of_mpirun;
}

void rg__agent_check_end(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        if (!is_slot_over(a, &a->slot[i]))
            return;
    if (rg__mpirun_is_running(a))
        return; /* likewise */
    if (rg__outputs_are_open(a) && !a->leaving->is_hurried)
        return; /* called again when it is written */
    if (rg__checkpoint_is_busy(a) && !a->leaving->is_cut_short)
        return; /* likewise */
    if (rg__dump_is_busy(a) && !a->leaving->is_hurried)
        return; /* likewise */
    if (!rg__life_is_over(a)) {
        take_code(a);
        rg__summary_say(a);
    }
    rg__life_step(a, RG__LIFE_ON_REST);
    if (rg__view_is_static(a) && !a->departure.is_leaving) {
        a->departure.is_leaving =
            true; /* for good, and for no other host to notice */
        rg__publish(a);
    }
    const bool is_telling = rg__notice_tells(a);
    const bool is_speaking =
        is_telling || a->leaving->is_saying_end || rg__job_owes(a, NULL) ||
        (a->departure.is_leaving && rg__publish_is_under_way(a));
    rg__timer_set(a->leaving->end_timer, is_speaking ? GOODBYE_NS : 0);
}

static void kill_rest(rg__agent *a)
{
    a->leaving->is_hurried = true;
    rg__slots_kill(a);
    rg__mpirun_kill(a);
    rg__slots_await_end(a);
    rg__timer_set(a->leaving->kill_timer, a->params->user.grace_ms * RG__MS);
    rg__agent_check_end(a);
}

static void hurry(rg__agent *a)
{
    a->leaving->is_cut_short = true;
    if (!a->leaving->is_hurried)
        kill_rest(a);
    else
        rg__agent_check_end(a);
}

/* SIGTERM has not been enough; and then, SIGKILL. */
static void on_late(void *arg)
{
    rg__agent *a = arg;
    if (!a->leaving->is_hurried) {
        kill_rest(a);
        return; /* and back here */
    }
    rg__slots_leave_behind(a);
    rg__mpirun_leave_behind(a);
    rg__agent_check_end(a);
}

static void on_end_written(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    (void)st;
    (void)reply; /* another that ends the job has said why */
    a->leaving->is_saying_end = false;
    if (rg__life_is_over(a))
        rg__agent_check_end(a);
}

void rg__agent_send_end(rg__agent *a, rg__txn_draft *t, rg__job_act again)
{
    rg__end end = {.is_set = true,
                   .is_asked = a->verdict.is_asked,
                   .code = a->verdict.code};
    snprintf(end.why, sizeof end.why, "%s", a->verdict.why);
    rg__job_put(t, RG__KEY(END), rg__end_text(&end), 0);
    rg__job_send(t, on_end_written, a, again);
    a->leaving->is_saying_end = true;
}

static void write_end(rg__agent *a)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_create(&t, RG__KEY(END), 0);
    rg__agent_send_end(a, &t, write_end);
}

/* Until SIGKILL. After rg_run a program has at least the drain's time. */
static uint64_t time_to_end(const rg__agent *a)
{
    const uint64_t now = rg__now_ns();
    return a->departure.is_draining && a->leaving->drain_end_ns > now + TERM_NS
               ? a->leaving->drain_end_ns - now
               : TERM_NS;
}

/* The others know. With the last host, or if an operator asks, the job ends. */
static void stop(rg__agent *a, bool ends_job)
{
    rg__life_step(a, RG__LIFE_ON_END);
    a->leaving->ends_job = ends_job || a->is_done || !a->departure.is_leaving;
    rg__checkpoint_bound(a, ends_job ? LAST_NS : TERM_NS);
    if (ends_job)
        rg__last_begin(a);
    a->on->noted(a);
    if (a->verdict.code != 0)
        rg__say("%s", a->verdict.why);
    rg__text m = {.head = {a->verdict.is_asked ? RG__LEAVE : RG__ENDED,
                           RG__WIRE_VERSION}};
    snprintf(m.text, sizeof m.text, "%s", a->verdict.why);
    for (int i = 0; i < a->params->slots; i++) {
        rg__slot_dismiss(&a->slot[i]);
        rg__worker_tell(&a->slot[i], &m, sizeof m, -1);
    }
    rg__slots_ask(a);
    rg__timer_set(a->leaving->term_timer, FN_NS);
    rg__timer_set(a->leaving->kill_timer, time_to_end(a));
    rg__agent_check_end(a);
}

void rg__agent_stop(rg__agent *a, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (rg__agent_set_why(a, format, args)) {
        a->verdict.code = code;
        stop(a, a->view.end.is_set);
    }
    va_end(args);
}

void rg__agent_follow_end(rg__agent *a, int code)
{
    a->verdict.code = code;
    if (a->mirror != NULL)
        write_end(a);
    stop(a, true);
}

/* No world follows a static one, so others can't go on without this host. */
static bool is_needed(const rg__agent *a)
{
    return a->elastic == 0 && rg__view_has_members(a);
}

void rg__agent_follow_leave(rg__agent *a, int code)
{
    if (code != 0 && is_needed(a)) {
        rg__agent_follow_end(a, code);
        return;
    }
    const bool is_last = a->mirror != NULL && rg__drain_is_alone(a);
    a->verdict.is_asked |= code == 0;
    a->verdict.code = code;
    if (a->mirror != NULL)
        rg__leave_say(a);
    stop(a, is_last);
}

/* ------------------------------------------------------------ the last step */

static bool is_step_under_way(const rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++) {
        const rg__worker *w = &a->slot[i].w;
        if (rg__slot_is_alive(&a->slot[i]) && w->entered == a->delivered &&
            w->fin != a->delivered)
            return true;
    }
    return false;
}

/* A host that is to go knows how long it may take. */
static uint64_t step_ends_by(const rg__agent *a, uint64_t most_ns)
{
    return a->leaving->drain_end_ns != 0 ? a->leaving->drain_end_ns
                                         : rg__now_ns() + most_ns;
}

/* What one rank is told travels with the agreement at the end of its step, so
 * all leave at that commit. Before the first commit there is no step. */
bool rg__agent_awaits_step(rg__agent *a)
{
    if (!rg__last_is_wanted(a) || rg__view_is_static(a) || a->view.begun == 0 ||
        a->aborted >= a->delivered || !is_step_under_way(a))
        return false;
    if (a->leaving->step_end_ns == 0)
        a->leaving->step_end_ns = step_ends_by(a, STEP_NS);
    rg__generation_announce(a, a->delivered + 1);
    return rg__now_ns() < a->leaving->step_end_ns;
}

/* Hosts of the world do what they do at a signal of their own. */
static void ask_others(rg__agent *a)
{
    rg__end word = {.is_set = true,
                    .is_asked = a->verdict.is_asked,
                    .code = a->leaving->stop_code};
    snprintf(word.why, sizeof word.why, "%s", a->verdict.why);
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_create(&t, RG__KEY(STOP), 0);
    rg__job_put(&t, RG__KEY(STOP), rg__end_text(&word), 0);
    rg__job_send(&t, NULL, NULL, ask_others);
}

/* They end the job, which is seen as all/end; those that are to go have the
 * time that they were given. */
static bool awaits_others(rg__agent *a)
{
    const uint64_t step_ns =
        a->view.stop.is_set ? a->params->user.deadline_ms * RG__MS : STEP_NS;
    if (rg__view_has_members(a) || a->view.begun == 0 || !rg__last_is_wanted(a))
        return false;
    if (a->leaving->step_end_ns == 0) {
        a->leaving->step_end_ns = step_ends_by(a, step_ns + WORD_NS);
        ask_others(a);
    }
    return rg__now_ns() < a->leaving->step_end_ns;
}

static void end_now(rg__agent *a)
{
    char why[sizeof a->verdict.why];
    memcpy(why, a->verdict.why, sizeof why);
    rg__agent_end_job(a, a->leaving->stop_code, "%s", why);
}

static void end_at_once(rg__agent *a)
{
    end_now(a);
    hurry(a);
}

/* A user has pressed Ctrl-C, and nothing seems to happen. */
static void say_step(rg__agent *a)
{
    const uint64_t now = rg__now_ns();
    if (a->leaving->step_say_ns == 0)
        a->leaving->step_say_ns = now + SAY_NS;
    if (a->leaving->has_said_step || now < a->leaving->step_say_ns ||
        a->params->is_launched)
        return;
    a->leaving->has_said_step = true;
    rg__tell("%s; the step that is under way ends first, within %d s (another "
             "signal ends the job at once)",
             a->verdict.why,
             (int)((a->leaving->step_end_ns - now + 999 * RG__MS) / SECOND_NS));
}

static void look_at_step(void *arg)
{
    rg__agent *a = arg;
    if (!a->leaving->is_stopping || rg__life_is_ending(a) || a->is_done)
        return;
    if (!awaits_others(a) && !rg__agent_awaits_step(a)) {
        end_now(a);
        return;
    }
    say_step(a);
    rg__timer_set(a->leaving->step_timer, STEP_LOOK_NS);
}

void rg__agent_stop_job(rg__agent *a, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!a->leaving->is_stopping && rg__agent_set_why(a, format, args)) {
        a->leaving->is_stopping = true;
        a->leaving->stop_code = code;
        a->on->noted(a);
        if (a->is_done) /* its last processes make no step any more */
            end_now(a);
        else
            look_at_step(a);
    }
    va_end(args);
}

/* ------------------------------------------------------------------ signals */

static void drain_by_signal(rg__agent *a, int signum)
{
    rg__notice_signal(a);
    rg__drain_start(a, a->params->user.deadline_ms, strsignal(signum));
}

/* A signal to what began the job means the job. One that the kernel sends since
 * that was killed means this host, where others can go on without it. */
static bool ends_job(const rg__agent *a)
{
    const bool was_killed =
        a->leaving->supervisor != 0 && getppid() != a->leaving->supervisor;
    return a->params->creates_job &&
           !(was_killed && a->params->has_remotes && !a->params->has_etcd);
}

static void end_by_signal(rg__agent *a, int signum)
{
    a->verdict.is_asked = true;
    if (ends_job(a))
        rg__agent_stop_job(a, 128 + signum, "stopped by signal %d (%s)", signum,
                           strsignal(signum));
    else
        rg__agent_leave(a, 128 + signum, "stopped by signal %d (%s)", signum,
                        strsignal(signum));
}

static void take_signal(rg__agent *a, int signum)
{
    if (rg__life_is_ending(a))
        hurry(a);
    else if (a->leaving->is_stopping)
        end_at_once(a);
    else if (!ends_job(a) && !a->departure.is_draining && a->elastic == 1 &&
             !a->is_done)
        drain_by_signal(a, signum);
    else
        end_by_signal(a, signum);
}

/* An agent that takes over may be told what the one before knew. */
void rg__end_asked(rg__agent *a, bool at_once)
{
    if (at_once || (!rg__life_is_ending(a) && !a->leaving->is_stopping &&
                    !a->departure.is_draining))
        take_signal(a, SIGTERM);
}

static void on_signal(void *arg, int fd, uint32_t events)
{
    (void)events;
    rg__agent *a = arg;
    struct signalfd_siginfo info;
    if (read(fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo == SIGTSTP || info.ssi_signo == SIGCONT)
        rg__slots_pause(a, info.ssi_signo == SIGTSTP);
    else
        take_signal(a, (int)info.ssi_signo);
}

rg_status rg__end_watch_signals(rg__agent *a)
{
    sigset_t set, stops;
    rg__supervisor_signals(&set);
    sigdelset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    /* `stty tostop` is for others: we write from the background */
    sigemptyset(&stops);
    sigaddset(&stops, SIGTTOU);
    sigprocmask(SIG_BLOCK, &stops, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* ignored, children would reap themselves */
    a->leaving->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (a->leaving->signal_fd < 0)
        return rg__fail(RG_ERR_SYSTEM, "signals can't be watched");
    return rg__loop_watch(a->loop, a->leaving->signal_fd, EPOLLIN, on_signal,
                          a);
}

/* ---------------------------------------------------------- create, destroy */

/* The agent is over, or the job could not be opened. */
static void on_end_timer(void *arg)
{
    rg__agent *a = arg;
    if (rg__life_is_over(a))
        rg__loop_stop(a->loop);
    else
        a->on->open_late(a);
}

void rg__end_bound_opening(rg__agent *a, uint64_t ns)
{
    if (ns != 0)
        rg__timer_set(a->leaving->end_timer, ns);
    else
        rg__timer_stop(a->leaving->end_timer);
}

bool rg__end_is_of_job(const rg__agent *a)
{
    return a->leaving->ends_job;
}

rg__leaving_saved rg__leaving_save(const rg__agent *a)
{
    return (rg__leaving_saved){.is_stopping = a->leaving->is_stopping,
                               .stop_code = a->leaving->stop_code,
                               .drain_end_ns = a->leaving->drain_end_ns};
}

void rg__leaving_resume(rg__agent *a, const rg__leaving_saved *was)
{
    a->leaving->is_stopping = was->is_stopping;
    a->leaving->stop_code = was->stop_code;
    a->leaving->drain_end_ns = was->drain_end_ns;
}

void rg__leaving_go_on(rg__agent *a)
{
    if (a->departure.is_draining)
        rg__timer_set(a->leaving->drain_timer, 0);
    if (a->leaving->is_stopping)
        rg__timer_set(a->leaving->step_timer, 0);
}

static rg_status make_timers(rg__agent *a, struct rg__leaving *l)
{
    l->drain_timer = rg__timer_create(a->loop, rg__drain_look, a);
    l->notice_timer = rg__timer_create(a->loop, rg__notice_look, a);
    l->outage_timer = rg__timer_create(a->loop, rg__outage_look, a);
    l->step_timer = rg__timer_create(a->loop, look_at_step, a);
    l->term_timer = rg__timer_create(a->loop, rg__slots_hasten, a);
    l->kill_timer = rg__timer_create(a->loop, on_late, a);
    l->end_timer = rg__timer_create(a->loop, on_end_timer, a);
    return rg__agent_made(l->drain_timer != NULL && l->notice_timer != NULL &&
                          l->outage_timer != NULL && l->step_timer != NULL &&
                          l->term_timer != NULL && l->kill_timer != NULL &&
                          l->end_timer != NULL);
}

rg_status rg__leaving_create(rg__agent *a)
{
    a->leaving = calloc(1, sizeof *a->leaving);
    if (a->leaving == NULL)
        return rg__agent_made(false);
    a->leaving->signal_fd = -1;
    a->leaving->supervisor = a->fdstore != NULL ? getppid() : 0;
    return make_timers(a, a->leaving);
}

void rg__leaving_destroy(rg__agent *a)
{
    struct rg__leaving *l = a->leaving;
    if (l == NULL)
        return;
    rg__timer_destroy(l->drain_timer);
    rg__timer_destroy(l->notice_timer);
    rg__timer_destroy(l->outage_timer);
    rg__timer_destroy(l->step_timer);
    rg__timer_destroy(l->term_timer);
    rg__timer_destroy(l->kill_timer);
    rg__timer_destroy(l->end_timer);
    if (l->signal_fd >= 0)
        close(l->signal_fd);
    free(l);
}
