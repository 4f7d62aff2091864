/* The table: a list by id, since a job has few sets. */
#include "process_sets/sets_parts.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/hash.h"

rg_set *rg__set_find(rg__sets *sets, uint32_t id)
{
    for (rg_set *s = sets->first; s != NULL; s = s->next)
        if (s->id == id && !s->is_ended)
            return s;
    return NULL;
}

/* A split that lives on other ranks only. */
static bool lives_here(const rg_set *set)
{
    return !set->is_ended &&
           (set->kind != SPLIT || set->has_handle || set->n > 0);
}

rg_set *rg__set_find_name(rg__sets *sets, const char *name)
{
    for (rg_set *s = sets->first; s != NULL; s = s->next)
        if (s->is_named && lives_here(s) && strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

void rg__set_insert(rg__sets *sets, rg_set *set)
{
    rg_set **at = &sets->first;
    while (*at != NULL && (*at)->id < set->id)
        at = &(*at)->next;
    set->next = *at;
    *at = set;
}

void rg__set_remove(rg__sets *sets, rg_set *set)
{
    rg_set **at = &sets->first;
    while (*at != set)
        at = &(*at)->next;
    *at = set->next;
    rg__set_free(set);
}

void rg__set_end(rg__sets *sets, rg_set *set, const char *why)
{
    if (!set->has_handle) {
        rg__set_remove(sets, set);
        return;
    }
    set->is_ended = true;
    rg__channel_close(set->channel, RG_ERR_SET_ENDED, why);
}

static bool is_area_free(const rg__sets *sets, uint32_t id)
{
    if (sets->is_proposed[id % RG__SETS_MAX])
        return false;
    for (const rg_set *s = sets->first; s != NULL; s = s->next)
        if (!s->is_ended && s->id % RG__SETS_MAX == id % RG__SETS_MAX)
            return false;
    return id % RG__SETS_MAX != 0 &&         /* that one is the world's, */
           id % RG__SETS_MAX != RG__SET_OWN; /* and that one Regroup's own */
}

uint32_t rg__set_free_id(const rg__sets *sets, uint32_t from)
{
    for (uint32_t id = from; id - from < RG__SETS_MAX && id >= from; id++)
        if (is_area_free(sets, id))
            return id;
    return 0;
}

uint32_t rg__set_propose_id(rg__sets *sets, uint32_t mine, uint32_t least)
{
    if (mine != 0 && mine >= least)
        return mine;
    const uint32_t from = least > sets->next_id ? least : sets->next_id;
    sets->is_proposed[mine % RG__SETS_MAX] = false;
    const uint32_t id = rg__set_free_id(sets, from);
    if (id == 0)
        return 0;
    sets->is_proposed[id % RG__SETS_MAX] = true;
    sets->next_id = id + 1;
    return id;
}

void rg__set_end_proposal(rg_ctx *ctx, uint32_t mine, bool is_taken)
{
    rg__sets *sets = ctx->sets;
    pthread_mutex_lock(&sets->lock);
    sets->is_proposed[mine % RG__SETS_MAX] = false;
    if (mine != 0 && !is_taken && sets->next_id == mine + 1)
        sets->next_id = mine;
    pthread_mutex_unlock(&sets->lock);
}

static bool is_same(rg__member_id a, rg__member_id b)
{
    return a.host == b.host && a.slot == b.slot && a.start == b.start;
}

int rg__set_index(const rg__member_id *member, int n, rg__member_id id)
{
    for (int i = 0; i < n; i++)
        if (is_same(member[i], id))
            return i;
    return -1;
}

rg__asked rg__set_asked(const int *ranks, int n)
{
    uint64_t hash = RG__MIX_BEGIN;
    for (int i = 0; i < n; i++)
        hash = rg__mix(hash, (uint32_t)ranks[i]);
    return (rg__asked){.digest = hash, .n = (uint32_t)n};
}

rg_status rg__set_replace(rg_set *set, const rg__member_id *member, int n)
{
    const size_t bytes = sizeof *member * (size_t)n;
    rg__member_id *copy = malloc(bytes + 1);
    if (copy == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a set");
    if (n > 0)
        memcpy(copy, member, bytes);
    free(set->member);
    set->member = copy;
    set->n = n;
    return RG_OK;
}

rg_status rg__set_make(rg_ctx *ctx, const rg__member_id *member, int n,
                       rg_set **set_p)
{
    rg_set *set = calloc(1, sizeof *set);
    if (set == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a set");
    set->ctx = ctx;
    rg_status st = rg__set_replace(set, member, n);
    if (st == RG_OK)
        st = rg__channel_create(ctx->engine, &set->channel);
    if (st != RG_OK) {
        rg__set_free(set);
        return st;
    }
    *set_p = set;
    return RG_OK;
}

void rg__set_free(rg_set *set)
{
    if (set == NULL)
        return;
    rg__channel_destroy(set->channel);
    free(set->member);
    free(set->wanted);
    free(set);
}

rg_status rg__set_open(rg_set *set, const rg__membership *now)
{
    if (rg__set_index(set->member, set->n, set->ctx->me) < 0) {
        rg__channel_close(set->channel, RG_ERR_NOT_MEMBER,
                          "this worker is not a member of the set; only "
                          "members call its collectives");
        return RG_OK;
    }
    int *ranks = malloc(sizeof *ranks * (size_t)set->n);
    if (ranks == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a set");
    for (int i = 0; i < set->n; i++)
        ranks[i] = rg__set_index(now->member, now->size, set->member[i]);
    const rg_status st =
        rg__channel_open(set->channel, now->generation, ranks, set->n, set->id);
    free(ranks);
    return st;
}
