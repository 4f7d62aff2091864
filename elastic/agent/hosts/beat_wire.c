#include "elastic/agent/hosts/beat_wire.h"

#include <endian.h>
#include <string.h>

#define MAGIC   UINT32_C(0x74616562) /* "beat" */
#define VERSION 8
#define ETCD_UP 1
#define DECIDED 2
#define ACCUSES 4
#define LABEL   "regroup beat 8"

typedef struct layout {
    uint32_t magic;
    uint16_t version, type;
    uint64_t from, to, counter, generation;
    uint32_t flags, budget_ms;
    uint64_t since_ns;
} layout;

_Static_assert(sizeof(layout) + RG__MAC_BYTES == RG__BEAT_BYTES, "no gaps");

size_t rg__beat_write(uint8_t *bytes, const uint8_t *key, const rg__beat *beat)
{
    const layout l = {.magic = htole32(MAGIC),
                      .version = htole16(VERSION),
                      .type = htole16((uint16_t)beat->type),
                      .from = htole64(beat->from),
                      .to = htole64(beat->to),
                      .counter = htole64(beat->counter),
                      .generation = htole64(beat->generation),
                      .flags = htole32((beat->is_etcd_up ? ETCD_UP : 0) |
                                       (beat->is_decided ? DECIDED : 0) |
                                       (beat->accuses ? ACCUSES : 0)),
                      .budget_ms = htole32(beat->budget_ms),
                      .since_ns = htole64(beat->since_ns)};
    memcpy(bytes, &l, sizeof l);
    rg__mac_make(bytes + sizeof l, key, LABEL, &l, sizeof l, beat->text,
                 beat->text_bytes);
    if (beat->text_bytes > 0)
        memcpy(bytes + RG__BEAT_BYTES, beat->text, beat->text_bytes);
    return RG__BEAT_BYTES + beat->text_bytes;
}

static bool is_length(uint16_t type, size_t n)
{
    const bool is_probe = type == RG__BEAT_PROBE || type == RG__BEAT_HERE;
    const size_t most = is_probe                   ? RG__BEAT_PROBE_MAX
                        : type >= RG__BEAT_ABORTED ? RG__BEAT_MAX
                                                   : RG__BEAT_BYTES;
    return n >= RG__BEAT_BYTES && n <= most;
}

bool rg__beat_read(const void *bytes, size_t n, const uint8_t *key,
                   rg__beat *beat_p)
{
    layout l;
    const char *text = (const char *)bytes + RG__BEAT_BYTES;
    if (n < RG__BEAT_BYTES)
        return false;
    const size_t text_bytes = n - RG__BEAT_BYTES;
    memcpy(&l, bytes, sizeof l);
    const uint16_t type = le16toh(l.type);
    if (le32toh(l.magic) != MAGIC || le16toh(l.version) != VERSION ||
        type < RG__BEAT || type > RG__BEAT_EXPECT || !is_length(type, n) ||
        !rg__mac_is((const uint8_t *)bytes + sizeof l, key, LABEL, &l, sizeof l,
                    text, text_bytes))
        return false;
    *beat_p = (rg__beat){.type = (rg__beat_type)type,
                         .from = le64toh(l.from),
                         .to = le64toh(l.to),
                         .counter = le64toh(l.counter),
                         .generation = le64toh(l.generation),
                         .is_etcd_up = le32toh(l.flags) & ETCD_UP,
                         .is_decided = le32toh(l.flags) & DECIDED,
                         .accuses = le32toh(l.flags) & ACCUSES,
                         .budget_ms = le32toh(l.budget_ms),
                         .since_ns = le64toh(l.since_ns),
                         .text = text,
                         .text_bytes = text_bytes};
    return true;
}
