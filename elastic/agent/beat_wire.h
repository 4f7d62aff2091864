/* Datagrams between agents: one fixed layout, little-endian, with a MAC under
 * the job's key. Pure functions. */
#ifndef RG_AGENT_BEAT_WIRE_H
#define RG_AGENT_BEAT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sdk/base/proof.h"

typedef enum rg__beat_type {
    RG__BEAT = 1,    /* I live */
    RG__BEAT_PROBE,  /* answer with HERE */
    RG__BEAT_HERE,   /* the answer */
    RG__BEAT_ABORTED /* this generation is aborted: leave it */
} rg__beat_type;

typedef struct rg__beat {
    rg__beat_type type;
    uint64_t from, to;   /* incarnations */
    uint64_t counter;    /* of the sender; rises with every datagram */
    uint64_t generation; /* ABORTED: that one */
    bool is_etcd_up;     /* as the sender sees it */
} rg__beat;

#define RG__BEAT_BYTES (48 + RG__MAC_BYTES)

void rg__beat_write(uint8_t bytes[RG__BEAT_BYTES], const uint8_t *key,
                    const rg__beat *beat);

/* false: another length, layout or version, or not proved by this key. */
bool rg__beat_read(const void *bytes, size_t n, const uint8_t *key,
                   rg__beat *beat_p);

#endif
