/* Large operations over several hosts, in steps, of which several are under way
 * at a time (ring.c says how they cross between hosts):
 *
 *   copy in   when no member needs what the slot holds   (members with data)
 *   ready     when all of these on the host have copied in: rail k makes slice
 *             k of its host
 *   cross     rail k of every host, among themselves
 *   copy out  when all rails of the host have crossed
 *
 * The data of a step lie in the members' staging slots, as on one host
 * (staged.c); or in the memory of the member that gives or takes them, where
 * all members here can reach it: rg_alloc memory, or any if the member is alone
 * on its host. Then nothing is copied in, and no member leaves before all here
 * are done. A reduce is always staged: only its root has memory for the sum. */
#include "sdk/transport/inter/inter.h"

#include "sdk/base/copy.h"
#include "sdk/base/least.h"
#include "sdk/transport/reduce.h"

#define PIECES_MOST 16 /* of STAGE_BYTES, in a step */

static bool is_rail(const rg__native *c)
{
    return c->inter->pipeline.next != NULL;
}

static bool rails_posted(const rg__native *c, uint32_t step)
{
    for (int k = 0; k < c->inter->topology.rails; k++)
        if (!rg__shm_posted(c, k, FLAG_OUT, step))
            return false;
    return true;
}

/* Is there room for the step, in the slot or among the steps under way? */
static bool is_free(const rg__native *c, uint32_t step)
{
    const rg__pipeline *x = &c->inter->pipeline;
    return x->is_zero_copy ? step <= x->crossed + STAGES
                           : rg__shm_all_posted(c, FLAG_DONE, step - STAGES);
}

static bool may_copy_in(const rg__native *c)
{
    return !c->inter->pipeline.is_zero_copy && c->in < c->last &&
           is_free(c, c->in + 1);
}

static void finish_ready(rg__native *c)
{
    rg__pipeline *x = &c->inter->pipeline;
    x->ready++;
    x->part[x->ready % STAGES] = (rg__step_parts){0};
    c->base.moves++;
}

/* In place, wait until no member here reads my memory any more. */
static rg_status end(const rg__native *c)
{
    return c->inter->pipeline.is_zero_copy &&
                   !rg__shm_all_posted(c, FLAG_DONE, c->last)
               ? RG_IN_PROGRESS
               : RG_OK;
}

static rg_status finish_done(rg__native *c)
{
    c->done++;
    c->peer = 0;
    c->base.moves++;
    if (c->done == c->last) {
        rg__shm_post_end(c);
        return end(c);
    }
    if (!c->inter->pipeline.is_zero_copy)
        rg__shm_post(c, FLAG_DONE, c->done);
    return RG_IN_PROGRESS;
}

/* Copy a step out of the rails' memory. */
static void copy_slices_out(rg__native *c)
{
    const uint32_t step = c->done + 1;
    const bool has_mine =
        c->inter->pipeline.is_zero_copy || c->coll.kind == RG__ALLREDUCE;
    char *data = (char *)c->coll.recv + rg__step_begin(c, step);
    for (int k = 0; k < c->inter->topology.rails; k++) {
        size_t begin, end;
        rg__step_slice(c, step, k, &begin, &end);
        if (!has_mine || k != c->rank)
            rg__copy(data + begin, rg__step_data(c, k, step) + begin,
                     end - begin);
    }
}

/* ------------------------------------------------------ allreduce, reduce */

static const char *contribution(const rg__native *c, int m, uint32_t step,
                                size_t at)
{
    return c->inter->pipeline.is_zero_copy
               ? c->member[m].from + rg__step_begin(c, step) + at
               : rg__step_contribution(c, m, step, at);
}

static void add_up(const rg__native *c, uint32_t step, size_t at, size_t bytes,
                   char *sum)
{
    const void *src[RG__SOURCES_MAX];
    for (int m = 0; m < c->n; m++)
        src[m] = contribution(c, m, step, at);
    rg__combine(&c->coll, sum, src, c->n, bytes / rg_type_size(c->coll.type),
                -c->set_n);
}

/* In place, my own send must not change before it is added. */
static void reduce_block(const rg__native *c, uint32_t step, size_t at,
                         size_t bytes)
{
    _Alignas(64) char apart[RG__REDUCE_BLOCK];
    char *sum = rg__step_data(c, c->rank, step) + at;
    add_up(c, step, at, bytes, c->n > 2 ? apart : sum);
    if (c->n > 2)
        rg__copy(sum, apart, bytes);
}

