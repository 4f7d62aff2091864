/* Local buffers: each rank's own memory, of any size (RG_LOCAL).
 *
 * Part i of a commit belongs to rank i, whatever its process and host are
 * later. In the vault it lies in cell i (page.h), which begins with its length:
 * so sizes may differ between ranks and between commits, and agents copy parts
 * as they copy shards. A worker maps its own cell, and others while it reads
 * them.
 *
 * If a part does not fit what the rank has registered, since the number of
 * ranks or its size has changed, the program redistributes it; if it has no
 * function for that, all ranks refuse it. */
#include "elastic/state/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process_sets/sets.h"
#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/base/shm.h"

#define MOST (RG__CELL_BYTES - sizeof(rg__cell))

rg_status rg__state_check_local(const char *name, const void *data,
                                size_t bytes)
{
    if (bytes <= MOST && (data != NULL || bytes == 0))
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "buffer %s has %zu bytes at %p; register memory of at most "
                    "256 GiB for a rank",
                    name, bytes, data);
}

/* Bytes of this rank's cells in a vault slot, with so many in that of b. */
static uint64_t cells_with(const rg_state *state, const rg__state_buffer *b,
                           size_t bytes)
{
    uint64_t sum = rg__page_round(sizeof(rg__cell) + bytes);
    for (int i = 0; i < state->buffers; i++) {
        const rg__state_buffer *other = &state->buffer[i];
        if (other->is_local && other != b)
            sum += rg__page_round(sizeof(rg__cell) + other->bytes);
    }
    return sum;
}

rg_status rg__state_ask_room(const rg_state *state, rg__state_buffer *b,
                             size_t need)
{
    rg__register what = {.bytes = b->is_local ? RG__BUFFER_MAX : b->bytes,
                         .slots = (uint32_t)state->slots,
                         .is_sharded = b->is_sharded,
                         .is_local = b->is_local,
                         .replicas = b->replicas,
                         .align = b->align,
                         .need = b->is_local ? cells_with(state, b, need) : 0};
    snprintf(what.name, sizeof what.name, "%s", b->name);
    int fd = -1;
    uint64_t place = 0;
    const rg_status st =
        state->ctx->hooks->reserve(state->ctx, &what, &fd, &place);
    if (st == RG_OK) { /* else it stays what it was */
        b->fd = fd;
        b->place = place;
    }
    return st;
}

/* ------------------------------------------------------------------- cells */

static size_t place_of(const rg__state_buffer *b, int slot, uint32_t i)
{
    return b->place + b->stride * (size_t)slot + RG__CELL_BYTES * i;
}

static rg_status read_head(const rg__state_buffer *b, int slot, uint32_t i,
                           size_t *bytes_p)
{
    rg__cell head;
    if (i < RG__CELLS &&
        pread(b->fd, &head, sizeof head, (off_t)place_of(b, slot, i)) ==
            (ssize_t)sizeof head &&
        head.bytes <= MOST) {
        *bytes_p = head.bytes;
        return RG_OK;
    }
    return rg__fail(RG_ERR_DAMAGED,
                    "the vault has no length of part %" PRIu32 " of buffer %s",
                    i, b->name);
}

rg_status rg__state_open_cell(const rg__state_buffer *b, int slot, uint32_t i,
                              rg__state_cell *cell)
{
    void *at = NULL;
    rg_status st = read_head(b, slot, i, &cell->bytes);
    if (st != RG_OK)
        return st;
    cell->room = sizeof(rg__cell) + cell->bytes;
    st = rg__shm_map_at(b->fd, place_of(b, slot, i), cell->room, &at);
    cell->at = at;
    return st;
}

void rg__state_close_cell(rg__state_cell *cell)
{
    rg__shm_unmap(cell->at, cell->room);
}

void rg__state_unmap_cell(rg__state_buffer *b)
{
    for (int i = 0; i < RG__VAULT_SLOTS; i++) {
        rg__shm_unmap(b->cell[i], b->cell_room);
        b->cell[i] = NULL;
    }
}

static rg_status map_cell(const rg_state *state, rg__state_buffer *b, int slot)
{
    const size_t place = place_of(b, slot, (uint32_t)state->ctx->now.rank);
    void *at = NULL;
    rg_status st = rg__shm_reserve(b->fd, b->name, place, b->cell_room);
    if (st == RG_OK)
        st = rg__shm_map_at(b->fd, place, b->cell_room, &at);
    b->cell[slot] = at;
    return st;
}

/* Mapped cells go only when all new ones are there: if one can't be had,
 * commits go on with the old ones. */
rg_status rg__state_reserve_cell(const rg_state *state, rg__state_buffer *b)
{
    rg__state_buffer more = *b;
    rg_status st = RG_OK;
    memset(more.cell, 0, sizeof more.cell);
    more.cell_room = sizeof(rg__cell) + b->bytes;
    for (int i = 0; i < state->slots && st == RG_OK; i++)
        st = map_cell(state, &more, i);
    rg__state_unmap_cell(st == RG_OK ? b : &more);
    if (st == RG_OK)
        *b = more;
    return st;
}

