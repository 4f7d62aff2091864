/* Parts of commits on their way from one vault into another: what transfer.c
 * and copies.c say to each other over a connection.
 *
 *   ROOM   each buffer, once per connection: its description
 *   PIECE  which part of which commit comes, and the sum of its hashes
 *   BYTES  its slices, buffer by buffer, in frames
 *
 * A part is marked `writing` before its first byte arrives and complete when
 * the last has, and when the sum is right. The sender takes the sum as well: a
 * part that does not have its own is damaged, and counts no more.
 *
 * Threads: the loop's. Ownership: whoever has a parcel frees it. */
#ifndef RG_AGENT_PARCEL_H
#define RG_AGENT_PARCEL_H

#include "elastic/agent/base/agent_state.h"
#include "sdk/base/hash.h"

typedef enum parcel_state {
    PARCEL_MORE,      /* is on its way */
    PARCEL_DONE,      /* all of it is there */
    PARCEL_DAMAGED,   /* it does not have its checksum */
    PARCEL_GONE,      /* the sender's vault does not hold it any more */
    PARCEL_FAILED,    /* why is in rg_last_error */
    PARCEL_MALFORMED, /* nothing of ours says that */
} parcel_state;

/* A part of a commit in a vault slot. */
typedef struct parcel_part {
    int slot; /* of the vault */
    bool is_shard;
    rg__part part;
} parcel_part;

typedef struct parcel {
    agent *a;
    connection *wire;
    int buffers; /* that both ends had when it began; fixed from then on */
    int rooms;   /* told so far */
    int *order;  /* the receiver's buffers in the sender's order; owned */
    parcel_part what;
    rg__piece *piece;
    /* the walk over its bytes */
    int buffer;     /* in that order */
    size_t at, end; /* left of its slice */
    rg__hash hash;  /* of the slice */
    uint64_t sum;   /* of its numbers and the slices before */
    uint64_t expected;
    bool is_under_way;
    uint64_t bytes; /* that have gone or come over this connection */
} parcel;

/* The sender's, and the receiver's, which learns of the buffers by ROOM. */
void rg__parcel_open(parcel *p, agent *a, connection *wire, bool sends);
void rg__parcel_clear(parcel *p);

/* Sending, each when rg__connection_space has room. false: all rooms are
 * told, nothing was sent. */
bool rg__parcel_tell_room(parcel *p);
/* Begin with a part, or GONE. */
parcel_state rg__parcel_send(parcel *p, const parcel_part *what);
/* The next bytes; DONE, DAMAGED and GONE: nothing was sent. */
parcel_state rg__parcel_send_more(parcel *p);

/* Receiving. MORE: the room is known now. */
parcel_state rg__parcel_on_room(parcel *p, const void *body, size_t n);
/* What a PIECE frame announces; where it goes is the receiver's to say. */
parcel_state rg__parcel_read(const parcel *p, const void *body, size_t n,
                             parcel_part *what, uint64_t *sum_p);
parcel_state rg__parcel_begin(parcel *p, const parcel_part *what, uint64_t sum);
parcel_state rg__parcel_on_bytes(parcel *p, const void *body, size_t n);

/* Bytes that a part of a commit has. */
uint64_t rg__parcel_size(const agent *a, const parcel_part *what);

#endif
