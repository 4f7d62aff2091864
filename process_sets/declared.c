/* Sets that an elastic program declares before the door, where no worker has a
 * rank yet. In the first generation all have declared the same sets and make
 * them, counting ids up, without further messages. Later a newcomer finds its
 * declared sets in the table that it takes over: by name, else by order. Those
 * that are missing there have ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process_sets/set_request.h"
#include "sdk/base/fail.h"
#include "sdk/base/hash.h"

bool rg__declares(rg_ctx *ctx)
{
    pthread_mutex_lock(&ctx->sets->lock);
    const bool has_begun = ctx->sets->has_begun;
    pthread_mutex_unlock(&ctx->sets->lock);
    return ctx->is_elastic && !has_begun;
}

/* NULL: none is declared. */
static rg_set *find_declared(rg__sets *sets, const char *name)
{
    for (rg_set *s = sets->declared; s != NULL; s = s->next)
        if (s->is_named && strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

static void add_declared(rg__sets *sets, rg_set *set)
{
    rg_set **at = &sets->declared;
    while (*at != NULL)
        at = &(*at)->next;
    *at = set;
    set->order = ++sets->declarations;
}

bool rg__declared_remove(rg__sets *sets, rg_set *set)
{
    rg_set **at = &sets->declared;
    while (*at != NULL && *at != set)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    *at = set->next;
    set->next = NULL;
    return true;
}

int64_t rg__declared_digest(const rg__sets *sets)
{
    uint64_t hash = RG__MIX_BEGIN;
    for (const rg_set *s = sets->declared; s != NULL; s = s->next)
        hash = rg__mix(hash, s->digest ^ s->order);
    return (int64_t)(hash >> 2) | 1;
}

/* --------------------------------------------------------------- declaring */

static rg_status fill_declared(rg_set *set, const rg__set_request *w)
{
    rg__set_request_fill(w, set);
    set->digest = w->tag;
    if (w->kind != LISTED)
        return RG_OK;
    set->wanted = malloc(sizeof *set->wanted * (size_t)w->n);
    if (set->wanted == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a set");
    memcpy(set->wanted, w->ranks, sizeof *set->wanted * (size_t)w->n);
    set->wanted_n = w->n;
    return RG_OK;
}

/* Table's lock held. */
static rg_status declare_again(rg_set *old, const rg__set_request *w,
                               rg_set **set_p)
{
    if (old->digest != w->tag)
        return rg__set_request_fail_other(w);
    old->color = w->fn;
    old->color_arg = w->arg;
    *set_p = old;
    return RG_OK;
}

static rg_status declare_new(rg_ctx *ctx, const rg__set_request *w,
                             rg_set **set_p)
{
    rg_set *set = NULL;
    rg_status st = rg__set_make(ctx, NULL, 0, &set);
    if (st != RG_OK)
        return st;
    st = fill_declared(set, w);
    if (st != RG_OK) {
        rg__set_free(set);
        return st;
    }
    add_declared(ctx->sets, set);
    *set_p = set;
    return RG_OK;
}

rg_status rg__set_request_declare(rg_ctx *ctx, rg__set_request *w,
                                  rg_set **set_p)
{
    rg__sets *sets = ctx->sets;
    rg__set_request_take_params(w);
    w->now.size = RG__WORLD_MAX;
    rg_status st = rg__set_request_check(w, set_p != NULL);
    if (st == RG_OK && w->kind == LISTED)
        st = rg__set_request_check_ranks(w);
    if (st != RG_OK)
        return st;
    if (w->kind == LISTED)
        w->asked = rg__set_asked(w->ranks, w->n);
    w->tag = rg__set_request_digest(w, true);
    pthread_mutex_lock(&sets->lock);
    rg_set *old = w->name == NULL ? NULL : find_declared(sets, w->name);
    if (old != NULL)
        st = declare_again(old, w, set_p);
    else if (sets->declarations == RG__SETS_PROGRAM)
        st = rg__fail(RG_ERR_INVALID, "%d sets are declared already",
                      RG__SETS_PROGRAM);
    else
        st = declare_new(ctx, w, set_p);
    pthread_mutex_unlock(&sets->lock);
    return st;
}

/* ---------------------------------------------------------------- the first */

static rg_status resolve(rg_set *set, const rg__membership *now)
{
    const size_t n = (size_t)set->wanted_n;
    rg__member_id *member = malloc(sizeof *member * (n + 1));
    rg_status st =
        member == NULL ? rg__fail(RG_ERR_MEMORY, "no memory for a set") : RG_OK;
    for (size_t i = 0; i < n && st == RG_OK; i++) {
        if (set->wanted[i] >= now->size)
            st = rg__fail(RG_ERR_INVALID,
                          "set %s was declared before rg_run with rank %d, and "
                          "generation %llu has %d workers; declare ranks below "
                          "--min, or a rule",
                          set->name[0] != '\0' ? set->name : "without a name",
                          set->wanted[i], (unsigned long long)now->generation,
                          now->size);
        else
            member[i] = now->member[set->wanted[i]];
    }
    if (st == RG_OK)
        st = rg__set_replace(set, member, (int)n);
    free(member);
    return st;
}

static void enter_table(rg__sets *sets, rg_set *set)
{
    rg__declared_remove(sets, set);
    rg__channel_name(set->channel, set->name);
    rg__set_insert(sets, set);
}

rg_status rg__declared_make(rg__sets *sets, const rg__membership *now)
{
    for (rg_set *s = sets->declared; s != NULL; s = sets->declared) {
        s->id = rg__set_free_id(sets);
        rg_status st = rg__set_request_check_place(
            s->is_of_device ? RG_DEVICE : RG_HOST, s->id);
        if (st == RG_OK)
            st = resolve(s, now);
        if (st != RG_OK)
            return st;
        s->asked = rg__set_asked(s->wanted, s->wanted_n);
        if (!s->is_named)
            snprintf(s->name, sizeof s->name, "set%u", s->id);
        enter_table(sets, s);
    }
    return RG_OK;
}

/* ---------------------------------------------------------------- later on */

static bool is_like(const rg_set *set, const rg_set *like)
{
    if (set->kind != like->kind || set->is_named != like->is_named)
        return false;
    return like->is_named ? strcmp(set->name, like->name) == 0
                          : set->order == like->order;
}

rg_set *rg__declared_take(rg__sets *sets, const rg_set *like)
{
    for (rg_set *s = sets->declared; s != NULL; s = s->next)
        if (is_like(s, like)) {
            rg__declared_remove(sets, s);
            return s;
        }
    return NULL;
}

/* open_all closes it. */
void rg__declared_end(rg__sets *sets)
{
    for (rg_set *s = sets->declared; s != NULL; s = sets->declared) {
        s->is_ended = s->is_over = true;
        enter_table(sets, s);
    }
}
