/* The uneven forms: what two members send and expect of each other is compared.
 *
 *   each    before a byte moves: each member tells each other what it sends,
 *   and all tell all what they have found; the set goes on
 *   late    a member's count goes before its data, and the data are received
 *           once it was the expected one; a member that finds a difference
 *           tells all, and the set is over
 *   off     not at all */
#include "sdk/transport/mpi/check.h"

bool rg__uneven_is(const rg__mpi *c)
{
    const rg__kind kind = c->coll.kind;
    return kind == RG__GATHERV || kind == RG__SCATTERV ||
           kind == RG__ALLGATHERV || kind == RG__ALLTOALLV;
}

static rg__pair pair_from(const rg__mpi *c, int r)
{
    return (rg__pair){.from = r,
                      .to = c->rank,
                      .sends = c->collected[r],
                      .expects = rg__elements_from(c, r).count};
}

/* The first difference between this and another member; from -1: none. */
static rg__pair find(const rg__mpi *c)
{
    for (int r = 0; r < c->n; r++) {
        const rg__pair p = pair_from(c, r);
        if (p.sends != p.expects)
            return p;
    }
    return (rg__pair){.from = -1};
}

/* -------------------------------------------------------------------- each */

static rg_status after_found(rg__mpi *c)
{
    for (int m = 0; m < c->n; m++)
        if (c->found[m].from >= 0)
            return rg__elements_differ(c, c->coll.kind, &c->found[m]);
    c->stage = c->next;
    return c->stage(c);
}

static rg_status tell_found(rg__mpi *c)
{
    c->mine_found = find(c);
    c->stage = after_found;
    return rg__mpi_posted("MPI_Iallgather",
                          MPI_Iallgather(&c->mine_found, (int)sizeof(rg__pair),
                                         MPI_BYTE, c->found,
                                         (int)sizeof(rg__pair), MPI_BYTE,
                                         c->mpi, rg__mpi_request(c)));
}

rg_status rg__uneven_compare(rg__mpi *c)
{
    for (int r = 0; r < c->n; r++)
        c->told[r] = rg__elements_to(c, r).count;
    c->stage = tell_found;
    return rg__mpi_posted("MPI_Ialltoall",
                          MPI_Ialltoall(c->told, 1, MPI_UINT64_T, c->collected,
                                        1, MPI_UINT64_T, c->mpi,
                                        rg__mpi_request(c)));
}

/* -------------------------------------------------------------------- late */

/* Counts that are equal on all members are part of what they have started. */
static bool has_counts_of_its_own(const rg__mpi *c, int r)
{
    const rg__kind kind = c->coll.kind;
    return r != c->rank && (kind == RG__ALLTOALLV ||
                            (kind != RG__ALLGATHERV &&
                             (c->rank == c->coll.root || r == c->coll.root)));
}

rg_status rg__mpi_collect(rg__mpi *c, int r)
{
    MPI_Request *request = rg__mpi_request(c);
    return request == NULL
               ? RG_ERR_MEMORY
               : rg__mpi_status("MPI_Irecv",
                                MPI_Irecv(&c->collected[r], 1, MPI_UINT64_T, r,
                                          c->tag, c->mpi, request));
}

rg_status rg__mpi_tell(rg__mpi *c, int r)
{
    MPI_Request *request = rg__mpi_request(c);
    return request == NULL
               ? RG_ERR_MEMORY
               : rg__mpi_status("MPI_Isend",
                                MPI_Isend(&c->told[r], 1, MPI_UINT64_T, r,
                                          c->tag, c->mpi, request));
}

rg_status rg__uneven_tell(rg__mpi *c)
{
    rg_status st = RG_OK;
    for (int r = 0; r < c->n; r++) {
        c->told[r] = rg__elements_to(c, r).count;
        c->collected[r] =
            r == c->rank ? c->told[r] : rg__elements_from(c, r).count;
    }
    for (int i = 1; i < c->n && st == RG_OK; i++) {
        const int r = (c->rank + c->n - i) % c->n;
        if (has_counts_of_its_own(c, r))
            st = rg__mpi_collect(c, r);
    }
    rg__mpi_need_so_far(c);
    for (int i = 1; i < c->n && st == RG_OK; i++) {
        const int r = (c->rank + i) % c->n;
        if (has_counts_of_its_own(c, r))
            st = rg__mpi_tell(c, r);
    }
    return st;
}

rg_status rg__uneven_collected(rg__mpi *c)
{
    const rg__pair p = find(c);
    return p.from < 0 ? RG_OK : rg__check_differs(c, &p);
}
