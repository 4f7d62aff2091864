/* The leader's part: any agent can have it, by the key cur/leader under its
 * lease, whose create_revision is the token that guards every act. A look is
 * one linearizable read of the job's keys, the rules of member/plan.c, and one
 * CAS; whatever happened meanwhile only fails the CAS, and the next look sees
 * it. */
#include "elastic/agent/inside.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"

#define LAST_CALL_NS     (20 * RG__MS)
#define KEEP_GENERATIONS 8 /* proposals, acks and reasons before the newest */

static void look_soon(agent *a)
{
    rg__leader_look(a);
}

/* -------------------------------------------------------------- competition */

static void on_competed(void *arg, rg_status st, const rg__txn_reply *reply)
{
    agent *a = arg;
    (void)reply; /* who won is in the mirror */
    a->is_competing = false;
    if (st != RG_OK)
        rg__agent_end(a, RG__EXIT_STORE, "%s", rg_last_error());
}

static void compete(agent *a)
{
    if (a->is_competing)
        return;
    char *key = rg__record_key(a->prefix, "all/leader", 0, NULL);
    char *text = rg__leader_text(a->params->host, a->id);
    rg__txn *txn = rg__txn_create();
    if (key != NULL && text != NULL && txn != NULL) {
        rg__txn_if_create(txn, key, 0);
        rg__txn_put(txn, RG__THEN, key, text, rg__lease_id(a->lease));
        a->is_competing = true;
        rg__etcd_txn(a->etcd, txn, on_competed, a);
    }
    free(key);
    free(text);
}

/* ---------------------------------------------------------------------- act */

static void on_acted(void *arg, rg_status st, const rg__txn_reply *reply)
{
    agent *a = arg;
    (void)reply; /* refused: the next look sees why */
    a->looking = NULL;
    if (st != RG_OK)
        rg__agent_end(a, RG__EXIT_STORE, "%s", rg_last_error());
    else if (!reply->succeeded || a->look_again)
        look_soon(a);
}

static void put(rg__txn *txn, const agent *a, const char *what,
                uint64_t generation, char *text)
{
    char *key = rg__record_key(a->prefix, what, generation, NULL);
    if (key != NULL && text != NULL)
        rg__txn_put(txn, RG__THEN, key, text, 0);
    free(key);
    free(text);
}

/* A txn that applies only while we lead and nothing has moved on. */
static rg__txn *guarded(const agent *a, const rg__snapshot *snap)
{
    rg__txn *txn = rg__txn_create();
    char *leader = rg__record_key(a->prefix, "all/leader", 0, NULL);
    char *cur = rg__record_key(a->prefix, "all/cur", 0, NULL);
    if (txn != NULL && leader != NULL && cur != NULL) {
        rg__txn_if_create(txn, leader, snap->leader_token);
        rg__txn_if_mod(txn, cur, snap->cur.mod_revision);
    }
    free(leader);
    free(cur);
    return txn;
}

static void add_proposal(rg__txn *txn, const agent *a, const rg__proposal *p)
{
    const rg__cur cur = {.generation = p->generation,
                         .phase = RG__GEN_PROPOSED};
    rg__failpoint("agent.propose", -1, 0, p->generation);
    put(txn, a, "all/gen", p->generation, rg__proposal_text(p));
    put(txn, a, "all/cur", 0, rg__cur_text(&cur));
}

static void collect_garbage(rg__txn *txn, const agent *a, const rg__line *line)
{
    static const char *const kinds[] = {"all/gen", "all/ev", "lead/ack",
                                        "lead/fin"};
    if (line->generation <= KEEP_GENERATIONS)
        return;
    uint64_t first = line->generation - KEEP_GENERATIONS;
    if (line->prev < first)
        first = line->prev;
    for (size_t i = 0; first > 0 && i < sizeof kinds / sizeof *kinds; i++) {
        char *from = rg__record_key(a->prefix, kinds[i], 1, NULL);
        char *to = rg__record_key(a->prefix, kinds[i], first, NULL);
        if (from != NULL && to != NULL && first > 1)
            rg__txn_delete(txn, RG__THEN, from, to);
        free(from);
        free(to);
    }
}

