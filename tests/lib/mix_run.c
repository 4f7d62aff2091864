/* One member's part in an operation: its memory, the call, and the claims. */
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/lib/elements.h"
#include "tests/lib/mix_op.h"

#define GUARD  0x5a
#define AROUND 64 /* bytes before and behind a buffer */
#define SHIFTS 17 /* how far off alignment a buffer may begin */

/* ------------------------------------------------------------------ memory */

static char *take_of_arena(mix_arena *a, size_t bytes)
{
    char *at = NULL;
    pthread_mutex_lock(&a->lock);
    if (bytes <= a->bytes - a->used) {
        at = a->at + a->used;
        a->used += bytes;
        a->live++;
    }
    pthread_mutex_unlock(&a->lock);
    return at;
}

static void make_room(mix_room *room, dice *d, mix_arena *arena, size_t bytes,
                      char **at_p)
{
    const bool is_shared = dice_once_in(d, 2);
    const size_t shift = dice_once_in(d, 2) ? dice_roll(d, SHIFTS) : 0;
    room->bytes = (AROUND + shift + bytes + AROUND + 63) / 64 * 64;
    room->base = is_shared ? take_of_arena(arena, room->bytes) : NULL;
    room->arena = room->base == NULL ? NULL : arena;
    if (room->base == NULL)
        room->base = malloc(room->bytes);
    CHECK(room->base != NULL);
    memset(room->base, GUARD, room->bytes);
    *at_p = room->base + AROUND + shift;
}

static void drop_room(mix_room *room)
{
    mix_arena *a = room->arena;
    if (a == NULL) {
        free(room->base);
        return;
    }
    pthread_mutex_lock(&a->lock);
    a->live--;
    if (a->live == 0)
        a->used = 0;
    pthread_mutex_unlock(&a->lock);
}

/* ----------------------------------------------------------------- preparing
 */

static bool may_be_in_place(const mix_run *run)
{
    const bool is_root = run->rank == run->op.root;
    switch (run->op.kind) {
    case MIX_REDUCE:
    case MIX_GATHER:
    case MIX_GATHERV:
    case MIX_SCATTER:
    case MIX_SCATTERV:
        return is_root;
    case MIX_ALLTOALLV:
        return run->op.is_symmetric;
    default:
        return true;
    }
}

static void set_in_place(mix_run *run)
{
    const size_t element = rg_type_size(run->op.type);
    char *whole = run->send;
    const uint64_t *in = run->in.places, *out = run->out.places;
    switch (run->op.kind) {
    case MIX_ALLGATHER:
    case MIX_ALLGATHERV:
    case MIX_GATHER:
    case MIX_GATHERV:
        run->send = whole + in[run->rank] * element;
        run->recv = whole;
        break;
    case MIX_REDUCE_SCATTER:
    case MIX_REDUCE_SCATTERV:
    case MIX_SCATTER:
    case MIX_SCATTERV:
        run->recv = whole + out[run->rank] * element;
        break;
    default:
        run->recv = whole;
        break;
    }
}

static void lay(mix_run *run, dice *d)
{
    const bool has_places = dice_once_in(d, 2);
    mix_lay_out(run, has_places);
    mix_lay_in(run, run->is_in_place ? has_places : dice_once_in(d, 2));
}

void mix_run_prepare(mix_run *run, dice *d, mix_arena *arena)
{
    const size_t element = rg_type_size(run->op.type);
    const bool is_broadcast = run->op.kind == MIX_BROADCAST;
    run->is_in_place =
        is_broadcast || (dice_once_in(d, 2) && may_be_in_place(run));
    run->timeout_ms = dice_once_in(d, 4) ? 1000000 : 0;
    lay(run, d);
    size_t out = run->out.end * element, in = run->in.end * element;
    if (run->is_in_place)
        out = in > out ? in : out;
    make_room(&run->send_room, d, arena, out, &run->send);
    if (run->is_in_place)
        set_in_place(run);
    else
        make_room(&run->recv_room, d, arena, in, &run->recv);
    mix_paint(&run->op, &run->out, run->send);
}

/* ---------------------------------------------------------------- starting */

static rg_status start_adding(mix_run *run, rg_set *set, const rg_op_params *p)
{
    const mix_op *o = &run->op;
    switch (o->kind) {
    case MIX_ALLREDUCE:
        return rg_allreduce_start(set, run->send, run->recv, o->count, o->type,
                                  o->op, p, &run->req);
    case MIX_REDUCE:
        return rg_reduce_start(set, run->send, run->recv, o->count, o->type,
                               o->op, p, &run->req);
    case MIX_REDUCE_SCATTER:
        return rg_reduce_scatter_start(set, run->send, run->recv, o->count,
                                       o->type, o->op, p, &run->req);
    default:
        return rg_reduce_scatterv_start(set, run->send, run->recv,
                                        run->out.counts, o->type, o->op, p,
                                        &run->req);
    }
}

static const uint64_t *places_of(const mix_side *side)
{
    return side->has_places ? side->places : NULL;
}

