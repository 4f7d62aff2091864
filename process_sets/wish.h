/* What a call that makes a set asks for.
 *
 * Threads: a wish is its thread's alone. Ownership: ranks, params and name are
 * borrowed from the call; member and now are freed by rg__wish_make. */
#ifndef RG_PROCESS_SETS_WISH_H
#define RG_PROCESS_SETS_WISH_H

#include "process_sets/sets_parts.h"

typedef struct rg__wish {
    const char *what; /* the call */
    rg__set_kind kind;
    bool keeps;
    rg_memory memory;
    rg_color_fn fn; /* of a rule */
    void *arg;
    const int *ranks;
    int n;
    const rg_set_params *params; /* NULL: none */
    const char *name;            /* NULL: none */
    rg__membership now;
    rg__member_id *member; /* NULL also for ranks that don't exist */
    uint64_t tag;
    bool is_bad;     /* the call is, whatever its ranks are */
    rg__asked asked; /* of a list */
} rg__wish;

/* ----------------------------------------------------- wish.c: arguments */

/* Nothing is read of parameters whose size is bad. */
void rg__wish_take_params(rg__wish *w);

/* Ranks are read only if there can be that many: at most the world's size, or
 * that of the list with that name. */
void rg__wish_read_ranks(rg__sets *sets, rg__wish *w);

/* Of the parameters' size, if it is bad, of a function that is missing, of n,
 * of the ranks as far as they can be read, and of the name. */
uint64_t rg__wish_digest(const rg__wish *w, bool has_place);

/* ERR_INVALID: the call is bad, whatever its ranks are; the ranks are. */
rg_status rg__wish_check(const rg__wish *w, bool has_place);
rg_status rg__wish_check_ranks(const rg__wish *w);

/* Does the world have those ranks? A list that lives is found again in any
 * case. */
bool rg__wish_is_possible(const rg__wish *w);

/* ERR_INVALID, with its sentence: the set of that name is another one. */
rg_status rg__wish_fail_other(const rg__wish *w);

/* ------------------------------------------------------------- come true */

/* make.c: make the set, or find it again. Collective over the world. */
rg_status rg__wish_make(rg_ctx *ctx, rg__wish *w, rg_set **set_p);

/* declared.c: before the door. Local: the world is not known yet. */
rg_status rg__wish_declare(rg_ctx *ctx, rg__wish *w, rg_set **set_p);

#endif
