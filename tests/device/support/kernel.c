/* What a launched operation does on the thread of its stream.
 *
 * A kernel of an aborted communicator leaves rubbish behind and still posts its
 * steps, so that a neighbour that is not aborted yet may take rubbish for a
 * result: as NCCL's kernels do. */
#include "tests/device/support/comm.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUBBISH_BYTE 0xe7

typedef struct transfer {
    int peer;
    bool is_send;
    char *at;
    size_t bytes, done;
} transfer;

typedef struct moves {
    rg__nccl_comm comm;
    transfer *each;
    int n;
} moves;

/* ------------------------------------------------------------------- transfers
 */

static void add(moves *m, int peer, bool is_send, const void *at, size_t bytes)
{
    m->each = realloc(m->each, (size_t)(m->n + 1) * sizeof *m->each);
    m->each[m->n++] = (transfer){
        .peer = peer, .is_send = is_send, .at = (char *)at, .bytes = bytes};
}

static size_t next_chunk(const transfer *t)
{
    const size_t left = t->bytes - t->done;
    return left < FAKE_CHUNK ? left : FAKE_CHUNK;
}

static bool send_chunk(rg__nccl_comm c, transfer *t)
{
    fake_pipe *p = fake_pipe_of(c, c->rank, t->peer);
    const size_t bytes = next_chunk(t);
    if ((int64_t)(atomic_load(&p->sent) - atomic_load(&p->taken)) > 0)
        return false;
    memcpy(p->chunk, t->at + t->done, bytes);
    p->bytes = (uint32_t)bytes;
    t->done += bytes;
    atomic_fetch_add(&p->sent, 1);
    return true;
}

/* A chunk of another size is never taken: both sides hang, as with NCCL. */
static bool take_chunk(rg__nccl_comm c, transfer *t)
{
    fake_pipe *p = fake_pipe_of(c, t->peer, c->rank);
    const size_t bytes = next_chunk(t);
    if ((int64_t)(atomic_load(&p->sent) - atomic_load(&p->taken)) <= 0 ||
        (p->bytes != bytes && p->bytes != FAKE_RUBBISH))
        return false;
    memcpy(t->at + t->done, p->chunk, bytes);
    t->done += bytes;
    atomic_fetch_add(&p->taken, 1);
    return true;
}

static bool move_some(moves *m)
{
    bool has_moved = false;
    for (int i = 0; i < m->n; i++) {
        transfer *t = &m->each[i];
        if (t->done < t->bytes)
            has_moved |=
                t->is_send ? send_chunk(m->comm, t) : take_chunk(m->comm, t);
    }
    if (has_moved)
        fake_ring(m->comm);
    return has_moved;
}

static bool all_have_moved(rg__nccl_comm c, void *arg)
{
    moves *m = arg;
    (void)c;
    while (move_some(m))
        continue;
    for (int i = 0; i < m->n; i++)
        if (m->each[i].done < m->each[i].bytes)
            return false;
    return true;
}

static void post(rg__nccl_comm c, const transfer *t)
{
    const size_t chunks = (t->bytes - t->done + FAKE_CHUNK - 1) / FAKE_CHUNK;
    fake_pipe *p = t->is_send ? fake_pipe_of(c, c->rank, t->peer)
                              : fake_pipe_of(c, t->peer, c->rank);
    if (t->is_send && chunks > 0)
        p->bytes = FAKE_RUBBISH;
    atomic_fetch_add(t->is_send ? &p->sent : &p->taken, chunks);
}

/* The steps of an aborted kernel, whatever it has moved. */
static void post_rest(moves *m)
{
    for (int i = 0; i < m->n; i++)
        post(m->comm, &m->each[i]);
    fake_ring(m->comm);
}

/* ------------------------------------------------------------------ the script
 */

static _Noreturn void hang_for_good(void)
{
    for (;;)
        pause();
}

static void act(rg__nccl_comm c, const fake_op *op)
{
    fake_fault f;
    const fake_where where = fake_where_of(c, op->k);
    if (!fake_script("op", &where, &f))
        return;
    if (strcmp(f.verdict, "hang") == 0)
        fake_await_abort(c);
    else if (strcmp(f.verdict, "through") == 0)
        hang_for_good();
    else if (strcmp(f.verdict, "slow") == 0)
        fake_await_ms(c, f.ms);
    else if (strcmp(f.verdict, "die") == 0)
        kill(getpid(), SIGKILL);
    else if (strcmp(f.verdict, "sticky") == 0)
        fake_set_sticky(f.rc > 0 ? f.rc : RG__CU_ERROR_ILLEGAL_ADDRESS);
    else if (strcmp(f.verdict, "remote") == 0) {
        atomic_store(&c->result, RG__NCCL_RemoteError);
        fake_await_abort(c);
    }
}

/* ----------------------------------------------------------------- collectives
 */

static bool is_same(const fake_call *a, const fake_call *b)
{
    return a->kind == b->kind && a->type == b->type && a->op == b->op &&
           a->root == b->root && a->n == b->n;
}

/* Operations that differ hang, as with NCCL. */
static bool all_have_arrived(rg__nccl_comm c, void *arg)
{
    const fake_call *own = arg;
    for (int r = 0; r < c->n; r++) {
        const fake_seat *seat = &c->segment->seat[r];
        if (atomic_load(&seat->arrived) < c->collectives ||
            !is_same(&seat->call[c->collectives % FAKE_CALLS], own))
            return false;
    }
    return true;
}

static void arrive(rg__nccl_comm c, const fake_call *call)
{
    fake_seat *own = fake_own_seat(c);
    c->collectives++;
    own->call[c->collectives % FAKE_CALLS] = *call;
    atomic_store(&own->arrived, c->collectives);
    fake_ring(c);
}

