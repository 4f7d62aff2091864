/* A mirror of a real etcd: existing keys are listed, changes are reported in
 * order, and nothing outside the range is.
 *
 * Covers: kv.c mirror.c */
#include <stdlib.h>

#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

static const char *value_of(const rg__mirror *mirror, const char *key)
{
    const rg__kv *kv = mirrored(mirror, key);
    return kv != NULL ? kv->value : "(none)";
}

static void lists_what_is_there(scene *s, const rg__mirror *mirror, echoes *e)
{
    CHECK(!rg__mirror_is_listed(mirror));
    CHECK_EQ(rg__mirror_count(mirror), 0);
    WAIT_FOR(s, rg__mirror_is_listed(mirror));
    CHECK_EQ(e->calls, 1);
    CHECK_EQ(e->wipes, 0);
    CHECK_EQ(e->revision, rg__mirror_revision(mirror));
    CHECK_EQ(rg__mirror_count(mirror), 2);
    CHECK_STR(rg__mirror_at(mirror, 0)->key, "m/a");
    CHECK_STR(rg__mirror_at(mirror, 1)->key, "m/c");
    CHECK(rg__mirror_at(mirror, 2) == NULL);
    CHECK_STR(value_of(mirror, "m/c"), "3");
}

static void tells_puts_and_deletes(scene *s, const rg__mirror *mirror)
{
    scene_put(s, "m/b", "2", 0);
    WAIT_FOR(s, rg__mirror_count(mirror) == 3);
    CHECK_STR(rg__mirror_at(mirror, 1)->key, "m/b");
    scene_put(s, "m/b", "two", 0);
    WAIT_FOR(s, strcmp(value_of(mirror, "m/b"), "two") == 0);
    CHECK(mirrored(mirror, "m/b")->version >= 2); /* 2, unless sent again */
    rg__txn *txn = rg__txn_create();
    rg__txn_delete(txn, "m/a", NULL);
    scene_txn(s, txn);
    WAIT_FOR(s, rg__mirror_count(mirror) == 2);
    CHECK(mirrored(mirror, "m/a") == NULL);
    CHECK_STR(rg__mirror_at(mirror, 0)->key, "m/b");
}

static void says_nothing_of_other_keys(scene *s, const rg__mirror *mirror,
                                       echoes *e)
{
    const int before = e->calls;
    scene_put(s, "m", "", 0);
    scene_put(s, "m0", "", 0); /* the first key behind the prefix */
    const outcome last = scene_put(s, "zz", "", 0);
    /* The guard takes the copy to this revision without a word. */
    WAIT_FOR(s, rg__mirror_revision(mirror) >= last.revision);
    CHECK_EQ(e->calls, before);
}

/* One transaction is one change, whatever it touches; sent again, it may be one
 * more. */
static void change_of_many_keys_is_one(scene *s, const rg__mirror *mirror,
                                       echoes *e)
{
    char key[32];
    const int before = e->calls;
    rg__txn *txn = rg__txn_create();
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "m/n%03d", i);
        rg__txn_put(txn, key, "x", 0);
    }
    const outcome o = scene_txn(s, txn);
    WAIT_FOR(s, e->revision >= o.revision);
    CHECK_EQ(rg__mirror_count(mirror), 102);
    CHECK(e->calls > before && e->calls <= before + o.sendings);
    CHECK_EQ(e->revision, o.revision);
}

typedef struct follower {
    scene *s;
    rg__mirror *mirror;
    long next;
} follower;

/* Every step is seen or skipped over, never seen twice or backwards. */
static void on_number(void *arg, int64_t revision, bool wiped)
{
    follower *f = arg;
    (void)revision;
    CHECK(!wiped);
    const rg__kv *kv = mirrored(f->mirror, "n/x");
    if (kv == NULL)
        return;
    const long seen = strtol(kv->value, NULL, 10);
    CHECK(seen >= f->next);
    f->next = seen + 1;
}

static void numbers_only_rise(scene *s)
{
    char text[32];
    follower f = {.s = s};
    CHECK_OK(
        rg__mirror_create(s->etcd, "n/", "n0", NULL, on_number, &f, &f.mirror));
    for (long i = 0; i < 200; i++) {
        snprintf(text, sizeof text, "%ld", i);
        scene_put(s, "n/x", text, 0);
    }
    WAIT_FOR(s, f.next == 200);
    rg__mirror_destroy(f.mirror);
}

int main(void)
{
    scene s;
    echoes e = {0};
    rg__mirror *mirror = NULL;
    etcd_server *server = etcd_server_start();
    scene_open(&s, etcd_server_url(server));
    scene_put(&s, "m/a", "1", 0);
    scene_put(&s, "m/c", "3", 0);
    char *end = rg__prefix_end("m/");
    CHECK_OK(
        rg__mirror_create(s.etcd, "m/", end, NULL, echoes_take, &e, &mirror));
    free(end);
    lists_what_is_there(&s, mirror, &e);
    tells_puts_and_deletes(&s, mirror);
    says_nothing_of_other_keys(&s, mirror, &e);
    change_of_many_keys_is_one(&s, mirror, &e);
    numbers_only_rise(&s);
    scene_close(&s); /* takes the mirror with it */
    etcd_server_stop(server);
    return 0;
}
