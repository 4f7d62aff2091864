/* Processes in slots.
 *
 *   start -> (meets us) -> lost -> fenced and reaped -> start again, or closed
 *
 * PROGRAM runs in a process group of its own and may be a wrapper; the worker
 * is the process that calls rg_init in it. A worker is lost at the first sign
 * of its death, and then everything in its group is killed. The slot starts
 * again when the worker is fenced (fence.c) and the child reaped. */
#include "elastic/agent/workers/workers.h"
#include "elastic/agent/workers/crew.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/reap.h"
#include "elastic/agent/base/tell.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/output/output.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/supervisor/fdrecord.h"
#include "elastic/agent/vault/vaults.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/child.h"
#include "sdk/base/cgroup.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"

#define FENCE_LOOK_NS      (RG__MS / 5)
#define FENCE_LOOK_SHARE   32 /* of the time that it has taken so far */
#define FENCE_LOOK_MOST_NS (100 * RG__MS)
#define DUMP_NS            (UINT64_C(60) * 1000 * RG__MS) /* for a core dump */
#define BACKOFF_FIRST_MS   50
#define BACKOFF_MOST_MS    10000
#define ORPHAN_NS          (1000 * RG__MS) /* for the supervisor's word */
#define MISSED_NS          (500 * RG__MS)  /* for what needs the dead no more */
#define EXCUSE_BUDGETS     3 /* until a lost host is known as such */
#define QUICK_NS           (UINT64_C(5) * 1000 * RG__MS) /* back off then */

/* --------------------------------------------------------------------- keep */

static rg__fdrecord_name name_of(const rg__slot *s)
{
    return rg__fdrecord_name_as("slot/%u", s->index);
}

void rg__slot_save(const rg__slot *s)
{
    rg__fdstore_put_child(s->a->fdstore, name_of(s).text, s->saved.child,
                          &s->saved, sizeof s->saved, &s->child_pidfd,
                          s->child_pidfd >= 0);
}

/* -------------------------------------------------------------------- start */

static void on_child_exit(void *arg, int fd, uint32_t events);

/* The child runs nothing before its record is with the supervisor: an agent
 * that is killed in between leaves no unknown process. The next one is not to
 * take that for the program's end: no program ends by this signal. */
#define NEVER_BEGAN SIGRTMAX

static void wait_for_go(const int gate[2])
{
    char go;
    close(gate[1]);
    if (read(gate[0], &go, 1) == 1)
        return;
    signal(NEVER_BEGAN, SIG_DFL);
    raise(NEVER_BEGAN);
    _exit(1);
}

static void run_child(const rg__slot *s, const int out[2], const int err[2],
                      const int gate[2])
{
    char number[16];
    setpgid(0, 0);
    snprintf(number, sizeof number, "%u", s->index);
    setenv(RG__ENV_SOCKET, s->a->crew->socket_path, 1);
    setenv(RG__ENV_SLOT, number, 1);
    unsetenv(RG__ENV_LAUNCH); /* ours may be a rank of another job */
    unsetenv(RG__ENV_RESTART);
    unsetenv(RG__ENV_GENERATION);
    setenv("PYTHONUNBUFFERED", "1", 0);  /* C has its lines by the library */
    rg__child_ready(-1, out[1], err[1]); /* curl keeps some of its own */
    setrlimit(RLIMIT_NOFILE, &s->a->crew->descriptors);
    wait_for_go(gate);
    rg__child_run(s->a->params->argv);
}

static rg_status watch_child(rg__slot *s)
{
    s->child_pidfd = (int)syscall(SYS_pidfd_open, s->saved.child, 0);
    if (s->child_pidfd >= 0 &&
        rg__loop_watch(s->a->loop, s->child_pidfd, EPOLLIN, on_child_exit, s) ==
            RG_OK)
        return RG_OK;
    const int cause = errno;
    rg__loop_close(s->a->loop, &s->child_pidfd);
    kill(-s->saved.child, SIGKILL);
    rg__reap(s->saved.child);
    s->saved.child = 0;
    return rg__fail(RG_ERR_SYSTEM, "a worker can't be watched: %s",
                    strerror(cause));
}

static rg_status fork_child(rg__slot *s, const int out[2], const int err[2],
                            const int gate[2])
{
    const pid_t child = fork();
    if (child == 0)
        run_child(s, out, err, gate);
    if (child < 0)
        return rg__fail(RG_ERR_SYSTEM, "a worker can't be started: %s",
                        strerror(errno));
    setpgid(child, child); /* whichever of the two comes first */
    s->saved.child = child;
    s->is_adopted = false;
    const rg_status st = watch_child(s);
    if (st != RG_OK)
        return st;
    rg__slot_save(s);
    rg__failpoint("agent.start", (int)s->index, 0, 0);
    const ssize_t told = write(gate[1], "g", 1);
    (void)told; /* one that is dead by now is reaped as any other */
    return RG_OK;
}

