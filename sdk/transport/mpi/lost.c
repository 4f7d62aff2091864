/* ULFM, as far as this MPI has it (lost.h). */
#include "sdk/transport/mpi/lost.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/transport/mpi/mpi_comm.h"
#include "sdk/transport/mpi/peer_watch.h"
#include "sdk/transport/mpi/session.h"

#define LOST_NS     (1000 * RG__MS) /* for MPI to know which rank it is */
#define RANKS_SHOWN 24

/* Error classes of Open MPI 5; 4.1's ABI has them too, its header not. */
#if defined(MPIX_ERR_PROC_FAILED)
enum {
    FAILED = MPIX_ERR_PROC_FAILED,
    PENDING = MPIX_ERR_PROC_FAILED_PENDING,
    REVOKED = MPIX_ERR_REVOKED
};
#elif defined(OPEN_MPI)
enum { FAILED = 75, PENDING, REVOKED };
#else
enum { FAILED = -1, PENDING = -1, REVOKED = -1 }; /* no class is below 0 */
#endif

static struct ulfm {
    int (*revoke)(MPI_Comm);
    int (*ack)(MPI_Comm);
    int (*get_acked)(MPI_Comm, MPI_Group *);
    int (*shrink)(MPI_Comm, MPI_Comm *);
    int (*agree)(MPI_Comm, int *);
    bool is_there, has_lost;
    bool *has_no_fence; /* Open MPI's own: MPI_Finalize begins without one */
} ulfm;

bool rg__mpi_look_up(const char *name, void *function_p)
{
    void *at = dlsym(RTLD_DEFAULT, name);
    memcpy(function_p, &at, sizeof at);
    return at != NULL;
}

void rg__lost_look_up(void)
{
    ulfm.is_there =
        rg__mpi_look_up("MPIX_Comm_revoke", &ulfm.revoke) &&
        rg__mpi_look_up("MPIX_Comm_failure_ack", &ulfm.ack) &&
        rg__mpi_look_up("MPIX_Comm_failure_get_acked", &ulfm.get_acked);
    rg__mpi_look_up("MPIX_Comm_shrink", &ulfm.shrink);
    rg__mpi_look_up("MPIX_Comm_agree", &ulfm.agree);
    rg__mpi_look_up("ompi_async_mpi_finalize", &ulfm.has_no_fence);
}

bool rg__lost_can_shrink(void)
{
    return ulfm.is_there && ulfm.shrink != NULL && ulfm.agree != NULL;
}

void rg__lost_revoke(MPI_Comm comm)
{
    ulfm.revoke(comm);
}

int rg__lost_shrink(MPI_Comm comm, MPI_Comm *left_p)
{
    return ulfm.shrink(comm, left_p);
}

bool rg__lost_agree(MPI_Comm comm, int *all_p)
{
    return ulfm.agree(comm, all_p) == MPI_SUCCESS;
}

void rg__lost_finalize(MPI_Comm left)
{
    int all = 1;
    if (ulfm.has_no_fence == NULL)
        return;
    rg__lost_agree(left, &all);
    *ulfm.has_no_fence = true;
}

bool rg__lost_is_meant(int code)
{
    int class = MPI_SUCCESS;
    if (ulfm.is_there)
        MPI_Error_class(code, &class);
    return class == FAILED || class == PENDING || class == REVOKED;
}

void rg__lost_note(MPI_Comm on)
{
    if (ulfm.is_there)
        ulfm.ack(on);
}

bool rg__lost_any(void)
{
    return ulfm.has_lost || rg__watch_has_any_ended();
}

bool rg__lost_is(const rg__mpi *c, int m)
{
    return rg__watch_has_ended(c->ranks == NULL ? m : c->ranks[m]);
}

bool rg__lost_in(const rg__mpi *c)
{
    bool is_lost = c->lost_ns != 0;
    for (int m = 0; m < c->n && !is_lost; m++)
        is_lost = rg__lost_is(c, m);
    return is_lost;
}

/* ---------------------------------------------------- the rank that is lost */

/* The set ranks of a group, at most RANKS_SHOWN; returns how many. */
static int ranks_of(MPI_Group lost, MPI_Comm of, int *ranks)
{
    int own[RANKS_SHOWN], n = 0;
    MPI_Group all;
    MPI_Group_size(lost, &n);
    n = n < RANKS_SHOWN ? n : RANKS_SHOWN;
    for (int i = 0; i < n; i++)
        own[i] = i;
    if (n == 0 || MPI_Comm_group(of, &all) != MPI_SUCCESS)
        return 0;
    if (MPI_Group_translate_ranks(lost, n, own, all, ranks) != MPI_SUCCESS)
        n = 0;
    MPI_Group_free(&all);
    return n;
}

static int find_lost(MPI_Comm of, int *ranks)
{
    MPI_Group lost;
    int is_here = 0; /* nothing comes, but MPI gets to notice failures */
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG,
               rg__session_has_world() ? rg__mpi_world() : MPI_COMM_SELF,
               &is_here, MPI_STATUS_IGNORE);
    if (ulfm.ack(of) != MPI_SUCCESS || ulfm.get_acked(of, &lost) != MPI_SUCCESS)
        return 0;
    const int n = ranks_of(lost, of, ranks);
    MPI_Group_free(&lost);
    return n;
}

static rg_status say(const rg__mpi *c, const int *ranks, int n, const char *why)
{
    char text[16 * RANKS_SHOWN] = "a member";
    size_t used = 0;
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d",
                                 i > 0    ? ","
                                 : n == 1 ? "rank "
                                          : "ranks ",
                                 ranks[i]);
    return rg__fail(RG_ERR_PEER_LOST,
                    "%s of %s %s lost (%s); the set is over, go on with "
                    "sets without %s or end the job",
                    text, rg__set_words(c->id).text, n > 1 ? "are" : "is", why,
                    n > 1 ? "them" : "it");
}

rg_status rg__lost_name(rg__mpi *c, const char *why)
{
    int ranks[RANKS_SHOWN];
    const uint64_t now = rg__now_ns();
    ulfm.has_lost = true;
    if (c->lost_ns == 0) {
        c->lost_ns = now;
        c->failed = strdup(why);
        ulfm.revoke(c->mpi);
    }
    const int n = find_lost(c->mpi, ranks);
    if (n == 0 && now - c->lost_ns < LOST_NS)
        return RG_IN_PROGRESS;
    return say(c, ranks, n, c->failed == NULL ? why : c->failed);
}
