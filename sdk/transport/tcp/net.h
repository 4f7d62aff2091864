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
    LINK_DOWN,       /* to be connected, or accepted */
    LINK_CONNECTING, /* the kernel does */
    LINK_GREETING,   /* HELLO was sent */
    LINK_UP,
    LINK_LEFT,  /* the peer said BYE: it has left the set or generation */
    LINK_BROKEN /* reported */
} rg__link_state;

/* What an event of epoll is about. */
typedef enum rg__watched_kind {
    WATCHED_LISTENER,
    WATCHED_GUEST,
    WATCHED_LINK
} rg__watched_kind;

typedef struct rg__watched {
    rg__watched_kind kind;
    int fd;
    uint32_t mask; /* as epoll knows it; NOT_WATCHED */
} rg__watched;

#define NOT_WATCHED UINT32_MAX

struct rg__link {
    rg__watched watched;
    rg__net *net;
    rg__link *next; /* of the net's list */
    uint32_t set;
    int rank;   /* the peer's, in the world */
    int member; /* and in the set */
    rg__link_state state;
    bool connects;  /* else it is accepted */
    bool has_ended; /* LINK_LEFT: the peer's process has called rg_finalize */
    uint32_t wants; /* events that the operation in flight waits for: there was
                       nothing when it last looked */

    /* while it is not up */
    uint64_t again_ns;   /* connect again then; give this attempt up then */
    uint64_t trying_ns;  /* since when it is not up */
    uint64_t failing_ns; /* since when attempts have failed, 0: they haven't */
    uint32_t tries;
    rg__data_hello hello;
    char greeting[sizeof(rg__frame) + sizeof(rg__data_answer)];
    size_t greeting_at;

    char in[LINK_IN_BYTES]; /* read, and not yet taken */
    size_t in_begin, in_end;
    rg__frame head; /* of the frame that is being read */
    bool has_head;
    uint32_t body_left;

    uint64_t written, acked; /* bytes; acked as seen last */
    uint64_t waits_ns; /* since when the kernel sends again and gets no ack of
                          data, 0: it doesn't */

    rg__frame out; /* the frame that is being sent */
    bool is_sending;
    size_t out_at;
};

/* What a link's operation must agree with. */
struct rg__net {
    uint64_t generation;
    int rank, size;
    rg__member_id *member; /* by rank; owned, as what follows */
    rg__place *place;
    rg__address *address;
    int host_count;
    uint8_t key[RG__KEY_BYTES];

    rg__watched listener;
    uint64_t deaf_until_ns; /* no descriptors left: not listening until then */
    rg__link *links;
    rg__guest *guests;
    int guest_count[4]; /* by state */
    int operations;     /* in flight on comms across hosts, */
    int messages;       /* and messages of the world */
    /* Lanes of messages, by rank: the end that writes connects, at its first
       message. Owned; NULL: none yet. */
    rg__link **message_out, **message_in;
    bool is_ending; /* this process has called rg_finalize */

    int epoll;      /* all sockets */
    int outer;      /* epoll, once, and stop */
    int stop;       /* eventfd */
    rg__bell *bell; /* of this process */
    pthread_t thread;
    bool has_thread;
    _Atomic bool has_event; /* the thread saw one */
    uint32_t polls;

    void (*broken)(void *arg, int rank, const char *why);
    void (*stuck)(void *arg, int rank, uint64_t bytes, uint64_t waited_ms);
    uint64_t looked_ns; /* for links that are stuck */
    void *broken_arg;
    uint64_t broken_ns; /* when the first link broke, 0: none has */
    bool is_reported;
    int broken_rank;
    char broken_why[RG__TEXT_MAX];
};

/* net.c */
rg_status rg__net_open(const rg__boot *boot, rg__bell *bell, rg__net **net_p);
void rg__net_close(rg__net *net); /* NULL is allowed; links are closed before */

/* Accept, connect and greet. is_urgent: an operation waits for a link to come
 * up; otherwise it costs little unless something has happened. */
void rg__net_poll(rg__net *net, bool is_urgent);

/* The calling thread is about to sleep on the bell: have it rung once one of
 * the sockets is ready for what operations wait for. */
void rg__net_arm(rg__net *net);

/* No descriptor is left: raise this process's limit as far as it may, once it
 * is reached (each set has connections of its own). false: it is raised
 * already. */
bool rg__net_raise_files(void);

void rg__net_watch(rg__net *net, rg__watched *w, uint32_t mask);
void rg__net_unwatch(rg__net *net, rg__watched *w);

/* link.c */
rg_status rg__link_create(rg__net *net, uint32_t set, int rank,
                          rg__link **link_p);
void rg__link_destroy(rg__link *link); /* says BYE; NULL is allowed */

/* The lane of messages to that rank, connected from now on; NULL without
 * memory. */
rg__link *rg__link_for_messages(rg__net *net, int rank);
/* A guest has come to write messages: accept it. */
void rg__link_accept_messages(rg__net *net, int rank);

/* A socket whose other end has proved that it is the link's peer. */
void rg__link_up(rg__link *link, int fd);

/* Has the peer's kernel sent no acknowledgement for a while? That of a slow
 * reader answers. */
typedef struct rg__link_wait {
    bool is_stuck;
    uint64_t bytes, waited_ms; /* none of them acknowledged; 0: it is not up */
} rg__link_wait;
rg__link_wait rg__link_look(rg__link *link, uint64_t now);

/* The connection is of no more use; report that after a while, if the
 * generation still lives by then. */
void rg__link_break(rg__link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Begin a frame; the link must not be sending. Magic, set and generation are
 * filled in. */
void rg__link_begin(rg__link *link, rg__frame head);

/* Go on with it; body is the same in each call. Returns the bytes that went
 * out; is_sending says whether something is left. */
size_t rg__link_flush(rg__link *link, const void *body);

/* The head of the next frame, which stays until its body has been read; NULL
 * while there is none. */
const rg__frame *rg__link_head(rg__link *link);

/* Read at most n bytes of its body. */
size_t rg__link_read(rg__link *link, void *to, size_t n);

/* This also takes a head without a body. */
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
/* Guests that have been here for too long. */
void rg__handshake_turn_out(rg__net *net, uint64_t now);
/* A guest that has come for this link before it was made. */
void rg__handshake_find(rg__link *link);
void rg__handshake_drop_all(rg__net *net);

#endif
