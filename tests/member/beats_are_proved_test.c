/* A datagram between agents is read only as it was written, under its key. */
#include <string.h>

#include "elastic/agent/beat_wire.h"
#include "tests/check.h"

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
                           .is_etcd_up = true};
    rg__beat got;
    rg__beat_write(bytes, key, &sent);
    CHECK(rg__beat_read(bytes, RG__BEAT_BYTES, key, &got));
    CHECK_EQ(got.type, sent.type);
    CHECK_EQ(got.from, sent.from);
    CHECK_EQ(got.to, sent.to);
    CHECK_EQ(got.counter, sent.counter);
    CHECK_EQ(got.generation, sent.generation);
    CHECK_EQ(got.is_etcd_up, sent.is_etcd_up);
    CHECK(!rg__beat_read(bytes, RG__BEAT_BYTES, other, &got));
    CHECK(!rg__beat_read(bytes, RG__BEAT_BYTES - 1, key, &got));
    CHECK(!rg__beat_read(bytes, RG__BEAT_BYTES + 1, key, &got));
    for (size_t i = 0; i < RG__BEAT_BYTES; i++) {
        bytes[i] ^= 1;
        CHECK(!rg__beat_read(bytes, RG__BEAT_BYTES, key, &got));
        bytes[i] ^= 1;
    }
    return 0;
}
