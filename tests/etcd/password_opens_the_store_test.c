/* Authentication against a real etcd: turned on once and again, refused with
 * another password or without one, and renewed when the token has expired or a
 * restarted etcd has forgotten it (trap 14), while a watch goes on.
 *
 * Covers: auth.c login.c */
#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

/* Quotes and a backslash, as JSON must carry them. */
#define PASSWORD "it's \"secret\" \\ \302\240"

typedef struct result {
    bool is_done;
    rg_status st;
} result;

static void on_enabled(void *arg, rg_status st)
{
    result *r = arg;
    CHECK(!r->is_done);
    *r = (result){.is_done = true, .st = st};
}

static rg_status enable(scene *s, const char *password)
{
    result r = {0};
    rg__etcd_enable_auth(s->etcd, password, on_enabled, &r);
    CHECK(!r.is_done);
    WAIT_FOR(s, r.is_done);
    return r.st;
}

/* A client with a password may come before authentication is on. */
static void user_may_come_first(const etcd_server *server)
{
    scene s;
    scene_open_as(&s, etcd_server_url(server), "root", PASSWORD);
    CHECK_OK(scene_put(&s, "a/x", "1", 0).st);
    CHECK_OK(enable(&s, PASSWORD));
    CHECK_OK(scene_put(&s, "a/x", "2", 0).st);
    scene_close(&s);
}

static void turned_on_again_is_the_same(const etcd_server *server)
{
    scene s;
    scene_open(&s, etcd_server_url(server));
    CHECK_OK(enable(&s, PASSWORD));
    CHECK_OK(scene_put(&s, "a/x", "3", 0).st); /* it is root from then on */
    scene_close(&s);
    scene_open(&s, etcd_server_url(server));
    CHECK_STATUS(enable(&s, "another"), RG_ERR_STORE);
    scene_close(&s);
}

static void says(const outcome *o, const char *text)
{
    if (strstr(o->error, text) == NULL)
        CHECK_FAIL("\"%s\" does not say \"%s\"", o->error, text);
}

static void wrong_password_is_a_definite_no(const etcd_server *server)
{
    scene s;
    scene_open_as(&s, etcd_server_url(server), "root", "wrong");
    outcome several[3] = {0};
    for (int i = 0; i < 3; i++) {
        rg__txn *txn = rg__txn_create();
        rg__txn_get(txn, RG__THEN, "a/x", NULL);
        CHECK(rg__etcd_txn(s.etcd, txn, outcome_take, &several[i]) != NULL);
    }
    for (int i = 0; i < 3; i++) {
        WAIT_FOR(&s, several[i].is_done);
        CHECK_EQ(several[i].st, RG_ERR_STORE);
        says(&several[i], "root");
        says(&several[i], etcd_server_url(server));
    }
    scene_close(&s);
}

static void no_password_is_a_definite_no(const etcd_server *server)
{
    scene s;
    scene_open(&s, etcd_server_url(server));
    const outcome o = scene_get(&s, "a/x");
    CHECK_EQ(o.st, RG_ERR_STORE);
    says(&o, "user");
    says(&o, etcd_server_url(server));
    scene_close(&s);
}

typedef struct follower {
    scene s;
    echoes e;
    rg__mirror *mirror;
} follower;

static void open_follower(follower *f, const char *url)
{
    *f = (follower){0};
    scene_open_as(&f->s, url, "root", PASSWORD);
    CHECK_OK(rg__mirror_create(f->s.etcd, "a/", "a0", NULL, echoes_take, &f->e,
                               &f->mirror));
    WAIT_FOR(&f->s, rg__mirror_is_listed(f->mirror));
}

static void put_and_see(follower *f, const char *value)
{
    CHECK_OK(scene_put(&f->s, "a/x", value, 0).st);
    WAIT_FOR(&f->s, strcmp(mirrored(f->mirror, "a/x")->value, value) == 0);
}

/* A restart forgets all tokens. */
static void forgotten_token_is_renewed(follower *f, etcd_server *server)
{
    put_and_see(f, "before");
    etcd_server_kill(server);
    etcd_server_begin(server); /* ready is what lets us in */
    put_and_see(f, "after");
    CHECK_EQ(f->e.wipes, 0);
}

int main(void)
{
    follower f;
    etcd_server *server = etcd_server_start();
    user_may_come_first(server);
    turned_on_again_is_the_same(server);
    wrong_password_is_a_definite_no(server);
    no_password_is_a_definite_no(server);
    open_follower(&f, etcd_server_url(server));
    forgotten_token_is_renewed(&f, server);
    scene_close(&f.s);
    etcd_server_stop(server);
    return 0;
}
