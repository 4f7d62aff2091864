/* The engine: operations in flight, and the threads that advance them.
 *
 * A channel is a set's queue: operations on it run in start order, and a late
 * channel delays no other. Progress is made by the thread that holds the
 * engine's lock: the Regroup thread (rg__engine_progress), and user threads
 * that wait (rg_wait helps). Buffers are touched only under that lock, so after
 * rg__engine_leave has returned nothing here stores for the old generation.
 *
 * Lock order: engine.lock is the innermost lock of the library. */
#ifndef RG_CORE_ENGINE_H
#define RG_CORE_ENGINE_H

#include "sdk/base/record.h"
#include "sdk/transport/nccl/nccl.h"
#include "sdk/transport/transport.h"

typedef struct rg__engine rg__engine;
typedef struct rg__channel rg__channel;

/* page is this worker's page (private memory without an agent), borrowed: every
 * wait looks at page->abort; page->wake wakes the Regroup thread up. */
rg_status rg__engine_create(rg__page *page, rg__engine **engine_p);
void rg__engine_destroy(rg__engine *engine);

/* Record operations there from now on; borrowed until the engine ends. */
void rg__engine_record(rg__engine *engine, rg__record *record);

/* An operation has passed its deadline: ask the agent to end the generation.
 * false: there is no agent. Called with the engine's lock held. */
typedef bool (*rg__overdue_fn)(void *arg, uint64_t generation, const char *why);
void rg__engine_on_overdue(rg__engine *engine, rg__overdue_fn fn, void *arg);

/* The generation that was entered, 0: none; any thread. */
uint64_t rg__engine_generation(const rg__engine *engine);
/* The deadline that operations without their own have, 0: none. */
uint64_t rg__engine_timeout_ms(const rg__engine *engine);
uint64_t rg__engine_stall_ms(const rg__engine *engine);

/* rg_alloc mappings, guarded by the engine's lock. */
void rg__engine_lock(rg__engine *engine);
void rg__engine_unlock(rg__engine *engine);
rg__mappings *rg__engine_mappings(rg__engine *engine);

/* A channel outlives generations; it has a comm while its set has members in
 * the current one. close_reason is what starts return without a comm. */
rg_status rg__channel_create(rg__engine *engine, rg__channel **channel_p);
/* The set's name, for log lines and errors; copied. */
void rg__channel_name(rg__channel *channel, const char *name);
void rg__channel_destroy(rg__channel *channel); /* closes its comm; NULL ok */
/* Its operations may take any time: no report, no deadline. */
void rg__channel_hush(rg__channel *channel);

/* Enter a generation: open the world's comm on `world`. Called by the Regroup
 * thread with nothing in flight. */
rg_status rg__engine_enter(rg__engine *engine, rg__channel *world,
                           const rg__transport *transport,
                           const rg__boot *boot);

/* Let user threads in. Until then starts on every channel return the status
 * with which the generation before was left (ERR_INVALID before the first), so
 * that a thread that computed through a change can't start an operation of the
 * old generation in the new one. Called by the user thread that has seen the
 * new generation. */
void rg__engine_admit(rg__engine *engine);

/* Open a channel's comm for n ranks of that generation's world, this rank among
 * them. ERR_PEER_LOST: that generation was left. */
rg_status rg__channel_open(rg__channel *channel, uint64_t generation,
                           const int *ranks, int n, uint32_t id);

/* May a channel be opened there next? See the transport's is_vacant. */
bool rg__engine_is_vacant(rg__engine *engine, uint32_t place);

/* Close a channel's comm; requests on it, and starts from now on, end with st
 * and the sentence why (copied). */
void rg__channel_close(rg__channel *channel, rg_status st, const char *why);

/* Let no user thread in any more: requests end with st and why, and so do
 * starts until the next rg__engine_admit, also when the generation is left
 * meanwhile. Its comms stay as they are. */
void rg__engine_shut(rg__engine *engine, rg_status st, const char *why);

/* The same, if that is still the generation. */
void rg__engine_shut_in(rg__engine *engine, uint64_t generation, rg_status st,
                        const char *why);

/* Has an operation been waiting for so long that it was reported? */
bool rg__engine_is_stalled(rg__engine *engine);

