/* A private etcd: one member on loopback, for one job on one host.
 *
 * It is a child of `regroup run` in a process group of its own, so that Ctrl-C
 * at a terminal doesn't reach it, and the kernel ends it with its parent. Its
 * ports are free ones: who found them closes them before etcd opens them, so a
 * clash is possible and tried again with others. */
#include "elastic/cli/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elastic/cli/program.h"
#include "elastic/cli/talk.h"
#include "sdk/base/fail.h"

#define ATTEMPTS     5
#define READY_MS     20000 /* usually 0.1 s; seconds on a loaded machine */
#define STOP_MS      5000
#define FLAGS        12
#define LOG_TAIL_MAX 4096

rg_status rg__find_etcd(const char *program, char path[PATH_MAX])
{
    rg_status st =
        rg__find_program(program != NULL ? program : "etcd", path, PATH_MAX);
    if (st == RG_OK)
        return RG_OK;
    if (program != NULL) {
        char why[256];
        snprintf(why, sizeof why, "%s", rg_last_error());
        return rg__fail(RG_ERR_STORE, "%s (--etcd-bin)", why);
    }
    /* Debian's package puts it where a user's PATH may not lead. */
    static const char *const elsewhere[] = {"/usr/local/bin/etcd",
                                            "/usr/bin/etcd", "/usr/sbin/etcd"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (rg__is_program(elsewhere[i])) {
            strcpy(path, elsewhere[i]);
            return RG_OK;
        }
    return rg__fail(RG_ERR_STORE,
                    "etcd is not installed: run apt-get install etcd-server, "
                    "or say where it lies with --etcd-bin, or where one runs "
                    "with --etcd");
}

/* ----------------------------------------------------------------- starting */

static rg_status find_port(int *port_p)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    const int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool ok = sock >= 0 &&
                    bind(sock, (struct sockaddr *)&at, sizeof at) == 0 &&
                    getsockname(sock, (struct sockaddr *)&at, &n) == 0;
    const int cause = errno;
    if (sock >= 0)
        close(sock);
    if (!ok)
        return rg__fail(RG_ERR_SYSTEM, "no free port on loopback: %s",
                        strerror(cause));
    *port_p = ntohs(at.sin_port);
    return RG_OK;
}

/* What etcd is started with: its argv, each word owned. */
typedef struct launch {
    char *argv[FLAGS + 2];
    int count;
} launch;

static void add_word(launch *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_word(launch *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (vasprintf(&l->argv[l->count], format, args) >= 0)
        l->count++;
    else
        l->argv[l->count] = NULL;
    va_end(args);
}

static void free_words(launch *l)
{
    for (int i = 0; i < l->count; i++)
        free(l->argv[i]);
    l->count = 0;
}

/* heartbeat 10 / election 100: ready in 0.1 s, where the defaults need up to
 * 0.5 s, and on loopback there is nothing to wait for. bcrypt-cost 4: the
 * password is 128 random bits, and each login would cost 50 ms of CPU. */
static rg_status make_words(launch *l, const char *program, const char *data,
                            int port)
{
    static const char *const url = "http://127.0.0.1";
    static const char *const peer = "unix://peer:1"; /* in the data directory:
                                  it has no peers, and nobody else may be one */
    l->count = 0;
    add_word(l, "%s", program);
    add_word(l, "--name=n1");
    add_word(l, "--data-dir=%s", data);
    add_word(l, "--listen-client-urls=%s:%d", url, port);
    add_word(l, "--advertise-client-urls=%s:%d", url, port);
    add_word(l, "--listen-peer-urls=%s", peer);
    add_word(l, "--initial-advertise-peer-urls=%s", peer);
    add_word(l, "--initial-cluster=n1=%s", peer);
    add_word(l, "--heartbeat-interval=10");
    add_word(l, "--election-timeout=100");
    add_word(l, "--logger=zap");
    add_word(l, "--log-level=warn");
    add_word(l, "--bcrypt-cost=4");
    l->argv[l->count] = NULL;
    if (l->count == FLAGS + 1)
        return RG_OK;
    free_words(l);
    return rg__fail(RG_ERR_MEMORY, "no memory to start etcd");
}

/* etcd takes settings from ETCD_* variables, which were meant for another. */
static void clear_etcd_variables(void)
{
    for (char **v = environ; *v != NULL;) {
        char name[128];
        const size_t n = strcspn(*v, "=");
        if (strncmp(*v, "ETCD_", 5) != 0 || n >= sizeof name) {
            v++;
            continue;
        }
        memcpy(name, *v, n);
        name[n] = '\0';
        if (unsetenv(name) != 0)
            v++;
    }
}

/* In the child: become etcd, or say in its log why not. */
static void become_etcd(const launch *l, const char *data, int log,
                        pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    const int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it died before it could be watched */
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    clear_etcd_variables();
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir(data) == 0)
        execv(l->argv[0], l->argv);
    fprintf(stderr, "%s can't be executed: %s\n", l->argv[0], strerror(errno));
    _exit(127);
}

