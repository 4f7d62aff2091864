/* The context: what the rooms of the library share. */
#ifndef RG_CORE_CONTEXT_H
#define RG_CORE_CONTEXT_H

#include <pthread.h>

#include "sdk/base/config.h"
#include "sdk/core/engine.h"

typedef struct rg__sets rg__sets;     /* process_sets */
typedef struct rg__worker rg__worker; /* elastic/worker */

/* One generation as this worker sees it; rank -1 outside of any. */
typedef struct rg__membership {
    uint64_t generation;
    int rank, size, local_rank, local_size, host_index, host_count;
    rg__member_id *member; /* size of them, by rank; owned */
    bool is_announced; /* members of the one before have left it by agreement */
} rg__membership;

/* What only the worker room can do, offered to the rooms above it. */
typedef struct rg__hooks {
    /* Reserve room for a buffer in the vault, only its name if it is sharded:
     * a borrowed descriptor, and where its room begins. -1: there is no agent,
     * and so no vault that could outlive this worker. */
    rg_status (*reserve)(rg_ctx *ctx, const rg__register *what, int *fd_p,
                         uint64_t *place_p);
    /* The page says that a commit counts. */
    void (*committed)(rg_ctx *ctx, uint64_t generation);
    /* The generation's members have agreed to leave it now. */
    void (*leave)(rg_ctx *ctx, uint64_t generation);
    /* The generation can't go on here, for this reason. */
    void (*broken)(rg_ctx *ctx, uint64_t generation, const char *why);
    /* The same, from under the engine's lock; false: there is no agent. */
    bool (*overdue)(rg_ctx *ctx, const char *why);
    /* There is nothing yet for rg_run's thread to take up: no place, no end. */
    bool (*waits)(rg_ctx *ctx);
    /* Wait until the generation that was taken up is on record. PEER_LOST: it
     * was given up. */
    rg_status (*await_decision)(rg_ctx *ctx);
    /* Ask the agent for a checkpoint of a commit. */
    rg_status (*save)(rg_ctx *ctx, const rg__save *request);
} rg__hooks;

struct rg_ctx {
    rg__page *page;     /* shared with the agent, or private memory */
    rg__record *record; /* behind it; NULL: there is none */
    rg__vault *vault;   /* of this host, shared likewise */
    const rg__hooks *hooks;
    bool is_elastic;
    bool is_rank;        /* of an mpirun of --mpi: the world forms in rg_init */
    rg_state *resumed;   /* by rg_state_resume; borrowed, NULL: none */
    bool has_finished;   /* it is destroyed, after waiting for all ranks */
    rg_status finish_st; /* what that wait returned */
    bool is_running;     /* inside rg_run, with whatever state */
    const char
        *run_frame; /* of rg_run on the stack of run_thread, NULL: none */
    pthread_t run_thread;
    bool has_failed; /* rg_run has returned an error */
    bool has_agent;
    bool is_alone;              /* without an agent, and the only rank */
    char history[RG__TEXT_MAX]; /* directory, or "" */
    uint32_t history_start;     /* of this process's file; 0: none yet */
    char job_id[33];
    char checkpoint[RG__TEXT_MAX]; /* likewise */
    rg__every checkpoint_every;
    int checkpoint_keep;     /* without an agent */
    bool checkpoint_on_stop; /* the newest commit, before the job ends */

    /* Closes when a generation is left: memory of the vault is written only
     * under the gate, and only while gate_generation is the writer's. The
     * innermost lock but the engine's. */
    pthread_mutex_t gate;
    uint64_t gate_generation;

    rg__engine *engine;         /* owned */
    rg__device *_Atomic device; /* owned; NULL: rg_device_open was not called.
                                   Looked at by the Regroup thread, too */
    rg__sets *sets;             /* owned */
    rg__worker *worker;         /* owned */
    rg__member_id me;
    int slot;
    char host[64], job[64];
    uint8_t key[RG__KEY_BYTES]; /* the job's, from the agent: what a
                                   transport proves to other hosts */

    /* Guards now and is_computing; taken before the engine's lock. */
    pthread_mutex_t lock;
    rg__membership now;
    bool is_computing; /* the generation is decided and not left: queries and
                          collectives have a world */
};

/* Fill a zeroed context's lock and membership; rank -1. */
rg_status rg__context_init(rg_ctx *ctx);
void rg__context_clear(rg_ctx *ctx);

/* Replace the membership (member is copied), or forget it with size 0. */
rg_status rg__context_set_membership(rg_ctx *ctx, const rg__membership *m);
void rg__context_set_computing(rg_ctx *ctx, bool is_computing);

/* Was the caller called by fn, or by another function that rg_run calls? Fn is
 * not left by longjmp: a program that does may look as if it were inside. */
bool rg__context_is_inside_fn(const rg_ctx *ctx);

/* A copy of the membership; the caller frees copy->member. */
rg_status rg__context_copy_membership(const rg_ctx *ctx, rg__membership *copy);

#endif
