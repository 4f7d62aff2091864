/* The way to one other host: a child process that starts --rsh there, hands it
 * the letter, prints what comes back line by line, and ends with its exit code.
 * If nobody reads our output, that process blocks, and the launcher does not.
 *
 *   launcher ── channel ── ssh h2 ─ ─ ─ `regroup remote` (supervisor) ── agent
 *
 * SIGTERM to the channel says "leave" to the host; a second one closes its
 * input as well. When the launcher is killed the kernel kills both children,
 * and the other side finds its input closed.
 *
 * Threads:   call in a process without other threads: this forks. */
#ifndef RG_LAUNCH_CHANNEL_H
#define RG_LAUNCH_CHANNEL_H

#include <stdbool.h>
#include <sys/types.h>

#include "elastic/launch/letter.h"

/* The first line that `regroup remote` prints. */
#define RG__CHANNEL_HELLO "regroup-remote"

#define RG__CHANNEL_SAID 256

/* Shared by launcher and channel. */
typedef struct rg__channel_note {
    bool is_reached;             /* `regroup remote` runs there */
    char said[RG__CHANNEL_SAID]; /* before that: what --rsh said last */
} rg__channel_note;

typedef struct rg__channel_params {
    const char *host;         /* the label of foreign lines */
    const char *target;       /* NULL: this machine, without --rsh */
    const char *rsh;          /* a command of the shell */
    const char *program;      /* `regroup` on the other host */
    const rg__letter *letter; /* borrowed until the call returns */
    rg__channel_note *note;   /* of rg__channel_note_create */
} rg__channel_params;

rg__channel_note *rg__channel_note_create(void); /* NULL: no memory */
void rg__channel_note_destroy(rg__channel_note *note);

/* ERR_SYSTEM, ERR_MEMORY. The caller reaps the process. */
rg_status rg__channel_start(const rg__channel_params *params, pid_t *pid_p);

#endif
