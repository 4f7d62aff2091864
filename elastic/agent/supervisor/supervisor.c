/* Starting agents, keeping their records, reaping what they leave.
 *
 *   agent ended in order     its code is the job's here
 *   agent killed, or ended   another is started at once; after a quick death
 *   while workers live       with a back-off, and not more than RESTARTS times
 *   too many quick deaths    its workers end by themselves after --agent-grace
 *
 * The agent has a process group of its own: Ctrl-C at a terminal reaches it
 * once, by way of us. If we die, the kernel tells it to stop (PDEATHSIG). We
 * are the reaper of what it leaves (PR_SET_CHILD_SUBREAPER): its workers become
 * our children, and we tell the next agent how they ended. */
#include "elastic/agent/supervisor/supervisor.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/supervisor/fdrecord.h"
#include "elastic/agent/base/agent_state.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elastic/agent/base/reap.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/wire.h"

#define RESTARTS   5 /* in a row, each after a quick death */
#define QUICK_NS   (3000 * RG__MS)
#define BACKOFF_NS (100 * RG__MS)  /* after the second, then twice as much */
#define LATE_NS    (3000 * RG__MS) /* beyond the grace */

typedef struct supervisor {
    const rg__agent_params *params;
    rg__agent_fn run;
    const rg__supervisor_hooks *hooks;
    rg__fdrecord_list records;
    struct rlimit descriptors; /* before ours was raised */
    sigset_t before;
    int signal_fd;
    int sock;    /* to the agent, -1: none lives */
    pid_t agent; /* 0: none lives */
    int status;  /* of the last one */
    uint64_t started_ns, start_at_ns;
    int quick_deaths; /* in a row */
    int signal;       /* that came while no agent lived, 0: none */
    bool is_over, has_given_up;
    bool has_finished; /* the agent was told to end */
} supervisor;

/* Batch systems send SIGUSR1 or SIGUSR2 before the time is over. The last two
 * pause the job here and continue it. */
static const int forwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
#define FORWARDED (sizeof forwarded / sizeof *forwarded)
#define ENDING    (FORWARDED - 2)

static bool is_ignored(int signum)
{
    struct sigaction now;
    return sigaction(signum, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void rg__supervisor_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < FORWARDED; i++)
        if (!is_ignored(forwarded[i]))
            sigaddset(set, forwarded[i]);
}

void rg__supervisor_calm(void)
{
    signal(SIGPIPE, SIG_IGN);
    rg__log_never_waits();
}

int rg__supervisor_pending(void)
{
    sigset_t pending;
    sigpending(&pending);
    for (size_t i = 0; i < ENDING; i++)
        if (sigismember(&pending, forwarded[i]))
            return forwarded[i];
    return 0;
}

/* ----------------------------------------------------------------- records */

static void tell_sizes(const supervisor *s)
{
    const rg__fdrecord *r = rg__fdrecord_find(&s->records, RG__FDRECORD_SIZES);
    rg__fdrecord_sizes sizes;
    if (r == NULL || r->n != sizeof sizes || s->hooks->sizes == NULL)
        return;
    memcpy(&sizes, r->bytes, sizeof sizes);
    s->hooks->sizes(s->hooks->arg, sizes.min, sizes.max, sizes.has_world != 0);
}

static void take_record(supervisor *s, const rg__fdrecord_message *m, size_t n,
                        int fds[RG__SOCK_FDS])
{
    const size_t head = offsetof(rg__fdrecord_message, bytes);
    char name[RG__FDRECORD_NAME_MAX];
    if (n < head)
        return;
    snprintf(name, sizeof name, "%.*s", (int)sizeof name - 1, m->name);
    if (m->what == RG__FDRECORD_DROP) {
        rg__fdrecord_drop(&s->records, name);
        return;
    }
    if (rg__fdrecord_set(&s->records, name, m->pid, m->bytes, n - head, fds) !=
        RG_OK)
        rg__log(RG__WARN, "supervisor", "%s", rg_last_error());
    if (strcmp(name, RG__FDRECORD_SIZES) == 0)
        tell_sizes(s);
}

static void hang_up(supervisor *s)
{
    if (s->sock >= 0)
        close(s->sock);
    s->sock = -1;
}

/* All that the agent has said; what a dead one said is still there. */
static void take_records(supervisor *s)
{
    static rg__fdrecord_message m;
    while (s->sock >= 0) {
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        const rg_status st = rg__sock_recv(s->sock, &m, sizeof m, &n, fds);
        if (st == RG_ERR_AGENT_LOST)
            hang_up(s);
        if (st == RG_IN_PROGRESS || st == RG_ERR_AGENT_LOST)
            return;
        if (st != RG_OK)
            continue;
        take_record(s, &m, n, fds);
        rg__sock_close_fds(fds);
    }
}

static bool has_living_process(const supervisor *s)
{
    for (const rg__fdrecord *r = s->records.first; r != NULL; r = r->next)
        if (r->pid != 0 && !r->has_ended)
            return true;
    return false;
}

