/* Operations: from Regroup's kinds to NCCL's, launched by their caller in the
 * caller's stream, and known to have ended by a word that the stream writes
 * after them.
 *
 * Each operation under way has a word of its own: two streams of one set may
 * write theirs in either order. */
#include "sdk/transport/nccl/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/transport/names.h"

#define SOON_NS  (100 * RG__MS) /* short sleeps until then */
#define SHORT_NS (RG__MS / 20)
#define LONG_NS  (RG__MS / 2)

/* ------------------------------------------------------- what NCCL can do */

/* -1: NCCL has no such type, or op. */
static int type_of(rg_type type)
{
    static const int types[] = {
        [RG_I8] = RG__NCCL_Int8,       [RG_U8] = RG__NCCL_Uint8,
        [RG_BOOL] = RG__NCCL_Uint8,    [RG_I32] = RG__NCCL_Int32,
        [RG_U32] = RG__NCCL_Uint32,    [RG_I64] = RG__NCCL_Int64,
        [RG_U64] = RG__NCCL_Uint64,    [RG_F16] = RG__NCCL_Float16,
        [RG_BF16] = RG__NCCL_Bfloat16, [RG_F32] = RG__NCCL_Float32,
        [RG_F64] = RG__NCCL_Float64};
    return rg__type_is_pair(type) ? -1 : types[type];
}

static int op_of(rg_op op)
{
    static const int ops[] = {[RG_SUM] = RG__NCCL_Sum,
                              [RG_AVG] = RG__NCCL_Avg,
                              [RG_MIN] = RG__NCCL_Min,
                              [RG_MAX] = RG__NCCL_Max,
                              [RG_PROD] = RG__NCCL_Prod};
    return op > RG_PROD ? -1 : ops[op];
}

static rg_status refuse(const rg__coll *o, const char *what)
{
    return rg__fail(RG_ERR_UNSUPPORTED,
                    "%s on device memory: %s; see regroup_cuda.h",
                    rg__kind_name(o->kind), what);
}

rg_status rg__launch_check(const rg__device *d, const rg__coll *o)
{
    if (o->kind == RG__JOIN)
        return refuse(o, "a rank that has joined takes part in others' "
                         "operations, which works in host memory only; instead "
                         "of joining, go on with elements that add nothing");
    if (o->count > 0 && type_of(o->type) < 0)
        return refuse(o, "NCCL has no pairs");
    if (!rg__kind_adds(o->kind))
        return RG_OK;
    if (o->type == RG_BOOL || op_of(o->op) < 0)
        return refuse(o, "NCCL has no such reduction");
    return rg__scale_check(d, o);
}

/* ------------------------------------------------------------- NCCL's calls */

/* A launch, with what all of its calls need. */
typedef struct run {
    rg__device *d;
    const rg__nccl *nccl;
    const rg__lane *lane;
    const rg__coll *o; /* the operation; not valid after the call */
    rg__kind kind;     /* its kind, kept after the call */
    rg__cu_stream stream;
    size_t element;
    int type;
    int rc; /* NCCL's code of the first call that failed */
    int cu; /* the driver's code, likewise */
} run;

static char *at(const void *p, size_t element, uint64_t place)
{
    return (char *)(uintptr_t)p + place * element;
}

static char *in_send(const run *r, uint64_t place)
{
    return at(r->o->send, r->element, place);
}

static char *in_recv(const run *r, uint64_t place)
{
    return at(r->o->recv, r->element, place);
}

static void note(run *r, int rc)
{
    if (r->rc == RG__NCCL_Success)
        r->rc = rc;
}

static void copy(run *r, void *to, const void *from, uint64_t count)
{
    if (to == from || count == 0 || r->cu != RG__CU_SUCCESS)
        return;
    r->cu = r->d->cuda.call.copy_within((rg__cu_address)(uintptr_t)to,
                                        (rg__cu_address)(uintptr_t)from,
                                        count * r->element, r->stream);
}

static void send_to(run *r, const void *from, uint64_t count, int peer)
{
    if (count > 0)
        note(r, r->nccl->send(from, count, r->type, peer, r->lane->comm,
                              r->stream));
}

static void receive_from(run *r, void *to, uint64_t count, int peer)
{
    if (count > 0)
        note(r,
             r->nccl->recv(to, count, r->type, peer, r->lane->comm, r->stream));
}