static void add_decision(rg__txn *txn, const agent *a, const rg__plan *plan)
{
    const rg__cur cur = {.generation = plan->line.generation,
                         .phase = RG__GEN_DECIDED};
    rg__line line = plan->line;
    struct timespec t;
    rg__failpoint("agent.decide", -1, line.resume.step, line.generation);
    clock_gettime(CLOCK_REALTIME, &t);
    line.at_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    put(txn, a, "all/cur", 0, rg__cur_text(&cur));
    put(txn, a, "all/line", line.generation, rg__line_text(&line));
    collect_garbage(txn, a, &line);
}

static void add_done(rg__txn *txn, const agent *a, const rg__snapshot *snap)
{
    rg__cur cur = snap->cur;
    cur.phase = RG__GEN_DONE;
    rg__failpoint("agent.done", -1, 0, cur.generation);
    put(txn, a, "all/cur", 0, rg__cur_text(&cur));
}

static void act(agent *a, const rg__snapshot *snap, const rg__plan *plan)
{
    if (plan->kind == RG__PLAN_WAIT) {
        if (plan->look_again_ns != 0)
            rg__timer_set(a->look_timer, plan->look_again_ns);
        if (a->look_again)
            look_soon(a);
        return;
    }
    if (plan->kind == RG__PLAN_GIVE_UP) {
        rg__agent_end(a, RG__EXIT_BELOW_MIN,
                      "%d workers are fewer than --min %d for longer than "
                      "--elastic-timeout; add hosts or lower --min",
                      plan->alive, a->params->min);
        return;
    }
    rg__txn *txn = guarded(a, snap);
    if (txn == NULL)
        return;
    if (plan->kind == RG__PLAN_PROPOSE)
        add_proposal(txn, a, &plan->proposal);
    else if (plan->kind == RG__PLAN_DECIDE)
        add_decision(txn, a, plan);
    else
        add_done(txn, a, snap);
    a->looking = rg__etcd_txn(a->etcd, txn, on_acted, a);
}

/* --------------------------------------------------------------------- look */

static void plan_and_act(agent *a, const rg__snapshot *snap)
{
    const rg__plan_config config = {
        .min = a->params->min,
        .max = a->params->max,
        .start_timeout_ns = a->params->start_timeout_ms * RG__MS,
        .elastic_timeout_ns = a->params->elastic_timeout_ms * RG__MS,
        .last_call_ns = LAST_CALL_NS};
    rg__plan plan;
    if (snap->leader != a->id ||
        rg__plan_make(snap, &config, rg__now_ns(), &a->clock, &plan) != RG_OK)
        return;
    act(a, snap, &plan);
    rg__plan_free(&plan);
}

static void on_snapshot(void *arg, rg_status st, const rg__txn_reply *reply)
{
    agent *a = arg;
    a->looking = NULL;
    if (st != RG_OK) {
        rg__agent_end(a, RG__EXIT_STORE, "%s", rg_last_error());
        return;
    }
    rg__snapshot snap;
    rg__snapshot_read(&snap, a->prefix, reply->kv, reply->kv_count);
    plan_and_act(a, &snap);
    rg__snapshot_free(&snap);
}

void rg__leader_look(void *agent_arg)
{
    agent *a = agent_arg;
    if (a->mirror == NULL || !rg__mirror_is_listed(a->mirror) || a->is_ending)
        return;
    if (a->view.leader == 0)
        compete(a);
    if (a->view.leader != a->id)
        return;
    a->look_again = true;
    if (a->looking != NULL)
        return;
    a->look_again = false;
    rg__txn *txn = rg__txn_create();
    if (txn == NULL)
        return;
    rg__txn_get(txn, RG__THEN, a->prefix, a->prefix_end);
    a->looking = rg__etcd_txn(a->etcd, txn, on_snapshot, a);
}