/* Their grace runs from now on, whether another agent comes or not. */
static void tell_workers(const supervisor *s)
{
    const rg__mark m = {{RG__GONE, RG__WIRE_VERSION}, 0};
    for (const rg__fdrecord *r =
             rg__fdrecord_next(&s->records, "worker/", NULL);
         r != NULL; r = rg__fdrecord_next(&s->records, "worker/", r))
        rg__sock_send(r->fd[0], &m, sizeof m, NULL, 0);
}

/* ------------------------------------------------------------------- agent */

/* The forwarded signals stay blocked until the agent takes them from a
 * signalfd: one that comes first is not lost and doesn't kill it. */
static void become_agent(supervisor *s, int sock, pid_t parent)
{
    rg__fdstore *fdstore = NULL;
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_UNBLOCK, &children, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    close(s->signal_fd);
    if (getppid() != parent ||
        rg__fdstore_create(sock, &s->records, &s->descriptors, &fdstore) !=
            RG_OK)
        exit(RG__EXIT_SYSTEM);
    const int code = s->run(s->params, fdstore);
    rg__fdstore_destroy(fdstore);
    exit(code);
}

static rg_status start_agent(supervisor *s)
{
    const pid_t parent = getpid();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   ends) != 0)
        return rg__fail(RG_ERR_SYSTEM, "no socket to an agent: %s",
                        strerror(errno));
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        become_agent(s, ends[1], parent);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return rg__fail(RG_ERR_SYSTEM, "no process for an agent: %s",
                        strerror(errno));
    }
    setpgid(pid, pid); /* in both: whichever comes first */
    s->agent = pid;
    s->sock = ends[0];
    s->has_finished = false;
    s->started_ns = rg__now_ns();
    if (s->signal != 0)
        kill(pid, s->signal);
    s->signal = 0;
    return RG_OK;
}

/* false: too often. */
static bool plan_another(supervisor *s)
{
    const uint64_t now = rg__now_ns();
    const bool is_quick = now - s->started_ns < QUICK_NS;
    s->quick_deaths = is_quick ? s->quick_deaths + 1 : 0;
    if (s->quick_deaths > RESTARTS)
        return false;
    s->start_at_ns = now;
    if (s->quick_deaths > 1)
        s->start_at_ns += BACKOFF_NS << (s->quick_deaths - 2);
    return true;
}

static void describe(int status, char text[64])
{
    snprintf(text, 64, "%s %d",
             WIFSIGNALED(status) ? "was killed by signal" : "ended with code",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void agent_ended(supervisor *s, int status)
{
    char how[64];
    s->agent = 0;
    s->status = status;
    hang_up(s);
    if (WIFEXITED(status) && !has_living_process(s)) {
        s->is_over = true;
        return;
    }
    describe(status, how);
    tell_workers(s);
    s->is_over = s->has_given_up = !plan_another(s);
    if (!s->is_over)
        rg__log(RG__WARN, "supervisor",
                "the agent %s; another takes over its workers", how);
}

static void start_if_due(supervisor *s)
{
    if (s->agent != 0 || s->is_over || rg__now_ns() < s->start_at_ns)
        return;
    if (start_agent(s) == RG_OK)
        return;
    rg__log(RG__WARN, "supervisor", "%s", rg_last_error());
    s->started_ns = rg__now_ns();
    s->is_over = s->has_given_up = !plan_another(s);
}

/* ---------------------------------------------------------------- children */

static bool find_ended(pid_t *pid_p)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return false;
    *pid_p = info.si_pid;
    return info.si_pid != 0;
}

static void note_end(supervisor *s, rg__fdrecord *r, int status)
{
    const size_t n = offsetof(rg__fdrecord_message, bytes);
    const rg__fdrecord_message m = {
        .what = RG__FDRECORD_ENDED, .pid = r->pid, .status = status};
    r->has_ended = true;
    r->status = status;
    if (s->sock >= 0)
        rg__sock_send(s->sock, &m, n, NULL, 0);
}

/* A process that an agent has left to us takes its group along; no other group
 * can get its number before it is reaped. */
static void reap(supervisor *s)
{
    pid_t pid;
    while (find_ended(&pid)) {
        int status = 0;
        take_records(s);
        rg__fdrecord *r = rg__fdrecord_of(&s->records, pid);
        if (r != NULL)
            kill(-pid, SIGKILL);
        if (waitpid(pid, &status, 0) != pid)
            return;
        if (pid == s->agent)
            agent_ended(s, status);
        else if (r != NULL)
            note_end(s, r, status);
        else if (s->hooks->ended != NULL)
            s->hooks->ended(s->hooks->arg, pid, status);
    }
}

/* ----------------------------------------------------------------- waiting */

static void take_signals(supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            continue; /* reaped in any case */
        if (s->agent != 0)
            kill(s->agent, (int)info.ssi_signo);
        else if (info.ssi_signo != SIGTSTP && info.ssi_signo != SIGCONT)
            s->signal = (int)info.ssi_signo;
        if (info.ssi_signo == SIGTSTP)
            raise(SIGSTOP); /* as the shell expects; SIGCONT comes next */
    }
}

