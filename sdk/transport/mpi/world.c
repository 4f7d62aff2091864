/* MPI as a launcher: attaching, and which side initialises and finalises what.
 *
 * The program may finalise MPI while Regroup's world is open. MPI tells it by
 * deleting an attribute of MPI_COMM_SELF, the first thing that MPI_Finalize
 * does: the world's comms are closed in that callback. A world from a session
 * (session.h) needs neither, and ends with rg_finalize. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/config.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/transport/mpi/mpi_parts.h"
#include "sdk/transport/mpi/lost.h"
#include "sdk/transport/mpi/peer_watch.h"
#include "sdk/transport/mpi/session.h"

/* One per process, like MPI itself. */
static struct world {
    MPI_Comm handed;        /* given to rg_init_mpi; not ours */
    const char *pset;       /* given to rg_init_session, or NULL */
    MPI_Comm comm;          /* ours */
    MPI_Errhandler handler; /* of the communicator before it */
    int keyval;             /* of the attribute of MPI_COMM_SELF */
    int level;
    bool is_multiple; /* MPI_THREAD_MULTIPLE on all ranks */
    int rank;
    bool is_ours;     /* rg_init has initialised MPI */
    bool is_handed;   /* `handed` is a communicator */
    bool is_attached; /* `comm` is valid */
    bool is_parting;  /* no function is to be called when MPI ends */
    rg__check_mode check;
    pthread_t thread; /* the thread that may call MPI if the level is low */
    void (*ended)(void *arg, const char *why);
    void *arg;
} world;

MPI_Comm rg__mpi_world(void)
{
    return world.is_attached ? world.comm : MPI_COMM_NULL;
}

int rg__mpi_world_rank(void)
{
    return world.rank;
}

rg__check_mode rg__mpi_check(void)
{
    return world.check;
}

void rg__mpi_hand_over(MPI_Comm comm)
{
    world.handed = comm;
    world.is_handed = comm != MPI_COMM_NULL;
}

void rg__mpi_hand_over_pset(const char *pset)
{
    world.pset = pset;
}

bool rg__mpi_is_up(void)
{
    if (rg__session_has_world())
        return true;
    int is_initialised = 0, is_finalised = 0;
    MPI_Initialized(&is_initialised);
    MPI_Finalized(&is_finalised);
    return is_initialised && !is_finalised;
}

bool rg__mpi_are_multiple(void)
{
    return world.is_multiple;
}

bool rg__mpi_is_multiple(void)
{
    return world.level == MPI_THREAD_MULTIPLE;
}

bool rg__mpi_may_call(void)
{
    return world.level >= MPI_THREAD_SERIALIZED ||
           pthread_equal(pthread_self(), world.thread);
}

rg_status rg__mpi_status(const char *call, int code)
{
    if (code == MPI_SUCCESS)
        return RG_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int bytes = 0;
    MPI_Error_string(code, text, &bytes);
    return rg__fail(rg__lost_is_meant(code) ? RG_ERR_PEER_LOST : RG_ERR_SYSTEM,
                    "%s failed: %s", call, text);
}

/* ---------------------------------------------------------------- attaching */

/* The variables in which MPI launchers give a process its rank. */
static const char *const launched_by[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                          "PMI_RANK", "PMIX_RANK"};

bool rg__mpi_is_here(void)
{
    if (world.is_handed || world.pset != NULL || rg__mpi_is_up())
        return true;
    for (size_t i = 0; i < sizeof launched_by / sizeof *launched_by; i++)
        if (getenv(launched_by[i]) != NULL)
            return true;
    return false;
}

static rg_status read_check(void)
{
    static const char *const names[] = {"off", "late", "each"};
    const rg__library_settings *settings = NULL;
    const rg_status st = rg__library_settings_get(&settings);
    if (st != RG_OK)
        return st;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(settings->check, names[i]) == 0) {
            world.check = (rg__check_mode)i;
            return RG_OK;
        }
    return rg__fail(RG_ERR_INVALID,
                    "REGROUP_CHECK is \"%s\"; it can be off, late or each",
                    settings->check);
}

