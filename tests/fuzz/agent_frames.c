/* Frames between agents as they lie on the wire
 * (elastic/agent/vault/fetch.c, replication.c, chunk.c). */
#include <stddef.h>
#include <string.h>

#include "sdk/base/hash.h"
#include "tests/fuzz/agent.h"

#define SHARDS 8

typedef struct fetch_frame {
    uint64_t generation;
    rg__commit_id id;
    uint32_t is_whole, count;
    uint32_t shard[SHARDS];
} fetch_frame;

typedef struct room_frame {
    uint32_t count;
    rg__register room;
} room_frame;

typedef struct piece_frame {
    uint32_t is_shard, unused;
    rg__part part;
    uint64_t sum;
} piece_frame;

typedef struct copy_frame {
    uint64_t generation, host;
} copy_frame;

/* Generation, the commit, how many shards; an even number and the whole. */
static size_t put_fetch(fuzz_input *in, uint8_t *room)
{
    fetch_frame m = {.generation = fuzz_decimal(in)};
    m.id.generation = fuzz_decimal(in);
    m.id.step = fuzz_decimal(in);
    m.count = (uint32_t)fuzz_decimal(in);
    m.is_whole = m.count % 2 == 0;
    for (uint32_t i = 0; i < SHARDS; i++)
        m.shard[i] = i;
    memcpy(room, &m, sizeof m);
    return offsetof(fetch_frame, shard) +
           (m.count < SHARDS ? m.count : SHARDS) * sizeof *m.shard;
}

void frames_describe(fuzz_input *in, rg__register *m)
{
    m->slots = 2;
    fuzz_byte(in);
    if (in->left > 0 && *in->at == '#') {
        m->is_sharded = m->replicas = 1;
        m->slots = 3;
        m->align = 64;
    }
    memcpy(m->name, in->at,
           in->left < sizeof m->name ? in->left : sizeof m->name);
}

static size_t put_room(fuzz_input *in, uint8_t *room)
{
    room_frame m = {.room = {.bytes = fuzz_decimal(in)}};
    m.count = (uint32_t)fuzz_decimal(in);
    frames_describe(in, &m.room);
    memcpy(room, &m, sizeof m);
    return sizeof m;
}

static size_t put_copy(fuzz_input *in, uint8_t *room)
{
    copy_frame m = {.generation = fuzz_decimal(in)};
    m.host = fuzz_decimal(in);
    memcpy(room, &m, sizeof m);
    return sizeof m;
}

/* A number, or `s` and the size of buffer `weights` that is all zeros. */
uint64_t frames_sum(fuzz_input *in)
{
    static const uint8_t zeros[4096];
    rg__sum sum;
    if (in->left > 0 && *in->at == ' ')
        fuzz_byte(in);
    if (in->left == 0 || *in->at != 's')
        return fuzz_decimal(in);
    fuzz_byte(in);
    const uint64_t n = fuzz_decimal(in);
    rg__sum_begin(&sum, "weights", 0, NULL);
    rg__sum_update(&sum, zeros, n < sizeof zeros ? n : sizeof zeros);
    return rg__sum_end(&sum);
}

/* Which of how many, sum, the commit (1.5 if it says none), a shard if 1. */
static size_t put_piece(fuzz_input *in, uint8_t *room)
{
    piece_frame m = {.part = {.index = (uint32_t)fuzz_decimal(in)}};
    m.part.count = (uint32_t)fuzz_decimal(in);
    m.sum = frames_sum(in);
    m.part.id.generation = fuzz_decimal(in);
    m.part.id.step = fuzz_decimal(in);
    m.is_shard = (uint32_t)fuzz_decimal(in);
    if (m.part.id.generation == 0)
        m.part.id = (rg__commit_id){1, 5};
    m.sum += rg__part_hash(&m.part);
    memcpy(room, &m, sizeof m);
    return sizeof m;
}

/* As many zeros as it says, and the rest of the input. */
static size_t put_bytes(fuzz_input *in, uint8_t *room)
{
    size_t n = fuzz_decimal(in);
    n = n < RG__PEER_BODY_MAX / 2 ? n : RG__PEER_BODY_MAX / 2;
    memset(room, 0, n);
    const size_t more =
        in->left < RG__PEER_BODY_MAX / 2 ? in->left : RG__PEER_BODY_MAX / 2;
    memcpy(room + n, in->at, more);
    return n + more;
}

size_t frames_make(fuzz_input *in, uint32_t *type_p,
                   uint8_t room[RG__PEER_BODY_MAX])
{
    *type_p = fuzz_digit(in);
    switch (*type_p) {
    case RG__PEER_FETCH:
        return put_fetch(in, room);
    case RG__PEER_ROOM:
        return put_room(in, room);
    case RG__PEER_PIECE:
        return put_piece(in, room);
    case RG__PEER_COPY:
        return put_copy(in, room);
    default:
        return put_bytes(in, room);
    }
}
