/* The functions of regroup_mpi.h. They stand on those of regroup.h: what they
 * add is the way from communicators to ranks and back. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/config.h"
#include "sdk/base/fail.h"
#include "process_sets/held.h"
#include "sdk/base/hash.h"
#include "sdk/transport/mpi/mpi_parts.h"

#define NAME_MAX_ 32

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

/* A rank of `regroup run --mpi` has its agent's world, which is that of MPI. */
static rg_status check_agent(MPI_Comm comm)
{
    const rg__library_settings *settings = NULL;
    int how = MPI_UNEQUAL;
    rg_status st = rg__library_settings_get(&settings);
    if (st != RG_OK)
        return st;
    if (settings->launch > 0) {
        st = rg__mpi_status("MPI_Comm_compare",
                            MPI_Comm_compare(comm, MPI_COMM_WORLD, &how));
        if (st != RG_OK || how == MPI_IDENT || how == MPI_CONGRUENT)
            return st;
        return rg__fail(RG_ERR_INVALID,
                        "under --mpi the world is MPI_COMM_WORLD, and "
                        "rg_init_mpi got a communicator of other ranks; hand "
                        "MPI_COMM_WORLD over, and make a set of the other one");
    }
    if (settings->socket != NULL && settings->socket[0] != '\0')
        return rg__fail(RG_ERR_INVALID,
                        "rg_init_mpi was called under an agent, which says "
                        "itself what the world is; call rg_init");
    return RG_OK;
}

rg_status rg_init_mpi(MPI_Comm comm, const rg_params *params, rg_ctx **ctx_p)
{
    if (!rg__mpi_is_up())
        return rg__fail(RG_ERR_INVALID,
                        "rg_init_mpi needs MPI initialised and not finalised; "
                        "call MPI_Init_thread before, or rg_init");
    rg_status st = check_comm("rg_init_mpi", comm);
    if (st == RG_OK)
        st = check_agent(comm);
    if (st != RG_OK)
        return st;
    rg__mpi_hand_over(comm);
    st = rg_init(params, ctx_p);
    rg__mpi_hand_over(MPI_COMM_NULL);
    return st;
}

/* -------------------------------------------------------- rg_set_create_mpi */

enum {
    BRINGS_NONE,
    BRINGS_COMM,
    BRINGS_FOREIGN,
    BRINGS_BAD,
    BRINGS_BAD_PARAMS
};

/* What a rank shows of the communicator that it brings. */
typedef struct brought {
    int32_t brings;
    int32_t leader;  /* world rank of its rank 0 */
    int32_t n, at;   /* its size, and my rank in it */
    uint64_t digest; /* of its world ranks */
    char name[NAME_MAX_];
} brought;

