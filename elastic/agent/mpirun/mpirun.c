/* A launch on this host, from the leader's word to the last process. */
#include "elastic/agent/mpirun/mpirun.h"
#include "elastic/agent/mpirun/mpirun_parts.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/reap.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/supervisor/fdrecord.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/workers/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/child.h"
#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define SWEEP_NS      (2 * RG__MS)
#define SWEEP_SHARE   32 /* of the time that it has taken so far */
#define SWEEP_MOST_NS (100 * RG__MS)
#define SHIMS_NS      (2000 * RG__MS) /* to say how their ranks have ended */
#define CODE_NS       (50 * RG__MS)   /* for mpirun to end with its code */
#define PATIENCE_NS   (5000 * RG__MS) /* with mpirun when the job is done */
#define LEAVES        "a host leaves"
#define HELPER        "helper." /* names of records */
#define MPI_END       "mpi_end"
#define WHERE_MAX     200
#define START_MAX     100

static bool has_ended(const rg__slot *s)
{
    return s->saved.child == 0 && !rg__slot_can_store(s);
}

static bool are_slots_free(const rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        if (!has_ended(&a->slot[i]))
            return false;
    return true;
}

/* ----------------------------------------------------- when the job is done */

/* MPI_Finalize waits for all ranks: forever, where one is dead. */
static void on_ending(void *arg)
{
    rg__agent *a = arg;
    struct rg__launches *l = a->launches;
    if (l->is_all_killed) {
        rg__slots_leave_behind(a);
        rg__mpirun_leave_behind(a);
        a->on->settled(a);
    } else if (l->is_killed) {
        l->is_all_killed = true;
        rg__mpirun_kill(a);
        rg__timer_set(l->ending, a->params->user.grace_ms * RG__MS);
    } else if (!are_slots_free(a)) {
        l->is_killed = l->ends_soon = true;
        rg__log(RG__WARN, "agent",
                "ranks on host %s have not ended, although the job is done: "
                "they are killed",
                a->params->host);
        rg__slots_kill(a);
        rg__timer_set(l->ending, a->params->user.grace_ms * RG__MS);
    }
}

static void end_soon(rg__agent *a)
{
    struct rg__launches *l = a->launches;
    if (!a->is_done || l->ends_soon)
        return;
    l->ends_soon = true;
    rg__timer_set(l->ending, a->params->user.grace_ms * RG__MS);
}

/* A rank of the launch is dead, or its MPI is. The others may wait for it;
 * those of other hosts too, which learn of it when its world ends. */
static void miss(rg__agent *a)
{
    a->launches->has_missed = true; /* an agent may hear of done later */
    end_soon(a);
    if (a->is_done)
        rg__slots_miss(a);
}

/* Its ranks went on without others, for which MPI_Finalize may wait. */
static bool has_outlived_any(const rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    return p != NULL && p->launch != 0 && p->size < a->view.mpirun.size;
}

void rg__mpirun_done(rg__agent *a)
{
    if (!a->params->is_mpi)
        return;
    if (a->launches->number == 0) /* an agent that has taken over since */
        a->launches->number = a->view.mpirun.number;
    if (are_slots_free(a))
        return;
    rg__wait_begin(a, RG__WAIT_ENDING, 0,
                   "ranks of launch %llu to end, since the job is done",
                   (unsigned long long)a->launches->number);
    if (!a->launches->ends_soon)
        rg__timer_set(a->launches->ending,
                      a->params->user.elastic_timeout_ms * RG__MS);
    if (has_outlived_any(a))
        end_soon(a);
    if (a->launches->has_missed)
        miss(a);
}

/* ----------------------------------------------------------------- helpers */

static rg__fdrecord_name name_of(const rg__helper *h)
{
    return rg__fdrecord_name_as(HELPER "%d", h->pid);
}

static void drop_helper(rg__helper *h)
{
    rg__fdstore_drop(h->a->fdstore, name_of(h).text);
    rg__chain_remove(&h->a->launches->helpers, h);
    rg__loop_close(h->a->loop, &h->pidfd);
    free(h);
}

