/* An agent that accuses the leader deletes the leader's key once the
 * accusations are confirmed, but not if the job goes on without that agent's
 * own host as well. It reads them when its own is written, not with a later
 * look. If it leads then, it does not wait for those to be confirmed that it
 * has seen for long enough, except one that was withdrawn and made again. A
 * reply that comes late deposes nobody: they may have been withdrawn since. One
 * whose agent accuses no host any more, as it says in its heartbeats, does not
 * count, whatever etcd says.
 *
 * Covers: suspect.c */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/hosts/beat_wire.h"
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

static void accuse_in_etcd(etcd_server *server, uint64_t host, uint64_t by)
{
    char *key = rg__record_key(KEYS, RG__KEY(SUSPICION, host, NULL, by));
    char *text = rg__suspicion_text(false);
    CHECK(key != NULL && text != NULL);
    etcd_server_put(server, key, text);
    free(key);
    free(text);
}

/* Neither hears the other. */
static void part(etcd_server *server, uint64_t a, uint64_t b)
{
    accuse_in_etcd(server, a, b);
    accuse_in_etcd(server, b, a);
}

/* It misses the leader, and no other host. */
static void accuse_leader(rg__agent *a, bool is_written)
{
    rg__beat_follow(a);
    for (int i = 0; i < rg__beat_peers(a); i++) {
        rg__peer *one = rg__beat_peer(a, i);
        one->is_expected = false;
        one->is_accused = one->id == LEADER;
        one->is_written = one->is_accused && is_written;
        one->accused_ns = rg__now_ns();
    }
}

static rg__agent *open_accuser(scene *s, etcd_server *server, bool is_written)
{
    scene_open(s, etcd_server_url(server));
    rg__agent *a = keys_open_agent(s, ME);
    a->port = 0; /* of UDP; any */
    CHECK_OK(rg__beat_open(a));
    accuse_leader(a, is_written);
    return a;
}

static void close_accuser(scene *s, rg__agent *a)
{
    if (a->suspects->deposing != NULL)
        rg__etcd_cancel(a->suspects->deposing);
    rg__beat_close(a);
    keys_close_agent(a);
    scene_close(s);
}

static bool is_leaderless(scene *s)
{
    return scene_get(s, KEYS "all/leader").kv_count == 0;
}

/* Does it depose the leader within so many budgets? */
static bool deposes(etcd_server *server, uint64_t budgets)
{
    scene s;
    bool has_deposed = false;
    rg__agent *a = open_accuser(&s, server, true);
    const uint64_t end = rg__now_ns() + budgets * DETECT_MS * RG__MS;
    while (rg__now_ns() < end && !has_deposed) {
        rg__suspect_look(a);
        scene_run_for(&s, 10);
        has_deposed = is_leaderless(&s);
    }
    CHECK(a->suspects->accused != NULL); /* it has judged */
    close_accuser(&s, a);
    return has_deposed;
}

static bool is_lost_now(rg__agent *a)
{
    uint64_t lost[HOSTS], again_ns;
    CHECK_OK(rg__view_read(a, a->leader->whole, &a->known));
    rg__suspect_note(a, &a->known);
    const int n = rg__suspect_lost(a, lost, HOSTS, &again_ns);
    return rg__is_among(LEADER, lost, n);
}

static bool knows_all(const rg__agent *a)
{
    return a->suspects->accusations == HOSTS - 1;
}

static uint64_t enough_ns(const rg__agent *a)
{
    return rg__budget_ns(a->params) * 3 / 10; /* one and a half rounds */
}

/* All say it once more. False if the machine was too slow: the last accusation
 * has stood for long enough since then, or the first for two budgets, which
 * shows nothing. */
static bool stand_since_then(scene *s, etcd_server *server, rg__agent *a)
{
    const uint64_t first_ns = rg__now_ns();
    uint64_t last_ns = first_ns;
    for (uint64_t by = ME; by <= HOSTS; by++) {
        last_ns = rg__now_ns();
        accuse_in_etcd(server, LEADER, by);
    }
    const int64_t revision = scene_get(s, KEYS "all/cur").revision;
    WAIT_FOR(s, rg__mirror_revision(a->leader->whole) >= revision);
    const bool is_lost = is_lost_now(a);
    const uint64_t now = rg__now_ns();
    const bool is_early = now < last_ns + enough_ns(a) &&
                          now < first_ns + 2 * rg__budget_ns(a->params);
    CHECK(!is_early || !is_lost);
    return is_early;
}