static void reduce_slice(rg__native *c)
{
    const uint32_t step = c->inter->pipeline.ready + 1;
    size_t begin, end;
    rg__step_slice(c, step, c->rank, &begin, &end);
    const size_t now = rg__least(end - begin - c->at, RG__WORK_BYTES);
    for (size_t at = 0; at < now; at += RG__REDUCE_BLOCK)
        reduce_block(c, step, begin + c->at + at,
                     rg__least(now - at, RG__REDUCE_BLOCK));
    c->at += now;
    c->base.moves++;
    if (c->at < end - begin)
        return;
    c->at = 0;
    finish_ready(c);
}

static bool may_reduce(const rg__native *c)
{
    const uint32_t step = c->inter->pipeline.ready + 1;
    if (!is_rail(c) || step > c->last)
        return false;
    return c->inter->pipeline.is_zero_copy
               ? is_free(c, step)
               : rg__shm_all_posted(c, FLAG_IN, step);
}

static rg_status locate_mine(rg__native *c)
{
    c->member[0].from = (char *)(uintptr_t)c->coll.send;
    c->member[0].to = c->coll.recv;
    return RG_OK;
}

static rg_status pipeline_sum(rg__native *c)
{
    if (c->done == c->last)
        return end(c);
    rg_status st = RG_OK;
    if (c->inter->pipeline.is_zero_copy)
        st = c->n == 1 ? locate_mine(c) : rg__zero_copy_locate_all(c);
    if (st != RG_OK)
        return st;
    rg__ring_turn(c);
    if (rails_posted(c, c->done + 1)) {
        if (c->coll.kind == RG__ALLREDUCE || c->root == c->rank)
            copy_slices_out(c);
        return finish_done(c);
    }
    if (may_reduce(c))
        reduce_slice(c);
    else if (may_copy_in(c))
        rg__step_copy_in(c, c->coll.send, true);
    return RG_IN_PROGRESS;
}

/* --------------------------------------------------------------- broadcast */

/* On the root's host: has the root provided the step? */
static bool is_given(const rg__native *c, uint32_t step)
{
    return c->inter->pipeline.is_zero_copy ||
           rg__shm_posted(c, c->root, FLAG_IN, step);
}

static bool may_send_on(const rg__native *c)
{
    const rg__pipeline *x = &c->inter->pipeline;
    const uint32_t step = x->ready + 1;
    if (!is_rail(c) || step > c->last || step > x->crossed + STAGES)
        return false;
    return c->root >= 0 ? is_given(c, step) : is_free(c, step);
}

/* A rail still needs the root's data until they have crossed. */
static rg_status copy_from_root(rg__native *c)
{
    const uint32_t step = c->done + 1;
    if (!is_given(c, step) || (is_rail(c) && c->inter->pipeline.crossed < step))
        return RG_IN_PROGRESS;
    if (c->root != c->rank)
        rg__copy((char *)c->coll.recv + rg__step_begin(c, step),
                 rg__step_data(c, c->rank, step), rg__step_bytes(c, step));
    return finish_done(c);
}

static rg_status locate_rails(rg__native *c)
{
    if (c->n == 1)
        return locate_mine(c);
    if (c->root >= 0)
        return rg__zero_copy_locate_to(c, c->root);
    rg_status st = RG_OK;
    for (int k = 0; k < c->inter->topology.rails && st == RG_OK; k++)
        st = rg__zero_copy_locate_to(c, k);
    return st;
}

static rg_status pipeline_broadcast(rg__native *c)
{
    if (c->done == c->last)
        return end(c);
    const rg_status st =
        c->inter->pipeline.is_zero_copy ? locate_rails(c) : RG_OK;
    if (st != RG_OK)
        return st;
    rg__ring_turn(c);
    if (may_send_on(c))
        finish_ready(c);
    if (c->root == c->rank && may_copy_in(c))
        rg__step_copy_in(c, c->coll.recv, false);
    if (c->root >= 0)
        return copy_from_root(c);
    if (!rails_posted(c, c->done + 1))
        return RG_IN_PROGRESS;
    copy_slices_out(c);
    return finish_done(c);
}

/* --------------------------------------------------------------- allgather */

/* Collect my rail's slices of this host's members, as they cross. If all
 * members are alone, data cross from and to the result itself. */
