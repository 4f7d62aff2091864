/* Transactions against a real etcd: guards, branches, and the gateway's way of
 * leaving out what is zero (trap 1) and of writing numbers (trap 2).
 *
 * Covers: kv.c */
#include <stdlib.h>

#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

static void failed_guard_takes_the_else_branch(scene *s)
{
    outcome o = scene_put(s, "t/a", "one", 0);
    CHECK_OK(o.st);
    CHECK(o.succeeded);
    CHECK_EQ(o.sendings, 1);
    rg__txn *txn = rg__txn_create();
    rg__txn_if_create(txn, "t/a", 0);
    rg__txn_put(txn, "t/a", "two", 0);
    rg__txn_get(txn, RG__ELSE, "t/a", NULL);
    o = scene_txn(s, txn);
    CHECK_OK(o.st);
    CHECK(!o.succeeded); /* "succeeded" is absent then */
    CHECK_EQ(o.kv_count, 1);
    CHECK_STR(o.value, "one");
}

static void absent_key_is_an_empty_list(scene *s)
{
    const outcome o = scene_get(s, "t/none"); /* no "kvs", no "count" */
    CHECK_OK(o.st);
    CHECK(o.succeeded);
    CHECK_EQ(o.kv_count, 0);
}

static void empty_value_is_a_value(scene *s)
{
    scene_put(s, "t/empty", "", 0);
    const outcome o = scene_get(s, "t/empty");
    CHECK_EQ(o.kv_count, 1);
    CHECK_STR(o.value, "");
    CHECK(o.mod_revision > 0);
}

/* A put without a lease takes the key's lease away (trap 5). */
static void put_says_which_lease(scene *s, const etcd_server *server)
{
    CHECK_EQ(etcd_server_post(server, "/v3/lease/grant",
                              "{\"ID\":\"9007199254740993\",\"TTL\":\"60\"}",
                              NULL, 0),
             200);
    const int64_t lease = INT64_C(9007199254740993); /* no double holds it */
    scene_put(s, "t/leased", "v", lease);
    CHECK_EQ(scene_get(s, "t/leased").lease, lease);
    scene_put(s, "t/leased", "w", lease);
    CHECK_EQ(scene_get(s, "t/leased").lease, lease);
    scene_put(s, "t/leased", "x", 0);
    CHECK_EQ(scene_get(s, "t/leased").lease, 0);
}

static bool holds(scene *s, void (*add)(rg__txn *, const char *, int64_t),
                  const char *key, int64_t number)
{
    rg__txn *txn = rg__txn_create();
    add(txn, key, number);
    return scene_txn(s, txn).succeeded;
}

static void guards_hold_when_true_and_only_then(scene *s)
{
    scene_put(s, "t/g", "v", 0);
    const outcome o = scene_get(s, "t/g");
    CHECK(holds(s, rg__txn_if_mod, "t/g", o.mod_revision));
    CHECK(!holds(s, rg__txn_if_mod, "t/g", o.mod_revision - 1));
    CHECK(holds(s, rg__txn_if_create, "t/g", o.create_revision));
    CHECK(!holds(s, rg__txn_if_create, "t/g", 0));
    CHECK(holds(s, rg__txn_if_mod, "t/none", 0));
}

static void value_guards_compare_bytes(scene *s)
{
    const char *const values[] = {"v", "w"};
    for (int i = 0; i < 2; i++) {
        rg__txn *txn = rg__txn_create();
        rg__txn_if_value(txn, "t/g", values[i]);
        CHECK_EQ(scene_txn(s, txn).succeeded, i == 0);
    }
}

static bool is_unchanged(scene *s, const char *key, const char *end,
                         int64_t revision)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_if_unchanged(txn, key, end, revision);
    return scene_txn(s, txn).succeeded;
}

static void a_range_is_unchanged_or_begins_with_its_first_key(scene *s)
{
    scene_put(s, "r/c", "third", 0);
    scene_put(s, "r/b", "second", 0);
    rg__txn *txn = rg__txn_create();
    rg__txn_get_first(txn, "r/", "r0");
    const outcome o = scene_txn(s, txn);
    CHECK_EQ(o.kv_count, 1);
    CHECK_STR(o.value, "second");
    CHECK(is_unchanged(s, "r/", "r0", o.revision));
    CHECK(is_unchanged(s, "r/a", "r/b", 0));
    CHECK(is_unchanged(s, "r/c", "r/d", o.revision - 1));
    CHECK(!is_unchanged(s, "r/", "r0", o.revision - 1));
    CHECK(!is_unchanged(s, "r/b", NULL, o.revision - 1));
    scene_put(s, "r/d", "new", 0);
    CHECK(!is_unchanged(s, "r/", "r0", o.revision));
    CHECK(is_unchanged(s, "r/", "r/d", o.revision));
    txn = rg__txn_create();
    rg__txn_get_first(txn, "r/e", "r0");
    CHECK_EQ(scene_txn(s, txn).kv_count, 0);
}

