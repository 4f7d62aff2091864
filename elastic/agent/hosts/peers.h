/* Connections between agents: TCP, to the address and port in a host's record.
 * Before anything else both sides prove the job's key to each other, by nonces
 * and keyed hashes; then frames of bounded size go both ways. The first frame
 * of a connection says what its caller wants, and so which file serves it.
 *
 * Threads:   the loop's.
 * Ownership: a connection is the agent's; the room that called or took it may
 * use it until `gone` has been called or rg__connection_close was.
 * Units:     bytes. Numbers are in the machine's order; a host of another order
 * is refused. */
#ifndef RG_AGENT_PEERS_H
#define RG_AGENT_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "regroup/regroup.h"
#include "sdk/base/wire.h"

#define RG__PEER_BODY_MAX ((size_t)256 << 10) /* of one frame */
/* Detection budgets without a byte end a connection. */
#define RG__SILENT_BUDGETS 4

typedef struct rg__agent rg__agent;
typedef struct rg__connection rg__connection;

/* What a frame is. */
typedef enum rg__peer_type {
    RG__PEER_FETCH = 1, /* first: send me parts of a commit (fetch.c) */
    RG__PEER_REFUSED,   /* why that is not done, as text */
    RG__PEER_ROOM,      /* chunk.c */
    RG__PEER_PIECE,
    RG__PEER_BYTES,
    RG__PEER_COPY,   /* first: keep copies of our shards (replication.c) */
    RG__PEER_STORED, /* so many shards have been stored; without a number, all
                       that was asked for */
    RG__PEER_PROVE,  /* first: do large packets pass, and do you reach these
                        ports? (paths.c) */
    RG__PEER_PROVED,
    RG__PEER_BEGIN, /* first: run a daemon of the MPI (mpirun/proxies.c) */
    RG__PEER_BEGUN,
    RG__PEER_DUMP, /* first: what have your workers done? (dump/serve.c) */
    RG__PEER_DUMPED,
    RG__PEER_TIMELINE /* first: begin or end a timeline; answered by DUMPED
                         (control/timeline_ask.c) */
} rg__peer_type;

/* What the owner of a connection is told; arg is what it gave. */
typedef struct rg__connection_fns {
    /* A whole frame; body is borrowed for the call. false: it is malformed,
     * and the connection ends with `gone`. */
    bool (*frame)(void *arg, uint32_t type, const void *body, size_t n);
    /* The key is proved, or all that was sent has left: there is room. */
    void (*room)(void *arg);
    /* The connection has ended and is freed. */
    void (*gone)(void *arg, const char *why);
} rg__connection_fns;

/* `frame` and `room` of an owner that takes no frames and sends no more. */
bool rg__connection_no_frame(void *arg, uint32_t type, const void *body,
                             size_t n);
void rg__connection_no_room(void *arg);

/* Listen at the agent's address on any port, a->port. */
rg_status rg__peers_listen(rg__agent *a);
void rg__peers_accept(void *agent_arg, int listener, uint32_t events);
/* Ends every connection and the listener. */
void rg__peers_close(rg__agent *a);

/* Call the agent of that incarnation. ERR_SYSTEM: not even begun; everything
 * later is told by `gone`. */
rg_status rg__connection_call(rg__agent *a, const rg__address *address,
                              uint32_t port, uint64_t host,
                              const rg__connection_fns *fns, void *arg,
                              rg__connection **c_p);

/* From within a service: the caller's frames are ours from now on. */
void rg__connection_take(rg__connection *c, const rg__connection_fns *fns,
                         void *arg);

/* Room for the body of a frame, RG__PEER_BODY_MAX bytes, which
 * rg__connection_send sends; NULL while an earlier frame has not left, then
 * `room` comes. */
void *rg__connection_space(rg__connection *c);
void rg__connection_send(rg__connection *c, uint32_t type, size_t n);

/* End it; its owner is told nothing more. */
void rg__connection_close(rg__connection *c);

#endif
