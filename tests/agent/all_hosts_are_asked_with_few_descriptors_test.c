/* When a host is accused, every agent asks every other whether it lives. A job
 * may have more hosts than an agent has descriptors: each that answers is heard
 * all the same, and more than four thousand are minded.
 *
 * Covers: beat.c */
#include "tests/agent/agents.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/hosts/beat_wire.h"
#include "sdk/base/clock.h"

enum { MANY = 5000, HOSTS = 100, SPARE = 10 };

static rg__proposal_host host[MANY];
static rg__proposal proposal = {
    .generation = 2, .host = host, .host_count = MANY};
static int sock; /* of all other hosts */

static void make_hosts(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(sock, (const struct sockaddr *)&at, n), 0);
    CHECK_EQ(getsockname(sock, (struct sockaddr *)&at, &n), 0);
    for (int i = 0; i < MANY; i++)
        host[i] = (rg__proposal_host){.id = 10 + (uint64_t)i,
                                      .address = {"127.0.0.1"},
                                      .port = ntohs(at.sin_port)};
}

/* Each host that was asked answers. */
static void answer(const rg__agent *a)
{
    static uint64_t counter;
    uint8_t bytes[RG__BEAT_MAX];
    rg__beat beat;
    struct sockaddr_storage at;
    socklen_t at_bytes = sizeof at;
    ssize_t n = 0;
    while ((n = recvfrom(sock, bytes, sizeof bytes, MSG_DONTWAIT,
                         (struct sockaddr *)&at, &at_bytes)) > 0) {
        CHECK(rg__beat_read(bytes, (size_t)n, a->key, &beat));
        if (beat.type != RG__BEAT_PROBE)
            continue;
        const rg__beat here = {.type = RG__BEAT_HERE,
                               .from = beat.to,
                               .to = beat.from,
                               .counter = ++counter};
        const size_t size = rg__beat_write(bytes, a->key, &here);
        sendto(sock, bytes, size, 0, (const struct sockaddr *)&at, at_bytes);
    }
}

/* No host that answers is accused. */
static bool have_all_answered(void *arg)
{
    const rg__agent *a = arg;
    answer(a);
    for (int i = 0; i < rg__beat_peers(a); i++)
        CHECK(!rg__beat_peer(a, i)->is_accused);
    for (int i = 0; i < HOSTS; i++)
        if (!rg__beat_has_answered(a, host[i].id, 1))
            return false;
    return true;
}

static void leave_few_descriptors(void)
{
    const int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct rlimit few;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &few), 0);
    few.rlim_cur = (rlim_t)lowest + SPARE;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    close(lowest);
}

int main(void)
{
    const rg__etcd_params etcd = {.endpoints = "http://127.0.0.1:1"};
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    make_hosts();
    rg__agent *a = agent_make(loop, 1);
    a->life.agents = 1;
    a->own.detect_ms = 2000;
    a->view.cur = (rg__cur){.generation = 2, .phase = RG__GEN_PROPOSED};
    a->view.gen = &proposal;
    a->view.gens = 1;
    CHECK_OK(rg__etcd_create(loop, &etcd, &a->etcd));
    CHECK_OK(rg__beat_open(a));
    rg__beat_follow(a);
    CHECK_EQ(rg__beat_peers(a), MANY);
    proposal.host_count = HOSTS;
    proposal.op[0] = '2'; /* another one */
    rg__beat_follow(a);
    CHECK_EQ(rg__beat_peers(a), HOSTS);
    leave_few_descriptors();
    rg__beat_start(a);
    rg__beat_probe_all(a, rg__now_ns());
    loop_until(loop, have_all_answered, a);
    a->view.gen = NULL;
    a->view.gens = 0;
    rg__beat_close(a);
    rg__etcd_destroy(a->etcd);
    agent_free(a);
    rg__loop_destroy(loop);
    close(sock);
    return 0;
}