static rg_status start_child(rg__slot *s)
{
    int out[2], err[2], gate[2];
    rg_status st = rg__output_open(s, out, err);
    if (st != RG_OK)
        return st;
    if (pipe2(gate, O_CLOEXEC) == 0) {
        st = fork_child(s, out, err, gate);
        close(gate[0]);
        close(gate[1]);
    } else {
        st = rg__fail(RG_ERR_SYSTEM, "a pipe can't be made: %s",
                      strerror(errno));
    }
    close(out[1]);
    close(err[1]);
    if (st != RG_OK)
        rg__output_close(s); /* no process has it */
    return st;
}

/* A whole launch waits for a rank, and takes longer than the first pause. */
static uint64_t backoff_ms(const rg__slot *s)
{
    uint64_t ms = BACKOFF_FIRST_MS;
    if (s->a->params->is_mpi && s->saved.quick_deaths <= 1)
        return 0;
    for (int i = 1; i < s->saved.quick_deaths && ms < BACKOFF_MOST_MS; i++)
        ms *= 2;
    return ms < BACKOFF_MOST_MS ? ms : BACKOFF_MOST_MS;
}

/* This machine is short of processes, descriptors or memory, perhaps for a
 * while: the program is not at fault. */
static void start_later(rg__slot *s)
{
    rg__agent *a = s->a;
    const uint64_t now = rg__now_ns(),
                   most_ns = a->params->user.start_timeout_ms * RG__MS;
    if (s->unable_ns == 0)
        s->unable_ns = now;
    const uint64_t late_ns = now - s->unable_ns;
    rg__slot_step(s, SLOT_ON_UNABLE);
    if (late_ns >= most_ns) {
        rg__agent_leave(a, RG__EXIT_SYSTEM,
                        "host %s leaves: for %.1f s %s; raise the limits of "
                        "this machine, or give fewer --slots",
                        a->params->host, (double)late_ns / 1e9,
                        rg_last_error());
        return;
    }
    s->saved.quick_deaths++;
    const uint64_t pause_ns = backoff_ms(s) * RG__MS;
    if (late_ns == 0)
        rg__log(RG__WARN, "agent", "%s.%u is not started: %s; tried again",
                a->params->host, s->index, rg_last_error());
    rg__wait_begin(a, RG__WAIT_ROOM, s->index,
                   "resources for a process in slot %u: %s", s->index,
                   rg_last_error());
    rg__timer_set(s->respawn,
                  pause_ns < most_ns - late_ns ? pause_ns : most_ns - late_ns);
}

static void begin_start(rg__slot *s)
{
    rg__slot_step(s, SLOT_ON_BEGIN);
    s->saved.start++;
    s->saved.is_loss = s->saved.has_stepped = s->saved.is_wrapped = false;
    s->saved.is_recalled = false;
    s->saved.death[0] = '\0';
    s->died_in = 0;
    s->saved.started_ns = rg__now_ns();
    rg__slot_save(s); /* before its output, which belongs to this start */
}

static void start(void *arg)
{
    rg__slot *s = arg;
    rg__agent *a = s->a;
    if (a->is_done || a->life.state != RG__LIFE_WORKING || a->params->is_mpi) {
        rg__slot_step(s, SLOT_ON_DISMISS); /* till rg__slots_start, if ever */
        a->on->slot_changed(a);            /* or till a launch */
        return;
    }
    begin_start(s);
    if (start_child(s) != RG_OK) {
        start_later(s);
        return;
    }
    s->unable_ns = 0;
    rg__slot_note_group(s, s->saved.child);
    rg__wait_end(a, RG__WAIT_ROOM, s->index);
    rg__log(RG__DEBUG, "agent", "%s.%u is process %d", a->params->host,
            s->index, s->saved.child);
}

/* A shim reports its end, as the supervisor does for an adopted child. */
static rg_status adopt(rg__slot *s, pid_t child)
{
    s->child_pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    if (s->child_pidfd < 0 ||
        rg__loop_watch(s->a->loop, s->child_pidfd, EPOLLIN, on_child_exit, s) !=
            RG_OK) {
        rg__loop_close(s->a->loop, &s->child_pidfd);
        return rg__fail(RG_ERR_SYSTEM, "process %d can't be watched", child);
    }
    s->saved.child = child;
    s->is_adopted = true;
    rg__slot_save(s);
    rg__slot_note_group(s, child);
    return RG_OK;
}

rg_status rg__slot_take(rg__slot *s, pid_t child, int out[2], int err[2])
{
    if (s->saved.state != SLOT_IDLE || child <= 1)
        return rg__fail(RG_ERR_INVALID,
                        "slot %u of host %s has a process already", s->index,
                        s->a->params->host);
    begin_start(s);
    rg_status st = rg__output_open(s, out, err);
    if (st == RG_OK) {
        st = adopt(s, child);
        if (st == RG_OK)
            return st;
        close(out[1]);
        close(err[1]);
        rg__output_close(s);
    }
    rg__slot_step(s, SLOT_ON_UNABLE);
    rg__timer_set(s->respawn, 0);
    return st;
}

const char *rg__workers_socket(const rg__agent *a)
{
    return a->crew->socket_path;
}

void rg__workers_limit_descriptors(const rg__agent *a)
{
    setrlimit(RLIMIT_NOFILE, &a->crew->descriptors);
}

