/* Whether etcd answers: down after about a second without an answer, however
 * etcd is away; up with the next answer, which waiting requests then get as
 * well. Without a request there is no silence. An etcd that answers, but takes
 * no writes, is away as well.
 *
 * Covers: health.c */
#include "tests/etcd/fake.h"
#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

static rg__txn *some_get(void)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_get(txn, RG__THEN, "s/x", NULL);
    return txn;
}

static void outage(scene *s, etcd_server *server, void (*away)(etcd_server *),
                   void (*back)(etcd_server *), const char *why)
{
    outcome o = {0};
    const int downs = s->downs, ups = s->ups;
    away(server);
    const uint64_t asked = rg__now_ns();
    CHECK(rg__etcd_txn(s->etcd, some_get(), outcome_take, &o) != NULL);
    CHECK(rg__etcd_is_up(s->etcd));
    WAIT_FOR(s, !rg__etcd_is_up(s->etcd));
    CHECK((rg__now_ns() - asked) / RG__MS >= 1000);
    WAIT_FOR(s, s->downs == downs + 1);
    if (strstr(s->why, why) == NULL || strstr(s->why, "http://") == NULL)
        CHECK_FAIL("the cause that is told is \"%s\"", s->why);
    CHECK(!o.is_done);
    back(server);
    WAIT_FOR(s, o.is_done);
    CHECK_OK(o.st);
    CHECK(rg__etcd_is_up(s->etcd));
    WAIT_FOR(s, s->ups == ups + 1);
    CHECK_STR(rg__etcd_why(s->etcd), "");
    CHECK_EQ(s->downs, downs + 1);
}

/* Neither is a question that was taken back. */
static void asking_nothing_is_no_silence(scene *s, etcd_server *server)
{
    outcome o = {0};
    const int downs = s->downs;
    etcd_server_kill(server);
    rg__etcd_req *req = rg__etcd_txn(s->etcd, some_get(), outcome_take, &o);
    scene_run_for(s, 100);
    rg__etcd_cancel(req);
    scene_run_for(s, 1300);
    CHECK(rg__etcd_is_up(s->etcd));
    CHECK_EQ(s->downs, downs);
    etcd_server_restart(server);
    scene_get(s, "s/x");
}

/* A mirror asks by itself, so an outage is noticed without any request. */
static void mirror_alone_notices(scene *s, etcd_server *server)
{
    echoes e = {0};
    rg__mirror *mirror = NULL;
    const int downs = s->downs, ups = s->ups;
    CHECK_OK(
        rg__mirror_create(s->etcd, "s/", "s0", NULL, echoes_take, &e, &mirror));
    WAIT_FOR(s, rg__mirror_is_listed(mirror));
    etcd_server_kill(server);
    WAIT_FOR(s, s->downs == downs + 1);
    etcd_server_restart(server);
    etcd_server_put(server, "s/new", "");
    WAIT_FOR(s, s->ups == ups + 1);
    WAIT_FOR(s, mirrored(mirror, "s/new") != NULL);
    rg__mirror_destroy(mirror);
}

static void answer_unreadably(void *arg, fake_conn *conn, const char *path,
                              const char *body)
{
    (void)arg, (void)path, (void)body;
    fake_answer(conn, 200, "text/html", "<html>login here</html>");
}

/* Something answers, but it isn't etcd. */
static void unreadable_answers_are_silence(void)
{
    scene s;
    outcome o = {0};
    scene_open_loop(&s);
    fake *f = fake_open(s.loop, answer_unreadably, NULL);
    scene_connect(&s, fake_url(f), NULL, NULL);
    CHECK(rg__etcd_txn(s.etcd, some_get(), outcome_take, &o) != NULL);
    WAIT_FOR(&s, s.downs == 1);
    CHECK(strstr(s.why, "not JSON") != NULL);
    CHECK(!o.is_done);
    rg__etcd_destroy(s.etcd);
    s.etcd = NULL;
    fake_close(f);
    scene_close(&s);
}

static void answer_as_full(void *arg, fake_conn *conn, const char *path,
                           const char *body)
{
    const bool *is_full = arg;
    (void)path;
    if (*is_full && strstr(body, "request_put") != NULL)
        fake_answer(conn, 429, "application/json",
                    "{\"error\":\"database space exceeded\",\"code\":8}");
    else
        fake_answer(conn, 200, "application/json",
                    "{\"header\":{\"revision\":\"7\"},\"succeeded\":true}");
}

/* Reads go on, and are no sign that writes are taken again. */
static void refused_writes_are_told(void)
{
    scene s;
    outcome o = {0};
    bool is_full = true;
    scene_open_loop(&s);
    fake *f = fake_open(s.loop, answer_as_full, &is_full);
    scene_connect(&s, fake_url(f), NULL, NULL);
    rg__txn *put = rg__txn_create();
    rg__txn_put(put, "s/x", "1", 0);
    CHECK(rg__etcd_txn(s.etcd, put, outcome_take, &o) != NULL);
    WAIT_FOR(&s, s.downs == 1);
    CHECK(rg__etcd_is_refusing(s.etcd) && !rg__etcd_is_up(s.etcd));
    CHECK(strstr(s.why, "its database is full") != NULL);
    scene_get(&s, "s/x");
    CHECK(rg__etcd_is_refusing(s.etcd) && !o.is_done);
    is_full = false;
    WAIT_FOR(&s, o.is_done);
    CHECK_OK(o.st);
    WAIT_FOR(&s, s.ups == 1);
    CHECK(rg__etcd_is_up(s.etcd));
    CHECK_EQ(s.downs, 1);
    rg__etcd_destroy(s.etcd);
    s.etcd = NULL;
    fake_close(f);
    scene_close(&s);
}

int main(void)
{
    scene s;
    etcd_server *server = etcd_server_start();
    scene_open(&s, etcd_server_url(server));
    CHECK(rg__etcd_is_up(s.etcd));
    scene_get(&s, "s/x");
    outage(&s, server, etcd_server_kill, etcd_server_restart, "connect");
    outage(&s, server, etcd_server_pause, etcd_server_resume, "timed out");
    asking_nothing_is_no_silence(&s, server);
    mirror_alone_notices(&s, server);
    unreadable_answers_are_silence();
    refused_writes_are_told();
    scene_close(&s);
    etcd_server_stop(server);
    return 0;
}