static void allreduce(run *r)
{
    const rg__coll *o = r->o;
    note(r, r->nccl->allreduce(o->send, o->recv, o->count, r->type,
                               op_of(o->op), r->lane->comm, r->stream));
}

static void reduce(run *r)
{
    const rg__coll *o = r->o;
    note(r, r->nccl->reduce(o->send, o->recv, o->count, r->type, op_of(o->op),
                            o->root, r->lane->comm, r->stream));
}

static void broadcast(run *r)
{
    const rg__coll *o = r->o;
    note(r, r->nccl->broadcast(o->recv, o->recv, o->count, r->type, o->root,
                               r->lane->comm, r->stream));
}

/* In place at the beginning of recv: the data move to their own part first. */
static void allgather(run *r)
{
    const rg__coll *o = r->o;
    const char *mine = o->send;
    if (o->send == o->recv) {
        mine = in_recv(r, (uint64_t)r->lane->rank * o->count);
        copy(r, in_recv(r, (uint64_t)r->lane->rank * o->count), o->send,
             o->count);
    }
    note(r, r->nccl->allgather(mine, o->recv, o->count, r->type, r->lane->comm,
                               r->stream));
}

static void allgatherv(run *r)
{
    const rg__coll *o = r->o;
    r->nccl->group_start();
    for (int k = 0; k < r->lane->n; k++) {
        char *to = in_recv(r, o->recv_places[k]);
        const void *from = k == r->lane->rank ? o->send : to;
        if (o->recv_counts[k] > 0)
            note(r, r->nccl->broadcast(from, to, o->recv_counts[k], r->type, k,
                                       r->lane->comm, r->stream));
    }
    note(r, r->nccl->group_end());
}

static void reduce_scatter(run *r)
{
    const rg__coll *o = r->o;
    note(r, r->nccl->reduce_scatter(o->send, o->recv, o->count, r->type,
                                    op_of(o->op), r->lane->comm, r->stream));
}

static void reduce_scatterv(run *r)
{
    const rg__coll *o = r->o;
    uint64_t place = 0;
    r->nccl->group_start();
    for (int k = 0; k < r->lane->n; k++) {
        if (o->recv_counts[k] > 0)
            note(r, r->nccl->reduce(in_send(r, place), o->recv,
                                    o->recv_counts[k], r->type, op_of(o->op), k,
                                    r->lane->comm, r->stream));
        place += o->recv_counts[k];
    }
    note(r, r->nccl->group_end());
}

/* Count and place of rank k's part: as given, or equal parts in a row. */
static uint64_t count_of(const rg__coll *o, const uint64_t *counts, int k)
{
    return counts != NULL ? counts[k] : o->count;
}

static uint64_t place_of(const rg__coll *o, const uint64_t *places, int k)
{
    return places != NULL ? places[k] : (uint64_t)k * o->count;
}

static void gather(run *r)
{
    const rg__coll *o = r->o;
    if (r->lane->rank != o->root) {
        send_to(r, o->send, o->count, o->root);
        return;
    }
    copy(r, in_recv(r, place_of(o, o->recv_places, o->root)), o->send,
         o->count);
    r->nccl->group_start();
    for (int k = 0; k < r->lane->n; k++)
        if (k != o->root)
            receive_from(r, in_recv(r, place_of(o, o->recv_places, k)),
                         count_of(o, o->recv_counts, k), k);
    note(r, r->nccl->group_end());
}

static void scatter(run *r)
{
    const rg__coll *o = r->o;
    if (r->lane->rank != o->root) {
        receive_from(r, o->recv, o->count, o->root);
        return;
    }
    copy(r, o->recv, in_send(r, place_of(o, o->send_places, o->root)),
         o->count);
    r->nccl->group_start();
    for (int k = 0; k < r->lane->n; k++)
        if (k != o->root)
            send_to(r, in_send(r, place_of(o, o->send_places, k)),
                    count_of(o, o->send_counts, k), k);
    note(r, r->nccl->group_end());
}

static void alltoall(run *r)
{
    const rg__coll *o = r->o;
    const int me = r->lane->rank;
    copy(r, in_recv(r, place_of(o, o->recv_places, me)),
         in_send(r, place_of(o, o->send_places, me)),
         count_of(o, o->send_counts, me));
    r->nccl->group_start();
    for (int k = 0; k < r->lane->n; k++) {
        if (k == me)
            continue;
        send_to(r, in_send(r, place_of(o, o->send_places, k)),
                count_of(o, o->send_counts, k), k);
        receive_from(r, in_recv(r, place_of(o, o->recv_places, k)),
                     count_of(o, o->recv_counts, k), k);
    }
    note(r, r->nccl->group_end());
}

