/* Frames between hosts: a head, which says how long the body is, and the body.
 * Both ends are little-endian; another machine's magic does not match.
 *
 *   connecting                          accepting
 *   HELLO      from, to          ->
 *                                <-     ANSWER   proves the key
 *                                 |     LATER    not in that generation yet
 *   PROOF      proves the key    ->
 *   BLOCKS ...                  <->     BLOCKS ...
 *
 *   BLOCKS   what hosts say about an operation, and its small data
 *   POISON   the same, with a difference in it: passed on like any other
 *   DATA     a part of a step of a large operation
 *   MESSAGE  a piece of a lane of messages (messages/)
 *   BYE      the sender has left the set or the generation; index 1: its
 *            process ends
 *
 * Threads: functions without state. Everything here takes bytes from any
 * sender; a frame that passes is in range and has the right length. */
#ifndef RG_TCP_FRAME_H
#define RG_TCP_FRAME_H

#include "sdk/base/proof.h"
#include "sdk/transport/descriptor.h"

#define FRAME_MAGIC   0x31646772u /* "rgd1" */
#define FRAME_VERSION 6u
#define BODY_MAX      ((uint32_t)64 << 20)
#define BLOCKS_MAX    (2 * BODY_MAX)
#define MESSAGE_MAX   ((uint32_t)256 << 10)

typedef enum rg__frame_kind {
    FRAME_HELLO = 1,
    FRAME_ANSWER,
    FRAME_LATER,
    FRAME_PROOF,
    FRAME_BLOCKS,
    FRAME_POISON,
    FRAME_DATA,
    FRAME_BYE,
    FRAME_MESSAGE,
    FRAME_KINDS
} rg__frame_kind;

typedef struct rg__frame {
    uint32_t magic;
    uint16_t kind, index; /* round of the exchange, part of the step */
    uint64_t generation;
    uint32_t set, op, step;
    uint32_t bytes; /* of the body */
} rg__frame;

_Static_assert(sizeof(rg__frame) == 32, "no gaps");

/* What the proofs cover: that of HELLO covers its own content, those of ANSWER
 * and PROOF cover the whole HELLO and the answer's nonce. */
#define HELLO_LABEL  "regroup data hello"
#define ANSWER_LABEL "regroup data answer"
#define PROOF_LABEL  "regroup data proof"

typedef struct rg__data_hello_body {
    uint64_t generation;
    rg__member_id from_id, to_id;
    int32_t from, to; /* world ranks */
    uint32_t set, version;
    uint8_t nonce[RG__NONCE_BYTES];
} rg__data_hello_body;

_Static_assert(sizeof(rg__data_hello_body) == 72, "no gaps");

typedef struct rg__data_hello {
    rg__data_hello_body body;
    uint8_t mac[RG__MAC_BYTES];
} rg__data_hello;

typedef struct rg__data_answer {
    uint8_t nonce[RG__NONCE_BYTES];
    uint8_t mac[RG__MAC_BYTES];
} rg__data_answer;

typedef struct rg__data_proof {
    uint8_t mac[RG__MAC_BYTES];
} rg__data_proof;

/* What is wrong with a head; NULL: a peer may send it. */
const char *rg__frame_fault(const rg__frame *head);

/* One host's block: head, descriptors, data, padded to 8 bytes. Where all
 * members of the host have posted the same, it has one descriptor for all. */
typedef struct rg__block_head {
    uint32_t host; /* index among the set's hosts */
    uint32_t descriptors, data_bytes;
    uint32_t spare;
} rg__block_head;

typedef struct rg__block {
    rg__block_head head;
    const char *descriptors, *data;
    uint32_t bytes; /* of the whole block */
} rg__block;

uint32_t rg__block_bytes(uint32_t descriptors, uint32_t data_bytes);

/* Read the block at the beginning of n bytes. false: it is malformed. */
bool rg__block_read(const char *at, size_t n, rg__block *block);

#endif
