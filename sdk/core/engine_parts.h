/* Inside the engine: what the files of this room share. */
#ifndef RG_CORE_ENGINE_PARTS_H
#define RG_CORE_ENGINE_PARTS_H

#include <pthread.h>

#include "sdk/base/record.h"
#include "sdk/core/engine.h"
#include "sdk/transport/messages/messages.h"

/* A request is owned by its caller until rg_wait has taken it, and by the
 * channel's queue until it is done; the thread that finishes it does not touch
 * it after the store to `state`. NOTED: it belongs to a group that is open, and
 * to no queue. It keeps the engine's memory alive, so that a request may be
 * waited for after rg_finalize. */
enum { RG__REQ_RUNS, RG__REQ_SLEPT_ON, RG__REQ_DONE, RG__REQ_NOTED };

typedef struct rg__run rg__run; /* run_request.c */

struct rg_req {
    _Atomic uint32_t state;
    rg_status st; /* both valid once done */
    char *why;    /* owned; NULL: no sentence */
    rg__engine *engine;
    rg__device *device; /* counted; NULL: it is an operation on host memory */
    rg__ticket ticket;  /* by which the device knows it */
    uint64_t still_ns;  /* its waiting thread's: nothing has moved since; 0 */

    /* guarded by the engine's lock, while not done */
    rg__channel *channel;
    rg_req *next;
    rg__coll coll;
    uint64_t *arrays; /* that coll points into; owned */
    int *last_p;      /* of a join; the caller's, or NULL */
    rg__run *run;     /* owned; NULL: it runs as coll says */
    rg_req *leader;   /* it runs as a part of that one, which may be itself */
    uint64_t group;   /* 0: none; those of one group fail together */
    uint64_t generation; /* that it was noted in; of a group's only */
    uint64_t deadline_ns, since_ns; /* 0: none, not seen waiting yet */
    uint64_t timeout_ms;  /* from its start to its deadline, if it has one */
    rg__message *message; /* owned; NULL: it is a collective */
    rg_req *before;       /* of the channel's messages, beside next */
    uint64_t *count_p;    /* of a receive; the caller's, or NULL */
    int peer, peer_rank;  /* of a message: its rank in the set, in the world */
    rg__op_note *note;    /* in the record; it may be another's by now */
    uint32_t note_serial; /* as long as this is its own */
    uint64_t queued_ns, begun_ns; /* for a timeline; 0: there is none */
    uint64_t range;               /* in NVIDIA's tools; 0: there is none */
    bool is_send;
    bool is_told;    /* that it takes long */
    bool is_held;    /* its own memory is used by others from now on */
    bool is_dropped; /* no caller has it: it is freed where it ends */
};

struct rg__channel {
    rg__engine *engine;
    rg__channel *next; /* of the engine's list */
    rg__comm *comm;    /* NULL: closed */
    uint32_t id;       /* of the set that it was opened for */
    rg_req *head, *tail;
    rg_req *messages; /* newest first */
    rg__channel *next_busy;
    bool is_busy; /* it is in the engine's list of those that may have heads */
    bool has_begun;         /* head was started on the comm */
    bool is_hushed;         /* no report, no deadline */
    _Atomic uint32_t noted; /* requests in open groups */
    char name[RG__SET_NAME_MAX];
    int size, rank;             /* of the set that it was opened for */
    uint64_t members;           /* a hash of its ranks */
    rg__lane *lane;             /* of the record; NULL: none yet */
    uint64_t lane_generation;   /* in which that was taken */
    uint32_t started;           /* collectives in it */
    _Atomic rg_status close_st; /* changes under the lock */
    char *close_why;            /* owned; may be NULL */
};

struct rg__engine {
    pthread_mutex_t lock;        /* guards all that is not atomic */
    _Atomic uint32_t wanting;    /* threads that want the lock for a change;
                                    helpers let them go first */
    pthread_mutex_t turn;        /* held by the next one that gets the lock */
    _Atomic uint32_t references; /* the creator and every request */

    rg__page *page;      /* borrowed; not touched once destroy has begun */
    rg__record *record;  /* likewise; NULL: nothing is recorded */
    uint32_t free_lanes; /* in it, of closed sets */
    rg__mappings mappings;
    rg__channel *channels;
    rg__channel *busy; /* those of them that have operations, or had some */
    const rg__transport *transport;
    rg__channel *world; /* NULL: in no generation */
    bool is_admitted;
    bool is_shut;      /* until it is admitted again, also past a leave */
    rg_status left_st; /* of the last generation; OK: there was none */
    char left_why[2 * RG__TEXT_MAX];
    int rank; /* in the world */

