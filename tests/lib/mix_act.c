/* An act is drawn alike by all ranks, event by event; of each event a rank
 * takes what is its own. Everything has a place in one order, m->at. */
#include <stdlib.h>

#include "tests/lib/mix_inside.h"

#define EVENTS 30
#define ROUNDS 5 /* until all have joined */
#define TRIED  3 /* sets of a group */

/* ------------------------------------------------------------------- items */

static lane *lane_of(mix *m, int team)
{
    const uint64_t seed = dice_seed(m->seed, (uint64_t)(m->act * 100 + m->me));
    return &m->lane[dice_seed(seed, (uint64_t)team) % (uint64_t)m->lanes];
}

static item *add_item(mix *m, lane *l, bool is_group)
{
    if (l->items == l->room) {
        l->room = l->room == 0 ? 32 : 2 * l->room;
        l->item = realloc(l->item, (size_t)l->room * sizeof *l->item);
        CHECK(l->item != NULL);
    }
    l->item[l->items] = (item){.at = m->at, .is_group = is_group};
    return &l->item[l->items++];
}

static entry *add_entry(mix *m, item *it, const mix_op *op, int team)
{
    entry *e = calloc(1, sizeof *e);
    CHECK(e != NULL && it->n < MIX_ATOM);
    e->run.op = *op;
    e->run.rank = mix_rank_in(&m->team[team], m->me);
    e->team = team;
    e->needs = m->at;
    snprintf(e->run.label, sizeof e->run.label,
             "seed %llu, act %d, at %llu, team %d", (unsigned long long)m->seed,
             m->act, (unsigned long long)m->at, team);
    it->entry[it->n++] = e;
    return e;
}

static int draw_team(const mix *m, dice *d)
{
    for (;;) {
        const int t = (int)dice_roll(d, MIX_TEAMS);
        if (m->team[t].n > 0)
            return t;
    }
}

static bool is_mine(const mix *m, int team)
{
    return mix_rank_in(&m->team[team], m->me) >= 0;
}

/* ------------------------------------------------------------------ events */

static void draw_single(mix *m, dice *d)
{
    const int t = draw_team(m, d);
    mix_op op;
    mix_op_draw(&op, d, m->team[t].n, m->params->most);
    if (is_mine(m, t))
        add_entry(m, add_item(m, lane_of(m, t), false), &op, t);
}

/* One member starts something else. */
static void draw_difference(mix *m, dice *d)
{
    const int t = draw_team(m, d), n = m->team[t].n;
    const int other = (int)dice_roll(d, (uint64_t)n);
    mix_op op;
    mix_op_draw(&op, d, n, m->params->most);
    if (!is_mine(m, t))
        return;
    entry *e = add_entry(m, add_item(m, lane_of(m, t), false), &op, t);
    if (n == 1)
        return;
    e->run.expected = RG_ERR_MISMATCH;
    if (e->run.rank == other)
        mix_op_vary(&e->run.op, d);
}

/* A group on several sets: each rank takes the sets in an order of its own, as
 * one group or as one for each set. */
typedef struct grouped {
    int team[TRIED], n; /* sets */
    mix_op op[MIX_ATOM];
    int of[MIX_ATOM], ops; /* which of the sets */
    int differs, other;    /* the operation that one member starts otherwise */
    dice vary;
} grouped;

static void draw_grouped(mix *m, dice *d, grouped *g)
{
    *g = (grouped){.n = 1 + (int)dice_roll(d, TRIED), .differs = -1};
    g->ops = 1 + (int)dice_roll(d, MIX_ATOM);
    for (int i = 0; i < g->n; i++)
        g->team[i] = draw_team(m, d);
    for (int i = 0; i < g->ops; i++) {
        g->of[i] = g->team[dice_roll(d, (uint64_t)g->n)];
        const int n = m->team[g->of[i]].n;
        if (dice_once_in(d, 3))
            mix_op_draw(&g->op[i], d, n, m->params->most / 8);
        else
            mix_op_draw_small(&g->op[i], d, n);
    }
    const int differs = (int)dice_roll(d, (uint64_t)g->ops);
    const int n = m->team[g->of[differs]].n;
    g->other = (int)dice_roll(d, (uint64_t)n);
    if (dice_once_in(d, 5) && m->params->may_differ && n > 1)
        g->differs = differs;
    g->vary = (dice){dice_roll(d, UINT64_MAX)};
}

static void take_team(mix *m, const grouped *g, int team, item *it)
{
    for (int i = 0; i < g->ops; i++) {
        if (g->of[i] != team)
            continue;
        entry *e = add_entry(m, it, &g->op[i], team);
        if (g->differs < 0 || g->of[g->differs] != team)
            continue;
        e->run.expected = RG_ERR_MISMATCH;
        dice d = g->vary;
        if (i == g->differs && e->run.rank == g->other)
            mix_op_vary(&e->run.op, &d);
    }
}

