/* A person asks that a host leaves. Written is all/drain/<host>, guarded by the
 * incarnation of the host's record, so that a late sending strikes nobody who
 * has taken that name since; the host's own agent does the leaving.
 *
 *   look:   read the records of all hosts, and what is asked of this one
 *   write:  IF the record is of that incarnation AND nobody asked meanwhile */
#include "elastic/agent/control/control.h"
#include "elastic/agent/control/control_parts.h"
#include "elastic/agent/base/txn.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define PATIENCE_NS (3000 * RG__MS) /* for etcd to answer */
#define ATTEMPTS    5               /* the record changes rarely */

struct drain_ask {
    drain_ask *next;
    agent *a;
    int sock, attempts;
    rg__drain drain;
    rg__etcd_req *talking;
    rg__timer *patience;
};

/* ------------------------------------------------------------------ answers */

static void forget(drain_ask *d)
{
    drain_ask **at = &d->a->control->drain_asks;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    if (d->talking != NULL)
        rg__etcd_cancel(d->talking);
    rg__timer_destroy(d->patience);
    free(d);
}

/* st: whose fault it is, for the exit code of who asked. */
static void refuse(drain_ask *d, rg_status st, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void refuse(drain_ask *d, rg_status st, const char *format, ...)
{
    char why[512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    json_t *j = json_pack("{s:s,s:i}", "error", why, "status", (int)st);
    char *text = j != NULL ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    rg__question_answer(d->sock, text);
    free(text);
    forget(d);
}

static void on_impatient(void *arg)
{
    drain_ask *d = arg;
    refuse(d, RG_ERR_STORE,
           "etcd %s (%s), so host %s can't be asked to leave; try again when "
           "it does",
           rg__etcd_lack(d->a->etcd), rg__etcd_why(d->a->etcd), d->drain.host);
}

/* -------------------------------------------------------------- look, write */

static void look(drain_ask *d);

/* It was sent, or the caller hears why not. */
static void talk(drain_ask *d, job_txn *t, rg__txn_fn fn)
{
    d->talking = rg__job_send(t, fn, d, NULL);
    if (d->talking == NULL)
        refuse(d, RG_ERR_MEMORY,
               "the agent of host %s has no memory to ask etcd to drain host "
               "%s; try again",
               d->a->params->host, d->drain.host);
}

static void on_written(void *arg, rg_status st, const rg__txn_reply *reply)
{
    drain_ask *d = arg;
    d->talking = NULL;
    if (st != RG_OK) {
        refuse(d, RG_ERR_STORE, "%s", rg_last_error());
    } else if (!reply->succeeded && ++d->attempts < ATTEMPTS) {
        look(d); /* the record has changed meanwhile */
    } else if (!reply->succeeded) {
        refuse(d, RG_ERR_INVALID,
               "the record of host %s keeps changing; try again",
               d->drain.host);
    } else {
        rg__log(RG__INFO, "agent", "host %s is asked to leave within %llu ms",
                d->drain.host, (unsigned long long)d->drain.deadline_ms);
        rg__question_answer(d->sock, "{\"ok\":true}");
        forget(d);
    }
}

static void write_drain(drain_ask *d, int64_t host_revision, int64_t asked)
{
    const rg__key key = RG__KEY(DRAIN, 0, d->drain.host);
    job_txn t = rg__job_txn(d->a);
    rg__job_if_create(&t, RG__KEY(HOST, 0, d->drain.host), host_revision);
    rg__job_if_mod(&t, key, asked);
    rg__job_put(&t, key, rg__drain_text(&d->drain), 0);
    talk(d, &t, on_written);
}

static const rg__kv *find(const agent *a, const rg__txn_reply *reply,
                          rg__key what)
{
    char *key = rg__record_key(a->prefix, what);
    const rg__kv *found = NULL;
    for (size_t i = 0; key != NULL && i < reply->kv_count; i++)
        if (strcmp(reply->kv[i].key, key) == 0)
            found = &reply->kv[i];
    free(key);
    return found;
}

static void name_hosts(const rg__snapshot *snap, char *text, size_t room)
{
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < snap->hosts && n < room; i++)
        if (!snap->host[i].is_gone)
            n += (size_t)snprintf(text + n, room - n, "%s%s", n > 0 ? ", " : "",
                                  snap->host[i].name);
}

/* With a record and slots, and not on its way out. */
static int count_others(const rg__snapshot *snap, const char *host)
{
    int n = 0;
    for (int i = 0; i < snap->hosts; i++)
        n += !snap->host[i].is_gone && snap->host[i].slots > 0 &&
             strcmp(snap->host[i].name, host) != 0;
    return n;
}

static const rg__host_record *record_of(const rg__snapshot *snap,
                                        const char *host)
{
    for (int i = 0; i < snap->hosts; i++)
        if (strcmp(snap->host[i].name, host) == 0)
            return &snap->host[i];
    return NULL;
}

static void judge(drain_ask *d, const rg__snapshot *snap,
                  const rg__txn_reply *reply)
{
    const char *job = d->a->params->job;
    const rg__host_record *record = record_of(snap, d->drain.host);
    const rg__kv *host = find(d->a, reply, RG__KEY(HOST, 0, d->drain.host));
    const rg__kv *asked = find(d->a, reply, RG__KEY(DRAIN, 0, d->drain.host));
    char names[256];
    name_hosts(snap, names, sizeof names);
    if (host == NULL || record == NULL || record->is_gone)
        refuse(d, RG_ERR_INVALID, "job %s has no host %s; its hosts are %s",
               job, d->drain.host,
               names[0] != '\0' ? names : "still to come; ask again");
    else if (count_others(snap, d->drain.host) == 0)
        refuse(d, RG_ERR_INVALID,
               "host %s is the only one of job %s, which would be left without "
               "any; add a host first, or end it with `regroup stop %s`",
               d->drain.host, job, job);
    else if (record->has_etcd)
        refuse(d, RG_ERR_INVALID,
               "host %s runs the private etcd of job %s, which would go with "
               "it; drain others, or begin a job that is to outlive its first "
               "host with --etcd",
               d->drain.host, job);
    else if (record->elastic != 1)
        refuse(d, RG_ERR_INVALID,
               "the program on host %s is static, or has not called rg_init "
               "yet, and only an elastic one can go on without a host; end the "
               "job with `regroup stop %s`",
               d->drain.host, job);
    else
        write_drain(d, host->create_revision,
                    asked != NULL ? asked->mod_revision : 0);
}

static void on_looked(void *arg, rg_status st, const rg__txn_reply *reply)
{
    drain_ask *d = arg;
    rg__snapshot snap;
    d->talking = NULL;
    if (st != RG_OK) {
        refuse(d, RG_ERR_STORE, "%s", rg_last_error());
        return;
    }
    rg__snapshot_read(&snap, d->a->prefix, reply->kv, reply->kv_count);
    judge(d, &snap, reply);
    rg__snapshot_free(&snap);
}

static void look(drain_ask *d)
{
    job_txn t = rg__job_txn(d->a);
    rg__job_get_kind(&t, RG__KEY_HOST);
    rg__job_get(&t, RG__THEN, RG__KEY(DRAIN, 0, d->drain.host));
    talk(d, &t, on_looked);
}

/* ---------------------------------------------------------------------- ask */

void rg__drain_ask(agent *a, const char *host, uint64_t deadline_ms, int sock)
{
    drain_ask *d = calloc(1, sizeof *d);
    if (d == NULL) {
        close(sock);
        return;
    }
    *d = (drain_ask){.next = a->control->drain_asks,
                     .a = a,
                     .sock = sock,
                     .drain = {.deadline_ms = deadline_ms},
                     .patience = rg__timer_create(a->loop, on_impatient, d)};
    snprintf(d->drain.host, sizeof d->drain.host, "%s", host);
    a->control->drain_asks = d;
    if (d->patience == NULL || host[0] == '\0' || strchr(host, '/') != NULL) {
        refuse(d, RG_ERR_INVALID, "\"%s\" is no name of a host", host);
        return;
    }
    rg__timer_set(d->patience, PATIENCE_NS);
    look(d);
}

void rg__drain_asks_drop(agent *a)
{
    while (a->control->drain_asks != NULL) {
        close(a->control->drain_asks->sock);
        forget(a->control->drain_asks);
    }
}
