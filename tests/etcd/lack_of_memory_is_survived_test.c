/* Each allocation of this room fails once, one after the other: either the call
 * says so, or the answer comes a little later. Nothing crashes, and nothing
 * leaks (AddressSanitizer looks). The linker puts our allocators before the
 * real ones; curl's and jansson's own stay as they are.
 *
 * Covers: etcd_request.c body.c kv.c */

#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"
#include "tests/lib/no_memory.h"

char *__real_strndup(const char *text, size_t n);
char *__wrap_strndup(const char *text, size_t n);

char *__wrap_strndup(const char *text, size_t n)
{
    return must_fail() ? NULL : __real_strndup(text, n);
}

static void on_lease(void *arg, rg__lease_event event)
{
    *(bool *)arg = event == RG__LEASE_HELD;
}

typedef struct story {
    scene s;
    outcome o;
    bool has_lease;
    echoes e;
    rg__lease *lease;
    rg__mirror *mirror;
} story;

/* false: a call said that there is no memory. */
static bool begin(story *t, const char *url)
{
    const rg__etcd_params params = {
        .endpoints = url, .user = "someone", .password = "whose"};
    rg_status st = rg__etcd_create(t->s.loop, &params, &t->s.etcd);
    if (st == RG_OK)
        st =
            rg__lease_create(t->s.etcd, 60, on_lease, &t->has_lease, &t->lease);
    if (st == RG_OK)
        st = rg__mirror_create(t->s.etcd, "m/", "m0", "meta", echoes_take,
                               &t->e, &t->mirror);
    CHECK(st == RG_OK || st == RG_ERR_MEMORY);
    if (st != RG_OK)
        return false;
    rg__txn *txn = rg__txn_create();
    rg__txn_if_create(txn, "m/x", 0);
    rg__txn_put(txn, "m/x", "v", 0);
    rg__txn_get(txn, RG__ELSE, "m/x", NULL);
    return rg__etcd_txn(t->s.etcd, txn, outcome_take, &t->o) != NULL;
}

/* true: nothing was left that could have failed. */
static bool fail_one(const char *url, long which)
{
    story t = {0};
    scene_open_loop(&t.s);
    allowed = which;
    if (begin(&t, url)) {
        WAIT_FOR(&t.s, t.o.is_done);
        WAIT_FOR(&t.s, t.has_lease);
        WAIT_FOR(&t.s, rg__mirror_is_listed(t.mirror) &&
                           mirrored(t.mirror, "m/x") != NULL);
        CHECK_OK(t.o.st);
        CHECK_EQ(t.e.wipes, 0);
    }
    const bool is_last = allowed >= 0;
    allowed = -1;
    rg__etcd_destroy(t.s.etcd);
    t.s.etcd = NULL;
    scene_close(&t.s);
    return is_last;
}

int main(void)
{
    long n = 0;
    etcd_server *server = etcd_server_start();
    while (!fail_one(etcd_server_url(server), n))
        n++;
    CHECK(n > 50);
    etcd_server_stop(server);
    return 0;
}
