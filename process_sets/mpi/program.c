/* The functions of regroup_mpi.h. They are built on those of regroup.h and add
 * the way from communicators to ranks and back. */
#include <stdlib.h>
#include <string.h>

#include "sdk/base/config.h"
#include "sdk/base/fail.h"
#include "elastic/worker/worker.h"
#include "process_sets/among.h"
#include "sdk/transport/mpi/mend.h"
#include "sdk/transport/mpi/mpi_parts.h"
#include "sdk/transport/mpi/peer_watch.h"
#include "sdk/transport/mpi/session.h"

static rg_status check_comm(const char *what, MPI_Comm comm)
{
    int is_inter = 0;
    rg_status st = RG_OK;
    if (comm != MPI_COMM_NULL)
        st = rg__mpi_status("MPI_Comm_test_inter",
                            MPI_Comm_test_inter(comm, &is_inter));
    if (st != RG_OK || (comm != MPI_COMM_NULL && !is_inter))
        return st;
    return rg__fail(RG_ERR_INVALID,
                    "%s needs an intra-communicator, and got %s", what,
                    is_inter ? "an inter-communicator" : "MPI_COMM_NULL");
}

/* -------------------------------------------------------------- rg_init_mpi */

/* A rank of `regroup run --mpi` has its agent's world, and MPI's is the same.
 */
static rg_status check_agent(MPI_Comm comm)
{
    const rg__library_settings *settings = NULL;
    int how = MPI_UNEQUAL;
    rg_status st = rg__library_settings_get(&settings);
    if (st != RG_OK)
        return st;
    if (settings->launch > 0) {
        st = rg__mpi_refuse_other(MPI_COMM_WORLD);
        if (st == RG_OK)
            st = rg__mpi_status("MPI_Comm_compare",
                                MPI_Comm_compare(comm, MPI_COMM_WORLD, &how));
        if (st != RG_OK || how == MPI_IDENT || how == MPI_CONGRUENT)
            return st;
        return rg__fail(RG_ERR_INVALID,
                        "under --mpi the world is MPI_COMM_WORLD, and "
                        "rg_init_mpi got a communicator of other ranks; pass "
                        "MPI_COMM_WORLD, and make a set of the other one");
    }
    if (settings->socket != NULL && settings->socket[0] != '\0')
        return rg__fail(RG_ERR_INVALID,
                        "rg_init_mpi was called under an agent, which defines "
                        "the world itself; call rg_init");
    return RG_OK;
}

/* Another part of the program may have formed the world before. */
static rg_status check_same(MPI_Comm comm, rg_ctx **ctx_p)
{
    const rg__library_settings *settings = NULL;
    int how = MPI_UNEQUAL;
    if (rg__library_settings_get(&settings) == RG_OK && settings->launch > 0)
        return RG_OK; /* check_agent has compared it */
    if (rg__mpi_world() != MPI_COMM_NULL)
        MPI_Comm_compare(comm, rg__mpi_world(), &how);
    if (how == MPI_IDENT || how == MPI_CONGRUENT)
        return RG_OK;
    rg_finalize(*ctx_p);
    *ctx_p = NULL;
    return rg__fail(RG_ERR_INVALID,
                    "rg_init_mpi got a communicator of other ranks than the "
                    "world that this process has from an earlier call; pass "
                    "the same one, or call rg_init, and make a set of it with "
                    "rg_set_create_mpi");
}

rg_status rg_init_mpi(MPI_Comm comm, const rg_params *params, rg_ctx **ctx_p)
{
    if (!rg__mpi_is_up())
        return rg__fail(RG_ERR_INVALID,
                        "rg_init_mpi needs MPI initialised and not finalised; "
                        "call MPI_Init_thread before, or rg_init; beside a "
                        "session of your own, rg_init_session");
    rg_status st = check_comm("rg_init_mpi", comm);
    if (st == RG_OK)
        st = check_agent(comm);
    if (st != RG_OK)
        return st;
    rg__mpi_hand_over(comm);
    st = rg_init(params, ctx_p);
    rg__mpi_hand_over(MPI_COMM_NULL);
    return st == RG_OK ? check_same(comm, ctx_p) : st;
}

