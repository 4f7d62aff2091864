/* Starting and ending the etcd program. */
#include "elastic/cli/etcd_child.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elastic/cli/certs.h"
#include "elastic/cli/find_program.h"
#include "sdk/base/child.h"
#include "sdk/base/fail.h"

#define STOP_MS    5000
#define WORDS      24              /* room for them, */
#define WORD       (PATH_MAX + 64) /* and for one */
#define PEER       "unix://peer:1"
#define FILES      150 /* etcd refuses to start with fewer */
#define TAIL_BYTES 65536

rg_status rg__find_etcd(const char *program, char path[PATH_MAX])
{
    const rg_status st =
        rg__find_program(program != NULL ? program : "etcd", path, PATH_MAX);
    if (st == RG_OK)
        return RG_OK;
    if (program != NULL)
        return rg__fail(RG_ERR_STORE, "%s (--etcd-bin)", rg_last_error());
    /* Debian's package puts it where a user's PATH may not lead. */
    static const char *const elsewhere[] = {"/usr/local/bin/etcd",
                                            "/usr/bin/etcd", "/usr/sbin/etcd"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (rg__is_program(elsewhere[i])) {
            strcpy(path, elsewhere[i]);
            return RG_OK;
        }
    return rg__fail(
        RG_ERR_STORE,
        "etcd is not installed: run apt-get install etcd-server, "
        "or say where it is with --etcd-bin, or where one runs with --etcd");
}

/* ----------------------------------------------------------------- starting */

/* What etcd is started with. */
typedef struct launch {
    char data[WORD], clients[WORD], told[WORD], cert[WORD], key[WORD], ca[WORD];
    const char *argv[WORDS];
} launch;

/* heartbeat 10 / election 100: ready in 0.1 s, where the defaults need up to
 * 0.5 s, and a single member waits for no other. bcrypt-cost 4: the password
 * is 128 random bits, and each login would cost 50 ms of CPU. Without
 * compaction every change would stay for as long as the job runs, and so
 * would the last 100,000 writes in memory and their log on disk without
 * snapshots. No client asks for the state of a minute ago: one that comes
 * back later reads all keys. */
static void make_words(launch *l, const char *program, const char *dir,
                       const char *url)
{
    /* etcd takes sockets of such names in its working directory only, which is
     * that of its data. It has no peers, and no process may become one. */
    const char *const at = url != NULL ? url : "unix://c:1";
    snprintf(l->data, WORD, "--data-dir=%s/etcd", dir);
    snprintf(l->clients, WORD, "--listen-client-urls=%s", at);
    snprintf(l->told, WORD, "--advertise-client-urls=%s", at);
    snprintf(l->cert, WORD, "--cert-file=%s/" RG__CERTS_SERVER, dir);
    snprintf(l->key, WORD, "--key-file=%s/" RG__CERTS_SERVER, dir);
    snprintf(l->ca, WORD, "--trusted-ca-file=%s/" RG__CERTS_CA, dir);
    const char *const words[WORDS] = {
        program, "--name=n1", l->data, l->clients, l->told,
        "--listen-peer-urls=" PEER, "--initial-advertise-peer-urls=" PEER,
        "--initial-cluster=n1=" PEER, "--heartbeat-interval=10",
        "--election-timeout=100", "--logger=zap", "--log-level=warn",
        "--bcrypt-cost=4", "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=1m", "--snapshot-count=1000",
        "--max-snapshots=2", "--max-wals=2",
        /* at a URL it serves only clients with a certificate of the job's CA */
        url != NULL ? l->cert : NULL, l->key, l->ca, "--client-cert-auth"};
    memcpy(l->argv, words, sizeof words);
}

/* etcd reads settings from ETCD_* variables, meant for another etcd. */
static bool is_for_etcd(const char *variable)
{
    return strncmp(variable, "ETCD_", 5) == 0;
}

static rg_status check_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= FILES)
        return RG_OK;
    return rg__fail(RG_ERR_SYSTEM,
                    "a process may open %llu files here, and etcd needs %d; "
                    "raise the limit (ulimit -n)",
                    (unsigned long long)limit.rlim_max, FILES);
}

/* Let etcd open as many files as the system allows. */
static void raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* In the child: become etcd, or write the reason into its log. */
static void become_etcd(const launch *l, const char *data, int log,
                        pid_t parent)
{
    setpgid(0, 0);
    rg__child_follow(parent);
    rg__child_ready(-1, log, log);
    rg__child_unset(is_for_etcd);
    raise_files();
    if (chdir(data) == 0)
        execv(l->argv[0], (char **)(uintptr_t)l->argv);
    fprintf(stderr, "%s can't be executed: %s\n", l->argv[0], strerror(errno));
    _exit(127);
}

/* The socket of an etcd that was killed would be in the new one's way. */
static void clear_place(const char *dir)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/" RG__ETCD_SOCKET, dir);
    unlink(path);
}

static rg_status spawn(const launch *l, const char *data, const char *log_path,
                       pid_t *pid_p)
{
    const int log =
        open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
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
    *pid_p = pid;
    return RG_OK;
}

