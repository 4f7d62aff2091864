#include "elastic/agent/base/view.h"
#include "tests/agent/keys.h"

#include <stdlib.h>

void keys_put(etcd_server *server, const char *key, char *text)
{
    char whole[256];
    CHECK(text != NULL);
    snprintf(whole, sizeof whole, KEYS "%s", key);
    etcd_server_put(server, whole, text);
    free(text);
}

void keys_put_meta(etcd_server *server, int size)
{
    const rg__meta meta = {.uuid = "0", .min = size, .max = size};
    keys_put(server, "meta", rg__meta_text(&meta));
}

void keys_put_host(etcd_server *server, uint64_t id)
{
    char key[128];
    rg__slot_record at_door = {
        .start = 1, .pid = 100, .is_alive = true, .is_at_door = true};
    rg__host_record host = {.id = id,
                            .seq = 1,
                            .slots = 1,
                            .open = 1,
                            .elastic = 1,
                            .slot = &at_door,
                            .slot_count = 1};
    snprintf(host.name, sizeof host.name, "h%llu", (unsigned long long)id);
    snprintf(key, sizeof key, "lead/host/%s", host.name);
    keys_put(server, key, rg__host_text(&host));
}

void keys_put_leader(etcd_server *server, uint64_t id)
{
    rg__proposal_host leader = {.id = id, .address = {"127.0.0.1"}, .port = 9};
    snprintf(leader.name, sizeof leader.name, "h%llu", (unsigned long long)id);
    keys_put(server, "all/leader", rg__leader_text(&leader));
}

static void hear_nothing(void *arg, int64_t revision, bool wiped)
{
    (void)arg, (void)revision, (void)wiped;
}

static void on_lease(void *arg, rg__lease_event event)
{
    *(bool *)arg |= event == RG__LEASE_HELD;
}

rg__agent *keys_open_agent(scene *s, uint64_t id)
{
    static bool has_lease; /* the lease may say more later */
    rg__agent *a = agent_make(s->loop, id);
    a->own.min = a->own.max = 1;
    a->prefix = KEYS;
    a->prefix_end = KEYS_END;
    a->etcd = s->etcd;
    a->owed.timer = rg__timer_create(s->loop, rg__job_pay, a);
    CHECK(a->owed.timer != NULL);
    CHECK_OK(rg__mirror_create(s->etcd, KEYS, KEYS_END, NULL, hear_nothing, a,
                               &a->leader->whole));
    WAIT_FOR(s, rg__mirror_is_listed(a->leader->whole));
    CHECK_OK(rg__view_read(a, a->leader->whole, &a->known));
    CHECK_OK(rg__view_read(a, a->leader->whole, &a->view));
    has_lease = false;
    CHECK_OK(rg__lease_create(s->etcd, 60, on_lease, &has_lease, &a->lease));
    WAIT_FOR(s, has_lease);
    return a;
}

void keys_close_agent(rg__agent *a)
{
    rg__mirror_destroy(a->leader->whole);
    rg__lease_destroy(a->lease);
    rg__timer_destroy(a->owed.timer);
    rg__snapshot_free(&a->known);
    rg__snapshot_free(&a->view);
    agent_free(a);
}
