/* Writing the record (base/record.h): what each set has started and ended here.
 *
 * The engine's lock is held in all of it. A request finds its note again,
 * unless the ring has wrapped and the note is another request's: then its
 * serial differs. A channel takes a lane with its first operation in a
 * generation. */
#include <stdio.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/hash.h"
#include "sdk/base/nvtx.h"
#include "sdk/core/engine_parts.h"

_Static_assert(RG__RECORD_LANES >= RG__SETS_MAX, "a lane for each set");

#define LANES_KEPT 16 /* of closed sets, for a dump */

static rg__half *half_of(const rg__engine *e)
{
    return &e->record->generation[atomic_load_explicit(&e->record->half,
                                                       memory_order_relaxed)];
}

/* Reuses the half of the generation before the last one. */
void rg__record_enter(rg__engine *e, uint64_t generation, int rank, int size)
{
    if (e->record == NULL)
        return;
    const uint32_t next = 1 - atomic_load(&e->record->half) % 2;
    rg__half *h = &e->record->generation[next];
    atomic_store(&h->generation, 0);
    memset(h->lane, 0, sizeof *h->lane * rg__record_lanes(h));
    atomic_store(&h->lanes, 0);
    e->free_lanes = 0;
    h->rank = rank;
    h->size = size;
    atomic_store(&h->generation, generation);
    atomic_store(&e->record->half, next);
    e->world->size = size;
    e->world->rank = rank;
}

void rg__record_members(rg__channel *ch, const int *ranks, int n, int rank)
{
    ch->size = n;
    ch->rank = -1;
    ch->members = rg__hash_of(ranks, sizeof *ranks * (size_t)(unsigned)n);
    for (int i = 0; i < n; i++)
        if (ranks[i] == rank)
            ch->rank = i;
}

/* ------------------------------------------------------------------- lanes */

/* NULL: none is left. */
static rg__lane *find_lane(rg__engine *e, rg__half *h)
{
    const uint32_t lanes = rg__record_lanes(h);
    const uint32_t kept = lanes < RG__RECORD_LANES ? LANES_KEPT : 0;
    for (uint32_t i = 0; e->free_lanes > kept && i < lanes; i++)
        if (h->lane[i].is_free) {
            e->free_lanes--;
            return &h->lane[i];
        }
    if (lanes == RG__RECORD_LANES)
        return NULL;
    atomic_store(&h->lanes, lanes + 1);
    return &h->lane[lanes];
}

static rg__lane *take_lane(rg__channel *ch, rg__half *h)
{
    rg__lane *lane = find_lane(ch->engine, h);
    if (lane == NULL)
        return NULL;
    memset(lane, 0, sizeof *lane);
    lane->set = ch->id;
    lane->size = (uint32_t)ch->size;
    lane->rank = ch->rank;
    lane->members = ch->members;
    snprintf(lane->name, sizeof lane->name, "%s", ch->name);
    ch->lane_generation = atomic_load(&h->generation);
    ch->started = 0;
    return ch->lane = lane;
}

void rg__record_closed(rg__channel *ch)
{
    rg__engine *e = ch->engine;
    if (ch->lane != NULL && e->record != NULL &&
        ch->lane_generation == atomic_load(&half_of(e)->generation)) {
        ch->lane->is_free = 1;
        e->free_lanes++;
    }
    ch->lane = NULL;
    ch->lane_generation = 0;
}

/* ------------------------------------------------------------------- notes */

static uint8_t kind_of(const rg_req *req)
{
    if (req->message != NULL)
        return req->is_send ? RG__OP_SEND : RG__OP_RECV;
    return (uint8_t)req->coll.kind;
}

static inline void count_one(_Atomic uint32_t *count)
{
    atomic_store_explicit(count,
                          atomic_load_explicit(count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void rg__record_queued(rg__channel *ch, rg_req *req)
{
    const rg__engine *e = ch->engine;
    if (e->record == NULL)
        return;
    rg__half *h = half_of(e);
    rg__lane *lane = ch->lane;
    if (lane == NULL ||
        ch->lane_generation !=
            atomic_load_explicit(&h->generation, memory_order_relaxed))
        lane = take_lane(ch, h);
    if (lane == NULL)
        return;
    const uint32_t notes =
        atomic_load_explicit(&lane->notes, memory_order_relaxed);
    const bool is_message = req->message != NULL;
    rg__op_note *note = &lane->note[notes % RG__LANE_OPS];
    note->serial = notes + 1;
    note->number = is_message ? 0 : ++ch->started;
    note->count = req->coll.count;
    note->started_ns = rg__coarse_ns();
    note->set = ch->id;
    note->peer = is_message ? req->peer : req->coll.root;
    note->status = 0;
    note->kind = kind_of(req);
    note->type = (uint8_t)req->coll.type;
    note->op = (uint8_t)req->coll.op;
    note->state = RG__OP_QUEUED;
    note->what[0] = '\0';
    if (req->coll.what != NULL)
        snprintf(note->what, sizeof note->what, "%s", req->coll.what);
    if (rg__record_traces(e->record))
        req->queued_ns = rg__now_ns();
    req->note = note;
    req->note_serial = notes + 1;
    atomic_store_explicit(&lane->notes, notes + 1, memory_order_release);
    if (!is_message)
        count_one(&lane->started);
}

static bool is_own(const rg_req *req)
{
    return req->note != NULL && req->note->serial == req->note_serial;
}

void rg__record_begun(rg__engine *e, rg_req *req)
{
    if (req->range == 0 && req->channel != NULL)
        req->range =
            rg__nvtx_begin(rg__kind_name(kind_of(req)), req->channel->name);
    if (e->record == NULL)
        return;
    if (is_own(req))
        req->note->state = RG__OP_BEGUN;
    if (req->queued_ns != 0)
        req->begun_ns = rg__now_ns();
}

static void add_span(const rg__engine *e, const rg_req *req, rg_status st)
{
    rg__span span = {.span = RG__SPAN_OP,
                     .queued_ns = req->queued_ns,
                     .begun_ns =
                         req->begun_ns != 0 ? req->begun_ns : req->queued_ns,
                     .ended_ns = rg__now_ns(),
                     .count = req->coll.count,
                     .set = req->channel->id,
                     .generation = (uint32_t)atomic_load(&e->generation),
                     .status = (int16_t)st,
                     .kind = kind_of(req),
                     .type = (uint8_t)req->coll.type,
                     .op = (uint8_t)req->coll.op};
    if (is_own(req))
        span.number = req->note->number;
    memcpy(span.what, req->channel->name, RG__SPAN_WHAT - 1);
    rg__record_span(e->record, &span);
}

void rg__record_ended(rg__engine *e, const rg_req *req, rg_status st)
{
    rg__nvtx_end(req->range);
    if (e->record == NULL || req->note == NULL)
        return;
    if (req->message == NULL && req->channel != NULL &&
        req->channel->lane != NULL)
        count_one(&req->channel->lane->ended);
    if (req->queued_ns != 0 && req->channel != NULL)
        add_span(e, req, st);
    if (!is_own(req))
        return;
    req->note->ended_ns = rg__coarse_ns();
    req->note->status = (int16_t)st;
    req->note->state = RG__OP_ENDED;
}
