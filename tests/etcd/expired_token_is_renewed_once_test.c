/* A token that the server no longer takes (trap 14): 401 leads to one login and
 * one more sending, for all waiting requests together; a second 401 is a
 * definite refusal. The fake counts; the real etcd forgets a token after a
 * second unused.
 *
 * Covers: auth.c login.c */
#include "tests/etcd/fake.h"
#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

typedef struct gate {
    int logins, asked, refused;
    bool never; /* takes no token */
    char token[32];
} gate;

static bool has_good_token(const gate *g, const fake_conn *conn)
{
    char line[64];
    snprintf(line, sizeof line, "\r\nAuthorization: %s\r\n", g->token);
    return !g->never && strstr(fake_request(conn), line) != NULL;
}

static void on_request(void *arg, fake_conn *conn, const char *path,
                       const char *body)
{
    gate *g = arg;
    char reply[128];
    if (strcmp(path, "/v3/auth/authenticate") == 0) {
        CHECK(strstr(body, "\"name\":\"worker\"") != NULL);
        CHECK(strstr(body, "\"password\":\"pw\"") != NULL);
        CHECK(strstr(fake_request(conn), "Authorization") == NULL);
        snprintf(g->token, sizeof g->token, "token.%d", ++g->logins);
        snprintf(reply, sizeof reply,
                 "{\"header\":{\"revision\":\"1\"},\"token\":\"%s\"}",
                 g->token);
        fake_answer(conn, 200, "application/json", reply);
    } else if (has_good_token(g, conn)) {
        g->asked++;
        fake_answer(conn, 200, "application/json",
                    "{\"header\":{\"revision\":\"1\"},\"succeeded\":true}");
    } else {
        g->refused++;
        fake_answer(conn, 401, "application/json",
                    "{\"error\":\"etcdserver: invalid auth token\","
                    "\"message\":\"etcdserver: invalid auth token\","
                    "\"code\":16}");
    }
}

static void ask(scene *s, outcome *o, int n)
{
    for (int i = 0; i < n; i++) {
        o[i] = (outcome){0};
        rg__txn *txn = rg__txn_create();
        rg__txn_get(txn, RG__THEN, "x", NULL);
        CHECK(rg__etcd_txn(s->etcd, txn, outcome_take, &o[i]) != NULL);
    }
    for (int i = 0; i < n; i++)
        WAIT_FOR(s, o[i].is_done);
}

static void one_login_for_all(scene *s, gate *g)
{
    outcome o[10];
    ask(s, o, 10);
    CHECK_EQ(g->logins, 1);
    CHECK_EQ(g->refused, 0);
    CHECK_EQ(g->asked, 10);
}

static void one_renewal_for_all(scene *s, gate *g)
{
    outcome o[10];
    strcpy(g->token, "expired");
    ask(s, o, 10);
    for (int i = 0; i < 10; i++)
        CHECK_OK(o[i].st);
    CHECK_EQ(g->logins, 2);
    CHECK_EQ(g->refused, 10);
    CHECK_EQ(g->asked, 20);
}

static void second_refusal_is_definite(scene *s, gate *g)
{
    outcome o;
    g->never = true;
    ask(s, &o, 1);
    CHECK_EQ(o.st, RG_ERR_STORE);
    CHECK(strstr(o.error, "invalid auth token") != NULL);
    CHECK_EQ(g->logins, 3);
}

static void count_logins(void)
{
    scene s;
    gate g = {0};
    scene_open_loop(&s);
    fake *f = fake_open(s.loop, on_request, &g);
    scene_connect(&s, fake_url(f), "worker", "pw");
    one_login_for_all(&s, &g);
    one_renewal_for_all(&s, &g);
    second_refusal_is_definite(&s, &g);
    rg__etcd_destroy(s.etcd);
    s.etcd = NULL;
    fake_close(f);
    scene_close(&s);
}

static void on_enabled(void *arg, rg_status st)
{
    CHECK_OK(st);
    *(bool *)arg = true;
}

/* Unused for its time and the second in which the server looks. */
static void real_token_expires(void)
{
    static const char *const options[] = {"--auth-token-ttl=1", NULL};
    scene s;
    bool is_on = false;
    etcd_server *server = etcd_server_start_with(options);
    scene_open(&s, etcd_server_url(server));
    rg__etcd_enable_auth(s.etcd, "pw", on_enabled, &is_on);
    WAIT_FOR(&s, is_on);
    CHECK_OK(scene_put(&s, "x", "1", 0).st);
    scene_run_for(&s, 2200);
    const outcome o = scene_put(&s, "x", "2", 0);
    CHECK_OK(o.st);
    CHECK_EQ(o.sendings, 2); /* refused once, with the old token */
    scene_close(&s);
    etcd_server_stop(server);
}

int main(void)
{
    count_logins();
    real_token_expires();
    return 0;
}
