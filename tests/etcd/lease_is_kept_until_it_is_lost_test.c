/* Leases against a real etcd: kept past their TTL, lost when etcd no longer
 * knows them (which it says with HTTP 200, trap 4), granted again under the
 * same id, and revoked at the end.
 *
 * Covers: lease.c */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/etcd/fake.h"
#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

typedef struct told {
    int held, lost;
} told;

static void on_lease(void *arg, rg__lease_event event)
{
    told *t = arg;
    t->held += event == RG__LEASE_HELD;
    t->lost += event == RG__LEASE_LOST;
}

static bool says(const etcd_server *server, int64_t id, const char *words)
{
    char body[64], reply[512] = "";
    snprintf(body, sizeof body, "{\"ID\":\"%lld\"}", (long long)id);
    CHECK_EQ(etcd_server_post(server, "/v3/lease/timetolive", body, reply,
                              sizeof reply),
             200);
    return strstr(reply, words) != NULL;
}

static bool is_known(const etcd_server *server, int64_t id)
{
    return !says(server, id, "\"TTL\":\"-1\"");
}

static void revoke_behind_its_back(const etcd_server *server, int64_t id)
{
    char body[64];
    snprintf(body, sizeof body, "{\"ID\":\"%lld\"}", (long long)id);
    CHECK_EQ(etcd_server_post(server, "/v3/lease/revoke", body, NULL, 0), 200);
}

/* A lease in the background, looked at again when several TTLs are over. */
typedef struct background {
    told t;
    rg__lease *lease;
    uint64_t since_ns;
} background;

static void hold_in_background(scene *s, background *b)
{
    CHECK_OK(rg__lease_create(s->etcd, 3, on_lease, &b->t, &b->lease));
    CHECK(rg__lease_id(b->lease) > 0);
    CHECK_EQ(b->t.held, 0); /* never from inside the call */
    WAIT_FOR(s, b->t.held == 1);
    scene_put(s, "l/kept", "v", rg__lease_id(b->lease));
    b->since_ns = rg__now_ns();
}

static void kept_past_its_ttl(scene *s, background *b,
                              const etcd_server *server)
{
    const int64_t id = rg__lease_id(b->lease);
    /* An expiry comes half a second late at most. */
    WAIT_FOR(s, rg__now_ns() - b->since_ns > 4200 * RG__MS);
    CHECK_EQ(b->t.held, 1);
    CHECK_EQ(b->t.lost, 0);
    CHECK_EQ(scene_get(s, "l/kept").lease, id);
    rg__lease_destroy(b->lease);
    WAIT_FOR(s, !is_known(server, id));
    CHECK_EQ(scene_get(s, "l/kept").kv_count, 0);
}

static void loss_is_told_and_repaired(scene *s, const etcd_server *server)
{
    told t = {0};
    rg__lease *lease = NULL;
    CHECK_OK(rg__lease_create(s->etcd, 2, on_lease, &t, &lease));
    const int64_t id = rg__lease_id(lease);
    WAIT_FOR(s, t.held == 1);
    scene_put(s, "l/lost", "v", id);
    rg__lease_ask(lease, 7);
    revoke_behind_its_back(server, id);
    WAIT_FOR(s, t.lost == 1);
    CHECK_EQ(scene_get(s, "l/lost").kv_count, 0);
    WAIT_FOR(s, t.held == 2);
    CHECK_EQ(rg__lease_id(lease), id);
    CHECK(says(server, id, "\"grantedTTL\":\"7\""));
    rg__lease_destroy(lease);
}

/* The grant's reply is lost: "already exists" then means held. */
static void unknown_grant_is_held(const etcd_server *server)
{
    scene s;
    told t = {0};
    rg__lease *lease = NULL;
    scene_open_loop(&s);
    proxy *p = proxy_open(s.loop, etcd_server_url(server));
    scene_connect(&s, proxy_url(p), NULL, NULL);
    proxy_set(p, PROXY_DROP_REPLY);
    CHECK_OK(rg__lease_create(s.etcd, 60, on_lease, &t, &lease));
    WAIT_FOR(&s, t.held == 1);
    CHECK_EQ(proxy_dropped(p), 1);
    CHECK(is_known(server, rg__lease_id(lease)));
    rg__etcd_destroy(s.etcd); /* takes the keeper with it, not the lease */
    s.etcd = NULL;
    proxy_close(p);
    scene_close(&s);
}

static void last_word_is_still_said(const etcd_server *server)
{
    scene s;
    told t = {0};
    rg__lease *lease = NULL;
    scene_open(&s, etcd_server_url(server));
    CHECK_OK(rg__lease_create(s.etcd, 60, on_lease, &t, &lease));
    WAIT_FOR(&s, t.held == 1);
    const int64_t id = rg__lease_id(lease);
    rg__lease_destroy(lease);
    scene_close(&s); /* at once */
    CHECK(!is_known(server, id));
}

