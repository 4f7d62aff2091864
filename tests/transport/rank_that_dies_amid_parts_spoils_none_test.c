/* A rank dies, or stands still until its generation is aborted, in the middle
 * of a gather, scatter, alltoall or reduce_scatter between hosts, some bytes of
 * which it has written: no other rank gets OK with wrong data, not all get OK
 * if some need its data, and what has not ended when the generation is aborted
 * ends with PEER_LOST. In the next generation the same operation is right.
 * Small parts of lone members travel with the descriptors: a rank dies in each
 * of their rounds.
 *
 * Covers: pairs.c scatter.c schedule.c inter.c exchange.c */
#include <sched.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/core/engine_parts.h"
#include "sdk/transport/inter/inter.h"
#include "tests/transport/parts.h"

#define BOUND_NS (20000 * RG__MS) /* of a hang, on a busy machine */
#define AMID     ((uint64_t)100 << 10)
#define HALVED   ((uint64_t)500) /* elements; 16 KB in each round of three */
enum { IS_GONE, NOT_OK, HAS_SENT_ALL }; /* words of the world */
#ifdef __SANITIZE_THREAD__              /* each kind in two of the worlds */
#define FIRST_OF(kind) ((kind) / 2 % 2)
#define EVERY          2
#else
#define FIRST_OF(kind) 0
#define EVERY          1
#endif

typedef struct scene {
    parts_kind kind;
    int victim;
    bool dies;     /* else it stands still */
    uint64_t even; /* elements of equal parts; 0: large */
    uint64_t written;
} scene;

static uint64_t written(const rg__native *c)
{
    uint64_t bytes = 0;
    for (const rg__link *l = c->shared->net->links; l != NULL; l = l->next)
        bytes += l->written;
    return bytes;
}

/* Go on alone, with the engine's lock, until it has written so much or has
 * nothing left to do. */
static void go_on_until(rg__engine *e, uint64_t bytes)
{
    rg__comm *comm = e->world->comm;
    const uint64_t begin = rg__now_ns();
    while (written((rg__native *)comm) < bytes &&
           comm->transport->test(comm) == RG_IN_PROGRESS &&
           rg__now_ns() - begin < 30 * RG__MS)
        sched_yield();
}

/* Does no other rank wait for it any more? */
static bool has_sent_all(const rg__engine *e)
{
    const rg__native *c = (const rg__native *)e->world->comm;
    const rg__exchange *x = &c->inter->exchange;
    return x->round + x->has_sent >= x->rounds;
}

static void be_victim(world *w, const scene *s, const parts *p)
{
    rg__engine *e = w->ctx->engine;
    rg_req *req = NULL;
    parts_start(p, s->kind, &req);
    rg__engine_lock(e);
    world_meet(w); /* the others start, and only this thread goes on here */
    go_on_until(e, written((rg__native *)e->world->comm) + s->written);
    if (s->even > 0 && has_sent_all(e))
        atomic_store(world_word(w, HAS_SENT_ALL), 1);
    atomic_store(world_word(w, IS_GONE), 1);
    if (s->dies)
        _exit(0);
    world_meet(w); /* the others are through */
    rg__engine_unlock(e);
    world_abort(w, w->index, 1);
    rg_wait(&req, -1);
    world_await_left(w);
}

static void be_beside(world *w, const scene *s, const parts *p)
{
    rg_req *req = NULL;
    rg_status st = RG_IN_PROGRESS;
    world_meet(w);
    parts_start(p, s->kind, &req);
    while (st == RG_IN_PROGRESS && atomic_load(world_word(w, IS_GONE)) == 0)
        st = rg_wait(&req, 1);
    if (st == RG_IN_PROGRESS)
        st = rg_wait(&req, 20);
    const uint64_t before = rg__now_ns();
    world_abort(w, w->index, 1);
    if (st == RG_IN_PROGRESS)
        st = rg_wait(&req, -1);
    CHECK(rg__now_ns() - before < BOUND_NS);
    CHECK(st == RG_OK || st == RG_ERR_PEER_LOST);
    if (st == RG_OK)
        parts_check(p, s->kind);
    else
        atomic_fetch_add(world_word(w, NOT_OK), 1);
    world_await_left(w);
    if (!s->dies)
        world_meet(w);
}

/* Does any other rank need what the victim has? */
static bool is_needed(const world *w, const scene *s, const parts *p)
{
    uint64_t elements = 0;
    for (int to = 0; to < w->n; to++)
        elements +=
            to == s->victim ? 0 : parts_count(p, s->kind, s->victim, to);
    return elements > 0;
}

static void go_on(world *w, const scene *s, parts *p)
{
    int rest[WORLD_MAX], n = 0;
    for (int i = 0; i < w->n; i++) {
        if (i == w->index)
            p->rank = n;
        if (!s->dies || i != s->victim)
            rest[n++] = i;
    }
    rg_req *req = NULL;
    world_meet_some(w, 1, n);
    CHECK(!is_needed(w, s, p) || atomic_load(world_word(w, NOT_OK)) > 0 ||
          atomic_load(world_word(w, HAS_SENT_ALL)) > 0);
    p->n = n;
    world_enter(w, 2, rest, n);
    CHECK_OK(rg__sets_sync(w->ctx));
    parts_fill(p, s->kind);
    parts_start(p, s->kind, &req);
    CHECK_OK(rg_wait(&req, -1));
    parts_check(p, s->kind);
}

static void play(world *w, void *arg)
{
    const scene *s = arg;
    parts p = parts_create(w);
    if (s->even > 0)
        p.even = s->even;
    parts_fill(&p, s->kind);
    if (w->index == s->victim)
        be_victim(w, s, &p);
    else
        be_beside(w, s, &p);
    go_on(w, s, &p);
    parts_destroy(&p);
}

static void halved(void)
{
    static const parts_kind kinds[] = {SCATTER, ALLTOALL, REDUCE_SCATTER};
    for (int k = 0; k < 3; k++)
        for (int round = 0; round < 3; round++) {
            scene s = {kinds[k], round == 1 ? 2 : 7, (k + round) % 3 != 2,
                       HALVED, 1 + 16200 * (uint64_t)round};
            world_on("01234567", play, &s);
        }
}

int main(void)
{
    /* victims: alone on their host, beside another, the root */
    static const struct {
        const char *hosts;
        int victim;
    } worlds[] = {{"01122", 0}, {"00112", 2}, {"00112", 4}, {"00121", 4}};
    for (int k = 0; k < KINDS; k++)
        for (int i = FIRST_OF(k); i < 4; i += EVERY) {
            scene s = {(parts_kind)k, worlds[i].victim, (i + k) % 4 != 3, 0,
                       (i + k) % 2 == 0 ? AMID : 1};
            world_on(worlds[i].hosts, play, &s);
        }
    halved();
    return 0;
}
