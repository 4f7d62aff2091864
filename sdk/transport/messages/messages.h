/* Messages between two members of a set, over lanes that a transport provides.
 *
 * A lane carries bytes in order from this process to one rank of the world, and
 * another carries those that come back. The messages of all sets share them, so
 * nothing on a lane ever waits for a receive: a message of at most
 * RG__MESSAGE_EAGER bytes travels with its head, and is kept at the receiver
 * until it is asked for, but no more than RG__MESSAGE_WINDOW bytes for each
 * sender; any other is offered first, and its data travel once the receiver has
 * room for them.
 *
 * Threads: the engine's lock is held in all of these. Ownership: a message that
 * was posted belongs to the messages until carry returns it, then to the caller
 * (rg__message_free); data are borrowed until then, or until it is dropped. */
#ifndef RG_TRANSPORT_MESSAGES_H
#define RG_TRANSPORT_MESSAGES_H

#include "sdk/base/inner.h"
#include "sdk/transport/transport.h"

#define RG__MESSAGE_EAGER  ((uint64_t)8 << 10)
#define RG__MESSAGE_WINDOW ((uint64_t)32 << 10)

/* A lane's least room, so that what needs no receive is gone at once. */
#define RG__LANE_BYTES (2 * RG__MESSAGE_WINDOW)

typedef struct rg__message rg__message;

typedef struct rg__letter {
    bool is_send;
    int peer;       /* rank in the world */
    uint32_t set;   /* its id */
    uint64_t tag;   /* a message matches by peer, set and tag */
    rg_type type;   /* type of the elements; the same on both sides */
    uint64_t bytes; /* bytes to send; or room for so many */
    char *data;     /* only read in a send */
    void *owner;    /* the caller's own */
} rg__letter;

/* The outcome of a message; why: a sentence, owned by the message, or NULL. */
typedef struct rg__outcome {
    void *owner;
    rg_status st;
    uint64_t bytes; /* received bytes */
    const char *why;
} rg__outcome;

/* How bytes travel to and from a rank of the world. put and get move at most n
 * bytes and return how many. Bytes that put has not taken come first in its
 * next call for that rank, at the same address. */
typedef struct rg__lane_fns {
    size_t (*put)(void *arg, int rank, const char *from, size_t n);
    size_t (*get)(void *arg, int rank, char *to, size_t n);
    /* Something was put or got: wake the other side. NULL: not needed. */
    void (*ring)(void *arg, int rank);
    /* How many bytes that put has taken need no more work here: a message ends
     * when all of it is among them. NULL: whatever put has taken. */
    uint64_t (*settled)(void *arg, int rank);
    /* Called before each turn while `waiting` messages are in flight, and once
     * when none is left. NULL: nothing to do. */
    void (*turn)(void *arg, int waiting);
} rg__lane_fns;

/* For a world of that size; arg is passed to the lane functions. */
RG_INNER rg_status rg__messages_create(int size, const rg__lane_fns *fns,
                                       void *arg, rg__messages **messages_p);
RG_INNER void rg__messages_destroy(rg__messages *messages); /* NULL allowed */

/* Start a message. */
rg_status rg__messages_post(rg__messages *messages, const rg__letter *letter,
                            rg__message **message_p);
/* The caller gives a message up: its data are not touched any more. If the peer
 * has part of it, or its offer, the peer is told. */
void rg__message_drop(rg__messages *messages, rg__message *message);

/* Nothing can be sent to that rank or received from it any more: its messages
 * end with ERR_PEER_LOST. Lanes may call this in put, get and settled. */
RG_INNER void rg__messages_fail(rg__messages *messages, int rank,
                                const char *why);

/* Advance all messages; true: something has moved. */
bool rg__messages_carry(rg__messages *messages);
/* The next message that has ended; NULL: there is none. */
rg__message *rg__messages_take(rg__messages *messages);
rg__outcome rg__message_outcome(const rg__message *message);
void rg__message_free(rg__message *message);

/* A set was opened here; a set was given back here: messages to it that were
 * not received are dropped, and so are those that are still to come. Of the
 * sets that share a place (id % RG__SETS_MAX) only one is open at a time, and
 * each has a higher id than the one before. */
void rg__messages_remember(rg__messages *messages, uint32_t set);
void rg__messages_forget(rg__messages *messages, uint32_t set);

#endif