/* Stands still for half a second; a byte comes when that is over. */
static pid_t stall(etcd_server *server, int *over)
{
    int ends[2];
    etcd_server_pause(server);
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(500 * 1000);
        const bool is_written = write(ends[1], "", 1) == 1;
        kill(etcd_server_pid(server), SIGCONT);
        _exit(is_written ? 0 : 1);
    }
    close(ends[1]);
    *over = ends[0];
    return child;
}

/* A busy etcd gets as long to revoke as for any request, a second. False: the
 * machine was so busy that it stood still for as long. */
static bool last_word_waits_for_a_slow_store(etcd_server *server)
{
    scene s;
    told t = {0};
    char byte = 1;
    int over = -1, status = -1;
    rg__lease *lease = NULL;
    scene_open(&s, etcd_server_url(server));
    CHECK_OK(rg__lease_create(s.etcd, 60, on_lease, &t, &lease));
    WAIT_FOR(&s, t.held == 1);
    const int64_t id = rg__lease_id(lease);
    const uint64_t began_ns = rg__now_ns();
    const pid_t child = stall(server, &over);
    rg__lease_destroy(lease);
    scene_close(&s);
    const bool is_quick = rg__now_ns() - began_ns < 900 * RG__MS;
    CHECK(!is_quick || read(over, &byte, 1) == 1);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    close(over);
    const bool is_revoked = !is_known(server, id);
    CHECK(is_revoked || !is_quick);
    return is_revoked;
}

/* etcd gone for longer than the TTL: nothing is told, and a restart gives the
 * lease its whole TTL again. */
static void outage_is_no_loss(etcd_server *server)
{
    scene s;
    told t = {0};
    rg__lease *lease = NULL;
    scene_open(&s, etcd_server_url(server));
    CHECK_OK(rg__lease_create(s.etcd, 2, on_lease, &t, &lease));
    WAIT_FOR(&s, t.held == 1);
    etcd_server_kill(server);
    scene_run_for(&s, 2500);
    CHECK(!rg__etcd_is_up(s.etcd));
    etcd_server_restart(server);
    WAIT_FOR(&s, rg__etcd_is_up(s.etcd));
    scene_run_for(&s, 800); /* more than one keepalive */
    CHECK_EQ(t.lost, 0);
    CHECK_EQ(t.held, 1);
    CHECK(is_known(server, rg__lease_id(lease)));
    rg__lease_destroy(lease);
    scene_close(&s);
}

/* Grants a lease, and is silent to what keeps it for longer than the third of a
 * TTL in which the next question would be due. */
typedef struct slow {
    uint64_t asked_ns; /* first */
    int answered;
} slow;

static void answer_slowly(void *arg, fake_conn *conn, const char *path,
                          const char *body)
{
    slow *server = arg;
    char id[32] = "", reply[128];
    CHECK_EQ(sscanf(body, "{\"ID\":\"%31[0-9]", id), 1);
    const bool is_grant = strcmp(path, "/v3/lease/grant") == 0;
    if (!is_grant && server->asked_ns == 0)
        server->asked_ns = rg__now_ns();
    if (!is_grant && rg__now_ns() - server->asked_ns < 400 * RG__MS)
        return;
    server->answered += !is_grant;
    snprintf(reply, sizeof reply,
             is_grant ? "{\"ID\":\"%s\",\"TTL\":\"1\"}"
                      : "{\"result\":{\"ID\":\"%s\",\"TTL\":\"1\"}}",
             id);
    fake_answer(conn, 200, "application/json", reply);
}

static void slow_answer_is_followed_by_the_next(void)
{
    scene s;
    told t = {0};
    slow server = {0};
    rg__lease *lease = NULL;
    scene_open_loop(&s);
    fake *f = fake_open(s.loop, answer_slowly, &server);
    scene_connect(&s, fake_url(f), NULL, NULL);
    CHECK_OK(rg__lease_create(s.etcd, 1, on_lease, &t, &lease));
    WAIT_FOR(&s, server.answered == 3);
    CHECK_EQ(t.held, 1);
    CHECK_EQ(t.lost, 0);
    rg__etcd_destroy(s.etcd); /* takes the keeper with it */
    s.etcd = NULL;
    fake_close(f);
    scene_close(&s);
}

static void nonsense_is_refused(scene *s)
{
    rg__lease *lease = NULL;
    CHECK_STATUS(rg__lease_create(s->etcd, 0, NULL, NULL, &lease),
                 RG_ERR_INVALID);
}

int main(void)
{
    scene s;
    background b = {0};
    etcd_server *server = etcd_server_start();
    scene_open(&s, etcd_server_url(server));
    hold_in_background(&s, &b);
    loss_is_told_and_repaired(&s, server);
    nonsense_is_refused(&s);
    kept_past_its_ttl(&s, &b, server);
    scene_close(&s);
    unknown_grant_is_held(server);
    last_word_is_still_said(server);
    for (int i = 0; !last_word_waits_for_a_slow_store(server); i++)
        CHECK(i < 10);
    outage_is_no_loss(server);
    slow_answer_is_followed_by_the_next();
    etcd_server_stop(server);
    return 0;
}
