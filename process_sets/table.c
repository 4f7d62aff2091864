/* The table: a list by id, since a job has few sets. */
#include "process_sets/set_request.h"

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

/* False for a split that lives on other ranks only. */
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
    rg__place_of_sets *place = &sets->place[set->id % RG__SETS_MAX];
    place->live += !set->is_ended;
    if (place->last < set->id)
        place->last = set->id;
}

void rg__set_use_up(rg__sets *sets, uint32_t id)
{
    rg__place_of_sets *place = &sets->place[id % RG__SETS_MAX];
    pthread_mutex_lock(&sets->lock);
    if (place->last < id)
        place->last = id;
    pthread_mutex_unlock(&sets->lock);
}

void rg__set_remove(rg__sets *sets, rg_set *set)
{
    rg_set **at = &sets->first;
    while (*at != set)
        at = &(*at)->next;
    *at = set->next;
    rg__set_leave_place(sets, set);
    rg__set_free(set);
}

void rg__set_leave_place(rg__sets *sets, rg_set *set)
{
    if (!set->is_ended)
        sets->place[set->id % RG__SETS_MAX].live--;
    set->is_ended = true;
}

void rg__set_end(rg__sets *sets, rg_set *set, const char *why)
{
    if (!set->has_handle) {
        rg__set_remove(sets, set);
        return;
    }
    rg__set_leave_place(sets, set);
    rg__channel_close(set->channel, RG_ERR_SET_ENDED, why);
}

/* ---------------------------------------------------------------- places */

#define TURN_BITS 20 /* sets in one place, one after another */

static uint32_t place_of(uint32_t id)
{
    return id % RG__SETS_MAX;
}

static bool is_free(const rg__sets *sets, uint32_t place)
{
    const rg__place_of_sets *p = &sets->place[place];
    return place != 0 &&           /* the world's */
           place != RG__SET_OWN && /* Regroup's own */
           p->live == 0 && !p->is_proposed &&
           p->last <= UINT32_MAX - RG__SETS_MAX && /* another id is left */
           rg__engine_is_vacant(sets->world.ctx->engine, place);
}

static uint32_t next_id(const rg__sets *sets, uint32_t place)
{
    const uint32_t last = sets->place[place].last;
    return last == 0 ? place : last + RG__SETS_MAX;
}

static uint32_t free_id(const rg__sets *sets, uint32_t from)
{
    for (uint32_t place = from; place < RG__SETS_MAX; place++)
        if (is_free(sets, place))
            return next_id(sets, place);
    return 0;
}

uint32_t rg__set_free_id(const rg__sets *sets)
{
    return free_id(sets, 0);
}

/* The place and turn of an id; places are compared first. */
static int64_t number_of(uint32_t id)
{
    return (int64_t)place_of(id) << TURN_BITS | id / RG__SETS_MAX;
}

static uint32_t place_in(int64_t number)
{
    return (uint32_t)(number >> TURN_BITS);
}

void rg__set_propose(rg_ctx *ctx, rg__proposal *p)
{
    rg__sets *sets = ctx->sets;
    const bool is_new = p->rounds == 0 || p->most >= RG__SET_NO_PLACE;
    const uint32_t from = is_new ? 0 : place_in(p->most);
    pthread_mutex_lock(&sets->lock);
    if (p->id == 0 || place_of(p->id) < from) {
        sets->place[place_of(p->id)].is_proposed = false;
        p->id = free_id(sets, from);
        sets->place[place_of(p->id)].is_proposed = p->id != 0;
    }
    pthread_mutex_unlock(&sets->lock);
    p->rounds++;
    p->most = p->id != 0 ? number_of(p->id) : RG__SET_NO_PLACE + (from == 0);
    p->least = -(int64_t)place_of(p->id);
}

rg_status rg__set_proposed(const rg__proposal *p, uint32_t *id_p)
{
    if (p->most >= RG__SET_NO_PLACE && p->rounds == 1)
        return RG_IN_PROGRESS; /* every rank has left what it gave back */
    if (p->most >= RG__SET_NO_PLACE)
        return p->most > RG__SET_NO_PLACE ? rg__set_request_fail_full()
                                          : rg__set_request_fail_apart();
    const uint32_t place = place_in(p->most);
    const uint32_t turn = (uint32_t)p->most & ((1u << TURN_BITS) - 1);
    if (place != (uint32_t)-p->least)
        return RG_IN_PROGRESS;
    *id_p = turn * RG__SETS_MAX + place;
    return RG_OK;
}

void rg__set_end_proposal(rg_ctx *ctx, const rg__proposal *p)
{
    rg__sets *sets = ctx->sets;
    pthread_mutex_lock(&sets->lock);
    sets->place[place_of(p->id)].is_proposed = false;
    pthread_mutex_unlock(&sets->lock);
}

int rg__set_index(const rg__member_id *member, int n, rg__member_id id)
{
    for (int i = 0; i < n; i++)
        if (rg__same_member(member[i], id))
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
