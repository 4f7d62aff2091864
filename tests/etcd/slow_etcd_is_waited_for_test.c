/* An etcd that takes longer than a time limit is not asked the same again and
 * again: the limit doubles until an answer comes in time, and shrinks with
 * quick answers, which don't hide that a longer limit has passed as well. With
 * two endpoints both have to be late, and then the limit stays below 2 s.
 *
 * Covers: health.c etcd_request.c */
#include "elastic/etcd/client.h"
#include "tests/etcd/fake.h"
#include "tests/etcd/scene.h"

#define SLOW_MS 1500 /* more than a limit of 1 s, less than one of 2 s */

/* One request at a time is answered, takes_ms after it came. */
typedef struct server {
    fake *fake;
    fake_conn *conn; /* that waits; NULL: none, or it was given up */
    uint64_t came_ns, takes_ms;
    int asked;
} server;

static void on_request(void *arg, fake_conn *conn, const char *path,
                       const char *body)
{
    server *e = arg;
    (void)path, (void)body;
    e->conn = conn;
    e->came_ns = rg__now_ns();
    e->asked++;
}

static void turn(scene *s, server *e)
{
    scene_turn(s);
    if (fake_connected(e->fake) == 0)
        e->conn = NULL;
    if (e->conn == NULL || rg__now_ns() < e->came_ns + e->takes_ms * RG__MS)
        return;
    fake_answer(e->conn, 200, "application/json",
                "{\"header\":{\"revision\":\"7\"},\"succeeded\":true}");
    e->conn = NULL;
}

static void ask(scene *s, outcome *o)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_get(txn, RG__THEN, "s/x", NULL);
    CHECK(rg__etcd_txn(s->etcd, txn, outcome_take, o) != NULL);
}

/* How often it was sent, until it was answered. */
static int sendings(scene *s, server *e, uint64_t takes_ms)
{
    outcome o = {0};
    const uint64_t end = rg__now_ns() + PATIENCE_MS * RG__MS;
    e->takes_ms = takes_ms;
    ask(s, &o);
    while (!o.is_done) {
        turn(s, e);
        if (rg__now_ns() > end)
            CHECK_FAIL("no answer in %d sendings", e->asked);
    }
    CHECK_OK(o.st);
    return o.sendings;
}

/* From one sending to the next, of an etcd that answers nothing. */
static uint64_t limit_ms(scene *s, server *e)
{
    outcome o = {0};
    const int asked = e->asked;
    e->takes_ms = PATIENCE_MS;
    ask(s, &o);
    while (e->asked == asked)
        turn(s, e);
    const uint64_t first_ns = e->came_ns;
    while (e->asked == asked + 1)
        turn(s, e);
    e->takes_ms = 0;
    while (!o.is_done)
        turn(s, e);
    CHECK_EQ(o.sendings, 2);
    return (e->came_ns - first_ns) / RG__MS;
}

static void two_endpoints(void)
{
    scene s;
    server e = {0};
    char urls[256];
    scene_open_loop(&s);
    e.fake = fake_open(s.loop, on_request, &e);
    snprintf(urls, sizeof urls, "%s,%s", fake_url(e.fake), fake_url(e.fake));
    scene_connect(&s, urls, NULL, NULL);
    CHECK_EQ(sendings(&s, &e, SLOW_MS), 3); /* both late, then 2 s */
    rg__etcd_was_slow(s.etcd, s.etcd->doublings);
    CHECK_EQ(rg__etcd_limit_ms(s.etcd, RG__ETCD_UNARY_MS, RG__ETCD_SLOW_MS),
             2000);
    rg__etcd_destroy(s.etcd);
    s.etcd = NULL;
    fake_close(e.fake);
    scene_close(&s);
}

int main(void)
{
    scene s;
    server e = {0};
    scene_open_loop(&s);
    e.fake = fake_open(s.loop, on_request, &e);
    scene_connect(&s, fake_url(e.fake), NULL, NULL);
    CHECK_EQ(sendings(&s, &e, SLOW_MS), 2);
    CHECK_EQ(sendings(&s, &e, SLOW_MS), 1); /* it has learned */
    for (int i = 0; i < 3; i++)
        CHECK_EQ(sendings(&s, &e, 0), 1);
    CHECK(limit_ms(&s, &e) < SLOW_MS); /* a second again */
    s.etcd->doublings = 0;
    rg__etcd_was_slow(s.etcd, 1); /* sent before quick answers of others */
    CHECK_EQ(s.etcd->doublings, 2);
    rg__etcd_was_slow(s.etcd, 1); /* another one that was sent with it */
    CHECK_EQ(s.etcd->doublings, 2);
    rg__etcd_destroy(s.etcd);
    s.etcd = NULL;
    fake_close(e.fake);
    scene_close(&s);
    two_endpoints();
    return 0;
}
