/* The leader's rules.
 *
 *   no generation      propose 1 when --max slots are at the door, or --min
 *                      after --start-timeout. So is the next one formed while
 *                      no commit is begun and workers call rg_world_wait, of as
 *                      many as the one that broke: its members start again
 *   g decided          broken (a member is dead, its host is lost, or a reason
 *                      is published): propose g+1 of the living and of those
 *                      at the door, as soon as they are --min; newcomers at
 *                      the door, or a host that drains: propose g+1,
 *                      announced; all hosts finished: done
 *   g+1 proposed       a member of it died, or it broke, or it is announced
 *                      and a host of g is lost: propose g+2; all
 *                      hosts acked: decide, where they may; announced, but
 *                      the members of g have finished: done
 *   a static program   no world follows g: when all its hosts have left for
 *                      good, which they do only after a good end, done
 *
 * What a decision needs: a host of g that acks with a commit in its vault no
 * older than what g resumed from, since after its ack g ends no more steps; or
 * any hosts, while no commit has been begun. A lease that has ended is no
 * death: while no host of g says how it stands, and until each of its hosts has
 * left or begun again, the leader waits, and in the end leaves together with
 * all hosts that wait. It does not end the job.
 *
 * Seniority: members keep the order of the generation decided last. A worker
 * that replaced a member in its slot, on the same host or on one that was
 * started again under its name, before a generation without the member was
 * decided, has inherited its place. Newcomers come last, each host together. */
#include "elastic/member/plan.h"

#include "elastic/member/links.h"
#include "elastic/member/resume.h"

#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/proof.h"

#define MS_NS     UINT64_C(1000000)
#define NAMES_MAX 3 /* hosts in a sentence; the rest is counted */

/* ------------------------------------------------------------------- facts */

static const rg__slot_record *find_slot(const rg__host_record *host,
                                        uint32_t slot)
{
    for (int i = 0; i < host->slot_count; i++)
        if (host->slot[i].slot == slot)
            return &host->slot[i];
    return NULL;
}

static const rg__proposal_host *find_host(const rg__proposal *p, uint64_t id)
{
    const int at = rg__proposal_host_index(p, id);
    return at >= 0 ? &p->host[at] : NULL;
}

static const char *host_name(const rg__proposal *p, uint64_t id)
{
    const rg__proposal_host *host = find_host(p, id);
    return host != NULL ? host->name : "?";
}

/* What a look stands on. */
typedef struct look {
    const rg__snapshot *s;
    const rg__plan_config *c;
    const rg__proposal *decided; /* NULL: none */
    bool is_changing; /* the next generation is proposed, or has to be */
    bool is_first;    /* and it would be the first in which anything counts */
    uint64_t now_ns;
    rg__plan_clock *clock;
    rg__plan *plan;
} look;