    _Atomic uint64_t generation;   /* 0: none */
    _Atomic uint32_t in_flight;    /* requests in queues */
    _Atomic(rg_req *) left;        /* long ones whose starts did not wait for
                                      the lock, newest first: the next thread
                                      that gets it queues them */
    _Atomic uint32_t helpers;      /* user threads that wait, and so help: each
                                      counts RG__HELPER, and 1 while awake */
    _Atomic uint32_t starts;       /* operations started, ever */
    _Atomic uint32_t prompt_waits; /* for long ones, by a caller that came at
                                      once; halved by one that did not */
    _Atomic uint64_t long_ns; /* when the last long one was started; 0: a thread
                                 has come to wait for it */

    /* The bell lies in the transport's memory: threads that sleep on it count
     * themselves here, and leave waits for them before it unmaps. Peers ring it
     * only for sets that have operations, and only while no user thread is
     * awake, since a thread that is awake looks at all sets. */
    rg__bell *bell;
    _Atomic uint32_t bell_users;

    atomic_bool is_left_alone; /* by the Regroup thread, which may not call this
                                  transport */
    _Atomic(const rg__wait_policy *) wait; /* while operations are in flight */
    _Atomic uint32_t sleep; /* of the Regroup thread: RG__AWAKE ... */

    uint64_t groups;            /* ever */
    uint64_t stall_ns;          /* 0: never said */
    uint64_t timeout_ms;        /* of operations without their own; 0: none */
    _Atomic uint64_t looked_ns; /* for the watchdog */
    rg__overdue_fn overdue_fn;
    void *overdue_arg;
    uint64_t overdue_generation;    /* it was asked to end this one, */
    char overdue_why[RG__TEXT_MAX]; /* because of that */

    /* the Regroup thread's own */
    uint32_t fruitless; /* looks since something last advanced */
    uint32_t starts_seen;
    uint32_t polls_left; /* short sleeps left before a long one */
};

/* POLLS: it looks again within a millisecond. ON_BELL: peers ring it. */
enum { RG__AWAKE, RG__POLLS, RG__SLEEPS, RG__ON_BELL };

#define RG__HELPER     (UINT32_C(1) << 16)
#define RG__RING_BYTES ((uint64_t)64 << 10) /* wakes a polling thread */

void rg__engine_ref(rg__engine *engine);
void rg__engine_unref(rg__engine *engine);

/* Is the current generation aborted? Looked at in every wait. */
bool rg__engine_is_aborted(const rg__engine *engine);

/* Lock held: advance everything by a piece; true if anything moved. */
bool rg__engine_advance(rg__engine *engine);

/* Help once: false when another thread holds the lock or nothing moved. */
bool rg__engine_help(rg__engine *engine);

/* End a request of an aborted generation; any thread. */
void rg__engine_give_up(rg__engine *engine, rg_req *req);

/* Sleep until the request is done, a peer posts something, the agent or a start
 * rings, or timeout_ns have passed. */
void rg__engine_sleep_for(rg__engine *engine, rg_req *req, uint64_t timeout_ns);

/* Waiting user threads count themselves in, with their deadline, and out. */
void rg__engine_enter_help(rg__engine *engine, uint64_t deadline_ns);
void rg__engine_leave_help(rg__engine *engine);

/* Lock held, after something was queued. */
void rg__engine_hand_over(rg__engine *engine);

/* false: another thread has the lock, or waits for it. */
bool rg__engine_trylock(rg__engine *engine);

/* Do callers of long operations come to wait for them at once? */
bool rg__engine_is_waited_for(const rg__engine *engine);

/* Leave a request for the thread that has the lock. */
void rg__engine_leave_behind(rg__engine *engine, rg_req *req);

/* Lock held: has it anything in flight? */
static inline bool rg__channel_has_work(const rg__channel *ch)
{
    return ch->head != NULL || ch->messages != NULL;
}

static inline bool rg__req_is_done(const rg_req *req)
{
    return atomic_load_explicit(&req->state, memory_order_acquire) ==
           RG__REQ_DONE;
}

/* Free only what the request owns. */
void rg__req_clear(rg_req *req);

/* sleep.c: wake a thread that advances what was started, of that many bytes. */
void rg__engine_wake(rg__engine *engine, uint64_t bytes);

/* progress.c: a request for a start, which owns its arrays also when it fails;
 * NULL without memory. With the lock held: queue it; end everything on a
 * channel; end a request that is in no queue. */
rg_req *rg__req_create(rg__channel *channel, const rg__start *start);
/* The same in the caller's memory; it does not count on the engine. */
void rg__req_set(rg_req *req, rg__channel *channel, const rg__start *start);
void rg__channel_append(rg__channel *channel, rg_req *req);
void rg__engine_queue_left(rg__engine *engine);
/* What was queued, of so many bytes: if it is small it goes as far as it can
 * without its peers. */
