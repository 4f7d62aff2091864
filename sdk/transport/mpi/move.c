/* Operations that only move data, by messages between each two ranks; large
 * sets use MPI's own operation. MPI counts in int. */
#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/least.h"
#include "sdk/transport/mpi/mpi_comm.h"

#define CHUNK      ((uint64_t)1 << 27) /* elements of one call or message */
#define SWAPPED    ((uint64_t)32 << 10)
#define SWAP_BYTES ((uint64_t)1 << 20)

static MPI_Datatype type_of(const rg__mpi *c)
{
    return rg__mpi_type(c->coll.type);
}

static uint64_t bytes_of(const rg__mpi *c, uint64_t elements)
{
    return elements * c->element;
}

rg_status rg__mpi_send(rg__mpi *c, int to, const void *data, uint64_t count)
{
    rg_status st = RG_OK;
    for (uint64_t at = 0; at < count && st == RG_OK; at += CHUNK) {
        MPI_Request *request = rg__mpi_request(c);
        if (request == NULL)
            return RG_ERR_MEMORY;
        st = rg__mpi_status("MPI_Isend",
                            MPI_Isend((const char *)data + bytes_of(c, at),
                                      (int)rg__least(count - at, CHUNK),
                                      type_of(c), to, c->tag, c->mpi, request));
    }
    return st;
}

rg_status rg__mpi_recv(rg__mpi *c, int from, void *data, uint64_t count)
{
    rg_status st = RG_OK;
    for (uint64_t at = 0; at < count && st == RG_OK; at += CHUNK) {
        MPI_Request *request = rg__mpi_request(c);
        if (request == NULL)
            return RG_ERR_MEMORY;
        st = rg__mpi_status(
            "MPI_Irecv", MPI_Irecv((char *)data + bytes_of(c, at),
                                   (int)rg__least(count - at, CHUNK),
                                   type_of(c), from, c->tag, c->mpi, request));
    }
    return st;
}

static rg_status end(rg__mpi *c)
{
    (void)c;
    return RG_OK;
}

/* ------------------------------------------------------------- messages */

static const char *send_at(const rg__mpi *c, rg__elements p)
{
    return (const char *)c->coll.send + bytes_of(c, p.at);
}

static char *recv_at(const rg__mpi *c, rg__elements p)
{
    return (char *)c->coll.recv + bytes_of(c, p.at);
}

/* Does an alltoall run by swaps? Only a large one in place. */
static bool may_swap(const rg__mpi *c)
{
    return c->coll.kind == RG__ALLTOALL && c->n <= RG__MPI_FEW &&
           bytes_of(c, c->coll.count) >= SWAPPED;
}

/* Elements of a message that is a part, or a piece of it: members that swap and
 * members that don't use the same ones. */
static uint64_t piece_of(const rg__mpi *c, rg__elements p)
{
    return may_swap(c) ? SWAP_BYTES / c->element : p.count;
}

static rg_status post_receives(rg__mpi *c)
{
    rg_status st = RG_OK;
    for (int i = 1; i < c->n && st == RG_OK; i++) {
        const int from = (c->rank + c->n - i) % c->n;
        const rg__elements p = rg__elements_from(c, from);
        const uint64_t piece = piece_of(c, p);
        for (uint64_t at = 0; at < p.count && st == RG_OK; at += piece)
            st = rg__mpi_recv(c, from, recv_at(c, p) + bytes_of(c, at),
                              rg__least(p.count - at, piece));
    }
    return st;
}

static rg_status post_sends(rg__mpi *c)
{
    rg_status st = RG_OK;
    for (int i = 1; i < c->n && st == RG_OK; i++) {
        const int to = (c->rank + i) % c->n;
        const rg__elements p = rg__elements_to(c, to);
        const uint64_t piece = piece_of(c, p);
        for (uint64_t at = 0; at < p.count && st == RG_OK; at += piece)
            st = rg__mpi_send(c, to, send_at(c, p) + bytes_of(c, at),
                              rg__least(p.count - at, piece));
    }
    return st;
}

