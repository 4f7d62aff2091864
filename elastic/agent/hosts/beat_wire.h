/* Datagrams between agents: one fixed layout, little-endian, with a MAC under
 * the job's key, and a text behind it where the type has one. Pure functions;
 * a text that was read lies in the datagram. */
#ifndef RG_AGENT_BEAT_WIRE_H
#define RG_AGENT_BEAT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sdk/base/proof.h"

typedef enum rg__beat_type {
    RG__BEAT = 1,     /* I live */
    RG__BEAT_PROBE,   /* answer with HERE */
    RG__BEAT_HERE,    /* the answer */
    RG__BEAT_ABORTED, /* this generation is aborted: leave it; to the leader:
                         text is which member died, a space, and why */
    RG__BEAT_ACK,     /* to the leader: text is my ack of this generation */
    RG__BEAT_OFFER,   /* from the leader: text is what I am to propose as this
                         generation */
    RG__BEAT_EXPECT   /* from the leader: text is the commit that my offer will
                         resume from once etcd has it on record */
} rg__beat_type;

typedef struct rg__beat {
    rg__beat_type type;
    uint64_t from, to;   /* incarnations */
    uint64_t counter;    /* of the sender; rises with every datagram */
    uint64_t generation; /* ABORTED to EXPECT: that one; BEAT: the newest that
                             the sender knows, proposed or decided */
    bool is_etcd_up;     /* as the sender sees it */
    bool is_decided;     /* BEAT: the generation is, as the sender sees it */
    bool accuses;        /* BEAT: the sender accuses a host */
    uint32_t budget_ms;  /* that the sender asks for; the leader's counts for
                            all hosts */
    uint64_t since_ns;   /* BEAT: the one before it was sent to the receiver so
                            long ago; 0: this is the first */
    const char *text;    /* ABORTED to EXPECT: not terminated; PROBE and HERE:
                  nothing, as long as it must be for a packet of a size */
    size_t text_bytes;   /* borrowed; others: 0 */
} rg__beat;

#define RG__BEAT_BYTES     (56 + RG__MAC_BYTES)
#define RG__BEAT_PROBE_MAX 9000  /* packets of any network */
#define RG__BEAT_TEXT_MAX  32768 /* of an ABORTED to EXPECT */
#define RG__BEAT_MAX       (RG__BEAT_BYTES + RG__BEAT_TEXT_MAX)

/* Needs room for RG__BEAT_BYTES and the text; says how much of it is used. */
size_t rg__beat_write(uint8_t *bytes, const uint8_t *key, const rg__beat *beat);

/* false: another length, layout or version, or not proved by this key. */
bool rg__beat_read(const void *bytes, size_t n, const uint8_t *key,
                   rg__beat *beat_p);

#endif