/* This process starts nothing in this generation any more, nor in a later one;
 * peers must not wait for it. */
void rg__engine_goodbye(rg__engine *engine);

/* The process of that rank of the world has ended: operations that wait for it
 * end with ERR_PEER_LOST, and others go on. Any thread. */
void rg__engine_lose(rg__engine *engine, int rank);

/* Leave the generation: close every channel with st and why, and wake all
 * waiting threads. Once it has returned, no thread of this process stores for
 * the generation from within Regroup's collectives. */
void rg__engine_leave(rg__engine *engine, rg_status st, const char *why);

/* What an operation is started with. */
typedef struct rg__start {
    rg__coll coll;
    uint64_t *arrays; /* that coll's counts and places lie in, or NULL; the
                         engine's, also when the start fails */
    int timeout_ms;   /* 0: no deadline */
    int *last_p;      /* JOIN: where the last rank goes, or NULL */
    bool is_dropped;  /* its request goes when it has ended */
} rg__start;

/* Queue an operation. Any thread. */
rg_status rg__channel_begin(rg__channel *channel, const rg__start *start,
                            rg_req **req_p);

/* The same, and wait until it has ended. */
rg_status rg__channel_complete(rg__channel *channel, const rg__start *start);

/* A call of that name was refused here with st, whose sentence is the thread's
 * last: the other members learn that in place of the operation. Returns st, and
 * leaves the sentence as it is. */
rg_status rg__channel_refuse(rg__channel *channel, const char *what,
                             rg_status st);

/* Of a request that was noted. */
rg__channel *rg__req_channel(const rg_req *req);

typedef struct rg__message_start {
    bool is_send;
    int peer, peer_rank; /* in the set, in the world */
    uint64_t tag, count;
    rg_type type;
    char *data; /* a send only reads it */
    int timeout_ms;
    uint64_t *count_p; /* of a receive: what has come, in elements; or NULL */
} rg__message_start;
rg_status rg__channel_begin_message(rg__channel *channel,
                                    const rg__message_start *start,
                                    rg_req **req_p);

/* The same for a bare operation. */
rg_status rg__channel_start(rg__channel *channel, const rg__coll *coll,
                            rg_req **req_p);

/* A request for an operation launched on a device that lives as long. */
rg_status rg__req_of_device(rg__engine *engine, rg__device *device,
                            const rg__ticket *ticket, rg_req **req_p);

/* The same before it is launched, while its group is open; and then the
 * outcome, on the thread that noted it. */
rg_status rg__req_note_device(rg__channel *channel, rg__device *device,
                              rg_req **req_p);
void rg__req_launched(rg_req *req, rg_status st, const rg__ticket *ticket);
/* Free a request that is in no queue and that no thread will wait for. */
void rg__req_free(rg_req *req);

/* Note an operation for a group; nothing is started. */
rg_status rg__channel_note(rg__channel *channel, const rg__start *start,
                           rg_req **req_p);

/* Does an open group of any thread have operations on it? */
bool rg__channel_has_noted(const rg__channel *channel);

/* Start all of the noted operations in that order, or none. Returns OK, or the
 * status that all of them end with; with st other than OK that is st. */
rg_status rg__engine_start_group(rg__engine *engine, rg_req *const *reqs, int n,
                                 rg_status st, const char *why);

/* What a start returns now: OK, or why the channel is closed. */
rg_status rg__channel_check(rg__channel *channel);

/* Start and wait; used for agreements and syncs. That many bytes of send and
 * recv are copied before and after, so that the caller's memory is free again
 * even if the operation was given up. */
rg_status rg__channel_run(rg__channel *channel, const rg__coll *coll,
                          size_t send_bytes, size_t recv_bytes);

/* The Regroup thread's turn: advance what no waiting user thread advances.
 * Returns true while operations are in flight. */
bool rg__engine_progress(rg__engine *engine);

/* The Regroup thread sleeps until page->wake differs from wake_seen, an
 * operation it is responsible for may advance, or timeout_ns. round counts its
 * looks while operations are in flight; the engine itself knows when one last
 * advanced, and the smaller number says whether to spin on or to sleep. */
void rg__engine_sleep(rg__engine *engine, uint32_t wake_seen, uint32_t round,
                      uint64_t timeout_ns);

#endif
