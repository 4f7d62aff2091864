/* A person asks a host to leave. This writes all/drain/<host>, guarded by the
 * incarnation of the host's record, so that a late request does not hit another
 * host that has taken the name since; the host's own agent does the rest.
 *
 *   look:   read the records of all hosts, and what is asked of this one
 *   write:  IF the record is of that incarnation AND was not asked yet */
#include "elastic/agent/control/change_ask.h"
#include "elastic/agent/control/control.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/log.h"

static void read_drain(const rg__change_ask *c, rg__txn_draft *t)
{
    rg__job_get(t, RG__THEN, RG__KEY(DRAIN, 0, c->name));
}

static void write_drain(rg__change_ask *c, int64_t host_revision, int64_t asked)
{
    const rg__key key = RG__KEY(DRAIN, 0, c->name);
    rg__txn_draft t = rg__job_txn(c->a);
    rg__job_if_create(&t, RG__KEY(HOST, 0, c->name), host_revision);
    rg__job_if_mod(&t, key, asked);
    rg__job_put(&t, key, rg__drain_text(&c->drain), 0);
    rg__change_write(c, &t);
}

static void accept_drain(rg__change_ask *c)
{
    rg__log(RG__INFO, "agent", "host %s is asked to leave within %llu ms",
            c->name, (unsigned long long)c->drain.deadline_ms);
    rg__change_answer(c, json_pack("{s:b}", "ok", 1));
}

static const rg__kv *find(const rg__agent *a, const rg__txn_reply *reply,
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

static void judge_drain(rg__change_ask *c, const rg__snapshot *snap,
                        const rg__txn_reply *reply)
{
    const char *job = c->a->params->job;
    const rg__host_record *record = record_of(snap, c->name);
    const rg__kv *host = find(c->a, reply, RG__KEY(HOST, 0, c->name));
    const rg__kv *asked = find(c->a, reply, RG__KEY(DRAIN, 0, c->name));
    char names[256];
    name_hosts(snap, names, sizeof names);
    if (host == NULL || record == NULL || record->is_gone)
        rg__change_refuse(
            c, RG_ERR_INVALID, "job %s has no host %s; its hosts are %s", job,
            c->name, names[0] != '\0' ? names : "still to come; ask again");
    else if (count_others(snap, c->name) == 0)
        rg__change_refuse(
            c, RG_ERR_INVALID,
            "host %s is the only one of job %s, which would be left without "
            "any; add a host first, or end it with `regroup stop %s`",
            c->name, job, job);
    else if (record->has_etcd)
        rg__change_refuse(c, RG_ERR_INVALID,
                          "host %s runs the private etcd of job %s, which "
                          "would go with it; drain others, or begin a job that "
                          "is to outlive its first host with --etcd",
                          c->name, job);
    else if (record->elastic != 1)
        rg__change_refuse(c, RG_ERR_INVALID,
                          "the program on host %s is static, or has not called "
                          "rg_init yet, and only an elastic one can go on "
                          "without a host; end the job with `regroup stop %s`",
                          c->name, job);
    else
        write_drain(c, host->create_revision,
                    asked != NULL ? asked->mod_revision : 0);
}

static const rg__change_kind drain_kind = {.verb = "drain",
                                           .noun = "host",
                                           .done = "asked to leave",
                                           .record = "record",
                                           .read = read_drain,
                                           .judge = judge_drain,
                                           .accept = accept_drain};

void rg__drain_ask(rg__agent *a, const char *host, uint64_t deadline_ms,
                   int sock)
{
    rg__change_ask *c = rg__change_begin(a, &drain_kind, host, sock);
    if (c == NULL)
        return;
    c->drain.deadline_ms = deadline_ms;
    snprintf(c->drain.host, sizeof c->drain.host, "%s", host);
    if (c->patience == NULL || host[0] == '\0' || strchr(host, '/') != NULL)
        rg__change_refuse(c, RG_ERR_INVALID, "\"%s\" is not the name of a host",
                          host);
    else
        rg__change_look(c);
}
