#include "elastic/cli/goodbye.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "elastic/cli/talk.h"
#include "elastic/member/records.h"
#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define GOODBYE_NS   (10000 * RG__MS)
#define ANSWER_MS    2000
#define LOOK_NS      (20 * RG__MS)
#define PREFIX_BYTES 128

typedef struct goodbye {
    rg__talk talk;
    const char *prefix, *host;
    char other[RG__NAME_MAX]; /* a host that is still there, or "" */
    bool is_here, was_member; /* the host itself */
} goodbye;

static bool is_in_world(const rg__snapshot *found, const char *host)
{
    const rg__proposal *world = rg__snapshot_gen(found, found->cur.generation);
    for (int i = 0; world != NULL && i < world->host_count; i++)
        if (strcmp(world->host[i].name, host) == 0)
            return true;
    return false;
}

static void on_keys(void *arg, rg_status st, const rg__txn_reply *reply)
{
    goodbye *f = arg;
    rg__snapshot found = {0};
    f->other[0] = '\0';
    f->is_here = false;
    if (st == RG_OK)
        st = rg__snapshot_read(&found, f->prefix, reply->kv, reply->kv_count);
    for (int i = 0; i < found.hosts; i++)
        if (found.host[i].is_gone)
            continue;
        else if (strcmp(found.host[i].name, f->host) == 0)
            f->is_here = true;
        else
            snprintf(f->other, sizeof f->other, "%s", found.host[i].name);
    f->was_member = is_in_world(&found, f->host);
    rg__snapshot_free(&found);
    rg__talk_end(&f->talk, st);
}

/* Of all keys of the job, or of those of its hosts. */
static rg_status look(goodbye *f, const char *keys)
{
    char *end = rg__prefix_end(keys);
    rg__txn *txn = end != NULL ? rg__txn_create() : NULL;
    rg_status st = RG_ERR_MEMORY;
    if (txn != NULL) {
        rg__txn_get(txn, RG__THEN, keys, end);
        rg__etcd_txn(f->talk.etcd, txn, on_keys, f);
        st = rg__talk_wait(&f->talk, ANSWER_MS);
    }
    free(end);
    return st;
}

/* An etcd that gives no answer can tell no host. */
static void await_others(goodbye *f)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    const uint64_t begin_ns = rg__now_ns();
    char *hosts = rg__record_keys(f->prefix, RG__KEY_HOST);
    while (hosts != NULL && look(f, hosts) == RG_OK && f->other[0] != '\0') {
        if (rg__now_ns() - begin_ns > GOODBYE_NS) {
            rg__log(RG__WARN, "cli",
                    "the agent of host %s has not ended %d s after the job; "
                    "its etcd ends now, so end it there",
                    f->other, (int)(GOODBYE_NS / (1000 * RG__MS)));
            break;
        }
        nanosleep(&pause, NULL);
    }
    free(hosts);
}

static void name_prefix(char prefix[PREFIX_BYTES], const char *job)
{
    snprintf(prefix, PREFIX_BYTES, "/regroup/v1/%s/", job);
}

rg__host_place rg__place_of(const rg__etcd_params *params, const char *job,
                            const char *host)
{
    char prefix[PREFIX_BYTES];
    goodbye f = {.prefix = prefix, .host = host};
    name_prefix(prefix, job);
    rg_status st = rg__talk_open(&f.talk, params, -1);
    if (st == RG_OK)
        st = look(&f, prefix);
    rg__talk_close(&f.talk);
    return st != RG_OK    ? RG__PLACE_UNKNOWN
           : f.is_here    ? RG__PLACE_HERE
           : f.was_member ? RG__PLACE_LOST
                          : RG__PLACE_LEFT_OUT;
}

void rg__goodbye(const rg__private_etcd *etcd, const char *job,
                 const char *host)
{
    char prefix[PREFIX_BYTES];
    const rg__etcd_params params = rg__private_etcd_params(etcd);
    goodbye f = {.prefix = prefix, .host = host};
    if (etcd->pid == 0)
        return;
    name_prefix(prefix, job);
    if (rg__talk_open(&f.talk, &params, -1) == RG_OK)
        await_others(&f);
    rg__talk_close(&f.talk);
}
