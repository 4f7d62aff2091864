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

static void check_slices(size_t bytes, uint32_t count)
{
    size_t next = 0;
    FUZZ_CLAIM(rg__vault_stride(bytes) >= bytes);
    for (uint32_t i = 0; i < count; i++) {
        size_t begin = 0, end = 0;
        rg__vault_slice(bytes, i, count, &begin, &end);
        FUZZ_CLAIM(begin == next && end >= begin && end <= bytes);
        next = end;
    }
    FUZZ_CLAIM(next == bytes);
}

/* Pieces, as many as there are bytes for; a mark says how the rest is filled,
 * since a whole table of equal pieces would never come about by itself. */
static void scribble(fuzz_input *in, rg__vault *vault)
{
    const uint8_t mark = fuzz_byte(in);
    for (int s = 0; s < RG__VAULT_SLOTS; s++) {
        rg__piece like = {0};
        for (int i = 0; i < RG__HOST_SLOTS_MAX; i++) {
            rg__piece *p = &vault->slot[s][i];
            if (in->left > 0 && (i == 0 || (mark & 1) == 0)) {
                like.state = fuzz_byte(in);
                like.count = (uint32_t)fuzz_number(in, mark & 2 ? 4 : 1);
                like.generation = fuzz_number(in, mark & 4 ? 8 : 1);
                like.step = fuzz_number(in, mark & 8 ? 8 : 1);
            }
            *p = like;
        }
    }
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    rg__vault *vault = aligned_alloc(RG__LINE, sizeof *vault);
    FUZZ_CLAIM(vault != NULL);
    const size_t size = fuzz_number(&in, 5);
    check_slices(size, 1 + fuzz_byte(&in) % RG__HOST_SLOTS_MAX);
    scribble(&in, vault);
    for (int s = 0; s < RG__VAULT_SLOTS; s++)
        check_id(vault, s);
    free(vault);
}
