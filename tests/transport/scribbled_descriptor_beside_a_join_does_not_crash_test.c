/* A rank that has joined takes part in the allreduce of the others'
 * descriptors. A descriptor of an impossible one - an unknown type or op, more
 * elements than memory has - is a mismatch, and the join goes on.
 *
 * Covers: shm.c layout.c */
#include <sched.h>

#include "sdk/base/shm.h"
#include "sdk/transport/shm/layout.h"
#include "tests/lib/world.h"

static const rg__descriptor bad[] = {
    {.kind = RG__ALLREDUCE, .type = RG_F64, .count = (UINT64_C(1) << 61) + 1},
    {.kind = RG__ALLREDUCE, .type = RG_U8, .count = UINT64_MAX},
    {.kind = RG__ALLREDUCE, .type = RG_F64, .op = RG_BXOR, .count = 1},
    {.kind = RG__ALLREDUCE, .type = RG_F64, .op = 200, .count = 1},
    {.kind = RG__ALLREDUCE, .type = 200, .count = 1},
};
#define BAD ((int)(sizeof bad / sizeof *bad))

static void join(world *w)
{
    rg_req *req = NULL;
    CHECK_OK(rg_join_start(rg_world(w->ctx), NULL, NULL, &req));
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_PEER_LOST);
}

/* The number of the operation that a member has begun last. */
static uint64_t latest(rg__mailbox *m)
{
    const uint64_t a = atomic_load(&m->entry[0].seq);
    const uint64_t b = atomic_load(&m->entry[1].seq);
    return a > b ? a : b;
}

static void say(rg__mailbox *m, uint64_t seq, const rg__descriptor *line)
{
    rg__entry *e = &m->entry[seq & 1];
    memset(&e->posting, 0, sizeof e->posting);
    e->posting.descriptor = *line;
    atomic_store(&e->seq, seq);
}

/* Each line ends an operation of rank 0's, which then joins again. */
static void scribble(world *w)
{
    size_t bytes = 0;
    char *control = world_control(w, 1, &bytes);
    rg__mailbox *m =
        (rg__mailbox *)(void *)(control +
                                rg__shm_layout(w->n, RG__SETS_MAX).mailboxes);
    uint64_t seq = 0;
    for (int i = 0; i <= BAD; i++) {
        while (latest(&m[0]) == seq)
            sched_yield();
        seq = latest(&m[0]);
        if (i < BAD) {
            say(&m[1], seq, &bad[i]);
            rg__page_ring(world_page(w, 0));
        }
    }
    world_abort(w, 0, 1);
    rg__shm_unmap(control, bytes);
}

static void all(world *w, void *arg)
{
    (void)arg;
    if (w->index == 0)
        join(w);
    else
        scribble(w);
}

int main(void)
{
    world_of(2, all, NULL);
    return 0;
}
