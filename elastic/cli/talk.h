/* One exchange with etcd at a time, waited for: a loop, a client, a deadline.
 * Signals and, for a private etcd, its death end the wait early. */
#ifndef RG_ELASTIC_TALK_H
#define RG_ELASTIC_TALK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "elastic/etcd/etcd.h"
#include "sdk/base/loop.h"

typedef struct rg__talk {
    rg__loop *loop;
    rg__etcd *etcd;
    rg__timer *deadline;
    const char *endpoints; /* borrowed until rg__talk_close */
    struct sigaction pipe; /* what SIGPIPE did before */
    int signals;
    bool is_dead;     /* the process of pidfd has ended */
    uint64_t more_ms; /* for an etcd that answers late, beyond the deadline */
    rg_status st;
    char why[512];
} rg__talk;

/* params: on_state is not used. pidfd: of a private etcd, -1: none; stays the
 * caller's. Close it in any case. */
rg_status rg__talk_open(rg__talk *talk, const rg__etcd_params *params,
                        int pidfd);
void rg__talk_close(rg__talk *talk);

/* Wait for a request that was made with one of the functions below as its fn,
 * and the talk as its arg. ERR_STORE: refused, or no answer within the time. */
rg_status rg__talk_wait(rg__talk *talk, uint64_t timeout_ms);
/* Send the txn, which may be NULL for lack of memory, and wait for it. */
rg_status rg__talk_ask(rg__talk *talk, rg__txn *txn, rg__txn_fn fn, void *arg,
                       uint64_t timeout_ms);
void rg__talk_end(void *arg, rg_status st);
void rg__talk_end_txn(void *arg, rg_status st, const rg__txn_reply *reply);

#endif
