/* The supervisor: the process that `regroup run` and `regroup agent` are. It
 * starts the agent, keeps what must outlive it (fdrecord.h), and starts another
 * when it is killed; the new agent takes over the workers, the vault and the
 * output. It speaks to no other process, has no threads and has no memory of
 * the job mapped.
 *
 * Threads: call it in a process without other threads.
 * Signals: SIGCHLD and those that are forwarded are blocked while it runs. */
#ifndef RG_AGENT_SUPERVISOR_H
#define RG_AGENT_SUPERVISOR_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "elastic/agent/base/agent_params.h"

typedef struct rg__supervisor_hooks { /* any may be NULL */
    /* A child that is no agent has ended and was reaped. */
    void (*ended)(void *arg, pid_t pid, int status);
    /* Called between waits; returns how many ms the next may last, -1: any. */
    int (*turn)(void *arg);
    /* The job is open, its sizes have changed, or its first world is formed. */
    void (*sizes)(void *arg, int min, int max, bool has_world);
    /* Asked between waits: true, and the agent ends: with 0 it leaves, else it
     * ends the job with that code. */
    bool (*is_over)(void *arg, int *code_p, const char **why_p);
    /* Something can be read there. */
    int fd; /* 0: none */
    void (*readable)(void *arg);
    void *arg;
} rg__supervisor_hooks;

/* SIGCHLD, and the signals that are passed on to the agent: SIGINT, SIGTERM,
 * SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2, SIGTSTP and SIGCONT, except those that
 * are ignored (nohup and its like stay respected). */
void rg__supervisor_signals(sigset_t *set);
/* One of the first six that is pending; 0: none. */
int rg__supervisor_pending(void);

/* The first act of a process that runs it: a reader of its output may go away,
 * or stop reading; neither ends or stops it. */
void rg__supervisor_calm(void);

/* What the agent's process runs (rg__agent_run). */
struct rg__fdstore;

typedef int (*rg__agent_fn)(const rg__agent_params *params,
                            struct rg__fdstore *fdstore);

/* Run the agent until it has ended for good; returns the exit code of the job
 * here. hooks may be NULL. */
int rg__supervisor_run(const rg__agent_params *params, rg__agent_fn run,
                       const rg__supervisor_hooks *hooks);

#endif
