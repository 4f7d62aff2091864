/* Frames between agents as they lie on the wire (elastic/agent/transfer.c). */
#include <string.h>

#include "sdk/base/hash.h"
#include "tests/fuzz/agent.h"

typedef struct fetch_frame {
    uint64_t generation;
    rg__commit_id id;
} fetch_frame;

typedef struct room_frame {
    uint64_t bytes;
    uint32_t count, unused;
    char name[RG__BUFFER_NAME_MAX];
} room_frame;

typedef struct piece_frame {
    uint32_t index, count;
    uint64_t sum;
} piece_frame;

static size_t put_fetch(fuzz_input *in, uint8_t *room)
{
    fetch_frame m = {.generation = fuzz_decimal(in)};
    m.id.generation = fuzz_decimal(in);
    m.id.step = fuzz_decimal(in);
    memcpy(room, &m, sizeof m);
    return sizeof m;
}

static size_t put_room(fuzz_input *in, uint8_t *room)
{
    room_frame m = {.bytes = fuzz_decimal(in)};
    m.count = (uint32_t)fuzz_decimal(in);
    fuzz_byte(in);
    memcpy(m.name, in->at, in->left < sizeof m.name ? in->left : sizeof m.name);
    memcpy(room, &m, sizeof m);
    return sizeof m;
}

/* A number, or `s` and the size of buffer `weights` that is all zeros. */
uint64_t frames_sum(fuzz_input *in)
{
    static const uint8_t zeros[4096];
    rg__hash hash;
    if (in->left > 0 && *in->at == ' ')
        fuzz_byte(in);
    if (in->left == 0 || *in->at != 's')
        return fuzz_decimal(in);
    fuzz_byte(in);
    const uint64_t n = fuzz_decimal(in);
    rg__hash_begin_named(&hash, "weights");
    rg__hash_update(&hash, zeros, n < sizeof zeros ? n : sizeof zeros);
    return rg__hash_value(&hash);
}

static size_t put_piece(fuzz_input *in, uint8_t *room)
{
    piece_frame m = {.index = (uint32_t)fuzz_decimal(in)};
    m.count = (uint32_t)fuzz_decimal(in);
    m.sum = frames_sum(in);
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
    default:
        return put_bytes(in, room);
    }
}
