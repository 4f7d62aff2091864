/* The arguments of a call that makes a set. */
#include "process_sets/set_request.h"

#include <stdio.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/hash.h"
#include "sdk/base/params.h"

static rg_status read_params(const rg__set_request *w, rg_set_params *own)
{
    *own = (rg_set_params){.size = sizeof *own};
    return rg__params_read("rg_set_params", w->params,
                           RG__PARAMS_UP_TO(rg_set_params, name), own,
                           sizeof *own);
}

uint64_t rg__set_request_digest(const rg__set_request *w, bool has_place)
{
    rg_set_params own;
    uint64_t hash = rg__mix_bytes(RG__MIX_BEGIN, "rg_set_create", 13);
    hash = rg__mix_bytes(hash, &has_place, sizeof has_place);
    hash = rg__mix_bytes(hash, &w->kind, sizeof w->kind);
    hash = rg__mix_bytes(hash, &w->keeps, sizeof w->keeps);
    hash = rg__mix_bytes(hash, &w->memory, sizeof w->memory);
    if (read_params(w, &own) != RG_OK)
        hash = rg__mix_bytes(hash, "size", 4);
    if (w->kind == RULE && w->fn == NULL)
        hash = rg__mix_bytes(hash, "no function", 11);
    if (w->kind == LISTED)
        hash = rg__mix_bytes(hash, &w->n, sizeof w->n);
    hash = rg__mix_bytes(hash, &w->asked.digest, sizeof w->asked.digest);
    if (w->name != NULL)
        hash = rg__mix_bytes(hash, w->name,
                             strnlen(w->name, 2 * RG__SET_NAME_MAX) + 1);
    return hash;
}

rg_status rg__set_request_check_ranks(const rg__set_request *w)
{
    if (w->ranks == NULL || w->n < 1 || w->n > w->now.size)
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_create needs 1 to %d ranks, and got %d",
                        w->now.size, w->ranks == NULL ? 0 : w->n);
    for (int i = 0; i < w->n; i++) {
        if (w->ranks[i] < 0 || w->ranks[i] >= w->now.size)
            return rg__fail(RG_ERR_INVALID,
                            "rg_set_create got rank %d, and the world has 0 to "
                            "%d",
                            w->ranks[i], w->now.size - 1);
        for (int k = 0; k < i; k++)
            if (w->ranks[k] == w->ranks[i])
                return rg__fail(RG_ERR_INVALID,
                                "rg_set_create got rank %d twice", w->ranks[i]);
    }
    return RG_OK;
}

rg_status rg__set_request_check(const rg__set_request *w, bool has_place)
{
    if (!has_place)
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_create needs a place for the set");
    rg_set_params own;
    const rg_status st = read_params(w, &own);
    if (st != RG_OK)
        return st;
    if (w->memory != RG_HOST && w->memory != RG_DEVICE)
        return rg__fail(RG_ERR_INVALID,
                        "a set got memory %d; use RG_HOST or RG_DEVICE",
                        (int)w->memory);
    if (w->name != NULL &&
        (w->name[0] == '\0' ||
         strnlen(w->name, RG__SET_NAME_MAX) == RG__SET_NAME_MAX))
        return rg__fail(RG_ERR_INVALID,
                        "a set's name has 1 to %d bytes: \"%.40s\"",
                        RG__SET_NAME_MAX - 1, w->name);
    if (w->kind == RULE && w->fn == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_set_create_by needs a function");
    return RG_OK;
}

void rg__set_request_read_ranks(rg__sets *sets, rg__set_request *w)
{
    int most = w->now.size;
    pthread_mutex_lock(&sets->lock);
    const rg_set *old =
        w->name == NULL ? NULL : rg__set_find_name(sets, w->name);
    if (old != NULL && old->asked.n > (uint32_t)most)
        most = (int)old->asked.n;
    pthread_mutex_unlock(&sets->lock);
    if (w->ranks != NULL && w->n > 0 && w->n <= most)
        w->asked = rg__set_asked(w->ranks, w->n);
}

bool rg__set_request_is_possible(const rg__set_request *w)
{
    return w->kind != LISTED || rg__set_request_check_ranks(w) == RG_OK;
}

void rg__set_request_take_params(rg__set_request *w)
{
    rg_set_params own;
    if (read_params(w, &own) != RG_OK)
        return;
    w->name = own.name;
    w->keeps = own.keep != 0;
    w->memory = own.memory;
}

void rg__set_request_fill(const rg__set_request *w, rg_set *set)
{
    set->kind = w->kind;
    set->keeps = w->keeps;
    set->is_of_device = w->memory == RG_DEVICE;
    set->color = w->fn;
    set->color_arg = w->arg;
    set->is_named = w->name != NULL;
    set->has_handle = true;
    if (w->name != NULL)
        snprintf(set->name, sizeof set->name, "%s", w->name);
}

bool rg__set_request_has_members(const rg__set_request *w, const rg_set *set)
{
    return set->n == w->n && memcmp(set->member, w->member,
                                    sizeof *w->member * (size_t)w->n) == 0;
}

rg_status rg__set_request_fail_other(const rg__set_request *w)
{
    return rg__fail(RG_ERR_INVALID,
                    "set %s lives with other members; destroy it before it is "
                    "made with these, or choose another name",
                    w->name);
}

rg_status rg__set_request_fail_full(void)
{
    return rg__fail(RG_ERR_INVALID,
                    "%d sets live already; give some back with rg_set_destroy",
                    RG__SETS_PROGRAM);
}

int64_t rg__set_code_of(int rank, rg_status st)
{
    return st == RG_OK ? 0 : (int64_t)(rank + 1) << 8 | -(int)st;
}

rg_status rg__set_request_check_place(rg_memory memory, uint32_t id)
{
    if (memory != RG_DEVICE || id % RG__SETS_MAX < RG__SETS_DEVICE)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "a set with device memory needs one of the first %d "
                    "places, which other sets have; make it before them, or "
                    "give some back with rg_set_destroy",
                    RG__SETS_DEVICE - 1);
}

rg_status rg__set_request_fail_apart(void)
{
    return rg__fail(RG_ERR_INVALID,
                    "no place for a set is free on all of its ranks, which "
                    "have sets of their own (rg_set_create_mpi); give some "
                    "back with rg_set_destroy");
}
