/* Inside the room: a lane's two directions. */
#ifndef RG_TRANSPORT_MESSAGES_PARTS_H
#define RG_TRANSPORT_MESSAGES_PARTS_H

#include "sdk/transport/messages/messages.h"

#define CHUNK_BYTES ((uint64_t)64 << 10) /* of data in one frame */
#define HEAD_BYTES  sizeof(rg__message_head)

/* What goes over a lane; the peer may have written anything.
 *   EAGER    a message, with its data behind it
 *   OFFER    a message of that id, whose data wait
 *   ACCEPT   its data may come; bytes 0: they are not wanted
 *   DATA     the next part of them
 *   WITHDRAW the rest of them does not come
 *   CREDIT   so many bytes of eager messages were received */
typedef enum rg__message_kind {
    MESSAGE_EAGER = 1,
    MESSAGE_OFFER,
    MESSAGE_ACCEPT,
    MESSAGE_DATA,
    MESSAGE_WITHDRAW,
    MESSAGE_CREDIT,
    MESSAGE_KINDS
} rg__message_kind;

typedef struct rg__message_head {
    uint16_t kind, type;
    uint32_t set, id, spare;
    uint64_t tag, bytes;
} rg__message_head;

_Static_assert(sizeof(rg__message_head) == 32, "no gaps");

typedef enum rg__message_state {
    IN_QUEUE,  /* a send that is not announced */
    OFFERED,   /* a send that waits for ACCEPT */
    SENDING,   /* its data go out */
    SETTLING,  /* all that it sends has gone out */
    POSTED,    /* a receive that waits for its message, */
    MATCHED,   /* whose message is on the way, */
    ACCEPTING, /* whose ACCEPT is to go out, */
    RECEIVING, /* whose data come in */
    DONE
} rg__message_state;

struct rg__message {
    rg__letter letter;
    rg__message *next; /* of the queue that its state says */
    rg__message_state state;
    bool is_dropped;
    uint32_t id;    /* of its offer */
    uint64_t bytes; /* of the message */
    uint64_t at;    /* that have moved */
    uint64_t put;   /* bytes of the lane up to its end, once they are put */
    rg_status st;   /* once it is done, or refused */
    char *why;      /* owned; NULL: no sentence */
};

typedef struct rg__message_queue {
    rg__message *first, *last;
} rg__message_queue;

/* A message that came before its receive, whole or in part; or an offer. */
typedef struct rg__arrival {
    struct rg__arrival *next;
    rg__message_head head;
    rg__message *taker; /* that waits for the rest of it; NULL: none */
    bool is_whole;
    char data[];
} rg__arrival;

typedef struct rg__lane {
    int rank;
    int in_flight;         /* messages of this process */
    struct rg__lane *next; /* of those with such messages, or rests of them */
    bool is_listed;
    bool is_broken; /* of no more use, */
    char *why;      /* owned: for this reason */

    /* outgoing.c */
    rg__message_queue queue, offered, sending, accepting, settling;
    uint64_t put;        /* bytes, ever */
    uint32_t *withdrawn; /* ids that the peer is to be told of; owned */
    int withdrawals;
    uint32_t ids;
    uint64_t window_used; /* of eager messages without a CREDIT */
    uint64_t owed;        /* that the peer is to get back */
    struct {
        char bytes[HEAD_BYTES + RG__MESSAGE_EAGER];
        size_t n, at;
        rg__message *message; /* that ends, or goes on, behind it; or NULL */
        const char *body;
        uint64_t body_left;
        char *rest; /* owned: body, once its message was given up */
        bool is_busy;
    } out;

    /* incoming.c */
    rg__message_queue posted, receiving;
    rg__arrival *arrived; /* oldest first; owned */
    uint64_t kept;        /* bytes of the eager ones among them */
    struct {
        rg__message_head head;
        size_t at;
        bool is_body;
        char *to; /* NULL: thrown away */
        uint64_t left;
        rg__message *message; /* that it is for; NULL: */
        rg__arrival *arrival; /* this, or none */
    } in;
} rg__lane;

struct rg__messages {
    rg__lane_fns fns;
    void *arg;
    int size, in_flight;
    rg__lane **lane; /* by rank; owned; NULL: not used yet */
    rg__lane *busy;
    rg__message_queue done;
    uint32_t forgotten[RG__SETS_MAX]; /* by place: up to this id, sets were
                                         given back; 0: none */
};

/* messages.c */
bool rg__messages_is_forgotten(const rg__messages *all, uint32_t set);
void rg__queue_add(rg__message_queue *q, rg__message *m);
void rg__queue_remove(rg__message_queue *q, const rg__message *m);
rg__message *rg__queue_pop(rg__message_queue *q);
rg__message *rg__queue_find(const rg__message_queue *q, uint32_t id); /* NULL */
/* It is in no queue any more. */
void rg__message_end(rg__messages *all, rg__lane *lane, rg__message *m,
                     rg_status st, const char *why);
/* Of no more use; its messages end at the end of the turn. */
void rg__lane_break(rg__lane *lane, const char *why);

/* outgoing.c, incoming.c: a piece of work; true if anything moved. */
bool rg__outgoing_carry(rg__messages *all, rg__lane *lane);
bool rg__incoming_carry(rg__messages *all, rg__lane *lane);
/* The frame that goes out does not read the message's data any more: it goes
 * on with a copy, because a peer that has all of a message then keeps it. */
void rg__outgoing_let_go(rg__lane *lane, const rg__message *m);
/* The peer wrote these. */
void rg__outgoing_accepted(rg__messages *all, rg__lane *lane,
                           const rg__message_head *head);
void rg__outgoing_withdraw(rg__lane *lane, uint32_t id);
/* Look for what has come for a receive; else it is posted. */
void rg__incoming_post(rg__messages *all, rg__lane *lane, rg__message *m);
void rg__incoming_drop(rg__lane *lane, rg__message *m);
void rg__incoming_forget(rg__lane *lane, uint32_t set);
void rg__incoming_free(rg__lane *lane);

#endif