/* A collective in hand: a part from each rank, NULL where none comes. */
typedef struct work {
    moves moves;
    const fake_op *op;
    size_t bytes; /* of a part */
    char *part[FAKE_RANKS_MAX];
} work;

static bool sends_to(const work *w, int peer)
{
    switch (w->op->call.kind) {
    case FAKE_REDUCE:
        return peer == w->op->call.root;
    case FAKE_BROADCAST:
        return w->moves.comm->rank == w->op->call.root;
    default:
        return true;
    }
}

static bool takes_from(const work *w, int peer)
{
    switch (w->op->call.kind) {
    case FAKE_REDUCE:
        return w->moves.comm->rank == w->op->call.root;
    case FAKE_BROADCAST:
        return peer == w->op->call.root;
    default:
        return true;
    }
}

static const char *part_for(const work *w, int peer)
{
    return w->op->call.kind == FAKE_REDUCE_SCATTER
               ? w->op->send + (size_t)peer * w->bytes
               : w->op->send;
}

static void plan(work *w)
{
    const int own = w->moves.comm->rank;
    if (w->bytes == 0)
        return;
    for (int r = 0; r < w->moves.comm->n; r++) {
        if (takes_from(w, r))
            w->part[r] = malloc(w->bytes);
        if (r == own && w->part[r])
            memcpy(w->part[r], part_for(w, r), w->bytes);
        if (r == own)
            continue;
        if (sends_to(w, r))
            add(&w->moves, r, true, part_for(w, r), w->bytes);
        if (w->part[r])
            add(&w->moves, r, false, w->part[r], w->bytes);
    }
}

static size_t result_bytes(const work *w)
{
    const rg__nccl_comm c = w->moves.comm;
    if (w->op->call.kind == FAKE_REDUCE && c->rank != w->op->call.root)
        return 0;
    return w->op->call.kind == FAKE_ALLGATHER ? (size_t)c->n * w->bytes
                                              : w->bytes;
}

static void finish(work *w)
{
    const fake_op *op = w->op;
    if (result_bytes(w) == 0)
        return;
    if (op->call.kind == FAKE_BROADCAST)
        memcpy(op->recv, w->part[op->call.root], w->bytes);
    else if (op->call.kind == FAKE_ALLGATHER)
        for (int r = 0; r < w->moves.comm->n; r++)
            memcpy(op->recv + (size_t)r * w->bytes, w->part[r], w->bytes);
    else
        fake_reduce(op->recv, w->part, w->moves.comm->n, op->call.n,
                    op->call.type, op->call.op);
}

static void leave_rubbish(work *w)
{
    if (result_bytes(w) > 0)
        memset(w->op->recv, RUBBISH_BYTE, result_bytes(w));
    if (atomic_load(&w->moves.comm->is_aborted))
        post_rest(&w->moves);
}

static void drop(work *w)
{
    for (int r = 0; r < FAKE_RANKS_MAX; r++)
        free(w->part[r]);
    free(w->moves.each);
}

static void run_collective(rg__nccl_comm c, const fake_op *op)
{
    work w = {.moves.comm = c, .op = op};
    w.bytes = op->call.n * fake_type_size(op->call.type);
    act(c, op);
    plan(&w);
    arrive(c, &op->call);
    if (fake_await(c, all_have_arrived, (void *)&op->call) &&
        fake_await(c, all_have_moved, &w.moves))
        finish(&w);
    else
        leave_rubbish(&w);
    drop(&w);
}

/* --------------------------------------------------------------- send and recv
 */

static bool is_send(const fake_op *op)
{
    return op->call.kind == FAKE_SEND;
}

static bool is_recv(const fake_op *op)
{
    return op->call.kind == FAKE_RECV;
}

static size_t op_bytes(const fake_op *op)
{
    return op->call.n * fake_type_size(op->call.type);
}

/* To itself: the i-th send goes to the i-th recv. */
static void copy_own(const fake_kernel *k)
{
    int r = 0;
    for (int s = 0; s < k->n; s++) {
        if (!is_send(&k->op[s]) || k->op[s].call.root != k->comm->rank)
            continue;
        while (r < k->n &&
               !(is_recv(&k->op[r]) && k->op[r].call.root == k->comm->rank))
            r++;
        if (r == k->n)
            fake_violation("rank %d sends to itself and takes nothing",
                           k->comm->rank);
        if (op_bytes(&k->op[s]) > 0)
            memmove(k->op[r].recv, k->op[s].send, op_bytes(&k->op[s]));
        r++;
    }
}

static void run_messages(const fake_kernel *k)
{
    moves m = {.comm = k->comm};
    for (int i = 0; i < k->n; i++) {
        const fake_op *op = &k->op[i];
        if (!is_send(op) && !is_recv(op))
            continue;
        act(k->comm, op);
        if (op->call.root != k->comm->rank)
            add(&m, op->call.root, is_send(op),
                is_send(op) ? op->send : op->recv, op_bytes(op));
    }
    copy_own(k);
    if (m.n > 0 && !fake_await(k->comm, all_have_moved, &m) &&
        atomic_load(&k->comm->is_aborted))
        post_rest(&m);
    free(m.each);
}

void fake_run_kernel(void *kernel)
{
    fake_kernel *k = kernel;
    fake_await_turn(k->comm, k->turn);
    for (int i = 0; i < k->n; i++)
        if (!is_send(&k->op[i]) && !is_recv(&k->op[i]))
            run_collective(k->comm, &k->op[i]);
    run_messages(k);
    atomic_fetch_add(&k->comm->turn, 1);
    fake_ring(k->comm);
    atomic_fetch_sub(&k->comm->out, 1);
    free(k);
}
