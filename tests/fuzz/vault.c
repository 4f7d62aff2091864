/* The vault's table as a worker may have scribbled it, and how a buffer is cut
 * into slices. */
#include <string.h>

#include "sdk/base/page.h"
#include "tests/fuzz/fuzz.h"

/* An id is told only where every piece of it is complete. */
static void check_id(const rg__vault *vault, int slot)
{
    const rg__commit_id id = rg__vault_id(vault, slot);
    const rg__piece *piece = vault->slot[slot];
    if (id.generation == 0) {
        FUZZ_CLAIM(id.step == 0);
        return;
    }
    const uint32_t count = piece[0].count;
    FUZZ_CLAIM(count > 0 && count <= RG__HOST_SLOTS_MAX);
    for (uint32_t i = 0; i < count; i++)
        FUZZ_CLAIM(piece[i].state == RG__PIECE_COMPLETE &&
                   piece[i].generation == id.generation &&
                   piece[i].step == id.step && piece[i].count == count);
}

/* A shard that is found is complete, and the one that was wanted. */
static void check_shards(rg__vault *vault, int slot)
{
    const rg__commit_id id = rg__vault_part_id(vault, slot);
    for (uint32_t index = 0; index < 4; index++) {
        rg__piece *shard = rg__vault_shard(vault, slot, id, index);
        FUZZ_CLAIM(shard == NULL ||
                   (shard->state == RG__PIECE_COMPLETE &&
                    shard->generation == id.generation &&
                    shard->step == id.step && shard->index == index));
    }
}

/* Neighbours meet, and together they are all. */
static void check_slice(size_t bytes, size_t unit, uint32_t i, uint32_t count)
{
    size_t begin = 0, end = 0, next = 0, last = 0;
    rg__slice(bytes, unit, i, count, &begin, &end);
    FUZZ_CLAIM(begin <= end && end <= bytes);
    FUZZ_CLAIM(begin % unit == 0 || begin == bytes);
    FUZZ_CLAIM(i > 0 || begin == 0);
    FUZZ_CLAIM(i + 1 < count || end == bytes);
    if (i + 1 == count)
        return;
    rg__slice(bytes, unit, i + 1, count, &next, &last);
    FUZZ_CLAIM(next == end);
}

static void check_slices(fuzz_input *in)
{
    const size_t bytes = fuzz_number(in, 6);
    const size_t unit = 1 + fuzz_number(in, 2);
    const uint32_t count = 1 + (uint32_t)fuzz_number(in, 4) % UINT32_MAX;
    const uint32_t i = (uint32_t)fuzz_number(in, 4) % count;
    FUZZ_CLAIM(rg__vault_stride(bytes) >= bytes);
    check_slice(bytes, unit, i, count);
    check_slice(bytes, RG__LINE, i, count);
    check_slice(bytes, unit, 0, count);
    check_slice(bytes, unit, count - 1, count);
}

static void scribble_piece(fuzz_input *in, uint8_t mark, rg__piece *like)
{
    like->state = fuzz_byte(in);
    like->index = fuzz_byte(in);
    like->count = (uint32_t)fuzz_number(in, mark & 2 ? 4 : 1);
    like->generation = fuzz_number(in, mark & 4 ? 8 : 1);
    like->step = fuzz_number(in, mark & 8 ? 8 : 1);
}

/* Pieces, as many as there are bytes for; a mark says how the rest is filled,
 * since a whole table of equal pieces would never come about by itself. */
static void scribble(fuzz_input *in, uint8_t mark, rg__piece *table, int n)
{
    rg__piece like = {0};
    for (int i = 0; i < n; i++) {
        if (in->left > 0 && (i == 0 || (mark & 1) == 0))
            scribble_piece(in, mark, &like);
        table[i] = like;
    }
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    rg__vault *vault = aligned_alloc(RG__LINE, sizeof *vault);
    FUZZ_CLAIM(vault != NULL);
    check_slices(&in);
    const uint8_t mark = fuzz_byte(&in);
    for (int s = 0; s < RG__VAULT_SLOTS; s++) {
        scribble(&in, mark, vault->slot[s], RG__HOST_SLOTS_MAX);
        scribble(&in, mark, vault->shard[s], 8);
        memset(&vault->shard[s][8], mark,
               sizeof(rg__piece) * (RG__SHARDS_MAX - 8));
    }
    for (int s = 0; s < RG__VAULT_SLOTS; s++) {
        check_id(vault, s);
        check_shards(vault, s);
    }
    free(vault);
}