/* World ranks of a group; -1 for a process outside of the world. */
static rg_status translate(MPI_Group group, int n, int *ranks)
{
    MPI_Group all;
    int *own = malloc(sizeof *own * (size_t)n);
    if (own == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d ranks", n);
    for (int i = 0; i < n; i++)
        own[i] = i;
    rg_status st =
        rg__mpi_status("MPI_Comm_group", MPI_Comm_group(rg__mpi_world(), &all));
    if (st == RG_OK) {
        st = rg__mpi_status(
            "MPI_Group_translate_ranks",
            MPI_Group_translate_ranks(group, n, own, all, ranks));
        MPI_Group_free(&all);
    }
    free(own);
    return st;
}

static void look_at_ranks(brought *s, const int *ranks)
{
    s->brings = BRINGS_COMM;
    s->leader = ranks[0];
    s->digest = RG__MIX_BEGIN;
    for (int i = 0; i < s->n; i++) {
        if (ranks[i] == MPI_UNDEFINED)
            s->brings = BRINGS_FOREIGN;
        s->digest = rg__mix(s->digest, (uint64_t)(uint32_t)ranks[i]);
    }
}

static rg_status look_at(MPI_Comm comm, brought *s)
{
    MPI_Group group;
    rg_status st =
        rg__mpi_status("MPI_Comm_group", MPI_Comm_group(comm, &group));
    if (st != RG_OK)
        return st;
    MPI_Group_size(group, &s->n);
    MPI_Group_rank(group, &s->at);
    int *ranks = malloc(sizeof *ranks * (size_t)s->n);
    st = ranks == NULL ? rg__fail(RG_ERR_MEMORY, "no memory for %d ranks", s->n)
                       : translate(group, s->n, ranks);
    if (st == RG_OK)
        look_at_ranks(s, ranks);
    free(ranks);
    MPI_Group_free(&group);
    return st;
}

static bool are_bad(const rg_set_params *params)
{
    return params != NULL &&
           (params->size < offsetof(rg_set_params, keep) ||
            params->size > sizeof *params ||
            (params->name != NULL &&
             (params->name[0] == '\0' ||
              strnlen(params->name, NAME_MAX_) == NAME_MAX_)));
}

/* Whatever is wrong here is shown to all, so that they fail together. */
static brought show(MPI_Comm comm, const rg_set_params *params, rg_set **set_p)
{
    brought s = {.brings = BRINGS_NONE};
    if (are_bad(params)) {
        s.brings = BRINGS_BAD_PARAMS;
        return s;
    }
    if (params != NULL && params->name != NULL)
        snprintf(s.name, sizeof s.name, "%s", params->name);
    if (set_p == NULL)
        s.brings = BRINGS_BAD;
    else if (comm != MPI_COMM_NULL &&
             (check_comm("rg_set_create_mpi", comm) != RG_OK ||
              look_at(comm, &s) != RG_OK))
        s.brings = BRINGS_BAD;
    return s;
}

static rg_status check_brought(const brought *all, int size)
{
    for (int r = 0; r < size; r++) {
        if (all[r].brings == BRINGS_FOREIGN)
            return rg__fail(RG_ERR_INVALID,
                            "rg_set_create_mpi: the communicator of rank %d "
                            "has a process that is not in the world; make one "
                            "of the world's processes",
                            r);
        if (all[r].brings == BRINGS_BAD)
            return rg__fail(RG_ERR_INVALID,
                            "rg_set_create_mpi: rank %d brought no "
                            "intra-communicator, or no place for the set",
                            r);
        if (all[r].brings == BRINGS_BAD_PARAMS)
            return rg__fail(RG_ERR_INVALID,
                            "rg_set_create_mpi: rank %d's rg_set_params are "
                            "wrong; set size to sizeof(rg_set_params), and "
                            "give a name of 1 to %d bytes or none",
                            r, NAME_MAX_ - 1);
    }
    return RG_OK;
}

/* Is rank r's the same communicator as its leader's, brought by as many as it
 * has? */
static bool is_complete(const brought *all, int size, int r)
{
    const brought *first = &all[all[r].leader];
    int n = 0;
    for (int q = 0; q < size; q++)
        n += all[q].brings == BRINGS_COMM && all[q].leader == all[r].leader &&
             all[q].n == first->n && all[q].digest == first->digest &&
             strcmp(all[q].name, first->name) == 0;
    return first->brings == BRINGS_COMM && first->at == 0 && n == first->n &&
           all[r].digest == first->digest && all[r].n == first->n;
}

static rg_status check_complete(const brought *all, int size)
{
    for (int r = 0; r < size; r++)
        if (all[r].brings == BRINGS_COMM && !is_complete(all, size, r))
            return rg__fail(RG_ERR_MISMATCH,
                            "rg_set_create_mpi: not all processes of the "
                            "communicator that rank %d brought, of %d, have "
                            "brought it, and with one name",
                            r, all[r].n);
    return RG_OK;
}

/* What a rank knows of a communicator's set. */
typedef struct led {
    rg_set *set;
    rg_set *made; /* the same where it is new; NULL: it lived already */
} led;

static bool has_members(rg_ctx *ctx, const rg_set *set, const int *ranks, int n)
{
    bool is_same = rg_set_size(set) == n;
    for (int i = 0, at = 0; i < n && is_same; i++)
        is_same =
            rg_set_translate(rg_world(ctx), &ranks[i], 1, set, &at) == RG_OK &&
            at == i;
    return is_same;
}

/* Does a set of that name and these ranks live, and do all of them have its
 * handle? The other ranks gave theirs back when it was made, so rg_set_create
 * would miss it there. Collective over the world. */
static rg_status find_held(rg_ctx *ctx, const char *name, const int *ranks,
                           int n, bool is_member, rg_set **held_p,
                           bool *lives_p)
{
    rg_set *held = rg__set_held(ctx, name);
    const bool is_same = held != NULL && has_members(ctx, held, ranks, n);
    const bool is_other = held != NULL && !is_same;
    const int64_t id = is_same ? rg_set_id(held) : 0;
    const int64_t mine[] = {is_other ? rg_rank(ctx) + 1 : 0, is_member ? id : 0,
                            is_member ? -id : INT64_MIN};
    int64_t most[] = {0, 0, 0};
    const rg_status st =
        rg_allreduce(rg_world(ctx), mine, most, 3, RG_I64, RG_MAX);
    if (st != RG_OK)
        return st;
    if (most[0] != 0)
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_create_mpi: set %s lives with other members on "
                        "rank %d; destroy it first, or choose another name",
                        name, (int)most[0] - 1);
    *lives_p = most[1] != 0 && most[1] == -most[2];
    *held_p = is_member ? held : NULL;
    return RG_OK;
}