/* from_p: the communicator of the world's processes. */
static rg_status begin_mpi(MPI_Comm *from_p)
{
    if (world.pset != NULL)
        return rg__session_meet(world.pset, from_p, &world.level);
    *from_p = world.is_handed ? world.handed : MPI_COMM_WORLD;
    int is_initialised = 0, is_finalised = 0;
    MPI_Initialized(&is_initialised);
    MPI_Finalized(&is_finalised);
    if (is_finalised)
        return rg__fail(RG_ERR_INVALID, "MPI was finalised before rg_init; "
                                        "call MPI_Finalize after rg_finalize");
    if (!is_initialised) {
        rg__wait wait = {.call = "MPI_Init_thread"};
        rg__watch_enter(&wait);
        const int code =
            MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &world.level);
        rg__watch_leave(&wait);
        world.is_ours = code == MPI_SUCCESS;
        return rg__mpi_status(wait.call, code);
    }
    return rg__mpi_status("MPI_Query_thread", MPI_Query_thread(&world.level));
}

static rg_status note_thread(void)
{
    int is_main = 0;
    world.thread = pthread_self();
    if (world.level >= MPI_THREAD_SERIALIZED || rg__session_has_world())
        return RG_OK;
    MPI_Is_thread_main(&is_main);
    if (is_main)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "rg_init was called by a thread that may not call MPI; "
                    "call it from the one that called MPI_Init, or ask for "
                    "MPI_THREAD_MULTIPLE there");
}

/* A shell in a Slurm allocation has the number of tasks, too. */
static bool is_told_by(const char *name)
{
    return strcmp(name, "SLURM_NTASKS") != 0 ||
           getenv("SLURM_STEP_ID") != NULL || getenv("SLURM_PROCID") != NULL;
}

/* A program that hands over MPI_COMM_SELF, or a small set, means to be alone.
 */
static bool wants_to_be_alone(void)
{
    int how = MPI_UNEQUAL;
    if (world.pset != NULL)
        return strcmp(world.pset, "mpi://WORLD") != 0;
    return world.is_handed &&
           MPI_Comm_compare(world.handed, MPI_COMM_SELF, &how) == MPI_SUCCESS &&
           how == MPI_IDENT;
}

/* Under another MPI's mpirun, or an unknown srun, each task is an
 * MPI_COMM_WORLD of one, and the program would run many times, each time
 * alone. */
rg_status rg__mpi_refuse_other(MPI_Comm from)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_NTASKS"};
    int size = 0;
    MPI_Comm_size(world.pset != NULL ? from : MPI_COMM_WORLD, &size);
    if (size != 1 || wants_to_be_alone())
        return RG_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *value = getenv(sizes[i]);
        if (value != NULL && strtol(value, NULL, 10) > 1 &&
            is_told_by(sizes[i]))
            return rg__fail(RG_ERR_REFUSED,
                            "a launcher started %s tasks (%s), but the MPI of "
                            "this program sees only one: each would be a world "
                            "of its own; start it with the mpirun of the MPI "
                            "that it is linked with, or with an srun that "
                            "knows that MPI (srun --mpi=list)",
                            value, sizes[i]);
    }
    return RG_OK;
}

