/* A process that writes files for the agent: a disk that hangs holds up that
 * process, and not the agent. The agent sends it messages, and the process ends
 * when their socket is closed.
 *
 * Threads:   the loop's. */
#ifndef RG_AGENT_FILE_WRITER_H
#define RG_AGENT_FILE_WRITER_H

#include <sys/types.h>

#include "elastic/agent/base/agent_params.h"
#include "regroup/regroup.h"
#include "sdk/base/put_at.h"

/* Runs in the process, which has no descriptors but 0 to 2, the socket and
 * `keep`; its result is the exit code. */
typedef int (*rg__writer_fn)(int sock, const void *arg);

/* Start one. what: it writes, for an error. keep: -1 is allowed in it. */
rg_status rg__writer_start(const char *what, rg__writer_fn fn, const void *arg,
                           const int *keep, int n, int *sock_p, pid_t *pid_p);

/* Close all descriptors but 0 to 2, the socket and `keep`. */
void rg__writer_close_others(int sock, const int *keep, int n);

/* The next message, of at most `room` bytes; 0: there is no other. */
size_t rg__writer_next(int sock, void *message, size_t room);

/* Where this host writes a file that every host of a job has: other hosts may
 * share the directory, so the host's name stands before the ending, unless it
 * is the only one. malloc'd; NULL: no memory. */
char *rg__writer_path(const rg__agent_params *params, const char *given);

#endif
