/* etcd, asked from code that may wait: is it there, does it let us in; and a
 * private one for a job that was given none.
 *
 * Threads:   call in a process without other threads: these fork.
 * Waiting:   all waits are bounded, and end early with ERR_STORE when SIGINT,
 *            SIGTERM or SIGHUP is pending (the caller has them blocked).
 */
#ifndef RG_ELASTIC_STORE_H
#define RG_ELASTIC_STORE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "regroup/regroup.h"

/* Read a key of the job. ERR_STORE: not reachable within the time, or it
 * refuses the password. user NULL: no authentication. */
rg_status rg__store_check(const char *endpoints, const char *user,
                          const char *password, const char *job,
                          uint64_t timeout_ms);

/* The etcd program: the given one, else from PATH or its usual places.
 * ERR_STORE: not installed. */
rg_status rg__find_etcd(const char *program, char path[PATH_MAX]);

typedef struct rg__private_etcd {
    pid_t pid; /* 0: none */
    char endpoint[64];
    char user[8], password[33];
} rg__private_etcd;

/* Start an etcd whose data lie in dir/etcd and whose messages go to
 * dir/etcd.log, on loopback, wait until it takes a write, and turn on
 * authentication. program NULL: etcd from PATH. ERR_STORE. Stop it in any
 * case. */
rg_status rg__private_etcd_start(rg__private_etcd *etcd, const char *program,
                                 const char *dir);
void rg__private_etcd_stop(rg__private_etcd *etcd);

#endif
