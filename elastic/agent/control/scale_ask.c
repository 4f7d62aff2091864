/* A person asks for other bounds of the world. This writes all/size; every
 * agent takes it over, and the leader plans with it. It is guarded by the
 * record that was seen and by the job's own, so that a late request changes no
 * other job, and none that has ended.
 *
 *   look:   read meta, all/size, all/end and the records of all hosts
 *   write:  IF meta and all/size are as they were, and there is no all/end */
#include "elastic/agent/control/change_ask.h"
#include "elastic/agent/control/control.h"
#include "elastic/agent/vault/vaults.h"

static void read_job(const rg__change_ask *c, rg__txn_draft *t)
{
    (void)c;
    rg__job_get(t, RG__THEN, RG__KEY(END));
    rg__job_get(t, RG__THEN, RG__KEY(SIZE));
    rg__job_get(t, RG__THEN, RG__KEY(META));
    rg__job_get(t, RG__THEN, RG__KEY(CUR));
    rg__job_get(t, RG__THEN, RG__KEY(JOB_SPEC));
}

static void accept_size(rg__change_ask *c)
{
    const rg__proposal *world = rg__snapshot_decided(&c->a->view);
    rg__change_answer(c, json_pack("{s:b,s:i,s:i,s:i}", "ok", 1, "min",
                                   c->size.min, "max", c->size.max, "size",
                                   world != NULL ? world->size : 0));
}

static void write_size(rg__change_ask *c, const rg__snapshot *snap)
{
    rg__txn_draft t = rg__job_txn(c->a);
    rg__job_if_create(&t, RG__KEY(META), snap->meta.create_revision);
    rg__job_if_create(&t, RG__KEY(END), 0);
    rg__job_if_mod(&t, RG__KEY(SIZE), snap->size.mod_revision);
    rg__job_put(&t, RG__KEY(SIZE), rg__size_text(&c->size), 0);
    rg__change_write(c, &t);
}

static bool is_static(const rg__snapshot *snap)
{
    for (int i = 0; i < snap->hosts; i++)
        if (snap->host[i].elastic == 0)
            return true;
    return snap->is_static;
}

static void judge_size(rg__change_ask *c, const rg__snapshot *snap,
                       const rg__txn_reply *reply)
{
    const rg__agent *a = c->a;
    (void)reply;
    const bool was_scaled = snap->size.mod_revision != 0;
    const int min = was_scaled ? snap->size.min : snap->meta.min;
    const int max = was_scaled ? snap->size.max : snap->meta.max;
    c->size = (rg__size){.min = c->asked.min != 0 ? c->asked.min : min,
                         .max = c->asked.max != 0 ? c->asked.max : max};
    if (snap->meta.create_revision == 0 || snap->end.is_set ||
        snap->cur.phase == RG__GEN_DONE)
        rg__change_refuse(c, RG_ERR_INVALID, "job %s has ended",
                          a->params->job);
    else if (is_static(snap))
        rg__change_refuse(c, RG_ERR_INVALID,
                          "job %s runs a static program, whose world keeps its "
                          "size; only an elastic one can be scaled",
                          a->params->job);
    else if (c->size.min > c->size.max)
        rg__change_refuse(c, RG_ERR_INVALID,
                          "--min %d would be above --max %d; give both",
                          c->size.min, c->size.max);
    else if (c->size.max > RG__WORLD_MAX)
        rg__change_refuse(
            c, RG_ERR_INVALID,
            "--max %d is above the %d workers that a world can have",
            c->size.max, RG__WORLD_MAX);
    else if (c->size.max > RG__FOREIGN_SHARDS_MAX && rg__vault_has_shards(a))
        rg__change_refuse(c, RG_ERR_INVALID,
                          "--max %d is above the %d workers that a job with "
                          "sharded buffers can have",
                          c->size.max, RG__FOREIGN_SHARDS_MAX);
    else if (a->params->is_one_host && c->size.max > a->params->slots)
        rg__change_refuse(c, RG_ERR_INVALID,
                          "--max %d is above the %d slots of the only host "
                          "that job %s can have",
                          c->size.max, a->params->slots, a->params->job);
    else if (c->size.min == min && c->size.max == max)
        accept_size(c);
    else
        write_size(c, snap);
}

static const rg__change_kind scale_kind = {.verb = "scale",
                                           .noun = "job",
                                           .done = "scaled",
                                           .record = "size",
                                           .read = read_job,
                                           .judge = judge_size,
                                           .accept = accept_size};

void rg__scale_ask(rg__agent *a, int min, int max, int sock)
{
    rg__change_ask *c = rg__change_begin(a, &scale_kind, a->params->job, sock);
    if (c == NULL)
        return;
    c->asked = (rg__size){.min = min, .max = max};
    if (c->patience == NULL || min < 0 || max < 0)
        rg__change_refuse(c, RG_ERR_INVALID, "a world has 1 to %d workers",
                          RG__WORLD_MAX);
    else
        rg__change_look(c);
}
