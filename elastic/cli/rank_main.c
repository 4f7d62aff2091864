/* What mpirun starts under --mpi: `regroup-rank rank PROGRAM` for each rank,
 * and `regroup-rank proxy HOST WORDS` in place of ssh. Both ask the agent of
 * this host first. It is a program of its own, since `regroup` loads 30
 * libraries: that takes 5 ms of processor time for each rank, and a launch
 * waits for all of them.
 *
 *   mpirun, or a daemon of the MPI ── shim ── rank: asks, then runs PROGRAM
 *
 * The shim is what the MPI takes for the rank: it ends as the rank does, and
 * tells the agent how, since the agent is the parent of neither. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "elastic/agent/base/reap.h"
#include "elastic/agent/mpirun/flavour.h"
#include "elastic/agent/mpirun/mpirun.h"
#include "elastic/cli/cli.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"
#include "sdk/base/sock.h"
#include "sdk/base/wire.h"

#define ANSWER_MS 10000
#define FAILED_S  1
#define LATER_MS  10
#define LATERS    500 /* not tried any longer */

/* -------------------------------------------------------------- the agent */

static rg_status connect_to_agent(const char *path, int *sock_p)
{
    if (path != NULL)
        return rg__sock_connect(path, "", sock_p);
    return rg__fail(RG_ERR_INVALID,
                    "this command is for `regroup run --mpi`, which sets %s",
                    RG__ENV_SOCKET);
}

static rg_status receive(int sock, rg__rank_go *go, int fds[RG__SOCK_FDS])
{
    struct pollfd ready = {.fd = sock, .events = POLLIN};
    size_t n = 0;
    if (poll(&ready, 1, ANSWER_MS) != 1)
        return rg__fail(RG_ERR_AGENT_LOST,
                        "the agent did not answer within %d s",
                        ANSWER_MS / 1000);
    const rg_status st = rg__sock_recv(sock, go, sizeof *go, &n, fds);
    if (st != RG_OK || n != sizeof *go || go->head.type != RG__RANK_GO)
        return rg__fail(RG_ERR_REFUSED,
                        "the agent runs no job with --mpi, or is of another "
                        "version");
    go->why[sizeof go->why - 1] = '\0';
    return go->why[0] == '\0' || go->is_later
               ? RG_OK
               : rg__fail(RG_ERR_REFUSED, "%s", go->why);
}

static rg_status ask_once(const char *path, const void *m, size_t n,
                          rg__rank_go *go, int fds[RG__SOCK_FDS])
{
    int sock = -1;
    rg_status st = connect_to_agent(path, &sock);
    if (st != RG_OK)
        return st;
    st = rg__sock_send(sock, m, n, NULL, 0);
    if (st == RG_OK)
        st = receive(sock, go, fds);
    close(sock);
    return st;
}

/* Repeat while the agent does not yet have what the answer needs. */
static rg_status ask(const char *path, const void *m, size_t n, rg__rank_go *go,
                     int fds[RG__SOCK_FDS])
{
    for (int i = 0; i < LATERS; i++) {
        const rg_status st = ask_once(path, m, n, go, fds);
        if (st != RG_OK || !go->is_later)
            return st;
        rg__sleep_ns(LATER_MS * RG__MS);
    }
    return rg__fail(RG_ERR_REFUSED, "%s",
                    go->why[0] != '\0' ? go->why
                                       : "the agent knows of no such launch");
}

/* -------------------------------------------------------------------- rank */

static void set_number(const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    setenv(name, text, 1);
}

/* What was meant for mpirun alone (mpirun/fabric.c). */
static void drop_variables(void)
{
    const char *value = getenv(RG__ENV_HWLOC);
    if (value != NULL && strcmp(value, RG__HWLOC_NO_DEVICES) == 0)
        unsetenv(RG__ENV_HWLOC);
}

static bool is_ulfm(const rg__cli *cli)
{
    return strcmp(cli->settings.mpi, RG__ULFM) == 0;
}

/* In the rank's process, which has a process group of its own, like any worker,
 * and does not outlive its shim. */
