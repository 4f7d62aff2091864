/* Members read each other's ordinary memory. Where the owner leaves the call,
 * or dies, when it has read but others have not, none of those that read it
 * gets OK, whatever is in that memory by then. Where the kernel refuses to let
 * one of them read, all stage, and so they do where a process number means
 * another process. REGROUP_READ_MIN says from which size on, and members whose
 * values differ get the same results.
 *
 * Covers: read.c pairwise.c zero_copy.c */
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sdk/core/engine_parts.h"
#include "sdk/transport/shm/shm_comm.h"
#include "tests/lib/refuse.h"
#include "tests/lib/world.h"

#define N     3
#define COUNT ((uint64_t)100000) /* of int32_t to each */

enum { BROADCAST, ALLGATHER, ALLGATHERV, GATHER, SCATTER, ALLTOALL, KINDS };
static const uint64_t counts[N] = {COUNT, COUNT, COUNT};

typedef struct scene {
    int kind, victim;
    bool dies; /* else it leaves the call */
} scene;

typedef struct data {
    int kind, rank, root;
    int32_t *send, *recv; /* N parts each */
} data;

static int32_t value(int from, int to, uint64_t i)
{
    return (int32_t)(from * 1000003 + to * 101 + (int)(i % 97));
}

/* To whom the values in part p of a sender are. */
static int receiver(const data *d, int p)
{
    return d->kind == SCATTER || d->kind == ALLTOALL ? p : 0;
}

static data make(const world *w, int kind, int root)
{
    data d = {.kind = kind, .rank = w->index, .root = root};
    d.send = malloc(N * COUNT * sizeof *d.send);
    d.recv = malloc(N * COUNT * sizeof *d.recv);
    memset(d.recv, 255, N * COUNT * sizeof *d.recv);
    for (int p = 0; p < N; p++)
        for (uint64_t i = 0; i < COUNT; i++)
            d.send[(uint64_t)p * COUNT + i] = value(d.rank, receiver(&d, p), i);
    if (kind == BROADCAST && d.rank == root)
        memcpy(d.recv, d.send, COUNT * sizeof *d.recv);
    return d;
}

static void free_data(data *d)
{
    free(d->send);
    free(d->recv);
}

static rg_req *start(const world *w, const data *d)
{
    rg_set *all = rg_world(w->ctx);
    const rg_op_params opts = {.size = sizeof opts, .root = d->root};
    rg_req *req = NULL;
    rg_status st = RG_OK;
    world_begin_at_once(w);
    switch (d->kind) {
    case BROADCAST:
        st = rg_broadcast_start(all, d->recv, COUNT, RG_I32, &opts, &req);
        break;
    case ALLGATHER:
        st = rg_allgather_start(all, d->send, d->recv, COUNT, RG_I32, NULL,
                                &req);
        break;
    case ALLGATHERV:
        st = rg_allgatherv_start(all, d->send, COUNT, d->recv, counts, NULL,
                                 RG_I32, NULL, &req);
        break;
    case GATHER:
        st = rg_gather_start(all, d->send, d->recv, COUNT, RG_I32, &opts, &req);
        break;
    case SCATTER:
        st =
            rg_scatter_start(all, d->send, d->recv, COUNT, RG_I32, &opts, &req);
        break;
    default:
        st =
            rg_alltoall_start(all, d->send, d->recv, COUNT, RG_I32, NULL, &req);
    }
    CHECK_OK(st);
    return req;
}

static void check_from(const data *d, int from, uint64_t at, int to)
{
    for (uint64_t i = 0; i < COUNT; i++)
        CHECK_EQ(d->recv[at * COUNT + i], value(from, to, i));
}

static void check(const data *d)
{
    if (d->kind == BROADCAST)
        check_from(d, d->root, 0, 0);
    else if (d->kind == SCATTER)
        check_from(d, d->root, 0, d->rank);
    else if (d->kind != GATHER || d->rank == d->root)
        for (int from = 0; from < N; from++)
            check_from(d, from, (uint64_t)from,
                       d->kind == ALLTOALL ? d->rank : 0);
}

/* Also where there are fewer processors than members. */
static rg__native *native_of(const world *w)
{
    rg__native *c = (rg__native *)w->ctx->engine->world->comm;
    if (c->shared->pid == 0)
        c->shared->pid = (uint32_t)getpid();
    return c;
}

/* ------------------------------------------------ owners that are not there */

/* It has read what it needs; others may still read its memory. */
static void go_on_until_read(rg__native *c)
{
    while (!rg__shm_posted(c, c->rank, FLAG_DONE, 1))
        CHECK_EQ(c->base.transport->test(&c->base), RG_IN_PROGRESS);
}

