/* The process that writes a checkpoint, or this host's share of one, a child of
 * the agent. It is a process and not a thread: a file system that hangs then
 * blocks a process for which nothing waits, and not the agent; and when the
 * process ends, its copy of the state is gone at once.
 *
 *   child of rank 0's host                      agent
 *   copy the commit, make the file -- BEGUN   -->
 *   write                          <-- GO -------  all others have written
 *   write the head, sync           -- WRITTEN -->
 *                                  <-- SEAL -----  the claim is ours
 *   rename, sync, remove old ones  -- SEALED  -->
 *
 *   child of another host
 *   copy the commit                -- HELD    -->
 *                                  <-- PUT ------  that file is made
 *   write its shards, sync         -- SHARED  -->
 *
 * FAILED or GONE instead of any word. The end of the connection means "give it
 * up": the child removes what it made and ends. So nothing that the child does
 * outlives the agent, and nothing counts without the agent's word. */
#ifndef RG_AGENT_WRITER_H
#define RG_AGENT_WRITER_H

#include "elastic/agent/base/agent_state.h"
#include "elastic/state/checkpoint_dir.h"

typedef enum rg__writer_kind {
    WRITER_BEGUN = 1,
    WRITER_WRITTEN,
    WRITER_SEALED,
    WRITER_HELD,
    WRITER_SHARED,
    WRITER_FAILED,
    WRITER_GONE /* failed: the commit is no longer in the vault */
} rg__writer_kind;

typedef struct rg__writer_word { /* to the agent, one packet */
    uint32_t kind;
    uint64_t serial;
    rg__commit_id commit;
    uint64_t hash; /* of the file's head */
    char op[RG__CHECKPOINT_OP];
    char name[RG__CHECKPOINT_NAME_MAX]; /* that it will have */
    char why[RG__ERROR_MAX];            /* FAILED, GONE */
} rg__writer_word;

typedef enum rg__writer_order_kind {
    WRITER_SEAL = 1,
    WRITER_PUT,
    WRITER_GO /* all other hosts have written */
} rg__writer_order_kind;

typedef struct rg__writer_order { /* to the child, one packet */
    uint32_t kind;
    uint64_t serial;            /* PUT */
    char op[RG__CHECKPOINT_OP]; /* PUT */
} rg__writer_order;

typedef struct rg__writer_task {
    const rg__agent *a; /* as it was at the fork */
    int sock;
    bool is_first;             /* rank 0's host: makes the file */
    rg__commit_id wanted;      /* it counts; so does what came later */
    rg__commit_id decided;     /* the newest resume commit, {0, 0}: none */
    const rg__proposal *world; /* that made the commit; with shards */
    uint32_t world_size;
    uint32_t shards; /* of the commit, 0: none */
    const char *dir;
    bool makes_dir;
    uint64_t newest; /* serial of the newest of this job */
    int keep;
} rg__writer_task;

/* Other hosts have shards of the commit. */
bool rg__writer_has_others(const rg__writer_task *task);

/* In the child; does not return. */
void rg__writer_run(const rg__writer_task *task) __attribute__((noreturn));

#endif
