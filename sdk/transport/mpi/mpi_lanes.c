/* Lanes of messages (messages/) over MPI: pieces with a tag of their own on the
 * world's communicator. A piece is copied, so that what MPI holds is never the
 * program's; a message ends when MPI has sent its last piece, since from then
 * on perhaps no thread calls MPI here. */
#include <stdlib.h>
#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/transport/mpi/mpi_lanes.h"
#include "sdk/transport/mpi/mpi_parts.h"

#define PIECE_BYTES ((size_t)64 << 10)
#define PIECES      4
#define TAG         RG__MPI_TAGS /* no operation's */

typedef struct piece {
    MPI_Request request; /* MPI_REQUEST_NULL: free */
    size_t n;
    char data[PIECE_BYTES];
} piece;

/* The pieces to and from one rank. */
typedef struct lane {
    piece *out[PIECES]; /* owned, like `in`; NULL: not used yet */
    unsigned next, oldest;
    uint64_t settled;
    piece *in;
    size_t in_at;
    bool has_in;
} lane;

struct rg__mpi_lanes {
    MPI_Comm comm;
    int n;
    lane *lane;
    rg__messages *messages;
};

static piece *make_piece(void)
{
    piece *p = malloc(sizeof *p);
    if (p != NULL)
        p->request = MPI_REQUEST_NULL;
    return p;
}

/* Has it completed? false: not yet, or MPI has failed. */
static bool is_complete(rg__mpi_lanes *all, int rank, piece *p)
{
    int is_there = 0;
    if (p->request == MPI_REQUEST_NULL)
        return true;
    const rg_status st = rg__mpi_status(
        "MPI_Test", MPI_Test(&p->request, &is_there, MPI_STATUS_IGNORE));
    if (st != RG_OK)
        rg__messages_fail(all->messages, rank, rg_last_error());
    return st == RG_OK && is_there;
}

/* ------------------------------------------------------------------- slots */

static uint64_t lane_settled(void *arg, int rank)
{
    rg__mpi_lanes *all = arg;
    lane *l = &all->lane[rank];
    while (l->oldest != l->next) {
        piece *p = l->out[l->oldest % PIECES];
        if (!is_complete(all, rank, p))
            break;
        l->settled += p->n;
        l->oldest++;
    }
    return l->settled;
}

static size_t lane_put(void *arg, int rank, const char *from, size_t n)
{
    rg__mpi_lanes *all = arg;
    lane *l = &all->lane[rank];
    lane_settled(all, rank);
    if (l->next - l->oldest == PIECES)
        return 0;
    piece **at = &l->out[l->next % PIECES];
    if (*at == NULL)
        *at = make_piece();
    piece *p = *at;
    if (p == NULL)
        return 0;
    p->n = n < PIECE_BYTES ? n : PIECE_BYTES;
    rg__copy(p->data, from, p->n);
    const rg_status st = rg__mpi_status(
        "MPI_Isend", MPI_Isend(p->data, (int)p->n, MPI_PACKED, rank, TAG,
                               all->comm, &p->request));
    if (st != RG_OK) {
        rg__messages_fail(all->messages, rank, rg_last_error());
        return 0;
    }
    l->next++;
    return p->n;
}

/* A piece that has come, or is coming. */
static rg_status probe(rg__mpi_lanes *all, int rank, lane *l)
{
    int is_there = 0, bytes = 0;
    MPI_Message message;
    MPI_Status status;
    rg_status st = rg__mpi_status(
        "MPI_Improbe",
        MPI_Improbe(rank, TAG, all->comm, &is_there, &message, &status));
    if (st != RG_OK || !is_there)
        return st;
    MPI_Get_count(&status, MPI_PACKED, &bytes);
    l->in->n = (size_t)bytes;
    l->in_at = 0;
    l->has_in = true;
    return rg__mpi_status(
        "MPI_Imrecv",
        MPI_Imrecv(l->in->data, bytes, MPI_PACKED, &message, &l->in->request));
}

static bool fetch(rg__mpi_lanes *all, int rank, lane *l)
{
    if (l->in == NULL)
        l->in = make_piece();
    if (l->in == NULL)
        return false;
    const rg_status st = l->has_in ? RG_OK : probe(all, rank, l);
    if (st != RG_OK)
        rg__messages_fail(all->messages, rank, rg_last_error());
    return st == RG_OK && l->has_in && is_complete(all, rank, l->in);
}

static size_t lane_get(void *arg, int rank, char *to, size_t n)
{
    rg__mpi_lanes *all = arg;
    lane *l = &all->lane[rank];
    if (!fetch(all, rank, l))
        return 0;
    if (n > l->in->n - l->in_at)
        n = l->in->n - l->in_at;
    rg__copy(to, l->in->data + l->in_at, n);
    l->in_at += n;
    l->has_in = l->in_at < l->in->n;
    return n;
}

/* -------------------------------------------------------------------- life */

static const rg__lane_fns fns = {
    .put = lane_put, .get = lane_get, .settled = lane_settled};

rg_status rg__mpi_lanes_open(MPI_Comm comm, int n, rg__mpi_lanes **lanes_p)
{
    rg__mpi_lanes *all = calloc(1, sizeof *all);
    lane *lanes = calloc((size_t)n, sizeof *lanes);
    rg_status st = all == NULL || lanes == NULL
                       ? rg__fail(RG_ERR_MEMORY, "no memory for messages")
                       : rg__messages_create(n, &fns, all, &all->messages);
    if (st != RG_OK) {
        free(all);
        free(lanes);
        return st;
    }
    all->comm = comm;
    all->n = n;
    all->lane = lanes;
    *lanes_p = all;
    return RG_OK;
}

/* MPI goes on using pieces that are under way. */
static void free_piece(piece *p)
{
    int is_there = 1;
    if (p == NULL)
        return;
    if (p->request != MPI_REQUEST_NULL)
        MPI_Test(&p->request, &is_there, MPI_STATUS_IGNORE);
    if (is_there)
        free(p);
}

void rg__mpi_lanes_close(rg__mpi_lanes *all)
{
    if (all == NULL)
        return;
    rg__messages_destroy(all->messages);
    for (int r = 0; r < all->n; r++) {
        for (int i = 0; i < PIECES; i++)
            free_piece(all->lane[r].out[i]);
        free_piece(all->lane[r].in);
    }
    free(all->lane);
    free(all);
}

rg__messages *rg__mpi_lanes_messages(const rg__mpi_lanes *all)
{
    return all->messages;
}
