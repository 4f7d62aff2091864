/* The status document. The members of the job and its state come from a
 * snapshot of its keys; processes, steps, times and memory of this host are
 * what its agent knows now.
 *
 * Without a whole snapshot (etcd is away) the other hosts are those of the
 * world, as the newest decision names them: their state is `unknown`. */
#include "elastic/agent/control/control.h"
#include "elastic/agent/control/control_parts.h"
#include "elastic/agent/control/step_times.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/vault/vaults.h"
#include "elastic/agent/workers/workers.h"

#include <jansson.h>
#include <string.h>

#include "sdk/base/clock.h"

typedef struct report {
    rg__agent *a;
    const rg__snapshot *snap;
    const rg__proposal *decided; /* NULL before the first */
    bool is_whole;
    const json_t *times; /* by host */
} report;

static json_t *number_or_null(bool is_there, uint64_t n)
{
    return is_there ? json_integer((json_int_t)n) : json_null();
}

static const char *phase_of(const report *s)
{
    if (rg__life_is_ending(s->a))
        return "ending";
    if (s->a->is_paused)
        return "paused";
    switch (s->snap->cur.phase) {
    case RG__GEN_NONE:
        return "forming";
    case RG__GEN_PROPOSED:
        return "proposed";
    case RG__GEN_DECIDED:
        return s->decided != NULL && s->a->aborted >= s->decided->generation
                   ? "broken"
                   : "running";
    case RG__GEN_DONE:
        break;
    }
    return "done";
}

/* ------------------------------------------------------------------ workers */

static const char *state_of(const rg__slot_record *r, int rank)
{
    if (!r->is_alive)
        return "absent";
    if (rank >= 0)
        return "member";
    return r->is_at_door ? "door" : "starting";
}

/* Never 0, which `kill` would take for the caller's own process group. */
static json_t *pid_of(const rg__slot_record *r)
{
    const bool is_known = r->is_alive && r->pid > 0;
    return number_or_null(is_known, is_known ? (uint64_t)r->pid : 0);
}

static json_t *worker_json(const report *s, const rg__host_record *host,
                           const rg__slot_record *r)
{
    const rg__member_id id = {host->id, r->slot, r->start};
    const int rank = rg__proposal_rank(s->decided, id);
    json_t *j = json_pack("{s:o,s:i,s:o,s:i,s:s}", "rank",
                          number_or_null(rank >= 0, (uint64_t)rank), "slot",
                          (int)r->slot, "pid", pid_of(r), "start",
                          (int)r->start, "state", state_of(r, rank));
    if (j != NULL)
        rg__step_times_add(s->times, host->name, r, j);
    return j;
}

/* -------------------------------------------------------------------- hosts */

static bool is_leader(const report *s, uint64_t host)
{
    return s->snap->leader != 0 && s->snap->leader == host;
}

/* Also before its agent has read that it is to leave. */
static bool is_draining(const report *s, const rg__host_record *host)
{
    for (int i = 0; i < s->snap->drains; i++)
        if (strcmp(s->snap->drain[i].host, host->name) == 0)
            return true;
    return host->is_draining;
}

static json_t *delay_json(const rg__delays *d)
{
    return json_real(d != NULL ? (double)rg__delays_worst(d, rg__now_ns()) / 1e6
                               : 0);
}

/* What its heartbeats say, where this agent is one that expects them. */
static void add_heard(const report *s, uint64_t host, json_t *j)
{
    const rg__peer *one = rg__beat_find(s->a, host);
    const bool is_heard = one != NULL && one->is_expected;
    json_object_set_new(
        j, "heard_s",
        is_heard ? json_real((double)(rg__now_ns() - one->heard_ns) / 1e9)
                 : json_null());
    json_object_set_new(
        j, "etcd",
        is_heard ? json_string(one->etcd_lost_ns == 0 ? "up" : "away")
                 : json_null());
    json_object_set_new(j, "delay_ms",
                        is_heard ? delay_json(one->delays) : json_null());
    json_object_set_new(j, "asks_ms",
                        number_or_null(is_heard && one->asks_ns != 0,
                                       is_heard ? one->asks_ns / RG__MS : 0));
}

static void add_me_heard(const report *s, json_t *j)
{
    const rg__peer *self = rg__beat_self(s->a);
    json_object_set_new(j, "delay_ms",
                        self != NULL ? delay_json(self->delays) : json_null());
    json_object_set_new(j, "asks_ms",
                        number_or_null(true, rg__beat_asks_ns(s->a) / RG__MS));
    json_object_set_new(j, "heard_s", json_null());
    json_object_set_new(
        j, "etcd", json_string(rg__etcd_is_up(s->a->etcd) ? "up" : "away"));
}

