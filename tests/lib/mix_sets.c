/* The sets of a mix: every rank knows the members of all of them. */
#include <string.h>

#include "tests/lib/mix_inside.h"

int mix_rank_in(const mix_team *t, int rank)
{
    for (int i = 0; i < t->n; i++)
        if (t->rank[i] == rank)
            return i;
    return -1;
}

static int slot_of(int team)
{
    return (team - 1) / MIX_COLORS;
}

rg_set *mix_set_of(const mix *m, int team)
{
    return team == 0 ? rg_world(m->params->ctx) : m->slot[slot_of(team)].set;
}

static void swap(int *a, int *b)
{
    const int c = *a;
    *a = *b;
    *b = c;
}

/* ------------------------------------------------------------------ making */

static void draw_list(mix *m, dice *d, mix_team *t)
{
    for (int i = 0; i < m->size; i++)
        t->rank[i] = i;
    for (int i = m->size - 1; i > 0; i--)
        swap(&t->rank[i], &t->rank[dice_roll(d, (uint64_t)i + 1)]);
    t->n = 1 + (int)dice_roll(d, (uint64_t)m->size);
}

static void sort_by_key(mix_team *t, const int *key)
{
    for (int i = 1; i < t->n; i++)
        for (int k = i; k > 0; k--)
            if (key[t->rank[k]] < key[t->rank[k - 1]])
                swap(&t->rank[k], &t->rank[k - 1]);
}

/* Colours of all ranks, and the teams that they make. */
static void draw_colors(mix *m, dice *d, rg__slot *s, mix_team *t,
                        const int *key)
{
    for (int r = 0; r < m->size; r++) {
        const int color = (int)dice_roll(d, MIX_COLORS + 1) - 1;
        s->color[r] = color;
        if (color != RG_NO_COLOR)
            t[color].rank[t[color].n++] = r;
    }
    for (int c = 0; c < MIX_COLORS; c++)
        sort_by_key(&t[c], key);
}

static int color_of(rg_ctx *ctx, void *arg)
{
    const rg__slot *s = arg;
    return s->color[rg_rank(ctx)];
}

static void claim_set(mix *m, rg__slot *s, int first)
{
    s->team = -1;
    for (int i = first; i < first + MIX_COLORS; i++) {
        const int rank = mix_rank_in(&m->team[i], m->me);
        if (rank < 0)
            continue;
        s->team = i;
        CHECK_EQ(rg_set_size(s->set), m->team[i].n);
        CHECK_EQ(rg_set_rank(s->set), rank);
    }
    if (s->team < 0)
        CHECK_EQ(rg_set_rank(s->set), -1);
}

typedef enum how { LIST, SPLIT, RULE } how;

static void make_as(mix *m, rg__slot *s, const mix_team *t, const int *key,
                    how made, const rg_set_params *params, rg_set **set_p)
{
    rg_ctx *ctx = m->params->ctx;
    if (made == LIST)
        CHECK_OK(rg_set_create(ctx, t->rank, t->n, params, set_p));
    else if (made == SPLIT)
        CHECK_OK(rg_set_split(ctx, s->color[m->me], key[m->me], params, set_p));
    else
        CHECK_OK(rg_set_create_by(ctx, color_of, s, params, set_p));
}

/* A set is found again by its name. */
static void make_set(mix *m, dice *d, int i)
{
    rg__slot *s = &m->slot[i];
    mix_team *t = &m->team[1 + i * MIX_COLORS];
    int key[MIX_MEMBERS] = {0};
    char name[32];
    const how made = (how)dice_roll(d, 3);
    const bool has_name = dice_once_in(d, 2), is_twice = dice_once_in(d, 3);
    const rg_set_params params = {.size = sizeof params,
                                  .name = has_name ? name : NULL};
    snprintf(name, sizeof name, "mixed %d", i);
    for (int r = 0; r < m->size && made == SPLIT; r++)
        key[r] = (int)dice_roll(d, 3);
    if (made == LIST)
        draw_list(m, d, t);
    else
        draw_colors(m, d, s, t, key);
    make_as(m, s, t, key, made, &params, &s->set);
    claim_set(m, s, 1 + i * MIX_COLORS);
    if (has_name && is_twice) {
        rg_set *again = NULL;
        make_as(m, s, t, key, made, &params, &again);
        CHECK(again == s->set);
    }
}

/* -------------------------------------------------------------- giving back */

static void drop(mix *m, int i)
{
    CHECK_OK(rg_set_destroy(m->slot[i].set));
    m->slot[i] = (rg__slot){0};
    memset(&m->team[1 + i * MIX_COLORS], 0, MIX_COLORS * sizeof(mix_team));
}

void mix_change_sets(mix *m, void (*quiet)(mix *m, int i))
{
    dice d = {dice_seed(m->seed, (uint64_t)(1000 + m->act))};
    for (int i = 0; i < MIX_SLOTS; i++) {
        const bool is_dropped = dice_once_in(&d, 2);
        const bool is_made = !dice_once_in(&d, 5);
        dice of_it = {dice_roll(&d, UINT64_MAX)};
        if (m->slot[i].set != NULL && is_dropped) {
            quiet(m, i);
            drop(m, i);
        }
        if (m->slot[i].set == NULL && is_made)
            make_set(m, &of_it, i);
    }
}

void mix_claim_ids(mix *m)
{
    rg_set *world = rg_world(m->params->ctx);
    uint32_t mine[MIX_SLOTS] = {0}, least[MIX_SLOTS], most[MIX_SLOTS];
    for (int i = 0; i < MIX_SLOTS; i++)
        if (m->slot[i].set != NULL)
            mine[i] = rg_set_id(m->slot[i].set);
    CHECK_OK(rg_allreduce(world, mine, least, MIX_SLOTS, RG_U32, RG_MIN));
    CHECK_OK(rg_allreduce(world, mine, most, MIX_SLOTS, RG_U32, RG_MAX));
    for (int i = 0; i < MIX_SLOTS; i++)
        CHECK(least[i] == mine[i] && most[i] == mine[i]);
}

void mix_drop_sets(mix *m)
{
    for (int k = 0; k < MIX_SLOTS; k++) {
        const int i = (k + m->me) % MIX_SLOTS;
        if (m->slot[i].set != NULL)
            drop(m, i);
    }
}