static void take_communicator(MPI_Comm comm, MPI_Comm from)
{
    world.comm = comm;
    world.is_attached = true;
    MPI_Comm_get_errhandler(from, &world.handler);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

/* Not by dup, which would call the program's attribute functions. A session's
 * communicator is our own already. */
static rg_status own_communicator(MPI_Comm from)
{
    MPI_Group group;
    MPI_Comm_rank(from, &world.rank);
    if (rg__session_has_world()) {
        take_communicator(from, from);
        return RG_OK;
    }
    rg_status st =
        rg__mpi_status("MPI_Comm_group", MPI_Comm_group(from, &group));
    if (st != RG_OK)
        return st;
    MPI_Comm own;
    rg__wait wait = {.call = "MPI_Comm_create"};
    rg__watch_enter(&wait);
    st = rg__mpi_status(wait.call, MPI_Comm_create(from, group, &own));
    rg__watch_leave(&wait);
    MPI_Group_free(&group);
    if (st == RG_OK)
        take_communicator(own, from);
    return st;
}

rg_status rg__mpi_take_world(MPI_Comm comm)
{
    MPI_Comm_rank(comm, &world.rank);
    take_communicator(comm, MPI_COMM_WORLD);
    return rg__mpi_status("MPI_Query_thread", MPI_Query_thread(&world.level));
}

static rg_status bcast_leader(int *leader_p, MPI_Comm host)
{
    rg__wait wait = {.call = "MPI_Bcast"};
    rg__watch_enter(&wait);
    const rg_status st =
        rg__mpi_status(wait.call, MPI_Bcast(leader_p, 1, MPI_INT, 0, host));
    rg__watch_leave(&wait);
    return st;
}

static rg_status find_host(rg__launched *mine)
{
    MPI_Comm host;
    rg__wait wait = {.call = "MPI_Comm_split_type"};
    rg__watch_enter(&wait);
    rg_status st = rg__mpi_status(
        wait.call, MPI_Comm_split_type(world.comm, MPI_COMM_TYPE_SHARED, 0,
                                       MPI_INFO_NULL, &host));
    rg__watch_leave(&wait);
    if (st != RG_OK)
        return st;
    mine->host_leader = world.rank;
    st = bcast_leader(&mine->host_leader, host);
    MPI_Comm_free(&host);
    return st;
}

/* What each process publishes for the others of its host. */
typedef struct shown {
    rg__pid pid;
    int32_t level;
    int32_t host_leader;
} shown;

static rg_status watch_all(const rg__launched *mine, shown *all, rg__pid *pids)
{
    const shown own = {rg__watch_me(), world.level, mine->host_leader};
    const rg_status st = rg__mpi_gather(&own, sizeof own, all);
    if (st != RG_OK)
        return st;
    world.is_multiple = true;
    for (int r = 0; r < mine->size; r++) {
        world.is_multiple &= all[r].level == MPI_THREAD_MULTIPLE;
        if (all[r].host_leader == mine->host_leader)
            pids[r] = all[r].pid;
    }
    return rg__watch_world(pids, mine->size);
}

static rg_status watch_processes(const rg__launched *mine)
{
    const size_t n = (size_t)mine->size;
    shown *all = calloc(n, sizeof *all);
    rg__pid *pids = calloc(n, sizeof *pids);
    const rg_status st =
        all == NULL || pids == NULL
            ? rg__fail(RG_ERR_MEMORY, "no memory for %d ranks", mine->size)
            : watch_all(mine, all, pids);
    free(all);
    free(pids);
    return st;
}

static void free_world(void)
{
    if (!world.is_attached)
        return;
    world.is_attached = false;
    MPI_Errhandler_free(&world.handler);
    rg__mpi_free(&world.comm, NULL, 0);
}

/* MPI_Finalize has begun, on a thread that may call MPI. */
static int on_self_ends(MPI_Comm self, int keyval, void *value, void *extra)
{
    (void)self, (void)keyval, (void)value, (void)extra;
    if (world.is_parting)
        return MPI_SUCCESS;
    world.ended(world.arg, "MPI_Finalize was called, and the world has ended "
                           "with it; call rg_finalize before");
    free_world();
    return MPI_SUCCESS;
}

static rg_status watch_finalize(void)
{
    if (rg__session_has_world())
        return RG_OK;
    rg_status st = rg__mpi_status("MPI_Comm_create_keyval",
                                  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN,
                                                         on_self_ends,
                                                         &world.keyval, NULL));
    if (st == RG_OK)
        st = rg__mpi_status(
            "MPI_Comm_set_attr",
            MPI_Comm_set_attr(MPI_COMM_SELF, world.keyval, &world));
    return st;
}