static rg_status start_gathering(mix_run *run, rg_set *set,
                                 const rg_op_params *p)
{
    const mix_op *o = &run->op;
    const uint64_t mine = run->out.part[0].count;
    switch (o->kind) {
    case MIX_ALLGATHER:
        return rg_allgather_start(set, run->send, run->recv, o->count, o->type,
                                  p, &run->req);
    case MIX_ALLGATHERV:
        return rg_allgatherv_start(set, run->send, mine, run->recv,
                                   run->in.counts, places_of(&run->in), o->type,
                                   p, &run->req);
    case MIX_GATHER:
        return rg_gather_start(set, run->send, run->recv, o->count, o->type, p,
                               &run->req);
    default:
        return rg_gatherv_start(set, run->send, mine, run->recv, run->in.counts,
                                places_of(&run->in), o->type, p, &run->req);
    }
}

static rg_status start_spreading(mix_run *run, rg_set *set,
                                 const rg_op_params *p)
{
    const mix_op *o = &run->op;
    const uint64_t mine = run->in.part[0].count;
    switch (o->kind) {
    case MIX_BROADCAST:
        return rg_broadcast_start(set, run->send, o->count, o->type, p,
                                  &run->req);
    case MIX_SCATTER:
        return rg_scatter_start(set, run->send, run->recv, o->count, o->type, p,
                                &run->req);
    case MIX_SCATTERV:
        return rg_scatterv_start(set, run->send, run->out.counts,
                                 places_of(&run->out), run->recv, mine, o->type,
                                 p, &run->req);
    case MIX_ALLTOALL:
        return rg_alltoall_start(set, run->send, run->recv, o->count, o->type,
                                 p, &run->req);
    default:
        return rg_alltoallv_start(
            set, run->send, run->out.counts, places_of(&run->out), run->recv,
            run->in.counts, places_of(&run->in), o->type, p, &run->req);
    }
}

void mix_run_start(mix_run *run, rg_set *set)
{
    const mix_op *op = &run->op;
    const rg_op_params params = {.size = sizeof params,
                                 .root = mix_has_root(op) ? op->root : 0,
                                 .timeout_ms = run->timeout_ms,
                                 .prescale = op->prescale,
                                 .postscale = op->postscale};
    if (op->kind == MIX_BARRIER)
        run->st = rg_barrier_start(set, &params, &run->req);
    else if (op->kind == MIX_JOIN)
        run->st = rg_join_start(set, &run->last, &params, &run->req);
    else if (mix_adds(op))
        run->st = start_adding(run, set, &params);
    else if (op->kind >= MIX_ALLGATHER && op->kind <= MIX_GATHERV)
        run->st = start_gathering(run, set, &params);
    else
        run->st = start_spreading(run, set, &params);
    if (run->st != RG_OK)
        mix_run_check(run, run->st);
}

/* ---------------------------------------------------------------- checking */

static void fail(const mix_run *run, const char *what, const char *why)
{
    const mix_op *o = &run->op;
    CHECK_FAIL("%s: %s of %llu %s, %s, scales %g %g, root %d, joined %x, in "
               "place %d, on rank %d of %d: %s%s",
               run->label, mix_kind_names[o->kind],
               (unsigned long long)o->count, type_names[o->type],
               op_names[o->op], o->prescale, o->postscale, o->root, o->joined,
               run->is_in_place, run->rank, o->n, what, why);
}

static void check_status(const mix_run *run, rg_status st)
{
    if (st != run->expected) {
        char what[64];
        snprintf(what, sizeof what, "%s and not %s: ", rg_status_name(st),
                 rg_status_name(run->expected));
        fail(run, what, rg_last_error());
    }
    if (run->op.kind == MIX_JOIN && st == RG_OK &&
        run->last != run->expected_last)
        fail(run, "another rank joined last", "");
}

static void check_room(const mix_run *run, const mix_room *room,
                       const char *what, bool has_out, bool has_in)
{
    char *image = malloc(room->bytes);
    CHECK(image != NULL);
    memset(image, GUARD, room->bytes);
    if (has_out)
        mix_paint(&run->op, &run->out, image + (run->send - room->base));
    if (has_in)
        mix_paint(&run->op, &run->in, image + (run->recv - room->base));
    size_t i = 0;
    if (memcmp(image, room->base, room->bytes) == 0)
        i = room->bytes;
    while (i < room->bytes && image[i] == room->base[i])
        i++;
    if (i < room->bytes) {
        char why[96];
        snprintf(why, sizeof why, "byte %lld of %llu is %02x and not %02x",
                 (long long)i - AROUND, (unsigned long long)room->bytes,
                 room->base[i] & 0xff, image[i] & 0xff);
        fail(run, what, why);
    }
    free(image);
}

void mix_run_check(mix_run *run, rg_status st)
{
    const bool has_in = st == RG_OK;
    check_status(run, st);
    check_room(run, &run->send_room,
               run->is_in_place ? "in place, " : "what was sent, ", true,
               has_in && run->is_in_place);
    drop_room(&run->send_room);
    if (run->is_in_place)
        return;
    check_room(run, &run->recv_room, "what was received, ", false, has_in);
    drop_room(&run->recv_room);
}