/* ------------------------------------------------------------------- parts */

static const rg__checkpoint_piece *stored(const rg_parts *from, uint32_t i)
{
    const rg__checkpoint *c = from->checkpoint;
    return rg__checkpoint_part(c, rg__checkpoint_find(c, from->b->name), i);
}

/* With as many ranks as before, each has verified only its own part. */
static bool has_part(const rg_parts *from, uint32_t i)
{
    const rg__membership *now = &from->state->ctx->now;
    return i < from->count &&
           (from->checkpoint != NULL || from->count != (uint32_t)now->size ||
            i == (uint32_t)now->rank);
}

static rg_status check_part(const rg_parts *parts, int i)
{
    if (parts == NULL || i < 0 || (uint32_t)i >= parts->count)
        return rg__fail(RG_ERR_INVALID,
                        "there is no part %d; they are numbered by rank", i);
    if (!has_part(parts, (uint32_t)i))
        return rg__fail(RG_ERR_NOT_FOUND,
                        "part %d of buffer %s is with its own rank; with the "
                        "same number of ranks only a rank's own part can be "
                        "read",
                        i, parts->b->name);
    return RG_OK;
}

int rg_parts_count(const rg_parts *parts)
{
    return parts == NULL ? 0 : (int)parts->count;
}

rg_status rg_parts_bytes(const rg_parts *parts, int i, size_t *bytes_p)
{
    const rg_status st = check_part(parts, i);
    if (st != RG_OK)
        return st;
    if (parts->checkpoint == NULL)
        return read_head(parts->b, parts->slot, (uint32_t)i, bytes_p);
    *bytes_p = stored(parts, (uint32_t)i)->bytes;
    return RG_OK;
}

typedef struct target {
    char *to;
    uint64_t begin;
} target;

static rg_status keep(void *arg, uint64_t at, const void *bytes, size_t n)
{
    const target *t = arg;
    rg__copy(t->to + (at - t->begin), bytes, n);
    return RG_OK;
}

static rg_status read_stored(const rg_parts *parts, uint32_t i, size_t begin,
                             size_t n, void *to)
{
    const rg__checkpoint *c = parts->checkpoint;
    const uint64_t at = stored(parts, i)->begin + begin;
    target t = {to, at};
    return rg__checkpoint_take(c, parts->source,
                               rg__checkpoint_find(c, parts->b->name), at,
                               at + n, keep, &t);
}

static rg_status read_cell(const rg_parts *parts, uint32_t i, size_t begin,
                           size_t n, void *to)
{
    rg__state_cell cell;
    const rg_status st = rg__state_open_cell(parts->b, parts->slot, i, &cell);
    if (st != RG_OK)
        return st;
    rg__copy(to, cell.at + sizeof(rg__cell) + begin, n);
    rg__state_close_cell(&cell);
    return RG_OK;
}

rg_status rg_parts_read(const rg_parts *parts, int i, size_t begin, size_t n,
                        void *to)
{
    size_t bytes = 0;
    const rg_status st = rg_parts_bytes(parts, i, &bytes);
    if (st != RG_OK)
        return st;
    if (begin > bytes || n > bytes - begin || (to == NULL && n > 0))
        return rg__fail(RG_ERR_INVALID,
                        "part %d of buffer %s has %zu bytes; %zu from %zu on "
                        "can't be read",
                        i, parts->b->name, bytes, n, begin);
    if (n == 0)
        return RG_OK;
    return parts->checkpoint != NULL
               ? read_stored(parts, (uint32_t)i, begin, n, to)
               : read_cell(parts, (uint32_t)i, begin, n, to);
}

/* ----------------------------------------------------------------- dealing */

static rg_status refuse_ranks(const rg_parts *from)
{
    const int size = from->state->ctx->now.size;
    return rg__fail(RG_ERR_REFUSED,
                    "buffer %s has parts of %" PRIu32 " ranks, and there are "
                    "%d ranks now; go on with %" PRIu32 ", or redistribute "
                    "them (rg_buffer_params.redistribute)",
                    from->b->name, from->count, size, from->count);
}

static rg_status refuse_size(const rg_parts *from, size_t bytes)
{
    return rg__fail(
        RG_ERR_REFUSED,
        "buffer %s has %zu bytes on rank %d, but its part has %zu; register as "
        "many, or redistribute it (rg_buffer_params.redistribute)",
        from->b->name, from->b->bytes, from->state->ctx->now.rank, bytes);
}

typedef struct taking {
    const rg__state_buffer *b;
    uint64_t begin; /* of the part */
} taking;