void rg__slots_start(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++) {
        rg__slot *s = &a->slot[i];
        if (s->saved.state == SLOT_IDLE)
            start(s);
    }
}

/* The child's process group, and the worker, which may be outside of it: by its
 * descriptor, as the number of a grandchild may be another process's. */
static void signal_slot(const rg__slot *s, int signum)
{
    if (s->saved.child > 0) /* 0 would be this process group */
        kill(-s->saved.child, signum);
    if (s->w.pidfd >= 0 && rg__slot_can_store(s))
        syscall(SYS_pidfd_send_signal, s->w.pidfd, signum, NULL, 0);
}

void rg__slots_kill(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        signal_slot(&a->slot[i], SIGKILL);
}

/* Regroup told it to end, or it returned from rg_run and cleans up. */
static bool is_asked_by_regroup(const rg__slot *s)
{
    return s->a->elastic == 1 && s->w.pid != 0 &&
           (s->w.is_finalized || s->saved.state == SLOT_DOOR);
}

static bool has_returned(const rg__slot *s)
{
    return is_asked_by_regroup(s) && (s->w.is_finalized || s->a->is_done);
}

void rg__slots_ask(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        if (!is_asked_by_regroup(&a->slot[i]))
            signal_slot(&a->slot[i], SIGTERM);
}

void rg__slots_hasten(void *agent_arg)
{
    rg__agent *a = agent_arg;
    for (int i = 0; i < a->params->slots; i++)
        if (!has_returned(&a->slot[i]))
            signal_slot(&a->slot[i], SIGTERM);
}

/* A job that waits is no job that is stuck: no worker is pinged meanwhile, and
 * other hosts wait for our workers as for slow ones. */
void rg__slots_pause(rg__agent *a, bool pauses)
{
    if (a->is_paused == pauses || (pauses && rg__life_is_ending(a)))
        return;
    a->is_paused = pauses;
    a->on->noted(a);
    for (int i = 0; i < a->params->slots; i++) {
        a->slot[i].w.silent_ticks = 0;
        signal_slot(&a->slot[i], pauses ? SIGSTOP : SIGCONT);
    }
    rg__log(RG__INFO, "agent", "the workers of host %s %s", a->params->host,
            pauses ? "are paused" : "go on");
}

/* -------------------------------------------------------------------- fence */

void rg__slot_kill(const rg__slot *s)
{
    signal_slot(s, SIGKILL);
}

/* A crash may go on to dump core, which SIGKILL would cut off; one that does
 * neither that nor die within the budget was caught by the program. */
static void end_crash(const rg__slot *s)
{
    const uint64_t budget = rg__patience_ns(s->a->params);
    if (s->w.is_crashed && rg__now_ns() - s->w.lost_ns > budget &&
        !rg__fence_is_dumping(&s->w))
        rg__slot_kill(s);
}

static void go_on_after_death(rg__slot *s);

static void await_end(const rg__slot *s, pid_t pid)
{
    rg__wait_begin(s->a, RG__WAIT_FENCE, s->index,
                   "process %d of slot %u to end: state %c", pid, s->index,
                   rg__fence_state(pid));
}

/* Others may go on without this host; no worker here can. */
static void give_in(const rg__slot *s)
{
    rg__agent_leave(
        s->a, RG__EXIT_SYSTEM,
        "process %d of slot %u on host %s was killed and does not "
        "end: state %c, for %llu s; look at what it waits for (a "
        "file system, a driver), and start again without it",
        s->w.pid, s->index, s->a->params->host, rg__fence_state(s->w.pid),
        (unsigned long long)(s->a->params->user.elastic_timeout_ms / 1000));
}

/* Often at first, and rarely at what SIGKILL does not end. */
static void look_again(rg__slot *s)
{
    const uint64_t waited = rg__now_ns() - s->w.lost_ns;
    const uint64_t share = waited / FENCE_LOOK_SHARE;
    await_end(s, s->w.pid);
    if (waited > s->a->params->user.elastic_timeout_ms * RG__MS)
        give_in(s);
    rg__timer_set(s->fence, share < FENCE_LOOK_NS        ? FENCE_LOOK_NS
                            : share > FENCE_LOOK_MOST_NS ? FENCE_LOOK_MOST_NS
                                                         : share);
}

void rg__slots_await_end(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        if (a->slot[i].saved.child != 0)
            await_end(&a->slot[i], a->slot[i].saved.child);
}

/* It ends when the kernel lets it, and runs no instruction of its own before:
 * no process of ours has to see that. */
void rg__slots_leave_behind(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++) {
        rg__slot *s = &a->slot[i];
        if (s->saved.child == 0 && !rg__slot_can_store(s))
            continue;
        rg__log(RG__WARN, "agent",
                "process %d of slot %u does not end: it is left behind",
                s->saved.child != 0 ? s->saved.child : s->w.pid, s->index);
        s->saved.child = 0;
        rg__slot_step(s, SLOT_ON_CLOSE);
        rg__slot_save(s);
        rg__worker_drop(s);
    }
}