static void pack(rg__native *c)
{
    const uint32_t step = c->inter->pipeline.ready + 1;
    if (c->inter->pipeline.is_zero_copy) {
        char *mine = rg__step_slices(c, 0, step, c->inter->topology.host);
        const char *data = (const char *)c->coll.send + rg__step_begin(c, step);
        if (mine != data)
            rg__copy(mine, data, rg__step_bytes(c, step));
        finish_ready(c);
        return;
    }
    char *to = rg__step_slices(c, c->rank, step, c->inter->topology.host);
    size_t begin, end;
    rg__step_slice(c, step, c->rank, &begin, &end);
    for (int m = 0; m < c->n; m++, to += end - begin)
        rg__copy(to, rg__shm_slot(c, m, step) + begin, end - begin);
    finish_ready(c);
}

static void copy_slices_of(const rg__native *c, uint32_t step, int host, int i,
                           char *to)
{
    for (int k = 0; k < c->inter->topology.rails; k++) {
        size_t begin, end;
        rg__step_slice(c, step, k, &begin, &end);
        rg__copy(to + begin,
                 rg__step_slices(c, k, step, host) + (size_t)i * (end - begin),
                 end - begin);
    }
}

/* Copy a step's data of one host's members; true: the step is complete. */
static bool gather_host(rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    const uint32_t step = c->done + 1;
    const int host = c->peer;
    for (int i = 0; i < rg__topology_size(s, host); i++) {
        const int m = rg__topology_member(s, host, i);
        char *to = (char *)c->coll.recv + (uint64_t)m * c->bytes;
        const bool is_there = m == c->set_rank && c->coll.send == to;
        if (host != s->host)
            copy_slices_of(c, step, host, i, to + rg__step_begin(c, step));
        else if (!is_there)
            rg__copy(to + rg__step_begin(c, step), rg__shm_slot(c, i, step),
                     rg__step_bytes(c, step));
    }
    c->base.moves++;
    return ++c->peer == s->hosts;
}

static rg_status pipeline_allgather(rg__native *c)
{
    rg__ring_turn(c);
    if (rails_posted(c, c->done + 1))
        return c->inter->pipeline.is_zero_copy || gather_host(c)
                   ? finish_done(c)
                   : RG_IN_PROGRESS;
    if (may_reduce(c))
        pack(c);
    else if (may_copy_in(c))
        rg__step_copy_in(c, c->coll.send, false);
    return RG_IN_PROGRESS;
}

/* ------------------------------------------------------------------- begin */

/* So many lines that a slot has room for its own and for a slice of all. */
static size_t gather_step(const rg__topology *s)
{
    const size_t lines = STAGE_BYTES / RG__LINE, n = (size_t)s->n;
    const size_t rails = (size_t)s->rails;
    const size_t most = (lines - n) * rails / (rails + n);
    return (most > 0 ? most : 1) * RG__LINE;
}

/* If all members are alone, no slot has to hold a step. In a sum, a host sends
 * a piece of the step at a time, and small pieces cost extra turns. */
static size_t step_bytes(const rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    const bool has_slots = !rg__topology_is_flat(s);
    if (c->coll.kind == RG__ALLGATHER)
        return has_slots ? gather_step(s) : STAGE_BYTES;
    if (c->coll.kind != RG__ALLREDUCE || has_slots || s->hosts == 2)
        return STAGE_BYTES;
    return STAGE_BYTES * (size_t)rg__least((unsigned)s->hosts, PIECES_MOST);
}

/* Can all members on this host reach the data where they are? */
static bool is_zero_copy(const rg__native *c)
{
    if (c->coll.kind == RG__REDUCE)
        return false;
    if (c->n == 1)
        return c->coll.kind != RG__ALLGATHER ||
               rg__topology_is_flat(&c->inter->topology);
    if (c->coll.kind == RG__ALLREDUCE ||
        (c->coll.kind == RG__BROADCAST && c->root >= 0))
        return rg__zero_copy_is_possible(c);
    if (c->coll.kind != RG__BROADCAST)
        return false;
    for (int k = 0; k < c->inter->topology.rails; k++)
        if (c->posting[k].at.recv_segment == 0)
            return false;
    return true;
}

void rg__pipeline_begin(rg__native *c)
{
    rg__pipeline *x = &c->inter->pipeline;
    x->is_zero_copy = is_zero_copy(c);
    rg__steps_begin(c, step_bytes(c), c->inter->topology.rails);
    rg__ring_begin(c);
    c->advance = c->coll.kind == RG__ALLGATHER   ? pipeline_allgather
                 : c->coll.kind == RG__BROADCAST ? pipeline_broadcast
                                                 : pipeline_sum;
}