static rg_status spawn(rg__private_etcd *etcd, const launch *l,
                       const char *data, const char *log_path)
{
    const int log =
        open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (log < 0)
        return rg__fail(RG_ERR_SYSTEM, "%s can't be written: %s", log_path,
                        strerror(errno));
    const pid_t parent = getpid();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        become_etcd(l, data, log, parent);
    close(log);
    if (pid < 0)
        return rg__fail(RG_ERR_SYSTEM, "no process for etcd: %s",
                        strerror(errno));
    etcd->pid = pid;
    return RG_OK;
}

/* ---------------------------------------------------------------- readiness */

/* Ready means that it takes a write, not that it listens. */
static rg_status wait_ready(rg__private_etcd *etcd, bool *is_dead_p)
{
    rg__talk talk;
    const int pidfd = (int)syscall(SYS_pidfd_open, etcd->pid, 0);
    if (pidfd < 0)
        return rg__fail(RG_ERR_SYSTEM, "etcd can't be watched: %s",
                        strerror(errno));
    rg_status st = rg__talk_open(&talk, etcd->endpoint, NULL, NULL, pidfd);
    rg__txn *txn = st == RG_OK ? rg__txn_create() : NULL;
    if (txn != NULL) {
        rg__txn_put(txn, RG__THEN, "regroup/private", "1", 0);
        rg__etcd_txn(talk.etcd, txn, rg__talk_end_txn, &talk);
        st = rg__talk_wait(&talk, READY_MS);
    }
    if (st == RG_OK) {
        rg__etcd_enable_auth(talk.etcd, etcd->password, rg__talk_end, &talk);
        st = rg__talk_wait(&talk, READY_MS);
    }
    *is_dead_p = talk.is_dead;
    rg__talk_close(&talk);
    close(pidfd);
    return st;
}

/* The end of a file, its last line apart. */
static const char *read_tail(const char *path, char tail[LOG_TAIL_MAX])
{
    FILE *file = fopen(path, "re");
    size_t n = 0;
    if (file != NULL) {
        if (fseek(file, -(LOG_TAIL_MAX - 1), SEEK_END) != 0)
            rewind(file);
        n = fread(tail, 1, LOG_TAIL_MAX - 1, file);
        fclose(file);
    }
    tail[n] = '\0';
    while (n > 0 && tail[n - 1] == '\n')
        tail[--n] = '\0';
    const char *last = strrchr(tail, '\n');
    return last != NULL ? last + 1 : tail;
}

/* One attempt, with its own port. */
static rg_status attempt(rg__private_etcd *etcd, const char *program,
                         const char *data, const char *log_path,
                         bool *has_clashed_p)
{
    launch l;
    int port = 0;
    bool is_dead = false;
    rg_status st = find_port(&port);
    if (st == RG_OK)
        st = make_words(&l, program, data, port);
    if (st != RG_OK)
        return st;
    snprintf(etcd->endpoint, sizeof etcd->endpoint, "http://127.0.0.1:%d",
             port);
    st = spawn(etcd, &l, data, log_path);
    free_words(&l);
    if (st == RG_OK)
        st = wait_ready(etcd, &is_dead);
    if (st == RG_OK || !is_dead)
        return st;
    char tail[LOG_TAIL_MAX];
    const char *last = read_tail(log_path, tail);
    *has_clashed_p = strstr(tail, "address already in use") != NULL;
    rg__private_etcd_stop(etcd);
    return rg__fail(RG_ERR_STORE, "%s ended before it was ready: %.200s",
                    program, last[0] != '\0' ? last : "it said nothing");
}

static rg_status make_password(rg__private_etcd *etcd)
{
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return rg__fail(RG_ERR_SYSTEM, "no random password: %s",
                        strerror(errno));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(etcd->password + 2 * i, 3, "%02x", random[i]);
    strcpy(etcd->user, "root");
    return RG_OK;
}

rg_status rg__private_etcd_start(rg__private_etcd *etcd, const char *program,
                                 const char *dir)
{
    char path[PATH_MAX], data[PATH_MAX + 16], log_path[PATH_MAX + 16];
    memset(etcd, 0, sizeof *etcd);
    snprintf(data, sizeof data, "%s/etcd", dir);
    snprintf(log_path, sizeof log_path, "%s/etcd.log", dir);
    rg_status st = rg__find_etcd(program, path);
    if (st == RG_OK)
        st = make_password(etcd);
    if (st != RG_OK)
        return st;
    if (mkdir(data, 0700) != 0)
        return rg__fail(RG_ERR_SYSTEM, "%s can't be made: %s", data,
                        strerror(errno));
    for (int i = 0; i < ATTEMPTS; i++) {
        bool has_clashed = false;
        st = attempt(etcd, path, data, log_path, &has_clashed);
        if (!has_clashed)
            break;
    }
    return st;
}

void rg__private_etcd_stop(rg__private_etcd *etcd)
{
    if (etcd->pid <= 0)
        return;
    const int pidfd = (int)syscall(SYS_pidfd_open, etcd->pid, 0);
    kill(etcd->pid, SIGTERM);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    if (poll(&end, 1, STOP_MS) <= 0)
        kill(etcd->pid, SIGKILL);
    waitpid(etcd->pid, NULL, 0);
    if (pidfd >= 0)
        close(pidfd);
    etcd->pid = 0;
}
