/* The calls of the stand-in for NCCL: libfakenccl.so. */
#include "tests/device/support/comm.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Each call that is declared for the product, as the library's own. */
#define RG__X(need, type, member, symbol, arguments)                           \
    FAKE_API type symbol arguments;
RG__NCCL_CALLS(RG__X)
#undef RG__X

int ncclGetVersion(int *version_p)
{
    *version_p = fake_version();
    return RG__NCCL_Success;
}

const char *ncclGetErrorString(int result)
{
    switch (result) {
#define RG__X(name, value)                                                     \
    case value:                                                                \
        return "nccl" #name;
        RG__NCCL_RESULTS(RG__X)
#undef RG__X
    default:
        return "unknown result code";
    }
}

const char *ncclGetLastError(rg__nccl_comm comm)
{
    (void)comm;
    return fake_told();
}

/* -------------------------------------------------------------- initialisation
 */

int ncclGetUniqueId(rg__nccl_id *id_p)
{
    fake_fault f;
    fake_enter(__func__);
    if (fake_script("id", NULL, &f))
        return f.rc;
    return fake_make_id(id_p);
}

static bool is_config(const rg__nccl_config *config)
{
    return !config || (config->magic == RG__NCCL_MAGIC && config->size >= 24 &&
                       (config->blocking == RG__NCCL_UNSET ||
                        config->blocking == 0 || config->blocking == 1));
}

typedef struct start { /* of a communicator, or of one that is split off */
    rg__nccl_comm comm;
    rg__nccl_id id;
    int color, key;
    rg__nccl_comm *child_p;
    rg__nccl_config config;
} start;

static int run_start(const start *s)
{
    return s->child_p
               ? fake_split(s->comm, s->color, s->key, s->child_p, &s->config)
               : fake_boot(s->comm, &s->id);
}

static void *run_behind(void *arg)
{
    start *s = arg;
    const int rc = run_start(s);
    atomic_store(&s->comm->is_starting, false);
    atomic_store(&s->comm->result, rc); /* the caller goes on */
    free(s);
    fake_thread_ends();
    return NULL;
}

/* Nonblocking: another thread goes on; ncclCommGetAsyncError tells how. */
static int start_behind(const start *what)
{
    start *s = malloc(sizeof *s);
    *s = *what;
    atomic_store(&s->comm->result, RG__NCCL_InProgress);
    atomic_store(&s->comm->is_starting, true);
    fake_thread(run_behind, s);
    return RG__NCCL_InProgress;
}

static int start_now(const start *s)
{
    fake_comm_enter(s->comm, "ncclCommInitRankConfig");
    const int rc = run_start(s);
    fake_comm_leave(s->comm);
    return rc;
}

/* `begin rc=N`: the call itself fails. */
static int look_at_arguments(int n, int rank, const rg__nccl_config *config)
{
    fake_fault f;
    const fake_where where = {rank, n, -1, -1};
    if (fake_device() < 0)
        fake_violation("ncclCommInitRankConfig: the thread has no context, so "
                       "NCCL would take device 0");
    if (fake_script("begin", &where, &f)) {
        fake_tell("the script lets the initialisation fail");
        return f.rc;
    }
    if (n < 1 || n > FAKE_RANKS_MAX || rank < 0 || rank >= n ||
        !is_config(config))
        return RG__NCCL_InvalidArgument;
    return RG__NCCL_Success;
}

int ncclCommInitRankConfig(rg__nccl_comm *comm_p, int n, rg__nccl_id id,
                           int rank, rg__nccl_config *config)
{
    fake_enter(__func__);
    *comm_p = NULL;
    int rc = look_at_arguments(n, rank, config);
    if (rc != RG__NCCL_Success)
        return rc;
    rg__nccl_comm c =
        fake_comm_new(fake_next_number(), fake_is_blocking(config));
    c->rank = rank;
    c->n = n;
    c->device = fake_device();
    *comm_p = c;
    const start s = {.comm = c, .id = id};
    if (!c->is_blocking)
        return start_behind(&s);
    rc = start_now(&s);
    if (rc == RG__NCCL_Success)
        return rc;
    *comm_p = NULL;
    fake_comm_mark(c);
    fake_comms_reclaim(&c, 1);
    return rc;
}

static void look_at_parent(rg__nccl_comm c)
{
    if (atomic_load(&c->out) > 0 || atomic_load(&c->is_starting))
        fake_violation("ncclCommSplit: communicator %d is not still",
                       c->number);
}

/* The group takes the parent's mode; *comm_p stays NULL until it is done. */
int ncclCommSplit(rg__nccl_comm comm, int color, int key, rg__nccl_comm *comm_p,
                  rg__nccl_config *config)
{
    fake_enter(__func__);
    fake_comm_look(comm, __func__);
    look_at_parent(comm);
    *comm_p = NULL;
    if (!is_config(config))
        return RG__NCCL_InvalidArgument;
    const start s = {.comm = comm,
                     .color = color,
                     .key = key,
                     .child_p = comm_p,
                     .config =
                         config ? *config : (rg__nccl_config)RG__NCCL_CONFIG};
    return comm->is_blocking ? start_now(&s) : start_behind(&s);
}

/* `peers noticed`: over sockets a member's end is seen, otherwise never. */
static bool is_end_noticed(rg__nccl_comm c)
{
    fake_fault f;
    return fake_script("peers", NULL, &f) &&
           strcmp(f.verdict, "noticed") == 0 && c->segment &&
           fake_peer_is_gone(c);
}