rg_status rg__etcd_child_start(const char *program, const char *dir,
                               const char *url, pid_t *pid_p)
{
    launch l;
    char data[PATH_MAX + 16], log_path[PATH_MAX + 16];
    snprintf(data, sizeof data, "%s/etcd", dir);
    snprintf(log_path, sizeof log_path, "%s/etcd.log", dir);
    const rg_status st = check_files();
    if (st != RG_OK)
        return st;
    make_words(&l, program, dir, url);
    clear_place(dir);
    return spawn(&l, data, log_path, pid_p);
}

/* --------------------------------------------------------------------- end */

void rg__etcd_child_stop(pid_t pid)
{
    if (pid <= 0)
        return;
    const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    kill(pid, SIGTERM);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    if (poll(&end, 1, STOP_MS) <= 0)
        kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (pidfd >= 0)
        close(pidfd);
}

/* ----------------------------------------------------------- what it said */

/* The end of its log, from a line's beginning; malloc'd, NULL: none. */
static char *read_tail(const char *dir)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/etcd.log", dir);
    FILE *file = fopen(path, "re");
    char *tail = calloc(1, TAIL_BYTES + 2);
    if (file != NULL && tail != NULL) {
        tail[0] = '\n';
        if (fseek(file, -TAIL_BYTES, SEEK_END) != 0)
            rewind(file);
        tail[fread(tail + 1, 1, TAIL_BYTES, file) + 1] = '\0';
    }
    if (file != NULL)
        fclose(file);
    return tail;
}

/* The last line that begins with that text; NULL: there is none. */
static const char *last_line(const char *tail, const char *begin)
{
    const char *found = NULL;
    char mark[64];
    snprintf(mark, sizeof mark, "\n%s", begin);
    for (const char *at = tail; (at = strstr(at, mark)) != NULL; at++)
        found = at + 1;
    return found;
}

static const char *text_of(const json_t *line, const char *field)
{
    const char *text = json_string_value(json_object_get(line, field));
    return text != NULL ? text : "";
}

/* A line of its log, without time, place and the calls that led to it. */
static bool take_message(const char *line, char said[RG__ETCD_SAID])
{
    json_t *j = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
    const char *error = text_of(j, "error");
    snprintf(said, RG__ETCD_SAID, "%s%s%s", text_of(j, "msg"),
             error[0] != '\0' ? ": " : "", error);
    json_decref(j);
    return said[0] != '\0';
}

/* Go's runtime, whose text before a dump of its state is no JSON. */
static const char *crash_of(const char *tail)
{
    static const char *const begins[] = {
        "panic: ", "fatal error: ", "runtime: failed to create new OS thread",
        "runtime/cgo: pthread_create failed"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        const char *line = last_line(tail, begins[i]);
        found = line != NULL ? line : found;
    }
    return found;
}

/* A panic of etcd's own is first logged, and only there with the reason. */
static bool is_of_line(const char *crash, const char *line)
{
    static const char panic[] = "panic: ";
    json_t *j =
        line != NULL ? json_loads(line, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const char *what = text_of(j, "msg");
    const bool is_same =
        strncmp(crash, panic, sizeof panic - 1) == 0 && what[0] != '\0' &&
        strncmp(crash + sizeof panic - 1, what, strlen(what)) == 0;
    json_decref(j);
    return is_same;
}

static bool has_any(const char *text, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strstr(text, *words) != NULL)
            return true;
    return false;
}

/* said: its last words before it crashed; "": it has not crashed. A full disk
 * comes before a crash. */
static rg__etcd_child_lack find_lack(const char *tail, const char *said)
{
    static const char *const threads[] = {"new OS thread", "pthread_create",
                                          NULL};
    static const char *const memory[] = {"out of memory", "cannot allocate",
                                         "failed to reserve", NULL};
    static const char *const disk[] = {"no space left on device",
                                       "disk quota exceeded", "file too large",
                                       "failed to create WAL", NULL};
    return has_any(said, threads)  ? RG__ETCD_CHILD_LACKS_THREADS
           : has_any(said, memory) ? RG__ETCD_CHILD_LACKS_MEMORY
           : has_any(tail, disk)   ? RG__ETCD_CHILD_LACKS_DISK
                                   : RG__ETCD_CHILD_LACKS_NOTHING;
}

/* Then nothing of what it says reaches its log. */
static bool is_full(const char *dir)
{
    struct statvfs at;
    return statvfs(dir, &at) == 0 && at.f_bavail == 0;
}

rg__etcd_child_lack rg__etcd_child_said(const char *dir,
                                        char said[RG__ETCD_SAID])
{
    char *tail = read_tail(dir);
    const char *line = tail != NULL ? last_line(tail, "{") : NULL;
    const char *crash = tail != NULL ? crash_of(tail) : NULL;
    said[0] = '\0';
    const bool has_crashed = crash != NULL && crash > line;
    if (has_crashed && is_of_line(crash, line))
        take_message(line, said);
    else if (has_crashed)
        snprintf(said, RG__ETCD_SAID, "%.*s", (int)strcspn(crash, "\n"), crash);
    else if (line == NULL || !take_message(line, said))
        snprintf(said, RG__ETCD_SAID, "it said nothing that can be read");
    const rg__etcd_child_lack lack =
        tail != NULL ? find_lack(tail, has_crashed ? said : "")
                     : RG__ETCD_CHILD_LACKS_NOTHING;
    free(tail);
    return lack == RG__ETCD_CHILD_LACKS_NOTHING && line == NULL && is_full(dir)
               ? RG__ETCD_CHILD_LACKS_DISK
               : lack;
}
