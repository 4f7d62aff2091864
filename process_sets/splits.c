/* Splits after a change. Each rank knows the members of its own colour only, so
 * a table from elsewhere only shows that a split exists. Members compare what
 * they have: a rank that was left out of a generation, or lost the split while
 * it was made, has other members than the ranks that went on. Its set ends, and
 * so does that of every rank that counts it as a member. */
#include <stdlib.h>

#include "process_sets/sets_parts.h"
#include "sdk/base/fail.h"
#include "sdk/base/hash.h"

static bool is_live(const rg_set *set)
{
    return set->kind == SPLIT && !set->is_ended && set->n > 0;
}

static rg_set *find_live(rg__sets *sets, uint32_t id)
{
    for (rg_set *s = sets->first; s != NULL; s = s->next)
        if (s->id == id && is_live(s))
            return s;
    return NULL;
}

static bool is_rest(const rg_set *set)
{
    return set->kind == SPLIT &&
           (set->is_ended || (set->n == 0 && !set->has_handle));
}

rg_set *rg__split_rest(rg__sets *sets, uint32_t id)
{
    for (rg_set *s = sets->first; s != NULL; s = s->next)
        if (s->id == id && is_rest(s))
            return s;
    return NULL;
}

void rg__split_drop_rest(rg__sets *sets, uint32_t id)
{
    for (rg_set *s = sets->first, *next; s != NULL; s = next) {
        next = s->next;
        if (s->id == id && is_rest(s) && !s->has_handle)
            rg__set_remove(sets, s);
    }
}

/* ---------------------------------------------------------------- comparing */

/* Never 0, which stands for a set that does not live here. */
static uint64_t mark_of(const rg_set *set)
{
    uint64_t mark = RG__MIX_BEGIN;
    for (int i = 0; i < set->n; i++) {
        const rg__member_id *m = &set->member[i];
        mark = rg__mix(mark, m->host);
        mark = rg__mix(mark, m->slot);
        mark = rg__mix(mark, m->start);
    }
    return mark | 1;
}

static void mark_all(rg_ctx *ctx, const uint32_t *ids, int n, uint64_t *mine)
{
    pthread_mutex_lock(&ctx->sets->lock);
    for (int i = 0; i < n; i++) {
        const rg_set *set = find_live(ctx->sets, ids[i]);
        mine[i] = set == NULL ? 0 : mark_of(set);
    }
    pthread_mutex_unlock(&ctx->sets->lock);
}

/* All marks of one split, one for each rank. */
typedef struct marks {
    const uint64_t *all;
    int i, n;
} marks;

static uint64_t mark_at(const marks *m, int rank)
{
    return m->all[(size_t)rank * (size_t)m->n + (size_t)m->i];
}

static bool lives_somewhere(const marks *m, int size)
{
    for (int rank = 0; rank < size; rank++)
        if (mark_at(m, rank) != 0)
            return true;
    return false;
}

static bool is_equal(const rg_set *set, const rg__membership *now,
                     const marks *m)
{
    for (int i = 0; i < set->n; i++) {
        const int rank = rg__set_index(now->member, now->size, set->member[i]);
        if (rank < 0 || mark_at(m, rank) != mark_of(set))
            return false;
    }
    return true;
}

static void forget(rg__sets *sets, uint32_t id)
{
    for (rg_set *s = sets->first, *next; s != NULL; s = next) {
        next = s->next;
        if (s->id != id || s->kind != SPLIT)
            continue;
        s->is_over = true;
        rg__set_end(sets, s,
                    "the set has ended with a lost member; destroy "
                    "it and make another");
    }
}

/* Table's lock held. */
static void judge(rg__sets *sets, uint32_t id, const rg__membership *now,
                  const marks *m)
{
    rg_set *set = find_live(sets, id);
    if (set != NULL && !is_equal(set, now, m))
        rg__set_leave_place(sets, set); /* and it is not opened */
    if (!lives_somewhere(m, now->size))
        forget(sets, id);
}

rg_status rg__splits_compare(rg_ctx *ctx, const rg__membership *now,
                             const uint32_t *ids, int n)
{
    const size_t bytes = sizeof(uint64_t) * (size_t)n;
    uint64_t *mine = malloc(bytes), *all = malloc(bytes * (size_t)now->size);
    rg_status st = mine == NULL || all == NULL
                       ? rg__fail(RG_ERR_MEMORY, "no memory for a set")
                       : RG_OK;
    if (st == RG_OK) {
        mark_all(ctx, ids, n, mine);
        st = rg__world_gather(ctx, "comparing splits", mine, all,
                              sizeof *mine * (size_t)n, now->size);
    }
    if (st == RG_OK) {
        pthread_mutex_lock(&ctx->sets->lock);
        for (int i = 0; i < n; i++)
            judge(ctx->sets, ids[i], now, &(marks){all, i, n});
        pthread_mutex_unlock(&ctx->sets->lock);
    }
    free(mine);
    free(all);
    return st;
}