static bool has_team(const grouped *g, int team)
{
    for (int i = 0; i < g->ops; i++)
        if (g->of[i] == team)
            return true;
    return false;
}

static bool stands_before(const grouped *g, int i)
{
    for (int k = 0; k < i; k++)
        if (g->team[k] == g->team[i])
            return true;
    return false;
}

static void draw_group(mix *m, dice *d)
{
    grouped g;
    item *of_lane[MIX_LANES] = {0};
    draw_grouped(m, d, &g);
    const bool is_one = dice_once_in(&m->own, 2);
    const int turn = (int)dice_roll(&m->own, TRIED);
    for (int k = 0; k < g.n; k++) {
        const int i = (k + turn) % g.n, team = g.team[i];
        if (stands_before(&g, i) || !has_team(&g, team) || !is_mine(m, team))
            continue;
        lane *l = lane_of(m, team);
        const int number = (int)(l - m->lane);
        if (of_lane[number] == NULL || !is_one)
            of_lane[number] = add_item(m, l, true);
        take_team(m, &g, team, of_lane[number]);
    }
}

/* ------------------------------------------------------------------- joins */

typedef struct joining {
    int team, n;
    int limit[MIX_MEMBERS]; /* rounds before a member joins */
    int rounds, last;
} joining;

static unsigned joined_at(const joining *j, int round)
{
    unsigned joined = 0;
    for (int r = 0; r < j->n; r++)
        joined |= (unsigned)(j->limit[r] <= round) << r;
    return joined;
}

/* A joined rank takes part in allreduces only, with a prescale in sums only. */
static void draw_round(mix *m, dice *d, const joining *j, int round)
{
    const int ops = dice_once_in(d, 3) ? 1 + (int)dice_roll(d, 3) : 0;
    const unsigned joined = joined_at(j, round);
    const int rank = mix_rank_in(&m->team[j->team], m->me);
    const bool is_in = rank >= 0 && j->limit[rank] > round;
    item *it = is_in ? add_item(m, lane_of(m, j->team), ops > 0) : NULL;
    for (int i = 0; i < (ops > 0 ? ops : 1); i++) {
        mix_op op;
        mix_op_draw(&op, d, j->n, m->params->most / 8);
        if (ops > 0 || !dice_once_in(d, 6))
            op.kind = MIX_ALLREDUCE;
        if (joined != 0 && op.op != RG_SUM && op.op != RG_AVG)
            op.prescale = 0;
        op.joined = joined;
        if (!is_in)
            continue;
        entry *e = add_entry(m, it, &op, j->team);
        if (joined != 0 && op.kind != MIX_ALLREDUCE)
            e->run.expected = RG_ERR_MISMATCH;
    }
}

static void join_now(mix *m, const joining *j, uint64_t needs)
{
    const mix_op op = {.kind = MIX_JOIN, .n = j->n};
    item *it = add_item(m, lane_of(m, j->team), false);
    entry *e = add_entry(m, it, &op, j->team);
    e->needs = needs;
    e->run.expected_last = j->last;
}

static void draw_joining(mix *m, dice *d)
{
    joining j = {.team = draw_team(m, d)};
    j.n = m->team[j.team].n;
    for (int r = 0; r < j.n; r++) {
        j.limit[r] = (int)dice_roll(d, ROUNDS);
        if (j.limit[r] >= j.rounds)
            j.last = r;
        if (j.limit[r] > j.rounds)
            j.rounds = j.limit[r];
    }
    const int rank = mix_rank_in(&m->team[j.team], m->me);
    const uint64_t end = m->at + (uint64_t)j.rounds;
    for (int round = 0; round <= j.rounds; round++, m->at++) {
        if (rank >= 0 && j.limit[rank] == round)
            join_now(m, &j, end);
        if (round < j.rounds)
            draw_round(m, d, &j, round);
    }
}

/* ---------------------------------------------------------------- an act */

static void draw_event(mix *m, dice *d)
{
    const uint64_t what = dice_roll(d, 20);
    if (what == 0 && m->params->may_join)
        draw_joining(m, d);
    else if (what == 1 && m->params->may_differ)
        draw_difference(m, d);
    else if (what < 6)
        draw_group(m, d);
    else
        draw_single(m, d);
    m->at++;
}

void mix_draw_act(mix *m)
{
    const uint64_t seed = dice_seed(m->seed, (uint64_t)(2000 + m->act));
    for (uint64_t i = 0; i < EVENTS; i++) {
        dice d = {dice_seed(seed, i)};
        draw_event(m, &d);
    }
}
