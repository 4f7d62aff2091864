/* A datagram between agents is read only as it was written, under its key.
 *
 * Covers: beat_wire.c */
#include <string.h>

#include "elastic/agent/hosts/beat_wire.h"
#include "tests/check.h"

static void acks_have_a_text(const uint8_t *key)
{
    uint8_t bytes[RG__BEAT_MAX + 1] = {0};
    static const char text[] = "{\"held\":[]}";
    rg__beat got, sent = {.type = RG__BEAT_ACK,
                          .generation = 2,
                          .text = text,
                          .text_bytes = sizeof text - 1};
    const size_t n = rg__beat_write(bytes, key, &sent);
    CHECK_EQ(n, RG__BEAT_BYTES + sizeof text - 1);
    CHECK(rg__beat_read(bytes, n, key, &got));
    CHECK_EQ(got.text_bytes, sizeof text - 1);
    CHECK(memcmp(got.text, text, sizeof text - 1) == 0);
    CHECK(!rg__beat_read(bytes, n - 1, key, &got));
    CHECK(!rg__beat_read(bytes, RG__BEAT_BYTES, key, &got));
    bytes[n - 1] ^= 1;
    CHECK(!rg__beat_read(bytes, n, key, &got));
    sent.type = RG__BEAT; /* has none */
    CHECK(!rg__beat_read(bytes, rg__beat_write(bytes, key, &sent), key, &got));
}

int main(void)
{
    uint8_t key[32], other[32], bytes[RG__BEAT_BYTES + 1] = {0};
    memset(key, 7, sizeof key);
    memset(other, 8, sizeof other);
    const rg__beat sent = {.type = RG__BEAT_ABORTED,
                           .from = UINT64_MAX,
                           .to = 3,
                           .counter = UINT64_C(1) << 40,
                           .generation = 12,
                           .budget_ms = 3000,
                           .since_ns = UINT64_C(1) << 50,
                           .is_decided = true,
                           .accuses = true};
    rg__beat got;
    rg__beat_write(bytes, key, &sent);
    CHECK(rg__beat_read(bytes, RG__BEAT_BYTES, key, &got));
    CHECK_EQ(got.type, sent.type);
    CHECK_EQ(got.from, sent.from);
    CHECK_EQ(got.to, sent.to);
    CHECK_EQ(got.counter, sent.counter);
    CHECK_EQ(got.generation, sent.generation);
    CHECK_EQ(got.budget_ms, sent.budget_ms);
    CHECK_EQ(got.since_ns, sent.since_ns);
    CHECK(got.is_decided && got.accuses && !got.is_etcd_up);
    CHECK(!rg__beat_read(bytes, RG__BEAT_BYTES, other, &got));
    CHECK(!rg__beat_read(bytes, RG__BEAT_BYTES - 1, key, &got));
    CHECK(!rg__beat_read(bytes, RG__BEAT_BYTES + 1, key, &got));
    for (size_t i = 0; i < RG__BEAT_BYTES; i++) {
        bytes[i] ^= 1;
        CHECK(!rg__beat_read(bytes, RG__BEAT_BYTES, key, &got));
        bytes[i] ^= 1;
    }
    acks_have_a_text(key);
    return 0;
}
