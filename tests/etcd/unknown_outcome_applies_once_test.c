/* A transaction whose reply is lost, or that arrives after its sender has given
 * up: it is sent again, at most one sending applies, and the failure branch
 * says that it was ours. A proxy stands between the client and a real etcd.
 *
 * Covers: kv.c mirrored.c */
#include "tests/etcd/fake.h"
#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

/* IF key was last changed at revision THEN key = op ELSE what is it? */
static rg__txn *guarded(const char *key, int64_t revision, const char *op)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_if_mod(txn, key, revision);
    rg__txn_put(txn, key, op, 0);
    rg__txn_get(txn, RG__ELSE, key, NULL);
    return txn;
}

/* The connection stands already: curl sends again by itself then, and that
 * must be counted. */
static void lost_reply_is_asked_for_again(scene *s, proxy *p)
{
    scene_get(s, "warm");
    proxy_set(p, PROXY_DROP_REPLY);
    const outcome o = scene_txn(s, guarded("u/lost", 0, "op-1"));
    CHECK_OK(o.st);
    CHECK_EQ(proxy_dropped(p), 1);
    CHECK_EQ(o.sendings, 2);
    CHECK(!o.succeeded);        /* the first sending had won ... */
    CHECK_STR(o.value, "op-1"); /* ... and it is ours */
    CHECK_EQ(o.mod_revision, o.create_revision);
}

/* Forgotten: no answer comes, though one was on its way. */
static void cancelled_request_is_silent(scene *s)
{
    outcome o = {0};
    rg__etcd_req *req = rg__etcd_txn(s->etcd, guarded("u/cancelled", 0, "op"),
                                     outcome_take, &o);
    CHECK(req != NULL);
    rg__etcd_cancel(req);
    scene_get(s, "after");
    CHECK(!o.is_done);
}

/* Given up once and sent again; then both arrive, the late one first. */
static void late_request_may_win(scene *s, proxy *p)
{
    outcome o = {0};
    proxy_set(p, PROXY_HOLD);
    CHECK(rg__etcd_txn(s->etcd, guarded("u/first", 0, "op-3"), outcome_take,
                       &o) != NULL);
    WAIT_FOR(s, proxy_held(p) == 2);
    proxy_set(p, PROXY_PASS);
    WAIT_FOR(s, o.is_done);
    CHECK_EQ(o.sendings, 2);
    const outcome now = scene_get(s, "u/first");
    CHECK_STR(now.value, "op-3");
    CHECK_EQ(now.mod_revision, now.create_revision);
}

/* The first sending waits in the proxy until its sender has given up and a
 * second one has applied; then it arrives. */
static void late_request_finds_the_door_closed(scene *s, proxy *p)
{
    outcome o = {0};
    proxy_set(p, PROXY_HOLD);
    CHECK(rg__etcd_txn(s->etcd, guarded("u/late", 0, "op-2"), outcome_take,
                       &o) != NULL);
    WAIT_FOR(s, o.is_done); /* through the other endpoint */
    CHECK(o.succeeded);
    CHECK_EQ(o.sendings, 2);
    CHECK_EQ(proxy_held(p), 1);
    proxy_set(p, PROXY_PASS);
    WAIT_FOR(s, proxy_answered_none(p) == 1);
    const outcome now = scene_get(s, "u/late");
    CHECK_STR(now.value, "op-2");
    CHECK_EQ(now.mod_revision, o.revision);
}

int main(void)
{
    char both[160];
    scene s;
    etcd_server *server = etcd_server_start();
    scene_open_loop(&s);
    proxy *p = proxy_open(s.loop, etcd_server_url(server));
    scene_connect(&s, proxy_url(p), NULL, NULL);
    lost_reply_is_asked_for_again(&s, p);
    cancelled_request_is_silent(&s);
    late_request_may_win(&s, p);
    rg__etcd_destroy(s.etcd);
    snprintf(both, sizeof both, "%s,%s", proxy_url(p), etcd_server_url(server));
    scene_connect(&s, both, NULL, NULL);
    late_request_finds_the_door_closed(&s, p);
    proxy_close(p);
    scene_close(&s);
    etcd_server_stop(server);
    return 0;
}