bool rg__is_among(uint64_t id, const uint64_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static bool is_lost(const look *l, uint64_t host)
{
    const rg__host_record *record = rg__snapshot_host(l->s, host);
    return (record != NULL && record->is_gone) ||
           rg__is_among(host, l->c->lost, l->c->losts) ||
           rg__shut_out_is(l->clock, host, l->now_ns);
}

/* It can't take part in a change now, because etcd does not answer it. */
static bool has_no_etcd(const look *l, uint64_t host)
{
    return rg__is_among(host, l->c->no_etcd, l->c->no_etcds);
}

static bool is_draining(const look *l, uint64_t host)
{
    const rg__host_record *record = rg__snapshot_host(l->s, host);
    return record != NULL && record->is_draining;
}

/* A host whose record is gone may have lost only its lease: its workers count
 * as living until another incarnation has its name, or it is lost. */
static bool is_alive(const look *l, const rg__proposal *p, rg__member_id m)
{
    if (is_lost(l, m.host))
        return false;
    const rg__host_record *host = rg__snapshot_host(l->s, m.host);
    if (host == NULL)
        return !rg__snapshot_is_other(l->s, host_name(p, m.host), m.host);
    const rg__slot_record *slot = find_slot(host, m.slot);
    return slot != NULL && slot->is_alive && slot->start == m.start;
}

static int count_dead(const look *l, const rg__proposal *p)
{
    int n = 0;
    for (int i = 0; i < p->size; i++)
        n += !is_alive(l, p, p->member[i]);
    return n;
}

static const rg__reason *find_reason(const rg__snapshot *s, uint64_t generation)
{
    for (int i = 0; i < s->reasons; i++)
        if (s->reason[i].generation == generation)
            return &s->reason[i];
    return NULL;
}

static bool is_broken(const look *l, const rg__proposal *p)
{
    return p != NULL &&
           (find_reason(l->s, p->generation) != NULL || count_dead(l, p) > 0);
}

static bool have_all_finished(const rg__snapshot *s, const rg__proposal *p)
{
    int n = 0;
    for (int i = 0; i < s->fins; i++)
        n += s->fin[i].generation == p->generation;
    return n == p->host_count;
}

static bool has_acked(const rg__snapshot *s, uint64_t generation, uint64_t host)
{
    return rg__snapshot_ack(s, generation, host) != NULL;
}

/* Every host with an agent acks, members or not: one without members has
 * workers to fence and a vault that counts. A lost host is not waited for. */
static bool have_all_acked(const look *l, const rg__proposal *p)
{
    const rg__snapshot *s = l->s;
    for (int i = 0; i < p->host_count; i++)
        if (!has_acked(s, p->generation, p->host[i].id))
            return false;
    for (int i = 0; i < s->hosts; i++)
        if (!is_lost(l, s->host[i].id) && !has_no_etcd(l, s->host[i].id) &&
            !has_acked(s, p->generation, s->host[i].id))
            return false;
    return true;
}

/* A member's host that won't ack, because etcd does not answer it. */
static bool waits_for_no_etcd(const look *l, const rg__proposal *p)
{
    for (int i = 0; i < p->host_count; i++)
        if (has_no_etcd(l, p->host[i].id) &&
            !has_acked(l->s, p->generation, p->host[i].id))
            return true;
    return false;
}

static bool has_member_without_etcd(const look *l, const rg__proposal *p)
{
    for (int i = 0; i < p->host_count; i++)
        if (has_no_etcd(l, p->host[i].id))
            return true;
    return false;
}

static bool is_static(const rg__snapshot *s)
{
    for (int i = 0; i < s->hosts; i++)
        if (s->host[i].elastic == 0)
            return true;
    return false;
}

/* -------------------------------------------------------------- candidates */

typedef struct members {
    rg__member_id *id;
    int n, max;
} members;

static bool has_slot(const members *list, uint64_t host, uint32_t slot)
{
    for (int i = 0; i < list->n; i++)
        if (list->id[i].host == host && list->id[i].slot == slot)
            return true;
    return false;
}

static void add(members *list, rg__member_id id)
{
    if (list->n < list->max && !has_slot(list, id.host, id.slot))
        list->id[list->n++] = id;
}

static bool may_host_members(const look *l, uint64_t host)
{
    return !is_lost(l, host) && !is_draining(l, host) &&
           !(has_no_etcd(l, host) && l->is_changing);
}

/* Where the slots of a host are now: another incarnation may have its name. */
static const rg__host_record *heir_of(const look *l, uint64_t id)
{
    const rg__host_record *same = rg__snapshot_host(l->s, id);
    const char *name = host_name(l->decided, id);
    for (int i = 0; same == NULL && i < l->s->hosts; i++)
        if (strcmp(l->s->host[i].name, name) == 0)
            return &l->s->host[i];
    return same;
}

/* A worker of a first world has already done what the next one would do again,
 * so its agent ends it. */
static bool is_spent(const look *l, rg__member_id m)
{
    return l->is_first && l->decided != NULL && l->decided->is_awaited &&
           rg__proposal_rank(l->decided, m) >= 0;
}

/* A worker that waits for a first world gets a place in no other. */
static bool wants_place(const look *l, rg__member_id m,
                        const rg__slot_record *slot)
{
    return slot->is_alive && slot->is_at_door &&
           (!slot->waits || l->is_first) && !is_spent(l, m);
}

static void add_senior(const look *l, rg__member_id m, members *list)
{
    if (may_host_members(l, m.host) && is_alive(l, l->decided, m) &&
        !is_spent(l, m)) {
        add(list, m);
        return;
    }
    const rg__host_record *host = heir_of(l, m.host);
    const rg__slot_record *heir = host == NULL ? NULL : find_slot(host, m.slot);
    if (heir == NULL)
        return;
    const rg__member_id id = {host->id, m.slot, heir->start};
    if (wants_place(l, id, heir) && may_host_members(l, host->id))
        add(list, id);
}

/* None of a host that etcd does not answer: it would not ack. */
static void add_newcomers(const look *l, members *list)
{
    for (int i = 0; i < l->s->hosts; i++) {
        const rg__host_record *host = &l->s->host[i];
        if (!may_host_members(l, host->id) || has_no_etcd(l, host->id))
            continue;
        for (int k = 0; k < host->slot_count; k++) {
            const rg__slot_record *slot = &host->slot[k];
            const rg__member_id id = {host->id, slot->slot, slot->start};
            if (wants_place(l, id, slot))
                add(list, id);
        }
    }
}

static rg_status find_candidates(const look *l, members *list)
{
    *list = (members){.max = l->c->max};
    list->id = calloc((size_t)list->max, sizeof *list->id);
    if (list->id == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a proposal");
    for (int i = 0; l->decided != NULL && i < l->decided->size; i++)
        add_senior(l, l->decided->member[i], list);
    add_newcomers(l, list);
    return RG_OK;
}

/* How many of the list were not in p, by slot and start number. */
static int count_new(const members *list, const rg__proposal *p)
{
    int n = 0;
    for (int i = 0; i < list->n; i++) {
        bool is_old = false;
        for (int k = 0; k < p->size && !is_old; k++)
            is_old = rg__same_member(list->id[i], p->member[k]);
        n += !is_old;
    }
    return n;
}

/* Members beyond a lowered --max: the least senior go back to the door. */
static int count_surplus(const look *l)
{
    const int n = l->decided->size - l->c->max;
    return n > 0 ? n : 0;
}

/* How many of p's members are on hosts that drain. */
static int count_leaving(const look *l, const rg__proposal *p)
{
    int n = 0;
    for (int i = 0; i < p->size; i++)
        n += is_draining(l, p->member[i].host);
    return n;
}

/* ---------------------------------------------------------------- proposal */

static bool add_proposal_host(const look *l, rg__proposal *p, uint64_t id)
{
    if (rg__proposal_host_index(p, id) >= 0)
        return true;
    void *more =
        realloc(p->host, sizeof *p->host * (size_t)(p->host_count + 1));
    if (more == NULL)
        return false;
    p->host = more;
    rg__proposal_host *host = &p->host[p->host_count++];
    const rg__host_record *record = rg__snapshot_host(l->s, id);
    const rg__proposal_host *before = find_host(l->decided, id);
    *host = (rg__proposal_host){.id = id};
    if (record != NULL) {
        snprintf(host->name, sizeof host->name, "%s", record->name);
        host->address = record->address;
        host->port = record->port;
    } else if (before != NULL) {
        *host = *before;
    }
    return true;
}

static bool does_wait(const look *l, rg__member_id id)
{
    const rg__host_record *record = rg__snapshot_host(l->s, id.host);
    const rg__slot_record *slot =
        record != NULL ? find_slot(record, id.slot) : NULL;
    return slot != NULL && slot->waits && l->is_first;
}

static uint32_t port_of(const look *l, rg__member_id id)
{
    const rg__host_record *record = rg__snapshot_host(l->s, id.host);
    const rg__slot_record *slot =
        record != NULL ? find_slot(record, id.slot) : NULL;
    if (slot != NULL)
        return slot->port;
    const int rank = rg__proposal_rank(l->decided, id);
    return rank >= 0 ? l->decided->port[rank] : 0;
}

static void add_count(char cause[RG__CAUSE_MAX], int others)
{
    const size_t n = strlen(cause);
    if (others > 0)
        snprintf(cause + n, RG__CAUSE_MAX - n, " and %d more", others);
}

static bool name_newcomer(const look *l, const members *list,
                          char cause[RG__CAUSE_MAX])
{
    for (int i = 0; i < list->n; i++) {
        const members one = {&list->id[i], 1, 1};
        if (count_new(&one, l->decided) == 0)
            continue;
        const rg__host_record *host = rg__snapshot_host(l->s, list->id[i].host);
        snprintf(cause, RG__CAUSE_MAX, "%.63s.%u joined",
                 host != NULL ? host->name : "?", list->id[i].slot);
        add_count(cause, count_new(list, l->decided) - 1);
        return true;
    }
    return false;
}

/* A host that has left has said so; its steps may have been given up. */
static void name_loss(const look *l, uint64_t id, const char *name,
                      char cause[RG__CAUSE_MAX])
{
    const rg__host_record *host = rg__snapshot_host(l->s, id);
    snprintf(cause, RG__CAUSE_MAX, "host %.63s %s", name,
             host == NULL || !host->is_gone ? "is lost"
             : host->is_draining            ? "has left before a commit"
                                            : "has left");
}

static bool name_lost_host(const look *l, char cause[RG__CAUSE_MAX])
{
    const rg__proposal *p = l->decided;
    for (int i = 0; i < p->host_count; i++)
        if (is_lost(l, p->host[i].id)) {
            name_loss(l, p->host[i].id, p->host[i].name, cause);
            return true;
        }
    return false;
}

static bool name_leaving(const look *l, char cause[RG__CAUSE_MAX])
{
    const rg__proposal *p = l->decided;
    const char *first = NULL;
    int n = 0;
    for (int i = 0; i < p->host_count; i++)
        if (is_draining(l, p->host[i].id) && n++ == 0)
            first = p->host[i].name;
    if (n == 1)
        snprintf(cause, RG__CAUSE_MAX, "host %.63s leaves", first);
    else if (n > 1)
        snprintf(cause, RG__CAUSE_MAX, "host %.63s and %d more leave", first,
                 n - 1);
    return n > 0;
}

/* The sentence, and its kind. */
static rg__cause_kind find_cause(const look *l, const members *list,
                                 char cause[RG__CAUSE_MAX])
{
    if (l->decided == NULL) {
        snprintf(cause, RG__CAUSE_MAX, "first");
        return RG__KIND_FIRST;
    }
    /* its MPI kills the ranks of the others, which say so sooner */
    if (l->c->is_mpi && name_lost_host(l, cause))
        return RG__KIND_HOST;
    const rg__reason *reason = find_reason(l->s, l->decided->generation);
    if (reason == NULL && l->s->cur.phase == RG__GEN_PROPOSED)
        reason = find_reason(l->s, l->s->cur.generation);
    if (reason != NULL) {
        snprintf(cause, RG__CAUSE_MAX, "%s",
                 l->s->mpirun.why[0] != '\0' ? l->s->mpirun.why : reason->text);
        return reason->is_death ? RG__KIND_DEATH : RG__KIND_BROKEN;
    }
    if (name_lost_host(l, cause))
        return RG__KIND_HOST;
    if (name_leaving(l, cause))
        return RG__KIND_DRAIN;
    if (count_surplus(l) > 0) {
        snprintf(cause, RG__CAUSE_MAX, "scaled to %d worker%s", list->n,
                 rg__plural(list->n));
        return RG__KIND_DRAIN;
    }
    if (l->c->is_mpi) {
        snprintf(cause, RG__CAUSE_MAX, "%s", l->s->mpirun.why);
        return RG__KIND_BROKEN;
    }
    if (name_newcomer(l, list, cause))
        return RG__KIND_JOIN;
    snprintf(cause, RG__CAUSE_MAX, "the same members again");
    return RG__KIND_SAME;
}

/* Takes the list's members. */
static rg_status propose(const look *l, members *list)
{
    rg__proposal *p = &l->plan->proposal;
    p->generation = l->s->cur.generation + 1;
    p->from = l->decided != NULL ? l->decided->generation : 0;
    p->is_announced = l->decided != NULL && !is_broken(l, l->decided);
    p->token = l->s->leader_token;
    p->cur = l->s->cur.mod_revision;
    rg__random_name(p->op);
    p->kind = find_cause(l, list, p->cause);
    p->launch = l->c->is_mpi ? l->s->mpirun.number : 0;
    p->member = list->id;
    p->size = list->n;
    list->id = NULL;
    p->port = calloc((size_t)p->size + 1, sizeof *p->port);
    for (int i = 0; i < p->size; i++) {
        if (p->port == NULL || !add_proposal_host(l, p, p->member[i].host))
            return rg__fail(RG_ERR_MEMORY, "no memory for a proposal");
        p->port[i] = port_of(l, p->member[i]);
        p->is_awaited = p->is_awaited || does_wait(l, p->member[i]);
    }
    l->plan->kind = RG__PLAN_PROPOSE;
    return RG_OK;
}

/* ---------------------------------------------------------------- decision */

static uint64_t most_steps(const rg__snapshot *s, uint64_t generation)
{
    uint64_t most = 0;
    for (int i = 0; i < s->acks; i++)
        if (s->ack[i].generation == generation && s->ack[i].step > most)
            most = s->ack[i].step;
    return most;
}

/* A rank whose memory is just a loaded checkpoint. */
typedef struct fresh {
    int source; /* -1: none */
    rg__commit_id commit;
} fresh;

/* The rank with the latest checkpoint, if none newer is published. */
static fresh find_fresh(const look *l, const rg__proposal *p)
{
    fresh found = {.source = -1, .commit = l->s->saved.commit};
    for (int i = 0; i < l->s->acks; i++) {
        const rg__ack *ack = &l->s->ack[i];
        rg__commit_id commit;
        if (ack->generation == p->generation && ack->source >= 0 &&
            ack->source < p->size && p->member[ack->source].host == ack->id &&
            rg__snapshot_checkpoint(l->s, ack->loaded, &commit) &&
            !rg__resume_is_later(found.commit, commit))
            found = (fresh){ack->source, commit};
    }
    return found;
}

/* What is left of the steps when the generation begins. */
static uint64_t first_step(const look *l, const rg__proposal *p,
                           const rg__line *line)
{
    return line->resume.generation == 0 && l->s->begun != 0
               ? find_fresh(l, p).commit.step
               : line->resume.step;
}

/* A host that was in the world knows which steps have ended there; before the
 * first commit no host does. */
static int64_t count_lost(const look *l, const rg__proposal *p,
                          const rg__line *line)
{
    bool is_known = l->s->begun == 0 || l->decided == NULL;
    for (int i = 0; !is_known && i < l->decided->host_count; i++)
        is_known = has_acked(l->s, line->generation, l->decided->host[i].id);
    if (!is_known)
        return -1;
    const uint64_t most = most_steps(l->s, line->generation);
    const uint64_t first = first_step(l, p, line);
    return most > first ? (int64_t)(most - first) : 0;
}

/* Whose memory counts where there is no commit: before the first rank 0's is as
 * good as any. After it the memory of workers, which were in the middle of
 * steps, is no state; but a new worker may have loaded the checkpoint. */
static int find_source(const look *l, const rg__proposal *p)
{
    if (l->plan->line.resume.generation != 0)
        return -1;
    return l->s->begun == 0 ? 0 : find_fresh(l, p).source;
}

/* A checkpoint that a member has in its memory counts instead of the commit, if
 * it is the later one. */
static void prefer_checkpoint(const look *l, const rg__proposal *p)
{
    rg__line *line = &l->plan->line;
    const fresh saved = find_fresh(l, p);
    if (l->s->begun == 0 || saved.source < 0 ||
        !rg__resume_is_later(saved.commit, line->resume) ||
        !rg__resume_is_on_lineage(l->s, saved.commit))
        return;
    rg__line_free(line);
    line->resume = (rg__commit_id){0, 0};
}

static bool is_death(rg__cause_kind kind)
{
    return kind == RG__KIND_DEATH || kind == RG__KIND_BROKEN;
}

/* Worlds in a row that ended without a later commit, and not because of a host:
 * this one, and earlier ones back to the first that resumed from there. */
static int count_deaths(const look *l)
{
    const rg__line *line = &l->plan->line;
    const uint64_t step = line->resume.step;
    int n = 0;
    while (line != NULL && is_death(line->kind) && line->resume.step == step) {
        n++;
        line = rg__snapshot_line(l->s, line->prev);
    }
    return n;
}

/* The exit code of the rank that ended a launch. That of a killed rank gives
 * way to what another host knows. */
static int find_code(const look *l, uint64_t launch)
{
    int code = 0;
    for (int i = 0; i < l->s->hosts; i++)
        if (l->s->host[i].broke == launch &&
            (code == 0 || code == 128 + SIGKILL) &&
            l->s->host[i].broke_code != 0)
            code = l->s->host[i].broke_code;
    return code;
}

/* A launch that dies at the same step again and again is not helped by
 * replacing one rank, whichever it is. */
static void end_if_stuck(const look *l)
{
    rg__plan *plan = l->plan;
    plan->deaths = count_deaths(l);
    if (plan->deaths <= l->c->max_deaths)
        return;
    plan->kind = RG__PLAN_STUCK;
    plan->code = l->decided != NULL ? find_code(l, l->decided->launch) : 0;
    snprintf(plan->cause, sizeof plan->cause, "%s", plan->line.cause);
}

/* Of the same launch as the previous world. */
static bool is_in_place(const look *l, const rg__proposal *p)
{
    return l->decided != NULL && l->decided->launch == p->launch;
}

static rg_status decide(const look *l, const rg__proposal *p)
{
    rg__plan *plan = l->plan;
    rg__line *line = &plan->line;
    line->generation = p->generation;
    line->prev = p->from;
    /* of a world that never began nothing counts, not even its commit 0 */
    if (!p->is_awaited || l->s->begun != 0) {
        const rg_status st = rg__resume_choose(l->s, p, l->c->repeats, line);
        if (st != RG_OK)
            return st;
    }
    prefer_checkpoint(l, p);
    line->from_size = l->decided != NULL ? l->decided->size : 0;
    line->to_size = p->size;
    line->steps_lost = count_lost(l, p, line);
    snprintf(line->cause, sizeof line->cause, "%s", p->cause);
    line->kind = p->kind;
    line->source = find_source(l, p);
    rg__line_count(line, l->s);
    plan->kind = line->resume.generation == 0 && line->source < 0
                     ? RG__PLAN_STATE_LOST
                     : RG__PLAN_DECIDE;
    if (l->c->is_mpi && plan->kind == RG__PLAN_DECIDE && !is_in_place(l, p))
        end_if_stuck(l);
    return RG_OK;
}

/* -------------------------------------------------------------------- plan */

static bool has_waited(const look *l, uint64_t *since_ns, uint64_t long_ns)
{
    if (*since_ns == 0)
        *since_ns = l->now_ns;
    const uint64_t waited = l->now_ns - *since_ns;
    if (waited >= long_ns)
        return true;
    const uint64_t left = long_ns - waited;
    if (l->plan->look_again_ns == 0 || left < l->plan->look_again_ns)
        l->plan->look_again_ns = left;
    return false;
}

/* ---------------------------------------------- without the decided world */

/* The host has neither left nor begun again under its name. */
static bool may_come_back(const look *l, uint64_t id, const char *name)
{
    const rg__host_record *record = rg__snapshot_host(l->s, id);
    return !rg__snapshot_is_other(l->s, name, id) &&
           !(record != NULL && record->is_gone);
}

/* The host has not acked either: it may be cut off, or without etcd, or shut
 * out, and still hold what it held. */
static bool may_hold_more(const look *l, uint64_t id, const char *name)
{
    const bool is_proposed = l->s->cur.phase == RG__GEN_PROPOSED;
    return may_come_back(l, id, name) &&
           !(is_proposed && has_acked(l->s, l->s->cur.generation, id));
}

static void add_name(char names[RG__CAUSE_MAX], const char *name, int *n)
{
    const size_t at = strlen(names);
    if ((*n)++ < NAMES_MAX)
        snprintf(names + at, RG__CAUSE_MAX - at, "%s%s", at > 0 ? ", " : "",
                 name);
}

/* Hosts of the decided world that may still be training, for all that is known
 * here; the names of the first few. */
static int count_away(const look *l, char names[RG__CAUSE_MAX])
{
    int n = 0;
    names[0] = '\0';
    for (int i = 0; l->decided != NULL && i < l->decided->host_count; i++) {
        const rg__proposal_host *host = &l->decided->host[i];
        if (may_hold_more(l, host->id, host->name))
            add_name(names, host->name, &n);
    }
    add_count(names, n - NAMES_MAX);
    return n;
}

/* No host of it says how it stands; it may be training, cut off from etcd. */
static bool is_world_out_of_sight(const look *l)
{
    int unseen = 0;
    for (int i = 0; l->decided != NULL && i < l->decided->host_count; i++) {
        const rg__proposal_host *host = &l->decided->host[i];
        if (rg__snapshot_host(l->s, host->id) != NULL && !is_lost(l, host->id))
            return false;
        unseen += may_come_back(l, host->id, host->name);
    }
    return unseen > 0;
}

static rg_status wait_for_world(const look *l)
{
    rg__plan_free(l->plan);
    l->plan->line = (rg__line){0};
    count_away(l, l->plan->awaited);
    l->plan->kind = has_waited(l, &l->clock->world_ns, l->c->elastic_timeout_ns)
                        ? RG__PLAN_LEAVE
                        : RG__PLAN_WAIT;
    return RG_OK;
}

/* -------------------------------------------------------------- below --min */

/* Slots that were given up for good leave too few for --min. A host of the
 * world whose lease has ended has those that it had. */
static bool is_hopeless(const look *l)
{
    int open = 0;
    const rg__host_record *failed = NULL;
    for (int i = 0; i < l->s->hosts; i++) {
        const rg__host_record *host = &l->s->host[i];
        open += host->is_gone ? 0 : host->open;
        if (host->failed[0] != '\0')
            failed = host;
    }
    for (int r = 0; l->decided != NULL && r < l->decided->size; r++) {
        const uint64_t id = l->decided->member[r].host;
        open += rg__snapshot_host(l->s, id) == NULL &&
                may_come_back(l, id, host_name(l->decided, id));
    }
    if (failed == NULL || open >= l->c->min)
        return false;
    l->plan->kind = RG__PLAN_GIVE_UP;
    l->plan->failed = failed;
    return true;
}

static rg_status wait_below_min(const look *l)
{
    if (is_hopeless(l))
        return RG_OK;
    if (is_world_out_of_sight(l))
        return wait_for_world(l);
    if (has_waited(l, &l->clock->below_min_ns, l->c->elastic_timeout_ns))
        l->plan->kind = RG__PLAN_GIVE_UP;
    return RG_OK;
}

/* For so many workers, or for --min after --start-timeout. */
static rg_status plan_first(const look *l, members *list, int wanted)
{
    if (is_hopeless(l))
        return RG_OK;
    l->plan->wanted = wanted;
    const bool is_complete =
        list->n >= wanted ||
        has_waited(l, &l->clock->forming_ns, l->c->start_timeout_ns);
    if (!is_complete || list->n < l->c->min)
        return l->plan->look_again_ns == 0 ? wait_below_min(l) : RG_OK;
    l->clock->below_min_ns = 0;
    return propose(l, list);
}

/* On that host, at the door or in p. */
static int count_slots(const members *list, const rg__proposal *p,
                       uint64_t host)
{
    int n = 0;
    for (int i = 0; i < list->n; i++)
        n += list->id[i].host == host;
    for (int i = 0; i < p->size; i++)
        n += p->member[i].host == host &&
             !has_slot(list, host, p->member[i].slot);
    return n;
}

/* Workers that are at the door, and those of a first world that never began,
 * which start again where their hosts are here. */
static int count_coming(const look *l, const members *list,
                        const rg__proposal *p)
{
    int n = 0;
    for (int i = 0; i < l->s->hosts; i++) {
        const rg__host_record *host = &l->s->host[i];
        const int can = count_slots(list, p, host->id);
        if (may_host_members(l, host->id))
            n += can < host->open ? can : host->open;
    }
    return n < l->c->max ? n : l->c->max;
}

/* Members on a living host would learn of a lost one from the next proposal,
 * which waits for them here: so they are told now. */
static rg_status plan_again(const look *l, members *list, const rg__proposal *p)
{
    if (l->decided != NULL &&
        find_reason(l->s, l->decided->generation) == NULL) {
        l->plan->ends = l->decided->generation;
        find_cause(l, list, l->plan->cause);
    }
    return plan_first(l, list, count_coming(l, list, p));
}

/* ------------------------------------------------------------------ leaving */

/* No host is left that can go on or come back; one without slots can do
 * neither. A host that is alone leaves by itself, unless a notice takes it:
 * then the job is stopped, not done. */
static bool do_all_leave(const look *l)
{
    int leaving = 0, noticed = 0, idle = 0;
    for (int i = 0; i < l->s->hosts; i++) {
        const rg__host_record *host = &l->s->host[i];
        if (host->is_gone)
            continue;
        if (!host->is_draining && host->slots > 0)
            return false;
        leaving += host->is_draining;
        idle += host->slots == 0;
        noticed += host->is_draining && host->notice_ms != 0;
    }
    for (int i = 0; i < l->decided->host_count; i++) {
        const rg__proposal_host *host = &l->decided->host[i];
        if (rg__snapshot_host(l->s, host->id) == NULL &&
            may_come_back(l, host->id, host->name))
            return false;
    }
    return leaving > 1 || noticed > 0 || (leaving > 0 && idle > 0);
}

/* Hosts that have a notice at the same time leave in one change, so the first
 * waits for others as long as its own time allows. */
static uint64_t last_call_ns(const look *l)
{
    uint64_t ns = UINT64_MAX;
    for (int i = 0; i < l->s->hosts; i++) {
        const rg__host_record *host = &l->s->host[i];
        const uint64_t its_ns = (uint64_t)host->notice_ms * MS_NS;
        if (host->is_draining && !host->is_gone && its_ns < ns)
            ns = its_ns;
    }
    return ns != UINT64_MAX && ns > l->c->last_call_ns ? ns
                                                       : l->c->last_call_ns;
}

static bool stops(const look *l)
{
    if (!do_all_leave(l))
        return false;
    if (has_waited(l, &l->clock->newcomer_ns, last_call_ns(l)) &&
        !l->s->stop.is_set)
        l->plan->kind = RG__PLAN_STOP; /* once: a step may still be ending */
    return true;
}

/* ---------------------------------------------------------------- launches
 *
 * Under --mpi all workers are ranks of one mpirun, so none can be replaced
 * alone. A launch that has lost one of them, or its mpirun, or a host, is over:
 * each host ends what it has of it and says when nothing is left. The next one
 * begins when all have said so, and its ranks are proposed when all of them are
 * at the door, by rank of MPI_COMM_WORLD. */

#define LAUNCHES_IN_VAIN 5
#define VAIN_NS                                                                \
    (250 * MS_NS) /* before the third; then longer and
                                          longer */

/* The host that had a seat, or ran mpirun, does not have it any more. */
static bool is_host_dead(const look *l, uint64_t id, const char *name)
{
    return is_lost(l, id) || rg__snapshot_is_other(l->s, name, id);
}

static const rg__proposal *world_of_launch(const look *l)
{
    const rg__proposal *p = rg__snapshot_gen(l->s, l->s->cur.generation);
    return p != NULL && p->launch == l->s->mpirun.number ? p : NULL;
}

static bool is_host_of_launch_dead(const look *l, char why[RG__CAUSE_MAX])
{
    const rg__mpirun *run = &l->s->mpirun;
    for (int r = 0; r < run->size; r++)
        if (is_host_dead(l, run->seat[r].host, run->seat[r].name)) {
            name_loss(l, run->seat[r].host, run->seat[r].name, why);
            return true;
        }
    if (is_lost(l, run->by))
        snprintf(why, RG__CAUSE_MAX, "the host that ran mpirun is lost");
    return is_lost(l, run->by);
}

static const rg__host_record *find_breaker(const look *l)
{
    const rg__host_record *found = NULL;
    for (int i = 0; i < l->s->hosts; i++) {
        const rg__host_record *host = &l->s->host[i];
        if (host->broke >= l->s->mpirun.number &&
            (found == NULL || host->broke_by > found->broke_by))
            found = host;
    }
    return found;
}

/* The first cause among all that hosts report: one loss takes the rest along,
 * and each host sees its own part first. */
static bool find_first_cause(const look *l, char why[RG__CAUSE_MAX],
                             bool *is_excused_p)
{
    const rg__host_record *host = find_breaker(l);
    *is_excused_p = is_host_of_launch_dead(l, why);
    if (*is_excused_p || host == NULL)
        return *is_excused_p;
    snprintf(why, RG__CAUSE_MAX, "%s", host->broke_why);
    *is_excused_p = host->broke_by == RG__BROKE_BY_OTHERS;
    return true;
}

/* With ULFM the ranks of a world that has lost others go on in place, if at
 * least --min are left. Not when a host goes: its loss ends mpirun, and its
 * wish to leave ends the launch. */
static bool goes_on_in_place(const look *l)
{
    const rg__proposal *p = l->decided;
    if (!l->c->is_ulfm || p == NULL || p->launch != l->s->mpirun.number)
        return false;
    for (int i = 0; i < p->host_count; i++)
        if (!may_host_members(l, p->host[i].id))
            return false;
    return p->size - count_dead(l, p) >= l->c->min;
}

static bool is_launch_broken(const look *l, char why[RG__CAUSE_MAX])
{
    const rg__proposal *p = world_of_launch(l);
    bool is_excused;
    if (find_first_cause(l, why, &is_excused))
        return true;
    if (!is_broken(l, p) || goes_on_in_place(l))
        return false;
    const rg__reason *reason = find_reason(l->s, p->generation);
    snprintf(why, RG__CAUSE_MAX, "%s",
             reason != NULL ? reason->text : "a rank has died");
    return true;
}

static rg_status copy_seats(const rg__seat *from, int n, rg__seat **seat_p)
{
    *seat_p = calloc((size_t)n, sizeof **seat_p);
    if (*seat_p == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a launch");
    memcpy(*seat_p, from, sizeof **seat_p * (size_t)n);
    return RG_OK;
}

static rg_status end_launch(const look *l, const char *why)
{
    char first[RG__CAUSE_MAX];
    bool is_excused;
    l->plan->launch = l->s->mpirun;
    l->plan->launch.is_over = true;
    if (find_first_cause(l, first, &is_excused) && is_excused)
        l->plan->launch.excused = l->s->mpirun.number;
    snprintf(l->plan->launch.why, sizeof l->plan->launch.why, "%s", why);
    l->plan->kind = RG__PLAN_LAUNCH;
    return copy_seats(l->s->mpirun.seat, l->s->mpirun.size,
                      &l->plan->launch.seat);
}

static bool add_rank(const look *l, const rg__seat *seat, members *list)
{
    const rg__host_record *host = rg__snapshot_host(l->s, seat->host);
    const rg__slot_record *slot =
        host != NULL ? find_slot(host, seat->slot) : NULL;
    if (slot == NULL || !slot->is_alive || !slot->is_at_door)
        return false;
    add(list, (rg__member_id){seat->host, seat->slot, slot->start});
    return true;
}

/* Its ranks come to the door, each in the seat that it was given. */
static rg_status await_ranks(const look *l)
{
    const rg__mpirun *run = &l->s->mpirun;
    members list = {.max = run->size};
    char why[RG__CAUSE_MAX];
    rg_status st = RG_OK;
    if (l->clock->launch != run->number) {
        l->clock->launch = run->number;
        l->clock->launch_ns = 0;
    }
    list.id = calloc((size_t)run->size, sizeof *list.id);
    if (list.id == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a proposal");
    for (int r = 0; r < run->size && list.n == r; r++)
        add_rank(l, &run->seat[r], &list);
    snprintf(why, sizeof why,
             "rank %d has not called rg_init within --launch-timeout", list.n);
    if (list.n == run->size)
        st = propose(l, &list);
    else if (has_waited(l, &l->clock->launch_ns, l->c->launch_timeout_ns))
        st = end_launch(l, why);
    free(list.id);
    return st;
}

static bool is_swept(const look *l)
{
    const rg__mpirun *run = &l->s->mpirun;
    char *names = l->plan->unswept;
    int n = 0;
    for (int i = 0; i < l->s->hosts; i++) {
        const rg__host_record *host = &l->s->host[i];
        if (!host->is_gone && !is_lost(l, host->id) &&
            host->swept < run->number)
            add_name(names, host->name, &n);
    }
    for (int r = 0; r < run->size; r++) {
        const rg__seat *seat = &run->seat[r];
        const bool is_same = r > 0 && run->seat[r - 1].host == seat->host;
        if (!is_same && rg__snapshot_host(l->s, seat->host) == NULL &&
            !is_host_dead(l, seat->host, seat->name))
            add_name(names, seat->name, &n); /* only its lease may have ended */
    }
    add_count(names, n - NAMES_MAX);
    return n == 0;
}

static bool is_seat_free(const look *l, const rg__seat *seat)
{
    const rg__host_record *host = rg__snapshot_host(l->s, seat->host);
    const rg__slot_record *slot =
        host != NULL ? find_slot(host, seat->slot) : NULL;
    return slot != NULL && slot->is_free && may_host_members(l, seat->host) &&
           !has_no_etcd(l, seat->host);
}

/* Seats of the next launch; name "": not taken yet. */
typedef struct seats {
    rg__seat *of;
    int n, max; /* taken; rooms */
} seats;

static bool has_seat(const seats *s, uint64_t host, uint32_t slot)
{
    for (int r = 0; r < s->max; r++)
        if (s->of[r].name[0] != '\0' && s->of[r].host == host &&
            s->of[r].slot == slot)
            return true;
    return false;
}

static void keep_seats(const look *l, seats *s)
{
    const rg__mpirun *run = &l->s->mpirun;
    for (int r = 0; r < run->size && r < s->max; r++)
        if (is_seat_free(l, &run->seat[r])) {
            s->of[r] = run->seat[r];
            s->n++;
        }
}

static void take_seat(seats *s, const rg__seat *seat)
{
    int r = 0;
    while (r < s->max && s->of[r].name[0] != '\0')
        r++;
    if (r == s->max || has_seat(s, seat->host, seat->slot))
        return;
    s->of[r] = *seat;
    s->n++;
}

static const rg__seat *find_twin(const seats *s, const rg__host_record *host)
{
    for (int r = 0; r < s->max; r++)
        if (s->of[r].name[0] != '\0' && s->of[r].host != host->id &&
            s->of[r].address.text[0] != '\0' &&
            strcmp(s->of[r].address.text, host->address.text) == 0)
            return &s->of[r];
    return NULL;
}

/* A host of an earlier launch keeps its address. mpirun could not tell another
 * host with that address apart, so that one leaves. (Before the first launch it
 * is not known which of them is wrong: generation/leader.c.) */
static bool is_refused(const look *l, const seats *s,
                       const rg__host_record *host)
{
    const bool may_have_ranks =
        l->s->mpirun.number != 0 && host->slot_count > 0;
    const rg__seat *twin = may_have_ranks ? find_twin(s, host) : NULL;
    if (twin == NULL)
        return false;
    if (!host->is_gone && !is_lost(l, host->id) &&
        !rg__snapshot_is_told_to_leave(l->s, host->name)) {
        l->plan->refused = host;
        snprintf(l->plan->twin, sizeof l->plan->twin, "%s", twin->name);
    }
    return true;
}

/* A rank whose seat is gone gets another, host by host: those of a dead host
 * stay together where another one has room for them. */
static void take_seats(const look *l, seats *s)
{
    for (int i = 0; i < l->s->hosts; i++) {
        const rg__host_record *host = &l->s->host[i];
        if (is_refused(l, s, host))
            continue;
        for (int k = 0; k < host->slot_count; k++) {
            rg__seat seat = {.host = host->id,
                             .slot = host->slot[k].slot,
                             .address = host->address,
                             .port = host->port};
            snprintf(seat.name, sizeof seat.name, "%s", host->name);
            if (is_seat_free(l, &seat))
                take_seat(s, &seat);
        }
    }
}

/* A smaller world closes ranks. */
static void close_ranks(seats *s)
{
    int n = 0;
    for (int r = 0; r < s->max; r++)
        if (s->of[r].name[0] != '\0')
            s->of[n++] = s->of[r];
}

/* Slots that are neither free nor given up: they will be free in a moment. */
static bool is_any_slot_coming(const look *l, const rg__host_record *host)
{
    int n = 0;
    for (int k = 0; k < host->slot_count; k++)
        n += host->slot[k].is_free;
    return may_host_members(l, host->id) && !has_no_etcd(l, host->id) &&
           n < host->open;
}

static bool is_any_host_coming(const look *l)
{
    for (int i = 0; i < l->s->hosts; i++)
        if (is_any_slot_coming(l, &l->s->host[i]))
            return true;
    return false;
}

/* Launches since the newest that has come to a world. */
static uint64_t count_vain(const look *l)
{
    return l->s->mpirun.number - (l->decided != NULL ? l->decided->launch : 0);
}

/* A passing cause, such as a takeover, must not use up all attempts. */
static bool pauses_for_launch(const look *l)
{
    const uint64_t vain = count_vain(l);
    if (l->clock->paused != l->s->mpirun.number) {
        l->clock->paused = l->s->mpirun.number;
        l->clock->pause_ns = 0;
    }
    return vain >= 2 &&
           !has_waited(l, &l->clock->pause_ns, VAIN_NS << (vain - 2));
}

/* true: it ends the job. */
static bool is_launching_in_vain(const look *l)
{
    const rg__mpirun *run = &l->s->mpirun;
    if (count_vain(l) < LAUNCHES_IN_VAIN)
        return false;
    l->plan->kind = RG__PLAN_LAUNCH_FAILED;
    l->plan->code = find_code(l, run->number);
    snprintf(l->plan->cause, sizeof l->plan->cause, "%s", run->why);
    return true;
}

/* A rank whose slot is free in a moment keeps it, even if there are spares. */
static bool is_any_seat_coming(const look *l)
{
    const rg__mpirun *run = &l->s->mpirun;
    for (int r = 0; r < run->size; r++) {
        const rg__host_record *host =
            rg__snapshot_host(l->s, run->seat[r].host);
        if (host != NULL && !is_seat_free(l, &run->seat[r]) &&
            is_any_slot_coming(l, host))
            return true;
    }
    return false;
}

static bool is_room_complete(const look *l, int n)
{
    if (n == l->c->max)
        return !is_any_seat_coming(l);
    return l->s->mpirun.number != 0
               ? !is_any_host_coming(l)
               : has_waited(l, &l->clock->forming_ns, l->c->start_timeout_ns);
}

static rg_status begin_launch(const look *l, seats *s)
{
    bool is_excused;
    close_ranks(s);
    l->plan->kind = RG__PLAN_LAUNCH;
    l->plan->launch = (rg__mpirun){.number = l->s->mpirun.number + 1,
                                   .by = s->of[0].host,
                                   .seat = s->of,
                                   .size = s->n,
                                   .excused = l->s->mpirun.excused,
                                   .mod_revision = l->s->mpirun.mod_revision};
    memcpy(l->plan->launch.why, l->s->mpirun.why, RG__CAUSE_MAX);
    if (l->s->mpirun.number != 0)
        find_first_cause(l, l->plan->launch.why, &is_excused);
    s->of = NULL;
    l->clock->below_min_ns = 0;
    return RG_OK;
}

static rg_status plan_next_launch(const look *l)
{
    if (!is_swept(l) || is_launching_in_vain(l) || pauses_for_launch(l))
        return RG_OK;
    seats s = {.max = l->c->max};
    s.of = calloc((size_t)s.max, sizeof *s.of);
    if (s.of == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a launch");
    keep_seats(l, &s);
    take_seats(l, &s);
    l->plan->alive = s.n;
    l->plan->wanted = l->s->mpirun.number == 0 ? l->c->max : 0;
    rg_status st = RG_OK;
    const bool is_complete = is_room_complete(l, s.n);
    if (l->plan->refused != NULL)
        l->plan->kind = RG__PLAN_REFUSE;
    else if (is_hopeless(l))
        ;
    else if (is_complete && s.n >= l->c->min)
        st = begin_launch(l, &s);
    else if (l->plan->look_again_ns == 0)
        st = wait_below_min(l);
    free(s.of);
    return st;
}

/* No world, or a broken one. */
static rg_status plan_launch(const look *l)
{
    return l->s->mpirun.number == 0 || l->s->mpirun.is_over
               ? plan_next_launch(l)
               : await_ranks(l);
}

/* The one that is formed again: the newest of those that wait, whatever change
 * was to follow it. NULL: there is none. */
static const rg__proposal *first_world(const look *l)
{
    const rg__proposal *p = rg__snapshot_gen(l->s, l->s->cur.generation);
    if (p == NULL || !p->is_awaited)
        p = l->decided;
    return l->is_first && p != NULL && p->is_awaited ? p : NULL;
}

/* And has had a world, which goes on in place: the launch is not over. */
static bool is_launched(const look *l)
{
    return !l->s->mpirun.is_over && goes_on_in_place(l);
}

static rg_status plan_broken(const look *l, members *list)
{
    const rg__proposal *first = first_world(l);
    if (l->decided != NULL && stops(l))
        return RG_OK;
    if (l->c->is_mpi && !is_launched(l))
        return plan_launch(l);
    if (first != NULL)
        return plan_again(l, list, first);
    if (list->n < l->c->min)
        return wait_below_min(l);
    l->clock->below_min_ns = 0;
    return propose(l, list);
}

static rg_status plan_decided(const look *l, members *list)
{
    if (l->decided == NULL)
        return RG_OK; /* its records are gone or malformed */
    if (is_broken(l, l->decided))
        return plan_broken(l, list);
    if (have_all_finished(l->s, l->decided)) {
        l->plan->kind = RG__PLAN_DONE;
        return RG_OK;
    }
    if (is_world_out_of_sight(l))
        return wait_for_world(l);
    if (stops(l) || l->c->is_mpi)
        return RG_OK;
    const int leaving = count_leaving(l, l->decided) + count_surplus(l);
    if (count_new(list, l->decided) + leaving == 0 ||
        has_member_without_etcd(l, l->decided) || list->n < l->c->min ||
        list->n == 0) {
        l->clock->newcomer_ns = 0;
        return RG_OK;
    }
    if (!has_waited(l, &l->clock->newcomer_ns, last_call_ns(l)))
        return RG_OK;
    l->clock->newcomer_ns = 0;
    return propose(l, list);
}

/* Members go on in g until it ends a step, which it never will: a host of it is
 * lost, and no published reason tells them. */
static bool is_held_up(const look *l, const rg__proposal *p)
{
    if (!p->is_announced || l->decided == NULL)
        return false;
    for (int i = 0; i < l->decided->host_count; i++)
        if (is_lost(l, l->decided->host[i].id))
            return true;
    return false;
}

static bool has_any_ack(const rg__snapshot *s, uint64_t generation)
{
    for (int i = 0; i < s->acks; i++)
        if (s->ack[i].generation == generation)
            return true;
    return false;
}

static void shut_out_late(const look *l, const rg__proposal *p)
{
    for (int i = 0; i < l->s->hosts; i++)
        if (!has_acked(l->s, p->generation, l->s->host[i].id))
            rg__shut_out_add(l->clock, l->s->host[i].id, l->now_ns);
    for (int i = 0; i < p->host_count; i++)
        if (!has_acked(l->s, p->generation, p->host[i].id))
            rg__shut_out_add(l->clock, p->host[i].id, l->now_ns);
}

/* All of the world have acked: they have left it, and wait. */
static bool does_world_stand(const look *l, const rg__proposal *p)
{
    for (int i = 0; l->decided != NULL && i < l->decided->host_count; i++) {
        const rg__proposal_host *host = &l->decided->host[i];
        if (!is_lost(l, host->id) &&
            !rg__snapshot_is_other(l->s, host->name, host->id) &&
            !has_acked(l->s, p->generation, host->id))
            return false;
    }
    return l->decided != NULL;
}

/* Hosts that have not acked for so long are held up by something unknown: the
 * next look leaves them out, if there are others. Members may compute for long
 * before they leave for an announced change; newcomers only wait. */
static void mind_the_late(const look *l, const rg__proposal *p)
{
    if (l->clock->proposed != p->generation) {
        l->clock->proposed = p->generation;
        l->clock->proposed_ns = l->clock->stand_ns = 0;
    }
    const bool is_late =
        does_world_stand(l, p)
            ? has_waited(l, &l->clock->stand_ns, l->c->newcomer_timeout_ns)
            : (!p->is_announced || is_broken(l, l->decided)) &&
                  has_waited(l, &l->clock->proposed_ns, l->c->ack_timeout_ns);
    if (!is_late || !has_any_ack(l->s, p->generation))
        return;
    shut_out_late(l, p);
    l->plan->look_again_ns = 1;
}

/* If etcd answers a newcomer only now and then, all would wait each time. */
static void shut_out_no_etcd(const look *l, const rg__proposal *p)
{
    for (int i = 0; i < p->host_count; i++)
        if (has_no_etcd(l, p->host[i].id) &&
            find_host(l->decided, p->host[i].id) == NULL)
            rg__shut_out_add(l->clock, p->host[i].id, l->now_ns);
}

/* No event marks the end of a shut-out. */
static void look_at_its_end(const look *l)
{
    for (int i = 0; i < l->clock->shut_outs; i++) {
        const uint64_t until = l->clock->shut_out[i].until_ns;
        if (until <= l->now_ns)
            continue;
        const uint64_t left = until - l->now_ns;
        if (l->plan->look_again_ns == 0 || left < l->plan->look_again_ns)
            l->plan->look_again_ns = left;
    }
}

void rg__plan_free(rg__plan *plan)
{
    rg__proposal_free(&plan->proposal);
    rg__line_free(&plan->line);
    free(plan->launch.seat);
    plan->launch.seat = NULL;
}

bool rg__plan_is_here(const rg__snapshot *snap, uint64_t host)
{
    return find_host(rg__snapshot_decided(snap), host) == NULL ||
           (snap->cur.phase == RG__GEN_PROPOSED &&
            has_acked(snap, snap->cur.generation, host));
}

void rg__plan_leave_out(rg__plan_clock *clock, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t *since[] = {
        &clock->forming_ns, &clock->newcomer_ns, &clock->below_min_ns,
        &clock->back_ns,    &clock->world_ns,    &clock->proposed_ns,
        &clock->stand_ns,   &clock->launch_ns,   &clock->pause_ns};
    for (size_t i = 0; i < sizeof since / sizeof *since; i++)
        if (*since[i] != 0)
            *since[i] += to_ns - (*since[i] > from_ns ? *since[i] : from_ns);
}

/* A proposal that was never decided is not a world, and does not count. */
static bool is_in_later_world(const rg__snapshot *s, int g, uint64_t host)
{
    while (++g < s->gens)
        if (rg__resume_may_lie_in(s, &s->gen[g]) &&
            find_host(&s->gen[g], host) != NULL)
            return true;
    return false;
}

/* Hosts of all worlds that may hold parts, including hosts that have no record
 * and no place any more. */
static int count_holders_away(const look *l, char names[RG__CAUSE_MAX])
{
    const rg__snapshot *s = l->s;
    int n = 0;
    names[0] = '\0';
    for (int g = s->gens - 1; g >= 0; g--) {
        const rg__proposal *p = &s->gen[g];
        for (int i = 0; rg__resume_may_lie_in(s, p) && i < p->host_count; i++)
            if (!is_in_later_world(s, g, p->host[i].id) &&
                may_hold_more(l, p->host[i].id, p->host[i].name))
                add_name(names, p->host[i].name, &n);
    }
    add_count(names, n - NAMES_MAX);
    return n;
}

/* A host of such a world, or else any other. */
static bool is_anybody_away(const look *l, char names[RG__CAUSE_MAX])
{
    int n = count_holders_away(l, names);
    for (int i = 0; n == 0 && i < l->s->hosts; i++)
        if (may_hold_more(l, l->s->host[i].id, l->s->host[i].name))
            add_name(names, l->s->host[i].name, &n);
    return n > 0;
}

/* Is the decision older than what may have been committed? It has no commit
 * (the job ends, or a checkpoint counts), or one before the world's own. */
static bool does_go_back(const look *l)
{
    const rg__line *line = &l->plan->line;
    return (line->resume.generation == 0 && l->s->begun != 0) ||
           rg__resume_goes_back(l->s, line);
}

/* If something is whole without them, going on costs some steps; if nothing is,
 * they are waited for as long as for the world. */
static uint64_t wait_for_parts(const look *l)
{
    const bool is_all_lost = l->plan->kind == RG__PLAN_STATE_LOST;
    return is_all_lost && l->c->elastic_timeout_ns > l->c->comeback_ns
               ? l->c->elastic_timeout_ns
               : l->c->comeback_ns;
}

/* All awaited hosts have acked. If the commit would go back, hosts that are
 * away have time to return with what they hold; only then are steps lost. */
static rg_status decide_or_wait(const look *l, const rg__proposal *p)
{
    char names[RG__CAUSE_MAX] = "";
    const rg_status st = decide(l, p);
    if (st != RG_OK)
        return st;
    if (l->s->begun != 0 && l->decided != NULL && count_away(l, names) > 0 &&
        !rg__resume_has_holder(l->s, p->generation))
        return wait_for_world(l);
    if (does_go_back(l) && l->decided != NULL && is_anybody_away(l, names) &&
        !has_waited(l, &l->clock->back_ns, wait_for_parts(l))) {
        rg__plan_free(l->plan);
        l->plan->line = (rg__line){0};
        l->plan->kind = RG__PLAN_WAIT;
        l->plan->awaits_parts = true;
        snprintf(l->plan->awaited, sizeof l->plan->awaited, "%s", names);
        return RG_OK;
    }
    l->clock->back_ns = 0;
    return RG_OK;
}

static rg_status plan_proposed(const look *l, members *list)
{
    const rg__proposal *p = rg__snapshot_gen(l->s, l->s->cur.generation);
    if (p == NULL)
        return RG_OK;
    if (l->decided != NULL && !is_broken(l, l->decided) &&
        have_all_finished(l->s, l->decided)) {
        l->plan->kind = RG__PLAN_DONE;
        return RG_OK;
    }
    if (waits_for_no_etcd(l, p))
        shut_out_no_etcd(l, p);
    if (is_broken(l, p) || waits_for_no_etcd(l, p))
        return plan_broken(l, list);
    if (have_all_acked(l, p))
        return decide_or_wait(l, p);
    if (is_held_up(l, p))
        return plan_broken(l, list);
    if (!is_broken(l, l->decided) && is_world_out_of_sight(l))
        return wait_for_world(l);
    mind_the_late(l, p);
    return RG_OK;
}

/* A decided world is the only one. Its hosts leave for good when their ranks
 * have ended well; any other end that they can report ends the job. */
static rg_status plan_static(const look *l)
{
    int left = 0, here = 0;
    for (int i = 0; i < l->decided->host_count; i++) {
        const uint64_t id = l->decided->host[i].id;
        const rg__host_record *host = rg__snapshot_host(l->s, id);
        left += host != NULL && host->is_gone;
        here += host != NULL && !is_lost(l, id);
    }
    if (left == l->decided->host_count)
        l->plan->kind = RG__PLAN_DONE;
    else if (here == 0)
        return wait_below_min(l);
    return RG_OK;
}

/* By what ranks said the launch is over, but a host of it turns out to be lost,
 * or its MPI killed: then no rank is to blame for its death. */
static bool is_to_be_excused(const look *l, char why[RG__CAUSE_MAX])
{
    const rg__mpirun *run = &l->s->mpirun;
    bool is_excused;
    return run->excused != run->number &&
           find_first_cause(l, why, &is_excused) && is_excused;
}

static rg_status plan_phase(const look *l, members *list)
{
    char why[RG__CAUSE_MAX];
    const rg__mpirun *run = &l->s->mpirun;
    if (l->decided != NULL && is_static(l->s))
        return plan_static(l);
    if (run->number != 0 &&
        (run->is_over ? is_to_be_excused(l, why) : is_launch_broken(l, why)))
        return end_launch(l, why);
    switch (l->s->cur.phase) {
    case RG__GEN_NONE:
        if (l->c->is_mpi)
            return plan_launch(l);
        return plan_first(l, list, l->c->max);
    case RG__GEN_PROPOSED:
        return plan_proposed(l, list);
    case RG__GEN_DECIDED:
        return plan_decided(l, list);
    case RG__GEN_DONE:
        break;
    }
    return RG_OK;
}

rg_status rg__plan_make(const rg__snapshot *snap, const rg__plan_config *config,
                        uint64_t now_ns, rg__plan_clock *clock,
                        rg__plan *plan_p)
{
    *plan_p = (rg__plan){.kind = RG__PLAN_WAIT};
    look l = {.s = snap,
              .c = config,
              .decided = rg__snapshot_decided(snap),
              .now_ns = now_ns,
              .clock = clock,
              .plan = plan_p};
    if (snap->cur.phase == RG__GEN_DONE || snap->end.is_set)
        return RG_OK;
    rg__links_note_broken(clock, snap, now_ns);
    l.is_changing =
        is_broken(&l, l.decided) || snap->cur.phase == RG__GEN_PROPOSED;
    l.is_first =
        snap->begun == 0 && (l.decided == NULL || is_broken(&l, l.decided));
    if (!is_broken(&l, rg__snapshot_gen(snap, snap->cur.generation)) &&
        snap->cur.phase != RG__GEN_NONE)
        clock->forming_ns = 0; /* should it be formed again, so from then on */
    members list;
    rg_status st = find_candidates(&l, &list);
    if (st != RG_OK)
        return st;
    plan_p->alive = list.n;
    st = plan_phase(&l, &list);
    const bool awaits_world =
        plan_p->awaited[0] != '\0' && !plan_p->awaits_parts;
    if (!awaits_world && !is_world_out_of_sight(&l))
        clock->world_ns = 0; /* later newcomers do not lengthen it */
    look_at_its_end(&l);
    free(list.id);
    if (st != RG_OK)
        rg__plan_free(plan_p);
    return st;
}