int ncclCommGetAsyncError(rg__nccl_comm comm, int *result_p)
{
    fake_enter(__func__);
    fake_comm_look(comm, __func__);
    if (atomic_load(&comm->state) != FAKE_LIVE)
        fake_violation("%s: communicator %d is being aborted", __func__,
                       comm->number);
    if (atomic_load(&comm->result) == RG__NCCL_Success && is_end_noticed(comm))
        atomic_store(&comm->result, RG__NCCL_RemoteError);
    *result_p = atomic_load(&comm->result);
    return RG__NCCL_Success;
}

int ncclCommAbort(rg__nccl_comm comm)
{
    fake_enter(__func__);
    fake_comm_look(comm, __func__);
    return fake_group_abort(comm);
}

int ncclGroupStart(void)
{
    fake_enter(__func__);
    return fake_group_start();
}

int ncclGroupEnd(void)
{
    fake_enter(__func__);
    return fake_group_end();
}

/* What the product does not use is not imitated; it may look for them. */
int ncclCommShrink(rg__nccl_comm comm, int *excluded, int n,
                   rg__nccl_comm *comm_p, rg__nccl_config *config, int flags)
{
    fake_violation("%s is not imitated (%p, %p, %d, %p, %p, %d)", __func__,
                   (void *)comm, (void *)excluded, n, (void *)comm_p,
                   (void *)config, flags);
}

int ncclCommRevoke(rg__nccl_comm comm, int flags)
{
    fake_violation("%s is not imitated (%p, %d)", __func__, (void *)comm,
                   flags);
}

/* ------------------------------------------------------------------ operations
 */

static bool is_right(const fake_op *op)
{
    const fake_call *c = &op->call;
    return fake_type_size(c->type) > 0 && c->op >= RG__NCCL_Sum &&
           c->op <= RG__NCCL_Avg && c->root >= 0 && c->root < op->comm->n;
}

static bool is_root(const fake_op *op)
{
    return op->comm->rank == op->call.root;
}

/* How many parts of n elements an operation reads and writes here. */
static size_t parts_read(const fake_op *op)
{
    switch (op->call.kind) {
    case FAKE_REDUCE_SCATTER:
        return (size_t)op->comm->n;
    case FAKE_BROADCAST:
        return is_root(op);
    case FAKE_RECV:
        return 0;
    default:
        return 1;
    }
}

static size_t parts_written(const fake_op *op)
{
    switch (op->call.kind) {
    case FAKE_ALLGATHER:
        return (size_t)op->comm->n;
    case FAKE_REDUCE:
        return is_root(op);
    case FAKE_SEND:
        return 0;
    default:
        return 1;
    }
}

static int add(const char *call, fake_op op, const void *send, void *recv)
{
    fake_enter(call);
    fake_comm_look(op.comm, call);
    if (!op.comm->is_blocking)
        fake_violation("%s: operations of a nonblocking communicator are not "
                       "imitated",
                       call);
    if (!is_right(&op)) {
        fake_tell("%s : invalid type, operator or root", call);
        return RG__NCCL_InvalidArgument;
    }
    const size_t bytes = op.call.n * fake_type_size(op.call.type);
    op.send = fake_alias(call, (uintptr_t)send, parts_read(&op) * bytes);
    op.recv = fake_alias(call, (uintptr_t)recv, parts_written(&op) * bytes);
    fake_group_start();
    fake_group_add(&op);
    return fake_group_end();
}

int ncclAllReduce(const void *send, void *recv, size_t n, int type, int op,
                  rg__nccl_comm comm, rg__cu_stream stream)
{
    const fake_call call = {FAKE_ALLREDUCE, type, op, 0, n};
    return add(__func__,
               (fake_op){.call = call, .comm = comm, .stream = stream}, send,
               recv);
}

int ncclReduce(const void *send, void *recv, size_t n, int type, int op,
               int root, rg__nccl_comm comm, rg__cu_stream stream)
{
    const fake_call call = {FAKE_REDUCE, type, op, root, n};
    return add(__func__,
               (fake_op){.call = call, .comm = comm, .stream = stream}, send,
               recv);
}

int ncclBroadcast(const void *send, void *recv, size_t n, int type, int root,
                  rg__nccl_comm comm, rg__cu_stream stream)
{
    const fake_call call = {FAKE_BROADCAST, type, RG__NCCL_Sum, root, n};
    return add(__func__,
               (fake_op){.call = call, .comm = comm, .stream = stream}, send,
               recv);
}

int ncclAllGather(const void *send, void *recv, size_t n, int type,
                  rg__nccl_comm comm, rg__cu_stream stream)
{
    const fake_call call = {FAKE_ALLGATHER, type, RG__NCCL_Sum, 0, n};
    return add(__func__,
               (fake_op){.call = call, .comm = comm, .stream = stream}, send,
               recv);
}

int ncclReduceScatter(const void *send, void *recv, size_t n, int type, int op,
                      rg__nccl_comm comm, rg__cu_stream stream)
{
    const fake_call call = {FAKE_REDUCE_SCATTER, type, op, 0, n};
    return add(__func__,
               (fake_op){.call = call, .comm = comm, .stream = stream}, send,
               recv);
}

int ncclSend(const void *send, size_t n, int type, int peer, rg__nccl_comm comm,
             rg__cu_stream stream)
{
    const fake_call call = {FAKE_SEND, type, RG__NCCL_Sum, peer, n};
    return add(__func__,
               (fake_op){.call = call, .comm = comm, .stream = stream}, send,
               NULL);
}

int ncclRecv(void *recv, size_t n, int type, int peer, rg__nccl_comm comm,
             rg__cu_stream stream)
{
    const fake_call call = {FAKE_RECV, type, RG__NCCL_Sum, peer, n};
    return add(__func__,
               (fake_op){.call = call, .comm = comm, .stream = stream}, NULL,
               recv);
}
