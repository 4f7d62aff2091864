/* A host sends its ack to the leader with every beat until the generation is
 * decided, whichever of them arrive. The leader counts it once and keeps it
 * when it reads its keys again, but not beyond that generation; and it counts
 * none of a host that has neither a record nor a place.
 *
 * Covers: ack.c agent.c beat_wire.c snapshot.c */
#include "tests/agent/agents.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/hosts/beat_wire.h"

enum { LEADER = 7, STRANGER = 8 };

static rg__proposal_host host[] = {{.id = 1, .address = {"127.0.0.1"}},
                                   {.id = LEADER, .address = {"127.0.0.1"}}};
static rg__proposal proposal = {.generation = 2, .host = host, .host_count = 2};

static rg__agent *begin(rg__loop *loop, uint64_t id)
{
    const rg__etcd_params etcd = {.endpoints = "http://127.0.0.1:1"};
    rg__agent *a = agent_make(loop, id);
    a->life.agents = 1;
    a->view.cur = (rg__cur){.generation = 2, .phase = RG__GEN_PROPOSED};
    a->view.leader = LEADER;
    a->view.gen = &proposal;
    a->view.gens = 1;
    CHECK_OK(rg__etcd_create(loop, &etcd, &a->etcd));
    CHECK_OK(rg__beat_open(a));
    return a;
}

static void end(rg__agent *a)
{
    a->view.gen = NULL;
    a->view.gens = 0;
    rg__snapshot_free(&a->known);
    rg__beat_close(a);
    rg__etcd_destroy(a->etcd);
    agent_free(a);
}

/* ---------------------------------------------------- hosts that have built */

static int sock; /* of the leader */
static char text[RG__BEAT_TEXT_MAX];
static size_t text_bytes;

/* The next ack: the leader loses it. */
static bool has_said(void *arg)
{
    uint8_t bytes[RG__BEAT_MAX];
    rg__beat beat;
    const rg__agent *a = arg;
    const ssize_t n = recv(sock, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 || !rg__beat_read(bytes, (size_t)n, a->key, &beat) ||
        beat.type != RG__BEAT_ACK)
        return false;
    CHECK_EQ(beat.generation, 2);
    memcpy(text, beat.text, beat.text_bytes);
    text_bytes = beat.text_bytes;
    return true;
}

static void is_said_again_and_again(rg__loop *loop)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(sock, (const struct sockaddr *)&at, n), 0);
    CHECK_EQ(getsockname(sock, (struct sockaddr *)&at, &n), 0);
    host[1].port = ntohs(at.sin_port);

    rg__agent *a = begin(loop, 1);
    const rg__ack ack = {.id = 1, .step = 5};
    a->acking = 2;
    rg__beat_follow(a);
    rg__beat_start(a);
    rg__ack_say(a, &ack);
    for (int i = 0; i < 4; i++)
        loop_until(loop, has_said, a);
    a->view.cur.phase = RG__GEN_DECIDED;
    rg__ack_repeat(a);
    CHECK(a->acks->ack == NULL);
    end(a);
    close(sock);
}

/* ------------------------------------------------------------------- leader */

static rg__kv kv_of(const char *key, const char *value)
{
    return (rg__kv){.key = key,
                    .value = value,
                    .value_bytes = strlen(value),
                    .create_revision = 1,
                    .mod_revision = 1};
}

static void read_again(rg__agent *a, const char *cur)
{
    const rg__kv kv = kv_of("/j/all/cur", cur);
    CHECK_OK(rg__snapshot_update(&a->known, "/j/", &kv, 1));
}

static void is_counted_once_and_kept(rg__loop *loop)
{
    rg__agent *a = begin(loop, LEADER);
    rg__life_step(a, RG__LIFE_ON_END); /* it plans nothing */
    read_again(a, "{\"g\":2,\"phase\":\"propose\"}");
    rg__ack_hear(a, STRANGER, 2, text, text_bytes);
    CHECK_EQ(a->known.acks, 0);
    rg__ack_hear(a, 1, 2, text, text_bytes);
    rg__ack_hear(a, 1, 2, text, text_bytes);
    CHECK_EQ(a->known.acks, 1);
    CHECK_EQ(a->known.ack[0].step, 5);
    read_again(a, "{\"g\":2,\"phase\":\"propose\"}");
    CHECK(rg__snapshot_ack(&a->known, 2, 1) != NULL);
    read_again(a, "{\"g\":3,\"phase\":\"propose\"}");
    CHECK_EQ(a->known.acks, 0);
    rg__ack_hear(a, 1, 2, text, text_bytes);
    CHECK_EQ(a->known.acks, 0);
    end(a);
}

int main(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    is_said_again_and_again(loop);
    is_counted_once_and_kept(loop);
    rg__loop_destroy(loop);
    return 0;
}
