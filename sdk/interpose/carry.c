/* Waiting for an operation to end. A native wait also moves MPI on: another
 * rank may wait for a message of this one before it comes here. */
#include "sdk/interpose/interpose.h"

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/page.h"

#define MPI_ROUNDS 64              /* of looking at memory, and one of MPI */
#define LOOK_NS    (1000 * RG__MS) /* at the processes that are waited for */

typedef struct waiting {
    uint64_t since_ns;  /* nothing has moved; 0: not known yet */
    uint64_t looked_ns; /* at processes */
    int suspect;        /* rank that had ended then; -1: none */
} waiting;

/* Testing a request that is not complete moves all of MPI on; looking for a
 * message does not in MPICH, on a communicator of one. The handle is copied, as
 * several threads may wait. */
static void move_mpi(void)
{
    MPI_Request never = rg__interpose_never;
    int is_complete;
    PMPI_Test(&never, &is_complete, MPI_STATUS_IGNORE);
}

static int find_ended(const rg__native_set *set)
{
    int ranks[RG__HOST_SLOTS_MAX];
    const int n =
        set->comm->transport->awaited(set->comm, ranks, RG__HOST_SLOTS_MAX);
    for (int i = 0; i < n; i++)
        if (rg__life_is_over(&set->life[ranks[i]]))
            return ranks[i];
    return -1;
}

/* A launcher ends a job whose rank has died: this wait ends a second later, if
 * the launcher does not. */
static rg_status look_at_peers(const rg__native_set *set, waiting *w)
{
    const uint64_t now = rg__now_ns();
    if (now - w->since_ns < LOOK_NS || now - w->looked_ns < LOOK_NS)
        return RG_OK;
    w->looked_ns = now;
    const int rank = find_ended(set);
    if (rank < 0 || rank != w->suspect) {
        w->suspect = rank;
        return RG_OK;
    }
    return rg__fail(RG_ERR_PEER_LOST,
                    "the process of rank %d (pid %d) has ended, and a "
                    "collective waits for it",
                    rank, (int)set->life[rank].pid);
}

static rg_status sleep_a_little(rg__native_set *set)
{
    rg__comm *comm = set->comm;
    rg__bell *bell = comm->transport->bell(comm);
    const rg__word word = {&bell->seq, atomic_load(&bell->seq)};
    atomic_store(&bell->wants, rg__set_bit(0));
    const rg_status st = comm->transport->test(comm);
    if (st == RG_IN_PROGRESS)
        rg__futex_wait_any(&word, 1, rg__interpose_wait.sleep_ns);
    atomic_store(&bell->wants, 0);
    return st;
}

/* Nothing has moved for some rounds. */
static rg_status wait_longer(rg__native_set *set, waiting *w)
{
    const uint64_t now = rg__now_ns();
    if (w->since_ns == 0)
        w->since_ns = now;
    move_mpi();
    if (now - w->since_ns < rg__interpose_wait.poll_ns) {
        rg__rest(&rg__interpose_wait);
        return RG_IN_PROGRESS;
    }
    const rg_status st = look_at_peers(set, w);
    return st == RG_OK ? sleep_a_little(set) : st;
}

static rg_status run(rg__native_set *set, const rg__coll *coll)
{
    rg__comm *comm = set->comm;
    waiting w = {.suspect = -1};
    uint32_t round = 0;
    rg_status st = comm->transport->start(comm, coll);
    if (st == RG_OK)
        st = RG_IN_PROGRESS;
    while (st == RG_IN_PROGRESS) {
        const uint64_t moves = comm->moves;
        st = comm->transport->test(comm);
        if (st != RG_IN_PROGRESS)
            break;
        if (comm->moves != moves) {
            round = 0;
            w.since_ns = 0;
        } else if (!rg__spin(&rg__interpose_wait, round++)) {
            st = wait_longer(set, &w);
        } else if (round % MPI_ROUNDS == 0) {
            move_mpi();
        }
    }
    return st;
}

/* The handler of the program's communicator decides, as for an error of MPI. */
static int fail(MPI_Comm comm)
{
    rg__log(RG__ERROR, "interpose", "%s", rg_last_error());
    PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

int rg__carry(rg__native_set *set, MPI_Comm comm, const rg__coll *coll)
{
    rg__interpose_count(coll->kind, true);
    if (set->is_over)
        rg__fail(RG_ERR_PEER_LOST, "a rank of this communicator was lost");
    const rg_status st = set->is_over ? RG_ERR_PEER_LOST : run(set, coll);
    if (st == RG_OK)
        return MPI_SUCCESS;
    set->is_over = st != RG_ERR_MISMATCH;
    return fail(comm);
}
