/* Each allocation for what an agent writes to etcd fails once, one after the
 * other: it is written all the same, a little later. If there is no memory for
 * seconds, the host leaves, and says why. The linker puts our allocators before
 * the real ones; jansson gets them as well.
 *
 * Covers: txn.c */
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/agent/checkpoint/saver.h"
#include "tests/agent/keys.h"
#include "tests/lib/no_memory.h"

int __wrap_asprintf(char **to, const char *format, ...);
int __wrap_asprintf(char **to, const char *format, ...)
{
    va_list args;
    if (must_fail())
        return -1;
    va_start(args, format);
    const int n = vasprintf(to, format, args);
    va_end(args);
    return n;
}

/* ------------------------------------------------------------- what is told */

typedef struct act {
    const char *key; /* that etcd holds then */
    void (*prepare)(rg__agent *a);
    void (*say)(rg__agent *a);
} act;

static void is_mirrored(rg__agent *a)
{
    a->mirror = a->leader->whole;
}

static void say_record(rg__agent *a)
{
    rg__publish(a);
}

static void add_reason(rg__agent *a)
{
    is_mirrored(a);
    a->publication->publishing = (rg__etcd_req *)a; /* one is on its way */
    rg__publish_reason(a, 1, NULL, "a cable was pulled");
    a->publication->publishing = NULL;
}

static void is_leaderless(rg__agent *a)
{
    is_mirrored(a);
    a->leader->whole = NULL;
    a->view.leader = 0;
}

static void compete(rg__agent *a)
{
    rg__leader_follow(a);
}

static void is_leader(rg__agent *a)
{
    (void)a;
}

static void propose(rg__agent *a)
{
    rg__leader_look(a);
}

static const act acts[] = {
    {"lead/host/h1", is_mirrored, say_record},
    {"all/ev/0000000000000001/h1", add_reason, say_record},
    {"all/leader", is_leaderless, compete},
    {"all/cur", is_leader, propose},
};

/* -------------------------------------------------------------------- claims
 */

/* Nothing has been told yet. */
static void forget(etcd_server *server, const act *what)
{
    char key[128];
    snprintf(key, sizeof key, KEYS "%s", what->key);
    etcd_server_delete(server, key);
    if (what->say == propose)
        etcd_server_delete(server, KEYS "all/gen/0000000000000001");
    else
        etcd_server_delete(server, KEYS "lead/host/h1");
}

static void open_agent(scene *s, rg__agent **a_p, etcd_server *server)
{
    scene_open(s, etcd_server_url(server));
    *a_p = keys_open_agent(s, 1);
}

static void close_agent(scene *s, rg__agent *a)
{
    a->leader->whole = a->leader->whole != NULL ? a->leader->whole : a->mirror;
    a->mirror = NULL;
    a->life.state = RG__LIFE_ENDING;
    keys_close_agent(a);
    scene_close(s);
}

static bool is_told(scene *s, const act *what)
{
    char key[128];
    snprintf(key, sizeof key, KEYS "%s", what->key);
    return scene_get(s, key).kv_count == 1;
}

/* The act may have begun before it knew what it needs; then it follows by
 * itself, and is tried again. *is_last_p: nothing was left that could have
 * failed. */
static bool fail_one(etcd_server *server, const act *what, long which,
                     bool *is_last_p)
{
    scene s;
    rg__agent *a;
    forget(server, what);
    open_agent(&s, &a, server);
    what->prepare(a);
    allowed = which;
    what->say(a);
    const bool has_begun = allowed < which;
    *is_last_p = has_begun && allowed >= 0;
    allowed = -1;
    WAIT_FOR(&s, is_told(&s, what));
    close_agent(&s, a);
    return has_begun;
}

/* No worker is notified, since that takes memory. */
static void last_out(etcd_server *server)
{
    scene s;
    rg__agent *a;
    open_agent(&s, &a, server);
    CHECK_OK(rg__checkpoint_create(a));
    const struct rg__leaving whole = *a->leaving;
    a->leaving->term_timer = a->leaving->kill_timer = a->leaving->end_timer =
        s.slice;
    rg__life_step(a, RG__LIFE_ON_REST); /* nothing else is left to do */
    is_mirrored(a);
    is_memory_out = true;
    rg__publish(a);
    CHECK(a->publication->publishing == NULL && !rg__life_is_ending(a));
    WAIT_FOR(&s, rg__life_is_ending(a));
    is_memory_out = false;
    CHECK_EQ(a->verdict.code, RG__EXIT_SYSTEM);
    CHECK(strstr(a->verdict.why, "no memory") != NULL);
    *a->leaving = whole;
    rg__checkpoint_destroy(a);
    close_agent(&s, a);
}

#define LASTS 6

int main(void)
{
    etcd_server *server = etcd_server_start();
    json_set_alloc_funcs(__wrap_malloc, free);
    keys_put_meta(server, 1);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        long n = 0;
        int lasts = 0; /* in a row: an act that knew too little ends early */
        if (acts[i].say == propose) {
            keys_put_host(server, 1);
            keys_put_leader(server, 1);
        }
        while (lasts < LASTS) {
            bool is_last = false;
            n += fail_one(server, &acts[i], n, &is_last) && !is_last;
            lasts = is_last ? lasts + 1 : 0;
        }
        CHECK(n > 10);
        printf("%s: %ld allocations\n", acts[i].key, n);
    }
    last_out(server);
    etcd_server_stop(server);
    return 0;
}
