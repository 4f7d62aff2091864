/* Questions to agents: one packet there, one packet back. */
#include "elastic/cli/ask.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/sock.h"
#include "sdk/base/wire.h"

#define AGENTS_MAX     64
#define DOCUMENT_BYTES (64 << 20) /* far more than any answer */
#define ANSWER_MS      5000
#define DUMP_MS        15000 /* agents have ten seconds for it */

/* ----------------------------------------------------------------- sockets */

static int open_socket(const char *dir, const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (snprintf(at.sun_path, sizeof at.sun_path, "%s/%s", dir, name) >=
        (int)sizeof at.sun_path)
        return -1;
    const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock >= 0 && connect(sock, (struct sockaddr *)&at, sizeof at) == 0)
        return sock;
    if (sock >= 0)
        close(sock);
    return -1;
}

static bool is_socket_name(const char *name)
{
    const size_t n = strlen(name);
    return n > 11 && strncmp(name, "agent-", 6) == 0 &&
           strcmp(name + n - 5, ".sock") == 0;
}

/* Connect to every agent of the job that listens here. */
static int open_agents(const rg__job_record *job, int sock[AGENTS_MAX])
{
    DIR *dir = opendir(job->path);
    int n = 0;
    if (dir == NULL)
        return 0;
    for (struct dirent *d; n < AGENTS_MAX && (d = readdir(dir)) != NULL;) {
        if (!is_socket_name(d->d_name))
            continue;
        const int one = open_socket(job->path, d->d_name);
        if (one >= 0)
            sock[n++] = one;
    }
    closedir(dir);
    return n;
}

static rg_status fail_no_agent(const rg__job_record *job)
{
    return rg__fail(RG_ERR_AGENT_LOST,
                    "no agent of job %s answers in %s; it is just starting or "
                    "ending, try again",
                    job->job, job->path);
}

static rg_status send_mark(int sock, uint32_t type)
{
    const rg__mark mark = {.head = {.type = type, .version = RG__WIRE_VERSION}};
    return rg__sock_send(sock, &mark, sizeof mark, NULL, 0);
}

static int ms_until(uint64_t deadline_ns)
{
    const uint64_t now = rg__now_ns();
    return now >= deadline_ns ? 0 : (int)((deadline_ns - now) / RG__MS) + 1;
}

/* Wait until something can be read, or the other side has closed. */
static bool wait_for(int fd, uint64_t deadline_ns)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    int n;
    do
        n = poll(&look, 1, ms_until(deadline_ns));
    while (n < 0 && errno == EINTR);
    return n > 0;
}

/* --------------------------------------------------------------- documents */

