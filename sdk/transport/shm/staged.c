/* Collectives in ordinary memory: data pass through the members' staging slots
 * in steps of STAGE_BYTES. Step s of an operation uses slot s % STAGES of each
 * member. Each call of these functions does one piece of the first part whose
 * condition holds:
 *
 *   copy out s   when all (broadcast: the root) have posted what it reads
 *   reduce s     when all have posted `in` s                    (allreduce)
 *   copy in s    when all have posted `done` s - STAGES: no member needs then
 *                what the slot holds
 *
 * Steps are numbered from 1 here. All members make every step, so no member
 * waits for a flag that is never posted. */
#include "sdk/base/copy.h"
#include "sdk/base/least.h"
#include "sdk/transport/shm/shm_comm.h"
#include "sdk/transport/reduce.h"

static void count_steps(rg__native *c)
{
    if (c->last == 0)
        rg__steps_begin(c, STAGE_BYTES, c->n);
}

static bool may_copy_in(const rg__native *c)
{
    return c->in < c->last &&
           rg__shm_all_posted(c, FLAG_DONE, c->in + 1 - STAGES);
}

/* After the last step, only the final values of my flags matter. */
static rg_status finish_done(rg__native *c)
{
    c->done++;
    c->at = 0;
    c->peer = 0;
    c->base.moves++;
    if (c->done < c->last) {
        rg__shm_post(c, FLAG_DONE, c->done);
        return RG_IN_PROGRESS;
    }
    rg__shm_post_end(c);
    return RG_OK;
}

/* --------------------------------------------------------------- allreduce */

/* In a reduce only the root copies out; others are done with a step when they
 * have made their slice of it. */
static bool keeps_result(const rg__native *c)
{
    return c->coll.kind == RG__ALLREDUCE || c->root == c->rank;
}

static void reduce_block(const rg__native *c, uint32_t step, size_t at,
                         size_t bytes)
{
    const void *src[RG__SOURCES_MAX];
    char *sum = rg__shm_slot(c, c->rank, step) + at;
    for (int m = 0; m < c->n; m++)
        src[m] = rg__step_contribution(c, m, step, at);
    rg__combine(&c->coll, sum, src, c->n, bytes / rg_type_size(c->coll.type),
                c->n);
    if (keeps_result(c)) /* while it is in the cache */
        rg__copy((char *)c->coll.recv + rg__step_begin(c, step) + at, sum,
                 bytes);
}

static void reduce_step(rg__native *c)
{
    const uint32_t step = c->out + 1;
    size_t begin, end;
    rg__step_slice(c, step, c->rank, &begin, &end);
    for (size_t at = begin; at < end; at += RG__REDUCE_BLOCK)
        reduce_block(c, step, at, rg__least(end - at, RG__REDUCE_BLOCK));
    c->out++;
    c->base.moves++;
    rg__shm_post(c, FLAG_OUT, c->out);
}

static void copy_slices_out(rg__native *c)
{
    const uint32_t step = c->done + 1;
    char *data = (char *)c->coll.recv + rg__step_begin(c, step);
    for (int m = 0; m < c->n; m++) {
        size_t begin, end;
        rg__step_slice(c, step, m, &begin, &end);
        if (m != c->rank)
            rg__copy(data + begin, rg__shm_slot(c, m, step) + begin,
                     end - begin);
    }
}

rg_status rg__staged_allreduce(rg__native *c)
{
    count_steps(c);
    if (c->done < c->out && !keeps_result(c))
        return finish_done(c);
    if (c->done < c->out && rg__shm_all_posted(c, FLAG_OUT, c->done + 1)) {
        copy_slices_out(c);
        return finish_done(c);
    }
    if (c->out < c->in && rg__shm_all_posted(c, FLAG_IN, c->out + 1))
        reduce_step(c);
    else if (may_copy_in(c))
        rg__step_copy_in(c, c->coll.send, true);
    return RG_IN_PROGRESS;
}

/* ---------------------------------------------------------- reduce_scatter */

/* In every step, a slot holds a piece of each member's part. Each member sums
 * the pieces of its own part into its own memory. */
static uint64_t piece_bytes(const rg__native *c)
{
    return STAGE_BYTES / (uint64_t)c->n / RG__LINE * RG__LINE;
}

static uint64_t longest_part(const rg__native *c)
{
    uint64_t longest = 0;
    for (int m = 0; m < c->n; m++) {
        uint64_t begin, end;
        rg__shm_part(c, m, &begin, &end);
        longest = end - begin > longest ? end - begin : longest;
    }
    return longest;
}

