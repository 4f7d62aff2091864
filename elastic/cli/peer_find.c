#include "elastic/cli/peer_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/cli/launch.h"
#include "elastic/cli/rundir.h"
#include "elastic/cli/talk.h"
#include "elastic/member/records.h"
#include "sdk/base/fail.h"

#define ANSWER_MS 5000

typedef struct finder {
    rg__talk talk;
    char prefix[96];
    const char *host;
    rg__peer_place *place;
    bool is_found;
    char names[256]; /* of the hosts that there are */
} finder;

static void take(finder *f, const rg__snapshot *snap,
                 const rg__host_record *host)
{
    rg__peer_place *p = f->place;
    f->is_found = true;
    snprintf(p->host, sizeof p->host, "%s", host->name);
    p->address = host->address;
    p->port = host->port;
    p->id = host->id;
    memcpy(p->key, snap->meta.key, sizeof p->key);
    for (int i = 0; i < host->slot_count; i++)
        if (host->slot[i].is_alive && host->slot[i].port != 0)
            p->worker_port[p->workers++] = host->slot[i].port;
}

static void read_hosts(finder *f, const rg__snapshot *snap)
{
    size_t n = 0;
    for (int i = 0; i < snap->hosts; i++) {
        const rg__host_record *host = &snap->host[i];
        if (host->is_gone)
            continue;
        if (!f->is_found && (strcmp(host->name, f->host) == 0 ||
                             strcmp(host->address.text, f->host) == 0))
            take(f, snap, host);
        if (n < sizeof f->names)
            n += (size_t)snprintf(f->names + n, sizeof f->names - n, "%s%s",
                                  n > 0 ? ", " : "", host->name);
    }
}

static void on_read(void *arg, rg_status st, const rg__txn_reply *reply)
{
    finder *f = arg;
    if (st == RG_OK) {
        rg__snapshot snap;
        rg__snapshot_read(&snap, f->prefix, reply->kv, reply->kv_count);
        read_hosts(f, &snap);
        rg__snapshot_free(&snap);
    }
    rg__talk_end(&f->talk, st);
}

static rg_status read_records(finder *f, const rg__etcd_params *params)
{
    char hosts[128], meta[128];
    snprintf(hosts, sizeof hosts, "%slead/host/", f->prefix);
    snprintf(meta, sizeof meta, "%smeta", f->prefix);
    rg_status st = rg__talk_open(&f->talk, params, -1);
    char *end = rg__prefix_end(hosts);
    if (st == RG_OK) {
        rg__txn *txn = end != NULL ? rg__txn_create() : NULL;
        rg__txn_get(txn, RG__THEN, hosts, end);
        rg__txn_get(txn, RG__THEN, meta, NULL);
        st = rg__talk_ask(&f->talk, txn, on_read, f, ANSWER_MS);
    }
    free(end);
    rg__talk_close(&f->talk);
    return st;
}

static rg_status find(const rg__etcd_params *params, const char *job,
                      const char *host, rg__peer_place *place)
{
    finder f = {.host = host, .place = place};
    snprintf(f.prefix, sizeof f.prefix, "/regroup/v1/%s/", job);
    const rg_status st = read_records(&f, params);
    if (st != RG_OK || f.is_found)
        return st;
    if (f.names[0] == '\0')
        return rg__fail(RG_ERR_INVALID,
                        "job %s has no host in etcd; is it the name that its "
                        "agents were given? (--job)",
                        job);
    return rg__fail(RG_ERR_INVALID, "job %s has no host %s; its hosts are %s",
                    job, host, f.names);
}

static rg_status find_by_flags(const rg__cli *cli, const char *host,
                               rg__peer_place *place)
{
    rg__launch launch = {0};
    const rg_status st = rg__launch_reach(&launch, &cli->settings);
    if (st != RG_OK)
        return st;
    const rg__etcd_params params = rg__launch_etcd(&launch, &cli->settings);
    return find(&params, cli->settings.job, host, place);
}

static rg_status find_by_job(const rg__cli *cli, const char *host,
                             rg__peer_place *place)
{
    char base[PATH_MAX];
    rg__job_record job;
    rg_status st = rg__rundir_base(cli->settings.run_dir, base);
    if (st == RG_OK)
        st = rg__jobs_find(base, cli->settings.job, &job);
    if (st != RG_OK)
        return st;
    snprintf(place->endpoints, sizeof place->endpoints, "%s", job.endpoints);
    const rg__etcd_params params = {.endpoints = place->endpoints,
                                    .user = rg__or_null(job.user),
                                    .password = rg__or_null(job.password),
                                    .cacert = rg__or_null(job.cacert),
                                    .cert = rg__or_null(job.cert),
                                    .key = rg__or_null(job.key)};
    return find(&params, cli->settings.job, host, place);
}

rg_status rg__peer_find(const rg__cli *cli, const char *host,
                        rg__peer_place *place_p)
{
    rg__peer_place place = {.port = 0};
    const rg__settings *s = &cli->settings;
    snprintf(place.job, sizeof place.job, "%s", s->job);
    if (s->etcd != NULL)
        snprintf(place.endpoints, sizeof place.endpoints, "%s", s->etcd);
    const rg_status st = s->etcd != NULL ? find_by_flags(cli, host, &place)
                                         : find_by_job(cli, host, &place);
    if (st == RG_OK)
        *place_p = place;
    return st;
}
