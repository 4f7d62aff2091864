/* Questions about sets: their members and ranks, and all sets at once, for
 * users and for `regroup status`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "process_sets/sets_parts.h"
#include "sdk/base/fail.h"

/* ----------------------------------------------------------------- queries */

int rg_set_rank(const rg_set *set)
{
    if (set == NULL)
        return -1;
    if (rg__set_is_world(set))
        return rg_rank(set->ctx);
    rg__sets *sets = set->ctx->sets;
    pthread_mutex_lock(&sets->lock);
    const int rank =
        set->is_ended ? -1 : rg__set_index(set->member, set->n, set->ctx->me);
    pthread_mutex_unlock(&sets->lock);
    return rank;
}

int rg_set_size(const rg_set *set)
{
    if (set == NULL)
        return -1;
    return rg__set_is_world(set) ? rg_size(set->ctx) : set->n;
}

uint32_t rg_set_id(const rg_set *set)
{
    return set == NULL ? 0 : set->id;
}

const char *rg_set_name(const rg_set *set)
{
    return set == NULL ? "" : set->name;
}

/* ---------------------------------------------------------- ranks and lists */

/* The members of a set; the world's are those of the generation. */
typedef struct members {
    const rg__member_id *at;
    int n;
} members;

/* Table's lock held. */
static members members_of(const rg_set *set, const rg__membership *now)
{
    return rg__set_is_world(set) ? (members){now->member, now->size}
                                 : (members){set->member, set->n};
}

static rg_status translate(members from, const int *ranks, int n, members to,
                           int *out)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] < 0 || ranks[i] >= from.n)
            return rg__fail(RG_ERR_INVALID,
                            "rg_set_translate got rank %d, and the set has %d",
                            ranks[i], from.n);
    for (int i = 0; i < n; i++)
        out[i] = rg__set_index(to.at, to.n, from.at[ranks[i]]);
    return RG_OK;
}

rg_status rg_set_translate(const rg_set *from, const int *ranks, int n,
                           const rg_set *to, int *out)
{
    if (from == NULL || to == NULL || n < 0 ||
        (n > 0 && (ranks == NULL || out == NULL)))
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_translate needs two sets and room for %d ranks",
                        n);
    rg__membership now;
    rg_status st = rg__context_copy_membership(from->ctx, &now);
    if (st != RG_OK)
        return st;
    if (now.size < 1) {
        free(now.member);
        return rg__channel_check(from->ctx->sets->world.channel);
    }
    pthread_mutex_lock(&from->ctx->sets->lock);
    st = translate(members_of(from, &now), ranks, n, members_of(to, &now), out);
    pthread_mutex_unlock(&from->ctx->sets->lock);
    free(now.member);
    return st;
}

static rg_set_info info_of(const rg_set *set, int size, int rank)
{
    rg_set_info info = {.id = set->id, .size = size, .rank = rank};
    memcpy(info.name, set->name, sizeof info.name);
    return info;
}

rg_status rg_set_list(rg_ctx *ctx, rg_set_info *info, int room, int *n_p)
{
    if (ctx == NULL || n_p == NULL || room < 0 || (room > 0 && info == NULL))
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_list needs a context, room and a place for the "
                        "number");
    rg__sets *sets = ctx->sets;
    int n = 0;
    if (n < room)
        info[n] = info_of(&sets->world, rg_size(ctx), rg_rank(ctx));
    n++;
    pthread_mutex_lock(&sets->lock);
    for (const rg_set *s = sets->first; s != NULL; s = s->next) {
        if (s->is_ended)
            continue;
        if (n < room)
            info[n] = info_of(s, s->n, rg__set_index(s->member, s->n, ctx->me));
        n++;
    }
    pthread_mutex_unlock(&sets->lock);
    *n_p = n;
    return RG_OK;
}

/* -------------------------------------------------------------------- each */

/* Is the set shown on this rank? A split that has ended here but lives on
 * others is, without members. Table's lock held. */
static bool is_shown(rg__sets *sets, const rg_set *set)
{
    return !set->is_ended || (set->kind == SPLIT && !set->is_over &&
                              rg__set_find(sets, set->id) == NULL);
}

static bool is_closed(const rg_set *set, const rg__membership *now)
{
    return set->is_ended ||
           (set->kind == RULE && set->opened != now->generation);
}

/* False if there is no memory, or if the set has not come to this generation.
 */
static bool show_set(const rg_set *set, const rg__membership *now,
                     rg__set_info *out)
{
    const int n = is_closed(set, now) ? 0 : set->n;
    int *ranks = malloc(sizeof *ranks * (size_t)(n + 1));
    bool is_here = ranks != NULL;
    for (int i = 0; i < n && is_here; i++) {
        ranks[i] = rg__set_index(now->member, now->size, set->member[i]);
        is_here = ranks[i] >= 0;
    }
    if (!is_here) {
        free(ranks);
        return false;
    }
    *out = (rg__set_info){.id = set->id,
                          .kind = (int)set->kind,
                          .keeps = set->keeps,
                          .n = n,
                          .ranks = ranks};
    memcpy(out->name, set->name, sizeof out->name);
    return true;
}

/* Returns the number of sets; the caller owns *list_p. */
static int show_all(rg_ctx *ctx, const rg__membership *now,
                    rg__set_info **list_p)
{
    rg__sets *sets = ctx->sets;
    int n = 0, count = 0;
    pthread_mutex_lock(&sets->lock);
    for (const rg_set *s = sets->first; s != NULL; s = s->next)
        n++;
    rg__set_info *list = calloc((size_t)n + 1, sizeof *list);
    for (const rg_set *s = sets->first; s != NULL && list != NULL; s = s->next)
        if (is_shown(sets, s) && show_set(s, now, &list[count]))
            count++;
    pthread_mutex_unlock(&sets->lock);
    *list_p = list;
    return count;
}

void rg__sets_each_of(rg_ctx *ctx, const rg__membership *now, rg__set_fn fn,
                      void *arg)
{
    rg__set_info *list = NULL;
    const int n = show_all(ctx, now, &list);
    for (int i = 0; i < n; i++) {
        fn(arg, &list[i]);
        free(list[i].ranks);
    }
    free(list);
}

void rg__sets_each(rg_ctx *ctx, rg__set_fn fn, void *arg)
{
    rg__membership now;
    if (rg__context_copy_membership(ctx, &now) != RG_OK)
        return;
    rg__sets_each_of(ctx, &now, fn, arg);
    free(now.member);
}
