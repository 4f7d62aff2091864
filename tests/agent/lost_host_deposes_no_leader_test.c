/* An agent that accuses the leader deletes the leader's key once the
 * accusations are confirmed, but not if the job goes on without that agent's
 * own host as well.
 *
 * Covers: suspect.c */
#include "sdk/base/clock.h"
#include "tests/agent/keys.h"

enum { HOSTS = 5, LEADER = 1, ME = 2 };

static void put_world(etcd_server *server)
{
    rg__member_id member[HOSTS];
    uint32_t port[HOSTS] = {0};
    rg__proposal_host host[HOSTS];
    rg__proposal p = {.generation = 1,
                      .op = "0",
                      .cause = "first",
                      .member = member,
                      .port = port,
                      .size = HOSTS,
                      .host = host,
                      .host_count = HOSTS};
    const rg__cur cur = {.generation = 1, .phase = RG__GEN_DECIDED};
    const rg__line line = {.generation = 1, .to_size = HOSTS, .cause = "first"};
    for (int i = 0; i < HOSTS; i++) {
        const uint64_t id = (uint64_t)i + 1;
        member[i] = (rg__member_id){.host = id, .start = 1};
        host[i] =
            (rg__proposal_host){.id = id, .address = {"127.0.0.1"}, .port = 9};
        snprintf(host[i].name, sizeof host[i].name, "h%d", i + 1);
        keys_put_host(server, id);
    }
    keys_put_meta(server, HOSTS);
    keys_put_leader(server, LEADER);
    keys_put(server, "all/gen/0000000000000001",
             rg__proposal_difference(&p, NULL));
    keys_put(server, "all/line/0000000000000001", rg__line_text(&line));
    keys_put(server, "all/cur", rg__cur_text(&cur));
}

/* Neither hears the other. */
static void part(etcd_server *server, uint64_t a, uint64_t b)
{
    for (int i = 0; i < 2; i++) {
        char *key = rg__record_key(
            KEYS, RG__KEY(SUSPICION, i == 0 ? a : b, NULL, i == 0 ? b : a));
        char *text = rg__suspicion_text(false);
        CHECK(key != NULL && text != NULL);
        etcd_server_put(server, key, text);
        free(key);
        free(text);
    }
}

/* It has told etcd that it does not hear the leader, and misses no other host.
 */
static void accuse_leader(rg__agent *a)
{
    rg__beat_follow(a);
    for (int i = 0; i < rg__beat_peers(a); i++) {
        rg__peer *one = rg__beat_peer(a, i);
        one->is_expected = false;
        one->is_accused = one->is_written = one->id == LEADER;
        one->accused_ns = rg__now_ns();
    }
}

/* Does it depose the leader within a second? */
static bool deposes(etcd_server *server)
{
    scene s;
    bool has_deposed = false;
    scene_open(&s, etcd_server_url(server));
    rg__agent *a = keys_open_agent(&s, ME);
    a->port = 0; /* of UDP; any */
    CHECK_OK(rg__beat_open(a));
    accuse_leader(a);
    const uint64_t end = rg__now_ns() + 10 * DETECT_MS * RG__MS;
    while (rg__now_ns() < end && !has_deposed) {
        rg__suspect_look(a);
        scene_run_for(&s, 10);
        has_deposed = scene_get(&s, KEYS "all/leader").kv_count == 0;
    }
    CHECK(a->suspects->accused != NULL); /* it has judged */
    if (a->suspects->deposing != NULL)
        rg__etcd_cancel(a->suspects->deposing);
    rg__beat_close(a);
    keys_close_agent(a);
    scene_close(&s);
    return has_deposed;
}

int main(void)
{
    etcd_server *server = etcd_server_start();
    put_world(server);
    for (uint64_t id = LEADER + 1; id <= HOSTS; id++)
        part(server, LEADER, id);
    CHECK(deposes(server));
    keys_put_leader(server, LEADER);
    for (uint64_t id = ME + 1; id <= HOSTS; id++)
        part(server, ME, id);
    CHECK(!deposes(server));
    etcd_server_stop(server);
    return 0;
}
