/* Watches that report nothing while the store changes, which only the guard can
 * tell from quiet ones: a member whose host is gone, one that serves an
 * old state, a deletion that was never sent, a start in the future.
 *
 * Covers: etcd/watch.c guard.c */
#include <stdlib.h>

#include "elastic/etcd/guard.h"
#include "tests/etcd/fake.h"
#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

/* A guard's period, its grace, and one of a new connection's pauses. */
#define FOUND_MS (750 + 100 + 400)

/* ------------------------------------------------------ a link that is cut */

/* A client of the server through a proxy first, which is returned. */
static proxy *connect_both_ways(scene *s, etcd_server *server)
{
    char endpoints[160];
    scene_open_loop(s);
    proxy *p = proxy_open(s->loop, etcd_server_url(server));
    snprintf(endpoints, sizeof endpoints, "%s,%s", proxy_url(p),
             etcd_server_url(server));
    scene_connect(s, endpoints, NULL, NULL);
    return p;
}

/* The guard goes through the other endpoint, and so does the new watch. The
 * bound is loose: an own time-out of the proxy's side would take forever. */
static void cut_link_is_found(void)
{
    scene s;
    echoes e = {0};
    rg__mirror *mirror = NULL;
    etcd_server *server = etcd_server_start();
    proxy *p = connect_both_ways(&s, server);
    etcd_server_put(server, "m/a", "1");
    CHECK_OK(
        rg__mirror_create(s.etcd, "m/", "m0", NULL, echoes_take, &e, &mirror));
    WAIT_FOR(&s, rg__mirror_count(mirror) == 1);
    proxy_set(p, PROXY_STALL);
    const uint64_t cut_ns = rg__now_ns();
    etcd_server_delete(server, "m/a"); /* what a filter by revision hides */
    WAIT_FOR(&s, rg__mirror_count(mirror) == 0);
    CHECK((rg__now_ns() - cut_ns) / RG__MS < 4 * FOUND_MS);
    etcd_server_put(server, "m/b", "2");
    WAIT_FOR(&s, rg__mirror_count(mirror) == 1);
    CHECK_EQ(s.downs, 0); /* the other endpoint answered all the time */
    proxy_close(p);
    scene_close(&s);
    etcd_server_stop(server);
}

/* A request without an answer says that the member is gone, and its
 * watch with it: it moves without news for which it would be deaf. */
static void watch_moves_with_requests(void)
{
    scene s;
    echoes e = {0};
    rg__mirror *mirror = NULL;
    etcd_server *server = etcd_server_start();
    proxy *p = connect_both_ways(&s, server);
    CHECK_OK(
        rg__mirror_create(s.etcd, "m/", "m0", NULL, echoes_take, &e, &mirror));
    WAIT_FOR(&s, mirror->stage == RG__MIRROR_WATCHING);
    CHECK_EQ(mirror->watch_endpoint, 0);
    proxy_set(p, PROXY_STALL);
    CHECK_OK(scene_get(&s, "elsewhere").st);
    WAIT_FOR(&s, mirror->stage == RG__MIRROR_WATCHING &&
                     mirror->watch_endpoint == 1);
    etcd_server_put(server, "m/a", "1");
    WAIT_FOR(&s, rg__mirror_count(mirror) == 1);
    CHECK_EQ(mirror->watch_number, 2); /* one move, and no more */
    proxy_close(p);
    scene_close(&s);
    etcd_server_stop(server);
}

/* -------------------------------------------------- a server that is quiet */

/* A store of up to two keys, whose watches stand and are silent. */
typedef struct quiet {
    scene s;
    fake *f;
    echoes e;
    rg__mirror *mirror;
    int keys;
    long revision, created_at;
    int lists, guards, watches;
    uint64_t guarded_ns; /* when the newest guard came */
    long starts[16];
} quiet;

static void answer_range(quiet *q, fake_conn *conn, long newer_than)
{
    char kvs[512] = "", body[1024];
    size_t n = 0;
    for (int i = 0; i < q->keys; i++)
        if (q->revision > newer_than)
            n += (size_t)snprintf(kvs + n, sizeof kvs - n,
                                  "%s{\"key\":\"bS9%c\",\"mod_revision\":"
                                  "\"%ld\"}",
                                  n > 0 ? "," : "", i == 0 ? 'h' : 'i',
                                  q->revision);
    snprintf(body, sizeof body,
             "{\"header\":{\"revision\":\"%ld\"},\"succeeded\":true,"
             "\"responses\":[{\"response_range\":{\"kvs\":[%s],\"count\":"
             "\"%d\"}}]}",
             q->revision, kvs, q->keys);
    fake_answer(conn, 200, "application/json", body);
}

static void stand_and_be_silent(quiet *q, fake_conn *conn)
{
    char line[128];
    snprintf(line, sizeof line,
             "{\"result\":{\"header\":{\"revision\":\"%ld\"},\"created\":true}"
             "}\n",
             q->created_at > 0 ? q->created_at : q->revision);
    fake_stream(conn);
    fake_chunk(conn, line, strlen(line));
}

