/* Ranks that go on in place (--mpi=ulfm). Their agents agree on the next world,
 * and the Regroup thread makes it, as in any other job. What is left is MPI's
 * own part: from the processes that it still has it must arrive at exactly the
 * members of that world. This is tried again while processes die; if it takes
 * too long, all ranks are launched again. */
#include "elastic/worker/worker.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"

#define AGAIN_NS (1 * RG__MS)

static int find_at_launch(const rg__worker *w, rg__member_id m)
{
    int rank = 0;
    while (rank < w->launched_n &&
           memcmp(&w->launched[rank], &m, sizeof m) != 0)
        rank++;
    return rank;
}

/* One round, with the world that was taken up. */
static rg_status try(const rg__worker *w, const rg__launcher *mpi,
                     bool *is_made_p)
{
    const rg__membership *now = &w->ctx->now;
    int *ranks = calloc((size_t)now->size, sizeof *ranks);
    if (ranks == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d ranks", now->size);
    for (int r = 0; r < now->size; r++)
        ranks[r] = find_at_launch(w, now->member[r]);
    rg__failpoint("mend", now->rank, 0, now->generation);
    const rg_status st = mpi->mend(ranks, now->size, is_made_p);
    free(ranks);
    return st;
}

static void begin(rg__worker *w)
{
    pthread_mutex_lock(&w->lock);
    if (w->mending_ns == 0)
        w->mending_ns = rg__now_ns();
    pthread_mutex_unlock(&w->lock);
}

/* If another decision is here by now, its time has begun. */
static void end(rg__worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->has_mended = true;
    if (w->decided.generation == w->taken)
        w->mending_ns = 0;
    pthread_mutex_unlock(&w->lock);
}

/* MPI and agents differ: a rank has just died, and one of them knows. */
static rg_status look_again(rg__worker *w, rg__decided *decided)
{
    bool is_done = false;
    if (!rg__worker_has_world(w, decided))
        return rg__worker_await(w, decided, &is_done);
    rg__sleep_ns(AGAIN_NS);
    return RG_OK;
}

static const rg__launcher *find_mpi(void)
{
    if (rg__launcher_get() == NULL)
        rg__adapter_load();
    return rg__launcher_get();
}

rg_status rg__worker_mend(rg__worker *w, rg__decided *decided)
{
    const rg__launcher *mpi = w->mend_ms != 0 ? find_mpi() : NULL;
    bool is_done = false;
    if (mpi == NULL)
        return RG_OK;
    begin(w);
    for (bool is_made = false; !is_made;) {
        rg_status st = try(w, mpi, &is_made);
        if (st == RG_OK && !is_made)
            st = look_again(w, decided);
        else if (st != RG_OK) {
            rg__worker_ask_launch(w, rg_last_error());
            st = rg__worker_await(w, decided, &is_done);
        }
        if (st != RG_OK)
            return st;
    }
    end(w);
    return RG_OK;
}
