/* In a world of many hosts each exchanges heartbeats with the leader, and with
 * two more on either side only where there are few. A beat minds these peers,
 * and all others only until they have answered what they were asked. The leader
 * minds all, also those whose lease has ended: no other host would miss them.
 *
 * Covers: beat.c */
#include "tests/agent/agents.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/hosts/beat_wire.h"
#include "sdk/base/clock.h"

enum { FEW = 128, MANY = FEW + 1, NEIGHBOURS = 4 };

static rg__proposal_host host[MANY];
static rg__proposal proposal = {.generation = 2, .host = host};
static int sock; /* of all other hosts */

static void make_hosts(uint64_t self)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(sock, (const struct sockaddr *)&at, n), 0);
    CHECK_EQ(getsockname(sock, (struct sockaddr *)&at, &n), 0);
    for (int i = 0; i < MANY; i++)
        host[i] = (rg__proposal_host){.id = self + (uint64_t)i,
                                      .address = {"127.0.0.1"},
                                      .port = ntohs(at.sin_port)};
}

/* The last one leads. */
static void form_world(rg__agent *a, int hosts)
{
    proposal.host_count = hosts;
    proposal.op[0]++;
    a->view.leader = host[hosts - 1].id;
    a->view.leader_host = host[hosts - 1];
    rg__beat_follow(a);
    CHECK_EQ(rg__beat_peers(a), hosts - 1);
}

static int count_minded(const rg__agent *a)
{
    int n = 0;
    while (rg__beat_minded(a, n) != NULL)
        n++;
    return n;
}

/* Each host that was asked answers, until only the leader is minded. */
static bool have_answered(void *arg)
{
    static uint64_t counter;
    const rg__agent *a = arg;
    uint8_t bytes[RG__BEAT_MAX];
    rg__beat beat;
    ssize_t n = 0;
    while ((n = recv(sock, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        const struct sockaddr_in to = {.sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)a->port),
                                       .sin_addr = {htonl(INADDR_LOOPBACK)}};
        CHECK(rg__beat_read(bytes, (size_t)n, a->key, &beat));
        const rg__beat here = {.type = RG__BEAT_HERE,
                               .from = beat.to,
                               .to = beat.from,
                               .counter = ++counter};
        const size_t size = rg__beat_write(bytes, a->key, &here);
        sendto(sock, bytes, size, 0, (const struct sockaddr *)&to, sizeof to);
    }
    return count_minded(a) == 1;
}

int main(void)
{
    const rg__etcd_params etcd = {.endpoints = "http://127.0.0.1:1"};
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *a = agent_make(loop, 1);
    make_hosts(a->id);
    a->life.agents = 1;
    a->own.detect_ms = 2000;
    a->view.cur = (rg__cur){.generation = 2, .phase = RG__GEN_PROPOSED};
    a->view.gen = &proposal;
    a->view.gens = 1;
    CHECK_OK(rg__etcd_create(loop, &etcd, &a->etcd));
    CHECK_OK(rg__beat_open(a));
    form_world(a, FEW); /* the leader is one before us in the circle */
    CHECK_EQ(count_minded(a), NEIGHBOURS);
    form_world(a, MANY);
    CHECK_EQ(count_minded(a), 1);
    CHECK_EQ(rg__beat_minded(a, 0)->id, a->view.leader);
    rg__beat_start(a);
    rg__beat_probe_all(a, rg__now_ns());
    CHECK_EQ(count_minded(a), MANY - 1);
    loop_until(loop, have_answered, a);
    for (int i = 1; i < MANY; i++)
        CHECK(rg__beat_has_answered(a, host[i].id, 1));
    a->view.leader = a->id;
    rg__beat_follow(a);
    CHECK_EQ(count_minded(a), MANY - 1);
    a->view.gen = NULL;
    a->view.gens = 0;
    rg__beat_close(a);
    rg__etcd_destroy(a->etcd);
    agent_free(a);
    rg__loop_destroy(loop);
    close(sock);
    return 0;
}