rg_status rg__mpi_attach(rg__launched *mine_p,
                         void (*ended)(void *arg, const char *why), void *arg)
{
    world.ended = ended;
    world.arg = arg;
    world.is_parting = false;
    world.keyval = MPI_KEYVAL_INVALID;
    MPI_Comm from = MPI_COMM_NULL;
    rg_status st = read_check();
    if (st == RG_OK)
        st = rg__watch_start();
    if (st == RG_OK)
        st = begin_mpi(&from);
    if (st == RG_OK)
        rg__lost_look_up();
    if (st == RG_OK)
        st = note_thread();
    if (st == RG_OK)
        st = rg__mpi_refuse_other(from);
    if (st == RG_OK)
        st = own_communicator(from);
    if (st != RG_OK)
        return st;
    rg__launched mine = {.rank = world.rank};
    MPI_Comm_size(world.comm, &mine.size);
    st = find_host(&mine);
    if (st == RG_OK)
        st = watch_processes(&mine);
    if (st == RG_OK)
        st = watch_finalize();
    if (st == RG_OK)
        *mine_p = mine;
    return st;
}

rg_status rg__mpi_gather(const void *mine, size_t bytes, void *all)
{
    rg__wait wait = {.call = "MPI_Allgather"};
    rg__watch_enter(&wait);
    const rg_status st = rg__mpi_status(
        wait.call, MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes,
                                 MPI_BYTE, world.comm));
    rg__watch_leave(&wait);
    return st;
}

static void finalize_mpi(void)
{
    rg__wait wait = {.call = "MPI_Finalize"};
    rg__watch_enter(&wait);
    MPI_Finalize();
    rg__watch_leave(&wait);
}

static void part(void)
{
    if (!rg__mpi_is_up())
        return;
    world.is_parting = true;
    if (!rg__mpi_may_call()) {
        rg__log(RG__WARN, "mpi",
                "rg_finalize was called by a thread that may not call MPI; "
                "the world's communicator stays");
        return;
    }
    if (rg__lost_any()) {
        rg__log(RG__WARN, "mpi",
                "peers are lost: MPI stays as it is, since MPI_Finalize may "
                "wait for them forever; end with _exit");
        return;
    }
    if (world.keyval != MPI_KEYVAL_INVALID) {
        MPI_Comm_delete_attr(MPI_COMM_SELF, world.keyval);
        MPI_Comm_free_keyval(&world.keyval);
    }
    free_world();
    rg__session_close();
    if (world.is_ours)
        finalize_mpi();
}

void rg__mpi_detach(void)
{
    part();
    rg__watch_stop();
}

/* --------------------------------------------------------- communicators */

rg_status rg__mpi_create(const int *ranks, int n, uint32_t id, MPI_Comm *comm_p)
{
    MPI_Group all, group;
    rg_status st =
        rg__mpi_status("MPI_Comm_group", MPI_Comm_group(world.comm, &all));
    if (st != RG_OK)
        return st;
    st =
        rg__mpi_status("MPI_Group_incl", MPI_Group_incl(all, n, ranks, &group));
    MPI_Group_free(&all);
    if (st != RG_OK)
        return st;
    rg__wait wait = {.call = "MPI_Comm_create_group", .ranks = ranks, .n = n};
    rg__watch_enter(&wait);
    st = rg__mpi_status(
        wait.call, MPI_Comm_create_group(world.comm, group,
                                         (int)(id % RG__MPI_TAGS), comm_p));
    rg__watch_leave(&wait);
    MPI_Group_free(&group);
    if (st == RG_OK) /* MPICH does not inherit the parent's handler */
        st =
            rg__mpi_status("MPI_Comm_set_errhandler",
                           MPI_Comm_set_errhandler(*comm_p, MPI_ERRORS_RETURN));
    return st;
}

void rg__mpi_free(MPI_Comm *comm, const int *ranks, int n)
{
    rg__wait wait = {.call = "MPI_Comm_free", .ranks = ranks, .n = n};
    rg__watch_enter(&wait);
    MPI_Comm_free(comm);
    rg__watch_leave(&wait);
}

void rg__mpi_lend(MPI_Comm comm)
{
    MPI_Comm_set_errhandler(comm, world.handler);
}