/* An allreduce of one number of the lane's, which nothing reads. */
static void barrier(run *r)
{
    const rg__cu_address word =
        r->d->scratch + (size_t)r->lane->row * RG__SCRATCH;
    void *p = (void *)(uintptr_t)word;
    note(r, r->nccl->allreduce(p, p, 1, RG__NCCL_Int32, RG__NCCL_Max,
                               r->lane->comm, r->stream));
}

static void (*const calls[RG__COLL_KINDS])(run *r) = {
    [RG__ALLREDUCE] = allreduce,
    [RG__BROADCAST] = broadcast,
    [RG__ALLGATHER] = allgather,
    [RG__BARRIER] = barrier,
    [RG__REDUCE] = reduce,
    [RG__REDUCE_SCATTER] = reduce_scatter,
    [RG__REDUCE_SCATTERV] = reduce_scatterv,
    [RG__ALLGATHERV] = allgatherv,
    [RG__GATHER] = gather,
    [RG__GATHERV] = gather,
    [RG__SCATTER] = scatter,
    [RG__SCATTERV] = scatter,
    [RG__ALLTOALL] = alltoall,
    [RG__ALLTOALLV] = alltoall};

/* A set of one rank: everything is a copy, and NCCL is not used. */
static void copy_alone(run *r)
{
    const rg__coll *o = r->o;
    if (o->kind == RG__BROADCAST || o->kind == RG__BARRIER)
        return;
    const uint64_t count =
        o->kind == RG__ALLTOALLV ? o->send_counts[0] : o->count;
    const uint64_t from = o->send_places != NULL ? o->send_places[0] : 0;
    const uint64_t to = o->recv_places != NULL ? o->recv_places[0] : 0;
    copy(r, in_recv(r, to), in_send(r, from), count);
}

/* ------------------------------------------------------------------ launch */

/* A mistake of the caller? Any other code means an unusable device. */
static bool is_of_caller(int rc)
{
    return rc == RG__CU_ERROR_INVALID_VALUE ||
           rc == RG__CU_ERROR_INVALID_HANDLE ||
           rc == RG__CU_ERROR_INVALID_CONTEXT;
}

static rg_status check_stream(rg__device *d, const rg__coll *o,
                              rg__cu_stream stream)
{
    int status = RG__CU_STREAM_CAPTURE_STATUS_NONE;
    const int rc = d->cuda.call.stream_capturing(stream, &status);
    if (rc != RG__CU_SUCCESS)
        return rg__cuda_fail(&d->cuda.call,
                             is_of_caller(rc) ? RG_ERR_INVALID : RG_ERR_DEVICE,
                             rc, "the stream can't be used");
    return status == RG__CU_STREAM_CAPTURE_STATUS_NONE
               ? RG_OK
               : refuse(o, "its stream is being captured, and a graph would "
                           "outlive the communicator");
}

/* The first deadline of n; 0: none has one. */
static int shortest(const rg__launch *launch, int n)
{
    int ms = 0;
    for (int i = 0; i < n; i++)
        if (launch[i].timeout_ms > 0 && (ms == 0 || launch[i].timeout_ms < ms))
            ms = launch[i].timeout_ms;
    return ms;
}

static void note_operation(rg__lane *lane, uint32_t slot,
                           const rg__launch *launch, int n)
{
    rg__lane_operation *op = &lane->operation[slot];
    const uint64_t now = rg__now_ns();
    const int ms = shortest(launch, n);
    atomic_store_explicit(&op->n, (uint32_t)n, memory_order_relaxed);
    atomic_store_explicit(&op->count, launch->coll.count, memory_order_relaxed);
    atomic_store_explicit(&op->kind, (uint32_t)launch->coll.kind,
                          memory_order_relaxed);
    atomic_store_explicit(&op->started_ns, now, memory_order_relaxed);
    atomic_store_explicit(&op->is_told, 0, memory_order_relaxed);
    atomic_store_explicit(&op->deadline_ns,
                          ms > 0 ? now + (uint64_t)ms * RG__MS : 0,
                          memory_order_relaxed);
}