static void look_at_fence(void *arg)
{
    rg__slot *s = arg;
    if (rg__slot_can_store(s) && rg__fence_can_store(&s->w)) {
        end_crash(s);
        look_again(s);
        return;
    }
    rg__wait_end(s->a, RG__WAIT_FENCE, s->index);
    if (s->w.pid == 0)
        return; /* reaped meanwhile */
    rg__slot_step(s, SLOT_ON_FENCED);
    s->w.entered = 0;
    s->a->on->slot_fenced(s->a);
    go_on_after_death(s);
}

/* --------------------------------------------------------------------- lost */

/* Its end is no fault: the job is done or ending, or a static program has
 * called rg_finalize. */
static bool is_free_to_go(const rg__slot *s)
{
    const rg__agent *a = s->a;
    return a->is_done || rg__life_is_ending(a) ||
           (rg__view_is_static(a) && s->w.is_finalized);
}

/* Before the job's keys are here (an agent that takes over while etcd is away)
 * the page says in which generation it died. A page may be scribbled: only one
 * that a living worker of this host has taken up counts. */
static void abort_as_its_page_says(const rg__slot *s)
{
    rg__agent *a = s->a;
    for (int i = 0; s->died_in != 0 && i < a->params->slots; i++)
        if (rg__slot_is_alive(&a->slot[i]) &&
            a->slot[i].w.decided == s->died_in)
            a->on->page_told(a, s->died_in);
}

void rg__slots_abort_losses(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        if (a->slot[i].saved.is_loss)
            abort_as_its_page_says(&a->slot[i]);
}

static void end_generation(rg__slot *s)
{
    rg__agent *a = s->a;
    const rg__proposal *decided = rg__view_decided(a);
    char text[RG__CAUSE_MAX];
    if (s->saved.is_recalled)
        return; /* its generation has ended */
    snprintf(text, sizeof text, "%.40s.%u %.80s", a->params->host, s->index,
             s->saved.death);
    rg__failpoint("agent.detect", -1, 0,
                  decided != NULL ? decided->generation : 0);
    if (decided == NULL && !rg__view_has_place(rg__view_newest(a), s))
        abort_as_its_page_says(s);
    else
        a->on->slot_lost(s, text);
}

/* A worker that called rg_finalize stores nowhere any more; it gets some time
 * to end with a code of its own. Every other is killed. */
static void fence(rg__slot *s)
{
    rg__slot_step(s, SLOT_ON_FENCE);
    if (s->w.is_finalized) {
        rg__slot_step(s, SLOT_ON_FENCED);
        rg__timer_set(s->reap, s->a->params->user.grace_ms * RG__MS);
    } else if (s->w.is_crashed) {
        rg__timer_set(s->reap, DUMP_NS);
    } else {
        rg__slot_kill(s);
    }
    rg__timer_set(s->fence, 0);
}

static void reap(void *arg)
{
    const rg__slot *s = arg;
    if (s->saved.child != 0)
        rg__slot_kill(s);
}

void rg__slot_lost(rg__slot *s, const char *format, ...)
{
    if (!rg__slot_is_alive(s))
        return;
    if (s->a->detected_ns == 0)
        s->a->detected_ns = rg__now_ns();
    rg__slot_step(s, SLOT_ON_DIE);
    s->w.lost_ns = rg__now_ns();
    va_list args;
    va_start(args, format);
    vsnprintf(s->saved.death, sizeof s->saved.death, format, args);
    va_end(args);
    s->saved.is_loss = !is_free_to_go(s);
    s->saved.is_wrapped = s->w.pid != s->saved.child;
    s->saved.has_stepped =
        s->w.page != NULL && atomic_load(&s->w.page->first_generation) != 0;
    rg__slot_save(s);
    if (s->w.page != NULL) {
        s->died_in = atomic_load(&s->w.page->generation);
        const uint64_t step = atomic_load(&s->w.page->step);
        if (step > s->a->life.most_step && !is_free_to_go(s)) {
            s->a->life.most_step = step;
            s->a->on->noted(s->a);
        }
    }
    if (s->saved.is_loss) {
        end_generation(s);
        fence(s);
    } else if (s->a->is_done && !s->w.is_finalized &&
               rg__view_has_place(rg__view_decided(s->a), s)) {
        rg__slots_miss(s->a);
    }
    s->a->on->slot_dead(s);
}

/* With all others of its launch, which counts for no failure of its own. */
static void recall_rank(rg__slot *s)
{
    const bool is_alive = rg__slot_is_alive(s);
    const bool has_ended = s->saved.child == 0;
    if (!is_alive && (s->saved.state != SLOT_STARTING || has_ended))
        return; /* its own end is the fault, or it has none */
    s->saved.is_recalled = true;
    if (is_alive) {
        rg__worker_note_crash(s); /* maybe all ranks crash at once */
        rg__slot_lost(s, "ends with its launch");
    } else {
        rg__slot_kill(s);
    }
}

void rg__slot_recall(rg__slot *s, uint64_t generation)
{
    if (s->a->params->is_mpi) {
        recall_rank(s);
        return;
    }
    s->saved.is_recalled = true;
    rg__slot_lost(s,
                  "starts again with all others, since generation %llu has "
                  "ended before its first commit",
                  (unsigned long long)generation);
}

