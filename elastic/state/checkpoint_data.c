/* The data of a checkpoint: each piece is read completely and checked against
 * its hash, and the wanted part of it is kept. */
#include "elastic/state/checkpoint.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/hash.h"

#define CHUNK ((size_t)1 << 20)

static rg_status check_hash(const rg__checkpoint *c,
                            const rg__checkpoint_source *s,
                            const rg__checkpoint_piece *p, uint64_t hash)
{
    if (hash == p->hash)
        return RG_OK;
    return rg__fail(RG_ERR_DAMAGED,
                    "checkpoint %s is damaged: bytes %" PRIu64 " to %" PRIu64
                    " of buffer %s do not have their hash; use another one",
                    s->name, p->begin, p->begin + p->bytes,
                    c->buffer[p->buffer].name);
}

static rg_status check_padding(const rg__checkpoint_source *s,
                               const rg__checkpoint_piece *p)
{
    static const unsigned char none[RG__CHECKPOINT_PAGE];
    unsigned char zeros[RG__CHECKPOINT_PAGE];
    const uint64_t n = rg__checkpoint_pages(p->bytes) - p->bytes;
    const rg_status st =
        s->read(s->arg, p->file, p->offset + p->bytes, zeros, n);
    if (st != RG_OK || memcmp(zeros, none, n) == 0)
        return st;
    return rg__fail(RG_ERR_DAMAGED,
                    "checkpoint %s is damaged: there is something after a "
                    "buffer's end; use another one",
                    s->name);
}

/* Where a piece's bytes go: only bytes [begin, end) of its buffer are kept. */
typedef struct target {
    uint64_t begin, end;
    rg__checkpoint_keep_fn keep;
    void *arg;
    unsigned char *room; /* for a chunk */
} target;

static rg_status keep_chunk(const target *t, uint64_t at, size_t n)
{
    const uint64_t begin = at > t->begin ? at : t->begin;
    const uint64_t end = at + n < t->end ? at + n : t->end;
    return begin < end
               ? t->keep(t->arg, begin, t->room + (begin - at), end - begin)
               : RG_OK;
}

static rg_status open_file_of(const rg__checkpoint *c,
                              const rg__checkpoint_source *s,
                              const rg__checkpoint_piece *p)
{
    return p->file == 0
               ? RG_OK
               : s->open(s->arg, p->file, rg__checkpoint_bytes_of(c, p->file));
}

static rg_status read_piece(const rg__checkpoint *c,
                            const rg__checkpoint_source *s,
                            const rg__checkpoint_piece *p, const target *t)
{
    rg__hash hash;
    const rg_status opened = open_file_of(c, s, p);
    if (opened != RG_OK)
        return opened;
    rg__hash_begin(&hash);
    for (uint64_t at = 0; at < p->bytes; at += CHUNK) {
        const size_t n = p->bytes - at < CHUNK ? p->bytes - at : CHUNK;
        rg_status st = s->read(s->arg, p->file, p->offset + at, t->room, n);
        if (st != RG_OK)
            return st;
        rg__hash_update(&hash, t->room, n);
        st = keep_chunk(t, p->begin + at, n);
        if (st != RG_OK)
            return st;
    }
    return check_hash(c, s, p, rg__hash_value(&hash));
}

static rg_status no_room(const rg__checkpoint_source *s)
{
    return rg__fail(RG_ERR_MEMORY, "no memory to read %s", s->name);
}

/* Bytes of memory that are enough to read every piece in parts. */
static size_t room_for(const rg__checkpoint *c)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i < c->pieces; i++)
        if (c->piece[i].bytes > most)
            most = c->piece[i].bytes;
    return most < CHUNK ? (size_t)most : CHUNK;
}

static rg_status verify(const rg__checkpoint *c, const rg__checkpoint_source *s,
                        bool with_shards)
{
    rg_status st = RG_OK;
    const target nowhere = {.room = malloc(room_for(c))};
    if (nowhere.room == NULL)
        return no_room(s);
    for (uint32_t i = 0; i < c->pieces && st == RG_OK; i++) {
        const rg__checkpoint_piece *p = &c->piece[i];
        if (!with_shards && c->buffer[p->buffer].kind != RG_REPLICATED) {
            st = open_file_of(c, s, p);
            continue;
        }
        st = read_piece(c, s, p, &nowhere);
        if (st == RG_OK)
            st = check_padding(s, p);
    }
    free(nowhere.room);
    return st;
}

rg_status rg__checkpoint_verify(const rg__checkpoint *c,
                                const rg__checkpoint_source *s)
{
    return verify(c, s, true);
}

rg_status rg__checkpoint_verify_replicated(const rg__checkpoint *c,
                                           const rg__checkpoint_source *s)
{
    return verify(c, s, false);
}

rg_status rg__checkpoint_take(const rg__checkpoint *c,
                              const rg__checkpoint_source *s, uint32_t i,
                              uint64_t begin, uint64_t end,
                              rg__checkpoint_keep_fn keep, void *arg)
{
    rg_status st = RG_OK;
    const target t = {begin, end, keep, arg, malloc(CHUNK)};
    if (t.room == NULL)
        return no_room(s);
    for (uint32_t k = 0; k < c->pieces && st == RG_OK; k++) {
        const rg__checkpoint_piece *p = &c->piece[k];
        if (p->buffer == i && p->begin < end && begin < p->begin + p->bytes)
            st = read_piece(c, s, p, &t);
    }
    free(t.room);
    return st;
}
