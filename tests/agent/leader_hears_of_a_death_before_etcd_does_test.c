/* The agent of a worker that died tells the leader which one, and why, and
 * publishes it a little later, since the leader needs etcd first. But while
 * etcd has more to hear from it, it tells only that the generation is aborted,
 * and publishes the death at once. The same if no leader can be told.
 *
 * Covers: publish.c beat.c beat_wire.c */
#include "tests/agent/agents.h"

#include <string.h>

enum { LEADER = 7, HOST = 1 };

static rg__proposal_host host[] = {
    {.name = "h1", .id = HOST, .address = {"127.0.0.1"}},
    {.name = "h7", .id = LEADER, .address = {"127.0.0.1"}}};
static rg__proposal world = {.generation = 2, .host = host, .host_count = 2};
static rg__line line = {.generation = 2};
static rg__events events;
static char told[512]; /* to the leader */
static int aborts;
static const rg__agent *teller;
static bool was_held; /* did it hold the record back when the leader heard of
                         it? */

static void on_told(rg__agent *a, uint64_t from, uint64_t generation,
                    const char *text, size_t bytes)
{
    CHECK_EQ((long)a->id, LEADER);
    CHECK_EQ((long)from, HOST);
    CHECK_EQ((long)generation, 2);
    CHECK(bytes < sizeof told);
    memcpy(told, text, bytes);
    told[bytes] = '\0';
}

static void on_aborted(rg__agent *a, uint64_t generation)
{
    CHECK_EQ((long)generation, 2);
    if ((long)a->id != LEADER)
        return;
    aborts++;
    was_held = teller->publication->is_held;
}

static rg__agent *begin(rg__loop *loop, int at)
{
    const rg__etcd_params etcd = {.endpoints = "http://127.0.0.1:1"};
    rg__agent *a = agent_make(loop, host[at].id);
    a->on = &events;
    a->life.agents = 1;
    a->view.cur = (rg__cur){.generation = 2, .phase = RG__GEN_DECIDED};
    a->view.leader = LEADER;
    a->view.gen = &world;
    a->view.gens = 1;
    a->view.line = &line;
    a->view.lines = 1;
    CHECK_OK(rg__etcd_create(loop, &etcd, &a->etcd));
    CHECK_OK(rg__beat_open(a));
    host[at].port = a->port;
    return a;
}

static void end(rg__agent *a)
{
    a->view.gen = NULL;
    a->view.gens = 0;
    a->view.line = NULL;
    a->view.lines = 0;
    rg__beat_close(a);
    rg__etcd_destroy(a->etcd);
    agent_free(a);
}

static bool is_aborted(void *arg)
{
    (void)arg;
    return aborts > 0;
}

static bool is_published(void *arg)
{
    const rg__agent *a = arg;
    return !a->publication->is_held;
}

/* What the leader hears of the death of that start. */
static const char *hear(rg__agent *a, uint32_t start)
{
    const rg__slot slot = {.a = a, .index = 3, .saved.start = start};
    aborts = 0;
    teller = a;
    told[0] = '\0';
    rg__publish_death(a, 2, &slot, "killed by signal 9");
    loop_until(a->loop, is_aborted, NULL);
    CHECK(a->publication->is_dirty); /* etcd hears of it in any case */
    return told;
}

int main(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    events = rg__agent_events;
    events.host_told_death = on_told;
    events.host_aborted = on_aborted;
    rg__agent *a = begin(loop, 0), *leader = begin(loop, 1);
    rg__beat_follow(a);
    rg__beat_follow(leader);
    a->publication->has_published = true;
    const char *said = hear(a, 1);
    CHECK(was_held);
    loop_until(loop, is_published, a);
    CHECK(strncmp(said, "h1.3.1 {", strlen("h1.3.1 {")) == 0);
    CHECK(strstr(said, "killed by signal 9") != NULL);
    a->publication->was_away = true;
    CHECK_STR(hear(a, 2), "");
    CHECK(!was_held);
    a->publication->was_away = false;
    CHECK(strncmp(hear(a, 3), "h1.3.3 {", strlen("h1.3.3 {")) == 0);
    loop_until(loop, is_published, a);
    a->view.leader = 0;
    hear(a, 4);
    CHECK(!was_held);
    end(a);
    end(leader);
    rg__loop_destroy(loop);
    return 0;
}