/* There is no code yet, or only that of a kill. */
static bool is_unknown(int code)
{
    return code == 0 || code == 128 + SIGKILL;
}

/* MPI_Abort in one rank may end any of them by SIGKILL, or a daemon, which is
 * seen first here; only mpirun knows the code then. */
static bool may_know_code(const rg__agent *a)
{
    const rg__flavour *mpi = a->params->flavour;
    return mpi != NULL && mpi->aborts_by_kill && a->launches->has_rank &&
           a->launch.broke == a->launches->number &&
           a->launch.by != RG__BROKE_BY_OTHERS && is_unknown(a->launch.code);
}

/* An mpirun that does not know it ends with that of a signal. */
static void take_code(rg__agent *a, int status)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (!a->params->flavour->aborts_by_kill || code == 0 || code == SIGKILL)
        return;
    if (may_know_code(a))
        a->launch.code = code;
    a->launches->end.code = code;
}

static void note_end(rg__agent *a, bool is_mpirun, int status)
{
    rg__mpi_end *end = &a->launches->end;
    if (status != 0)
        miss(a);
    if (is_mpirun)
        take_code(a, status);
    if (WIFSIGNALED(status) || (!is_mpirun && status != 0))
        end->is_broken |= !a->launches->is_killed;
    rg__fdstore_put(a->fdstore, MPI_END, end, sizeof *end, NULL, 0);
}

/* A shell in front of a daemon reports a signal as 128 + its number. */
static int told_end(const rg__helper *h, int status)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return !h->is_mpirun && code > 128 ? code - 128 : status;
}

static void helper_ended(rg__helper *h, int how)
{
    rg__agent *a = h->a;
    const char *what = h->is_mpirun ? "mpirun" : "a daemon of the MPI";
    const int status = told_end(h, how);
    const bool is_mpirun = h->is_mpirun, is_well = is_mpirun && status == 0;
    note_end(a, is_mpirun, status);
    drop_helper(h);
    if (a->launch.ends_itself && status == 0)
        rg__launch_broke(a, RG__BROKE_BY_OTHERS, 0, LEAVES);
    else if (is_well || a->launches->is_over)
        ;
    else if (WIFSIGNALED(status))
        rg__launch_broke(a, RG__BROKE_BY_OTHERS, 0,
                         "%s on host %.63s was ended by signal %d", what,
                         a->params->host, WTERMSIG(status));
    else /* mpirun's code is that of a rank, as of one that calls MPI_Abort, if
            there was any: rank 0 runs where mpirun does */
        rg__launch_broke(
            a, RG__BROKE_BY_MPI,
            is_mpirun && a->launches->has_rank ? WEXITSTATUS(status) : 0,
            "%s on host %.63s exited with code %d", what, a->params->host,
            WEXITSTATUS(status));
    a->on->settled(a);
}

static void on_helper_ended(void *arg, int fd, uint32_t events)
{
    rg__helper *h = arg;
    const pid_t pid = h->pid;
    (void)fd, (void)events;
    kill(-pid, SIGKILL); /* all that is left of its group */
    helper_ended(h, rg__how_ended(pid));
    rg__reap(pid);
}

void rg__mpirun_on_ended(rg__agent *a, int32_t pid, int32_t status)
{
    rg__helper *h = a->launches->helpers;
    while (h != NULL && (h->pid != pid || h->pidfd >= 0))
        h = h->next;
    if (h != NULL)
        helper_ended(h, status);
}

void rg__mpirun_resume(rg__agent *a)
{
    const rg__fdrecord_list *all = rg__fdstore_born_with(a->fdstore);
    const rg__fdrecord *r = NULL;
    rg__fdstore_read(a->fdstore, MPI_END, &a->launches->end,
                     sizeof a->launches->end);
    while ((r = rg__fdrecord_next(all, HELPER, r)) != NULL) {
        rg__helper *h = calloc(1, sizeof *h);
        if (h == NULL)
            return; /* a sweep finds it, if it lives */
        *h = (rg__helper){.next = a->launches->helpers,
                          .a = a,
                          .pid = r->pid,
                          .pidfd = -1,
                          .is_mpirun = r->bytes[0] != 0};
        a->launches->helpers = h;
        if (r->has_ended)
            helper_ended(h, r->status);
    }
}