static void on_request(void *arg, fake_conn *conn, const char *path,
                       const char *body)
{
    quiet *q = arg;
    const char *filter = strstr(body, "min_mod_revision\":\"");
    const char *start = strstr(body, "start_revision\":\"");
    if (strcmp(path, "/v3/watch") == 0) {
        CHECK(start != NULL && q->watches < 16);
        q->starts[q->watches++] = strtol(start + 17, NULL, 10);
        stand_and_be_silent(q, conn);
        return;
    }
    q->guards += filter != NULL;
    q->guarded_ns = filter != NULL ? rg__now_ns() : q->guarded_ns;
    q->lists += filter == NULL;
    answer_range(q, conn,
                 filter != NULL ? strtol(filter + 19, NULL, 10) - 1 : 0);
}

static void open_quiet(quiet *q)
{
    *q = (quiet){.keys = 1, .revision = 5};
    scene_open_loop(&q->s);
    q->f = fake_open(q->s.loop, on_request, q);
    scene_connect(&q->s, fake_url(q->f), NULL, NULL);
    CHECK_OK(rg__mirror_create(q->s.etcd, "m/", "m0", NULL, echoes_take, &q->e,
                               &q->mirror));
    WAIT_FOR(&q->s, q->watches == 1);
}

static void close_quiet(quiet *q)
{
    rg__etcd_destroy(q->s.etcd);
    q->s.etcd = NULL;
    fake_close(q->f);
    scene_close(&q->s);
}

/* A negative claim first: nothing has changed, so nothing is done. */
static void quiet_watch_is_left_alone(void)
{
    quiet q;
    open_quiet(&q);
    WAIT_FOR(&q.s, q.guards == 2);
    CHECK_EQ(q.watches, 1);
    CHECK_EQ(q.lists, 1);
    CHECK_EQ(q.e.calls, 1);
    close_quiet(&q);
}

/* First a new watch from the same place, then a list. */
static void unsent_put_is_found(void)
{
    quiet q;
    open_quiet(&q);
    q.revision = 6;
    q.keys = 2;
    WAIT_FOR(&q.s, q.watches == 2);
    CHECK_EQ(q.lists, 1);
    CHECK_EQ(q.starts[1], 6);
    WAIT_FOR(&q.s, rg__mirror_count(q.mirror) == 2);
    CHECK_EQ(q.lists, 2);
    CHECK_EQ(q.e.wipes, 0);
    close_quiet(&q);
}

/* Where 250 clients are told, the watch may come a second behind the guard. */
static void crowd_is_given_time(void)
{
    quiet q;
    open_quiet(&q);
    rg__mirror_crowd(q.mirror, 250);
    q.revision = 6;
    q.keys = 2;
    WAIT_FOR(&q.s, q.guards == 1);
    const uint64_t behind_ns = q.guarded_ns;
    WAIT_FOR(&q.s, q.watches == 2);
    CHECK((rg__now_ns() - behind_ns) / RG__MS > 900);
    close_quiet(&q);
}

static void unsent_delete_is_found(void)
{
    quiet q;
    open_quiet(&q);
    q.revision = 6; /* of another key; ours is gone */
    q.keys = 0;
    WAIT_FOR(&q.s, rg__mirror_count(q.mirror) == 0);
    CHECK_EQ(q.lists, 2);
    CHECK_EQ(q.e.wipes, 0);
    close_quiet(&q);
}

/* Trap 10: the store has gone back; a watch from 6 on is accepted, and deaf. */
static void start_in_the_future_is_found(void)
{
    quiet q;
    open_quiet(&q);
    q.revision = 2;
    WAIT_FOR(&q.s, q.e.wipes == 1);
    CHECK_EQ(rg__mirror_revision(q.mirror), 2);
    WAIT_FOR(&q.s, q.watches == 2);
    CHECK_EQ(q.starts[1], 3);
    close_quiet(&q);
}

/* A member that lags says so in "created": the guard asks at once, finds the
 * store as it should be, and the watch stays. */
static void lagging_member_is_no_wipe(void)
{
    quiet q;
    open_quiet(&q);
    q.created_at = 3;
    rg__mirror *late = NULL;
    echoes e = {0};
    CHECK_OK(
        rg__mirror_create(q.s.etcd, "m/", "m0", NULL, echoes_take, &e, &late));
    WAIT_FOR(&q.s, q.watches == 2);
    const int guards = q.guards;
    WAIT_FOR(&q.s, q.guards > guards + 1);
    CHECK_EQ(q.watches, 2);
    CHECK_EQ(e.wipes, 0);
    close_quiet(&q);
}

int main(void)
{
    quiet_watch_is_left_alone();
    unsent_put_is_found();
    crowd_is_given_time();
    unsent_delete_is_found();
    start_in_the_future_is_found();
    lagging_member_is_no_wipe();
    cut_link_is_found();
    watch_moves_with_requests();
    return 0;
}
