/* Connections to workers of other hosts: one per set and pair of members that
 * exchange frames, made again for each generation, so that no set waits for
 * another and the kernel's windows are the flow control. The lower world rank
 * connects, the other accepts; both prove the job's key before anything else.
 *
 * Threads: the caller holds the engine's lock, except that one thread of the
 * net's own waits for sockets while all others sleep, and rings the bell.
 * Ownership: the world's comm owns the net, each comm its links. Nothing here
 * blocks. */
#ifndef RG_TCP_NET_H
#define RG_TCP_NET_H

#include <pthread.h>

#include "sdk/transport/tcp/frame.h"

#define LINK_IN_BYTES ((size_t)8 << 10)

typedef struct rg__net rg__net;
typedef struct rg__link rg__link;
typedef struct rg__guest rg__guest;

typedef enum rg__link_state {
    LINK_DOWN,       /* not connected yet */
    LINK_CONNECTING, /* the kernel is connecting */
    LINK_GREETING,   /* HELLO was sent */
    LINK_UP,
    LINK_LEFT,  /* the peer sent BYE: it has left the set or the generation */
    LINK_BROKEN /* reported */
} rg__link_state;

/* What an epoll event is about. */
typedef enum rg__watched_kind {
    WATCHED_LISTENER,
    WATCHED_GUEST,
    WATCHED_LINK
} rg__watched_kind;

typedef struct rg__watched {
    rg__watched_kind kind;
    int fd;
    uint32_t mask; /* as epoll has it; or NOT_WATCHED */
} rg__watched;

#define NOT_WATCHED UINT32_MAX

struct rg__link {
    rg__watched watched;
    rg__net *net;
    rg__link *next; /* in the net's list */
    uint32_t set;
    int rank;   /* the peer's, in the world */
    int member; /* the peer's, in the set */
    rg__link_state state;
    bool connects;  /* this end connects; else it accepts */
    bool has_ended; /* LINK_LEFT: because the peer has called rg_finalize */
    uint32_t wants; /* events that the operation in flight waits for, since
                       its last look found nothing */

    /* while the link is not up */
    uint64_t again_ns;   /* when to try again, or give up this attempt */
    uint64_t trying_ns;  /* since when the link has not been up */
    uint64_t failing_ns; /* since when attempts have failed; 0: they have not */
    uint32_t tries;
    rg__data_hello hello;
    char greeting[sizeof(rg__frame) + sizeof(rg__data_answer)];
    size_t greeting_at;

    char in[LINK_IN_BYTES]; /* read from the socket and not yet taken */
    size_t in_begin, in_end;
    rg__frame head; /* the head of the frame that is being read */
    bool has_head;
    uint32_t body_left;

    uint64_t written, acked; /* bytes; acked: as last seen */
    uint64_t waits_ns;       /* since when the kernel has been sending again
                          without an acknowledgement; 0: it is not */

    rg__frame out; /* the frame that is being sent */
    bool is_sending;
    size_t out_at;
};

/* The connections of one generation. */
struct rg__net {
    uint64_t generation;
    int rank, size;
    rg__member_id *member; /* by rank; owned, like the next two */
    rg__place *place;
    rg__address *address;
    int host_count;
    uint8_t key[RG__KEY_BYTES];

    rg__watched listener;
    uint64_t deaf_until_ns; /* out of descriptors: don't listen before */
    rg__link *links;
    rg__guest *guests;
    int guest_count[4]; /* by state */
    int operations;     /* in flight on comms across hosts */
    int messages;       /* messages in flight in the world */
    /* Lanes of messages, by rank. The writing end connects when it sends its
     * first message. Owned; NULL: none yet. */
    rg__link **message_out, **message_in;
    bool is_ending; /* this process has called rg_finalize */

    int epoll;      /* all sockets */
    int outer;      /* epoll (fires once) and stop */
    int stop;       /* eventfd */
    rg__bell *bell; /* this process's bell */
    pthread_t thread;
    bool has_thread;
    _Atomic bool has_event; /* the thread has seen one */
    uint32_t polls;

    void (*broken)(void *arg, int rank, const char *why);
    void (*stuck)(void *arg, int rank, uint64_t bytes, uint64_t waited_ms);
    uint64_t looked_ns; /* when stuck links were last looked for */
    void *broken_arg;
    uint64_t broken_ns; /* when the first link broke; 0: none has */
    bool is_reported;
    int broken_rank;
    char broken_why[RG__TEXT_MAX];
};

/* net.c */
rg_status rg__net_open(const rg__boot *boot, rg__bell *bell, rg__net **net_p);
void rg__net_close(rg__net *net); /* NULL is allowed; close links first */

/* Accept, connect and greet. is_urgent: an operation waits for a link to come
 * up. Otherwise the call costs little if nothing has happened. */
void rg__net_poll(rg__net *net, bool is_urgent);

/* The calling thread is about to sleep on the bell: make sure that the bell
 * rings when a socket becomes ready for a waiting operation. */
void rg__net_arm(rg__net *net);

/* No descriptor is left, since each set has connections of its own: raise this
 * process's limit as far as allowed. false: it can't be raised. */
bool rg__net_raise_files(void);

void rg__net_watch(rg__net *net, rg__watched *w, uint32_t mask);
void rg__net_unwatch(rg__net *net, rg__watched *w);

/* link.c */
rg_status rg__link_create(rg__net *net, uint32_t set, int rank,
                          rg__link **link_p);
void rg__link_destroy(rg__link *link); /* sends BYE; NULL is allowed */

/* The lane of messages to a rank; the first call connects. NULL: no memory. */
rg__link *rg__link_for_messages(rg__net *net, int rank);
/* A guest has come to write messages: accept it. */
void rg__link_accept_messages(rg__net *net, int rank);

/* Give the link a socket whose other end has proved to be its peer. */
void rg__link_up(rg__link *link, int fd);

/* Has the peer's kernel sent no acknowledgement for a while? The kernel of a
 * slow reader does send them. */
typedef struct rg__link_wait {
    bool is_stuck;
    uint64_t bytes, waited_ms; /* without an ack; 0: the link is not up */
} rg__link_wait;
rg__link_wait rg__link_look(rg__link *link, uint64_t now);

/* The connection can't be used any more. This is reported a little later, if
 * the generation still lives then. */
void rg__link_break(rg__link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Begin to send a frame; the link must not be sending. Magic, set and
 * generation are filled in here. */
void rg__link_begin(rg__link *link, rg__frame head);

/* Send more of the frame; body is the same in each call. Returns how many bytes
 * were sent; is_sending says whether something is left. */
size_t rg__link_flush(rg__link *link, const void *body);

/* The head of the next frame, until its body has been read. NULL: none yet. */
const rg__frame *rg__link_head(rg__link *link);

/* Read at most n bytes of the frame's body. */
size_t rg__link_read(rg__link *link, void *to, size_t n);

/* Take a head that has no body. */
void rg__link_take(rg__link *link);

static inline bool rg__link_is_settled(const rg__link *link)
{
    return link->state >= LINK_UP;
}

/* handshake.c: how connections come up. */
void rg__handshake_connect(rg__link *link, uint64_t now);
void rg__handshake_greet(rg__link *link);
void rg__handshake_accept(rg__net *net, uint64_t now);
void rg__handshake_guest(rg__guest *guest);
/* Drop guests that have been here for too long. */
void rg__handshake_turn_out(rg__net *net, uint64_t now);
/* Find a guest that came for this link before the link was made. */
void rg__handshake_find(rg__link *link);
void rg__handshake_drop_all(rg__net *net);

#endif
