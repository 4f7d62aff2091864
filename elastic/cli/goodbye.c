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
    const char *prefix;
    rg__snapshot found; /* owned */
} goodbye;

static void on_keys(void *arg, rg_status st, const rg__txn_reply *reply)
{
    goodbye *f = arg;
    rg__snapshot_free(&f->found);
    f->found = (rg__snapshot){0};
    if (st == RG_OK)
        st =
            rg__snapshot_read(&f->found, f->prefix, reply->kv, reply->kv_count);
    rg__talk_end(&f->talk, st);
}

/* Read all keys of the job, or those of its hosts. */
static rg_status look(goodbye *f, const char *keys)
{
    char *end = rg__prefix_end(keys);
    rg__txn *txn = end != NULL ? rg__txn_create() : NULL;
    rg__txn_get(txn, RG__THEN, keys, end);
    free(end);
    return rg__talk_ask(&f->talk, txn, on_keys, f, ANSWER_MS);
}

/* Another host that is still there; NULL: there is none. */
static const char *find_other(const rg__snapshot *found, const char *host)
{
    for (int i = 0; i < found->hosts; i++)
        if (!found->host[i].is_gone && strcmp(found->host[i].name, host) != 0)
            return found->host[i].name;
    return NULL;
}

/* An etcd that does not answer can't tell any host. */
static void await_others(goodbye *f, const char *host)
{
    const char *other;
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    const uint64_t begin_ns = rg__now_ns();
    char *hosts = rg__record_keys(f->prefix, RG__KEY_HOST);
    while (hosts != NULL && look(f, hosts) == RG_OK &&
           (other = find_other(&f->found, host)) != NULL) {
        if (rg__now_ns() - begin_ns > GOODBYE_NS) {
            rg__log(RG__WARN, "cli",
                    "the agent of host %s has not ended %d s after the job; "
                    "its etcd ends now, so end it there",
                    other, (int)(GOODBYE_NS / (1000 * RG__MS)));
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

rg_status rg__places_read(const rg__etcd_params *params, const char *job,
                          rg__snapshot *found)
{
    char prefix[PREFIX_BYTES];
    goodbye f = {.prefix = prefix};
    name_prefix(prefix, job);
    rg_status st = rg__talk_open(&f.talk, params, -1);
    if (st == RG_OK)
        st = look(&f, prefix);
    rg__talk_close(&f.talk);
    *found = f.found;
    return st;
}

static bool has_record(const rg__snapshot *found, const char *host)
{
    for (int i = 0; i < found->hosts; i++)
        if (strcmp(found->host[i].name, host) == 0)
            return true;
    return false;
}

static bool is_in_world(const rg__snapshot *found, const char *host)
{
    const rg__proposal *world = rg__snapshot_gen(found, found->cur.generation);
    for (int i = 0; world != NULL && i < world->host_count; i++)
        if (strcmp(world->host[i].name, host) == 0)
            return true;
    return false;
}

rg__host_place rg__place_of(const rg__snapshot *found, const char *host)
{
    if (has_record(found, host))
        return RG__PLACE_HERE;
    return is_in_world(found, host) ? RG__PLACE_LOST : RG__PLACE_LEFT_OUT;
}

void rg__goodbye(const rg__private_etcd *etcd, const char *job,
                 const char *host)
{
    char prefix[PREFIX_BYTES];
    const rg__etcd_params params = rg__private_etcd_params(etcd);
    goodbye f = {.prefix = prefix};
    if (etcd->pid == 0)
        return;
    name_prefix(prefix, job);
    if (rg__talk_open(&f.talk, &params, -1) == RG_OK)
        await_others(&f, host);
    rg__talk_close(&f.talk);
    rg__snapshot_free(&f.found);
}
