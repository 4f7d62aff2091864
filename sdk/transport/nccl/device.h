/* Inside the room: the device, its lanes and their states.
 *
 *   user thread      launches under its lane's lock; waits on words
 *   Regroup thread   rg__device_close: stores `closing`, rings
 *   device thread    connects lanes, watches their errors and deadlines; starts
 *                    a reclaimer for each generation that is closed
 *   reclaimer        aborts the lanes of one generation (reclaim.c)
 *
 * Lock order: a lane's lock, then table. Neither is held while the engine's is
 * taken, and no call of CUDA or NCCL is made with the table held. */
#ifndef RG_NCCL_DEVICE_H
#define RG_NCCL_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "sdk/base/clock.h"
#include "sdk/transport/nccl/load.h"
#include "sdk/transport/nccl/nccl.h"

#define RG__LANES       512 /* per generation, sets given back included */
#define RG__SCRATCH     64  /* bytes of device memory that a lane has */
#define RG__EXIT_DEVICE 71
#define RG__SCALES      10 /* types that have a scaling kernel */
#define RG__HALF_BYTES  ((size_t)4 << 20)

#define RG__DEVICE_IDLE_NS (1000 * RG__MS) /* nothing is under way */

typedef enum rg__lane_state {
    RG__LANE_BOOTING,   /* the parent connects to the other members */
    RG__LANE_SPLITTING, /* its child, which blocks, is split from it */
    RG__LANE_WARMING,   /* connected; a first operation is to run on it */
    RG__LANE_READY,
    RG__LANE_BROKEN, /* it can't go on; the generation is to end */
    RG__LANE_MARKED, /* its kernels are told to stop */
    RG__LANE_QUIET,  /* nothing of it runs */
    RG__LANE_GONE,
    RG__LANE_STATES
} rg__lane_state;

typedef enum rg__lane_event {
    RG__LANE_DONE,   /* what the state waits for has happened */
    RG__LANE_FAILED, /* it never will */
    RG__LANE_CLOSED, /* the generation has ended */
    RG__LANE_EVENTS
} rg__lane_event;

/* The next state, for every state and event. */
rg__lane_state rg__lane_next(rg__lane_state state, rg__lane_event event);

/* Facts about an operation under way, for reports. Written under the lane's
 * lock by the launching thread, read by the device thread. */
typedef struct rg__lane_operation {
    _Atomic uint64_t deadline_ns, started_ns, count; /* deadline 0: none */
    _Atomic uint32_t kind;
    _Atomic uint32_t n;       /* launched together as a group */
    _Atomic uint32_t is_told; /* it was reported to take long */
} rg__lane_operation;

#define RG__LANE_INSIDE (UINT64_C(1) << 32)

/* What members compare of an operation: what all of them started up to it
 * (rg__history), and its descriptor. Written by the thread that launches it,
 * read by any. */
#define RECORD_WORDS 7
typedef struct rg__lane_record {
    _Atomic uint64_t word[RECORD_WORDS];
} rg__lane_record;

typedef struct rg__lane rg__lane;
struct rg__lane {
    rg__lane *next;
    uint32_t set, row;
    uint64_t generation;
    char name[RG__SET_NAME_MAX];
    int n, rank;
    rg__nccl_id id;
    _Atomic rg__lane_state state; /* changed with the table held */
    bool was_ready;               /* guarded by the table */
    uint64_t deadline_ns;         /* for connecting the lane */
    char why[RG__TEXT_MAX];       /* why it is BROKEN; guarded by the table */
    rg__nccl_comm parent; /* the device thread's, then the reclaimer's */
    rg__nccl_comm comm;   /* guarded by lock, once WARMING */
    pthread_mutex_t lock; /* guards launches */
    _Atomic int callers;  /* hold the lock or want it; they enter with the
                             table held, while nothing is closed */
    rg__cu_stream stream; /* the lane's own, for operations that name none */
    rg__lane_operation *operation; /* in_flight of them */
    _Atomic uint64_t inside;       /* RG__LANE_INSIDE and the operation whose
                                 caller is inside NCCL; 0: none */
    rg__history history;      /* of all that was started; guarded by lock */
    rg__lane_record *record;  /* of the newest operations (started.c) */
    _Atomic uint64_t started; /* operations, ever */
    _Atomic uint64_t floor;   /* operations below it are not on record */
    _Atomic(_Atomic uint64_t *) counts; /* 2 n for each record, once an
                                           operation has had any */
    atomic_bool is_stalled; /* an operation was reported to take long */
};

/* The lanes of generations that are closed, on their way out. */
typedef struct rg__ending {
    struct rg__ending *next;
    rg__device *device;
    uint64_t generation; /* the newest generation in it */
    uint64_t deadline_ns;
    rg__lane *lanes;
    bool is_quiet; /* guarded by the table */
} rg__ending;

struct rg__device {
    rg__cuda_library cuda;
    rg__nccl_library nccl;
    rg_device_params params;
    rg__device_broken_fn broken;
    rg__device_look_fn look;
    void *arg;
    uint64_t stall_ns; /* operations that take longer are reported; 0: none */
    int ordinal, handle;
    rg__cu_context context;
    char name[64], bus[16];