/* ---------------------------------------------------------- standard input
 *
 * mpirun passes it to rank 0. A file is read by each launch, from where it
 * stood when it was given to us; whatever else is given can be read once, and a
 * terminal not at all, since it would stop a process in the background. */

static bool is_stdin(mode_t kind)
{
    struct stat info;
    return fstat(STDIN_FILENO, &info) == 0 && (info.st_mode & S_IFMT) == kind;
}

static bool can_be_read_once(void)
{
    return is_stdin(S_IFIFO) || is_stdin(S_IFSOCK);
}

static bool has_input(void)
{
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    struct stat info;
    return is_stdin(S_IFREG)
               ? fstat(STDIN_FILENO, &info) == 0 &&
                     info.st_size > lseek(STDIN_FILENO, 0, SEEK_CUR)
               : can_be_read_once() && poll(&in, 1, 0) > 0 &&
                     (in.revents & POLLIN) != 0;
}

/* Once, as it is so for all launches that follow. */
static void tell_of_stdin(rg__agent *a, const rg__mpirun *run)
{
    struct rg__launches *l = a->launches;
    const bool is_elsewhere = run->by != a->id && has_input();
    const bool is_read =
        run->by == a->id && run->number > 1 && can_be_read_once();
    if (l->has_told_of_stdin || (!is_elsewhere && !is_read))
        return;
    l->has_told_of_stdin = true;
    rg__say("rank 0 of launch %llu has no standard input: %s",
            (unsigned long long)run->number,
            is_elsewhere ? "it runs on another host than this one; let the "
                           "program open a file"
                         : "an earlier launch had it, and only a file can be "
                           "read again");
}

static void begin_stdin(const rg__agent *a)
{
    const char *path = "/dev/null";
    if (is_stdin(S_IFREG))
        path = "/proc/self/fd/0";
    else if (a->launches->number == 1 && !isatty(STDIN_FILENO))
        return;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    lseek(fd, lseek(STDIN_FILENO, 0, SEEK_CUR), SEEK_SET);
    dup2(fd, STDIN_FILENO);
}

static void run_helper(const rg__agent *a, char *const *argv, bool is_mpirun)
{
    setpgid(0, 0);
    if (is_mpirun)
        begin_stdin(a);
    rg__command_set_variables(a);
    rg__fabric_set_variables(a);
    rg__workers_limit_descriptors(a);
    rg__child_ready(STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO);
    rg__child_run(argv);
}

