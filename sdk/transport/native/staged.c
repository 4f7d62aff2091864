/* Collectives in ordinary memory: data pass through the members' staging slots
 * in steps of STAGE_BYTES. Step s of an operation uses slot s % STAGES of each
 * member. Each call of these functions does one piece of the first part whose
 * condition holds:
 *
 *   copy out s   when all (broadcast: the root) have posted what it reads
 *   reduce s     when all have posted `in` s                    (allreduce)
 *   copy in s    when all have posted `done` s - STAGES, so that nobody needs
 *                what the slot holds
 *
 * Steps are numbered from 1 here. All members make every step, so nobody waits
 * for a flag that is never posted. */
#include <string.h>

#include "sdk/transport/native/native.h"
#include "sdk/transport/native/reduce.h"

#define BLOCK_BYTES ((size_t)16 << 10)

static void count_steps(comm *c)
{
    if (c->last == 0)
        c->last = (uint32_t)((c->bytes + STAGE_BYTES - 1) / STAGE_BYTES);
}

static uint64_t begin_of(uint32_t step)
{
    return (uint64_t)(step - 1) * STAGE_BYTES;
}

static size_t bytes_of(const comm *c, uint32_t step)
{
    const uint64_t left = c->bytes - begin_of(step);
    return left < STAGE_BYTES ? (size_t)left : STAGE_BYTES;
}

static char *slot_of(const comm *c, int m, uint32_t step)
{
    return c->member[m].staging +
           (size_t)((c->steps + step) % STAGES) * STAGE_BYTES;
}

static bool may_copy_in(const comm *c)
{
    return c->in < c->last &&
           rg__native_all_posted(c, FLAG_DONE, c->in + 1 - STAGES);
}

static void finish_in(comm *c)
{
    c->in++;
    c->base.moves++;
    rg__native_post(c, FLAG_IN, c->in);
}

static void copy_in(comm *c, const void *data)
{
    const uint32_t step = c->in + 1;
    memcpy(slot_of(c, c->rank, step), (const char *)data + begin_of(step),
           bytes_of(c, step));
    finish_in(c);
}

/* Nobody needs my flags of this operation below its end any more. */
static rg_status finish_done(comm *c)
{
    c->done++;
    c->at = 0;
    c->peer = 0;
    c->base.moves++;
    if (c->done < c->last) {
        rg__native_post(c, FLAG_DONE, c->done);
        return RG_IN_PROGRESS;
    }
    rg__native_post_end(c);
    return RG_OK;
}

/* --------------------------------------------------------------- allreduce */

/* My slot of a step holds my data but for my own slice, where the result goes;
 * my own contribution to it is read from the user's memory. */
static const char *contribution(const comm *c, int m, uint32_t step, size_t at)
{
    return m == c->rank ? (const char *)c->coll.send + begin_of(step) + at
                        : slot_of(c, m, step) + at;
}

static void reduce_block(const comm *c, uint32_t step, size_t at, size_t bytes)
{
    const rg__coll *o = &c->coll;
    const size_t count = bytes / rg_type_size(o->type);
    char *sum = slot_of(c, c->rank, step) + at;
    if (c->n == 1)
        memcpy(sum, contribution(c, 0, step, at), bytes);
    else
        rg__reduce(o->type, o->op, sum, contribution(c, 0, step, at),
                   contribution(c, 1, step, at), count);
    for (int m = 2; m < c->n; m++)
        rg__reduce(o->type, o->op, sum, sum, contribution(c, m, step, at),
                   count);
    if (o->op == RG_AVG)
        rg__divide(o->type, sum, count, c->n);
}

static void my_slice(const comm *c, uint32_t step, size_t *begin_p,
                     size_t *end_p)
{
    rg__vault_slice(bytes_of(c, step), (uint32_t)c->rank, (uint32_t)c->n,
                    begin_p, end_p);
}

static void reduce_step(comm *c)
{
    const uint32_t step = c->out + 1;
    size_t begin, end;
    my_slice(c, step, &begin, &end);
    for (size_t at = begin; at < end; at += BLOCK_BYTES)
        reduce_block(c, step, at,
                     end - at < BLOCK_BYTES ? end - at : BLOCK_BYTES);
    c->out++;
    c->base.moves++;
    rg__native_post(c, FLAG_OUT, c->out);
}

static void copy_others_in(comm *c)
{
    const uint32_t step = c->in + 1;
    const size_t bytes = bytes_of(c, step);
    const char *data = (const char *)c->coll.send + begin_of(step);
    char *slot = slot_of(c, c->rank, step);
    size_t begin, end;
    my_slice(c, step, &begin, &end);
    memcpy(slot, data, begin);
    memcpy(slot + end, data + end, bytes - end);
    finish_in(c);
}

static void copy_slices_out(comm *c)
{
    const uint32_t step = c->done + 1;
    char *data = (char *)c->coll.recv + begin_of(step);
    for (int m = 0; m < c->n; m++) {
        size_t begin, end;
        rg__vault_slice(bytes_of(c, step), (uint32_t)m, (uint32_t)c->n, &begin,
                        &end);
        memcpy(data + begin, slot_of(c, m, step) + begin, end - begin);
    }
}

rg_status rg__native_staged_allreduce(comm *c)
{
    count_steps(c);
    if (c->done < c->out && rg__native_all_posted(c, FLAG_OUT, c->done + 1)) {
        copy_slices_out(c);
        return finish_done(c);
    }
    if (c->out < c->in && rg__native_all_posted(c, FLAG_IN, c->out + 1))
        reduce_step(c);
    else if (may_copy_in(c))
        copy_others_in(c);
    return RG_IN_PROGRESS;
}

/* --------------------------------------------------------------- broadcast */

static rg_status send_step(comm *c)
{
    if (!may_copy_in(c))
        return RG_IN_PROGRESS;
    copy_in(c, c->coll.recv);
    return finish_done(c);
}

rg_status rg__native_staged_broadcast(comm *c)
{
    count_steps(c);
    const int root = c->root;
    if (root == c->rank)
        return send_step(c);
    const uint32_t step = c->done + 1;
    if (!rg__native_posted(c, root, FLAG_IN, step))
        return RG_IN_PROGRESS;
    memcpy((char *)c->coll.recv + begin_of(step), slot_of(c, root, step),
           bytes_of(c, step));
    return finish_done(c);
}

/* --------------------------------------------------------------- allgather */

/* One member's piece of a step; true when the step is complete. */
static bool gather_piece(comm *c)
{
    const uint32_t step = c->done + 1;
    char *to = (char *)c->coll.recv + (uint64_t)c->peer * c->bytes;
    if (!(c->peer == c->rank && c->coll.send == to))
        memcpy(to + begin_of(step), slot_of(c, c->peer, step),
               bytes_of(c, step));
    c->base.moves++;
    return ++c->peer == c->n;
}

rg_status rg__native_staged_allgather(comm *c)
{
    count_steps(c);
    if (c->done < c->in && rg__native_all_posted(c, FLAG_IN, c->done + 1))
        return gather_piece(c) ? finish_done(c) : RG_IN_PROGRESS;
    if (may_copy_in(c))
        copy_in(c, c->coll.send);
    return RG_IN_PROGRESS;
}