static rg_status post_messages(rg__mpi *c)
{
    c->stage = end;
    rg_status st = post_receives(c);
    if (st == RG_OK)
        st = post_sends(c);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

static rg_status receive_as_told(rg__mpi *c)
{
    c->stage = end;
    c->needed = RG__ALL;
    rg_status st = rg__uneven_collected(c);
    if (st == RG_OK)
        st = post_receives(c);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

/* The data are sent right behind their count. */
static rg_status post_told(rg__mpi *c)
{
    c->stage = receive_as_told;
    rg_status st = rg__uneven_tell(c);
    const bool is_at_once = c->requests == 0;
    if (st == RG_OK)
        st = post_sends(c);
    if (st == RG_OK && is_at_once)
        return receive_as_told(c);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

static void copy(char *to, const char *from, size_t bytes)
{
    if (to < from + bytes && from < to + bytes)
        memmove(to, from, bytes);
    else
        rg__copy(to, from, bytes);
}

/* Does an allgather's own part lie where parts come, be it its own? */
static bool lies_in_recv(const rg__mpi *c)
{
    const rg__elements own = rg__elements_to(c, c->rank);
    const uintptr_t at = (uintptr_t)c->coll.send;
    for (int r = 0; r < c->n; r++) {
        const rg__elements p = rg__elements_from(c, r);
        const uintptr_t part = (uintptr_t)recv_at(c, p);
        if (at < part + bytes_of(c, p.count) &&
            part < at + bytes_of(c, own.count))
            return true;
    }
    return false;
}

/* at: elements of the own part that are copied. They may be anywhere in recv
 * (an allgather), so pieces are taken from the end that is not overwritten. A
 * copy is sent only where others' parts may cover the original: another
 * processor reads what was just written here half as fast. */
static rg_status copy_own(rg__mpi *c)
{
    const rg__elements from = rg__elements_to(c, c->rank),
                       to = rg__elements_from(c, c->rank);
    const uint64_t count = rg__least(from.count, to.count);
    const char *source = send_at(c, from);
    char *target = recv_at(c, to);
    const uint64_t now = rg__least(count - c->at, RG__WORK_BYTES / c->element);
    const uint64_t at = target > source ? count - c->at - now : c->at;
    if (now > 0 && target != source)
        copy(target + bytes_of(c, at), source + bytes_of(c, at),
             bytes_of(c, now));
    c->at += now;
    if (c->at < count && target != source)
        return RG_IN_PROGRESS;
    if ((c->coll.kind == RG__ALLGATHER || c->coll.kind == RG__ALLGATHERV) &&
        lies_in_recv(c))
        c->coll.send = target;
    c->stage = c->next;
    return c->stage(c);
}

/* An alltoall in place: parts are sent from a copy. The place of a part without
 * elements is ignored. part: ranks whose parts are copied, done: elements of
 * these, at: of the next part. */
static void copy_aside(rg__mpi *c)
{
    uint64_t left = RG__WORK_BYTES / c->element;
    while (c->part < (uint64_t)c->n && left > 0) {
        const rg__elements p = rg__elements_to(c, (int)c->part);
        const uint64_t now = rg__least(p.count - c->at, left);
        if (now > 0)
            rg__copy(c->scratch + bytes_of(c, c->done + c->at),
                     send_at(c, p) + bytes_of(c, c->at), bytes_of(c, now));
        c->at += now;
        left -= now;
        if (c->at == p.count) {
            c->done += p.count;
            c->at = 0;
            c->part++;
        }
    }
}

static rg_status set_aside(rg__mpi *c)
{
    if (c->scratch == NULL) {
        const rg__elements last = rg__elements_packed(c, c->n - 1);
        const rg_status st =
            rg__mpi_scratch(c, bytes_of(c, last.at + last.count), c->coll.recv);
        if (st != RG_OK)
            return st;
        c->done = 0;
    }
    copy_aside(c);
    if (c->part < (uint64_t)c->n)
        return RG_IN_PROGRESS;
    c->is_packed = true;
    c->coll.send = c->scratch;
    c->at = c->part = 0;
    c->stage = c->next;
    return c->stage(c);
}

/* A large alltoall in place: each two swap their parts, piece by piece, so that
 * only a piece is set aside. part: the step; at: elements of its parts that are
 * on their way. In each step a rank has one partner, possibly itself. */
static int partner_of(const rg__mpi *c)
{
    const int n = c->n, step = (int)c->part;
    return (n & (n - 1)) == 0 ? c->rank ^ step : (step + n - c->rank) % n;
}

static rg_status swap(rg__mpi *c)
{
    const uint64_t count = c->coll.count;
    if (c->at == count || partner_of(c) == c->rank) {
        c->at = 0;
        c->part++;
        return c->part < (uint64_t)c->n ? swap(c) : RG_OK;
    }
    const int partner = partner_of(c);
    const uint64_t now = rg__least(count - c->at, SWAP_BYTES / c->element);
    char *data = recv_at(c, rg__elements_from(c, partner)) + bytes_of(c, c->at);
    c->stage = swap;
    c->at += now;
    rg__copy(c->scratch, data, bytes_of(c, now));
    rg_status st = rg__mpi_recv(c, partner, data, now);
    if (st == RG_OK)
        st = rg__mpi_send(c, partner, c->scratch, now);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

/* Where partners receive what passes the scratch; their memory is most likely
 * aligned as this rank's is. */
static const char *own_part(const rg__mpi *c)
{
    return recv_at(c, rg__elements_from(c, c->rank));
}

static rg_status begin_swaps(rg__mpi *c)
{
    const uint64_t bytes = bytes_of(c, c->coll.count);
    const rg_status st =
        rg__mpi_scratch(c, rg__least(bytes, SWAP_BYTES), own_part(c));
    return st == RG_OK ? swap(c) : st;
}

static bool goes_in_swaps(const rg__mpi *c)
{
    return c->coll.send == c->coll.recv && may_swap(c);
}

/* -------------------------------------------------------- MPI's collectives */

static rg_status broadcast(rg__mpi *c)
{
    c->at += c->part;
    if (c->at == c->coll.count)
        return RG_OK;
    c->part = rg__least(c->coll.count - c->at, CHUNK);
    return rg__mpi_posted("MPI_Ibcast",
                          MPI_Ibcast((char *)c->coll.recv + bytes_of(c, c->at),
                                     (int)c->part, type_of(c), c->coll.root,
                                     c->mpi, rg__mpi_request(c)));
}

static rg_status broadcast_few(rg__mpi *c)
{
    c->coll.send = c->coll.recv;
    return post_messages(c);
}

/* Post an empty message to one rank, and a receive from another. */
static rg_status sign(rg__mpi *c, int from, int to)
{
    MPI_Request *request = rg__mpi_request(c);
    if (request == NULL)
        return RG_ERR_MEMORY;
    rg_status st =
        rg__mpi_status("MPI_Irecv", MPI_Irecv(NULL, 0, MPI_BYTE, from, c->tag,
                                              c->mpi, request));
    if (st == RG_OK && (request = rg__mpi_request(c)) == NULL)
        st = RG_ERR_MEMORY;
    if (st == RG_OK)
        st = rg__mpi_status("MPI_Isend", MPI_Isend(NULL, 0, MPI_BYTE, to,
                                                   c->tag, c->mpi, request));
    return st;
}

/* part: the distance of this step's ranks, which doubles with each step. */
static rg_status pass_on(rg__mpi *c)
{
    const int far = (int)c->part;
    const bool has_partners = (c->n & (c->n - 1)) == 0;
    const int to = has_partners ? c->rank ^ far : (c->rank + far) % c->n;
    const int from = has_partners ? to : (c->rank + c->n - far) % c->n;
    c->part *= 2;
    c->stage = c->part < (uint64_t)c->n ? pass_on : end;
    const rg_status st = sign(c, from, to);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

static rg_status barrier_few(rg__mpi *c)
{
    c->part = 1;
    return c->n == 1 ? end(c) : pass_on(c);
}

static rg_status barrier(rg__mpi *c)
{
    c->stage = end;
    return rg__mpi_posted("MPI_Ibarrier",
                          MPI_Ibarrier(c->mpi, rg__mpi_request(c)));
}

static rg_status allgather(rg__mpi *c)
{
    const int count = (int)c->coll.count;
    c->stage = end;
    return rg__mpi_posted("MPI_Iallgather",
                          MPI_Iallgather(MPI_IN_PLACE, count, type_of(c),
                                         c->coll.recv, count, type_of(c),
                                         c->mpi, rg__mpi_request(c)));
}

static rg_status gather(rg__mpi *c)
{
    const int count = (int)c->coll.count;
    const bool is_root = c->rank == c->coll.root;
    c->stage = end;
    return rg__mpi_posted(
        "MPI_Igather", MPI_Igather(is_root ? MPI_IN_PLACE : c->coll.send, count,
                                   type_of(c), c->coll.recv, count, type_of(c),
                                   c->coll.root, c->mpi, rg__mpi_request(c)));
}

static rg_status scatter(rg__mpi *c)
{
    const int count = (int)c->coll.count;
    const bool is_root = c->rank == c->coll.root;
    c->stage = end;
    return rg__mpi_posted("MPI_Iscatter",
                          MPI_Iscatter(c->coll.send, count, type_of(c),
                                       is_root ? MPI_IN_PLACE : c->coll.recv,
                                       count, type_of(c), c->coll.root, c->mpi,
                                       rg__mpi_request(c)));
}

static rg_status alltoall(rg__mpi *c)
{
    const int count = (int)c->coll.count;
    c->stage = end;
    return rg__mpi_posted("MPI_Ialltoall",
                          MPI_Ialltoall(c->coll.send, count, type_of(c),
                                        c->coll.recv, count, type_of(c), c->mpi,
                                        rg__mpi_request(c)));
}

static rg__stage_fn mpi_has(const rg__mpi *c)
{
    if (rg__uneven_is(c) && rg__mpi_check() == CHECK_LATE)
        return post_told;
    if (c->n <= RG__MPI_FEW || c->coll.count > CHUNK / (uint64_t)c->n)
        return post_messages;
    switch (c->coll.kind) {
    case RG__ALLGATHER:
        return allgather;
    case RG__GATHER:
        return gather;
    case RG__SCATTER:
        return scatter;
    case RG__ALLTOALL:
        return alltoall;
    default:
        return post_messages;
    }
}

static rg_status begin(rg__mpi *c)
{
    const rg__kind kind = c->coll.kind;
    const bool is_alltoall = kind == RG__ALLTOALL || kind == RG__ALLTOALLV;
    if (goes_in_swaps(c))
        return begin_swaps(c);
    c->next = mpi_has(c);
    c->stage = copy_own;
    if (is_alltoall && c->coll.send == c->coll.recv)
        c->stage = set_aside;
    else if (c->next == alltoall)
        c->stage = alltoall; /* copies its own part itself */
    return c->stage(c);
}

static bool is_small_broadcast(const rg__mpi *c)
{
    const uint64_t others = (uint64_t)c->n - 1;
    return c->n <= RG__MPI_FEW &&
           bytes_of(c, c->coll.count) * others <= RG__MPI_SMALL;
}

rg__stage_fn rg__mpi_moves(const rg__mpi *c)
{
    switch (c->coll.kind) {
    case RG__BROADCAST:
        return is_small_broadcast(c) ? broadcast_few : broadcast;
    case RG__BARRIER:
        return c->n <= RG__MPI_FEW ? barrier_few : barrier;
    default:
        return begin;
    }
}
