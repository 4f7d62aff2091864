/* A person asks that the world have other bounds. Written is all/size; every
 * agent takes it over, and the leader plans with it. It is guarded by the
 * record that was seen and by the job's own, so that a late sending changes no
 * other job, and none that has ended.
 *
 *   look:   read meta, all/size, all/end and the records of all hosts
 *   write:  IF meta and all/size are as they were, and there is no all/end */
#include "elastic/agent/control/control.h"
#include "elastic/agent/control/control_parts.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/vault/vaults.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define PATIENCE_NS (3000 * RG__MS) /* for etcd to answer */
#define ATTEMPTS    5

struct scale_ask {
    scale_ask *next;
    agent *a;
    int sock, attempts;
    int min, max;  /* as asked */
    rg__size size; /* as written */
    rg__etcd_req *talking;
    rg__timer *patience;
};

/* ------------------------------------------------------------------ answers */

static void forget(scale_ask *s)
{
    scale_ask **at = &s->a->control->scale_asks;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    if (s->talking != NULL)
        rg__etcd_cancel(s->talking);
    rg__timer_destroy(s->patience);
    free(s);
}

static void answer(scale_ask *s, json_t *j)
{
    char *text = j != NULL ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    rg__question_answer(s->sock, text);
    free(text);
    forget(s);
}

