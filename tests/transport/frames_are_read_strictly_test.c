/* Malformed heads and blocks are told from frames, whatever lengths they
 * give, and nothing beyond the bytes is read.
 *
 * Covers: frame.c */
#include "sdk/transport/tcp/frame.h"
#include "tests/check.h"

/* Of 2,048 hosts half send what they have to the others; data of a host. */
enum { MOST_BLOCKS = 1024, MOST = 64 << 10 };

static rg__frame head_of(int kind, uint32_t bytes)
{
    return (rg__frame){
        .magic = FRAME_MAGIC, .kind = (uint16_t)kind, .bytes = bytes};
}

static bool passes(rg__frame head)
{
    return rg__frame_fault(&head) == NULL;
}

static void heads(void)
{
    CHECK(passes(head_of(FRAME_HELLO, sizeof(rg__data_hello))));
    CHECK(!passes(head_of(FRAME_HELLO, sizeof(rg__data_hello) - 1)));
    CHECK(!passes(head_of(FRAME_HELLO, sizeof(rg__data_hello) + 1)));
    CHECK(!passes(head_of(FRAME_PROOF, 0)));
    CHECK(passes(head_of(FRAME_DATA, 0)));
    CHECK(passes(head_of(FRAME_DATA, BODY_MAX)));
    CHECK(!passes(head_of(FRAME_DATA, BODY_MAX + 1)));
    CHECK(!passes(head_of(FRAME_BLOCKS, sizeof(rg__block_head) - 1)));
    CHECK(
        passes(head_of(FRAME_BLOCKS, MOST_BLOCKS * rg__block_bytes(1, MOST))));
    CHECK(!passes(head_of(FRAME_BLOCKS, BLOCKS_MAX + 1)));
    CHECK(!passes(head_of(FRAME_BYE, 1)));
    CHECK(!passes(head_of(0, 0)));
    CHECK(!passes(head_of(FRAME_KINDS, 0)));
    CHECK(!passes(head_of(UINT16_MAX, 0)));
    rg__frame other = head_of(FRAME_BYE, 0);
    other.magic = __builtin_bswap32(other.magic);
    CHECK(!passes(other));
}

/* A block of these lengths in exactly n bytes of memory. */
static bool reads(size_t n, uint32_t lines, uint32_t data_bytes)
{
    const rg__block_head head = {.descriptors = lines,
                                 .data_bytes = data_bytes};
    char *at = calloc(1, n == 0 ? 1 : n);
    rg__block b;
    CHECK(at != NULL);
    memcpy(at, &head, n < sizeof head ? n : sizeof head);
    const bool is_read = rg__block_read(at, n, &b);
    if (is_read) {
        CHECK(b.bytes <= n);
        CHECK(b.data + data_bytes <= at + n);
        CHECK(b.descriptors + lines * sizeof(rg__descriptor) == b.data);
    }
    free(at);
    return is_read;
}

static void blocks(void)
{
    const uint32_t one = rg__block_bytes(1, 0), some = rg__block_bytes(3, 5);
    CHECK_EQ(some % 8, 0);
    CHECK(reads(one, 1, 0));
    CHECK(reads(some, 3, 5));
    CHECK(reads(some + 100, 3, 5));
    CHECK(!reads(0, 1, 0));
    CHECK(!reads(sizeof(rg__block_head) - 1, 1, 0));
    CHECK(!reads(one - 1, 1, 0));
    CHECK(!reads(one, 0, 0));
    CHECK(!reads(some - 1, 3, 5));
    CHECK(!reads(some, UINT32_MAX, 0));
    CHECK(!reads(some, 1, UINT32_MAX));
    CHECK(!reads(some, UINT32_MAX, UINT32_MAX));
    CHECK(!reads(some, (uint32_t)(UINT64_C(0x100000000) / 24), 0));
}

int main(void)
{
    heads();
    blocks();
    return 0;
}
