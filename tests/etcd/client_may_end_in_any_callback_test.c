/* Destroying the client, or the object that calls, from inside each callback:
 * an agent that learns there that it must end does so. Most useful under
 * AddressSanitizer.
 *
 * Covers: loop.c */
#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

typedef struct ender {
    scene s;
    bool has_ended;
    rg__lease *lease;
    rg__mirror *mirror;
    rg__etcd_req *reqs[5];
} ender;

static void end_client(ender *e)
{
    CHECK(!e->has_ended);
    e->has_ended = true;
    rg__etcd_destroy(e->s.etcd);
    e->s.etcd = NULL;
}

static void open_ender(ender *e, const char *url)
{
    *e = (ender){0};
    scene_open(&e->s, url);
}

static void finish(ender *e)
{
    WAIT_FOR(&e->s, e->has_ended);
    scene_run_for(&e->s, 20); /* nothing comes after the end */
    scene_close(&e->s);
}

static rg__txn *some_get(void)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_get(txn, RG__THEN, "m/x", NULL);
    return txn;
}

static void end_in_txn(void *arg, rg_status st, const rg__txn_reply *reply)
{
    ender *e = arg;
    CHECK_OK(st);
    for (int i = 0; i < 4; i++) /* perhaps the one that is over, too */
        rg__etcd_cancel(e->reqs[i]);
    end_client(e);
    CHECK_EQ(reply->kv_count, 1); /* borrowed until fn returns */
    CHECK_STR(reply->kv[0].value, "v");
}

static void in_a_transaction(const char *url)
{
    ender e;
    open_ender(&e, url);
    for (int i = 0; i < 5; i++)
        e.reqs[i] = rg__etcd_txn(e.s.etcd, some_get(), end_in_txn, &e);
    finish(&e);
}

static void end_in_lease(void *arg, rg__lease_event event)
{
    CHECK_EQ(event, RG__LEASE_HELD);
    end_client(arg);
}

static void drop_lease(void *arg, rg__lease_event event)
{
    ender *e = arg;
    CHECK_EQ(event, RG__LEASE_HELD);
    rg__lease_destroy(e->lease);
    e->has_ended = true;
}

static void in_a_lease(const char *url)
{
    static const rg__lease_fn fns[] = {end_in_lease, drop_lease};
    for (int i = 0; i < 2; i++) {
        ender e;
        open_ender(&e, url);
        CHECK_OK(rg__lease_create(e.s.etcd, 60, fns[i], &e, &e.lease));
        finish(&e);
    }
}

/* How many changes come before the end: 1: at the list, 2: at an event. */
static int changes_left;

static void end_in_mirror(void *arg, int64_t revision, bool wiped)
{
    CHECK(revision > 0 && !wiped);
    if (--changes_left == 0)
        end_client(arg);
}

static void drop_mirror(void *arg, int64_t revision, bool wiped)
{
    ender *e = arg;
    CHECK(revision > 0 && !wiped);
    if (--changes_left > 0)
        return;
    rg__mirror_destroy(e->mirror);
    e->has_ended = true;
}

static void in_a_mirror(const char *url, const etcd_server *server, int changes,
                        rg__mirror_fn fn)
{
    ender e;
    open_ender(&e, url);
    changes_left = changes;
    CHECK_OK(rg__mirror_create(e.s.etcd, "m/", "m0", NULL, fn, &e, &e.mirror));
    if (changes > 1) {
        WAIT_FOR(&e.s, changes_left == 1);
        etcd_server_put(server, "m/x", "v");
    }
    finish(&e);
}

static void end_in_state(void *arg, bool up, const char *why)
{
    CHECK(!up && strlen(why) > 0);
    end_client(arg);
}

static void in_a_change_of_state(void)
{
    ender e = {0};
    const rg__etcd_params params = {
        .endpoints = "http://127.0.0.1:1", .on_state = end_in_state, .arg = &e};
    scene_open_loop(&e.s);
    CHECK_OK(rg__etcd_create(e.s.loop, &params, &e.s.etcd));
    CHECK(rg__etcd_txn(e.s.etcd, some_get(), end_in_txn, &e) != NULL);
    finish(&e);
}

int main(void)
{
    etcd_server *server = etcd_server_start();
    const char *url = etcd_server_url(server);
    etcd_server_put(server, "m/x", "v");
    in_a_transaction(url);
    in_a_lease(url);
    for (int changes = 1; changes <= 2; changes++) {
        in_a_mirror(url, server, changes, end_in_mirror);
        in_a_mirror(url, server, changes, drop_mirror);
    }
    in_a_change_of_state();
    rg__etcd_destroy(NULL);
    rg__etcd_cancel(NULL);
    rg__lease_destroy(NULL);
    rg__mirror_destroy(NULL);
    etcd_server_stop(server);
    return 0;
}