/* st: whose fault it is, for the exit code of who asked. */
static void refuse(scale_ask *s, rg_status st, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void refuse(scale_ask *s, rg_status st, const char *format, ...)
{
    char why[512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    answer(s, json_pack("{s:s,s:i}", "error", why, "status", (int)st));
}

static void accept_it(scale_ask *s)
{
    const rg__proposal *world = rg__snapshot_decided(&s->a->view);
    answer(s, json_pack("{s:b,s:i,s:i,s:i}", "ok", 1, "min", s->size.min, "max",
                        s->size.max, "size", world != NULL ? world->size : 0));
}

/* It was sent, or the caller hears why not. */
static void talk(scale_ask *s, job_txn *t, rg__txn_fn fn)
{
    s->talking = rg__job_send(t, fn, s, NULL);
    if (s->talking == NULL)
        refuse(s, RG_ERR_MEMORY,
               "the agent of host %s has no memory to ask etcd to scale job "
               "%s; try again",
               s->a->params->host, s->a->params->job);
}

static void on_impatient(void *arg)
{
    scale_ask *s = arg;
    refuse(s, RG_ERR_STORE,
           "etcd %s (%s), so job %s can't be scaled; try again when it does",
           rg__etcd_lack(s->a->etcd), rg__etcd_why(s->a->etcd),
           s->a->params->job);
}

/* -------------------------------------------------------------- look, write */

static void look(scale_ask *s);

static void on_written(void *arg, rg_status st, const rg__txn_reply *reply)
{
    scale_ask *s = arg;
    s->talking = NULL;
    if (st != RG_OK)
        refuse(s, RG_ERR_STORE, "%s", rg_last_error());
    else if (!reply->succeeded && ++s->attempts < ATTEMPTS)
        look(s); /* somebody else was faster */
    else if (!reply->succeeded)
        refuse(s, RG_ERR_INVALID,
               "the size of job %s keeps changing; try again",
               s->a->params->job);
    else
        accept_it(s);
}

static void write_size(scale_ask *s, const rg__snapshot *snap)
{
    job_txn t = rg__job_txn(s->a);
    rg__job_if_create(&t, RG__KEY(META), snap->meta.create_revision);
    rg__job_if_create(&t, RG__KEY(END), 0);
    rg__job_if_mod(&t, RG__KEY(SIZE), snap->size.mod_revision);
    rg__job_put(&t, RG__KEY(SIZE), rg__size_text(&s->size), 0);
    talk(s, &t, on_written);
}

static bool has_shards(const agent *a)
{
    for (int i = 0; i < a->store->buffers; i++)
        if (a->store->buffer[i].is_sharded)
            return true;
    return false;
}

static bool is_static(const rg__snapshot *snap)
{
    for (int i = 0; i < snap->hosts; i++)
        if (snap->host[i].elastic == 0)
            return true;
    return snap->is_static;
}

static void judge(scale_ask *s, const rg__snapshot *snap)
{
    const agent *a = s->a;
    const bool was_scaled = snap->size.mod_revision != 0;
    const int min = was_scaled ? snap->size.min : snap->meta.min;
    const int max = was_scaled ? snap->size.max : snap->meta.max;
    s->size = (rg__size){.min = s->min != 0 ? s->min : min,
                         .max = s->max != 0 ? s->max : max};
    if (snap->meta.create_revision == 0 || snap->end.is_set ||
        snap->cur.phase == RG__GEN_DONE)
        refuse(s, RG_ERR_INVALID, "job %s has ended", a->params->job);
    else if (is_static(snap))
        refuse(s, RG_ERR_INVALID,
               "job %s runs a static program, whose world keeps its size; only "
               "an elastic one can be scaled",
               a->params->job);
    else if (s->size.min > s->size.max)
        refuse(s, RG_ERR_INVALID, "--min %d would be above --max %d; give both",
               s->size.min, s->size.max);
    else if (s->size.max > RG__WORLD_MAX)
        refuse(s, RG_ERR_INVALID,
               "--max %d is above the %d workers that a world can have",
               s->size.max, RG__WORLD_MAX);
    else if (s->size.max > RG__FOREIGN_SHARDS_MAX && has_shards(a))
        refuse(s, RG_ERR_INVALID,
               "--max %d is above the %d workers that a job with sharded "
               "buffers can have",
               s->size.max, RG__FOREIGN_SHARDS_MAX);
    else if (a->params->is_one_host && s->size.min > a->params->slots)
        refuse(s, RG_ERR_INVALID,
               "--min %d is above the %d slots of the only host that job %s "
               "can have",
               s->size.min, a->params->slots, a->params->job);
    else if (s->size.min == min && s->size.max == max)
        accept_it(s);
    else
        write_size(s, snap);
}

static void on_looked(void *arg, rg_status st, const rg__txn_reply *reply)
{
    scale_ask *s = arg;
    rg__snapshot snap;
    s->talking = NULL;
    if (st != RG_OK) {
        refuse(s, RG_ERR_STORE, "%s", rg_last_error());
        return;
    }
    rg__snapshot_read(&snap, s->a->prefix, reply->kv, reply->kv_count);
    judge(s, &snap);
    rg__snapshot_free(&snap);
}

static void look(scale_ask *s)
{
    job_txn t = rg__job_txn(s->a);
    rg__job_get_kind(&t, RG__KEY_HOST);
    rg__job_get(&t, RG__THEN, RG__KEY(END));
    rg__job_get(&t, RG__THEN, RG__KEY(SIZE));
    rg__job_get(&t, RG__THEN, RG__KEY(META));
    rg__job_get(&t, RG__THEN, RG__KEY(CUR));
    rg__job_get(&t, RG__THEN, RG__KEY(SHAPE));
    talk(s, &t, on_looked);
}

/* ---------------------------------------------------------------------- ask */

void rg__scale_ask(agent *a, int min, int max, int sock)
{
    scale_ask *s = calloc(1, sizeof *s);
    if (s == NULL) {
        close(sock);
        return;
    }
    *s = (scale_ask){.next = a->control->scale_asks,
                     .a = a,
                     .sock = sock,
                     .min = min,
                     .max = max,
                     .patience = rg__timer_create(a->loop, on_impatient, s)};
    a->control->scale_asks = s;
    if (s->patience == NULL || min < 0 || max < 0) {
        refuse(s, RG_ERR_INVALID, "a world has 1 to %d workers", RG__WORLD_MAX);
        return;
    }
    rg__timer_set(s->patience, PATIENCE_NS);
    look(s);
}

void rg__scale_asks_drop(agent *a)
{
    while (a->control->scale_asks != NULL) {
        close(a->control->scale_asks->sock);
        forget(a->control->scale_asks);
    }
}
