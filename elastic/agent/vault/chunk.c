#include "elastic/agent/vault/chunk.h"
#include "elastic/agent/vault/vaults.h"
#include "elastic/agent/hosts/peers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/fail.h"
#include "sdk/base/least.h"
#include "sdk/base/log.h"

typedef struct room_frame {
    uint32_t count; /* buffers in all */
    rg__register room;
} room_frame;

typedef struct piece_frame {
    uint32_t is_shard, unused;
    rg__part part;
    uint64_t sum;
} piece_frame;

void rg__chunk_open(rg__chunk *p, rg__agent *a, rg__connection *wire,
                    bool sends)
{
    *p = (rg__chunk){
        .a = a, .wire = wire, .buffers = sends ? a->store->buffers : 0};
}

void rg__chunk_clear(rg__chunk *p)
{
    free(p->order);
    p->order = NULL;
}

const char *rg__chunk_why(rg__chunk_state state)
{
    return state == CHUNK_DAMAGED  ? "what came does not have its checksum"
           : state == CHUNK_FAILED ? rg_last_error()
                                   : NULL;
}

bool rg__chunk_refuse(const rg__chunk *p, const char *why)
{
    char *to = rg__connection_space(p->wire);
    if (to == NULL)
        return false;
    snprintf(to, RG__CAUSE_MAX, "%s", why);
    rg__connection_send(p->wire, RG__PEER_REFUSED, strlen(to) + 1);
    return true;
}

/* That part is given up. */
static rg__chunk_state fail(rg__chunk *p, rg_status st, const char *why)
{
    p->is_under_way = false;
    rg__fail(st, "%s", why);
    return CHUNK_FAILED;
}

/* -------------------------------------------------------- a walk over bytes */

static const rg__vault_buffer *buffer_of(const rg__chunk *p)
{
    return &p->a->store
                ->buffer[p->order != NULL ? p->order[p->buffer] : p->buffer];
}

static void slice_of(const rg__vault_buffer *b, const rg__chunk_part *what,
                     size_t *begin_p, size_t *end_p)
{
    *begin_p = *end_p = 0;
    if (what->is_shard != b->is_sharded)
        return;
    if (what->is_shard)
        rg__vault_shard_place(b, what->part.index, what->part.count, begin_p,
                              end_p);
    else
        rg__vault_slice(b->bytes, what->part.index, what->part.count, begin_p,
                        end_p);
    if (*begin_p == *end_p)
        *begin_p = *end_p = 0;
}

static void walk_begin(rg__chunk *p, const rg__chunk_part *what)
{
    p->what = *what;
    p->buffer = -1;
    p->at = p->end = 0;
    p->sum = rg__part_hash(&what->part);
    p->is_under_way = true;
}

/* To the next byte of the part; false: it is over, and p->sum is its sum. */
static bool walk_on(rg__chunk *p)
{
    while (p->at == p->end) {
        if (p->end != 0)
            p->sum += rg__sum_end(&p->slice);
        p->at = p->end = 0;
        if (++p->buffer >= p->buffers)
            return false;
        slice_of(buffer_of(p), &p->what, &p->at, &p->end);
        rg__sum_begin(&p->slice, buffer_of(p)->name, 0, NULL);
    }
    return true;
}

/* The head of a cell says how much follows. */
static uint64_t behind_head(const rg__chunk *p)
{
    const rg__vault_buffer *b = buffer_of(p);
    const size_t begin = p->at - sizeof(rg__cell);
    return b->is_local && p->at == p->end && begin % RG__CELL_BYTES == 0
               ? rg__vault_cell_bytes(p->a, b, p->what.slot, begin)
               : 0;
}

static void walked(rg__chunk *p, const void *bytes, size_t n)
{
    rg__sum_update(&p->slice, bytes, n);
    p->at += n;
    p->bytes += n;
    p->end += behind_head(p);
}

static off_t place(const rg__chunk *p)
{
    const rg__vault_buffer *b = buffer_of(p);
    return rg__vault_at(b, p->what.slot, p->at);
}

uint64_t rg__chunk_size(const rg__agent *a, const rg__chunk_part *what)
{
    uint64_t sum = 0;
    for (int i = 0; i < a->store->buffers; i++) {
        size_t begin, end;
        slice_of(&a->store->buffer[i], what, &begin, &end);
        sum += end - begin;
    }
    return sum;
}

/* -------------------------------------------------------------------- send */

