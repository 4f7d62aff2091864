/* Transactions over this job's keys:
 *
 *   rg__txn_draft t = rg__job_txn(a);
 *   rg__job_if_mod(&t, RG__KEY(CUR), a->begins_at);
 *   rg__job_put(&t, RG__KEY(BEGUN), rg__begun_text(generation), 0);
 *   a->beginning = rg__job_send(&t, on_begun, a, rg__generation_try_begin);
 *
 * There is nothing to check in between: a key or a text without memory fails
 * the whole transaction, and so does NULL for a range's end. What can't be sent
 * for lack of memory is owed: `again` is called a moment later, and rebuilds
 * it from the current state. When that has gone on for 2 s, this host leaves
 * with 71. */
#ifndef RG_AGENT_TXN_H
#define RG_AGENT_TXN_H

#include "elastic/member/records.h"
#include "sdk/base/loop.h"

#define RG__OWED_MAX 32

typedef struct rg__agent rg__agent;
typedef void (*rg__job_act)(rg__agent *a);

typedef struct rg__txn_draft {
    rg__agent *a;
    rg__txn *txn;
} rg__txn_draft;

/* Acts that wait for memory, each once. */
typedef struct rg__owed {
    rg__timer *timer;
    uint64_t since_ns; /* 0: none */
    int count;
    rg__job_act act[RG__OWED_MAX];
} rg__owed;

rg__txn_draft rg__job_txn(rg__agent *a);

/* Guards; revision 0: the key is not there. Texts are freed. */
void rg__job_if_create(rg__txn_draft *t, rg__key key, int64_t revision);
void rg__job_if_mod(rg__txn_draft *t, rg__key key, int64_t revision);
void rg__job_if_value(rg__txn_draft *t, rg__key key, char *text);

void rg__job_put(rg__txn_draft *t, rg__key key, char *text, int64_t lease);
void rg__job_delete(rg__txn_draft *t, rg__key key);
/* Keys of that kind whose number is lower. */
void rg__job_delete_before(rg__txn_draft *t, rg__key_kind kind,
                           uint64_t number);
void rg__job_get(rg__txn_draft *t, rg__branch branch, rg__key key);
void rg__job_get_kind(rg__txn_draft *t, rg__key_kind kind); /* all of them */
/* All keys of the job; of the hosts' records only the first. */
void rg__job_get_few_hosts(rg__txn_draft *t);
void rg__job_get_all(rg__txn_draft *t);

/* NULL: no memory; fn is not called, and `again` is, later. Without `again` the
 * caller has to repeat it. fn NULL: the outcome does not matter. */
rg__etcd_req *rg__job_send(rg__txn_draft *t, rg__txn_fn fn, void *arg,
                           rg__job_act again);
/* Any act for which there was no memory. */
void rg__job_owe(rg__agent *a, rg__job_act again);
bool rg__job_owes(const rg__agent *a, rg__job_act again); /* NULL: anything */
void rg__job_pay(void *agent_arg);                        /* the timer's */

#endif