rg_status rg__helper_start(rg__agent *a, char *const *argv, bool is_mpirun)
{
    rg__helper *h = calloc(1, sizeof *h);
    if (h == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a launch");
    *h = (rg__helper){.next = a->launches->helpers,
                      .a = a,
                      .pidfd = -1,
                      .is_mpirun = is_mpirun};
    a->launches->helpers = h;
    h->pid = fork();
    if (h->pid == 0)
        run_helper(a, argv, is_mpirun);
    const int cause = errno;
    if (h->pid < 0) {
        drop_helper(h);
        return rg__fail(RG_ERR_SYSTEM, "%s can't be started: %s", argv[0],
                        strerror(cause));
    }
    setpgid(h->pid, h->pid);
    h->pidfd = (int)syscall(SYS_pidfd_open, h->pid, 0);
    if (h->pidfd >= 0 && rg__loop_watch(a->loop, h->pidfd, EPOLLIN,
                                        on_helper_ended, h) == RG_OK) {
        const char is_run = is_mpirun;
        rg__fdstore_put_child(a->fdstore, name_of(h).text, h->pid, &is_run, 1,
                              NULL, 0);
        return RG_OK;
    }
    kill(h->pid, SIGKILL);
    waitpid(h->pid, NULL, 0);
    drop_helper(h);
    return rg__fail(RG_ERR_SYSTEM, "%s can't be watched", argv[0]);
}

/* ------------------------------------------------------------------- begin */

static void begin(rg__agent *a)
{
    char **argv = rg__command_make(a);
    const rg_status st = argv != NULL ? rg__helper_start(a, argv, true)
                                      : rg__fail(RG_ERR_MEMORY, "no memory");
    rg__command_free(argv);
    if (st != RG_OK)
        rg__launch_broke(a, RG__BROKE_BY_OTHERS, 0, "%.200s", rg_last_error());
    else
        rg__clients_look(a);
}

/* --------------------------------------------------------------------- end */

static uint64_t sweep_pause(uint64_t waited_ns)
{
    const uint64_t share = waited_ns / SWEEP_SHARE;
    return share < SWEEP_NS        ? SWEEP_NS
           : share > SWEEP_MOST_NS ? SWEEP_MOST_NS
                                   : share;
}

/* A core dump takes its time. */
static bool is_any_dumping(const rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        if (a->slot[i].w.is_crashed && !has_ended(&a->slot[i]))
            return true;
    return false;
}

/* Others may go on without this host; the workers here can't. */
static void await_sweep(rg__agent *a, pid_t left)
{
    const struct rg__launches *l = a->launches;
    const uint64_t waited = rg__now_ns() - l->over_ns;
    const unsigned long long number = l->number;
    char what[64] = "a slot";
    if (left != 0)
        snprintf(what, sizeof what, "process %d, state %c,", left,
                 rg__fence_state(left));
    rg__wait_begin(a, RG__WAIT_SWEEP, 1, "%s of launch %llu to end", what,
                   number);
    rg__timer_set(l->sweep, sweep_pause(waited));
    if (waited > a->params->user.launch_timeout_ms * RG__MS &&
        !is_any_dumping(a))
        rg__agent_leave(a, RG__EXIT_SYSTEM,
                        "%s of launch %llu on host %s was killed and does not "
                        "end, for %llu s; look at what it waits for (a file "
                        "system, a driver), and start again without it",
                        what, number, a->params->host,
                        (unsigned long long)(waited / (1000 * RG__MS)));
}

/* An mpirun that will end in a moment, with the code of MPI_Abort. */
static pid_t find_spared(const rg__agent *a)
{
    const struct rg__launches *l = a->launches;
    const rg__helper *h = l->helpers;
    while (h != NULL && !h->is_mpirun)
        h = h->next;
    const bool has_time = rg__now_ns() - l->over_ns < CODE_NS;
    return h != NULL && has_time && may_know_code(a) ? h->pid : 0;
}

/* How a recalled rank ends counts for nothing. A rank dies with its shim, and
 * so would a core dump. */
static bool awaits_shim(const rg__agent *a)
{
    const bool has_time = rg__now_ns() - a->launches->over_ns < SHIMS_NS;
    for (int i = 0; i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        if (s->saved.child != 0 &&
            (s->w.is_crashed || (has_time && !s->saved.is_recalled)))
            return true;
    }
    return false;
}

/* All of it is killed again and again until nothing is left, since a daemon may
 * just have forked. A shim that has yet to report its rank's end is waited for;
 * one that has reported it, or need not, is not. */
static void sweep(void *arg)
{
    rg__agent *a = arg;
    struct rg__launches *l = a->launches;
    pid_t left;
    const pid_t spared = find_spared(a);
    const bool spares_shims = spared != 0 || awaits_shim(a);
    const bool is_swept = rg__sweep_kill(a, spares_shims, spared, &left) == 0 &&
                          are_slots_free(a) && l->helpers == NULL;
    if (rg__life_is_ending(a))
        return; /* which waits for what is left by rules of its own */
    if (!is_swept) {
        await_sweep(a, left);
        return;
    }
    rg__wait_end(a, RG__WAIT_SWEEP, 1);
    rg__scratch_remove(a);
    rg__log(RG__DEBUG, "agent", "launch %llu is swept",
            (unsigned long long)l->number);
    a->launch.swept = l->number;
    a->on->swept(a);
}

static void kill_helpers(const rg__agent *a, pid_t spared)
{
    for (const rg__helper *h = a->launches->helpers; h != NULL; h = h->next)
        if (h->pid != spared)
            kill(-h->pid, SIGKILL);
}

/* Nothing of the launch may live here any more. */
static void end_launch(rg__agent *a)
{
    struct rg__launches *l = a->launches;
    if (l->is_over || l->number == 0)
        return;
    pid_t left;
    l->is_over = true;
    l->over_ns = rg__now_ns();
    if (l->detected_ns == 0)
        l->detected_ns = l->over_ns;
    rg__timer_stop(l->left);
    a->launch.ends_itself = false;
    rg__log(RG__DEBUG, "agent", "launch %llu is over",
            (unsigned long long)l->number);
    for (int i = 0; i < a->params->slots; i++)
        rg__slot_recall(&a->slot[i], 0);
    const pid_t spared = find_spared(a);
    kill_helpers(a, spared);
    rg__sweep_kill(a, spared != 0 || awaits_shim(a), spared, &left);
    rg__timer_set(l->sweep, SWEEP_NS);
}

void rg__launch_broke(rg__agent *a, rg__broke_by by, int code,
                      const char *format, ...)
{
    struct rg__launches *l = a->launches;
    va_list args;
    if (a->launch.broke == l->number || a->is_done || rg__life_is_ending(a))
        return;
    a->launch.broke = l->number;
    a->launch.code = code;
    a->launch.by = by;
    va_start(args, format);
    vsnprintf(a->launch.why, sizeof a->launch.why, format, args);
    va_end(args);
    rg__log(RG__INFO, "agent", "launch %llu can't go on: %s",
            (unsigned long long)l->number, a->launch.why);
    end_launch(a);
    a->on->swept(a); /* the record says that it broke */
}

void rg__mpirun_rank_gave_up(rg__slot *s, const char *why)
{
    if (s->a->params->is_ulfm)
        rg__launch_broke(s->a, RG__BROKE_BY_OTHERS, 0,
                         "%.63s.%u can't go on in place: %.160s",
                         s->a->params->host, s->index, why);
}

/* The launch has come to a world, whose ranks may go on in place without those
 * that are lost. The leader says so, or that it takes another launch. */
static bool has_lasting_world(const rg__agent *a)
{
    const struct rg__launches *l = a->launches;
    const rg__proposal *decided = rg__view_decided(a);
    return a->params->is_ulfm && !l->is_over && decided != NULL &&
           decided->launch == l->number;
}

/* One that exits with 0 before it has met us would do so again. */
void rg__mpirun_rank_ended(rg__slot *s)
{
    rg__agent *a = s->a;
    const int code = s->saved.child == 0 ? s->saved.exit_code : 0;
    const bool has_not_met =
        s->w.pid == 0 && s->saved.death[0] == '\0' && s->saved.exit_code == 0;
    if (s->saved.child == 0 && s->saved.exit_code != 0 &&
        (a->is_done || !s->saved.is_recalled))
        miss(a);
    if (!a->params->is_mpi || s->saved.is_recalled || has_lasting_world(a))
        return;
    if (s->saved.child == 0 && is_unknown(a->launch.code))
        a->launch.code = code;
    if (has_not_met) {
        rg__agent_end_job(a, 1,
                          "%.63s.%u exited with code 0 and has not called "
                          "rg_init, as a program under --mpi has to; call it, "
                          "or run the program by mpirun",
                          a->params->host, s->index);
        return;
    }
    if (s->saved.death[0] != '\0')
        rg__launch_broke(a, RG__BROKE_BY_RANK, code, "%.63s.%u %.120s",
                         a->params->host, s->index, s->saved.death);
    else
        rg__launch_broke(a, RG__BROKE_BY_RANK, code,
                         "%.63s.%u ended with code %d before rg_init",
                         a->params->host, s->index, s->saved.exit_code);
}

static void on_left(void *arg)
{
    rg__launch_broke(arg, RG__BROKE_BY_OTHERS, 0, LEAVES);
}

void rg__mpirun_rank_left(rg__slot *s)
{
    rg__agent *a = s->a;
    struct rg__launches *l = a->launches;
    if (!a->params->is_mpi || a->is_done || rg__life_is_ending(a) ||
        l->is_over || a->aborted >= a->delivered || !rg__slot_is_alive(s))
        return;
    s->saved.is_recalled = true; /* how it ends counts for nothing */
    if (!a->launch.ends_itself)
        rg__timer_set(l->left, a->params->user.grace_ms * RG__MS);
    a->launch.ends_itself = true;
}

void rg__mpirun_generation_ended(rg__agent *a, uint64_t generation)
{
    const rg__proposal *p = rg__snapshot_gen(&a->view, generation);
    if (!a->params->is_mpi || rg__life_is_ending(a) || p == NULL ||
        p->launch != a->launches->number)
        return;
    if (a->is_done) {
        end_soon(a);
        return;
    }
    if (a->launches->detected_ns == 0)
        a->launches->detected_ns = rg__now_ns();
    if (!has_lasting_world(a))
        end_launch(a);
}

/* ------------------------------------------------------------------ follow */

/* An agent that takes over has not heard all that the one before has: it ends
 * what is left of a launch, and the next launch begins. */
static void take_over(rg__agent *a)
{
    if (a->life.agents > 1 && a->launches->seen == 1)
        rg__launch_broke(a, RG__BROKE_BY_OTHERS, 0,
                         "the agent of host %.63s was killed", a->params->host);
}

static void see_launch(rg__agent *a, const rg__mpirun *run)
{
    struct rg__launches *l = a->launches;
    end_launch(a); /* of the one before, if its end was not seen */
    l->number = run->number;
    l->seen++;
    l->is_over = l->has_rank = l->has_missed = false;
    l->end = (rg__mpi_end){false, 0};
    rg__fdstore_drop(a->fdstore, MPI_END);
    l->begun_ns = rg__now_ns();
    rg__scratch_make(a);
    rg__log(RG__DEBUG, "agent", "launch %llu begins",
            (unsigned long long)l->number);
    tell_of_stdin(a, run);
    take_over(a);
    if (run->by == a->id && !run->is_over && !l->is_over)
        begin(a);
}

void rg__mpirun_follow(rg__agent *a)
{
    struct rg__launches *l = a->launches;
    const rg__mpirun *run = &a->view.mpirun;
    if (!a->params->is_mpi || run->number == 0 || rg__life_is_ending(a) ||
        a->is_done)
        return;
    rg__slots_excuse(a, run->excused);
    if (run->number > l->number)
        see_launch(a, run);
    if (run->is_over)
        end_launch(a);
}

/* ----------------------------------------------------------------- telling */

/* "h1:2 h2:2", as far as there is room. */
static void name_hosts(const rg__proposal *p, char where[WHERE_MAX])
{
    size_t used = 0;
    where[0] = '\0';
    for (int i = 0; i < p->host_count && used < WHERE_MAX - 1; i++) {
        int ranks = 0;
        for (int r = 0; r < p->size; r++)
            ranks += p->member[r].host == p->host[i].id;
        used += (size_t)snprintf(where + used, WHERE_MAX - used, "%s%s:%d",
                                 i > 0 ? " " : "", p->host[i].name, ranks);
    }
}

/* Without a commit, ranks load a checkpoint later, if there is one. */
static void name_start(const rg__agent *a, const rg__line *line,
                       char from[START_MAX])
{
    if (line->resume.step == 0)
        snprintf(from, START_MAX, "from %sthe beginning",
                 a->params->checkpoint_dir != NULL ? "a checkpoint or " : "");
    else if (line->steps_lost < 0)
        snprintf(from, START_MAX,
                 "from step %llu (how many were lost is unknown)",
                 (unsigned long long)line->resume.step);
    else
        snprintf(from, START_MAX, "from step %llu (%lld rolled back)",
                 (unsigned long long)line->resume.step,
                 (long long)line->steps_lost);
}

void rg__mpirun_tell(rg__agent *a, const rg__proposal *p, const rg__line *line)
{
    struct rg__launches *l = a->launches;
    char where[WHERE_MAX], from[START_MAX];
    const uint64_t since = l->detected_ns != 0 ? l->detected_ns : l->begun_ns;
    const uint64_t took_ms = (rg__now_ns() - since) / RG__MS;
    const bool is_next = l->detected_ns != 0;
    l->detected_ns = 0;
    if (p->launch != 0)
        rg__hang_begin(a);
    if (p->launch == 0 || a->view.mpirun.by != a->id)
        return;
    const rg__proposal *before = rg__snapshot_gen(&a->view, line->prev);
    const bool is_in_place = before != NULL && before->launch == p->launch;
    const char *why = is_in_place ? line->cause : a->view.mpirun.why;
    name_hosts(p, where);
    name_start(a, line, from);
    rg__tell("launch %llu%s: %d rank%s on %s, %s, %llu ms %s%s%s",
             (unsigned long long)p->launch,
             is_in_place ? " goes on in place" : "", p->size,
             rg__plural(p->size), where, from, (unsigned long long)took_ms,
             is_next ? "after" : "for the launch", is_next ? " " : "",
             is_next ? why : "");
}

/* ------------------------------------------------------------------ the end */

bool rg__mpirun_may_have_said(const rg__agent *a, int code)
{
    return a->params->is_mpi && a->launches->end.is_broken &&
           (a->params->flavour->broken_code == 0 ||
            a->params->flavour->broken_code == code);
}

int rg__mpirun_code(const rg__agent *a)
{
    return a->launches->end.code;
}

bool rg__mpirun_is_running(rg__agent *a)
{
    struct rg__launches *l = a->launches;
    if (l == NULL || l->helpers == NULL)
        return false;
    if (!a->is_done)
        rg__mpirun_kill(a);
    else if (!rg__timer_is_set(l->patience))
        rg__timer_set(l->patience, PATIENCE_NS);
    return true;
}

void rg__mpirun_kill(void *agent_arg)
{
    const rg__agent *a = agent_arg;
    pid_t left;
    if (a->launches == NULL || !a->params->is_mpi || a->launches->number == 0)
        return;
    a->launches->is_killed = true;
    kill_helpers(a, 0);
    rg__sweep_kill(a, false, 0, &left);
}

void rg__mpirun_leave_behind(rg__agent *a)
{
    while (a->launches != NULL && a->launches->helpers != NULL) {
        rg__log(RG__WARN, "agent",
                "process %d of a launch does not end: it is left behind",
                a->launches->helpers->pid);
        drop_helper(a->launches->helpers);
    }
}

rg_status rg__mpirun_create(rg__agent *a)
{
    a->launches = calloc(1, sizeof *a->launches);
    if (a->launches == NULL)
        return rg__agent_made(false);
    if (a->params->is_mpi) {
        const rg_status st = rg__command_find_ours(a->launches);
        if (st != RG_OK)
            return st;
        a->elastic = 1;
        rg__scratch_sweep(false, NULL, NULL);
    }
    a->launches->sweep = rg__timer_create(a->loop, sweep, a);
    a->launches->patience = rg__timer_create(a->loop, rg__mpirun_kill, a);
    a->launches->ending = rg__timer_create(a->loop, on_ending, a);
    a->launches->left = rg__timer_create(a->loop, on_left, a);
    a->launches->clients = rg__timer_create(a->loop, rg__clients_look, a);
    return rg__agent_made(
        a->launches->sweep != NULL && a->launches->patience != NULL &&
        a->launches->ending != NULL && a->launches->left != NULL &&
        a->launches->clients != NULL && rg__hang_create(a));
}

void rg__mpirun_destroy(rg__agent *a)
{
    struct rg__launches *l = a->launches;
    if (l == NULL)
        return;
    rg__mpirun_kill(a);
    rg__proxies_destroy(a);
    while (l->helpers != NULL) {
        waitpid(l->helpers->pid, NULL, 0);
        drop_helper(l->helpers);
    }
    if (l->number != 0)
        rg__scratch_remove(a);
    rg__timer_destroy(l->sweep);
    rg__timer_destroy(l->patience);
    rg__timer_destroy(l->ending);
    rg__timer_destroy(l->left);
    rg__timer_destroy(l->clients);
    rg__timer_destroy(l->hang);
    free(l);
}
