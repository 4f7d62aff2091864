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

/* Room that a lane has at least, so that what needs no receive is gone at
 * once. */
#define RG__LANE_BYTES (2 * RG__MESSAGE_WINDOW)

typedef struct rg__message rg__message;

typedef struct rg__letter {
    bool is_send;
    int peer;       /* rank in the world */
    uint32_t set;   /* its id */
    uint64_t tag;   /* peer, set and tag match */
    rg_type type;   /* of the elements; the same on both sides */
    uint64_t bytes; /* sent; or that there is room for */
    char *data;     /* a send only reads it */
    void *owner;    /* the caller's */
} rg__letter;

/* What has become of it; why: a sentence, owned by the message, or NULL. */
typedef struct rg__outcome {
    void *owner;
    rg_status st;
    uint64_t bytes; /* that have come */
    const char *why;
} rg__outcome;

/* How bytes go to and come from a rank of the world. put and get move at most n
 * bytes and return how many; what put has not taken comes again first in its
 * next call for that rank, in the same memory. */
typedef struct rg__lane_fns {
    size_t (*put)(void *arg, int rank, const char *from, size_t n);
    size_t (*get)(void *arg, int rank, char *to, size_t n);
    /* Something was put or got: wake the other side. NULL: it wakes up. */
    void (*ring)(void *arg, int rank);
    /* So many bytes that put has taken need no more turns of this process: a
       message ends when all of it is among them. NULL: what put has taken. */
    uint64_t (*settled)(void *arg, int rank);
    /* Before a turn, while `waiting` messages are in flight, and once when they
       no longer are. NULL: nothing is to be done. */
    void (*turn)(void *arg, int waiting);
} rg__lane_fns;

/* For a world of that size; arg is the lanes'. */
RG_INNER rg_status rg__messages_create(int size, const rg__lane_fns *fns,
                                       void *arg, rg__messages **messages_p);
RG_INNER void rg__messages_destroy(rg__messages *messages); /* NULL allowed */

/* Start one. */
rg_status rg__messages_post(rg__messages *messages, const rg__letter *letter,
                            rg__message **message_p);
/* Its caller gave it up: its data are not touched any more. A peer that has
 * part of it, or its offer, is told. */
void rg__message_drop(rg__messages *messages, rg__message *message);

/* No byte comes from that rank or goes there any more: its messages end with
 * ERR_PEER_LOST. Lanes may call it in put, get and settled. */
RG_INNER void rg__messages_fail(rg__messages *messages, int rank,
                                const char *why);

/* A turn for all: true if anything has moved. */
bool rg__messages_carry(rg__messages *messages);
/* One that has ended, until there is none: NULL. */
rg__message *rg__messages_take(rg__messages *messages);
rg__outcome rg__message_outcome(const rg__message *message);
void rg__message_free(rg__message *message);

/* A set was opened here; and was given back: messages to it that were not
 * received are dropped, also those that are still to come. Of the sets that
 * share a place (id % RG__SETS_MAX) one is open at a time, and the next one has
 * a higher id. */
void rg__messages_remember(rg__messages *messages, uint32_t set);
void rg__messages_forget(rg__messages *messages, uint32_t set);

#endif