/* Under `regroup run --mpi` the world is the agent's, and needs no session. */
static rg_status check_pset(const char *pset, bool *has_agent_p)
{
    const rg__library_settings *settings = NULL;
    if (pset == NULL || pset[0] == '\0')
        return rg__fail(RG_ERR_INVALID, "rg_init_session needs the name of a "
                                        "process set, such as mpi://WORLD");
    if (rg__process_has_world())
        return rg__fail(RG_ERR_INVALID,
                        "this process has a world from an earlier call; call "
                        "rg_init instead of rg_init_session to share it");
    const rg_status st = rg__library_settings_get(&settings);
    if (st != RG_OK)
        return st;
    *has_agent_p = settings->launch > 0;
    if (*has_agent_p && strcmp(pset, "mpi://WORLD") != 0)
        return rg__fail(RG_ERR_INVALID,
                        "under --mpi the world is mpi://WORLD, and "
                        "rg_init_session got %.100s; make a set of those ranks",
                        pset);
    if (!*has_agent_p && settings->socket != NULL &&
        settings->socket[0] != '\0')
        return rg__fail(RG_ERR_INVALID,
                        "rg_init_session was called under an agent, which "
                        "defines the world itself; call rg_init");
    return RG_OK;
}

rg_status rg_init_session(const char *pset, const rg_params *params,
                          rg_ctx **ctx_p)
{
    bool has_agent = false;
    rg_status st = check_pset(pset, &has_agent);
    if (st == RG_OK && !has_agent)
        st = rg__session_open(pset);
    if (st != RG_OK)
        return st;
    rg__mpi_hand_over_pset(has_agent ? NULL : pset);
    st = rg_init(params, ctx_p);
    rg__mpi_hand_over_pset(NULL);
    return st;
}

/* -------------------------------------------------------- rg_set_create_mpi */

static rg_status check_world(const char *what)
{
    if (rg__mpi_world() == MPI_COMM_NULL || !rg__mpi_is_up())
        return rg__fail(RG_ERR_INVALID,
                        "%s needs a world that was started over MPI, by mpirun "
                        "or rg_init_mpi",
                        what);
    return RG_OK;
}

/* A communicator for agreeing, and its members' ranks in the world. */
typedef struct meeting {
    MPI_Comm comm;
    int *ranks, n;
} meeting;

#define BLOCK 64

/* Counts those of the first n members that are not in the world, and writes
 * their ranks unless ranks is NULL. Allocates nothing, as memory may lack. */
static rg_status translate(MPI_Group group, int n, int *ranks, int *strangers_p)
{
    MPI_Group all;
    int own[BLOCK], there[BLOCK];
    *strangers_p = 0;
    rg_status st =
        rg__mpi_status("MPI_Comm_group", MPI_Comm_group(rg__mpi_world(), &all));
    if (st != RG_OK)
        return st;
    for (int at = 0; at < n && st == RG_OK; at += BLOCK) {
        const int k = n - at < BLOCK ? n - at : BLOCK;
        for (int i = 0; i < k; i++)
            own[i] = at + i;
        st = rg__mpi_status(
            "MPI_Group_translate_ranks",
            MPI_Group_translate_ranks(group, k, own, all, there));
        for (int i = 0; i < k && st == RG_OK; i++)
            *strangers_p += there[i] == MPI_UNDEFINED;
        if (ranks != NULL && st == RG_OK)
            memcpy(ranks + at, there, sizeof *ranks * (size_t)k);
    }
    MPI_Group_free(&all);
    return st;
}

/* The outcome is the same on all members, so none of them waits. */
static rg_status refuse_strangers(MPI_Group group)
{
    int n = 0, strangers = 0;
    MPI_Group_size(group, &n);
    const rg_status st = translate(group, n, NULL, &strangers);
    if (st != RG_OK || strangers == 0)
        return st;
    return rg__fail(RG_ERR_INVALID,
                    "rg_set_create_mpi: %d processes of the communicator are "
                    "not in the world; make one of the world's processes",
                    strangers);
}

/* Copies no attribute or handler of the program. */
static rg_status meet(MPI_Comm from, MPI_Group group, meeting *m)
{
    rg__wait wait = {.call = "MPI_Comm_create", .ranks = m->ranks, .n = m->n};
    rg__watch_enter(&wait);
    const rg_status st =
        rg__mpi_status(wait.call, MPI_Comm_create(from, group, &m->comm));
    rg__watch_leave(&wait);
    if (st == RG_OK)
        MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    return st;
}

static rg_status agree(void *arg, const int64_t in[RG__AMONG],
                       int64_t out[RG__AMONG])
{
    const meeting *m = arg;
    rg__wait wait = {.call = "MPI_Allreduce", .ranks = m->ranks, .n = m->n};
    rg__watch_enter(&wait);
    const rg_status st =
        rg__mpi_status(wait.call, MPI_Allreduce(in, out, RG__AMONG, MPI_INT64_T,
                                                MPI_MAX, m->comm));
    rg__watch_leave(&wait);
    return st;
}