/* *is_broken_p: the generation must end, once the lock is free. */
static rg_status judge(rg__device *d, const run *r, bool *is_broken_p)
{
    const rg__lane *lane = r->lane;
    if (r->rc == RG__NCCL_Success && r->cu == RG__CU_SUCCESS)
        return RG_OK;
    if (rg__device_is_closed(d, lane->generation))
        return rg__device_check(d, lane->generation);
    if (r->rc == RG__NCCL_InvalidArgument || r->rc == RG__NCCL_InvalidUsage)
        return rg__fail(RG_ERR_INVALID, "set %s: NCCL refused the %s: %s",
                        lane->name, rg__kind_name(r->kind),
                        r->nccl->last_error(lane->comm));
    *is_broken_p = true;
    if (r->rc != RG__NCCL_Success)
        return rg__fail(RG_ERR_PEER_LOST, "set %s: NCCL failed in the %s: %s",
                        lane->name, rg__kind_name(r->kind),
                        r->nccl->error_string(r->rc));
    return rg__cuda_fail(&d->cuda.call, RG_ERR_DEVICE, r->cu,
                         "an operation can't be enqueued");
}

static void call_each(run *r, const rg__scaled *each, int n)
{
    const bool is_group = n > 1 && r->lane->n > 1;
    if (is_group)
        r->nccl->group_start();
    for (int i = 0; i < n; i++) {
        r->o = &each[i].coll;
        r->kind = r->o->kind;
        r->element = rg_type_size(r->o->type);
        r->type = type_of(r->o->type);
        if (r->lane->n == 1)
            copy_alone(r);
        else
            calls[r->o->kind](r);
    }
    if (is_group)
        note(r, r->nccl->group_end());
}

/* Within an NCCL group nothing runs before its end: so everything that comes
 * before it is enqueued first, and what comes after it last. */
static void call_all(run *r, rg__scaled *each, int n)
{
    for (int i = 0; i < n && r->cu == RG__CU_SUCCESS; i++)
        r->cu = rg__scale_before(r->d, r->lane, r->stream, &each[i]);
    if (r->cu == RG__CU_SUCCESS)
        call_each(r, each, n);
    for (int i = 0; i < n && r->cu == RG__CU_SUCCESS; i++)
        r->cu = rg__scale_after(r->d, r->lane, r->stream, &each[i]);
}

static void launch_all(run *r, const rg__launch *launch, int n)
{
    rg__scaled one;
    rg__scaled *each =
        n > 1 ? malloc((size_t)(unsigned)n * sizeof *each) : &one;
    if (each == NULL) {
        r->cu = RG__CU_ERROR_OUT_OF_MEMORY;
        return;
    }
    for (int i = 0; i < n; i++)
        each[i] = (rg__scaled){.asked = launch[i].coll};
    call_all(r, each, n);
    if (n > 1)
        free(each);
}

/* Wake the device thread, which watches what is under way or blocks. */
static void ring_idle(rg__device *d)
{
    if (atomic_load(&d->is_idle))
        rg__device_ring(d);
}

static rg_status enqueue(rg__device *d, rg__lane *lane, rg__cu_stream stream,
                         const rg__launch *launch, int n, uint32_t number,
                         bool *is_broken_p)
{
    const uint32_t in_flight = (uint32_t)d->params.in_flight;
    const uint32_t slot = number % in_flight;
    run r = {.d = d, .nccl = &d->nccl.call, .lane = lane, .stream = stream};
    const rg__history before = lane->history;
    note_operation(lane, slot, launch, n);
    for (int i = 0; i < n; i++)
        rg__history_note(d, lane, &launch[i].coll, i, n);
    atomic_store(&lane->inside, RG__LANE_INSIDE | number);
    ring_idle(d);
    launch_all(&r, launch, n);
    if (r.rc == RG__NCCL_Success && r.cu == RG__CU_SUCCESS)
        r.cu = d->cuda.call.stream_write(
            stream,
            d->word_at + sizeof *d->word * (lane->row * in_flight + slot),
            number, RG__CU_STREAM_WRITE_VALUE_DEFAULT);
    if (r.rc == RG__NCCL_Success && r.cu == RG__CU_SUCCESS)
        atomic_store(&d->number[lane->row], number);
    atomic_store(&lane->inside, 0);
    const rg_status st = judge(d, &r, is_broken_p);
    if (st == RG_ERR_INVALID) /* NCCL has started nothing of it */
        rg__history_drop(d, lane, &before, n);
    return st;
}

