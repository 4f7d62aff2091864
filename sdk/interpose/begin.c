/* MPI_Init: what is interposed is agreed by all ranks, here and once, so that
 * none of them decides by a variable that another lacks. */
#include "sdk/interpose/interpose.h"

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <sysexits.h>

#include "sdk/base/clock.h"
#include "sdk/base/config.h"
#include "sdk/base/log.h"
#include "sdk/transport/names.h"

rg__chosen rg__chosen_here;
int rg__interpose_keyval = MPI_KEYVAL_INVALID;
rg__wait_policy rg__interpose_wait = {
    .pauses = 200,
    .yields = 20,
    .poll_ns = 2 * RG__MS,
    .sleep_ns = RG__MS / 10}; /* nothing rings for MPI */
MPI_Request rg__interpose_never = MPI_REQUEST_NULL;

static int self_keyval = MPI_KEYVAL_INVALID;
static _Atomic uint64_t counts[RG__COLL_KINDS][2]; /* over MPI, over native */

void rg__interpose_count(rg__kind kind, bool is_native)
{
    atomic_fetch_add_explicit(&counts[kind][is_native], 1,
                              memory_order_relaxed);
}

static void tell_counts(void)
{
    for (int kind = 0; kind < RG__COLL_KINDS; kind++) {
        const uint64_t by_mpi = counts[kind][0], native = counts[kind][1];
        if (by_mpi + native > 0)
            rg__log(RG__INFO, "interpose",
                    "%s: %" PRIu64 " of %" PRIu64 " calls went over native "
                    "shared memory",
                    rg__kind_name((uint64_t)kind), native, by_mpi + native);
    }
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first of all. */
static int on_finalize(MPI_Comm self, int keyval, void *value, void *extra)
{
    (void)self, (void)keyval, (void)value, (void)extra;
    tell_counts();
    rg__chosen_here = (rg__chosen){0};
    PMPI_Grequest_complete(rg__interpose_never);
    PMPI_Request_free(&rg__interpose_never);
    return MPI_SUCCESS;
}

/* A request that the program never sees. */
static int on_query(void *extra, MPI_Status *status)
{
    (void)extra;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int on_free(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int on_cancel(void *extra, int is_complete)
{
    (void)extra, (void)is_complete;
    return MPI_SUCCESS;
}

static rg_status read_own(rg__chosen *chosen)
{
    const rg__library_settings *settings = NULL;
    const rg_status st = rg__library_settings_get(&settings);
    return st == RG_OK ? rg__choice_read(settings->interpose, chosen) : st;
}

/* The lowest rank with a mistake tells it, and ends the job. */
static void refuse(rg_status mine)
{
    int rank, first = INT32_MAX;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int own = mine == RG_OK ? INT32_MAX : rank;
    PMPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == first) {
        rg__log(RG__ERROR, "interpose", "%s", rg_last_error());
        PMPI_Abort(MPI_COMM_WORLD, EX_CONFIG);
    }
    PMPI_Barrier(MPI_COMM_WORLD); /* the job ends meanwhile */
}

static int prepare(void)
{
    int code =
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, rg__native_set_free,
                                &rg__interpose_keyval, NULL);
    if (code == MPI_SUCCESS)
        code = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize,
                                       &self_keyval, NULL);
    if (code == MPI_SUCCESS)
        code = PMPI_Grequest_start(on_query, on_free, on_cancel, NULL,
                                   &rg__interpose_never);
    if (code == MPI_SUCCESS)
        code = PMPI_Comm_set_attr(MPI_COMM_SELF, self_keyval, NULL);
    rg__types_begin();
    return code;
}

/* Where each rank of a host has a processor, MPI does not yield, and a rank
 * that did would lose its processor to any other program. */
static int choose_wait(void)
{
    MPI_Comm here;
    cpu_set_t mine, all;
    int n = 0;
    int code = PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                                    MPI_INFO_NULL, &here);
    if (code != MPI_SUCCESS)
        return code;
    CPU_ZERO(&mine);
    CPU_ZERO(&all);
    sched_getaffinity(0, sizeof mine, &mine);
    PMPI_Comm_size(here, &n);
    code =
        PMPI_Allreduce(&mine, &all, (int)sizeof mine, MPI_BYTE, MPI_BOR, here);
    rg__interpose_wait.keeps_processor = n <= CPU_COUNT(&all);
    PMPI_Comm_free(&here);
    return code;
}

static void warn_of_difference(int32_t all, int32_t some)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (all != some && rank == 0)
        rg__log(RG__WARN, "interpose",
                "REGROUP_INTERPOSE differs between ranks: only what all of "
                "them name is interposed");
}

/* Collective over MPI_COMM_WORLD, also where the variable is not set: another
 * rank may have it. */
static int begin(void)
{
    rg__chosen own = {0};
    const rg_status st = read_own(&own);
    const int mine[4] = {own.on, own.always, st == RG_OK, ~own.on};
    int all[4];
    int code = PMPI_Allreduce(mine, all, 4, MPI_INT, MPI_BAND, MPI_COMM_WORLD);
    if (code != MPI_SUCCESS)
        return code;
    if (!all[2])
        refuse(st);
    warn_of_difference(all[0], ~all[3]);
    if (all[0] == 0)
        return MPI_SUCCESS;
    code = prepare();
    if (code == MPI_SUCCESS)
        code = choose_wait();
    if (code == MPI_SUCCESS)
        rg__chosen_here = (rg__chosen){.on = all[0], .always = all[1]};
    return code;
}

int MPI_Init(int *argc, char ***argv)
{
    const int code = PMPI_Init(argc, argv);
    return code == MPI_SUCCESS ? begin() : code;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int code = PMPI_Init_thread(argc, argv, required, provided);
    return code == MPI_SUCCESS ? begin() : code;
}