static bool brings(const brought *one, int leader)
{
    return one->brings == BRINGS_COMM && one->leader == leader;
}

/* The set of the communicator that is led by that rank; collective over the
 * world. */
static rg_status create_led(rg_ctx *ctx, const brought *all, int *ranks,
                            int size, int leader, led *led_p)
{
    for (int r = 0; r < size; r++)
        if (brings(&all[r], leader))
            ranks[all[r].at] = r;
    const char *name = all[leader].name[0] == '\0' ? NULL : all[leader].name;
    const rg_set_params params = {.size = sizeof params, .name = name};
    const int n = all[leader].n;
    led found = {0};
    bool lives = false;
    rg_status st = RG_OK;
    if (name != NULL)
        st = find_held(ctx, name, ranks, n, brings(&all[rg_rank(ctx)], leader),
                       &found.set, &lives);
    if (st == RG_OK && !lives) {
        st = rg_set_create(ctx, ranks, n, &params, &found.made);
        found.set = found.made;
    }
    if (st == RG_OK)
        *led_p = found;
    return st;
}

/* One after another, by all ranks; a rank keeps its own. */
static rg_status create_each(rg_ctx *ctx, const brought *all, int *ranks,
                             int size, rg_set **set_p)
{
    led own = {0};
    for (int r = 0; r < size; r++) {
        if (!brings(&all[r], r))
            continue;
        led one = {0};
        const rg_status st = create_led(ctx, all, ranks, size, r, &one);
        if (st != RG_OK) {
            rg_set_destroy(own.made);
            return st;
        }
        if (brings(&all[rg_rank(ctx)], r))
            own = one;
        else
            rg_set_destroy(one.made);
    }
    *set_p = own.set;
    return RG_OK;
}

static rg_status check_world(const char *what)
{
    if (rg__mpi_world() == MPI_COMM_NULL || !rg__mpi_is_up())
        return rg__fail(RG_ERR_INVALID,
                        "%s needs a world that was started over MPI, by mpirun "
                        "or rg_init_mpi",
                        what);
    return RG_OK;
}

/* Room for something of each of a set's n members, zeroed, owned by the caller:
 * all of them have it, or none has. Collective over the set. */
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

rg_status rg_set_create_mpi(rg_ctx *ctx, MPI_Comm comm,
                            const rg_set_params *params, rg_set **set_p)
{
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_set_create_mpi needs a context");
    rg_status st = check_world("rg_set_create_mpi");
    if (st != RG_OK)
        return st;
    const int size = rg_size(ctx);
    const brought mine = show(comm, params, set_p);
    void *room = NULL;
    st = make_room(rg_world(ctx), size, sizeof(brought) + sizeof(int), &room);
    if (st != RG_OK)
        return st;
    brought *all = room;
    int *ranks = (int *)(void *)(all + size);
    st = rg_allgather(rg_world(ctx), &mine, all, sizeof mine, RG_U8);
    if (st == RG_OK)
        st = check_brought(all, size);
    if (st == RG_OK)
        st = check_complete(all, size);
    if (st == RG_OK)
        st = create_each(ctx, all, ranks, size, set_p);
    free(room);
    return st;
}

/* ---------------------------------------------------------- rg_set_mpi_comm */

#define NO_PLACE -1

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
    free(room);
    return st;
}
