/* The launcher: keeps as many slots running on a list of hosts as the job
 * wants, and starts agents again that end without leave.
 *
 *   idle ─> running ─> resting (back-off) ─> running ...
 *              │  └──> over: it left in order (code 0), or can't be helped
 *              └─────> leaving: the list no longer has it, or too many run
 *
 * Wanted are --max and --spares slots, taken from the list in its order, but
 * from hosts that run already first.
 *
 * Threads:   call in a process without other threads: this forks. Its owner
 *            reaps all children, and hands over those that it does not know.
 * Ownership: params are borrowed while the launcher lives. */
#ifndef RG_LAUNCH_HOST_LAUNCHER_H
#define RG_LAUNCH_HOST_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "elastic/launch/discover.h"
#include "elastic/launch/letter.h"

/* Of a host when the job is done, as etcd has it. */
typedef enum rg__host_place {
    RG__PLACE_HERE,
    RG__PLACE_LEFT_OUT, /* not there, nor in the world that has finished */
    RG__PLACE_LOST,     /* not there, and was in that world */
    RG__PLACE_UNKNOWN   /* etcd has given no answer for too long */
} rg__host_place;

/* Called while the end is waited for. */
typedef struct rg__launcher_wait {
    /* What the supervisor's loop does otherwise: reap other children, and do
     * what is due. Returns after how many ms to call it again, -1: never. */
    int (*turn)(void *arg);
    /* look asks etcd about all hosts at once; false: no answer came. Then place
     * says where a host is by that answer. */
    bool (*look)(void *arg);
    rg__host_place (*place)(void *arg, const char *host);
    void *arg;
} rg__launcher_wait;

typedef struct rg__launcher_params {
    const char *host;           /* our own name in the job */
    const char *rsh;            /* a command of the shell */
    const char *program;        /* `regroup` on other hosts */
    const char *own_program;    /* on this one */
    const rg__letter *letter;   /* what every host is told */
    const rg__host_list *hosts; /* to begin with; copied */
    const char *discovery;      /* a script; NULL: none */
    uint64_t interval_ms;       /* between its runs */
    int slots;                  /* of a host that it prints without a number */
    int spares;                 /* slots beyond --max */
    uint64_t start_timeout_ms;  /* for a first answer of a host, before there
                                   is a world */
    uint64_t etcd_timeout_ms;   /* for an answer of etcd when the job is done */
    bool has_last_checkpoint;   /* hosts may write one when the job ends */
    rg__launcher_wait wait;
} rg__launcher_params;

typedef struct rg__launcher rg__launcher;

rg_status rg__launcher_create(const rg__launcher_params *params,
                              rg__launcher **launcher_p);
/* The job is open, its sizes have changed, or its first world is formed. */
void rg__launcher_sizes(rg__launcher *l, int min, int max, bool has_world);
/* Do what is due. Returns after how many ms to call this again, -1: never. */
int rg__launcher_turn(rg__launcher *l);
/* A child has ended. */
void rg__launcher_ended(rg__launcher *l, pid_t pid, int status);
/* No host is left that could do anything: true, the code to end with (0: all
 * have ended in order) and the reason. */
bool rg__launcher_is_over(rg__launcher *l, int *code_p, const char **why_p);

/* The job is over here, with this code. If it is 0 the job is done: wait until
 * each other host has ended, however long its program takes, or has been gone
 * from etcd for 10 s, or etcd itself for --etcd-timeout; otherwise wait for a
 * while only. Hosts that are left are asked to leave, then killed; a signal
 * shortens this. Returns the code; if it is 0, the first other code of a host,
 * or the signal's. */
int rg__launcher_finish(rg__launcher *l, int code);
void rg__launcher_destroy(rg__launcher *l); /* NULL allowed */

#endif