void rg__slots_miss(rg__agent *a)
{
    rg__timer_set(a->crew->missed_timer, MISSED_NS);
}

void rg__slots_end_world(void *agent_arg)
{
    rg__agent *a = agent_arg;
    const rg__proposal *p = rg__view_decided(a);
    if (p == NULL || a->aborted >= p->generation)
        return;
    a->on->world_over(a, p->generation);
}

void rg__slot_publish_loss(rg__slot *s)
{
    if (s->saved.is_loss && !s->a->is_done && !rg__life_is_ending(s->a))
        end_generation(s);
}

void rg__slot_gone(rg__slot *s)
{
    rg__slot_step(s, SLOT_ON_FENCED);
    rg__timer_set(s->fence, 0);
}

void rg__slot_dismiss(rg__slot *s)
{
    rg__timer_stop(s->respawn);
    rg__timer_stop(s->hold);
    rg__slot_step(s, SLOT_ON_DISMISS);
}

/* The job is done: those at the door hear so, others are asked to end. What a
 * killed agent knew of slots without a worker stays. */
void rg__slots_finish(rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    for (int i = 0; i < a->params->slots; i++) {
        rg__slot *s = &a->slot[i];
        rg__slot_dismiss(s);
        s->saved.has_finished |= p != NULL && s->w.fin == p->generation;
        if (s->saved.state == SLOT_DOOR && !s->w.waits)
            rg__worker_tell_mark(s, RG__DONE, p != NULL ? p->generation : 0);
        else if (s->saved.child != 0 && !s->w.is_finalized)
            kill(-s->saved.child, SIGTERM);
        rg__slot_save(s);
    }
}

/* ------------------------------------------------------ reaped, and onwards */

/* How it ended, and why if that is known. */
typedef struct ending {
    char text[RG__CAUSE_MAX + 64];
} ending;

/* A death that says no more than the code does (child_ended_so). */
static bool is_plain(const char *death)
{
    return death[0] == '\0' || strcmp(death, "died") == 0 ||
           strncmp(death, "exited with code ", 17) == 0 ||
           strncmp(death, "was ended by signal ", 20) == 0;
}

/* The signal that ended it is the one that its handler has told of. */
static bool is_its_crash(const char *death, int code)
{
    int crash = 0;
    return sscanf(death, "crashed with signal %d", &crash) == 1 &&
           code == 128 + crash;
}

static ending code_or_signal(int code)
{
    ending e;
    if (code > 128)
        snprintf(e.text, sizeof e.text, "was ended by signal %d (%s)",
                 code - 128, strsignal(code - 128));
    else
        snprintf(e.text, sizeof e.text, "exited with code %d", code);
    return e;
}

static ending ending_of(const rg__slot *s)
{
    const int code = s->saved.exit_code;
    const bool says_no_more =
        is_plain(s->saved.death) || is_its_crash(s->saved.death, code);
    ending e = code_or_signal(code);
    const size_t n = strlen(e.text);
    if (!says_no_more)
        snprintf(e.text + n, sizeof e.text - n, ": it %s", s->saved.death);
    else if (code == 0)
        snprintf(e.text + n, sizeof e.text - n, " before the job was done");
    return e;
}

static void tell_death(const rg__slot *s, const char *then)
{
    rg__log(RG__WARN, "agent", "%s.%u %s; %s", s->a->params->host, s->index,
            ending_of(s).text, then);
}

/* The leader ends the job when too few slots are left on all hosts. */
static void give_up(rg__slot *s, const char *why)
{
    char then[RG__GIVEN_UP_MAX + 8];
    rg__slot_step(s, SLOT_ON_GIVE_UP);
    snprintf(s->saved.given_up, sizeof s->saved.given_up, "%s at step %llu",
             why, (unsigned long long)s->saved.failed_at);
    snprintf(then, sizeof then, "it %s", s->saved.given_up);
    tell_death(s, then);
    s->a->on->slot_changed(s->a);
}

/* ------------------------------------------------------ whose fault it was */

void rg__slot_note_group(rg__slot *s, pid_t pid)
{
    char list[64];
    snprintf(list, sizeof list, "/proc/%d/cgroup", pid);
    rg__cgroup_oom_file(list, "/sys/fs/cgroup", s->oom_file,
                        sizeof s->oom_file);
    s->oom_kills = rg__cgroup_oom_kills(s->oom_file);
}

/* The kernel has killed it for lack of memory. The kernel counts before it
 * kills; each kill belongs to one worker. */
static bool take_oom_kill(rg__slot *s)
{
    rg__agent *a = s->a;
    if (rg__cgroup_oom_kills(s->oom_file) <= s->oom_kills)
        return false;
    for (int i = 0; i < a->params->slots; i++)
        if (strcmp(a->slot[i].oom_file, s->oom_file) == 0)
            a->slot[i].oom_kills++;
    snprintf(s->saved.death, sizeof s->saved.death,
             "was killed by the kernel, since its control group has no memory "
             "left");
    return true;
}

