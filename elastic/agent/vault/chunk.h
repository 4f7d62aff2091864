/* Parts of commits on their way from one vault into another: what fetch.c and
 * replication.c send each other over a connection.
 *
 *   ROOM   each buffer, once per connection: its description
 *   PIECE  which part of which commit comes, and the sum of its hashes
 *   BYTES  its slices, buffer by buffer, in frames
 *
 * A part is marked `writing` before its first byte arrives, and complete when
 * the last has arrived and the sum is right. The sender takes the sum as well:
 * a part that does not match is damaged, and no longer counts.
 *
 * Threads: the loop's. Ownership: the room that has a chunk frees it. */
#ifndef RG_AGENT_CHUNK_H
#define RG_AGENT_CHUNK_H

#include "elastic/agent/base/agent_state.h"
#include "sdk/base/hash.h"

typedef enum rg__chunk_state {
    CHUNK_MORE,      /* is on its way */
    CHUNK_DONE,      /* all of it is there */
    CHUNK_DAMAGED,   /* it does not have its checksum */
    CHUNK_GONE,      /* the sender's vault does not hold it any more */
    CHUNK_FAILED,    /* why is in rg_last_error */
    CHUNK_MALFORMED, /* nothing of ours says that */
} rg__chunk_state;

/* Why a receiver refuses what comes; NULL where it has nothing to say. */
const char *rg__chunk_why(rg__chunk_state state);

/* A part of a commit in a vault slot. */
typedef struct rg__chunk_part {
    int slot; /* of the vault */
    bool is_shard;
    rg__part part;
} rg__chunk_part;

typedef struct rg__chunk {
    rg__agent *a;
    rg__connection *wire;
    int buffers; /* that both ends had when it began; fixed from then on */
    int rooms;   /* told so far */
    int *order;  /* the receiver's buffers in the sender's order; owned */
    rg__chunk_part what;
    rg__piece *piece;
    /* the walk over its bytes */
    int buffer;     /* in that order */
    size_t at, end; /* left of its slice */
    rg__sum slice;
    uint64_t sum; /* of its numbers and the slices before */
    uint64_t expected;
    bool is_under_way;
    uint64_t bytes; /* that have gone or come over this connection */
} rg__chunk;

/* The sender's, and the receiver's, which learns of the buffers by ROOM. */
void rg__chunk_open(rg__chunk *p, rg__agent *a, rg__connection *wire,
                    bool sends);
void rg__chunk_clear(rg__chunk *p);

/* Sending, each when rg__connection_space has room. false: all rooms are
 * told, nothing was sent. */
bool rg__chunk_tell_room(rg__chunk *p);
/* Begin with a part, or GONE. */
rg__chunk_state rg__chunk_send(rg__chunk *p, const rg__chunk_part *what);
/* The next bytes; DONE, DAMAGED and GONE: nothing was sent. */
rg__chunk_state rg__chunk_send_more(rg__chunk *p);

/* Receiving. MORE: the room is known now. */
rg__chunk_state rg__chunk_on_room(rg__chunk *p, const void *body, size_t n);
/* What a PIECE frame announces; where it goes is the receiver's to say. */
rg__chunk_state rg__chunk_read(const rg__chunk *p, const void *body, size_t n,
                               rg__chunk_part *what, uint64_t *sum_p);
rg__chunk_state rg__chunk_begin(rg__chunk *p, const rg__chunk_part *what,
                                uint64_t sum);
rg__chunk_state rg__chunk_on_bytes(rg__chunk *p, const void *body, size_t n);

/* Tell the other end why not; false: there is no room to say it. */
bool rg__chunk_refuse(const rg__chunk *p, const char *why);
/* Bytes that a part of a commit has. */
uint64_t rg__chunk_size(const rg__agent *a, const rg__chunk_part *what);

#endif
