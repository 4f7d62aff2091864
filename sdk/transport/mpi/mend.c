/* MPI's part of a world whose ranks go on in place, by ULFM: the communicator
 * of those that are left, which takes the place of the one before.
 *
 *   all that Regroup or MPI itself has made is revoked, so that no rank waits
 *   on it for one that has left; what is left is shrunk out of it; each rank
 *   compares that with its agent's members; they agree whether it is right
 *
 * Only the calls of ULFM itself are made, which end even if a rank dies
 * meanwhile. Communicators are never freed: something may be in flight on
 * them. */
#include "sdk/transport/mpi/mend.h"

#include <stdlib.h>

#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/transport/mpi/lost.h"

/* Communicators that the program has got from rg_set_mpi_comm. */
typedef struct lent {
    struct lent *next;
    MPI_Comm comm;
} lent;

static struct mend {
    bool has_begun;
    bool is_made; /* the last round has made a world */
    int keyval;   /* of the attribute that tells when one is freed */
    lent *first;
} mend;

/* --------------------------------------------------------------------- lent */

static int on_freed(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    lent **at = &mend.first;
    while (*at != NULL && *at != value)
        at = &(*at)->next;
    if (*at != NULL)
        *at = (*at)->next;
    free(value);
    return MPI_SUCCESS;
}

rg_status rg__mend_note_lent(MPI_Comm comm)
{
    if (!mend.has_begun)
        return RG_OK;
    lent *one = calloc(1, sizeof *one);
    if (one == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a communicator");
    *one = (lent){mend.first, comm};
    const rg_status st = rg__mpi_status(
        "MPI_Comm_set_attr", MPI_Comm_set_attr(comm, mend.keyval, one));
    if (st == RG_OK)
        mend.first = one;
    else
        free(one);
    return st;
}

/* -------------------------------------------------------------------- begin */

/* MPI_Finalize has begun. Its fence is one of all processes that were launched,
 * and sometimes waits for the dead. */
static int on_finalize(MPI_Comm self, int keyval, void *value, void *extra)
{
    (void)self, (void)keyval, (void)value, (void)extra;
    if (mend.is_made)
        rg__lost_finalize(rg__mpi_world());
    return MPI_SUCCESS;
}

static int watch_finalize(void)
{
    int keyval = MPI_KEYVAL_INVALID;
    const int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize,
                                            &keyval, NULL);
    return code == MPI_SUCCESS ? MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL)
                               : code;
}

/* A failure must reach the caller, and end no rank. */
static void return_errors(MPI_Comm comm)
{
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(comm, &handler);
    if (handler == MPI_ERRORS_ARE_FATAL)
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
}

static rg_status begin(void)
{
    rg__lost_look_up();
    if (!rg__lost_can_shrink())
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "this MPI can't shrink a communicator; --mpi=ulfm "
                        "needs Open MPI 5");
    return_errors(MPI_COMM_WORLD);
    return_errors(MPI_COMM_SELF);
    mend.has_begun = true;
    const rg_status st = rg__mpi_status("MPI_Comm_set_attr", watch_finalize());
    if (st != RG_OK)
        return st;
    return rg__mpi_status("MPI_Comm_create_keyval",
                          MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN,
                                                 on_freed, &mend.keyval, NULL));
}

/* -------------------------------------------------------------------- round */

/* Any rank that waits on one of them stops waiting. */
static void revoke_all(void)
{
    rg__lost_revoke(MPI_COMM_WORLD);
    rg__lost_revoke(rg__mpi_world());
    for (const lent *one = mend.first; one != NULL; one = one->next)
        rg__lost_revoke(one->comm);
}

/* Does it have the processes with these ranks in MPI_COMM_WORLD, in that order?
 */
static bool is_of(MPI_Comm comm, const int *ranks, int n)
{
    MPI_Group all, wanted, got;
    int how = MPI_UNEQUAL;
    if (MPI_Comm_group(MPI_COMM_WORLD, &all) != MPI_SUCCESS)
        return false;
    if (MPI_Group_incl(all, n, ranks, &wanted) == MPI_SUCCESS) {
        if (MPI_Comm_group(comm, &got) == MPI_SUCCESS) {
            MPI_Group_compare(wanted, got, &how);
            MPI_Group_free(&got);
        }
        MPI_Group_free(&wanted);
    }
    MPI_Group_free(&all);
    return how == MPI_IDENT;
}

rg_status rg__mpi_mend(const int *ranks, int n, bool *is_made_p)
{
    MPI_Comm next;
    rg_status st = RG_OK;
    *is_made_p = !rg__mpi_is_up(); /* a program without MPI */
    if (*is_made_p)
        return RG_OK;
    if (!mend.has_begun)
        st = begin();
    if (st == RG_OK && mend.is_made)
        revoke_all();
    mend.is_made = false;
    if (st == RG_OK)
        st = rg__mpi_status("MPIX_Comm_shrink",
                            rg__lost_shrink(rg__mpi_world() != MPI_COMM_NULL
                                                ? rg__mpi_world()
                                                : MPI_COMM_WORLD,
                                            &next));
    if (st != RG_OK)
        return st;
    int is_right = is_of(next, ranks, n);
    const bool agrees = rg__lost_agree(next, &is_right);
    rg__log(RG__DEBUG, "mpi", "what is left is %s the world of %d",
            is_right ? "" : "not ", n);
    st = rg__mpi_take_world(next);
    *is_made_p = mend.is_made = st == RG_OK && agrees && is_right;
    return st;
}