static rg_status read_document(int fd, char **text_p)
{
    struct stat at;
    if (fstat(fd, &at) != 0 || at.st_size <= 0 || at.st_size > DOCUMENT_BYTES)
        return rg__fail(RG_ERR_SYSTEM, "the agent sent an answer of %lld bytes",
                        (long long)at.st_size);
    const size_t bytes = (size_t)at.st_size;
    char *text = malloc(bytes + 1);
    if (text == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an agent's answer");
    if (pread(fd, text, bytes, 0) != (ssize_t)bytes) {
        free(text);
        return rg__fail(RG_ERR_SYSTEM, "the agent's answer can't be read: %s",
                        strerror(errno));
    }
    text[bytes] = '\0';
    *text_p = text;
    return RG_OK;
}

static rg_status fail_ended(void)
{
    return rg__fail(RG_ERR_AGENT_LOST, "the agent ended before it answered");
}

static rg_status ask_one(int sock, const void *question, size_t bytes,
                         uint64_t deadline_ns, char **text_p)
{
    rg__mark answer;
    size_t n = 0;
    int fds[RG__SOCK_FDS];
    rg_status st = rg__sock_send(sock, question, bytes, NULL, 0);
    if (st != RG_OK)
        return fail_ended();
    if (!wait_for(sock, deadline_ns))
        return rg__fail(RG_ERR_AGENT_LOST,
                        "the agent gives no answer; it is stopped or stuck");
    st = rg__sock_recv(sock, &answer, sizeof answer, &n, fds);
    if (st != RG_OK)
        return fail_ended();
    if (rg__wire_read(&answer, n) != RG__STATUS_TEXT || fds[0] < 0)
        st = rg__fail(RG_ERR_AGENT_LOST,
                      "the agent answers in another way than this `regroup` "
                      "(%s) expects; use the one that started the job",
                      RG_VERSION);
    else
        st = read_document(fds[0], text_p);
    rg__sock_close_fds(fds);
    return st;
}

/* The agents here in turn, until one answers. */
static rg_status ask(const rg__job_record *job, const void *question,
                     size_t bytes, uint64_t timeout_ms, char **text_p)
{
    int sock[AGENTS_MAX];
    const uint64_t deadline = rg__now_ns() + timeout_ms * RG__MS;
    const int n = open_agents(job, sock);
    rg_status st = n == 0 ? fail_no_agent(job) : RG_ERR_AGENT_LOST;
    for (int i = 0; i < n && st != RG_OK; i++)
        st = ask_one(sock[i], question, bytes, deadline, text_p);
    for (int i = 0; i < n; i++)
        close(sock[i]);
    return st;
}

rg_status rg__ask_status(const rg__job_record *job, char **text_p)
{
    const rg__mark m = {.head = {RG__STATUS, RG__WIRE_VERSION}};
    return ask(job, &m, sizeof m, ANSWER_MS, text_p);
}

rg_status rg__ask_events(const rg__job_record *job, uint64_t from,
                         char **text_p)
{
    const rg__mark m = {{RG__EVENTS, RG__WIRE_VERSION}, from};
    return ask(job, &m, sizeof m, ANSWER_MS, text_p);
}

rg_status rg__ask_dump(const rg__job_record *job, uint64_t wants, char **text_p)
{
    const rg__mark m = {{RG__DUMP, RG__WIRE_VERSION}, wants};
    return ask(job, &m, sizeof m, DUMP_MS, text_p);
}

rg_status rg__ask_timeline(const rg__job_record *job, const char *path,
                           char **text_p)
{
    rg__text m = {.head = {RG__TIMELINE, RG__WIRE_VERSION}};
    if (strlen(path) >= sizeof m.text)
        return rg__fail(RG_ERR_INVALID,
                        "the file's name has over %zu bytes; give a shorter "
                        "one",
                        sizeof m.text - 1);
    strcpy(m.text, path);
    return ask(job, &m, sizeof m, ANSWER_MS, text_p);
}

rg_status rg__ask_drain(const rg__job_record *job, const char *host,
                        uint64_t deadline_ms, char **text_p)
{
    rg__drain_host m = {.head = {RG__DRAIN, RG__WIRE_VERSION},
                        .deadline_ms = deadline_ms};
    if (strlen(host) >= sizeof m.host)
        return rg__fail(RG_ERR_INVALID,
                        "a host's name has up to %zu bytes, which \"%.80s\" "
                        "exceeds",
                        sizeof m.host - 1, host);
    strcpy(m.host, host);
    return ask(job, &m, sizeof m, ANSWER_MS, text_p);
}

rg_status rg__ask_scale(const rg__job_record *job, int min, int max,
                        char **text_p)
{
    const rg__scale m = {{RG__SCALE, RG__WIRE_VERSION}, min, max};
    return ask(job, &m, sizeof m, ANSWER_MS, text_p);
}

/* ------------------------------------------------------------------ the end */

static int open_agent(const rg__job_record *job, const char *host,
                      int sock[AGENTS_MAX])
{
    char name[RG__NAME_MAX + 16];
    snprintf(name, sizeof name, "agent-%s.sock", host);
    sock[0] = open_socket(job->path, name);
    return sock[0] >= 0;
}

int rg__ask_follow(const rg__job_record *job, const char *host)
{
    int sock[AGENTS_MAX];
    const int n =
        host != NULL ? open_agent(job, host, sock) : open_agents(job, sock);
    int follower = -1;
    for (int i = 0; i < n; i++) {
        if (follower < 0 && send_mark(sock[i], RG__FOLLOW) == RG_OK)
            follower = sock[i];
        else
            close(sock[i]);
    }
    return follower;
}

/* A message waits in the socket for an agent that takes over. A signal would go
 * to the old agent, or to another process that has its number by now. */
void rg__ask_leave(const rg__job_record *job, const char *host, bool at_once)
{
    int sock[AGENTS_MAX];
    const rg__text m = {
        .head = {at_once ? RG__ENDED : RG__LEAVE, RG__WIRE_VERSION}};
    if (!open_agent(job, host, sock))
        return;
    rg__sock_send(sock[0], &m, sizeof m, NULL, 0);
    close(sock[0]);
}

rg_status rg__ask_over(int follower, uint64_t timeout_ms, rg__over *over_p,
                       char **last_p)
{
    rg__over over;
    size_t n = 0;
    int fds[RG__SOCK_FDS];
    if (!wait_for(follower, rg__now_ns() + timeout_ms * RG__MS))
        return RG_IN_PROGRESS;
    const rg_status st = rg__sock_recv(follower, &over, sizeof over, &n, fds);
    if (st != RG_OK)
        return st;
    const bool is_over = rg__wire_read(&over, n) == RG__OVER;
    *last_p = NULL;
    if (is_over && fds[0] >= 0)
        read_document(fds[0], last_p); /* without it the code still counts */
    rg__sock_close_fds(fds);
    if (!is_over)
        return rg__fail(RG_ERR_AGENT_LOST,
                        "the agent is another version than this `regroup`");
    over.why[sizeof over.why - 1] = '\0';
    *over_p = over;
    return RG_OK;
}

/* -------------------------------------------------------------------- stop */

/* The process behind a socket, to be told of its end; -1: gone already. */
static int open_peer(int sock)
{
    struct ucred who;
    socklen_t n = sizeof who;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &n) != 0)
        return -1;
    return (int)syscall(SYS_pidfd_open, who.pid, 0);
}

/* Ask every agent, and collect the processes to wait for: the agents, and the
 * process that started the job and cleans up after them. */
static int ask_all(const rg__job_record *job, int process[AGENTS_MAX + 1],
                   int *count_p)
{
    int sock[AGENTS_MAX];
    const int n = open_agents(job, sock);
    int count = 0;
    /* While the job's lock is held its recorded process can't be another. */
    if (n > 0 && job->pid > 0)
        process[count++] = (int)syscall(SYS_pidfd_open, job->pid, 0);
    for (int i = 0; i < n; i++) {
        process[count++] = open_peer(sock[i]);
        send_mark(sock[i], RG__STOP); /* one that has just gone needs none */
        close(sock[i]);
    }
    *count_p = count;
    return n;
}

rg_status rg__ask_stop(const rg__job_record *job, uint64_t timeout_ms)
{
    int process[AGENTS_MAX + 1], count;
    const uint64_t deadline = rg__now_ns() + timeout_ms * RG__MS;
    if (ask_all(job, process, &count) == 0)
        return fail_no_agent(job);
    bool has_ended = true;
    for (int i = 0; i < count; i++) {
        if (process[i] < 0)
            continue;
        has_ended = has_ended && wait_for(process[i], deadline);
        close(process[i]);
    }
    return has_ended ? RG_OK : RG_IN_PROGRESS;
}
