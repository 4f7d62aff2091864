/* Transactions over this job's keys:
 *
 *   job_txn t = rg__job_txn(a);
 *   rg__job_if_mod(&t, RG__KEY(CUR), a->begins_at);
 *   rg__job_put(&t, RG__KEY(BEGUN), rg__begun_text(generation), 0);
 *   a->beginning = rg__job_send(&t, on_begun, a, rg__generation_try_begin);
 *
 * Nothing is looked at in between: a key or a text that there was no memory for
 * fails the whole transaction, and so does NULL for a range's end. What can't
 * be sent for want of memory is owed: `again` is called a moment later, and
 * builds it as things stand by then. When that has gone on for 2 s, this host
 * leaves with 71. */
#ifndef RG_AGENT_TXN_H
#define RG_AGENT_TXN_H

#include "elastic/member/records.h"
#include "sdk/base/loop.h"

#define RG__OWED_MAX 32

typedef struct agent agent;
typedef void (*job_act)(agent *a);

typedef struct job_txn {
    agent *a;
    rg__txn *txn;
} job_txn;

/* Acts that wait for memory, each once. */
typedef struct owed {
    rg__timer *timer;
    uint64_t since_ns; /* 0: none */
    int count;
    job_act act[RG__OWED_MAX];
} owed;

job_txn rg__job_txn(agent *a);

/* Guards; revision 0: the key is not there. Texts are freed. */
void rg__job_if_create(job_txn *t, rg__key key, int64_t revision);
void rg__job_if_mod(job_txn *t, rg__key key, int64_t revision);
void rg__job_if_value(job_txn *t, rg__key key, char *text);

void rg__job_put(job_txn *t, rg__key key, char *text, int64_t lease);
void rg__job_delete(job_txn *t, rg__key key);
/* Keys of that kind whose number is lower. */
void rg__job_delete_before(job_txn *t, rg__key_kind kind, uint64_t number);
void rg__job_get(job_txn *t, rg__branch branch, rg__key key);
void rg__job_get_kind(job_txn *t, rg__key_kind kind); /* all of them */
void rg__job_get_all(job_txn *t);

/* NULL: no memory; fn is not called, and `again` is, later. Without `again` the
 * caller sees to it. fn NULL: what becomes of it does not matter. */
rg__etcd_req *rg__job_send(job_txn *t, rg__txn_fn fn, void *arg, job_act again);
/* Any act that there was no memory for. */
void rg__job_owe(agent *a, job_act again);
bool rg__job_owes(const agent *a, job_act again); /* NULL: anything */
void rg__job_pay(void *agent_arg);                /* the timer's */

#endif
