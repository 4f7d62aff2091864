/* The state of this host's agent in Prometheus' text format, version 0.0.4.
 * Everything is what the agent knows now: a scrape never waits for etcd.
 *
 * Counters of generations are sums over the job's decisions, which the newest
 * decision contains, so every agent shows the same and none begins at zero;
 * recovery times, restarts and heartbeats are this host's. */
#include "elastic/agent/control/control.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/scalars/scalars.h"
#include "elastic/agent/vault/vaults.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "sdk/base/clock.h"

/* ------------------------------------------------------------------ samples */

static void put_head(FILE *out, const char *name, const char *type,
                     const char *help)
{
    fprintf(out, "# HELP regroup_%s %s\n# TYPE regroup_%s %s\n", name, help,
            name, type);
}

/* Enough digits for what it counts, and no exponent for whole numbers. */
static void put_value(FILE *out, double value)
{
    if (value < 1e15 && value > -1e15 && value == (double)(int64_t)value)
        fprintf(out, "%" PRId64 "\n", (int64_t)value);
    else if (!isfinite(value))
        fprintf(out, "%s\n",
                isnan(value) ? "NaN"
                : value > 0  ? "+Inf"
                             : "-Inf");
    else
        fprintf(out, "%.9g\n", value);
}

static void put_gauge(FILE *out, const char *name, double value,
                      const char *help)
{
    put_head(out, name, "gauge", help);
    fprintf(out, "regroup_%s ", name);
    put_value(out, value);
}

static void put_counter(FILE *out, const char *name, uint64_t value,
                        const char *help)
{
    put_head(out, name, "counter", help);
    fprintf(out, "regroup_%s ", name);
    put_value(out, (double)value);
}

/* ------------------------------------------------------------- one number */

static void put_world(FILE *out, const rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    put_gauge(out, "generation", p != NULL ? (double)p->generation : 0,
              "Newest decided generation, 0 before the first.");
    put_gauge(out, "world_size", p != NULL ? p->size : 0,
              "Workers in the world, on all hosts.");
    put_gauge(out, "world_min", a->params->min,
              "Fewest workers that the job goes on with.");
    put_gauge(out, "world_max", a->params->max,
              "Most workers that the world may have.");
}

static void put_workers(FILE *out, const rg__agent *a)
{
    int alive = 0;
    uint64_t steps = 0;
    for (int i = 0; i < a->params->slots; i++) {
        const rg__page *page = a->slot[i].w.page;
        const uint64_t step = page != NULL ? atomic_load(&page->step) : 0;
        steps = step > steps ? step : steps;
        alive += rg__slot_is_alive(&a->slot[i]);
    }
    put_gauge(out, "slots", a->params->slots, "Workers that this host starts.");
    put_gauge(out, "workers_alive", alive, "Living workers of this host.");
    put_gauge(out, "members", rg__view_count_local(a, rg__view_decided(a)),
              "Workers of this host that are in the world.");
    put_gauge(out, "steps", (double)steps,
              "Steps ended on the lineage, as workers of this host see it; "
              "falls when steps are rolled back.");
}

static void put_lost_steps(FILE *out, const rg__agent *a)
{
    const rg__total total = rg__snapshot_total(&a->view);
    put_counter(out, "steps_lost_total", total.steps_lost,
                "Steps of the job that were ended and then rolled back.");
    put_counter(out, "steps_lost_unknown_total", total.lost_unknown,
                "Changes for which the number of steps rolled back is "
                "unknown.");
}

static void put_commits(FILE *out, const rg__agent *a)
{
    const rg__saved *saved = &a->view.saved;
    put_gauge(out, "vault_bytes", (double)rg__vault_bytes(a),
              "Memory of this host reserved for commits.");
    put_gauge(out, "checkpoint_step", (double)saved->commit.step,
              "Step of the newest checkpoint of the job, 0 before the first.");
    put_gauge(out, "checkpoint_time_seconds", (double)(saved->at_ms / 1000),
              "Unix time of the newest checkpoint of the job, 0 before the "
              "first.");
    put_gauge(out, "checkpoint_failed", saved->error[0] != '\0',
              "1 while the newest attempt at a checkpoint has failed.");
}

