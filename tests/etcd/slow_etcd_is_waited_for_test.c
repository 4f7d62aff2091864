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
#define MOST_NS (300 * RG__MS) /* of a turn, or the machine is too busy */
#define TRIES   10

static uint64_t longest_ns; /* turn */

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
    const uint64_t begin = rg__now_ns();
    scene_turn(s);
    if (rg__now_ns() - begin > longest_ns)
        longest_ns = rg__now_ns() - begin;
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
    CHECK(o.sendings == 2 || longest_ns > MOST_NS);
    return (e->came_ns - first_ns) / RG__MS;
}

static void begin(scene *s, server *e, int endpoints)
{
    char urls[256];
    *e = (server){0};
    longest_ns = 0;
    scene_open_loop(s);
    e->fake = fake_open(s->loop, on_request, e);
    const char *url = fake_url(e->fake);
    snprintf(urls, sizeof urls, endpoints > 1 ? "%s,%s" : "%s", url, url);
    scene_connect(s, urls, NULL, NULL);
}

/* False: it shows nothing, since the machine was too busy. */
static bool end(scene *s, server *e)
{
    rg__etcd_destroy(s->etcd);
    s->etcd = NULL;
    fake_close(e->fake);
    scene_close(s);
    return longest_ns <= MOST_NS;
}

static bool one_endpoint(void)
{
    scene s;
    server e;
    int quick = 0;
    begin(&s, &e, 1);
    const int first = sendings(&s, &e, SLOW_MS);
    const int second = sendings(&s, &e, SLOW_MS);
    for (int i = 0; i < 3; i++)
        quick += sendings(&s, &e, 0);
    const uint64_t ms = limit_ms(&s, &e);
    if (longest_ns <= MOST_NS) {
        CHECK_EQ(first, 2);
        CHECK_EQ(second, 1); /* it has learned */
        CHECK_EQ(quick, 3);
        CHECK(ms < SLOW_MS); /* a second again */
    }
    s.etcd->doublings = 0;
    rg__etcd_was_slow(s.etcd, 1); /* sent before quick answers of others */
    CHECK_EQ(s.etcd->doublings, 2);
    rg__etcd_was_slow(s.etcd, 1); /* another one that was sent with it */
    CHECK_EQ(s.etcd->doublings, 2);
    return end(&s, &e);
}

static bool two_endpoints(void)
{
    scene s;
    server e;
    begin(&s, &e, 2);
    const int all = sendings(&s, &e, SLOW_MS);
    CHECK(all == 3 || longest_ns > MOST_NS); /* both late, then 2 s */
    rg__etcd_was_slow(s.etcd, s.etcd->doublings);
    CHECK_EQ(rg__etcd_limit_ms(s.etcd, RG__ETCD_UNARY_MS, RG__ETCD_SLOW_MS),
             2000);
    return end(&s, &e);
}

int main(void)
{
    for (int i = 0; !one_endpoint(); i++)
        CHECK(i < TRIES);
    for (int i = 0; !two_endpoints(); i++)
        CHECK(i < TRIES);
    return 0;
}
