/* What a leader does applies only while it leads and the job is as it saw
 * it: if another agent has taken its place or has decided meanwhile, and its
 * copy of the keys does not show that yet, etcd refuses it.
 *
 * Covers: leader.c */
#include "tests/agent/keys.h"

#define LEADER KEYS "all/leader"
#define CUR    KEYS "all/cur"
#define END    KEYS "all/end"

/* Host 1 leads and wants generation 1. It acts once on what it knows, after
 * `meanwhile` has changed etcd. What is in `cur` then? */
static outcome act(etcd_server *server, void (*meanwhile)(etcd_server *))
{
    scene s;
    etcd_server_delete(server, CUR);
    etcd_server_delete(server, KEYS "all/gen/0000000000000001");
    keys_put_meta(server, 1);
    keys_put_host(server, 1);
    keys_put_leader(server, 1);
    scene_open(&s, etcd_server_url(server));
    rg__agent *a = keys_open_agent(&s, 1);
    meanwhile(server);
    rg__leader_look(a);
    CHECK(a->leader->acting != NULL);
    rg__life_step(a, RG__LIFE_ON_END); /* it looks no second time */
    WAIT_FOR(&s, a->leader->acting == NULL);
    const outcome cur = scene_get(&s, CUR);
    keys_close_agent(a);
    scene_close(&s);
    return cur;
}

/* The same with the job's end: no worker comes to the door for long enough. */
static outcome give_up(etcd_server *server, void (*meanwhile)(etcd_server *))
{
    scene s;
    etcd_server_delete(server, CUR);
    etcd_server_delete(server, END);
    keys_put_meta(server, 2);
    keys_put_host(server, 1);
    keys_put_leader(server, 1);
    scene_open(&s, etcd_server_url(server));
    rg__agent *a = keys_open_agent(&s, 1);
    a->own.min = a->own.max = 2;
    meanwhile(server);
    rg__leader_look(a);
    CHECK(a->leader->acting != NULL);
    rg__life_step(a, RG__LIFE_ON_END);
    WAIT_FOR(&s, a->leader->acting == NULL);
    const outcome end = scene_get(&s, END);
    keys_close_agent(a);
    scene_close(&s);
    return end;
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
    keys_put_leader(server, 2);
}

static void see_another_decide(etcd_server *server)
{
    etcd_server_put(server, CUR, "another's");
}

int main(void)
{
    etcd_server *server = etcd_server_start();
    CHECK(strstr(act(server, nothing).value, "\"propose\"") != NULL);
    CHECK_EQ(act(server, lose_its_place).kv_count, 0);
    CHECK_EQ(act(server, see_another_lead).kv_count, 0);
    CHECK_STR(act(server, see_another_decide).value, "another's");
    CHECK(strstr(give_up(server, nothing).value, "--elastic-timeout") != NULL);
    CHECK_EQ(give_up(server, lose_its_place).kv_count, 0);
    CHECK_EQ(give_up(server, see_another_lead).kv_count, 0);
    CHECK_EQ(give_up(server, see_another_decide).kv_count, 0);
    etcd_server_stop(server);
    return 0;
}
