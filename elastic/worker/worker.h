/* The worker's side of a job: its connection with the agent, the Regroup
 * thread, and what rg_init and rg_run wait for. */
#ifndef RG_ELASTIC_WORKER_H
#define RG_ELASTIC_WORKER_H

#include "process_sets/sets.h"
#include "sdk/transport/launcher.h"
#include "sdk/base/inner.h"
#include "sdk/base/machine.h"
#include "sdk/base/wire.h"

typedef struct rg__registry rg__registry; /* segment_registry.c */

/* init.c: has a part of this process called rg_init, and is its world there? */
RG_INNER bool rg__process_has_world(void);

/* The worker's phase (phase.c). */
/* clang-format off */
#define RG__PHASES(X)                                                          \
    X(OUT, "out")         /* not at the door yet */                            \
    X(DOOR, "at the door") /* waits for a proposal or a decision */            \
    X(DECIDED, "decided") /* a generation is decided and not left */           \
    X(DONE, "done")       /* the job is */                                     \
    X(ENDED, "ended")     /* refused, ended or alone: nothing more will come */

#define RG__PHASE_EVENTS(X)                                                    \
    X(COME, "comes")            /* to the door */                              \
    X(COME_ALONE, "comes alone") /* where there is no agent */                 \
    X(DECIDE, "DECIDED")                                                       \
    X(LEAVE, "leaves")          /* a generation */                             \
    X(DONE, "DONE")                                                            \
    X(END, "ENDED or alone")
/* clang-format on */

typedef enum rg__phase {
#define X(phase, text) RG__PHASE_##phase,
    RG__PHASES(X)
#undef X
} rg__phase;

typedef enum rg__phase_event {
#define X(event, text) RG__ON_##event,
    RG__PHASE_EVENTS(X)
#undef X
} rg__phase_event;

typedef struct rg__reply {
    rg__wire_type awaited; /* BUFFER or SEGMENT; 0: none */
    uint32_t ask;          /* the number that the answer must bear */
    bool is_here;
    rg_status st;
    int fd;         /* SEGMENT: taken by the thread that asked */
    void *at;       /* likewise */
    uint64_t place; /* BUFFER */
    char text[RG__TEXT_MAX];
} rg__reply;

struct rg__worker {
    rg_ctx *ctx;
    int sock;     /* -1: alone */
    int vault_fd; /* of the vault: its table, and the rooms of all buffers;
                     for the turn to reserve memory, too; -1: alone */
    bool has_thread;
    pthread_t thread;
    const rg__launcher *launcher; /* that started this process; NULL: none */
    rg__registry *registry; /* of this host in a launched world; NULL: none */
    uint32_t grace_ms;
    uint32_t mend_ms; /* for ranks that go on in place; 0: they don't */
    int listener;     /* for workers of other hosts; -1: alone */
    uint32_t port;
    uint64_t registered; /* a hash of the buffers; set before the door */
    _Atomic bool waits;  /* in rg_world_wait, or between that and rg_run */

    /* Guards all below. Taken before ctx->lock and the engine's. */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    rg__phase phase;
    rg_status end; /* PHASE_ENDED: what calls return from now on */
    char end_why[RG__TEXT_MAX];
    rg__decided decided;    /* PHASE_DECIDED, and on record */
    rg__decided expected;   /* PHASE_DECIDED, and perhaps on record later */
    uint64_t taken;         /* generation that the user thread has taken up */
    uint64_t done;          /* PHASE_DONE: the generation that finished */
    rg__membership entered; /* the generation that was built */
    uint64_t leave_agreed;  /* generation that its members agreed to leave */
    bool wants_stop;        /* rg_finalize */
    rg__finalized gone;     /* why this worker leaves; 0: rg_finalize */
    uint64_t fin;           /* generation in which fn returned OK */
    rg__broken broken;      /* its last warning */
    uint64_t mending_ns;    /* MPI's part of a world is being made since then */
    bool has_mended;        /* it was made for an earlier world */
    rg__reply reply;
    uint32_t last_segment, last_ask;
    uint32_t agents; /* that took over from another */
    rg_break_fn on_break;
    void *break_arg;
    uint64_t
        breaking; /* generation of which on_break is told now, 0: of none */
    bool is_break_new; /* and it has not been called yet */

