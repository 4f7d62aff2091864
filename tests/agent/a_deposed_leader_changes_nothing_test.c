/* What a leader does applies only while it leads and the job stands where it
 * has looked: if another has taken its place or has decided meanwhile, and its
 * copy of the keys does not show that yet, etcd refuses it. */
#include "tests/agent/agents.h"
#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

#define PREFIX "/regroup/v1/test/"
#define LEADER PREFIX "all/leader"
#define CUR    PREFIX "all/cur"

static void put_text(etcd_server *server, const char *key, char *text)
{
    CHECK(text != NULL);
    etcd_server_put(server, key, text);
    free(text);
}

static void put_leader(etcd_server *server, uint64_t id)
{
    const rg__proposal_host leader = {.name = "h", .id = id};
    put_text(server, LEADER, rg__leader_text(&leader));
}

/* Host 1 leads; its slot is at the door, so that it wants generation 1. */
static void put_job(etcd_server *server)
{
    const rg__meta meta = {.uuid = "0", .min = 1, .max = 1};
    rg__slot_record at_door = {
        .start = 1, .pid = 100, .is_alive = true, .is_at_door = true};
    const rg__host_record host = {.name = "h1",
                                  .id = 1,
                                  .seq = 1,
                                  .slots = 1,
                                  .open = 1,
                                  .elastic = 1,
                                  .slot = &at_door,
                                  .slot_count = 1};
    put_text(server, PREFIX "meta", rg__meta_text(&meta));
    put_text(server, PREFIX "lead/host/h1", rg__host_text(&host));
    put_leader(server, 1);
}

static void follow(void *arg, int64_t revision, bool wiped)
{
    (void)arg, (void)revision, (void)wiped;
}

/* An agent that knows what etcd holds now, and hears of nothing later. */
static agent *open_leader(scene *s)
{
    agent *a = agent_make(s->loop, 1);
    a->own.min = a->own.max = 1;
    a->prefix = PREFIX;
    a->etcd = s->etcd;
    a->look_timer = rg__timer_create(s->loop, rg__leader_look, a);
    CHECK(a->look_timer != NULL);
    CHECK_OK(rg__mirror_create(s->etcd, PREFIX, "/regroup/v1/test0", NULL,
                               follow, a, &a->whole));
    WAIT_FOR(s, rg__mirror_is_listed(a->whole));
    CHECK_OK(rg__agent_read(a, a->whole, &a->known));
    CHECK_EQ(a->known.leader, 1);
    return a;
}

static void close_leader(scene *s, agent *a)
{
    rg__snapshot_free(&a->known);
    rg__mirror_destroy(a->whole);
    rg__timer_destroy(a->look_timer);
    agent_free(a);
    scene_close(s);
}

/* Let it act once on what it knows; `meanwhile` befalls etcd before. */
static void act_once(etcd_server *server, void (*meanwhile)(etcd_server *))
{
    scene s;
    etcd_server_delete(server, CUR);
    etcd_server_delete(server, PREFIX "all/gen/0000000000000001");
    put_job(server);
    scene_open(&s, etcd_server_url(server));
    agent *a = open_leader(&s);
    meanwhile(server);
    rg__leader_look(a);
    CHECK(a->acting != NULL);
    a->is_ending = true; /* it looks no second time */
    WAIT_FOR(&s, a->acting == NULL);
    close_leader(&s, a);
}

static outcome read_cur(etcd_server *server)
{
    scene s;
    scene_open(&s, etcd_server_url(server));
    const outcome o = scene_get(&s, CUR);
    scene_close(&s);
    return o;
}

static void nothing(etcd_server *server)
{
    (void)server;
}

static void lose_its_place(etcd_server *server)
{
    etcd_server_delete(server, LEADER);
}

static void see_another_lead(etcd_server *server)
{
    etcd_server_delete(server, LEADER);
    put_leader(server, 2);
}

static void see_another_decide(etcd_server *server)
{
    etcd_server_put(server, CUR, "another's");
}

int main(void)
{
    etcd_server *server = etcd_server_start();
    act_once(server, nothing);
    CHECK(strstr(read_cur(server).value, "\"propose\"") != NULL);
    act_once(server, lose_its_place);
    CHECK_EQ(read_cur(server).kv_count, 0);
    act_once(server, see_another_lead);
    CHECK_EQ(read_cur(server).kv_count, 0);
    act_once(server, see_another_decide);
    CHECK_STR(read_cur(server).value, "another's");
    etcd_server_stop(server);
    return 0;
}
