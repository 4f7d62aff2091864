/* The counter of an incarnation's datagrams rises from one agent to the next,
 * whatever the clock says, and no datagram is accepted twice: also when that
 * host was not watched for a while.
 *
 * Covers: beat_wire.c */
#include "tests/agent/agents.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/hosts/beat_wire.h"

enum { OTHER = 7 };

static int sock; /* of the other host */
static rg__agent *self;

static struct sockaddr_in at_port(uint32_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

static void say(rg__beat_type type, uint64_t counter)
{
    uint8_t bytes[RG__BEAT_MAX];
    const rg__beat beat = {
        .type = type, .from = OTHER, .to = self->id, .counter = counter};
    const struct sockaddr_in to = at_port(self->port);
    const size_t n = rg__beat_write(bytes, self->key, &beat);
    CHECK_EQ(sendto(sock, bytes, n, 0, (const struct sockaddr *)&to, sizeof to),
             (ssize_t)n);
}

static uint64_t arrived;

static bool has_arrived(void *arg)
{
    const rg__beat_counts n = rg__beat_count(self);
    (void)arg;
    return n.received + n.refused > arrived;
}

/* Is it taken for a new one? */
static bool is_heard(uint64_t counter)
{
    const rg__beat_counts before = rg__beat_count(self);
    arrived = before.received + before.refused;
    say(RG__BEAT, counter);
    loop_until(self->loop, has_arrived, NULL);
    return rg__beat_count(self).received > before.received;
}

/* The other host has a place in the world, or none. */
static void mind(bool has_place)
{
    static rg__proposal_host other = {.id = OTHER, .address = {"127.0.0.1"}};
    static rg__proposal world = {.generation = 1, .host = &other};
    struct sockaddr_in at;
    socklen_t n = sizeof at;
    CHECK_EQ(getsockname(sock, (struct sockaddr *)&at, &n), 0);
    other.port = ntohs(at.sin_port);
    world.host_count = has_place;
    world.op[0]++; /* another one */
    self->view.gen = &world;
    self->view.gens = 1;
    self->view.cur.generation = 1;
    rg__beat_follow(self);
    self->view.gen = NULL;
    self->view.gens = 0;
    CHECK_EQ(rg__beat_peers(self), has_place);
}

/* Of its answer to a probe. */
static uint64_t counter_of_answer(void)
{
    uint8_t bytes[RG__BEAT_MAX];
    rg__beat beat;
    say(RG__BEAT_PROBE, 1000);
    arrived = rg__beat_count(self).received + rg__beat_count(self).refused;
    loop_until(self->loop, has_arrived, NULL);
    const ssize_t n = recv(sock, bytes, sizeof bytes, 0);
    CHECK(n > 0 && rg__beat_read(bytes, (size_t)n, self->key, &beat));
    CHECK_EQ(beat.type, RG__BEAT_HERE);
    return beat.counter;
}

static void begin(rg__loop *loop, uint32_t agents)
{
    const rg__etcd_params etcd = {.endpoints = "http://127.0.0.1:1"};
    self = agent_make(loop, 1);
    self->life.agents = agents; /* that have had this incarnation */
    CHECK_OK(rg__etcd_create(loop, &etcd, &self->etcd));
    CHECK_OK(rg__beat_open(self));
}

static void end(void)
{
    rg__beat_close(self);
    rg__etcd_destroy(self->etcd);
    agent_free(self);
}

int main(void)
{
    rg__loop *loop = NULL;
    const struct sockaddr_in any = at_port(0);
    CHECK_OK(rg__loop_create(&loop));
    sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(sock, (const struct sockaddr *)&any, sizeof any), 0);

    begin(loop, 1);
    const uint64_t first = counter_of_answer();
    mind(true);
    CHECK(is_heard(10));
    CHECK(!is_heard(10));
    CHECK(is_heard(11));
    mind(false);
    mind(true);
    CHECK(!is_heard(11));
    CHECK(is_heard(12));
    end();

    begin(loop, 2);
    const uint64_t second = counter_of_answer();
    CHECK(second > first);
    CHECK(second - first > (UINT64_C(1) << 40)); /* by no clock */
    CHECK(second < UINT64_C(3) << 48);
    end();
    close(sock);
    rg__loop_destroy(loop);
    return 0;
}