/* SIGKILL or SIGTERM from outside: a preemption, a person. How a program in a
 * wrapper ended is not known here. */
static bool is_ended_from_outside(rg__slot *s)
{
    const bool is_signal = s->saved.exit_code == 128 + SIGKILL ||
                           s->saved.exit_code == 128 + SIGTERM;
    return is_signal && is_plain(s->saved.death) && !s->saved.is_wrapped &&
           !take_oom_kill(s);
}

/* A program that gets further between its failures is worth restarting; one
 * that dies at the same step again and again is not. */
static void forgive(rg__slot *s)
{
    const uint64_t step = rg__vault_newest_step(s->a);
    if (s->saved.has_stepped && step > s->saved.failed_at)
        s->saved.failures = s->saved.early_exits = 0;
    s->saved.failed_at = step;
}

static void begin_later(rg__slot *s, const char *then)
{
    tell_death(s, then);
    rg__slot_step(s, SLOT_ON_AGAIN);
    rg__timer_set(s->respawn, backoff_ms(s) * RG__MS);
}

static void start_ended(rg__slot *s)
{
    char then[64];
    snprintf(then, sizeof then, "restart in %llu ms, no failure of its own",
             (unsigned long long)backoff_ms(s));
    begin_later(s, then);
}

/* When all others of its launch are gone, too, the next one begins. */
static void wait_for_launch(rg__slot *s)
{
    s->saved.quick_deaths = 0;
    rg__slot_step(s, SLOT_ON_AGAIN);
    rg__timer_set(s->respawn, 0);
}

static int *failures_of(rg__slot *s)
{
    return s->saved.exit_code == 0 ? &s->saved.early_exits : &s->saved.failures;
}

static void give_up_failed(rg__slot *s)
{
    give_up(s, s->saved.exit_code == 0
                   ? "ended before the job was done too often, last"
                   : "used up its --max-restarts");
}

static bool is_excused(const rg__agent *a)
{
    const rg__mpirun *run = &a->view.mpirun;
    return run->number != 0 && run->excused == run->number;
}

/* An MPI ends the ranks of living hosts when it has lost one, and that the host
 * is lost is known only later. */
static bool may_be_excused(const rg__agent *a)
{
    const rg__mpirun *run = &a->view.mpirun;
    for (int r = 0; r < run->size; r++)
        if (run->seat[r].host != a->id)
            return true;
    return false;
}

void rg__slots_excuse(rg__agent *a, uint64_t launch)
{
    for (int i = 0; launch != 0 && i < a->params->slots; i++) {
        rg__slot *s = &a->slot[i];
        if (s->saved.charged != launch)
            continue;
        s->saved.charged = 0;
        if (s->saved.state == SLOT_HELD) {
            rg__timer_stop(s->hold);
            start_ended(s);
        } else if (*failures_of(s) > 0) {
            --*failures_of(s);
        }
        rg__slot_save(s);
    }
}

static void start_again(rg__slot *s)
{
    rg__agent *a = s->a;
    if (a->params->is_mpi && s->saved.is_recalled) {
        wait_for_launch(s);
        return;
    }
    const uint64_t lived_ns = rg__now_ns() - s->saved.started_ns;
    s->saved.quick_deaths = lived_ns > QUICK_NS ? 1 : s->saved.quick_deaths + 1;
    const bool is_from_outside = is_ended_from_outside(s);
    forgive(s);
    if (s->saved.is_recalled || (is_from_outside && a->params->is_mpi))
        s->saved.quick_deaths = 1;
    if (s->saved.is_recalled || is_excused(a) ||
        (is_from_outside && a->params->user.max_restarts > 0)) {
        start_ended(s);
        return;
    }
    s->saved.charged = a->view.mpirun.number;
    if (*failures_of(s) >= a->params->user.max_restarts) {
        if (!may_be_excused(a)) {
            give_up_failed(s);
            return;
        }
        rg__slot_step(s, SLOT_ON_HOLD);
        rg__timer_set(s->hold, EXCUSE_BUDGETS * rg__patience_ns(a->params));
        return;
    }
    char then[64];
    snprintf(then, sizeof then, "restart %d of %d in %llu ms",
             ++*failures_of(s), a->params->user.max_restarts,
             (unsigned long long)backoff_ms(s));
    begin_later(s, then);
}

/* Another worker of this host was lost before: that one, which has not been
 * reaped yet, says how a static job ends, and this one has only followed. */
static bool has_followed(const rg__slot *s)
{
    const rg__agent *a = s->a;
    for (int i = 0; s->saved.exit_code != 0 && i < a->params->slots; i++) {
        const rg__slot *other = &a->slot[i];
        if (other != s && other->saved.is_loss && other->saved.child != 0 &&
            other->w.lost_ns != 0 && other->w.lost_ns < s->w.lost_ns)
            return true;
    }
    return false;
}

