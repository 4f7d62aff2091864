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
    else
        fprintf(out, "%.9g\n", value);
}

/* -------------------------------------------------------------- one number */

static double generation(const rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    return p != NULL ? (double)p->generation : 0;
}

static double world_size(const rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    return p != NULL ? p->size : 0;
}

static double world_min(const rg__agent *a)
{
    return a->params->min;
}

static double world_max(const rg__agent *a)
{
    return a->params->max;
}

static double slots(const rg__agent *a)
{
    return a->params->slots;
}

static double workers_alive(const rg__agent *a)
{
    int n = 0;
    for (int i = 0; i < a->params->slots; i++)
        n += rg__slot_is_alive(&a->slot[i]);
    return n;
}

static double members(const rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    int n = 0;
    for (int r = 0; p != NULL && r < p->size; r++)
        n += p->member[r].host == a->id;
    return n;
}

static double steps(const rg__agent *a)
{
    uint64_t most = 0;
    for (int i = 0; i < a->params->slots; i++) {
        const rg__page *page = a->slot[i].w.page;
        const uint64_t step = page != NULL ? atomic_load(&page->step) : 0;
        most = step > most ? step : most;
    }
    return (double)most;
}

static double vault_bytes(const rg__agent *a)
{
    return (double)rg__vault_bytes(a);
}

static double checkpoint_step(const rg__agent *a)
{
    return (double)a->view.saved.commit.step;
}

static double checkpoint_time(const rg__agent *a)
{
    return (double)(a->view.saved.at_ms / 1000);
}

static double checkpoint_failed(const rg__agent *a)
{
    return a->view.saved.error[0] != '\0';
}

static double etcd_up(const rg__agent *a)
{
    return rg__etcd_is_up(a->etcd);
}

static double leader(const rg__agent *a)
{
    return rg__view_i_lead(a);
}

static double draining(const rg__agent *a)
{
    return a->departure.is_draining;
}

static double noticed(const rg__agent *a)
{
    return rg__notice_stands(a);
}

static double steps_lost(const rg__agent *a)
{
    return (double)rg__snapshot_total(&a->view).steps_lost;
}

static double unknown_losses(const rg__agent *a)
{
    return (double)rg__snapshot_total(&a->view).lost_unknown;
}

/* Processes started in slots after the first of each. */
static double restarts(const rg__agent *a)
{
    double sum = 0;
    for (int i = 0; i < a->params->slots; i++)
        sum += a->slot[i].saved.start > 1 ? a->slot[i].saved.start - 1 : 0;
    return sum;
}

static double agent_restarts(const rg__agent *a)
{
    return a->life.agents > 1 ? a->life.agents - 1 : 0;
}

static double peers_expected(const rg__agent *a)
{
    int n = 0;
    for (int i = 0; i < rg__beat_peers(a); i++)
        n += rg__beat_peer(a, i)->is_expected;
    return n;
}

static double peers_accused(const rg__agent *a)
{
    int n = 0;
    for (int i = 0; i < rg__beat_peers(a); i++)
        n += rg__beat_peer(a, i)->is_accused;
    return n;
}

static double beats_sent(const rg__agent *a)
{
    return (double)rg__beat_count(a).sent;
}

static double beats_received(const rg__agent *a)
{
    return (double)rg__beat_count(a).received;
}

static double beats_refused(const rg__agent *a)
{
    return (double)rg__beat_count(a).refused;
}

static double detect_seconds(const rg__agent *a)
{
    return (double)rg__budget_ns(a->params) / 1e9;
}

static double delay_seconds(const rg__agent *a)
{
    return (double)rg__beat_delay_ns(a) / 1e9;
}

static double waits_said(const rg__agent *a)
{
    return rg__waits_said(a);
}

typedef struct number {
    const char *name, *type, *help;
    double (*of)(const rg__agent *a);
} number;

static const number numbers[] = {
    {"generation", "gauge", "Newest decided generation, 0 before the first.",
     generation},
    {"world_size", "gauge", "Workers in the world, on all hosts.", world_size},
    {"world_min", "gauge", "Fewest workers that the job goes on with.",
     world_min},
    {"world_max", "gauge", "Most workers that the world may have.", world_max},
    {"slots", "gauge", "Workers that this host starts.", slots},
    {"workers_alive", "gauge", "Living workers of this host.", workers_alive},
    {"members", "gauge", "Workers of this host that are in the world.",
     members},
    {"steps", "gauge",
     "Steps ended on the lineage, as workers of this host see it; falls when "
     "steps are rolled back.",
     steps},
    {"steps_lost_total", "counter",
     "Steps of the job that were ended and then rolled back.", steps_lost},
    {"steps_lost_unknown_total", "counter",
     "Changes for which the number of steps rolled back is unknown.",
     unknown_losses},
    {"vault_bytes", "gauge", "Memory of this host reserved for commits.",
     vault_bytes},
    {"checkpoint_step", "gauge",
     "Step of the newest checkpoint of the job, 0 before the first.",
     checkpoint_step},
    {"checkpoint_time_seconds", "gauge",
     "Unix time of the newest checkpoint of the job, 0 before the first.",
     checkpoint_time},
    {"checkpoint_failed", "gauge",
     "1 while the newest attempt at a checkpoint has failed.",
     checkpoint_failed},
    {"etcd_up", "gauge", "1 while etcd answers this agent.", etcd_up},
    {"leader", "gauge", "1 while this agent proposes generations.", leader},
    {"draining", "gauge", "1 while this host is leaving the job.", draining},
    {"noticed", "gauge", "1 while a notice says that this host is to go.",
     noticed},
    {"waits", "gauge", "What this agent waits for longer than --detect.",
     waits_said},
    {"worker_restarts_total", "counter",
     "Processes that this host started in place of others.", restarts},
    {"agent_restarts_total", "counter",
     "Agents of this host that took over from one that was killed.",
     agent_restarts},
    {"peers_expected", "gauge", "Agents whose heartbeats this one expects.",
     peers_expected},
    {"peers_accused", "gauge", "Agents that this one does not hear.",
     peers_accused},
    {"detect_seconds", "gauge",
     "How long a host may be silent before it counts as lost.", detect_seconds},
    {"heartbeat_delay_seconds", "gauge",
     "The longest that a heartbeat, or a turn of this agent, has been late in "
     "the last ten minutes.",
     delay_seconds},
    {"heartbeats_sent_total", "counter", "Datagrams sent to other agents.",
     beats_sent},
    {"heartbeats_received_total", "counter",
     "New datagrams of other agents that proved the job's key.",
     beats_received},
    {"heartbeats_refused_total", "counter",
     "Datagrams that did not prove the key, were old or for another agent.",
     beats_refused},
};

static void put_numbers(FILE *out, const rg__agent *a)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const number *n = &numbers[i];
        put_head(out, n->name, n->type, n->help);
        fprintf(out, "regroup_%s ", n->name);
        put_value(out, n->of(a));
    }
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
    if (generation(a) > 0)
        rg__change_note_steps(a, (uint64_t)generation(a));
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
    put_numbers(out, a);
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