static rg_status fail_closed(rg__device *d, uint64_t generation)
{
    const rg_status st = rg__device_check(d, generation);
    return st != RG_OK ? st
                       : rg__fail(RG_ERR_INVALID,
                                  "the set has no communicator on the device");
}

/* Enter a lane, which then lives until its callers have left. NULL: there is
 * none, or it is closed. */
static rg__lane *come_in(rg__device *d, uint32_t set, uint64_t generation)
{
    pthread_mutex_lock(&d->table);
    rg__lane *lane = rg__device_is_closed(d, generation)
                         ? NULL
                         : rg__lane_find(d, set, generation);
    if (lane != NULL)
        atomic_fetch_add(&lane->callers, 1);
    pthread_mutex_unlock(&d->table);
    return lane;
}

/* The lane's lock is held, so either no thread frees the lane meanwhile, or
 * `closing` is seen here. */
static rg_status launch_locked(rg__device *d, rg__lane *lane,
                               const rg__launch *launch, int n,
                               rg__ticket *ticket, bool *is_broken_p)
{
    const uint64_t generation = lane->generation;
    if (rg__device_is_closed(d, generation))
        return rg__device_check(d, generation);
    const rg__cu_stream stream =
        launch->stream == RG_STREAM_NONE ? lane->stream : launch->stream;
    const rg_status st = check_stream(d, &launch->coll, stream);
    if (st != RG_OK)
        return st;
    const uint32_t number = atomic_load(&d->number[lane->row]) + 1;
    const uint32_t oldest = number - (uint32_t)d->params.in_flight;
    *ticket = (rg__ticket){generation, lane->row, number};
    if (!rg__word_has(d, lane->row, oldest)) {
        ticket->number = oldest;
        return RG_IN_PROGRESS;
    }
    return enqueue(d, lane, stream, launch, n, number, is_broken_p);
}

rg_status rg__lane_launch(rg__device *d, uint32_t set, uint64_t generation,
                          const rg__launch *launch, int n, rg__ticket *ticket_p)
{
    rg_status st = rg__device_use(d);
    if (st != RG_OK)
        return st;
    for (;;) {
        bool is_broken = false;
        rg__ticket ticket = {0};
        rg__lane *lane = come_in(d, set, generation);
        if (lane == NULL)
            return fail_closed(d, generation);
        pthread_mutex_lock(&lane->lock);
        st = launch_locked(d, lane, launch, n, &ticket, &is_broken);
        pthread_mutex_unlock(&lane->lock);
        atomic_fetch_sub(&lane->callers, 1);
        if (is_broken)
            d->broken(d->arg, generation, rg_last_error());
        if (st == RG_OK) {
            ring_idle(d);
            *ticket_p = ticket;
        }
        if (st != RG_IN_PROGRESS)
            return st;
        st = rg__ticket_wait(d, &ticket, UINT64_MAX);
        if (st != RG_OK)
            return st;
    }
}

/* -------------------------------------------------------------------- wait */

/* Read the word first and then `closing`, because an aborted operation writes
 * its word, too. Words exist only while the generation is not closed. */
static rg_status look(rg__device *d, const rg__ticket *t)
{
    if (rg__device_is_closed(d, t->generation))
        return rg__device_check(d, t->generation);
    const bool has_ended = rg__word_has(d, t->row, t->number);
    if (rg__device_is_closed(d, t->generation))
        return rg__device_check(d, t->generation);
    return has_ended ? RG_OK : RG_IN_PROGRESS;
}

static rg_status wait_for(rg__device *d, const rg__ticket *t,
                          uint64_t deadline_ns)
{
    const uint64_t begun = rg__now_ns();
    for (uint32_t round = 0;; round++) {
        const rg_status st = look(d, t);
        if (st != RG_IN_PROGRESS)
            return st;
        const uint64_t now = rg__now_ns();
        if (now >= deadline_ns)
            return RG_IN_PROGRESS;
        if (rg__spin(&rg__wait_usual, round))
            continue;
        rg__sleep_ns(now - begun < SOON_NS ? SHORT_NS : LONG_NS);
    }
}

rg_status rg__ticket_wait(rg__device *d, const rg__ticket *t,
                          uint64_t deadline_ns)
{
    atomic_fetch_add(&d->waiters, 1);
    const rg_status st = wait_for(d, t, deadline_ns);
    atomic_fetch_sub(&d->waiters, 1);
    return st;
}

