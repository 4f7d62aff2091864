/* The counts of an uneven allgather that lie in shared memory may agree in
 * pairs and still make no sense: a member that sends more to one than to the
 * others. That is ERR_MISMATCH before a byte was read or written, on one host
 * and across hosts.
 *
 * Covers: shm.c layout.c */
#include <sched.h>

#include "sdk/base/shm.h"
#include "sdk/transport/shm/layout.h"
#include "tests/lib/world.h"

#define MORE ((uint64_t)1 << 20)

/* What all say; to rank 0 the last one lies. */
static rg_status gather(world *w, rg_req **req_p, char *recv)
{
    static const char mine[4] = "abc";
    uint64_t counts[WORLD_MAX];
    for (int r = 0; r < w->n; r++)
        counts[r] = w->index == 0 && r == w->n - 1 ? MORE : 4;
    memset(recv, 77, MORE);
    return rg_allgatherv_start(rg_world(w->ctx), mine, 4, recv, counts, NULL,
                               RG_U8, NULL, req_p);
}

static void be_refused(rg_req **req_p, const char *recv)
{
    CHECK_STATUS(rg_wait(req_p, -1), RG_ERR_MISMATCH);
    for (uint64_t i = 0; i < MORE; i++)
        CHECK_EQ(recv[i], 77);
}

/* A member that starts nothing writes its line and its counts by hand. */
static void say_by_hand(world *w)
{
    size_t bytes = 0;
    char *control = world_control(w, 1, &bytes);
    const rg__layout l = rg__shm_layout(w->n, RG__SETS_MAX);
    rg__mailbox *m = (rg__mailbox *)(void *)(control + l.mailboxes);
    uint64_t seq = 0;
    while (seq == 0) {
        sched_yield();
        for (int i = 0; i < 2; i++)
            seq |= atomic_load(&m[0].entry[i].seq);
    }
    rg__entry *e = &m[1].entry[seq & 1];
    char *slot = control + l.medium + (2 + (seq & 1)) * MEDIUM_BYTES;
    const uint64_t mine[] = {MORE, 0, 0, 0, 4, 0}; /* out, places, in */
    memcpy(slot, mine, sizeof mine);
    memset(&e->posting, 0, sizeof e->posting);
    e->posting.descriptor.kind = RG__ALLGATHERV;
    atomic_store(&e->seq, seq);
    rg__page_ring(world_page(w, 0));
    rg__shm_unmap(control, bytes);
}

static void on_one_host(world *w, void *arg)
{
    char *recv = arg;
    rg_req *req = NULL;
    if (w->index == 1) {
        say_by_hand(w);
    } else {
        CHECK_OK(gather(w, &req, recv));
        be_refused(&req, recv);
    }
    world_meet(w);
}

/* Rank 2 starts alone, writes over its own counts, and then lets the others
 * come. No member reads them in between. */
static void scribble(world *w)
{
    size_t bytes = 0;
    char *control = world_control(w, 1, &bytes);
    rg__mailbox *m =
        (rg__mailbox *)(void *)(control +
                                rg__shm_layout(2, RG__SETS_MAX).mailboxes);
    for (int i = 0; i < 2; i++)
        memcpy(m[1].entry[i].posting.data, &(uint64_t){MORE}, sizeof(uint64_t));
    rg__shm_unmap(control, bytes);
}

static void across_hosts(world *w, void *arg)
{
    char *recv = arg;
    rg_req *req = NULL;
    if (w->index != 2)
        world_meet(w);
    CHECK_OK(gather(w, &req, recv));
    if (w->index == 2) {
        scribble(w);
        world_meet(w);
    }
    be_refused(&req, recv);
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
}

int main(void)
{
    char *recv = malloc(2 * MORE);
    CHECK(recv != NULL);
    world_of(2, on_one_host, recv);
    world_on("011", across_hosts, recv);
    free(recv);
    return 0;
}