static int run_program(const rg__cli *cli, rg__rank m, pid_t shim)
{
    rg__rank_go go;
    int fds[RG__SOCK_FDS] = {-1, -1, -1};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != shim)
        return RG__EXIT_SYSTEM;
    m.pid = getpid();
    const rg_status st =
        ask(cli->settings.library.socket, &m, sizeof m, &go, fds);
    if (st != RG_OK)
        return rg__cli_fail(st);
    set_number(RG__ENV_SLOT, (uint64_t)go.slot);
    set_number(RG__ENV_RESTART, m.launch - 1);
    set_number(RG__ENV_GENERATION, go.generation);
    drop_variables();
    if (is_ulfm(cli)) /* a connection with a dead rank must not end this one */
        signal(SIGPIPE, SIG_IGN);
    setenv("PYTHONUNBUFFERED", "1", 0);
    dup2(fds[0], STDOUT_FILENO);
    dup2(fds[1], STDERR_FILENO);
    execvp(cli->argv[0], cli->argv);
    rg__say("%s can't be run: %s", cli->argv[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

static void tell_end(const rg__cli *cli, rg__rank m, pid_t pid, int status)
{
    int sock = -1;
    m.head.type = RG__RANK_ENDED;
    m.pid = pid;
    m.status = status;
    if (connect_to_agent(cli->settings.library.socket, &sock) != RG_OK)
        return; /* the agent is gone, and no other one will ask */
    rg__sock_send(sock, &m, sizeof m, NULL, 0);
    close(sock);
}

static int run_rank(rg__cli *cli)
{
    const rg__library_settings *s = &cli->settings.library;
    const rg__rank m = {.head = {RG__RANK, RG__WIRE_VERSION},
                        .launch = s->launch > 0 ? (uint64_t)s->launch : 0,
                        .rank = rg__flavour_rank()};
    const pid_t shim = getpid();
    if (cli->argc == 0 || m.launch == 0 || m.rank < 0)
        return rg__cli_fail(rg__fail(RG_ERR_INVALID, RG__RANK_PROGRAM
                                     " rank is started by mpirun, "
                                     "under `regroup run --mpi`"));
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(run_program(cli, m, shim));
    if (pid < 0)
        return rg__cli_fail(rg__fail(
            RG_ERR_SYSTEM, "a rank can't be started: %s", strerror(errno)));
    const int status = rg__how_ended(pid); /* does not reap it, which may
                                              take long */
    tell_end(cli, m, pid, status);
    if (is_ulfm(cli)) /* others must hear of a death at once, but mpirun
                         waits for all others to end after any code but 0 */
        return 0;
    if (status != 0) /* the agent ends the launch before mpirun speaks of it */
        rg__sleep_ns(FAILED_S * 1000 * RG__MS);
    return rg__code_of(status);
}

/* ------------------------------------------------------------------- proxy */

/* Words are joined with blanks, as ssh does: they are for a shell. */
static rg_status write_line(rg__proxy *m, size_t room, char *const *words,
                            size_t *n_p)
{
    size_t n = sizeof *m;
    for (int i = 0; words[i] != NULL; i++) {
        const size_t length = strlen(words[i]);
        if (n + length + 2 > room)
            return rg__fail(RG_ERR_INVALID,
                            "the command line of mpirun is too long");
        char *to = (char *)m + n;
        memcpy(to, words[i], length);
        to[length] = words[i + 1] != NULL ? ' ' : '\0';
        n += length + 1;
    }
    *n_p = n;
    return RG_OK;
}

static int run_proxy(rg__cli *cli)
{
    static _Alignas(16) char room[RG__WIRE_MAX];
    const rg__library_settings *s = &cli->settings.library;
    rg__proxy *m = (void *)room;
    rg__rank_go go;
    int fds[RG__SOCK_FDS] = {-1, -1, -1};
    size_t n = 0;
    if (cli->argc < 2 || s->launch <= 0)
        return rg__cli_fail(rg__fail(RG_ERR_INVALID, RG__RANK_PROGRAM
                                     " proxy is started by mpirun, "
                                     "under `regroup run --mpi`"));
    *m = (rg__proxy){.head = {RG__PROXY, RG__WIRE_VERSION},
                     .launch = (uint64_t)s->launch};
    snprintf(m->host, sizeof m->host, "%s", cli->argv[0]);
    rg__failpoint("proxy.ask", -1, 0, m->launch);
    rg_status st = write_line(m, sizeof room, cli->argv + 1, &n);
    if (st == RG_OK)
        st = ask(s->socket, m, n, &go, fds);
    return st == RG_OK ? 0 : rg__cli_fail(st);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    const bool is_rank = strcmp(word, RG__CMD_RANK) == 0;
    rg__cli cli;
    int code;
    rg__cli_open_what_is_closed();
    if (!is_rank && strcmp(word, RG__CMD_PROXY) != 0)
        return rg__cli_fail(rg__fail(RG_ERR_INVALID, RG__RANK_PROGRAM
                                     " is started by mpirun, under `regroup "
                                     "run --mpi`, and is of no use to a "
                                     "person"));
    const rg_status st = rg__cli_open(&cli, word, argc - 1, argv + 1);
    if (st != RG_OK)
        code = rg__cli_fail(st);
    else
        code = is_rank ? run_rank(&cli) : run_proxy(&cli);
    rg__cli_close(&cli);
    return code;
}
