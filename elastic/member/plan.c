/* The leader's rules.
 *
 *   no generation      propose 1 when --max slots are at the door, or --min
 *                      after --start-timeout
 *   g decided          broken (a member is dead, or a reason is published):
 *                      propose g+1 of the living and of those at the door, as
 *                      soon as they are --min; newcomers at the door: propose
 *                      g+1, announced; all hosts finished: done
 *   g+1 proposed       a member of it died, or it broke: propose g+2; all
 *                      hosts acked: decide; announced, but the members of g
 *                      have finished: done
 *
 * Seniority: members keep the order of the generation decided last; who
 * replaced a member in its slot before a generation without it was decided
 * has inherited its place; newcomers come last, each host together. */
#include "elastic/member/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "sdk/base/fail.h"

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
    for (int i = 0; p != NULL && i < p->host_count; i++)
        if (p->host[i].id == id)
            return &p->host[i];
    return NULL;
}

static const char *host_name(const rg__proposal *p, uint64_t id)
{
    const rg__proposal_host *host = find_host(p, id);
    return host != NULL ? host->name : "?";
}

static bool name_has_other_id(const rg__snapshot *s, const char *name,
                              uint64_t id)
{
    for (int i = 0; i < s->hosts; i++)
        if (strcmp(s->host[i].name, name) == 0 && s->host[i].id != id)
            return true;
    return false;
}

/* A host whose record is gone may have lost only its lease: its workers count
 * as living until another incarnation bears its name. */
static bool is_alive(const rg__snapshot *s, const rg__proposal *p,
                     rg__member_id m)
{
    const rg__host_record *host = rg__snapshot_host(s, m.host);
    if (host == NULL)
        return !name_has_other_id(s, host_name(p, m.host), m.host);
    const rg__slot_record *slot = find_slot(host, m.slot);
    return slot != NULL && slot->is_alive && slot->start == m.start;
}

static int count_dead(const rg__snapshot *s, const rg__proposal *p)
{
    int n = 0;
    for (int i = 0; i < p->size; i++)
        n += !is_alive(s, p, p->member[i]);
    return n;
}

static const rg__reason *find_reason(const rg__snapshot *s, uint64_t generation)
{
    for (int i = 0; i < s->reasons; i++)
        if (s->reason[i].generation == generation)
            return &s->reason[i];
    return NULL;
}

static bool is_broken(const rg__snapshot *s, const rg__proposal *p)
{
    return p != NULL &&
           (find_reason(s, p->generation) != NULL || count_dead(s, p) > 0);
}

static bool have_all_finished(const rg__snapshot *s, const rg__proposal *p)
{
    int n = 0;
    for (int i = 0; i < s->fins; i++)
        n += s->fin[i].generation == p->generation;
    return n == p->host_count;
}

static bool has_acked(const rg__snapshot *s, uint64_t generation,
                      const char *host)
{
    for (int i = 0; i < s->acks; i++)
        if (s->ack[i].generation == generation &&
            strcmp(s->ack[i].host, host) == 0)
            return true;
    return false;
}

/* Every host with an agent acks, members or not: one without members has
 * workers to fence and a vault that counts. */
