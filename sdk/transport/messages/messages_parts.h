/* Inside the room: a lane's two directions. */
#ifndef RG_TRANSPORT_MESSAGES_PARTS_H
#define RG_TRANSPORT_MESSAGES_PARTS_H

#include "sdk/transport/messages/messages.h"

#define CHUNK_BYTES ((uint64_t)64 << 10) /* data in one frame */
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
    MESSAGE_CREDIT
} rg__message_kind;

typedef struct rg__message_head {
    uint16_t kind, type;
    uint32_t set, id, spare;
    uint64_t tag, bytes;
} rg__message_head;

_Static_assert(sizeof(rg__message_head) == 32, "no gaps");

typedef enum rg__message_state {
    IN_QUEUE,  /* a send that the peer does not know of */
    OFFERED,   /* a send that waits for ACCEPT */
    SENDING,   /* a send whose data are going out */
    SETTLING,  /* a send that has gone out, and is not settled */
    POSTED,    /* a receive that waits for its message */
    MATCHED,   /* its message is on the way */
    ACCEPTING, /* its ACCEPT has to go out */
    RECEIVING, /* its data are coming in */
    DONE
} rg__message_state;

struct rg__message {
    rg__letter letter;
    rg__message *next; /* in the queue that belongs to its state */
    rg__message_state state;
    bool is_dropped;
    uint32_t id;    /* of its offer */
    uint64_t bytes; /* size of the message */
    uint64_t at;    /* bytes of it that have moved */
    uint64_t put;   /* the lane's position behind it, once it is put */
    rg_status st;   /* valid once it is done, or refused */
    char *why;      /* owned; NULL: no sentence */
};

typedef struct rg__message_queue {
    rg__message *first, *last;
} rg__message_queue;

/* A message, or a part of it, that came before its receive; or an offer. */
typedef struct rg__arrival {
    struct rg__arrival *next;
    rg__message_head head;
    rg__message *taker; /* the receive that waits for the rest; NULL: none */
    bool is_whole;
    char data[];
} rg__arrival;

typedef struct rg__lane {
    int rank;
    int in_flight;         /* messages of this process in flight */
    struct rg__lane *next; /* in the list of busy lanes */
    bool is_listed;
    bool is_broken; /* it can't be used any more */
    char *why;      /* owned: the reason */

    /* outgoing.c */
    rg__message_queue queue, offered, sending, accepting, settling;
    uint64_t put;        /* bytes, ever */
    uint32_t *withdrawn; /* ids of given up sends, to be told; owned */
    int withdrawals;
    uint32_t ids;
    uint64_t window_used; /* bytes of eager messages that lack a CREDIT */
    uint64_t owed;        /* bytes to be given back to the peer by CREDIT */
    struct {
        char bytes[HEAD_BYTES + RG__MESSAGE_EAGER];
        size_t n, at;
        rg__message *message; /* the message that it belongs to; or NULL */
        const char *body;
        uint64_t body_left;
        char *rest; /* owned: the body, once its message is given up */
        bool is_busy;
    } out;

    /* incoming.c */
    rg__message_queue posted, receiving;
    rg__arrival *arrived; /* oldest first; owned */
    uint64_t kept;        /* bytes of the eager ones among the arrived */
    struct {
        rg__message_head head;
        size_t at;
        bool is_body;
        char *to; /* NULL: the bytes are thrown away */
        uint64_t left;
        rg__message *message; /* the receive that they are for; or NULL */
        rg__arrival *arrival; /* the arrival that they are for; or NULL */
    } in;
} rg__lane;

struct rg__messages {
    rg__lane_fns fns;
    void *arg;
    int size, in_flight;
    rg__lane **lane; /* by rank; owned; NULL: unused so far */
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
/* End a message that is in no queue any more. */
void rg__message_end(rg__messages *all, rg__lane *lane, rg__message *m,
                     rg_status st, const char *why);
/* The lane can't be used any more; its messages end at the end of the turn. */
void rg__lane_break(rg__lane *lane, const char *why);

/* outgoing.c, incoming.c: a piece of work; true if anything moved. */
bool rg__outgoing_carry(rg__messages *all, rg__lane *lane);
bool rg__incoming_carry(rg__messages *all, rg__lane *lane);
/* From now on the frame that is going out does not read the message's data: it
 * goes on with a copy, because a peer that gets the whole message keeps it. */
void rg__outgoing_let_go(rg__lane *lane, const rg__message *m);
/* head: what the peer has sent. */
void rg__outgoing_accepted(rg__messages *all, rg__lane *lane,
                           const rg__message_head *head);
void rg__outgoing_withdraw(rg__lane *lane, uint32_t id);
/* Give a receive what has already come for it, or post the receive. */
void rg__incoming_post(rg__messages *all, rg__lane *lane, rg__message *m);
void rg__incoming_drop(rg__lane *lane, rg__message *m);
void rg__incoming_forget(rg__lane *lane, uint32_t set);
void rg__incoming_free(rg__lane *lane);

#endif
