/* The request of a call that makes a set.
 *
 * Threads: a request belongs to one thread. Ownership: ranks, params and name
 * are borrowed from the call; rg__set_request_make frees member and now. */
#ifndef RG_PROCESS_SETS_SET_REQUEST_H
#define RG_PROCESS_SETS_SET_REQUEST_H

#include "process_sets/sets_parts.h"

typedef struct rg__set_request {
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
} rg__set_request;

/* ---------------------------------------------- set_request.c: arguments */

/* Nothing is read of parameters whose size is bad. */
void rg__set_request_take_params(rg__set_request *w);

/* Ranks are read only if there can be that many: at most the world's size, or
 * that of the list with that name. */
void rg__set_request_read_ranks(rg__sets *sets, rg__set_request *w);

/* The parameters' size, if it is bad, a missing function, n, the ranks as far
 * as they can be read, and the name. */
uint64_t rg__set_request_digest(const rg__set_request *w, bool has_place);

/* ERR_INVALID: the call is bad, whatever its ranks are; the ranks are. */
rg_status rg__set_request_check(const rg__set_request *w, bool has_place);
rg_status rg__set_request_check_ranks(const rg__set_request *w);

/* Does the world have those ranks? A live list is found again in any case. */
bool rg__set_request_is_possible(const rg__set_request *w);

/* ERR_INVALID, with its sentence: there are as many sets as there may be; ranks
 * have places for one more, and none that is free on all of them. */
rg_status rg__set_request_fail_full(void);
rg_status rg__set_request_fail_apart(void);

/* ERR_INVALID: that place is not for a set with device memory. */
rg_status rg__set_request_check_place(rg_memory memory, uint32_t id);

/* A rank with its status, as a number of which the maximum is taken; 0: OK. */
int64_t rg__set_code_of(int rank, rg_status st);

/* Give a set what the call says about it, and its name if it has one. */
void rg__set_request_fill(const rg__set_request *w, rg_set *set);
/* Has the set those members, in that order? */
bool rg__set_request_has_members(const rg__set_request *w, const rg_set *set);

/* ERR_INVALID, with its sentence: the set of that name is another one. */
rg_status rg__set_request_fail_other(const rg__set_request *w);

/* --------------------------------------------------------- making the set */

/* make.c: the members of ranks that exist. */
rg_status rg__set_request_resolve(rg__set_request *w);
/* Open what all have agreed on, under that id; then they agree that it is open
 * on all of them, and it goes into the table. */
rg_status rg__set_open_new(const rg__set_request *w, rg_set *set, uint32_t id);
/* code: the highest rg__set_code_of of the members. */
rg_status rg__set_opened(const rg__set_request *w, rg_status st, int64_t code);
void rg__set_note_new(rg_ctx *ctx, const rg__set_request *w, rg_set *set);
/* make.c: make the set, or find it again. Collective over the world. */
rg_status rg__set_request_make(rg_ctx *ctx, rg__set_request *w, rg_set **set_p);

/* declared.c: before the door. Local: the world is not known yet. */
rg_status rg__set_request_declare(rg_ctx *ctx, rg__set_request *w,
                                  rg_set **set_p);

#endif
