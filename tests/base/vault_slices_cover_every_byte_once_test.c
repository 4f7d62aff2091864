/* Pieces of a commit: slices of a buffer meet without gap or overlap, for any
 * size and count; a vault slot holds a commit only when all its pieces say so,
 * and no scribbling of a worker causes a crash.
 *
 * Covers: page.c */
#include "sdk/base/page.h"
#include "tests/check.h"

static void check_slices(size_t bytes, uint32_t count)
{
    size_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t from = 0, to = 0;
        rg__vault_slice(bytes, i, count, &from, &to);
        CHECK(from == end && to >= from);
        CHECK(from % RG__LINE == 0 || from == bytes);
        end = to;
    }
    CHECK(end == bytes);
}

/* Parts of a sharded buffer, for which the world can be large. */
static void check_shards(size_t bytes, size_t unit, uint32_t count)
{
    size_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t from = 0, to = 0;
        rg__slice(bytes, unit, i, count, &from, &to);
        CHECK(from == end && to >= from);
        CHECK(from % unit == 0 || from == bytes);
        end = to;
    }
    CHECK(end == bytes);
}

static void set_piece(rg__vault *v, int slot, uint32_t i, uint32_t state,
                      uint32_t count, uint64_t generation, uint64_t step)
{
    rg__piece *p = &v->slot[slot][i];
    atomic_store(&p->count, count);
    atomic_store(&p->generation, generation);
    atomic_store(&p->step, step);
    atomic_store(&p->state, state);
}

static void check_id(const rg__vault *v, int slot, uint64_t generation,
                     uint64_t step)
{
    const rg__commit_id id = rg__vault_id(v, slot);
    CHECK_EQ(id.generation, generation);
    CHECK_EQ(id.step, step);
}

static void check_vault(void)
{
    static rg__vault v;
    check_id(&v, 0, 0, 0);
    for (uint32_t i = 0; i < 3; i++) {
        check_id(&v, 1, 0, 0);
        set_piece(&v, 1, i, RG__PIECE_COMPLETE, 3, 2, 40);
    }
    check_id(&v, 1, 2, 40);
    check_id(&v, 0, 0, 0);
    set_piece(&v, 1, 2, RG__PIECE_WRITING, 3, 2, 41);
    check_id(&v, 1, 0, 0);
    set_piece(&v, 1, 2, RG__PIECE_COMPLETE, 3, 2, 41);
    check_id(&v, 1, 0, 0);
    set_piece(&v, 1, 2, RG__PIECE_COMPLETE, 2, 2, 40);
    check_id(&v, 1, 0, 0);
    set_piece(&v, 1, 0, RG__PIECE_COMPLETE, UINT32_MAX, 2, 40);
    check_id(&v, 1, 0, 0);
    set_piece(&v, 1, 0, RG__PIECE_COMPLETE, 0, 2, 40);
    check_id(&v, 1, 0, 0);
    set_piece(&v, 1, 0, RG__PIECE_COMPLETE, 1, 0, 40);
    check_id(&v, 1, 0, 0);
}

int main(void)
{
    static const size_t sizes[] = {0,    1,    63,   64,    65,
                                   4095, 4096, 4097, 99991, (size_t)5 << 30};
    for (int s = 0; s < 10; s++)
        for (uint32_t count = 1; count <= RG__HOST_SLOTS_MAX; count++)
            check_slices(sizes[s], count);
    for (int s = 0; s < 10; s++)
        for (uint32_t count = 1; count <= 1000; count = count * 3 + 1)
            for (size_t unit = 1; unit <= 5000; unit = unit * 7 + 1)
                check_shards(sizes[s], unit, count);
    CHECK_EQ(rg__vault_stride(0), 0);
    CHECK_EQ(rg__vault_stride(1), RG__PAGE_BYTES);
    CHECK_EQ(rg__vault_stride(RG__PAGE_BYTES), RG__PAGE_BYTES);
    CHECK_EQ(rg__vault_stride(RG__PAGE_BYTES + 1), 2 * RG__PAGE_BYTES);
    check_vault();
    return 0;
}
