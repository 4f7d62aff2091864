/* Before each round, hosts that are to be halved keep one half of the data of
 * each block and hand over the other: of a thousand blocks as of eight no more
 * bytes move than they have, twice. What is kept and what is handed over are
 * the halves, also where these are odd or none.
 *
 * Covers: exchange.c */
#include <string.h>

#include "tests/check.h"

static size_t moved;

static void *count_move(void *to, const void *from, size_t bytes)
{
    moved += bytes;
    return memmove(to, from, bytes);
}

#define memmove count_move
#include "sdk/transport/inter/exchange.c"
#undef memmove

#define MOST 1024

static uint32_t data_of(int block, uint32_t most)
{
    return block % 5 == 4 ? 0 : most - (uint32_t)(block % 3) * 2;
}

static void fill(rg__exchange *e, int blocks, uint32_t most)
{
    e->stored = 0;
    e->blocks = blocks;
    for (int i = 0; i < blocks; i++) {
        const rg__block_head head = {.host = (uint32_t)i,
                                     .descriptors = 1,
                                     .data_bytes = data_of(i, most)};
        const uint32_t bytes = rg__block_bytes(1, head.data_bytes);
        CHECK(make_room(&e->store, e->stored + bytes));
        char *at = e->store.at + e->stored;
        e->begin[i] = e->stored;
        memset(at, i, bytes);
        memcpy(at, &head, sizeof head);
        for (uint32_t k = 0; k < head.data_bytes; k++)
            at[sizeof head + sizeof(rg__descriptor) + k] = (char)(k * 7 + 3);
        e->stored += bytes;
    }
}

static const char *check_block(const char *at, int i, uint32_t most,
                               uint32_t skip)
{
    rg__block b;
    const uint32_t half = data_of(i, most) / 2;
    CHECK(rg__block_read(at, rg__block_bytes(1, half), &b));
    CHECK_EQ(b.head.host, i);
    CHECK_EQ(b.head.data_bytes, half);
    CHECK_EQ(b.descriptors[0], (char)i);
    for (uint32_t k = 0; k < half; k++)
        CHECK_EQ(b.data[k], (char)((k + skip * half) * 7 + 3));
    return at + b.bytes;
}

static void halve_blocks(int blocks, uint32_t most, int host)
{
    rg__inter inter = {.topology.host = host};
    rg__native c = {.inter = &inter};
    rg__exchange *e = &inter.exchange;
    e->begin = calloc(MOST, sizeof *e->begin);
    CHECK(e->begin != NULL);
    fill(e, blocks, most);
    const size_t before = e->stored;
    moved = 0;
    const size_t bytes = halve(&c);
    CHECK(bytes > 0 && moved <= 2 * before);
    const char *out = e->halved.at, *kept = e->store.at;
    for (int i = 0; i < blocks; i++) {
        CHECK(kept == e->store.at + e->begin[i]);
        out = check_block(out, i, most, host == 0);
        kept = check_block(kept, i, most, host != 0);
    }
    CHECK(out == e->halved.at + bytes && kept == e->store.at + e->stored);
    free(e->begin);
    free(e->store.at);
    free(e->halved.at);
}

int main(void)
{
    for (int host = 0; host < 2; host++) {
        halve_blocks(8, 8192, host);
        halve_blocks(MOST, 64, host);
        halve_blocks(MOST, 6, host);
    }
    return 0;
}
