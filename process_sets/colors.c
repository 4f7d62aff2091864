/* The workers of each colour: splits, and rules in each generation. */
#include <stdlib.h>

#include "process_sets/sets_parts.h"
#include "sdk/base/fail.h"

typedef struct shade {
    int32_t color, key, rank;
} shade;

/* By key, then by rank, since keys may be equal. */
static int compare_shades(const void *a, const void *b)
{
    const shade *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Sorts shades, and copies those of this rank's colour to member. */
static int pick(shade *all, const rg__membership *now, int color,
                rg__member_id *member)
{
    int n = 0;
    qsort(all, (size_t)now->size, sizeof *all, compare_shades);
    for (int i = 0; i < now->size && color >= 0; i++)
        if (all[i].color == color && all[i].rank >= 0 &&
            all[i].rank < now->size)
            member[n++] = now->member[all[i].rank];
    return n;
}

rg_status rg__color_members(rg_ctx *ctx, const char *what,
                            const rg__membership *now, int color, int key,
                            rg__member_id **member_p, int *n_p)
{
    const shade mine = {color, key, now->rank};
    const size_t size = now->size < 1 ? 1 : (size_t)now->size;
    shade *all = calloc(size, sizeof *all);
    rg__member_id *member = calloc(size, sizeof *member);
    rg_status st =
        all == NULL || member == NULL
            ? rg__fail(RG_ERR_MEMORY, "no memory for a set")
            : rg__world_gather(ctx, what, &mine, all, sizeof mine, (int)size);
    if (st == RG_OK) {
        *n_p = pick(all, now, color, member);
        *member_p = member;
        member = NULL;
    }
    free(member);
    free(all);
    return st;
}

/* -------------------------------------------------------------------- rules */

static const char applying[] = "applying the rules of sets";

typedef struct rule {
    uint32_t id;
    rg_color_fn fn;
    void *arg;
} rule;

/* The rules in the table, by id; *rules_p is owned by the caller. */
static int list_rules(rg__sets *sets, rule **rules_p)
{
    int n = 0, i = 0;
    pthread_mutex_lock(&sets->lock);
    for (const rg_set *s = sets->first; s != NULL; s = s->next)
        n += s->kind == RULE && !s->is_ended;
    rule *rules = calloc((size_t)n + 1, sizeof *rules);
    for (const rg_set *s = sets->first; s != NULL && rules != NULL; s = s->next)
        if (s->kind == RULE && !s->is_ended)
            rules[i++] = (rule){s->id, s->color, s->color_arg};
    pthread_mutex_unlock(&sets->lock);
    *rules_p = rules;
    return n;
}

static rg_status open_rule(rg_ctx *ctx, const rg__membership *now,
                           const rule *r, const rg__member_id *member, int n)
{
    rg_status st = RG_OK;
    pthread_mutex_lock(&ctx->sets->lock);
    rg_set *set = rg__set_find(ctx->sets, r->id);
    if (set != NULL)
        st = rg__set_replace(set, member, n);
    if (set != NULL && st == RG_OK)
        st = rg__set_open(set, now);
    if (set != NULL && st == RG_OK)
        set->opened = now->generation;
    pthread_mutex_unlock(&ctx->sets->lock);
    return st;
}

/* A newcomer gets the rule by rg_set_create_by, for which all ranks wait. */
static rg_status apply(rg_ctx *ctx, const rg__membership *now, const rule *r)
{
    static const uint64_t tag = UINT64_C(0x72756c6500000000); /* "rule" */
    const int64_t in[4] = {r->fn == NULL};
    int64_t out[4];
    rg_status st = rg__world_agree(ctx, applying, tag + r->id, in, out);
    if (st != RG_OK || out[0] != 0)
        return st;
    rg__member_id *member = NULL;
    int n = 0;
    st = rg__color_members(ctx, applying, now, r->fn(ctx, r->arg), 0, &member,
                           &n);
    if (st == RG_OK)
        st = open_rule(ctx, now, r, member, n);
    free(member);
    return st;
}

rg_status rg__color_apply_rules(rg_ctx *ctx, const rg__membership *now)
{
    rule *rules = NULL;
    const int n = list_rules(ctx->sets, &rules);
    rg_status st = rules == NULL
                       ? rg__fail(RG_ERR_MEMORY, "no memory for rules of sets")
                       : RG_OK;
    for (int i = 0; i < n && st == RG_OK; i++)
        st = apply(ctx, now, &rules[i]);
    free(rules);
    return st;
}