static void put_host(FILE *out, const rg__agent *a)
{
    put_gauge(out, "etcd_up", rg__etcd_is_up(a->etcd),
              "1 while etcd answers this agent.");
    put_gauge(out, "leader", rg__view_i_lead(a),
              "1 while this agent proposes generations.");
    put_gauge(out, "draining", a->departure.is_draining,
              "1 while this host is leaving the job.");
    put_gauge(out, "noticed", rg__notice_stands(a),
              "1 while a notice says that this host is to go.");
    put_gauge(out, "waits", rg__waits_said(a),
              "What this agent waits for longer than --detect.");
}

static void put_restarts(FILE *out, const rg__agent *a)
{
    uint64_t workers = 0;
    for (int i = 0; i < a->params->slots; i++)
        workers += a->slot[i].saved.start > 1 ? a->slot[i].saved.start - 1 : 0;
    put_counter(out, "worker_restarts_total", workers,
                "Processes that this host started in place of others.");
    put_counter(out, "agent_restarts_total",
                a->life.agents > 1 ? a->life.agents - 1 : 0,
                "Agents of this host that took over from one that was killed.");
}

static void put_peers(FILE *out, const rg__agent *a)
{
    int expected = 0, accused = 0;
    for (int i = 0; i < rg__beat_peers(a); i++) {
        expected += rg__beat_peer(a, i)->is_expected;
        accused += rg__beat_peer(a, i)->is_accused;
    }
    put_gauge(out, "peers_expected", expected,
              "Agents whose heartbeats this one expects.");
    put_gauge(out, "peers_accused", accused,
              "Agents that this one does not hear.");
}

static void put_beats(FILE *out, const rg__agent *a)
{
    put_gauge(out, "detect_seconds", (double)rg__budget_ns(a->params) / 1e9,
              "How long a host may be silent before it counts as lost.");
    put_gauge(out, "heartbeat_delay_seconds",
              (double)rg__beat_delay_ns(a) / 1e9,
              "The longest that a heartbeat, or a turn of this agent, has "
              "been late in the last ten minutes.");
    put_counter(out, "heartbeats_sent_total", rg__beat_count(a).sent,
                "Datagrams sent to other agents.");
    put_counter(out, "heartbeats_received_total", rg__beat_count(a).received,
                "New datagrams of other agents that proved the job's key.");
    put_counter(out, "heartbeats_refused_total", rg__beat_count(a).refused,
                "Datagrams that did not prove the key, were old or for "
                "another agent.");
}

/* ------------------------------------------------------------- more of them */

static void put_info(FILE *out, const rg__agent *a)
{
    put_head(out, "info", "gauge", "Which job and host this is; always 1.");
    fprintf(out, "regroup_info{name=\"%s\",host=\"%s\",version=\"%s\"} 1\n",
            a->params->job, a->params->host, RG_VERSION);
}

/* Since a worker of this host has ended a step; no sample before the first. */
static void put_step_age(FILE *out, const rg__agent *a)
{
    uint64_t newest = 0;
    for (int i = 0; i < a->params->slots; i++) {
        const rg__page *page = a->slot[i].w.page;
        const uint64_t at = page != NULL ? atomic_load(&page->step_ns) : 0;
        newest = at > newest ? at : newest;
    }
    const uint64_t now = rg__now_ns();
    put_head(out, "seconds_since_step", "gauge",
             "Time since a worker of this host ended a step.");
    if (newest == 0)
        return;
    fprintf(out, "regroup_seconds_since_step ");
    put_value(out, newest < now ? (double)(now - newest) / 1e9 : 0);
}

