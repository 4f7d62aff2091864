/* A person asks for a change of the whole job. The agent reads the records,
 * then writes the change into etcd on the condition that nothing has changed
 * since, and begins again if something has. */
#include "elastic/agent/control/change_ask.h"
#include "elastic/agent/control/control_parts.h"
#include "elastic/agent/control/control.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "sdk/base/chain.h"
#include "sdk/base/clock.h"

#define PATIENCE_NS (3000 * RG__MS) /* for etcd to answer */
#define ATTEMPTS    5               /* records change rarely */

static void forget(rg__change_ask *c)
{
    rg__chain_remove(&c->a->control->change_asks, c);
    rg__etcd_cancel(c->talking);
    rg__timer_destroy(c->patience);
    free(c);
}

void rg__change_answer(rg__change_ask *c, json_t *j)
{
    char *text = j != NULL ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    rg__answer(c->sock, text);
    free(text);
    forget(c);
}

void rg__change_refuse(rg__change_ask *c, rg_status st, const char *format, ...)
{
    char why[512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    rg__change_answer(c,
                      json_pack("{s:s,s:i}", "error", why, "status", (int)st));
}

/* Either it was sent, or the caller is told why not. */
static void talk(rg__change_ask *c, rg__txn_draft *t, rg__txn_fn fn)
{
    c->talking = rg__job_send(t, fn, c, NULL);
    if (c->talking == NULL)
        rg__change_refuse(
            c, RG_ERR_MEMORY,
            "the agent of host %s has no memory to ask etcd to %s %s %s; try "
            "again",
            c->a->params->host, c->kind->verb, c->kind->noun, c->name);
}

static void on_impatient(void *arg)
{
    rg__change_ask *c = arg;
    rg__change_refuse(
        c, RG_ERR_STORE,
        "etcd %s (%s), so %s %s can't be %s; try again when it does",
        rg__etcd_lack(c->a->etcd), rg__etcd_why(c->a->etcd), c->kind->noun,
        c->name, c->kind->done);
}

/* -------------------------------------------------------------- look, write */

static void look(rg__change_ask *c);

static void on_written(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__change_ask *c = arg;
    c->talking = NULL;
    if (st != RG_OK)
        rg__change_refuse(c, RG_ERR_STORE, "%s", rg_last_error());
    else if (!reply->succeeded && ++c->attempts < ATTEMPTS)
        look(c); /* something has changed meanwhile */
    else if (!reply->succeeded)
        rg__change_refuse(c, RG_ERR_INVALID,
                          "the %s of %s %s keeps changing; try again",
                          c->kind->record, c->kind->noun, c->name);
    else
        c->kind->accept(c);
}

void rg__change_write(rg__change_ask *c, rg__txn_draft *t)
{
    talk(c, t, on_written);
}

static void on_looked(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__change_ask *c = arg;
    rg__snapshot snap;
    c->talking = NULL;
    if (st != RG_OK) {
        rg__change_refuse(c, RG_ERR_STORE, "%s", rg_last_error());
        return;
    }
    rg__snapshot_read(&snap, c->a->prefix, reply->kv, reply->kv_count);
    c->kind->judge(c, &snap, reply);
    rg__snapshot_free(&snap);
}

static void look(rg__change_ask *c)
{
    rg__txn_draft t = rg__job_txn(c->a);
    rg__job_get_kind(&t, RG__KEY_HOST);
    c->kind->read(c, &t);
    talk(c, &t, on_looked);
}

/* ---------------------------------------------------------------------- ask */

rg__change_ask *rg__change_begin(rg__agent *a, const rg__change_kind *kind,
                                 const char *name, int sock)
{
    rg__change_ask *c = calloc(1, sizeof *c);
    if (c == NULL) {
        close(sock);
        return NULL;
    }
    *c = (rg__change_ask){.next = a->control->change_asks,
                          .a = a,
                          .kind = kind,
                          .sock = sock,
                          .patience =
                              rg__timer_create(a->loop, on_impatient, c)};
    snprintf(c->name, sizeof c->name, "%s", name);
    a->control->change_asks = c;
    return c;
}

void rg__change_look(rg__change_ask *c)
{
    rg__timer_set(c->patience, PATIENCE_NS);
    look(c);
}

void rg__change_asks_drop(rg__agent *a)
{
    while (a->control->change_asks != NULL) {
        close(a->control->change_asks->sock);
        forget(a->control->change_asks);
    }
}