    _Atomic uint32_t *word; /* in_flight for each row; pinned */
    rg__cu_address word_at, scratch;
    rg__cu_function scale[RG__SCALES]; /* by type */
    bool has_scale;
    char scale_why[RG__TEXT_MAX]; /* why the kernels are missing */
    /* For copies that Regroup makes by itself: halves of a pinned ring, each
     * with a stream of its own. */
    char *half[2];
    rg__cu_stream mover[2];
    unsigned next_half; /* the half that the next write uses */

    _Atomic uint32_t number[RG__LANES]; /* of each row's newest operation;
                                           changed with the lane's lock held */

    pthread_mutex_t table;  /* guards all below that is not atomic */
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    rg__lane *lanes;        /* lanes of the generation that was entered */
    uint32_t rows;          /* rows that these lanes use */
    rg__ending *ending;
    uint64_t entered;
    rg_status close_st;
    char close_why[2 * RG__TEXT_MAX];
    int failures; /* generations in which a lane failed here, without one
                   * between them in which all were connected */

    /* The newest generation that is closed, 0: none. Stored before any lane is
     * marked; checked under a lane's lock before every launch, and after every
     * word that says that an operation has ended. */
    _Atomic uint64_t closing;
    _Atomic uint64_t quiet;      /* up to this generation nothing runs */
    _Atomic uint32_t references; /* the context's, and one for each request */
    _Atomic uint32_t waiters;    /* threads that look at words */
    _Atomic uint32_t bell;       /* the device thread sleeps on it */
    atomic_bool is_idle;         /* the device thread sleeps for long */
    atomic_bool is_ruined;       /* a fault has ended the context's work */
    atomic_bool wants_stop;
    bool has_thread;
    pthread_t thread;
};

static inline bool rg__device_is_closed(const rg__device *d,
                                        uint64_t generation)
{
    return atomic_load(&d->closing) >= generation;
}

/* device.c */
void rg__device_ring(rg__device *d);
/* Has a fault ended everything in the context (an illegal address, Xid, ECC)?
 * OK: no. Words that are not written yet never will be. */
rg_status rg__device_look_for_ruin(rg__device *d);
/* Make the context current in this thread. */
rg_status rg__device_use(rg__device *d);
/* The lane of a set, or NULL. The table is held. */
rg__lane *rg__lane_find(const rg__device *d, uint32_t set, uint64_t generation);
/* The table is held. */
void rg__lane_move(rg__device *d, rg__lane *lane, rg__lane_event event);

/* lanes.c: the device thread's part; returns the time until the next look. */
uint64_t rg__lanes_step(rg__device *d);

/* reclaim.c: take the lanes, to abort and free on a thread. The table is
 * held. */
void rg__reclaim_begin(rg__device *d);
/* Note that nothing of generations up to this one runs. The table is held. */
void rg__device_note_quiet(rg__device *d, uint64_t generation);
void rg__lane_free(rg__device *d, rg__lane *lane); /* NULL allowed */

/* operations.c: has an operation of the lane passed its deadline (why)? */
bool rg__lane_is_overdue(rg__device *d, rg__lane *lane, char *why, size_t room);
/* Has an operation been under way for so long that it was reported? */
bool rg__lane_is_stalled(const rg__device *d, const rg__lane *lane);

/* started.c: how many operations a lane remembers. */
uint64_t rg__history_room(const rg__device *d);
/* Note the next operation, which is the i-th of a group of n; undo it for the
 * last n, which were not started after all. The lane's lock is held. */
void rg__history_note(const rg__device *d, rg__lane *lane, const rg__coll *coll,
                      int i, int n);
void rg__history_drop(const rg__device *d, rg__lane *lane,
                      const rg__history *before, int n);

/* scale.c: Regroup's own kernels, as PTX text; "": there are none. */
extern const char rg__scale_ptx[];
void rg__scale_load(rg__device *d);
/* ERR_UNSUPPORTED: it needs a kernel, and there is none. */
rg_status rg__scale_check(const rg__device *d, const rg__coll *coll);

/* An operation with what comes before and after it. */
typedef struct rg__scaled {
    rg__coll asked, coll; /* what the program asked for; what NCCL runs */
    rg__cu_address room;  /* extra memory that NCCL sends from; 0: none */
} rg__scaled;

/* Enqueue what comes before NCCL's operation, and set coll; enqueue what comes
 * after it. Return the driver's code. */
int rg__scale_before(rg__device *d, const rg__lane *lane, rg__cu_stream stream,
                     rg__scaled *scaled);
int rg__scale_after(rg__device *d, const rg__lane *lane, rg__cu_stream stream,
                    const rg__scaled *scaled);

static inline bool rg__word_has(const rg__device *d, uint32_t row,
                                uint32_t number)
{
    const uint32_t n = (uint32_t)d->params.in_flight;
    const uint32_t seen = atomic_load_explicit(&d->word[row * n + number % n],
                                               memory_order_acquire);
    return (int32_t)(seen - number) >= 0;
}

/* Has everything ended that was launched on the row? Operations of one set end
 * in order on the device, but their words are written by their streams. */
static inline bool rg__row_is_idle(const rg__device *d, uint32_t row)
{
    const uint32_t newest = atomic_load(&d->number[row]);
    for (uint32_t i = 0; i < (uint32_t)d->params.in_flight; i++)
        if (!rg__word_has(d, row, newest - i))
            return false;
    return true;
}

#endif