bool rg__chunk_tell_room(rg__chunk *p)
{
    if (p->rooms == p->buffers)
        return false;
    const rg__vault_buffer *b = &p->a->store->buffer[p->rooms++];
    room_frame m = {.count = (uint32_t)p->buffers};
    rg__vault_describe(b, &m.room);
    memcpy(rg__connection_space(p->wire), &m, sizeof m);
    rg__connection_send(p->wire, RG__PEER_ROOM, sizeof m);
    return true;
}

static uint32_t most_parts(const rg__chunk_part *what)
{
    return what->is_shard ? RG__WORLD_MAX : RG__HOST_SLOTS_MAX;
}

rg__chunk_state rg__chunk_send(rg__chunk *p, const rg__chunk_part *what)
{
    rg__vault *vault = p->a->store->vault;
    p->piece = what->is_shard ? rg__vault_shard(vault, what->slot,
                                                what->part.id, what->part.index)
                              : &vault->slot[what->slot][what->part.index];
    if (p->piece == NULL || !rg__piece_is(p->piece, what->part.id))
        return CHUNK_GONE;
    piece_frame m = {.is_shard = what->is_shard,
                     .part = what->part,
                     .sum = atomic_load(&p->piece->sum)};
    m.part.count = atomic_load(&p->piece->count);
    m.part.shards = atomic_load(&p->piece->shards);
    if (m.part.count <= m.part.index ||
        m.part.count > most_parts(what)) /* scribbled since it was looked at */
        return CHUNK_GONE;
    rg__chunk_part sent = *what;
    sent.part = m.part;
    walk_begin(p, &sent);
    p->expected = m.sum;
    memcpy(rg__connection_space(p->wire), &m, sizeof m);
    rg__connection_send(p->wire, RG__PEER_PIECE, sizeof m);
    return CHUNK_MORE;
}

static rg__chunk_state judge_sent(rg__chunk *p)
{
    p->is_under_way = false;
    if (!rg__piece_is(p->piece, p->what.part.id))
        return CHUNK_GONE;
    if (p->sum == p->expected)
        return CHUNK_DONE;
    rg__log(RG__ERROR, "agent",
            "commit %" PRIu64 ".%" PRIu64 " in the vault of this host is "
            "damaged: %s %u does not have its checksum; it no longer counts",
            p->what.part.id.generation, p->what.part.id.step,
            p->what.is_shard ? "shard" : "piece", p->what.part.index);
    rg__piece_empty(p->piece);
    return CHUNK_DAMAGED;
}

rg__chunk_state rg__chunk_send_more(rg__chunk *p)
{
    if (!walk_on(p))
        return judge_sent(p);
    const size_t left = p->end - p->at;
    const size_t n = left < RG__PEER_BODY_MAX ? left : RG__PEER_BODY_MAX;
    void *to = rg__connection_space(p->wire);
    if (pread(p->a->store->fd, to, n, place(p)) != (ssize_t)n ||
        !rg__piece_is(p->piece, p->what.part.id)) {
        p->is_under_way = false;
        return CHUNK_GONE;
    }
    walked(p, to, n);
    rg__connection_send(p->wire, RG__PEER_BYTES, n);
    return CHUNK_MORE;
}

/* ----------------------------------------------------------------- receive */

static bool is_room_new(const rg__chunk *p, int index)
{
    for (int i = 0; i < p->rooms; i++)
        if (p->order[i] == index)
            return false;
    return true;
}

rg__chunk_state rg__chunk_on_room(rg__chunk *p, const void *body, size_t n)
{
    room_frame m;
    int index = 0;
    if (n != sizeof m || p->is_under_way)
        return CHUNK_MALFORMED;
    memcpy(&m, body, sizeof m);
    if (m.count > RG__BUFFERS_MAX || (uint32_t)p->rooms >= m.count ||
        (p->order != NULL && m.count != (uint32_t)p->buffers))
        return CHUNK_MALFORMED;
    if (p->order == NULL)
        p->order = calloc(m.count, sizeof *p->order);
    p->buffers = (int)m.count;
    if (p->order == NULL)
        return fail(p, RG_ERR_MEMORY, "no memory for its buffers");
    if (rg__vault_room(p->a, &m.room, &index) != RG_OK)
        return CHUNK_FAILED;
    if (!is_room_new(p, index))
        return CHUNK_MALFORMED;
    p->order[p->rooms++] = index;
    return CHUNK_MORE;
}