/* One look that writes its own accusation, the last; no other look follows. */
static void deposes_with_one_look(etcd_server *server)
{
    scene s;
    rg__agent *a = open_accuser(&s, server, false);
    rg__suspect_look(a);
    WAIT_FOR(&s, knows_all(a));
    WAIT_FOR(&s, is_leaderless(&s));
    CHECK(is_lost_now(a)); /* and as a leader it knows that at once */
    while (!stand_since_then(&s, server, a))
        continue;
    close_accuser(&s, a);
}

static void withdraw_in_etcd(etcd_server *server, uint64_t by)
{
    char *key = rg__record_key(KEYS, RG__KEY(SUSPICION, LEADER, NULL, by));
    char *text = rg__suspicion_text(true);
    CHECK(key != NULL && text != NULL);
    etcd_server_put(server, key, text);
    free(key);
    free(text);
}

static void all_withdraw(etcd_server *server)
{
    for (uint64_t by = ME; by <= HOSTS; by++)
        withdraw_in_etcd(server, by);
}

/* Did it ask before any of the others had accused for long enough? */
static bool has_asked_early(const rg__agent *a)
{
    for (int i = 0; i < a->suspects->accusations; i++) {
        const rg__suspicion *one = &a->suspects->accused[i];
        if (a->suspects->asked_ns >= one->since_ns + enough_ns(a))
            return false;
    }
    return true;
}

/* While its reply waits in the socket, the agent stands still, and the others
 * withdraw; at the time of asking they had not stood for long enough. False if
 * the machine was so slow that they had: that shows nothing. */
static bool late_reply_deposes_nobody(etcd_server *server)
{
    scene s;
    rg__agent *a = open_accuser(&s, server, true);
    rg__suspect_look(a);
    WAIT_FOR(&s, a->suspects->accused != NULL);
    const uint64_t seen_ns = rg__now_ns();
    do {
        rg__suspect_look(a);
        scene_turn(&s);
    } while (a->suspects->deposing == NULL);
    const bool is_early = has_asked_early(a);
    while (rg__now_ns() < seen_ns + DETECT_MS * RG__MS)
        continue;
    all_withdraw(server);
    scene_run_for(&s, 5 * DETECT_MS);
    CHECK(!is_early || !is_leaderless(&s));
    close_accuser(&s, a);
    return is_early;
}

static void all_accuse(etcd_server *server)
{
    keys_put_leader(server, LEADER);
    for (uint64_t by = ME + 1; by <= HOSTS; by++)
        accuse_in_etcd(server, LEADER, by);
}

/* The agents of all other hosts beat; counters rise. */
static void all_say(rg__agent *a, bool accuse)
{
    static uint64_t counter;
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)a->port),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int sock = socket(AF_INET, SOCK_DGRAM, 0);
    uint8_t bytes[RG__BEAT_BYTES];
    CHECK(sock >= 0);
    for (uint64_t by = ME + 1; by <= HOSTS; by++) {
        const rg__beat beat = {.type = RG__BEAT,
                               .from = by,
                               .to = a->id,
                               .counter = ++counter,
                               .accuses = accuse};
        CHECK_EQ(sendto(sock, bytes, rg__beat_write(bytes, a->key, &beat), 0,
                        (const struct sockaddr *)&to, sizeof to),
                 (ssize_t)sizeof bytes);
    }
    close(sock);
}

/* What they accused before is still there. */
static void taken_back_is_not_counted(etcd_server *server)
{
    scene s;
    rg__agent *a = open_accuser(&s, server, true);
    WAIT_FOR(&s, is_lost_now(a));
    all_say(a, false);
    WAIT_FOR(&s, !is_lost_now(a));
    scene_run_for(&s, 2 * DETECT_MS);
    CHECK(!is_lost_now(a));
    all_say(a, true);
    WAIT_FOR(&s, is_lost_now(a));
    close_accuser(&s, a);
}

int main(void)
{
    etcd_server *server = etcd_server_start();
    put_world(server);
    all_accuse(server);
    taken_back_is_not_counted(server);
    deposes_with_one_look(server);
    do {
        all_accuse(server);
    } while (!late_reply_deposes_nobody(server));
    for (uint64_t id = LEADER + 1; id <= HOSTS; id++)
        part(server, LEADER, id);
    CHECK(deposes(server, 600));
    keys_put_leader(server, LEADER);
    for (uint64_t id = ME + 1; id <= HOSTS; id++)
        part(server, ME, id);
    CHECK(!deposes(server, 10));
    etcd_server_stop(server);
    return 0;
}