void rg__channel_begin_now(rg__channel *channel, uint64_t bytes);
/* What its caller waits for, as long as nothing else is in flight, no thread
 * wants the lock and the peers are quick. */
void rg__channel_go_alone(rg__channel *channel, const rg_req *req);
rg_status rg__channel_check_start(const rg__channel *channel);
void rg__channel_shut(rg__channel *channel, rg_status st, const char *why);
void rg__channel_set_reason(rg__channel *channel, rg_status st,
                            const char *why);

/* The channel has something to do. Lock held, as in what follows. */
void rg__channel_note_busy(rg__channel *ch);

/* ending.c: so many are queued; one ends with st and why, which is copied. */
void rg__req_count_in(rg__channel *ch, int n);
void rg__req_finish(rg__engine *engine, rg_req *req, rg_status st,
                    const char *why);

/* For counts that change only under the lock: needs no costly instruction. */
static inline void rg__count_add(_Atomic uint32_t *count, int n)
{
    const uint32_t now = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, now + (uint32_t)n, memory_order_release);
}

/* NULL: the transport carries none. */
static inline rg__messages *rg__engine_messages(const rg__engine *e)
{
    return e->world == NULL || e->world->comm == NULL ||
                   e->transport->messages == NULL
               ? NULL
               : e->transport->messages(e->world->comm);
}

/* message_request.c: its message is in flight from now on. */
void rg__message_link(rg__channel *ch, rg_req *req);
bool rg__engine_carry_messages(rg__engine *engine);
void rg__channel_drop_messages(rg__channel *ch, rg_status st, const char *why);
/* Of an aborted generation. */
void rg__message_give_up(rg__engine *engine, rg_req *req, rg_status st,
                         const char *why);
/* "send of 5 elements to rank 1". */
void rg__message_words(const rg_req *req, char *text, size_t room);

/* End a request that was noted only. */
void rg__req_fail_noted(rg__engine *engine, rg_req *req, rg_status st,
                        const char *why);

/* run_request.c, for requests that don't run as they are: do a piece of the
 * work before the operation begins (IN_PROGRESS: there is more); what to begin
 * on the comm (NULL: no memory); its outcome (IN_PROGRESS: begin again). */
rg_status rg__run_prepare_other(rg_req *req);
const rg__coll *rg__run_begin_other(rg_req *req);
rg_status rg__run_end_other(rg_req *req, rg_status st, const rg__coll *joined);
void rg__run_free(rg__run *run); /* NULL allowed */
/* Run n requests as one, as their first; how many (1: not fused), and which. */
rg_status rg__run_fuse(rg_req *leader, rg_req *const *fused, int n);
void rg__run_set_tag(rg_req *req, uint64_t tag);
int rg__run_count_other(const rg_req *req);
rg_req *rg__run_at(rg_req *req, int i);

static inline rg_status rg__run_prepare(rg_req *req)
{
    return req->run == NULL ? RG_OK : rg__run_prepare_other(req);
}

static inline const rg__coll *rg__run_begin(rg_req *req)
{
    return req->run == NULL ? &req->coll : rg__run_begin_other(req);
}

static inline rg_status rg__run_end(rg_req *req, rg_status st,
                                    const rg__coll *joined)
{
    const bool is_plain =
        req->run == NULL && st == RG_OK && req->coll.kind != RG__JOIN;
    return is_plain ? st : rg__run_end_other(req, st, joined);
}

static inline int rg__run_count(const rg_req *req)
{
    return req->run == NULL ? 1 : rg__run_count_other(req);
}

/* recorder.c, lock held: a set's operation is queued, begins, ends. */
void rg__record_enter(rg__engine *engine, uint64_t generation, int rank,
                      int size);
void rg__record_members(rg__channel *ch, const int *ranks, int n, int rank);
void rg__record_queued(rg__channel *ch, rg_req *req);
void rg__record_begun(rg__engine *engine, rg_req *req);
void rg__record_ended(rg__engine *engine, const rg_req *req, rg_status st);
void rg__record_closed(rg__channel *ch);

/* watchdog.c */
void rg__watchdog_configure(rg__engine *engine);
/* timeout_ms 0: the deadline that all have, if any. */
void rg__deadline_set_in(rg_req *req, int timeout_ms);
static inline void rg__deadline_set(rg_req *req, int timeout_ms)
{
    if (timeout_ms != 0 || req->engine->timeout_ms != 0)
        rg__deadline_set_in(req, timeout_ms);
}
/* The time until its deadline, if it has one, begins now. */
void rg__deadline_restart(rg_req *req);
void rg__watchdog_look(rg__engine *engine);

#endif
