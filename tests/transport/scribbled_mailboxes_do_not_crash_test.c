/* A worker can write anything over the control segment. What others read there
 * is checked: a place outside of a segment is ERR_MISMATCH on all ranks, and
 * random bytes give some status or none, but no worker crashes and an abort
 * ends every wait.
 *
 * Covers: shm.c layout.c zero_copy.c */
#include "sdk/transport/shm/layout.h"
#include "sdk/base/shm.h"
#include "tests/lib/world.h"

#define COUNT 50000

static rg__mailbox *mailbox_of(world *w, char *control, int rank)
{
    const rg__layout l = rg__shm_layout(w->n, RG__SETS_MAX);
    return (rg__mailbox *)(void *)(control + l.mailboxes) + rank;
}

/* Rank 1 starts alone, writes over its own line, and then lets the others come.
 * No thread advances its operation in between. */
static void bad_place(world *w, uint64_t at)
{
    size_t bytes = 0;
    char *control = world_control(w, 1, &bytes);
    int32_t *data = (int32_t *)(void *)w->alloc;
    rg_req *req = NULL;
    if (w->index != 1)
        world_meet(w);
    world_begin_at_once(w);
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), data, data, COUNT, RG_I32,
                                RG_SUM, NULL, &req));
    if (w->index == 1) {
        for (int i = 0; i < 2; i++)
            mailbox_of(w, control, 1)->entry[i].posting.at.send_at = at;
        world_meet(w);
    }
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_MISMATCH);
    CHECK(strstr(rg_last_error(), "rank 1 of the world names memory outside"));
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    rg__shm_unmap(control, bytes);
}

static void bad_places(world *w, void *arg)
{
    (void)arg;
    memset(w->alloc, 0, COUNT * 4);
    bad_place(w, UINT64_MAX);
    bad_place(w, UINT64_MAX - COUNT * 4 + 1);
    bad_place(w, w->alloc_bytes);
    bad_place(w, w->alloc_bytes - COUNT * 4 + 1);
}

/* ---------------------------------------------------------------- at random */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t interesting(uint64_t r)
{
    static const uint64_t values[] = {0,    1,          2,         96,
                                      8192, UINT64_MAX, 1ull << 32};
    return r % 3 == 0 ? r : values[r % 7];
}

static void scribble(world *w, uint64_t *state)
{
    size_t bytes = 0;
    char *control = world_control(w, 1, &bytes);
    const rg__layout l = rg__shm_layout(w->n, RG__SETS_MAX);
    const uint64_t words = (uint64_t)w->n * sizeof(rg__mailbox) / 8;
    uint64_t *at = (uint64_t *)(void *)(control + l.mailboxes);
    uint64_t *bells = (uint64_t *)(void *)control;
    while (atomic_load(world_word(w, 0)) == 0) {
        const uint64_t r = next_random(state);
        __atomic_store_n(&at[r % words], interesting(next_random(state)),
                         __ATOMIC_RELAXED);
        if (r % 64 == 0)
            __atomic_store_n(&bells[r % ((uint64_t)w->n * 16)],
                             next_random(state), __ATOMIC_RELAXED);
    }
    rg__shm_unmap(control, bytes);
}

static rg_status start_some(world *w, uint64_t r, rg_req **req_p)
{
    rg_set *set = rg_world(w->ctx);
    char *at = r % 2 == 0 ? w->alloc : w->alloc + (1 << 20);
    const uint64_t count = r % 5 == 0 ? 3 : r % 5 == 1 ? 3000 : 100000;
    switch (r / 16 % 3) {
    case 0:
        return rg_allreduce_start(set, at, at, count, RG_U8, RG_SUM, NULL,
                                  req_p);
    case 1:
        return rg_broadcast_start(set, at, count, RG_U8, NULL, req_p);
    default:
        return rg_allgather_start(set, w->alloc, w->alloc + (1 << 20), count,
                                  RG_U8, NULL, req_p);
    }
}

static void work(world *w)
{
    uint64_t state = 12345; /* all start the same */
    rg_status st = RG_OK;
    for (int i = 0; i < 2000 && st != RG_IN_PROGRESS; i++) {
        rg_req *req = NULL;
        CHECK_OK(start_some(w, next_random(&state), &req));
        st = rg_wait(&req, 200);
        if (st == RG_IN_PROGRESS) {
            world_abort(w, w->index, 1);
            st = rg_wait(&req, -1);
            CHECK(st != RG_IN_PROGRESS);
            break;
        }
    }
}

static void at_random(world *w, void *arg)
{
    uint64_t state = *(uint64_t *)arg;
    if (w->index == 0) {
        scribble(w, &state);
        return;
    }
    work(w);
    atomic_fetch_add(world_word(w, 1), 1);
    if (atomic_load(world_word(w, 1)) == (uint64_t)w->n - 1)
        atomic_store(world_word(w, 0), 1);
}

int main(void)
{
    world_of(3, bad_places, NULL);
    for (uint64_t seed = 1; seed <= 5; seed++)
        world_of(3, at_random, &seed);
    return 0;
}