/* A program that never calls rg_init, or a static one: run once. */
static void end_of_static(rg__slot *s, bool is_finalized)
{
    rg__agent *a = s->a;
    const bool is_elsewhere = a->elastic < 0 && rg__view_decided(a) != NULL;
    const bool has_met = s->saved.state == SLOT_REAPING;
    rg__slot_step(s, SLOT_ON_CLOSE);
    if (s->saved.exit_code != 0 && is_elsewhere)
        rg__agent_leave(a, s->saved.exit_code,
                        "%s.%u %s and has not called rg_init as on other "
                        "hosts; host %s leaves",
                        a->params->host, s->index, ending_of(s).text,
                        a->params->host);
    else if (s->saved.exit_code != 0)
        rg__agent_end_job(a, s->saved.exit_code,
                          "%s.%u %s; the program is static or has not called "
                          "rg_init, so the job ends",
                          a->params->host, s->index, ending_of(s).text);
    else if (has_met && !is_finalized)
        rg__agent_end_job(a, 1,
                          "%s.%u exited with code 0 without rg_finalize; "
                          "others may wait for it, so the job ends",
                          a->params->host, s->index);
}

static bool is_any_running(const rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        if (a->slot[i].saved.child != 0)
            return true;
    return false;
}

/* It failed before any worker had said what the program is: wait for one that
 * does, for as long as a world may take to form. */
static void hold(rg__slot *s)
{
    rg__timer_set(s->hold, s->a->params->user.start_timeout_ms * RG__MS);
}

static void end_held(void *arg)
{
    rg__slot *s = arg;
    if (s->a->params->is_mpi)
        give_up_failed(s);
    else
        end_of_static(s, false);
    rg__slot_save(s);
}

static void go_on_after_death(rg__slot *s)
{
    rg__agent *a = s->a;
    if (s->saved.child != 0 || rg__slot_can_store(s))
        return;
    const bool is_finalized = s->w.is_finalized;
    const bool follows = has_followed(s);
    const rg__member_id me = {a->id, s->index, s->saved.start};
    if (s->w.pid != 0) {
        rg__worker_forget(s);
        a->on->slot_reaped(s, me);
    }
    if (rg__life_is_ending(a) || a->is_done) {
        rg__slot_step(s, SLOT_ON_CLOSE);
        a->on->noted(a);
        if (s->saved.has_finished && s->saved.exit_code != 0)
            rg__log(RG__WARN, "agent", "%s.%u %s after the job was done",
                    a->params->host, s->index,
                    code_or_signal(s->saved.exit_code).text);
    } else if (a->elastic == 1) {
        start_again(s);
    } else if (a->elastic < 0 && s->saved.exit_code != 0 && is_any_running(a)) {
        rg__slot_step(s, SLOT_ON_HOLD);
        hold(s);
    } else if (follows) {
        rg__slot_step(s, SLOT_ON_HOLD);
        rg__timer_set(s->hold, EXCUSE_BUDGETS * rg__patience_ns(a->params));
    } else {
        end_of_static(s, is_finalized);
    }
    if (a->elastic < 0 && !is_any_running(a))
        rg__slots_kind_is_known(a); /* no worker is left that could say */
    rg__slot_save(s);
    rg__failpoint("agent.reaped", (int)s->index, 0, 0);
    rg__worker_drop(s);
    a->on->settled(a);
}

void rg__slots_kind_is_known(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++) {
        rg__slot *s = &a->slot[i];
        if (s->saved.state != SLOT_HELD)
            continue;
        rg__timer_stop(s->hold);
        if (a->elastic == 1)
            start_again(s);
        else
            end_of_static(s, false);
        rg__slot_save(s);
    }
}

/* What follows is with the supervisor before the child is reaped: until then
 * the next agent would be told its end by the kernel. */
static void child_ended(rg__slot *s, int code, const char *how)
{
    const pid_t child = s->saved.child;
    s->saved.exit_code = code;
    s->saved.ended_ns = rg__now_ns();
    rg__wait_end(s->a, RG__WAIT_FENCE, s->index);
    rg__worker_drain(s);
    rg__slot_lost(s, "%s", how);
    rg__loop_close(s->a->loop, &s->child_pidfd);
    if (!s->is_adopted)
        kill(-child, SIGKILL); /* all that is left of its group */
    s->saved.child = 0;
    s->a->on->process_ended(s);
    rg__timer_stop(s->reap);
    rg__timer_stop(s->orphan);
    rg__output_close(s);
    rg__slot_save(s);
    go_on_after_death(s);
    if (!s->is_adopted)
        rg__reap(child);
}

/* Its agent was killed before it let it run. */
static void start_at_last(rg__slot *s)
{
    rg__loop_close(s->a->loop, &s->child_pidfd);
    s->saved.child = 0;
    rg__timer_stop(s->orphan);
    rg__output_close(s);
    rg__slot_step(s, SLOT_ON_UNABLE);
    rg__slot_save(s);
    rg__timer_set(s->respawn, 0);
}

/* A process that has crashed may be killed before the signal has ended it, by
 * its MPI or since its core dump takes too long: that is not how it failed. */
static int code_of(const rg__slot *s, int status)
{
    const int code = rg__code_of(status);
    return s->w.is_crashed && code == 128 + SIGKILL ? 128 + s->w.crash_signal
                                                    : code;
}

