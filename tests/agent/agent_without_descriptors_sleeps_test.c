/* Another agent connects, and this one has no descriptor left: the connection
 * stays in the queue, and would wake the loop forever. The agent says what it
 * lacks and sleeps; once it has a descriptor it accepts the connection.
 *
 * Covers: accept.c */
#include "tests/agent/agents.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sdk/base/clock.h"

/* How often the agent tries: it calls our accept4. */
static int tries;

int accept4(int fd, struct sockaddr *at, socklen_t *n, int flags)
{
    tries++;
    return (int)syscall(SYS_accept4, fd, at, n, flags);
}

static void limit_descriptors(rlim_t n)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = n;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* The lowest that is free. */
static int next_descriptor(void)
{
    const int fd = dup(STDERR_FILENO);
    CHECK(fd >= 0 && close(fd) == 0);
    return fd;
}

static int call(const rg__agent *a)
{
    rg__inet at;
    CHECK(rg__inet_read(&a->address, a->port, &at));
    const int sock = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(sock >= 0 && connect(sock, &at.any, rg__inet_bytes(&at)) == 0);
    return sock;
}

static int listen_for_workers(void)
{
    const struct sockaddr any = {.sa_family = AF_UNIX};
    const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    CHECK(sock >= 0 && bind(sock, &any, sizeof any.sa_family) == 0 &&
          listen(sock, 1) == 0);
    return sock;
}

static bool is_said(void *agent_arg)
{
    return rg__waits_said(agent_arg) == 1;
}

static bool is_taken(void *agent_arg)
{
    const rg__agent *a = agent_arg;
    return a->connections != NULL && rg__waits_said(a) == 0;
}

static uint64_t until_ns;

static bool is_late(void *arg)
{
    (void)arg;
    return rg__now_ns() >= until_ns;
}

int main(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *a = agent_make(loop, 1);
    a->sockets.listener = listen_for_workers();
    const int sock = call(a);

    limit_descriptors((rlim_t)next_descriptor());
    loop_until(loop, is_said, a);
    tries = 0;
    const uint64_t begin_ns = rg__now_ns();
    until_ns = begin_ns + 400 * RG__MS;
    loop_until(loop, is_late, NULL);
    CHECK((uint64_t)tries <= 2 + (rg__now_ns() - begin_ns) / (50 * RG__MS));
    CHECK(a->connections == NULL);

    limit_descriptors(256);
    loop_until(loop, is_taken, a);
    rg__guests_drop(a);
    close(a->sockets.listener);
    close(sock);
    agent_free(a);
    rg__loop_destroy(loop);
    return 0;
}