typedef double (*time_of)(const rg__page *page);

static double took_s(const rg__page *page)
{
    return (double)atomic_load(&page->step_took_ns) / 1e9;
}

static double waiting(const rg__page *page)
{
    const double waited = (double)atomic_load(&page->step_waited_ns) / 1e9;
    return waited < took_s(page) ? waited / took_s(page) : 1;
}

/* No sample of a worker that has not ended a step. */
static void put_times(FILE *out, const rg__agent *a, const char *name,
                      const char *help, time_of of)
{
    put_head(out, name, "gauge", help);
    for (int i = 0; i < a->params->slots; i++) {
        const rg__page *page = a->slot[i].w.page;
        if (page == NULL || atomic_load(&page->step_took_ns) == 0)
            continue;
        fprintf(out, "regroup_%s{slot=\"%d\"} ", name, i);
        put_value(out, of(page));
    }
}

static void put_changes(FILE *out, const rg__agent *a)
{
    const rg__total total = rg__snapshot_total(&a->view);
    put_head(out, "generation_changes_total", "counter",
             "Generations of the job that were decided, by cause.");
    for (int i = 0; i < RG__KINDS; i++)
        fprintf(out,
                "regroup_generation_changes_total{cause=\"%s\"} %" PRIu64 "\n",
                rg__cause_kind_name((rg__cause_kind)i), total.changes[i]);
}

/* From the detection to the last local member's first step, of every change
 * but the first generation, which recovers from nothing. */
static void put_recoveries(FILE *out, rg__agent *a)
{
    rg__recoveries r = *rg__recoveries_past(a);
    const rg__proposal *p = rg__view_decided(a);
    if (p != NULL)
        rg__change_note_steps(a, p->generation);
    for (int i = 0; i < rg__changes(a); i++)
        rg__recoveries_add(&r, rg__change_at(a, i));
    put_head(out, "recovery_seconds", "histogram",
             "Time from the detection of a change to the first step of all "
             "members on this host.");
    for (int k = 0; k < RG__RECOVERY_BUCKETS; k++)
        fprintf(out, "regroup_recovery_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
                rg__recovery_bucket_s[k], r.count[k]);
    fprintf(out,
            "regroup_recovery_seconds_bucket{le=\"+Inf\"} %" PRIu64
            "\nregroup_recovery_seconds_sum %.9g"
            "\nregroup_recovery_seconds_count %" PRIu64 "\n",
            r.all, r.seconds, r.all);
}

/* What the program has given to rg_metric. */
static void put_scalars(FILE *out, const rg__agent *a)
{
    const rg__scalar *row = NULL;
    const int n = rg__scalars_latest(a, &row);
    put_head(out, "metric", "gauge",
             "The program's own, over all ranks, of the newest step that had "
             "it; on the host of rank 0.");
    for (int i = 0; i < n; i++) {
        fprintf(out, "regroup_metric{name=\"%s\"} ", row[i].name);
        put_value(out, row[i].value);
    }
    put_head(out, "metric_step", "gauge", "That step.");
    for (int i = 0; i < n; i++)
        fprintf(out, "regroup_metric_step{name=\"%s\"} %" PRIu64 "\n",
                row[i].name, row[i].step);
}

char *rg__metrics(rg__agent *a)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (out == NULL)
        return NULL;
    put_info(out, a);
    put_world(out, a);
    put_workers(out, a);
    put_lost_steps(out, a);
    put_commits(out, a);
    put_host(out, a);
    put_restarts(out, a);
    put_peers(out, a);
    put_beats(out, a);
    put_step_age(out, a);
    put_times(out, a, "worker_step_seconds", "Mean time of a worker's steps.",
              took_s);
    put_times(out, a, "worker_waiting_ratio",
              "Share of a step in which the worker waits for operations.",
              waiting);
    put_changes(out, a);
    put_recoveries(out, a);
    put_scalars(out, a);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