static void child_ended_so(rg__slot *s, int status)
{
    const int code = code_of(s, status);
    char how[64];
    if (s->is_adopted && WIFSIGNALED(status) &&
        WTERMSIG(status) == NEVER_BEGAN) {
        start_at_last(s);
        return;
    }
    snprintf(how, sizeof how,
             code > 128 ? "was ended by signal %d" : "exited with code %d",
             code > 128 ? code - 128 : code);
    child_ended(s, code, how);
}

static void on_child_exit(void *arg, int fd, uint32_t events)
{
    (void)fd, (void)events;
    rg__slot *s = arg;
    if (s->is_adopted) {
        const bool is_known = s->a->params->is_mpi && s->saved.is_recalled;
        rg__loop_unwatch(s->a->loop, s->child_pidfd);
        rg__timer_set(s->orphan, is_known ? 0 : ORPHAN_NS);
        return;
    }
    child_ended_so(s, rg__how_ended(s->saved.child));
}

/* --------------------------------------------- children of an earlier agent */

/* No one knows how it ended: an agent reaped it and was killed. */
static void end_orphan(void *arg)
{
    child_ended(arg, 1, "ended, and its exit code is lost with an agent");
}

void rg__slots_on_ended(void *agent_arg, int32_t pid, int32_t status)
{
    rg__agent *a = agent_arg;
    for (int i = 0; i < a->params->slots; i++)
        if (a->slot[i].is_adopted && a->slot[i].saved.child == pid)
            child_ended_so(&a->slot[i], status);
}

void rg__slot_resume(rg__slot *s)
{
    rg__fdrecord *record = rg__fdstore_read(s->a->fdstore, name_of(s).text,
                                            &s->saved, sizeof s->saved);
    if (record == NULL)
        return;
    s->has_rested = rg__slot_rests(s);
    s->is_adopted = s->saved.child != 0;
    rg__slot_step(s, s->is_adopted ? SLOT_ON_ADOPT : SLOT_ON_ADOPT_NONE);
    rg__slot_note_group(s, s->saved.child);
    s->child_pidfd = rg__fdrecord_take(record, 0);
    if (s->saved.state == SLOT_HELD)
        hold(s);
}

void rg__slot_resume_child(rg__slot *s)
{
    const rg__fdrecord *record =
        rg__fdstore_find(s->a->fdstore, name_of(s).text);
    if (s->saved.child == 0)
        return;
    if (record->has_ended)
        child_ended_so(s, record->status);
    else if (s->child_pidfd < 0 ||
             rg__loop_watch(s->a->loop, s->child_pidfd, EPOLLIN, on_child_exit,
                            s) != RG_OK)
        rg__timer_set(s->orphan, ORPHAN_NS);
}

/* ---------------------------------------------------------- create, destroy */

rg_status rg__crew_create(rg__agent *a)
{
    a->crew = calloc(1, sizeof *a->crew);
    if (a->crew == NULL)
        return rg__agent_made(false);
    rg__fdstore_descriptors(a->fdstore, &a->crew->descriptors);
    a->crew->ping = rg__timer_create(a->loop, rg__workers_ping, a);
    a->crew->missed_timer = rg__timer_create(a->loop, rg__slots_end_world, a);
    return rg__agent_made(a->crew->ping != NULL &&
                          a->crew->missed_timer != NULL);
}

void rg__crew_destroy(rg__agent *a)
{
    if (a->crew == NULL)
        return;
    rg__timer_destroy(a->crew->ping);
    rg__timer_destroy(a->crew->missed_timer);
    free(a->crew);
}

rg_status rg__slots_create(rg__agent *a)
{
    a->slot = calloc((size_t)a->params->slots, sizeof *a->slot);
    if (a->slot == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d slots",
                        a->params->slots);
    for (int i = 0; i < a->params->slots; i++) {
        rg__slot *s = &a->slot[i];
        s->a = a;
        s->index = (uint32_t)i;
        s->child_pidfd = -1;
        s->w = (rg__worker){.sock = -1, .pidfd = -1, .page_fd = -1};
        s->respawn = rg__timer_create(a->loop, start, s);
        s->fence = rg__timer_create(a->loop, look_at_fence, s);
        s->reap = rg__timer_create(a->loop, reap, s);
        s->hold = rg__timer_create(a->loop, end_held, s);
        s->orphan = rg__timer_create(a->loop, end_orphan, s);
        if (s->respawn == NULL || s->fence == NULL || s->reap == NULL ||
            s->hold == NULL || s->orphan == NULL)
            return rg__fail(RG_ERR_MEMORY, "no memory for a slot's timers");
    }
    return RG_OK;
}

void rg__slots_destroy(rg__agent *a)
{
    for (int i = 0; a->slot != NULL && i < a->params->slots; i++) {
        rg__worker_forget(&a->slot[i]);
        rg__worker_forget_record(&a->slot[i]);
        rg__timer_destroy(a->slot[i].respawn);
        rg__timer_destroy(a->slot[i].fence);
        rg__timer_destroy(a->slot[i].reap);
        rg__timer_destroy(a->slot[i].hold);
        rg__timer_destroy(a->slot[i].orphan);
    }
    free(a->slot);
}
