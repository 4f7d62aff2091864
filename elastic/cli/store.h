/* etcd, for code that may wait: does it answer and let us in? And a private
 * etcd for a job that was given none.
 *
 * Threads:   call in a process without other threads: these fork.
 * Waiting:   all waits are bounded, and end early with ERR_STORE when SIGINT,
 *            SIGTERM or SIGHUP is pending (the caller has them blocked). */
#ifndef RG_ELASTIC_STORE_H
#define RG_ELASTIC_STORE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elastic/cli/certs.h"
#include "elastic/etcd/etcd.h"
#include "regroup/regroup.h"

/* Read a key of the job. ERR_INVALID: bad params. ERR_STORE: it does not answer
 * in time (late_ms, if that is more and it takes connections), or refuses the
 * password. */
rg_status rg__store_check(const rg__etcd_params *params, const char *job,
                          uint64_t timeout_ms, uint64_t late_ms);

typedef struct rg__private_etcd {
    pid_t pid;          /* 0: none */
    char endpoint[160]; /* a URL (listen.h), or unix:// and a socket's path */
    bool is_open;       /* to other hosts, so at a URL */
    char user[8], password[33];
    char invitation[PATH_MAX +
                    32]; /* file with all that a client at a URL needs */
    char ca_hash[RG__CERTS_HASH];
    char program[PATH_MAX], dir[PATH_MAX];
    uint64_t started_ns, again_ns; /* 0: no start is planned */
    int falls;                     /* in a row */
} rg__private_etcd;

/* Start an etcd whose data lie in dir/etcd and whose messages go to
 * dir/etcd.log, wait until it takes a write, and turn on authentication.
 * program NULL: etcd from PATH. listen: an address (listen.h); NULL: a socket
 * in dir, and no port. ERR_INVALID: no such address; ERR_STORE. Stop it in any
 * case. */
rg_status rg__private_etcd_start(rg__private_etcd *etcd, const char *program,
                                 const char *dir, const char *listen);
void rg__private_etcd_stop(rg__private_etcd *etcd);
/* What a client of it is given; borrows from it. */
rg__etcd_params rg__private_etcd_params(const rg__private_etcd *etcd);

/* Its process has ended by itself, with this wait status, and was reaped: warn,
 * and plan to start it again. */
void rg__private_etcd_ended(rg__private_etcd *etcd, int status);
/* Start it again if that is due; doesn't wait until it is ready. Returns after
 * how many ms to call this again, -1 when nothing is planned. */
int rg__private_etcd_keep(rg__private_etcd *etcd);

#endif
