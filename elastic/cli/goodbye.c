#include "elastic/cli/goodbye.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "elastic/cli/talk.h"
#include "elastic/member/records.h"
#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define GOODBYE_NS (10000 * RG__MS)
#define ANSWER_MS  2000
#define LOOK_NS    (20 * RG__MS)

typedef struct goodbye {
    rg__talk talk;
    const char *prefix, *host;
    char other[RG__NAME_MAX]; /* a host that is still there, or "" */
} goodbye;

static void on_hosts(void *arg, rg_status st, const rg__txn_reply *reply)
{
    goodbye *f = arg;
    rg__snapshot found = {0};
    f->other[0] = '\0';
    if (st == RG_OK)
        rg__snapshot_read(&found, f->prefix, reply->kv, reply->kv_count);
    for (int i = 0; i < found.hosts; i++)
        if (!found.host[i].is_gone && strcmp(found.host[i].name, f->host) != 0)
            snprintf(f->other, sizeof f->other, "%s", found.host[i].name);
    rg__snapshot_free(&found);
    rg__talk_end(&f->talk, st);
}

static rg_status look(goodbye *f)
{
    char *hosts = rg__record_keys(f->prefix, RG__KEY_HOST);
    char *end = hosts != NULL ? rg__prefix_end(hosts) : NULL;
    rg__txn *txn = end != NULL ? rg__txn_create() : NULL;
    rg_status st = RG_ERR_MEMORY;
    if (txn != NULL) {
        rg__txn_get(txn, RG__THEN, hosts, end);
        rg__etcd_txn(f->talk.etcd, txn, on_hosts, f);
        st = rg__talk_wait(&f->talk, ANSWER_MS);
    }
    free(hosts);
    free(end);
    return st;
}

/* An etcd that gives no answer can tell no host. */
static void await_others(goodbye *f)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    const uint64_t begin_ns = rg__now_ns();
    while (look(f) == RG_OK && f->other[0] != '\0') {
        if (rg__now_ns() - begin_ns > GOODBYE_NS) {
            rg__log(RG__WARN, "cli",
                    "the agent of host %s has not ended %d s after the job; "
                    "its etcd ends now, so end it there",
                    f->other, (int)(GOODBYE_NS / (1000 * RG__MS)));
            return;
        }
        nanosleep(&pause, NULL);
    }
}

void rg__goodbye(const rg__private_etcd *etcd, const char *job,
                 const char *host)
{
    char prefix[128];
    const rg__etcd_params params = rg__private_etcd_params(etcd);
    goodbye f = {.prefix = prefix, .host = host};
    if (etcd->pid == 0)
        return;
    snprintf(prefix, sizeof prefix, "/regroup/v1/%s/", job);
    if (rg__talk_open(&f.talk, &params, -1) == RG_OK)
        await_others(&f);
    rg__talk_close(&f.talk);
}
