/* One builder for what this agent reads from the job's keys and writes there,
 * and one rule for when there is no memory for it. */
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/exits.h"

#include <stdlib.h>

#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define AGAIN_NS   (20 * RG__MS)
#define GIVE_UP_NS (2000 * RG__MS)

/* ------------------------------------------------------------------- build */

rg__txn_draft rg__job_txn(rg__agent *a)
{
    return (rg__txn_draft){a, rg__txn_create()};
}

static char *key_of(const rg__txn_draft *t, rg__key key)
{
    return rg__record_key(t->a->prefix, key);
}

void rg__job_if_create(rg__txn_draft *t, rg__key key, int64_t revision)
{
    char *name = key_of(t, key);
    rg__txn_if_create(t->txn, name, revision);
    free(name);
}

void rg__job_if_mod(rg__txn_draft *t, rg__key key, int64_t revision)
{
    char *name = key_of(t, key);
    rg__txn_if_mod(t->txn, name, revision);
    free(name);
}

void rg__job_if_value(rg__txn_draft *t, rg__key key, char *text)
{
    char *name = key_of(t, key);
    rg__txn_if_value(t->txn, name, text);
    free(name);
    free(text);
}

void rg__job_put(rg__txn_draft *t, rg__key key, char *text, int64_t lease)
{
    char *name = key_of(t, key);
    rg__txn_put(t->txn, name, text, lease);
    free(name);
    free(text);
}

void rg__job_delete(rg__txn_draft *t, rg__key key)
{
    char *name = key_of(t, key);
    rg__txn_delete(t->txn, name, NULL);
    free(name);
}

void rg__job_delete_before(rg__txn_draft *t, rg__key_kind kind, uint64_t number)
{
    if (number <= 1)
        return;
    char *from = key_of(t, (rg__key){.kind = kind, .number = 1});
    char *to = key_of(t, (rg__key){.kind = kind, .number = number});
    rg__txn_delete(t->txn, to != NULL ? from : NULL, to);
    free(from);
    free(to);
}

void rg__job_get(rg__txn_draft *t, rg__branch branch, rg__key key)
{
    char *name = key_of(t, key);
    rg__txn_get(t->txn, branch, name, NULL);
    free(name);
}

void rg__job_get_kind(rg__txn_draft *t, rg__key_kind kind)
{
    char *from = rg__record_keys(t->a->prefix, kind);
    char *to = from != NULL ? rg__prefix_end(from) : NULL;
    rg__txn_get(t->txn, RG__THEN, to != NULL ? from : NULL, to);
    free(from);
    free(to);
}

void rg__job_get_few_hosts(rg__txn_draft *t)
{
    char *hosts = rg__record_keys(t->a->prefix, RG__KEY_HOST);
    char *behind = hosts != NULL ? rg__prefix_end(hosts) : NULL;
    rg__txn_get(t->txn, RG__THEN, behind != NULL ? t->a->prefix : NULL, hosts);
    rg__txn_get_first(t->txn, behind != NULL ? hosts : NULL, behind);
    rg__txn_get(t->txn, RG__THEN, behind, t->a->prefix_end);
    free(hosts);
    free(behind);
}

void rg__job_get_all(rg__txn_draft *t)
{
    rg__txn_get(t->txn, RG__THEN, t->a->prefix, t->a->prefix_end);
}

/* -------------------------------------------------------------------- send */

static void ignore(void *arg, rg_status st, const rg__txn_reply *reply)
{
    (void)arg, (void)st, (void)reply;
}

rg__etcd_req *rg__job_send(rg__txn_draft *t, rg__txn_fn fn, void *arg,
                           rg__job_act again)
{
    rg__etcd_req *req =
        rg__etcd_txn(t->a->etcd, t->txn, fn != NULL ? fn : ignore, arg);
    t->txn = NULL;
    if (req == NULL && again != NULL)
        rg__job_owe(t->a, again);
    return req;
}

/* -------------------------------------------------------------- no memory */

bool rg__job_owes(const rg__agent *a, rg__job_act again)
{
    for (int i = 0; i < a->owed.count; i++)
        if (again == NULL || a->owed.act[i] == again)
            return true;
    return false;
}

void rg__job_owe(rg__agent *a, rg__job_act again)
{
    rg__owed *o = &a->owed;
    if (o->since_ns == 0) {
        o->since_ns = rg__now_ns();
        rg__log(RG__WARN, "agent",
                "no memory for a request to etcd; it is tried again for %d s",
                (int)(GIVE_UP_NS / (1000 * RG__MS)));
    }
    if (!rg__job_owes(a, again) && o->count < RG__OWED_MAX)
        o->act[o->count++] = again;
    rg__timer_set(o->timer, AGAIN_NS);
}

void rg__job_pay(void *agent_arg)
{
    rg__agent *a = agent_arg;
    const rg__owed due = a->owed;
    a->owed.count = 0;
    for (int i = 0; i < due.count; i++)
        due.act[i](a);
    if (a->owed.count == 0)
        a->owed.since_ns = 0;
    else if (rg__now_ns() - due.since_ns >= GIVE_UP_NS)
        rg__agent_leave(a, RG__EXIT_SYSTEM,
                        "no memory for a request to etcd for %d s; give host "
                        "%s more, or run fewer workers on it",
                        (int)(GIVE_UP_NS / (1000 * RG__MS)), a->params->host);
}