static json_t *host_json(const report *s, const rg__host_record *host,
                         const char *state)
{
    const bool is_known = strcmp(state, "ready") == 0;
    json_t *workers = json_array();
    for (int i = 0; i < host->slot_count; i++)
        json_array_append_new(workers, worker_json(s, host, &host->slot[i]));
    json_t *j = json_pack(
        "{s:s,s:i,s:s,s:s,s:b,s:b,s:o,s:o}", "id", host->name, "slots",
        host->slots, "state",
        is_known && is_draining(s, host) ? "draining" : state, "address",
        host->address.text, "leader", is_leader(s, host->id), "draining",
        is_draining(s, host), "vault_bytes",
        number_or_null(is_known, host->vault_bytes), "workers", workers);
    if (j != NULL && host->id == s->a->id)
        add_me_heard(s, j);
    else if (j != NULL)
        add_heard(s, host->id, j);
    return j;
}

/* As this agent is now; what it has written of itself may be older. */
static void add_me(const report *s, json_t *hosts)
{
    rg__slot_record slots[RG__HOST_SLOTS_MAX];
    rg__host_record me = {.slot = slots};
    rg__publish_fill(s->a, &me);
    json_array_append_new(hosts, host_json(s, &me, "ready"));
}

static bool has_record(const report *s, uint64_t host)
{
    return rg__snapshot_host(s->snap, host) != NULL;
}

/* A host of the world of which there is no record. */
static void add_member_host(const report *s, const rg__proposal_host *host,
                            json_t *hosts)
{
    rg__slot_record slots[RG__HOST_SLOTS_MAX];
    rg__host_record seen = {
        .id = host->id, .address = host->address, .slot = slots};
    snprintf(seen.name, sizeof seen.name, "%s", host->name);
    for (int r = 0; r < s->decided->size; r++) {
        const rg__member_id id = s->decided->member[r];
        if (id.host != host->id || seen.slot_count == RG__HOST_SLOTS_MAX)
            continue;
        slots[seen.slot_count++] = (rg__slot_record){
            .slot = id.slot, .start = id.start, .is_alive = !s->is_whole};
    }
    seen.slots = seen.slot_count;
    json_array_append_new(
        hosts, host_json(s, &seen, s->is_whole ? "absent" : "unknown"));
}

static json_t *hosts_json(const report *s)
{
    json_t *hosts = json_array();
    for (int i = 0; i < s->snap->hosts; i++) {
        const rg__host_record *host = &s->snap->host[i];
        if (host->id == s->a->id)
            add_me(s, hosts);
        else
            json_array_append_new(
                hosts, host_json(s, host, host->is_gone ? "left" : "ready"));
    }
    if (!has_record(s, s->a->id))
        add_me(s, hosts);
    for (int i = 0; s->decided != NULL && i < s->decided->host_count; i++) {
        const rg__proposal_host *host = &s->decided->host[i];
        if (host->id != s->a->id && !has_record(s, host->id))
            add_member_host(s, host, hosts);
    }
    return hosts;
}

static json_t *leader_json(const report *s)
{
    const rg__host_record *host = rg__snapshot_host(s->snap, s->snap->leader);
    if (host != NULL)
        return json_string(host->name);
    if (is_leader(s, s->a->id))
        return json_string(s->a->params->host);
    for (int i = 0; s->decided != NULL && i < s->decided->host_count; i++)
        if (is_leader(s, s->decided->host[i].id))
            return json_string(s->decided->host[i].name);
    return json_null();
}

/* ------------------------------------------------------------------ changes */

static void add_time(json_t *j, const char *name, uint64_t ns)
{
    json_object_set_new(j, name, number_or_null(ns != 0, ns));
}

static json_t *lost_json(const rg__line *line)
{
    return line->steps_lost < 0 ? json_null() : json_integer(line->steps_lost);
}