static void be_victim(world *w, const scene *s, data *d)
{
    rg__engine *e = w->ctx->engine;
    world_meet(w); /* the others have posted, and go no further */
    rg_req *req = start(w, d);
    rg__engine_lock(e);
    go_on_until_read(native_of(w));
    memset(d->send, 66, N * COUNT * sizeof *d->send);
    memset(d->recv, 66, N * COUNT * sizeof *d->recv);
    atomic_store(world_word(w, 0), 1);
    if (s->dies)
        _exit(0);
    world_meet(w); /* the others are through */
    rg__engine_unlock(e);
    world_abort(w, w->index, 1);
    rg_wait(&req, -1);
    world_await_left(w);
}

/* Does this rank need what the victim has? */
static bool needs(const scene *s, const data *d)
{
    return s->kind == GATHER ? d->rank == d->root : true;
}

static void be_beside(world *w, const scene *s, const data *d)
{
    rg__engine *e = w->ctx->engine;
    rg_req *req = start(w, d);
    rg__engine_lock(e);
    world_meet(w);
    while (atomic_load(world_word(w, 0)) == 0)
        sched_yield();
    rg__engine_unlock(e);
    const rg_status st = rg_wait(&req, 50);
    CHECK(st == RG_IN_PROGRESS || !needs(s, d));
    world_abort(w, w->index, 1);
    if (st == RG_IN_PROGRESS)
        CHECK_STATUS(rg_wait(&req, -1), RG_ERR_PEER_LOST);
    world_await_left(w);
    if (!s->dies)
        world_meet(w);
}

static void owner_goes(world *w, void *arg)
{
    const scene *s = arg;
    /* the victim owns what is read */
    const int root = s->kind == GATHER ? (s->victim + 1) % N : s->victim;
    data d = make(w, s->kind, root);
    native_of(w);
    if (w->index == s->victim)
        be_victim(w, s, &d);
    else
        be_beside(w, s, &d);
    free_data(&d);
}

/* ------------------------------------------------------- who may not read */

static void all_kinds_are_right(world *w)
{
    native_of(w);
    for (int kind = 0; kind < KINDS; kind++)
        for (int root = 0; root < N; root++) {
            data d = make(w, kind, root);
            rg_req *req = start(w, &d);
            CHECK_OK(rg_wait(&req, -1));
            check(&d);
            free_data(&d);
        }
}

static void none_refused(world *w, void *arg)
{
    (void)arg;
    all_kinds_are_right(w);
    CHECK(!native_of(w)->is_staged);
}

static void one_refused(world *w, void *arg)
{
    (void)arg;
    if (w->index == 1)
        refuse_call(SYS_process_vm_readv, EPERM);
    all_kinds_are_right(w);
    CHECK(native_of(w)->is_staged);
}

static void number_of_another(world *w, void *arg)
{
    (void)arg;
    rg__native *c = native_of(w);
    if (w->index == 2)
        atomic_store(world_word(w, 1), (uint64_t)getpid());
    world_meet(w);
    if (w->index == 1) /* forked by one process, they have equal addresses */
        c->shared->pid = (uint32_t)atomic_load(world_word(w, 1));
    all_kinds_are_right(w);
    CHECK(c->is_staged);
}

/* After some has been read. */
static void refused_later(world *w, void *arg)
{
    none_refused(w, arg);
    world_meet(w);
    one_refused(w, arg);
}

/* ------------------------------------------------------- from which size on */

static bool has_read(const rg__native *c)
{
    for (int m = 0; m < c->n; m++)
        if (c->member[m].read_in != 0)
            return true;
    return false;
}

static void all_stage(world *w, void *arg)
{
    (void)arg;
    all_kinds_are_right(w);
    CHECK(!has_read(native_of(w)));
}

static void all_read(world *w, void *arg)
{
    none_refused(w, arg);
    CHECK(has_read(native_of(w)));
}

/* Those of one member are read, and the others' are staged. */
static void values_differ(world *w, void *arg)
{
    native_of(w)->shared->read_min = w->index == 1 ? 1 : UINT64_MAX;
    none_refused(w, arg);
}

int main(void)
{
    setenv("REGROUP_READ_MIN", "1T", 1);
    world_of(N, all_stage, NULL);
    setenv("REGROUP_READ_MIN", "1", 1);
    world_of(N, all_read, NULL);
    unsetenv("REGROUP_READ_MIN");
    world_of(N, values_differ, NULL);
    world_of(N, none_refused, NULL);
    world_of(N, one_refused, NULL);
    world_of(N, refused_later, NULL);
    world_of(N, number_of_another, NULL);
    for (int kind = 0; kind < KINDS; kind++)
        for (int dies = 0; dies < 2; dies++) {
            scene s = {.kind = kind, .victim = kind % N, .dies = dies};
            world_of(N, owner_goes, &s);
        }
    return 0;
}