/* Prefixes that end in 0xff, and bytes that base64 writes with + and /. */
static void prefix_covers_its_keys_and_no_other(scene *s)
{
    static const char *const keys[] = {"p\xff", "p\xff\xff", "p\xff/x", "q",
                                       "p\xfe"};
    for (size_t i = 0; i < 5; i++)
        scene_put(s, keys[i], "\xfb\xff\xbf", 0);
    char *end = rg__prefix_end("p\xff");
    CHECK_STR(end, "q");
    rg__txn *txn = rg__txn_create();
    rg__txn_get(txn, RG__THEN, "p\xff", end);
    outcome o = scene_txn(s, txn);
    CHECK_EQ(o.kv_count, 3);
    CHECK_STR(o.value, "\xfb\xff\xbf");
    free(end);

    end = rg__prefix_end("\xff"); /* nothing is behind it */
    scene_put(s, "\xff\xff", "last", 0);
    txn = rg__txn_create();
    rg__txn_get(txn, RG__THEN, "\xff", end);
    o = scene_txn(s, txn);
    CHECK_EQ(o.kv_count, 1);
    CHECK_STR(o.value, "last");
    free(end);
}

static void delete_takes_a_range(scene *s)
{
    scene_put(s, "d/1", "", 0);
    scene_put(s, "d/2", "", 0);
    scene_put(s, "d0", "", 0);
    char *end = rg__prefix_end("d/");
    rg__txn *txn = rg__txn_create();
    rg__txn_delete(txn, "d/", end);
    CHECK(scene_txn(s, txn).succeeded);
    CHECK_EQ(scene_get(s, "d/1").kv_count, 0);
    CHECK_EQ(scene_get(s, "d/2").kv_count, 0);
    CHECK_EQ(scene_get(s, "d0").kv_count, 1);
    free(end);
}

static void too_many_operations_is_a_definite_no(scene *s)
{
    char key[32];
    for (int n = 128; n <= 129; n++) {
        rg__txn *txn = rg__txn_create();
        for (int i = 0; i < n; i++) {
            snprintf(key, sizeof key, "many/%d", i);
            rg__txn_put(txn, key, "", 0);
        }
        const outcome o = scene_txn(s, txn);
        CHECK_EQ(o.st, n == 128 ? RG_OK : RG_ERR_STORE);
        CHECK(n == 128 || strstr(o.error, "too many operations") != NULL);
    }
}

static void count_down(void *arg, rg_status st, const rg__txn_reply *reply)
{
    CHECK_OK(st);
    CHECK_EQ(reply->kv_count, 1);
    --*(int *)arg;
}

static void many_at_once_all_get_their_answer(scene *s)
{
    int left = 200;
    scene_put(s, "t/one", "", 0);
    for (int i = 0; i < 200; i++) {
        rg__txn *txn = rg__txn_create();
        rg__txn_get(txn, RG__THEN, "t/one", NULL);
        CHECK(rg__etcd_txn(s->etcd, txn, count_down, &left) != NULL);
    }
    WAIT_FOR(s, left == 0);
}

int main(void)
{
    scene s;
    etcd_server *server = etcd_server_start();
    scene_open(&s, etcd_server_url(server));
    failed_guard_takes_the_else_branch(&s);
    absent_key_is_an_empty_list(&s);
    empty_value_is_a_value(&s);
    put_says_which_lease(&s, server);
    guards_hold_when_true_and_only_then(&s);
    a_range_is_unchanged_or_begins_with_its_first_key(&s);
    value_guards_compare_bytes(&s);
    prefix_covers_its_keys_and_no_other(&s);
    delete_takes_a_range(&s);
    too_many_operations_is_a_definite_no(&s);
    many_at_once_all_get_their_answer(&s);
    scene_close(&s);
    etcd_server_stop(server);
    return 0;
}