rg__chunk_state rg__chunk_read(const rg__chunk *p, const void *body, size_t n,
                               rg__chunk_part *what, uint64_t *sum_p)
{
    piece_frame m;
    if (n != sizeof m || p->is_under_way)
        return CHUNK_MALFORMED;
    memcpy(&m, body, sizeof m);
    *what = (rg__chunk_part){
        .slot = -1, .is_shard = m.is_shard != 0, .part = m.part};
    *sum_p = m.sum;
    if (m.part.index >= m.part.count || m.part.count > most_parts(what))
        return CHUNK_MALFORMED;
    if (p->rooms == p->buffers && p->rooms == p->a->store->buffers)
        return CHUNK_MORE;
    if (p->rooms < p->buffers)
        return CHUNK_MALFORMED;
    rg__fail(RG_ERR_INVALID, "it has other buffers than this host");
    return CHUNK_FAILED;
}

/* After each part of it: it may be over. */
static rg__chunk_state look(rg__chunk *p)
{
    if (walk_on(p))
        return CHUNK_MORE;
    p->is_under_way = false;
    if (p->sum != p->expected) {
        rg__piece_empty(p->piece);
        return CHUNK_DAMAGED;
    }
    rg__piece_end(p->piece, p->sum);
    return CHUNK_DONE;
}

/* Where a shard goes: its own place, else one without parts of the commit. */
static rg__piece *find_place(const rg__agent *a, const rg__chunk_part *what)
{
    rg__piece *table = a->store->vault->shard[what->slot], *found = NULL;
    for (int i = RG__HOST_SLOTS_MAX; i < RG__SHARDS_MAX; i++) {
        const rg__commit_id id = {atomic_load(&table[i].generation),
                                  atomic_load(&table[i].step)};
        const bool is_old = atomic_load(&table[i].state) == RG__PIECE_EMPTY ||
                            !rg__same_commit(id, what->part.id);
        if (!is_old && atomic_load(&table[i].index) == what->part.index)
            return &table[i];
        if (is_old && found == NULL)
            found = &table[i];
    }
    return found;
}

/* Of the blocks that lay where a piece's slice of a buffer comes: workers that
 * copy ahead would take them for those of its bytes. */
static bool forget_hashes(const rg__agent *a, const rg__vault_buffer *b,
                          const rg__chunk_part *what)
{
    static const uint64_t none[512];
    size_t begin, end;
    slice_of(b, what, &begin, &end);
    const size_t first = rg__vault_hashes(b->bytes, begin, what->part.index);
    const size_t count = (end - begin + RG__BLOCK - 1) / RG__BLOCK;
    const off_t at = rg__vault_at(b, what->slot, first);
    const size_t bytes = first == 0 ? 0 : count * sizeof *none;
    for (size_t done = 0, n; done < bytes; done += n) {
        n = rg__least(bytes - done, sizeof none);
        if (pwrite(a->store->fd, none, n, at + (off_t)done) != (ssize_t)n)
            return false;
    }
    return true;
}

static bool forget_all_hashes(const rg__agent *a, const rg__chunk_part *what)
{
    bool is_done = true;
    for (int i = 0; i < a->store->buffers && !what->is_shard && is_done; i++)
        is_done = forget_hashes(a, &a->store->buffer[i], what);
    return is_done;
}

rg__chunk_state rg__chunk_begin(rg__chunk *p, const rg__chunk_part *what,
                                uint64_t sum)
{
    p->piece = what->is_shard
                   ? find_place(p->a, what)
                   : &p->a->store->vault->slot[what->slot][what->part.index];
    if (p->piece == NULL)
        return fail(p, RG_ERR_MEMORY,
                    "its vault has no place for another shard");
    if (!forget_all_hashes(p->a, what))
        return fail(p, RG_ERR_MEMORY, "its vault can't be written");
    walk_begin(p, what);
    p->expected = sum;
    rg__piece_begin(p->piece, &what->part);
    return look(p);
}

rg__chunk_state rg__chunk_on_bytes(rg__chunk *p, const void *body, size_t n)
{
    if (!p->is_under_way || n == 0 || n > p->end - p->at)
        return CHUNK_MALFORMED;
    if (pwrite(p->a->store->fd, body, n, place(p)) != (ssize_t)n)
        return fail(p, RG_ERR_MEMORY, "its vault can't be written");
    const size_t end = p->end;
    walked(p, body, n);
    if (p->end > end &&
        rg__vault_check_more(p->a, buffer_of(p)->name, (uint64_t)place(p),
                             p->end - end) != RG_OK) {
        p->is_under_way = false;
        return CHUNK_FAILED;
    }
    return look(p);
}