static rg_status settle_row(rg__device *d, uint64_t generation, uint32_t row,
                            uint64_t deadline_ns)
{
    const uint32_t newest = atomic_load(&d->number[row]);
    const uint32_t in_flight = (uint32_t)d->params.in_flight;
    rg_status st = RG_OK;
    for (uint32_t i = 0; i < in_flight && st == RG_OK; i++) {
        const rg__ticket t = {generation, row, newest - i};
        st = rg__ticket_wait(d, &t, deadline_ns);
    }
    return st;
}

rg_status rg__device_settle(rg__device *d, uint64_t generation, bool whole,
                            uint64_t deadline_ns)
{
    pthread_mutex_lock(&d->table);
    const uint32_t rows = d->entered == generation ? d->rows : 0;
    pthread_mutex_unlock(&d->table);
    rg_status st = rg__device_check(d, generation);
    for (uint32_t row = 0; row < rows && st == RG_OK; row++)
        st = settle_row(d, generation, row, deadline_ns);
    if (st != RG_OK || !whole)
        return st;
    st = rg__device_drain(d);
    return st == RG_OK ? rg__device_check(d, generation) : st;
}

/* ------------------------------------------------------------ what is late */

static void describe(const rg__lane *lane, const rg__lane_operation *op,
                     uint64_t now, char *text, size_t room)
{
    const uint64_t since =
        atomic_load_explicit(&op->started_ns, memory_order_relaxed);
    snprintf(
        text, room,
        "%s%s of %" PRIu64 " elements on the device, set %s, for %" PRIu64
        " ms; not all ranks may have started it",
        atomic_load_explicit(&op->n, memory_order_relaxed) > 1 ? "a group with "
                                                               : "",
        rg__kind_name(atomic_load_explicit(&op->kind, memory_order_relaxed)),
        atomic_load_explicit(&op->count, memory_order_relaxed), lane->name,
        (now - since) / RG__MS);
}

static void look_for_stall(rg__device *d, const rg__lane *lane,
                           rg__lane_operation *op, uint64_t now)
{
    char text[RG__TEXT_MAX];
    const uint64_t since =
        atomic_load_explicit(&op->started_ns, memory_order_relaxed);
    if (d->stall_ns == 0 || now < since || now - since < d->stall_ns ||
        atomic_exchange(&op->is_told, 1) != 0)
        return;
    describe(lane, op, now, text, sizeof text);
    rg__log(RG__WARN, "set", "stalled: %s", text);
}

static bool is_told(const rg__device *d, const rg__lane *lane, uint32_t number)
{
    const rg__lane_operation *op =
        &lane->operation[number % (uint32_t)d->params.in_flight];
    return !rg__word_has(d, lane->row, number) &&
           atomic_load_explicit(&op->is_told, memory_order_relaxed) != 0;
}

bool rg__lane_is_stalled(const rg__device *d, const rg__lane *lane)
{
    const uint64_t inside = atomic_load(&lane->inside);
    const uint32_t newest = atomic_load(&d->number[lane->row]);
    for (uint32_t i = (uint32_t)d->params.in_flight; i-- > 0;)
        if (is_told(d, lane, newest - i))
            return true;
    return inside != 0 && is_told(d, lane, (uint32_t)inside);
}

static bool is_overdue(rg__device *d, rg__lane *lane, uint32_t number,
                       char *why, size_t room)
{
    const uint32_t in_flight = (uint32_t)d->params.in_flight;
    const uint64_t now = rg__now_ns();
    rg__lane_operation *op = &lane->operation[number % in_flight];
    if (rg__word_has(d, lane->row, number))
        return false;
    look_for_stall(d, lane, op, now);
    const uint64_t deadline =
        atomic_load_explicit(&op->deadline_ns, memory_order_relaxed);
    if (deadline == 0 || now < deadline)
        return false;
    char text[RG__TEXT_MAX - 24];
    describe(lane, op, now, text, sizeof text);
    snprintf(why, room, "a deadline has passed: %s", text);
    return true;
}

bool rg__lane_is_overdue(rg__device *d, rg__lane *lane, char *why, size_t room)
{
    const uint64_t inside = atomic_load(&lane->inside);
    const uint32_t newest = atomic_load(&d->number[lane->row]);
    for (uint32_t i = (uint32_t)d->params.in_flight;
         i-- > 0;) /* oldest first */
        if (is_overdue(d, lane, newest - i, why, room))
            return true;
    return inside != 0 && is_overdue(d, lane, (uint32_t)inside, why, room);
}