    /* the user thread's own */
    pthread_key_t thread_end; /* of rg_run's thread; has_: it is one */
    bool has_thread_end;
    uint64_t begun_step;      /* of fn in this generation */
    rg_state *open;           /* whose loop of rg_next is under way, or NULL */
    pthread_t loop_thread;    /* that loop's */
    rg__decided decided_here; /* what the turn under way began with */
    bool has_world;           /* of the first turn: by rg_world_wait */
    uint64_t loaded;          /* as in DOOR */
    int in_vain; /* times fn returned for its own reason since a step */
    rg__member_id *launched; /* owned; the ranks of MPI_COMM_WORLD, where they
                                go on in place */
    int launched_n;

    /* the Regroup thread's own */
    rg__prepare *pending; /* owned; the newest proposal not built yet */
    int pending_fd;
    uint64_t asked;         /* generation of the newest proposal that came */
    uint64_t agent_lost_ns; /* 0: it is there */
    bool is_cut;            /* the other end of the socket is closed */

    /* The transport's reports on a connection; guarded by the engine's lock. */
    rg__broken link;
    bool is_link_broken;
    int stuck_rank;                 /* -1: none */
    uint64_t stuck_bytes, stuck_ms; /* not acknowledged for so long */
};

/* phase.c: the only place that moves the phase; lock held. true: it has moved.
 * Waiting threads then look again. */
bool rg__worker_step(rg__worker *w, rg__phase_event event);
extern const rg__machine rg__phase_machine;

/* connect.c: connect, identify ourselves, map page and vault. ctx gets page,
 * vault, me, names; worker gets sock. */
rg_status rg__worker_connect(rg__worker *w, const char *socket_path, int slot);
/* The same without an agent: private memory, host name of the machine. */
rg_status rg__worker_stay_alone(rg__worker *w,
                                const rg__library_settings *settings);

/* adapter.c: load the library of the MPI that has started this process, if
 * there is one; it then offers itself as a launcher. */
void rg__adapter_load(void);

/* launched.c: connect to the other tasks of a launcher; fills ctx and
 * w->entered with this task's place. */
rg_status rg__worker_launched(rg__worker *w,
                              const rg__library_settings *settings);
/* Open the world, by the first REGROUP_TRANSPORTS that can. Collective. */
rg_status rg__worker_enter_launched(rg__worker *w,
                                    const rg__library_settings *settings);
/* From now on, waiting for a process that has ended fails. */
void rg__worker_watch_launched(rg__worker *w);
/* Close it, on the thread that ends it. */
void rg__worker_leave_launched(rg__worker *w, const char *why);

/* launched_hosts.c: where the tasks of a launched world are reached, by rank
 * and by host; owned. */
typedef struct rg__reached {
    rg__place *place;
    rg__address *address;
} rg__reached;
/* Listen, and learn where all others do; interface may be NULL. *ok: all can
 * be reached, the same on all ranks. Collective. */
rg_status rg__worker_reach_hosts(rg__worker *w, const char *interface,
                                 rg__reached *to, bool *ok);
void rg__reached_free(rg__reached *reached);

/* segment_registry.c: rg_alloc memory of a launched world on one host. */
uint64_t rg__registry_bytes(int local_size);
void rg__registry_take(rg__registry *registry, const rg__membership *m);
void rg__registry_free(rg__registry *registry); /* NULL allowed */
/* The descriptor is the registry's until the segment is wiped. */
rg_status rg__registry_write(rg__worker *w, const rg__segment *s, int fd);
void rg__registry_wipe(rg__worker *w, uint32_t id);
/* The fetch of rg__mappings; arg is the worker. Engine's lock held. */
bool rg__registry_fetch(void *arg, rg__member_id owner, uint32_t id);

/* listener.c: the listener, at this host's address and any port. */
rg_status rg__worker_listen(rg__worker *w, const rg__address *address);

/* thread.c */
rg_status rg__worker_start_thread(rg__worker *w);
void rg__worker_stop_thread(rg__worker *w);
/* rg_run has failed, or its thread has ended: leave the job, so that no worker
 * waits for what the program does until it ends. */
void rg__worker_fail(rg__worker *w, rg__finalized why);
rg_status rg__worker_send(rg__worker *w, const void *message, size_t bytes);
rg_status rg__worker_mark(rg__worker *w, rg__wire_type type,
                          uint64_t generation);
