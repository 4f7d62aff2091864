/* The etcd program as a child of this process.
 *
 * It has a process group of its own, so that Ctrl-C at a terminal doesn't reach
 * it, and the kernel ends it with its parent.
 *
 * Threads:   call in a process without other threads: this forks.
 * Waiting:   only the end waits, 5 s at most. */
#ifndef RG_ELASTIC_ETCD_CHILD_H
#define RG_ELASTIC_ETCD_CHILD_H

#include <limits.h>
#include <sys/types.h>

#include "regroup/regroup.h"

#define RG__ETCD_SAID 256

/* The etcd program: the given one, else from PATH or its usual places.
 * ERR_STORE: not installed. */
rg_status rg__find_etcd(const char *program, char path[PATH_MAX]);

/* Where a private etcd's clients find it, below its dir. */
#define RG__ETCD_SOCKET "etcd/c:1"

/* Start it with its data in dir/etcd, which exists, its messages at the end of
 * dir/etcd.log, and its clients at url, an https one of the certificates in dir
 * (certs.h); NULL: at dir/RG__ETCD_SOCKET. */
rg_status rg__etcd_child_start(const char *program, const char *dir,
                               const char *url, pid_t *pid_p);
/* Ask it to end, and wait until it has; pid 0: none. */
void rg__etcd_child_stop(pid_t pid);

/* What it logged last in dir/etcd.log, as part of a sentence; and what it
 * lacked on this machine, if that is known. */
typedef enum rg__etcd_child_lack {
    RG__ETCD_CHILD_LACKS_NOTHING,
    RG__ETCD_CHILD_LACKS_THREADS,
    RG__ETCD_CHILD_LACKS_MEMORY,
    RG__ETCD_CHILD_LACKS_DISK
} rg__etcd_child_lack;
rg__etcd_child_lack rg__etcd_child_said(const char *dir,
                                        char said[RG__ETCD_SAID]);

#endif