static json_t *change_json(const report *s, const rg__line *line)
{
    const rg__change *c = rg__change_find(s->a, line->generation);
    const rg__change none = {0};
    json_t *j =
        json_pack("{s:I,s:f,s:s,s:s,s:i,s:i,s:o}", "generation",
                  (json_int_t)line->generation, "at",
                  (double)line->at_ms / 1000.0, "cause", line->cause, "kind",
                  rg__cause_kind_name(line->kind), "from_size", line->from_size,
                  "to_size", line->to_size, "steps_lost", lost_json(line));
    if (j == NULL)
        return j;
    c = c != NULL ? c : &none;
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

static json_t *changes_json(const report *s)
{
    json_t *changes = json_array();
    if (s->decided != NULL)
        rg__change_note_steps(s->a, s->decided->generation);
    for (int i = 0; i < s->snap->lines; i++)
        json_array_append_new(changes, change_json(s, &s->snap->line[i]));
    return changes;
}

/* ----------------------------------------------------------------- document */

static json_t *end_json(const rg__end *end)
{
    return end->is_set
               ? json_pack("{s:i,s:s}", "code", end->code, "why", end->why)
               : json_null();
}

/* Of the job, as etcd knows it; null while there is nothing to say. */
static json_t *checkpoint_json(const report *s)
{
    const rg__saved *saved = &s->snap->saved;
    const char *error = saved->error;
    if (saved->serial == 0 && error[0] == '\0')
        return json_null();
    json_t *j = json_object();
    const bool is_there = saved->serial != 0;
    json_object_set_new(j, "step",
                        number_or_null(is_there, saved->commit.step));
    json_object_set_new(j, "file",
                        is_there ? json_string(saved->file) : json_null());
    json_object_set_new(j, "host",
                        is_there ? json_string(saved->host) : json_null());
    json_object_set_new(j, "at",
                        is_there ? json_real((double)saved->at_ms / 1000.0)
                                 : json_null());
    json_object_set_new(j, "error",
                        error[0] != '\0' ? json_string(error) : json_null());
    return j;
}

static json_t *etcd_json(const report *s)
{
    const char *why = rg__etcd_why(s->a->etcd);
    if (s->is_whole && !rg__etcd_is_refusing(s->a->etcd))
        return json_pack("{s:s,s:s}", "state", "up", "why", "");
    return json_pack("{s:s,s:s}", "state", "away", "why",
                     why != NULL && why[0] != '\0' ? why
                                                   : "no answer within 1 s");
}

static json_t *detect_json(const rg__agent *a)
{
    return json_pack("{s:b,s:I,s:I,s:f}", "auto", a->params->detect_follows,
                     "budget_ms",
                     (json_int_t)(rg__budget_ns(a->params) / RG__MS), "asks_ms",
                     (json_int_t)(rg__beat_asks_ns(a) / RG__MS), "delay_ms",
                     (double)rg__beat_delay_ns(a) / 1e6);
}

static json_t *sets_json(const report *s)
{
    return s->decided == NULL ? json_array()
                              : rg__set_list_json(s->a, s->decided->generation,
                                                  s->decided->size);
}

char *rg__report(rg__agent *a, const rg__snapshot *snap, bool is_whole,
                 const json_t *times)
{
    const rg__total total = rg__snapshot_total(snap);
    json_t *by_host = rg__step_times_by_host(a, times);
    const report s = {.a = a,
                      .snap = snap,
                      .decided = rg__snapshot_decided(snap),
                      .is_whole = is_whole,
                      .times = by_host};
    json_t *hosts = hosts_json(&s);
    json_t *slowest = rg__step_times_slowest(hosts);
    json_decref(by_host);
    json_t *j = json_pack(
        "{s:s,s:s,s:I,s:s,s:o,s:i,s:i,s:i,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:o,s:I,"
        "s:o,s:o,s:o,s:o}",
        "job", a->params->job, "scope", is_whole ? "job" : "host", "generation",
        (json_int_t)(s.decided != NULL ? s.decided->generation : 0), "phase",
        phase_of(&s), "leader", leader_json(&s), "min", a->params->min, "max",
        a->params->max, "size", s.decided != NULL ? s.decided->size : 0,
        "hosts", hosts, "sets", sets_json(&s), "changes", changes_json(&s),
        "changes_total", (json_int_t)rg__total_changes(&total), "end",
        end_json(&snap->end), "metrics",
        a->control->metrics_at[0] != '\0' ? json_string(a->control->metrics_at)
                                          : json_null(),
        "etcd", etcd_json(&s), "detect", detect_json(a), "vault_bytes",
        (json_int_t)rg__vault_bytes(a), "checkpoint", checkpoint_json(&s),
        "waiting", rg__waits_json(a), "notice", rg__notice_json(a), "slowest",
        slowest);
    char *text = j == NULL
                     ? NULL
                     : json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(13));
    json_decref(j);
    return text;
}
