/* A script that lists the hosts that are there now; it is run again and again.
 * A run that fails, or prints no list, changes nothing and is reported once.
 *
 * Threads:   call in a process without other threads: this forks.
 * Ownership: a discovery owns its newest list. */
#ifndef RG_LAUNCH_DISCOVER_H
#define RG_LAUNCH_DISCOVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "elastic/launch/host_list.h"

typedef struct rg__discovery {
    const char *command; /* of the shell; NULL: there is no script */
    uint64_t interval_ms;
    int slots; /* of hosts that it prints without a number */
    rg__host_list list;
    bool is_new;  /* the list has changed since it was last taken */
    pid_t pid;    /* of the run that is under way, 0: none */
    int out, err; /* what it has printed: files in memory, -1: none */
    uint64_t started_ns, due_ns;
    bool is_late; /* it was killed */
    char said[512];
} rg__discovery;

/* Start it, or end a run that takes too long, if that is due. Returns after how
 * many ms to call this again, -1: never. */
int rg__discovery_turn(rg__discovery *d);
/* A child has ended. false: it is another's. */
bool rg__discovery_ended(rg__discovery *d, pid_t pid, int status);
void rg__discovery_end(rg__discovery *d);

#endif