static int most_ms(const supervisor *s)
{
    int ms = -1;
    if (s->hooks->turn != NULL)
        ms = s->hooks->turn(s->hooks->arg);
    if (s->agent == 0) {
        const uint64_t now = rg__now_ns();
        const int until = s->start_at_ns <= now
                              ? 0
                              : (int)((s->start_at_ns - now) / RG__MS) + 1;
        ms = ms < 0 || until < ms ? until : ms;
    }
    return ms;
}

/* Once, since it takes the agent a while to act on it. */
static void finish_if_over(supervisor *s)
{
    rg__fdrecord_message m = {.what = RG__FDRECORD_FINISH};
    int code = 0;
    const char *why = NULL;
    if (s->hooks->is_over == NULL || s->has_finished || s->sock < 0 ||
        !s->hooks->is_over(s->hooks->arg, &code, &why))
        return;
    m.status = code;
    snprintf(m.bytes, sizeof m.bytes, "%s", why);
    s->has_finished = rg__sock_send(s->sock, &m,
                                    offsetof(rg__fdrecord_message, bytes) +
                                        strlen(m.bytes) + 1,
                                    NULL, 0) == RG_OK;
}

static void turn(supervisor *s)
{
    struct pollfd on[] = {
        {.fd = s->signal_fd, .events = POLLIN},
        {.fd = s->sock, .events = POLLIN},
        {.fd = s->hooks->fd > 0 ? s->hooks->fd : -1, .events = POLLIN}};
    poll(on, 3, most_ms(s));
    if (on[2].revents != 0)
        s->hooks->readable(s->hooks->arg);
    take_signals(s);
    take_records(s);
    reap(s);
    start_if_due(s);
    finish_if_over(s);
}

/* Without an agent the workers end by themselves. */
static void wait_workers(supervisor *s)
{
    const uint64_t deadline =
        rg__now_ns() + s->params->user.grace_ms * RG__MS + LATE_NS;
    while (reap(s), has_living_process(s)) {
        const uint64_t now = rg__now_ns();
        if (now >= deadline) {
            rg__log(RG__WARN, "supervisor",
                    "processes of job %s still run, longer than --agent-grace "
                    "allows; look for them with ps",
                    s->params->job);
            return;
        }
        struct pollfd on = {.fd = s->signal_fd, .events = POLLIN};
        poll(&on, 1, (int)((deadline - now) / RG__MS) + 1);
        take_signals(s);
    }
}

/* -------------------------------------------------------------- begin, end */

static rg_status set_up(supervisor *s)
{
    sigset_t set;
    rg__supervisor_signals(&set);
    signal(SIGCHLD, SIG_DFL); /* ignored, children would reap themselves */
    sigprocmask(SIG_BLOCK, &set, &s->before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (getrlimit(RLIMIT_NOFILE, &s->descriptors) == 0) {
        const struct rlimit most = {s->descriptors.rlim_max,
                                    s->descriptors.rlim_max};
        setrlimit(RLIMIT_NOFILE, &most);
    }
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signal_fd < 0)
        return rg__fail(RG_ERR_SYSTEM, "signals can't be watched: %s",
                        strerror(errno));
    return start_agent(s);
}

static int end(supervisor *s)
{
    char how[64];
    if (!s->has_given_up)
        return WEXITSTATUS(s->status);
    describe(s->status, how);
    rg__say("the agent of job %s %s, and so did those started after it; its "
            "workers end by themselves within %llu ms (--agent-grace)",
            s->params->job, how, (unsigned long long)s->params->user.grace_ms);
    rg__fdrecord_close(&s->records); /* the workers see that no agent is there
                                      */
    wait_workers(s);
    return rg__code_of(s->status);
}

int rg__supervisor_run(const rg__agent_params *params, rg__agent_fn run,
                       const rg__supervisor_hooks *hooks)
{
    static const rg__supervisor_hooks none;
    supervisor s = {.params = params,
                    .run = run,
                    .hooks = hooks != NULL ? hooks : &none,
                    .signal_fd = -1,
                    .sock = -1};
    int code = RG__EXIT_SYSTEM;
    rg__log_who(params->host, -1, 0, 0);
    if (set_up(&s) != RG_OK) {
        rg__say("%s", rg_last_error());
    } else {
        while (!s.is_over)
            turn(&s);
        code = end(&s);
    }
    rg__fdrecord_clear(&s.records);
    if (s.signal_fd >= 0)
        close(s.signal_fd);
    setrlimit(RLIMIT_NOFILE, &s.descriptors);
    sigprocmask(SIG_SETMASK, &s.before, NULL);
    return code;
}
