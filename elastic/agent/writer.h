/* The process that writes one checkpoint, a child of the agent. A process and
 * no thread: a file system that hangs holds a process that nobody waits for,
 * and not the agent; its copy of the state goes with it at once.
 *
 *   child                                       agent
 *   copy the commit, write, sync  -- WRITTEN -->
 *                                 <-- a byte --  the claim is ours: seal it
 *   rename, sync, remove old ones -- SEALED  -->
 *
 * FAILED instead of either. The end of the connection means "give it up": the
 * child removes what it wrote and ends. So nothing that it does outlives the
 * agent, and nothing counts without its word. */
#ifndef RG_AGENT_WRITER_H
#define RG_AGENT_WRITER_H

#include "elastic/agent/inside.h"
#include "elastic/state/checkpoint_dir.h"

typedef enum writer_kind {
    WRITER_WRITTEN = 1,
    WRITER_SEALED,
    WRITER_FAILED
} writer_kind;

typedef struct writer_word { /* to the agent, one packet */
    uint32_t kind;
    uint64_t serial;
    rg__commit_id commit;
    uint64_t hash; /* of the file's head */
    char op[RG__CHECKPOINT_OP];
    char name[RG__CHECKPOINT_NAME_MAX]; /* that it will have */
    char why[RG__ERROR_MAX];            /* FAILED */
} writer_word;

typedef struct writer_task {
    const agent *a; /* as it was at the fork */
    int sock;
    rg__commit_id wanted;  /* it counts; so does what came later */
    rg__commit_id decided; /* the newest resume commit, {0, 0}: none */
    uint32_t world_size;
    const char *dir;
    bool makes_dir;
    uint64_t newest; /* serial of the newest of this job */
    int keep;
} writer_task;

/* In the child; does not return. */
void rg__writer_run(const writer_task *task) __attribute__((noreturn));

#endif
