/* One connection for each request under way (trap 8: on one, the gateway would
 * answer the second only after the first), used again afterwards; cancelling
 * one closes its connection, which is the only cancel there is. And requests
 * made from inside an answer, where curl would refuse them silently (trap 16).
 *
 * Covers: http.c */
#include "tests/etcd/fake.h"
#include "tests/etcd/scene.h"

typedef struct desk {
    fake_conn *kept; /* a request that is left lying */
    int served;
    bool keeps_next;
} desk;

static const char reply[] =
    "{\"header\":{\"revision\":\"1\"},\"succeeded\":true}";

static void on_request(void *arg, fake_conn *conn, const char *path,
                       const char *body)
{
    desk *d = arg;
    (void)path, (void)body;
    if (d->keeps_next) {
        d->kept = conn;
        d->keeps_next = false;
        return;
    }
    d->served++;
    fake_answer(conn, 200, "application/json", reply);
}

static rg__txn *some_get(void)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_get(txn, RG__THEN, "x", NULL);
    return txn;
}

static void quick_ones_pass_a_slow_one(scene *s, desk *d, fake *f)
{
    outcome slow = {0};
    d->keeps_next = true;
    CHECK(rg__etcd_txn(s->etcd, some_get(), outcome_take, &slow) != NULL);
    WAIT_FOR(s, d->kept != NULL);
    for (int i = 0; i < 20; i++)
        CHECK_OK(scene_txn(s, some_get()).st);
    CHECK(!slow.is_done);
    CHECK_EQ(fake_accepted(f), 2); /* one for the slow, one for the others */
    fake_answer(d->kept, 200, "application/json", reply);
    WAIT_FOR(s, slow.is_done);
    CHECK_EQ(slow.sendings, 1);
    CHECK_EQ(fake_connected(f), 2); /* kept for later */
}

static void cancel_closes_the_connection(scene *s, desk *d, fake *f)
{
    outcome o = {0};
    const int before = fake_connected(f);
    d->kept = NULL;
    d->keeps_next = true;
    rg__etcd_req *req = rg__etcd_txn(s->etcd, some_get(), outcome_take, &o);
    WAIT_FOR(s, d->kept != NULL);
    rg__etcd_cancel(req);
    WAIT_FOR(s, fake_connected(f) == before - 1);
    CHECK(!o.is_done);
}

typedef struct chain {
    scene *s;
    int left;
} chain;

static void ask_the_next(void *arg, rg_status st, const rg__txn_reply *r)
{
    chain *c = arg;
    CHECK_OK(st);
    CHECK(r->succeeded);
    c->left--;
    if (c->left > 0)
        CHECK(rg__etcd_txn(c->s->etcd, some_get(), ask_the_next, c) != NULL);
}

static void answers_may_ask(scene *s, desk *d)
{
    chain c = {.s = s, .left = 50};
    const int before = d->served;
    CHECK(rg__etcd_txn(s->etcd, some_get(), ask_the_next, &c) != NULL);
    WAIT_FOR(s, c.left == 0);
    CHECK_EQ(d->served, before + 50);
}

int main(void)
{
    scene s;
    desk d = {0};
    scene_open_loop(&s);
    fake *f = fake_open(s.loop, on_request, &d);
    scene_connect(&s, fake_url(f), NULL, NULL);
    quick_ones_pass_a_slow_one(&s, &d, f);
    cancel_closes_the_connection(&s, &d, f);
    answers_may_ask(&s, &d);
    rg__etcd_destroy(s.etcd);
    s.etcd = NULL;
    scene_run_for(&s, 5);
    CHECK_EQ(fake_connected(f), 0);
    fake_close(f);
    scene_close(&s);
    return 0;
}