/* --mpi=ulfm: this rank can't go on in place, so all are launched again. */
void rg__worker_ask_launch(rg__worker *w, const char *why);
/* A generation can't go on. peer: behind a broken connection, -1: none. */
void rg__worker_broken(rg__worker *w, uint64_t generation, int peer,
                       const char *why);
/* The same from under the engine's lock, of the generation entered: published
 * soon by the Regroup thread. arg is the worker; rank -1: of no rank. */
void rg__worker_link_broken(void *arg, int rank, const char *why);

/* segments.c: rg_alloc memory; the Regroup thread hands its messages over. */
void rg__segment_arrived(rg__worker *w, const rg__segment *m, int *fd);
void rg__segment_gone(rg__worker *w, const rg__segment *m);

/* Make a segment of this worker's that peers map, too, with all its pages. The
 * descriptor is the caller's. */
rg_status rg__segment_make(rg_ctx *ctx, size_t bytes, uint32_t *id_p, int *fd_p,
                           void **p_p);
rg_status rg__segment_drop(rg_ctx *ctx, uint32_t id);
/* From now on it belongs to that buffer, or to none (home->at NULL). */
void rg__segment_settle(rg_ctx *ctx, uint32_t id, const rg__home *home);

/* registered.c: rg_finalize; buffers have memory of their own again. */
void rg__registered_end(rg_ctx *ctx);

/* Map a segment; the engine's lock is held. */
rg_status rg__segment_map(rg_ctx *ctx, const rg__segment *s, int fd);

/* Register a buffer with the agent: hook for the state room. */
rg_status rg__worker_reserve(rg_ctx *ctx, const rg__register *what, int *fd_p,
                             uint64_t *place_p);

/* send_sets.c: answer the agent that wants to see this worker's sets. */
void rg__worker_send_sets(rg__worker *w, uint64_t ask);

/* break.c: call on_break. Note, with the lock held, that the generation entered
 * is broken, before any thread can see that it is left; then tell, unlocked, on
 * the Regroup thread. */
void rg__break_note(rg__worker *w);
void rg__break_tell(rg__worker *w);
/* Wait until on_break has returned; lock held. */
void rg__break_await(rg__worker *w);

/* door.c. Ask for a place; while `waits` is set, only in a first world. */
rg_status rg__worker_door(rg__worker *w);
/* rg__worker_await would have to wait; *is_proposed_p: a generation in which
 * this worker has a place is built and not yet decided. */
bool rg__worker_waits(rg__worker *w, bool *is_proposed_p);
/* Sleep for so long, or until something changes. */
void rg__worker_nap(rg__worker *w, uint64_t ns);
/* Wait at the door: OK with the decision of a generation newer than the one
 * taken up, OK with *is_done_p when the job is done, or the status that ended
 * this worker. Takes the generation up: queries and collectives are the new
 * generation's from then on. */
rg_status rg__worker_await(rg__worker *w, rg__decided *decided,
                           bool *is_done_p);
/* The same for rg_world_wait: *is_joining_p if there is a commit already. */
rg_status rg__worker_await_first(rg__worker *w, bool *is_joining_p);
/* The generation that was taken up is the newest, and was not left. */
bool rg__worker_has_world(rg__worker *w, rg__decided *decided);
rg_status rg__worker_await_decision(rg_ctx *ctx); /* as in rg__hooks */
/* The job is done, and this worker had a part in it. */
bool rg__worker_is_done(rg__worker *w);

/* run.c. A loop of rg_next that is still open has been left early. */
void rg__worker_close_loop(rg__worker *w);
/* fn, or the program, is done in the generation that was taken up. */
rg_status rg__worker_finished(rg__worker *w);
/* The worker leaves that generation for the next one. If no other rank knows
 * why, all are told, since the generation ends for all. ERR_INVALID: this
 * happened again and again. */
rg_status rg__worker_leave_to_come_back(rg_state *state, const char *why);

/* in_place.c (--mpi=ulfm): MPI's part of the world that was taken up, or of a
 * newer one, which is taken up then. Collective. */
rg_status rg__worker_mend(rg__worker *w, rg__decided *decided);

/* state_resume.c: the end of a rank's work; collective. */
rg_status rg__worker_finish_launch(rg_ctx *ctx);

/* crash.c: say dying(signal) in the page before a core dump hides the death. */
void rg__crash_install(rg__page *page);

#endif
