/* Inside the engine: what engine.c and request.c share. */
#ifndef RG_CORE_INSIDE_H
#define RG_CORE_INSIDE_H

#include <pthread.h>

#include "sdk/core/engine.h"

/* A request is owned by its caller until rg_wait has taken it, and by the
 * channel's queue until it is done; who finishes it touches it no more after
 * the store to `state`. NOTED: it belongs to a group that is open, and to no
 * queue. It keeps the engine's memory alive, so that a request
 * may be waited for after rg_finalize. */
enum { RG__REQ_RUNS, RG__REQ_SLEPT_ON, RG__REQ_DONE, RG__REQ_NOTED };

typedef struct rg__run rg__run; /* run.c */

struct rg_req {
    _Atomic uint32_t state;
    rg_status st; /* both valid once done */
    char *why;    /* owned; NULL: no sentence */
    rg__engine *engine;

    /* guarded by the engine's lock, while not done */
    rg__channel *channel;
    rg_req *next;
    rg__coll coll;
    uint64_t *arrays; /* that coll points into; owned */
    int *last_p;      /* of a join; the caller's, or NULL */
    rg__run *run;     /* owned; NULL: it runs as coll says */
    rg_req *leader;   /* it runs as a part of that one, which may be itself */
    uint64_t group;   /* 0: none; those of one group fail together */
    uint64_t deadline_ns, since_ns; /* 0: none, not seen waiting yet */
    bool is_told;                   /* that it takes long */
};

struct rg__channel {
    rg__engine *engine;
    rg__channel *next; /* of the engine's list */
    rg__comm *comm;    /* NULL: closed */
    rg_req *head, *tail;
    bool has_begun; /* head was started on the comm */
    char name[RG__SET_NAME_MAX];
    rg_status close_st;
    char *close_why; /* owned; may be NULL */
};

struct rg__engine {
    pthread_mutex_t lock;        /* guards all that is not atomic */
    _Atomic uint32_t wanting;    /* threads that want the lock for a change; who
                                    only helps lets them go first */
    _Atomic uint32_t references; /* the creator and every request */

    rg__page *page; /* borrowed; not touched once destroy has begun */
    rg__mappings mappings;
    rg__channel *channels;
    const rg__transport *transport;
    rg__channel *world; /* NULL: in no generation */
    bool is_admitted;
    int rank; /* in the world */

    _Atomic uint64_t generation; /* 0: none */
    _Atomic uint32_t in_flight;  /* requests in queues */
    _Atomic uint32_t helpers;    /* user threads that wait, and so help */
    _Atomic uint32_t starts;     /* operations started, ever */
    _Atomic uint32_t streak;     /* waits since the Regroup thread has advanced
                                    anything; up to STREAK */

    /* The bell lives in the transport's memory: who sleeps on it counts
     * itself here, and leave waits for them before it unmaps. */
    rg__bell *bell;
    _Atomic uint32_t bell_users;

    atomic_bool is_left_alone; /* by the Regroup thread, which may not call this
                                  transport */
    _Atomic uint64_t patience_ns; /* of who waits, before it sleeps */
    _Atomic uint64_t nap_ns; /* of who sleeps while operations are in flight */
    _Atomic uint32_t sleep;  /* of the Regroup thread: RG__AWAKE ... */

    uint64_t groups;            /* ever */
    uint64_t stall_ns;          /* 0: never said */
    uint64_t timeout_ms;        /* of operations without their own; 0: none */
    _Atomic uint64_t looked_ns; /* for what is late */
    rg__late_fn late_fn;
    void *late_arg;
    uint64_t late_generation;    /* it was asked to end this one, */
    char late_why[RG__TEXT_MAX]; /* because of that */

    /* the Regroup thread's own */
    uint32_t fruitless; /* looks since something last advanced */
    uint32_t starts_seen;
    uint32_t linger; /* short sleeps left before a long one */
};

/* LINGERS: it looks again within a millisecond by itself. */
enum { RG__AWAKE, RG__LINGERS, RG__SLEEPS };

void rg__engine_unref(rg__engine *engine);

/* Is the current generation aborted? Looked at in every wait. */
bool rg__engine_is_aborted(const rg__engine *engine);

/* Help once: false when another thread holds the lock or nothing moved. */
bool rg__engine_help(rg__engine *engine);

/* End a request of an aborted generation; any thread. */
void rg__engine_give_up(rg__engine *engine, rg_req *req);

/* Sleep until the request is done, a peer has posted something, the agent or
 * a start rings, or timeout_ns. */
void rg__engine_sleep_for(rg__engine *engine, rg_req *req, uint64_t timeout_ns);

/* User threads that wait count themselves in and out. is_blocking: until the
 * operation has ended. */
void rg__engine_enter_help(rg__engine *engine, bool is_blocking);
void rg__engine_leave_help(rg__engine *engine);

bool rg__req_is_done(const rg_req *req);

/* Free a request that is in no queue. */
void rg__req_free(rg_req *req);

/* engine.c: a request for a start, which owns its arrays also when it fails;
 * NULL without memory. With the lock held: queue it; end everything on a
 * channel; end a request that is in no queue. */
rg_req *rg__req_create(rg__channel *channel, const rg__start *start);
void rg__channel_append(rg__channel *channel, rg_req *req);
rg_status rg__channel_check_start(const rg__channel *channel);
void rg__channel_shut(rg__channel *channel, rg_status st, const char *why);
void rg__channel_wake(rg__channel *channel, uint64_t bytes);
void rg__req_finish(rg__engine *engine, rg_req *req, rg_status st,
                    const char *why);

/* End a request that was noted only. */
void rg__req_fail_noted(rg__engine *engine, rg_req *req, rg_status st,
                        const char *why);

/* run.c: what is to be begun on the comm, NULL without memory; what becomes of
 * it, IN_PROGRESS: it is to be begun again. */
const rg__coll *rg__run_begin(rg_req *req);
rg_status rg__run_end(rg_req *req, rg_status st, const rg__coll *joined);
void rg__run_free(rg__run *run); /* NULL allowed */
/* Run n requests as one, their first; and which these are: 1 if not fused. */
rg_status rg__run_fuse(rg_req *leader, rg_req *const *fused, int n);
void rg__run_set_tag(rg_req *req, uint64_t tag);
int rg__run_count(const rg_req *req);
rg_req *rg__run_at(rg_req *req, int i);

/* late.c */
void rg__late_configure(rg__engine *engine);
uint64_t rg__late_deadline(const rg__engine *engine, int timeout_ms);
void rg__late_look(rg__engine *engine);

#endif
