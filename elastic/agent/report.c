/* The status document. What etcd knows comes from the view of the job's keys;
 * steps and times come from the pages of this host's workers. */
#include "elastic/agent/inside.h"

#include <jansson.h>
#include <stdlib.h>

static const char *phase_of(const agent *a)
{
    if (a->is_ending)
        return "ending";
    const rg__proposal *decided = rg__snapshot_decided(&a->view);
    switch (a->view.cur.phase) {
    case RG__GEN_NONE:
        return "forming";
    case RG__GEN_PROPOSED:
        return "proposed";
    case RG__GEN_DECIDED:
        return decided != NULL && a->aborted >= decided->generation ? "broken"
                                                                    : "running";
    case RG__GEN_DONE:
        break;
    }
    return "done";
}

static int rank_of(const agent *a, rg__member_id id)
{
    const rg__proposal *p = rg__snapshot_decided(&a->view);
    for (int r = 0; p != NULL && r < p->size; r++)
        if (rg__same_member(p->member[r], id))
            return r;
    return -1;
}

static json_t *number_or_null(bool is_there, uint64_t n)
{
    return is_there ? json_integer((json_int_t)n) : json_null();
}

static const char *state_of(const rg__slot_record *r, int rank)
{
    if (!r->is_alive)
        return "absent";
    if (rank >= 0)
        return "member";
    return r->is_at_door ? "door" : "starting";
}

static json_t *worker_json(agent *a, const rg__host_record *host,
                           const rg__slot_record *r)
{
    const rg__member_id id = {host->id, r->slot, r->start};
    const int rank = rank_of(a, id);
    const slot *s = rg__slot_of(a, id);
    const bool has_page = s != NULL && s->w.page != NULL && r->is_alive;
    return json_pack(
        "{s:o,s:i,s:i,s:i,s:s,s:o}", "rank",
        number_or_null(rank >= 0, (uint64_t)rank), "slot", (int)r->slot, "pid",
        r->is_alive ? r->pid : 0, "start", (int)r->start, "state",
        state_of(r, rank), "step",
        number_or_null(has_page, has_page ? atomic_load(&s->w.page->step) : 0));
}

static json_t *hosts_json(agent *a)
{
    json_t *hosts = json_array();
    for (int i = 0; i < a->known.hosts; i++) {
        const rg__host_record *host = &a->known.host[i];
        json_t *workers = json_array();
        for (int k = 0; k < host->slot_count; k++)
            json_array_append_new(workers,
                                  worker_json(a, host, &host->slot[k]));
        json_array_append_new(hosts,
                              json_pack("{s:s,s:i,s:s,s:o}", "id", host->name,
                                        "slots", host->slots, "state", "ready",
                                        "workers", workers));
    }
    return hosts;
}

static void add_time(json_t *j, const char *name, uint64_t ns)
{
    json_object_set_new(j, name, number_or_null(ns != 0, ns));
}

static json_t *change_json(agent *a, const rg__line *line)
{
    rg__change_note_steps(a, line->generation);
    const change *c = rg__change_of(a, line->generation);
    json_t *j = json_pack(
        "{s:I,s:f,s:s,s:i,s:i,s:I}", "generation", (json_int_t)line->generation,
        "at", (double)line->at_ms / 1000.0, "cause", line->cause, "from_size",
        line->from_size, "to_size", line->to_size, "steps_lost",
        (json_int_t)line->steps_lost);
    if (j == NULL || c == NULL)
        return j;
    json_object_set_new(
        j, "fault_to_step_ms",
        c->stepped > c->detected && c->detected != 0
            ? json_real((double)(c->stepped - c->detected) / 1e6)
            : json_null());
    add_time(j, "detected_ns", c->detected);
    add_time(j, "proposed_ns", c->proposed);
    add_time(j, "built_ns", c->built);
    add_time(j, "decided_ns", c->decided);
    add_time(j, "synced_ns", c->synced);
    add_time(j, "stepped_ns", c->stepped);
    return j;
}

static json_t *changes_json(agent *a)
{
    json_t *changes = json_array();
    for (int i = 0; i < a->view.lines; i++)
        json_array_append_new(changes, change_json(a, &a->view.line[i]));
    return changes;
}

static json_t *leader_json(const agent *a)
{
    const rg__host_record *host = rg__snapshot_host(&a->known, a->view.leader);
    return host == NULL ? json_null() : json_string(host->name);
}

char *rg__report(agent *a)
{
    const rg__proposal *decided = rg__snapshot_decided(&a->view);
    const bool is_up = rg__etcd_is_up(a->etcd);
    json_t *j = json_pack(
        "{s:s,s:I,s:s,s:o,s:i,s:i,s:i,s:o,s:o,s:{s:s,s:s},s:I}", "job",
        a->params->job, "generation",
        (json_int_t)(decided != NULL ? decided->generation : 0), "phase",
        phase_of(a), "leader", leader_json(a), "min", a->params->min, "max",
        a->params->max, "size", decided != NULL ? decided->size : 0, "hosts",
        hosts_json(a), "changes", changes_json(a), "etcd", "state",
        is_up ? "up" : "away", "why", is_up ? "" : rg__etcd_why(a->etcd),
        "vault_bytes", (json_int_t)rg__vault_bytes(a));
    char *text = j == NULL
                     ? NULL
                     : json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(13));
    json_decref(j);
    return text;
}