static bool have_all_acked(const rg__snapshot *s, const rg__proposal *p)
{
    for (int i = 0; i < p->host_count; i++)
        if (!has_acked(s, p->generation, p->host[i].name))
            return false;
    for (int i = 0; i < s->hosts; i++)
        if (!has_acked(s, p->generation, s->host[i].name))
            return false;
    return true;
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

static void add_senior(const rg__snapshot *s, const rg__proposal *decided,
                       rg__member_id m, members *list)
{
    if (is_alive(s, decided, m)) {
        add(list, m);
        return;
    }
    const rg__host_record *host = rg__snapshot_host(s, m.host);
    const rg__slot_record *replacement =
        host == NULL ? NULL : find_slot(host, m.slot);
    if (replacement != NULL && replacement->is_alive && replacement->is_at_door)
        add(list, (rg__member_id){m.host, m.slot, replacement->start});
}

static void add_newcomers(const rg__snapshot *s, members *list)
{
    for (int i = 0; i < s->hosts; i++) {
        const rg__host_record *host = &s->host[i];
        for (int k = 0; k < host->slot_count; k++) {
            const rg__slot_record *slot = &host->slot[k];
            if (slot->is_alive && slot->is_at_door)
                add(list, (rg__member_id){host->id, slot->slot, slot->start});
        }
    }
}

static rg_status find_candidates(const rg__snapshot *s,
                                 const rg__proposal *decided, int max,
                                 members *list)
{
    *list = (members){.max = max};
    list->id = calloc((size_t)max, sizeof *list->id);
    if (list->id == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a proposal");
    for (int i = 0; decided != NULL && i < decided->size; i++)
        add_senior(s, decided, decided->member[i], list);
    add_newcomers(s, list);
    return RG_OK;
}

/* How many of the list were not in p, by slot and start. */
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

/* ---------------------------------------------------------------- proposal */

static void random_op(char op[33])
{
    uint8_t bytes[16] = {0};
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(op + 2 * i, 3, "%02x", bytes[i]);
}

static bool add_proposal_host(const rg__snapshot *s, rg__proposal *p,
                              const rg__proposal *decided, uint64_t id)
{
    for (int i = 0; i < p->host_count; i++)
        if (p->host[i].id == id)
            return true;
    void *more =
        realloc(p->host, sizeof *p->host * (size_t)(p->host_count + 1));
    if (more == NULL)
        return false;
    p->host = more;
    rg__proposal_host *host = &p->host[p->host_count++];
    const rg__host_record *record = rg__snapshot_host(s, id);
    const rg__proposal_host *before = find_host(decided, id);
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

static uint32_t port_of(const rg__snapshot *s, const rg__proposal *decided,
                        rg__member_id id)
{
    const rg__host_record *record = rg__snapshot_host(s, id.host);
    const rg__slot_record *slot =
        record != NULL ? find_slot(record, id.slot) : NULL;
    if (slot != NULL)
        return slot->port;
    for (int r = 0; decided != NULL && r < decided->size; r++)
        if (rg__same_member(decided->member[r], id))
            return decided->port[r];
    return 0;
}

static void name_newcomer(const rg__snapshot *s, const members *list,
                          const rg__proposal *decided,
                          char cause[RG__CAUSE_MAX])
{
    for (int i = 0; i < list->n; i++) {
        const members one = {&list->id[i], 1, 1};
        if (count_new(&one, decided) == 0)
            continue;
        const rg__host_record *host = rg__snapshot_host(s, list->id[i].host);
        const int others = count_new(list, decided) - 1;
        const int n =
            snprintf(cause, RG__CAUSE_MAX, "%.63s.%u joined",
                     host != NULL ? host->name : "?", list->id[i].slot);
        if (others > 0 && n > 0 && n < RG__CAUSE_MAX)
            snprintf(cause + n, (size_t)(RG__CAUSE_MAX - n), " and %d more",
                     others);
        return;
    }
    snprintf(cause, RG__CAUSE_MAX, "the same members again");
}

static void find_cause(const rg__snapshot *s, const members *list,
                       const rg__proposal *decided, char cause[RG__CAUSE_MAX])
{
    if (decided == NULL) {
        snprintf(cause, RG__CAUSE_MAX, "first");
        return;
    }
    const rg__reason *reason = find_reason(s, decided->generation);
    if (reason == NULL && s->cur.phase == RG__GEN_PROPOSED)
        reason = find_reason(s, s->cur.generation);
    if (reason != NULL)
        snprintf(cause, RG__CAUSE_MAX, "%s", reason->text);
    else
        name_newcomer(s, list, decided, cause);
}

/* Takes the list's members. */
static rg_status propose(const rg__snapshot *s, const rg__proposal *decided,
                         members *list, rg__plan *plan)
{
    rg__proposal *p = &plan->proposal;
    p->generation = s->cur.generation + 1;
    p->from = decided != NULL ? decided->generation : 0;
    p->is_announced = decided != NULL && !is_broken(s, decided);
    random_op(p->op);
    find_cause(s, list, decided, p->cause);
    p->member = list->id;
    p->size = list->n;
    list->id = NULL;
    p->port = calloc((size_t)p->size + 1, sizeof *p->port);
    for (int i = 0; i < p->size; i++) {
        if (p->port == NULL ||
            !add_proposal_host(s, p, decided, p->member[i].host))
            return rg__fail(RG_ERR_MEMORY, "no memory for a proposal");
        p->port[i] = port_of(s, decided, p->member[i]);
    }
    plan->kind = RG__PLAN_PROPOSE;
    return RG_OK;
}

/* ---------------------------------------------------------------- decision */

static bool is_later(rg__commit_id a, rg__commit_id b)
{
    return a.generation != b.generation ? a.generation > b.generation
                                        : a.step > b.step;
}

/* Made in a decided generation, and not later than what any generation decided
 * after that one resumed from. */
static bool is_on_lineage(const rg__snapshot *s, rg__commit_id id)
{
    bool is_decided = false;
    for (int i = 0; i < s->lines; i++) {
        const rg__line *line = &s->line[i];
        is_decided = is_decided || line->generation == id.generation;
        if (line->generation > id.generation && is_later(id, line->resume))
            return false;
    }
    return is_decided;
}

rg__commit_id rg__plan_resume(const rg__snapshot *snap, uint64_t generation)
{
    rg__commit_id best = {0, 0};
    for (int i = 0; i < snap->acks; i++) {
        const rg__ack *ack = &snap->ack[i];
        for (int k = 0; ack->generation == generation && k < ack->count; k++)
            if (is_on_lineage(snap, ack->complete[k]) &&
                is_later(ack->complete[k], best))
                best = ack->complete[k];
    }
    return best;
}

static bool has_commit(const rg__snapshot *s, uint64_t generation,
                       const char *host, rg__commit_id id)
{
    for (int i = 0; i < s->acks; i++) {
        const rg__ack *ack = &s->ack[i];
        if (ack->generation != generation || strcmp(ack->host, host) != 0)
            continue;
        for (int k = 0; k < ack->count; k++)
            if (ack->complete[k].generation == id.generation &&
                ack->complete[k].step == id.step)
                return true;
    }
    return false;
}

/* The host behind `after` in the snapshot's order, in a circle, whose vault
 * holds the commit; with members in the world or without. */
static int next_holder(const rg__snapshot *s, uint64_t generation,
                       rg__commit_id id, int after)
{
    for (int i = 1; i <= s->hosts; i++) {
        const int k = (after + i) % s->hosts;
        if (has_commit(s, generation, s->host[k].name, id))
            return k;
    }
    return -1;
}

/* Every host of the world whose vault lacks the commit gets it from one that
 * holds it; holders take turns. */
static rg_status find_copies(const rg__snapshot *s, const rg__proposal *p,
                             rg__line *line)
{
    int holder = -1;
    line->copy = calloc((size_t)p->host_count + 1, sizeof *line->copy);
    if (line->copy == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a decision");
    for (int i = 0; i < p->host_count; i++) {
        if (has_commit(s, p->generation, p->host[i].name, line->resume))
            continue;
        holder = next_holder(s, p->generation, line->resume, holder);
        if (holder < 0)
            continue;
        const rg__host_record *from = &s->host[holder];
        line->copy[line->copies++] = (rg__copy){.to = p->host[i].id,
                                                .from = from->id,
                                                .address = from->address,
                                                .port = from->port};
    }
    return RG_OK;
}

static uint64_t most_steps(const rg__snapshot *s, uint64_t generation)
{
    uint64_t most = 0;
    for (int i = 0; i < s->acks; i++)
        if (s->ack[i].generation == generation && s->ack[i].step > most)
            most = s->ack[i].step;
    return most;
}

static rg_status decide(const rg__snapshot *s, const rg__proposal *p,
                        rg__plan *plan)
{
    const rg__proposal *before = rg__snapshot_gen(s, p->from);
    rg__line *line = &plan->line;
    line->generation = p->generation;
    line->prev = p->from;
    line->resume = rg__plan_resume(s, p->generation);
    line->from_size = before != NULL ? before->size : 0;
    line->to_size = p->size;
    const uint64_t most = most_steps(s, p->generation);
    line->steps_lost = most > line->resume.step ? most - line->resume.step : 0;
    snprintf(line->cause, sizeof line->cause, "%s", p->cause);
    line->source = line->resume.generation == 0 ? 0 : -1;
    plan->kind = RG__PLAN_DECIDE;
    return line->resume.generation == 0 ? RG_OK : find_copies(s, p, line);
}

/* -------------------------------------------------------------------- plan */

static bool has_waited(uint64_t *since_ns, uint64_t now_ns, uint64_t long_ns,
                       rg__plan *plan)
{
    if (*since_ns == 0)
        *since_ns = now_ns;
    const uint64_t waited = now_ns - *since_ns;
    if (waited >= long_ns)
        return true;
    plan->look_again_ns = long_ns - waited;
    return false;
}

static rg_status plan_first(const rg__snapshot *s, const rg__plan_config *c,
                            uint64_t now_ns, rg__plan_clock *clock,
                            members *list, rg__plan *plan)
{
    if (list->n < c->max &&
        (!has_waited(&clock->forming_ns, now_ns, c->start_timeout_ns, plan) ||
         list->n < c->min)) {
        if (plan->look_again_ns == 0 && has_waited(&clock->below_min_ns, now_ns,
                                                   c->elastic_timeout_ns, plan))
            plan->kind = RG__PLAN_GIVE_UP;
        return RG_OK;
    }
    clock->below_min_ns = 0;
    return propose(s, NULL, list, plan);
}

static rg_status plan_broken(const rg__snapshot *s, const rg__plan_config *c,
                             const rg__proposal *decided, uint64_t now_ns,
                             rg__plan_clock *clock, members *list,
                             rg__plan *plan)
{
    if (list->n >= c->min) {
        clock->below_min_ns = 0;
        return propose(s, decided, list, plan);
    }
    if (has_waited(&clock->below_min_ns, now_ns, c->elastic_timeout_ns, plan))
        plan->kind = RG__PLAN_GIVE_UP;
    return RG_OK;
}

static rg_status plan_decided(const rg__snapshot *s, const rg__plan_config *c,
                              const rg__proposal *decided, uint64_t now_ns,
                              rg__plan_clock *clock, members *list,
                              rg__plan *plan)
{
    if (is_broken(s, decided))
        return plan_broken(s, c, decided, now_ns, clock, list, plan);
    if (have_all_finished(s, decided)) {
        plan->kind = RG__PLAN_DONE;
        return RG_OK;
    }
    if (count_new(list, decided) == 0)
        clock->newcomer_ns = 0;
    else if (has_waited(&clock->newcomer_ns, now_ns, c->last_call_ns, plan)) {
        clock->newcomer_ns = 0;
        return propose(s, decided, list, plan);
    }
    return RG_OK;
}

static rg_status plan_proposed(const rg__snapshot *s, const rg__plan_config *c,
                               const rg__proposal *decided, uint64_t now_ns,
                               rg__plan_clock *clock, members *list,
                               rg__plan *plan)
{
    const rg__proposal *p = rg__snapshot_gen(s, s->cur.generation);
    if (p == NULL)
        return RG_OK;
    if (decided != NULL && !is_broken(s, decided) &&
        have_all_finished(s, decided)) {
        plan->kind = RG__PLAN_DONE;
        return RG_OK;
    }
    if (is_broken(s, p))
        return plan_broken(s, c, decided, now_ns, clock, list, plan);
    return have_all_acked(s, p) ? decide(s, p, plan) : RG_OK;
}

void rg__plan_free(rg__plan *plan)
{
    rg__proposal_free(&plan->proposal);
    rg__line_free(&plan->line);
}

rg_status rg__plan_make(const rg__snapshot *snap, const rg__plan_config *config,
                        uint64_t now_ns, rg__plan_clock *clock,
                        rg__plan *plan_p)
{
    *plan_p = (rg__plan){.kind = RG__PLAN_WAIT};
    const rg__proposal *decided = rg__snapshot_decided(snap);
    if (snap->cur.phase == RG__GEN_DONE || snap->end.is_set ||
        (decided != NULL && is_static(snap)))
        return RG_OK;
    members list;
    rg_status st = find_candidates(snap, decided, config->max, &list);
    if (st != RG_OK)
        return st;
    plan_p->alive = list.n;
    switch (snap->cur.phase) {
    case RG__GEN_NONE:
        st = plan_first(snap, config, now_ns, clock, &list, plan_p);
        break;
    case RG__GEN_PROPOSED:
        st = plan_proposed(snap, config, decided, now_ns, clock, &list, plan_p);
        break;
    case RG__GEN_DECIDED:
        st = plan_decided(snap, config, decided, now_ns, clock, &list, plan_p);
        break;
    case RG__GEN_DONE:
        break;
    }
    free(list.id);
    if (st != RG_OK)
        rg__plan_free(plan_p);
    return st;
}
