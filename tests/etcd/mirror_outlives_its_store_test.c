/* A mirror while its etcd is killed, stopped, compacted and wiped: it comes
 * back to what the store holds, and says when the store is another one.
 *
 * Covers: mirror.c mirrored.c */
#include "tests/etcd/fake.h"
#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

typedef struct follower {
    scene s;
    echoes e;
    rg__mirror *mirror;
} follower;

static void open_mirror(follower *f)
{
    f->e = (echoes){0};
    CHECK_OK(rg__mirror_create(f->s.etcd, "m/", "m0", "meta", echoes_take,
                               &f->e, &f->mirror));
    WAIT_FOR(&f->s, rg__mirror_is_listed(f->mirror));
}

static void open_follower(follower *f, const char *endpoints)
{
    *f = (follower){0};
    scene_open(&f->s, endpoints);
    open_mirror(f);
}

static bool holds(const follower *f, const char *key, const char *value)
{
    const rg__kv *kv = mirrored(f->mirror, key);
    return kv != NULL && strcmp(kv->value, value) == 0;
}

static void kill_and_restart(follower *f, etcd_server *server)
{
    etcd_server_restart(server);
    etcd_server_put(server, "m/k", "after the restart");
    WAIT_FOR(&f->s, holds(f, "m/k", "after the restart"));
    CHECK_EQ(f->e.wipes, 0);
}

static void stopped_for_seconds(follower *f, etcd_server *server)
{
    const int downs = f->s.downs;
    etcd_server_pause(server);
    WAIT_FOR(&f->s, f->s.downs > downs);
    scene_run_for(&f->s, 1000);
    etcd_server_resume(server);
    etcd_server_put(server, "m/k", "after the stop");
    WAIT_FOR(&f->s, holds(f, "m/k", "after the stop"));
    CHECK_EQ(f->e.wipes, 0);
}

static void compact(const etcd_server *server)
{
    char reply[1024], body[64];
    CHECK_EQ(etcd_server_post(server, "/v3/kv/range", "{\"key\":\"AA==\"}",
                              reply, sizeof reply),
             200);
    const char *revision = strstr(reply, "\"revision\":\"");
    CHECK(revision != NULL);
    snprintf(body, sizeof body, "{\"revision\":\"%ld\"}",
             strtol(revision + 12, NULL, 10));
    CHECK_EQ(etcd_server_post(server, "/v3/kv/compaction", body, NULL, 0), 200);
}

/* The link is cut, a key goes, another changes, and their history is forgotten
 * (trap 6: the watch is canceled under HTTP 200, and its stream stays). */
static void compacted_while_away(follower *f, const etcd_server *server)
{
    scene *s = &f->s;
    proxy *p = proxy_open(s->loop, etcd_server_url(server));
    rg__etcd_destroy(s->etcd);
    scene_connect(s, proxy_url(p), NULL, NULL);
    open_mirror(f);
    proxy_set(p, PROXY_REFUSE);
    etcd_server_put(server, "m/gone", "");
    etcd_server_delete(server, "m/gone");
    etcd_server_delete(server, "m/k");
    etcd_server_put(server, "m/new", "while away");
    compact(server);
    proxy_set(p, PROXY_PASS);
    WAIT_FOR(s, holds(f, "m/new", "while away"));
    CHECK_EQ(rg__mirror_count(f->mirror), 1);
    CHECK_EQ(f->e.wipes, 0);
    etcd_server_put(server, "m/new", "watched again");
    WAIT_FOR(s, holds(f, "m/new", "watched again"));
    proxy_close(p);
}

/* The same flags, an empty directory: the header looks the same (trap 11), and
 * a watch from the old revision would be deaf (trap 10). */
static void wiped(follower *f, etcd_server *server)
{
    const int64_t before = rg__mirror_revision(f->mirror);
    etcd_server_wipe(server);
    WAIT_FOR(&f->s, f->e.wipes == 1);
    CHECK(rg__mirror_revision(f->mirror) < before);
    CHECK_EQ(rg__mirror_count(f->mirror), 0);
    etcd_server_put(server, "m/k", "in the new store");
    WAIT_FOR(&f->s, holds(f, "m/k", "in the new store"));
    CHECK_EQ(f->e.wipes, 1);
}

/* Wiped, and seeded up to a higher revision before the mirror could look; even
 * the meta key was made at the same revision. */
static void wiped_and_overtaken(etcd_server *server)
{
    follower f;
    etcd_server_wipe(server);
    etcd_server_put(server, "meta", "store one");
    etcd_server_put(server, "m/k", "one");
    open_follower(&f, etcd_server_url(server));
    etcd_server_wipe(server); /* blocks: the mirror sees nothing of it */
    etcd_server_put(server, "meta", "store two");
    for (int i = 0; i < 20; i++)
        etcd_server_put(server, "m/k", "two");
    WAIT_FOR(&f.s, f.e.wipes == 1);
    WAIT_FOR(&f.s, holds(&f, "m/k", "two"));
    CHECK_EQ(f.e.wipes, 1);
    scene_close(&f.s);
}

/* The meta key is made after the list: known from then on, and no wipe. */
static void meta_made_later_is_no_wipe(etcd_server *server)
{
    follower f;
    etcd_server_wipe(server);
    open_follower(&f, etcd_server_url(server));
    etcd_server_put(server, "meta", "made later");
    const outcome o = scene_put(&f.s, "elsewhere", "", 0);
    WAIT_FOR(&f.s, rg__mirror_revision(f.mirror) >= o.revision);
    CHECK_EQ(f.e.wipes, 0);
    etcd_server_delete(server, "meta");
    WAIT_FOR(&f.s, f.e.wipes == 1);
    scene_close(&f.s);
}

int main(void)
{
    follower f;
    etcd_server *server = etcd_server_start();
    etcd_server_put(server, "m/k", "at first");
    open_follower(&f, etcd_server_url(server));
    kill_and_restart(&f, server);
    stopped_for_seconds(&f, server);
    wiped(&f, server);
    compacted_while_away(&f, server);
    scene_close(&f.s);
    wiped_and_overtaken(server);
    meta_made_later_is_no_wipe(server);
    etcd_server_stop(server);
    return 0;
}