static rg_status write_part(void *arg, uint64_t at, const void *bytes, size_t n)
{
    const taking *t = arg;
    return rg__state_write(t->b, at - t->begin, bytes, n);
}

/* A part from the vault was copied by pieces.c. */
static rg_status take_own(const rg_parts *from)
{
    const rg__checkpoint *c = from->checkpoint;
    if (c == NULL || from->b->bytes == 0)
        return RG_OK;
    const uint64_t begin =
        stored(from, (uint32_t)from->state->ctx->now.rank)->begin;
    taking t = {from->b, begin};
    return rg__checkpoint_take(c, from->source,
                               rg__checkpoint_find(c, from->b->name), begin,
                               begin + from->b->bytes, write_part, &t);
}

/* A status that the program's function returns is not taken for another call's,
 * except that a damaged checkpoint may be replaced by the one before it. */
static rg_status redistribute(const rg_parts *from)
{
    rg_state *state = from->state;
    const rg__state_buffer *b = from->b;
    const char *why = rg_last_error();
    state->dealt = b;
    const rg_status st = b->redistribute(state, from, b->redistribute_arg);
    state->dealt = NULL;
    if (st == RG_OK || (st == RG_ERR_DAMAGED && from->checkpoint != NULL))
        return st;
    return rg__fail(RG_ERR_REFUSED,
                    "buffer %s is not redistributed on rank %d: its function "
                    "returned %s%s%s",
                    b->name, state->ctx->now.rank, rg_status_name(st),
                    why[0] != '\0' ? "; the newest error here: " : "", why);
}

static rg_status deal(const rg_parts *from)
{
    const rg__membership *now = &from->state->ctx->now;
    const rg__state_buffer *b = from->b;
    const bool has_ranks = from->count == (uint32_t)now->size;
    size_t bytes = 0;
    rg_status st = has_ranks ? rg_parts_bytes(from, now->rank, &bytes) : RG_OK;
    if (st != RG_OK)
        return st;
    if (has_ranks && bytes == b->bytes)
        return take_own(from);
    if (b->redistribute == NULL)
        return has_ranks ? refuse_size(from, bytes) : refuse_ranks(from);
    return redistribute(from);
}

rg_status rg__state_deal(const rg_parts *from)
{
    rg_status st = RG_OK;
    for (int k = 0; k < from->state->buffers && st == RG_OK; k++) {
        rg_parts of = *from;
        of.b = &from->state->buffer[k];
        if (of.b->is_local)
            st = deal(&of);
    }
    return st;
}

rg_status rg__state_agree_parts(rg_state *state, rg_status mine)
{
    char why[RG__TEXT_MAX];
    snprintf(why, sizeof why, "%s", rg_last_error());
    const int64_t in[4] = {mine == RG_OK ? 0 : state->ctx->now.rank + 1};
    int64_t out[4];
    const rg_status st =
        rg__world_agree(state->ctx, "the parts of local buffers",
                        RG__STATE_AGREE_PARTS, in, out);
    if (st != RG_OK || out[0] == 0)
        return st;
    if (mine != RG_OK)
        return rg__fail(mine, "%s", why);
    return rg__fail(RG_ERR_REFUSED,
                    "rank %d can't take its part of a local buffer, and its "
                    "own error says why; no rank goes on without it",
                    (int)out[0] - 1);
}

/* ------------------------------------------------------------------ resize */

/* The cells hold commits that count, before the added room. */
static rg_status make_room(rg_state *state, rg__state_buffer *b, size_t bytes)
{
    const size_t before = b->bytes;
    rg_status st =
        bytes != before ? rg__state_ask_room(state, b, bytes) : RG_OK;
    if (st != RG_OK)
        return st;
    b->bytes = bytes;
    if (b->fd >= 0 && state->ctx->now.rank >= 0)
        st = rg__state_reserve_cell(state, b);
    if (st != RG_OK)
        b->bytes = before;
    return st;
}

rg_status rg_state_resize(rg_state *state, const char *name, void *data,
                          size_t bytes)
{
    if (state == NULL || name == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_resize needs a state and a name");
    rg__state_buffer *b = rg__state_find(state, name);
    if (b == NULL || !b->is_local)
        return rg__fail(RG_ERR_INVALID,
                        "no local buffer named %s is registered", name);
    if (state->dealt != NULL && state->dealt != b)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s can't be resized while buffer %s is "
                        "redistributed; its part is taken on its own",
                        name, state->dealt->name);
    rg_status st = rg__state_check_local(name, data, bytes);
    if (st == RG_OK)
        st = rg__state_check_memory(state->ctx, data,
                                    b->device != NULL ? RG_DEVICE : RG_HOST);
    if (st == RG_OK)
        st = make_room(state, b, bytes);
    if (st != RG_OK)
        return st;
    if (b->device != NULL)
        b->there = data;
    else
        b->data = data;
    return RG_OK;
}