/* Where member m's piece of a step is in the data that are sent. */
static void piece_of(const rg__native *c, int m, uint32_t step,
                     uint64_t *begin_p, uint64_t *end_p)
{
    const uint64_t most = piece_bytes(c), skip = (uint64_t)(step - 1) * most;
    uint64_t begin, end;
    rg__shm_part(c, m, &begin, &end);
    *begin_p = skip < end - begin ? begin + skip : end;
    *end_p = end - *begin_p < most ? end : *begin_p + most;
}

static void copy_pieces_in(rg__native *c)
{
    const uint32_t step = c->in + 1;
    for (int m = 0; m < c->n; m++) {
        uint64_t begin, end;
        piece_of(c, m, step, &begin, &end);
        if (m != c->rank && begin < end)
            rg__copy(rg__shm_slot(c, c->rank, step) +
                         (uint64_t)m * piece_bytes(c),
                     (const char *)c->coll.send + begin, (size_t)(end - begin));
    }
    rg__shm_finish_in(c);
}

static void reduce_piece(const rg__native *c, uint64_t at, size_t bytes)
{
    const void *src[RG__SOURCES_MAX];
    const uint32_t step = c->done + 1;
    uint64_t first, begin, end;
    int apart = 0;
    rg__shm_part(c, c->rank, &first, &end);
    piece_of(c, c->rank, step, &begin, &end);
    char *to = (char *)c->coll.recv + (begin - first) + at;
    _Alignas(64) char sum[RG__REDUCE_BLOCK];
    for (int m = 0; m < c->n; m++) {
        src[m] = m == c->rank ? (const char *)c->coll.send + begin + at
                              : rg__shm_slot(c, m, step) +
                                    (uint64_t)c->rank * piece_bytes(c) + at;
        apart |= src[m] == to;
    }
    rg__combine(&c->coll, apart ? sum : to, src, c->n,
                bytes / rg_type_size(c->coll.type), rg__shm_sum_of(c));
    if (apart)
        rg__copy(to, sum, bytes);
}

static void reduce_pieces(const rg__native *c)
{
    uint64_t begin, end;
    piece_of(c, c->rank, c->done + 1, &begin, &end);
    for (uint64_t at = 0; at < end - begin; at += RG__REDUCE_BLOCK)
        reduce_piece(c, at, rg__least(end - begin - at, RG__REDUCE_BLOCK));
}

rg_status rg__staged_reduce_scatter(rg__native *c)
{
    if (c->last == 0)
        c->last =
            (uint32_t)((longest_part(c) + piece_bytes(c) - 1) / piece_bytes(c));
    if (c->done < c->in && rg__shm_all_posted(c, FLAG_IN, c->done + 1)) {
        reduce_pieces(c);
        return finish_done(c);
    }
    if (may_copy_in(c))
        copy_pieces_in(c);
    return RG_IN_PROGRESS;
}

/* --------------------------------------------------------------- broadcast */

static rg_status send_step(rg__native *c)
{
    if (!may_copy_in(c))
        return RG_IN_PROGRESS;
    rg__step_copy_in(c, c->coll.recv, false);
    return finish_done(c);
}

rg_status rg__staged_broadcast(rg__native *c)
{
    count_steps(c);
    const int root = c->root;
    if (root == c->rank)
        return send_step(c);
    const uint32_t step = c->done + 1;
    if (!rg__shm_posted(c, root, FLAG_IN, step))
        return RG_IN_PROGRESS;
    rg__copy((char *)c->coll.recv + rg__step_begin(c, step),
             rg__shm_slot(c, root, step), rg__step_bytes(c, step));
    return finish_done(c);
}

/* --------------------------------------------------------------- allgather */

/* Copy one member's piece of a step; true: the step is complete. */
static bool gather_piece(rg__native *c)
{
    const uint32_t step = c->done + 1;
    char *to = (char *)c->coll.recv + (uint64_t)c->peer * c->bytes;
    if (!(c->peer == c->rank && c->coll.send == to))
        rg__copy(to + rg__step_begin(c, step), rg__shm_slot(c, c->peer, step),
                 rg__step_bytes(c, step));
    c->base.moves++;
    return ++c->peer == c->n;
}

rg_status rg__staged_allgather(rg__native *c)
{
    count_steps(c);
    if (c->done < c->in && rg__shm_all_posted(c, FLAG_IN, c->done + 1))
        return gather_piece(c) ? finish_done(c) : RG_IN_PROGRESS;
    if (may_copy_in(c))
        rg__step_copy_in(c, c->coll.send, false);
    return RG_IN_PROGRESS;
}
