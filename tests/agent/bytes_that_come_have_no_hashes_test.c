/* What another host sends lies where an older commit lay, whose hashes of
 * blocks stood behind it: a newcomer that copies ahead must not take those for
 * hashes of the bytes that come. The old hashes are removed before the first
 * new byte is written.
 *
 * Covers: chunk.c */
#include "sdk/base/hash.h"
#include "tests/agent/agents.h"

#define BYTES  (((uint64_t)5 << 20) + 100)
#define PIECES 2

static const rg__commit_id older = {1, 4}, resume = {2, 7};

static uint64_t *hashes(rg__agent *a, int slot, uint32_t i, size_t *count_p)
{
    size_t begin, end;
    rg__vault_slice(BYTES, i, PIECES, &begin, &end);
    *count_p = (end - begin + RG__BLOCK - 1) / RG__BLOCK;
    char *at =
        vault_bytes(a, "weights", slot) + rg__vault_hashes(BYTES, begin, i);
    return (uint64_t *)(void *)at;
}

static void store_hashes(rg__agent *a, int slot)
{
    for (uint32_t i = 0; i < PIECES; i++) {
        size_t n = 0;
        uint64_t *hash = hashes(a, slot, i, &n);
        while (n-- > 0)
            hash[n] = 7;
    }
}

static void check_hashes(rg__agent *a, int slot, uint64_t expected)
{
    for (uint32_t i = 0; i < PIECES; i++) {
        size_t n = 0;
        const uint64_t *hash = hashes(a, slot, i, &n);
        CHECK(n == 11);
        while (n-- > 0)
            CHECK_EQ(hash[n], expected);
    }
}

int main(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *from = agent_make_patient(loop, 1),
              *to = agent_make_patient(loop, 2);
    vault_add(from, "weights", BYTES);
    vault_add(to, "weights", BYTES);
    vault_commit(from, 1, resume, PIECES);
    vault_commit(to, 0, older, PIECES);
    store_hashes(to, 0);
    store_hashes(to, 1);
    decide_before(to, 2, older);
    decide(to, from, 3, resume);
    loop_until(loop, is_copied, to);
    const int slot = rg__vault_find(to->store->vault, resume);
    CHECK(slot == 0 || slot == 1);
    CHECK(vault_has(to, slot, resume));
    check_hashes(to, slot, 0);
    check_hashes(to, 1 - slot, 7);
    agent_free(to);
    agent_free(from);
    rg__loop_destroy(loop);
    return 0;
}
