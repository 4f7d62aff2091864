/* Checks of bytes that came over a connection. */
#include "sdk/transport/tcp/frame.h"

#include <string.h>

static const struct {
    uint32_t least, most;
} bodies[FRAME_KINDS] = {
    [FRAME_HELLO] = {sizeof(rg__data_hello), sizeof(rg__data_hello)},
    [FRAME_ANSWER] = {sizeof(rg__data_answer), sizeof(rg__data_answer)},
    [FRAME_LATER] = {0, 0},
    [FRAME_PROOF] = {sizeof(rg__data_proof), sizeof(rg__data_proof)},
    [FRAME_BLOCKS] = {sizeof(rg__block_head), BLOCKS_MAX},
    [FRAME_POISON] = {sizeof(rg__block_head), BLOCKS_MAX},
    [FRAME_DATA] = {0, BODY_MAX},
    [FRAME_BYE] = {0, 0},
    [FRAME_MESSAGE] = {1, MESSAGE_MAX},
};

const char *rg__frame_fault(const rg__frame *head)
{
    if (head->magic != FRAME_MAGIC)
        return "no frame";
    if (head->kind == 0 || head->kind >= FRAME_KINDS)
        return "a frame of unknown kind";
    if (head->bytes < bodies[head->kind].least ||
        head->bytes > bodies[head->kind].most)
        return "a frame of wrong length";
    return NULL;
}

static uint64_t whole_bytes(uint64_t descriptors, uint64_t data_bytes)
{
    const uint64_t bytes = sizeof(rg__block_head) +
                           descriptors * sizeof(rg__descriptor) + data_bytes;
    return (bytes + 7) / 8 * 8;
}

uint32_t rg__block_bytes(uint32_t descriptors, uint32_t data_bytes)
{
    return (uint32_t)whole_bytes(descriptors, data_bytes);
}

bool rg__block_read(const char *at, size_t n, rg__block *b)
{
    if (n < sizeof b->head)
        return false;
    memcpy(&b->head, at, sizeof b->head);
    const uint64_t bytes = whole_bytes(b->head.descriptors, b->head.data_bytes);
    if (b->head.descriptors == 0 || bytes > n)
        return false;
    b->descriptors = at + sizeof b->head;
    b->data = b->descriptors + b->head.descriptors * sizeof(rg__descriptor);
    b->bytes = (uint32_t)bytes;
    return true;
}
