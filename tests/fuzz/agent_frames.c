/* The frames of elastic/agent/transfer.c, whose layout is its own: it is taken
 * in as it stands, and linked from here. */
#include "elastic/agent/transfer.c"

#include "tests/fuzz/agent.h"

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

static size_t put_piece(fuzz_input *in, uint8_t *room)
{
    piece_frame m = {.index = (uint32_t)fuzz_decimal(in)};
    m.count = (uint32_t)fuzz_decimal(in);
    m.sum = fuzz_decimal(in);
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