/* The other ranks wait for this one, so it reports a mistake to them. */
static rg_status find_ranks(MPI_Group group, meeting *m)
{
    m->ranks = calloc((size_t)m->n, sizeof *m->ranks);
    if (m->ranks == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d ranks", m->n);
    int strangers = 0;
    return translate(group, m->n, m->ranks, &strangers);
}

static rg_status create_of(rg_ctx *ctx, MPI_Comm comm, MPI_Group group,
                           const rg_set_params *params, rg_set **set_p)
{
    meeting m = {.comm = MPI_COMM_NULL};
    MPI_Group_size(group, &m.n);
    const rg_status bad = find_ranks(group, &m);
    rg_status st = RG_OK;
    if (bad == RG_OK)
        st = rg__watch_check("rg_set_create_mpi", m.ranks, m.n);
    if (st == RG_OK)
        st = meet(comm, group, &m);
    if (st == RG_OK) {
        st = rg__set_create_among(ctx, bad, m.ranks, m.n, params, agree, &m,
                                  set_p);
        if (!rg__watch_has_any_ended())
            rg__mpi_free(&m.comm, m.ranks, m.n);
    }
    free(m.ranks);
    return st;
}

/* MPI_COMM_NULL: this rank is in none of the colours' communicators. */
static rg_status create_none(rg_set **set_p)
{
    if (set_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_create_mpi needs a place for the set");
    *set_p = NULL;
    return RG_OK;
}

rg_status rg_set_create_mpi(rg_ctx *ctx, MPI_Comm comm,
                            const rg_set_params *params, rg_set **set_p)
{
    MPI_Group group;
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_set_create_mpi needs a context");
    rg_status st = check_world("rg_set_create_mpi");
    if (st != RG_OK)
        return st;
    if (comm == MPI_COMM_NULL)
        return create_none(set_p);
    st = check_comm("rg_set_create_mpi", comm);
    if (st == RG_OK)
        st = rg__mpi_status("MPI_Comm_group", MPI_Comm_group(comm, &group));
    if (st != RG_OK)
        return st;
    st = refuse_strangers(group);
    if (st == RG_OK)
        st = create_of(ctx, comm, group, params, set_p);
    MPI_Group_free(&group);
    return st;
}

/* ----------------------------------------------------------- rg_set_mpi_comm
 */

#define NO_PLACE -1

/* Room for data of each of a set's n members, zeroed and owned by the caller:
 * all members have it, or none has. Collective over the set. */
static rg_status make_room(rg_set *set, int n, size_t bytes, void **room_p)
{
    void *room = calloc((size_t)n, bytes);
    const int32_t mine = room != NULL;
    int32_t all = 0;
    rg_status st = rg_allreduce(set, &mine, &all, 1, RG_I32, RG_MIN);
    if (st == RG_OK && all == 0)
        st = rg__fail(RG_ERR_MEMORY, "a rank has no memory for %d ranks", n);
    if (st == RG_OK)
        *room_p = room;
    else
        free(room);
    return st;
}

static rg_status check_places(const int *ranks, int n)
{
    for (int r = 0; r < n; r++)
        if (ranks[r] == NO_PLACE)
            return rg__fail(RG_ERR_INVALID,
                            "rg_set_mpi_comm: rank %d of the set has given no "
                            "place for the communicator",
                            r);
    return RG_OK;
}

rg_status rg_set_mpi_comm(rg_set *set, MPI_Comm *comm_p)
{
    const int n = rg_set_size(set);
    if (set == NULL || rg_set_rank(set) < 0)
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_mpi_comm needs a set that this rank is a "
                        "member of");
    rg_status st = check_world("rg_set_mpi_comm");
    if (st != RG_OK)
        return st;
    void *room = NULL;
    st = make_room(set, n, sizeof(int), &room);
    if (st != RG_OK)
        return st;
    int *ranks = room;
    const int32_t mine = comm_p == NULL ? NO_PLACE : rg__mpi_world_rank();
    st = rg_allgather(set, &mine, ranks, 1, RG_I32);
    if (st == RG_OK)
        st = check_places(ranks, n);
    if (st == RG_OK)
        st = rg__mpi_create(ranks, n, rg_set_id(set), comm_p);
    if (st == RG_OK)
        rg__mpi_lend(*comm_p);
    if (st == RG_OK)
        st = rg__mend_note_lent(*comm_p);
    free(room);
    return st;
}
