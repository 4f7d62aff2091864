/* The group that a thread has open: its operations are noted, and started
 * together by rg_group_end (sdk/core/group.c). */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "process_sets/inside.h"
#include "sdk/base/fail.h"

typedef struct group {
    rg_ctx *ctx; /* NULL: none is open */
    rg_req **req;
    int n, room;
    rg_status st; /* of the first call that failed */
    char why[512];
} group;

static _Thread_local group mine;
static _Atomic int open_groups; /* of all threads; while it is 0 no thread looks
                                   for a group of its own */

rg_status rg_group_start(rg_ctx *ctx)
{
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_group_start needs a context");
    if (mine.ctx != NULL)
        return rg__fail(RG_ERR_INVALID,
                        "this thread has a group open already; end it with "
                        "rg_group_end first");
    mine = (group){.ctx = ctx};
    atomic_fetch_add(&open_groups, 1);
    return RG_OK;
}

void rg__group_spoil(rg_status st)
{
    if (mine.ctx == NULL || mine.st != RG_OK)
        return;
    mine.st = st;
    snprintf(mine.why, sizeof mine.why, "the group was not started: %s",
             rg_last_error());
}

static rg_status make_room(void)
{
    if (mine.n < mine.room)
        return RG_OK;
    const int room = mine.room == 0 ? 16 : 2 * mine.room;
    rg_req **req = realloc(mine.req, (size_t)room * sizeof(rg_req *));
    if (req == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a group");
    mine.req = req;
    mine.room = room;
    return RG_OK;
}

static rg_status note(rg_set *set, const rg__start *start, rg_req **req_p)
{
    rg_status st = make_room();
    if (st == RG_OK)
        st = rg__channel_note(set->channel, start, req_p);
    else
        free(start->arrays);
    if (st == RG_OK)
        mine.req[mine.n++] = *req_p;
    else
        rg__group_spoil(st);
    return st;
}

bool rg__group_is_open(const rg_ctx *ctx)
{
    return atomic_load_explicit(&open_groups, memory_order_relaxed) != 0 &&
           mine.ctx == ctx;
}

rg_status rg__group_add(rg_set *set, const rg__start *start, rg_req **req_p)
{
    const bool is_any_open =
        atomic_load_explicit(&open_groups, memory_order_relaxed) != 0;
    return is_any_open && mine.ctx == set->ctx
               ? note(set, start, req_p)
               : rg__channel_begin(set->channel, start, req_p);
}

static void close_group(void)
{
    free(mine.req);
    mine = (group){0};
    atomic_fetch_sub(&open_groups, 1);
}

rg_status rg_group_end(rg_ctx *ctx)
{
    if (ctx == NULL || mine.ctx != ctx)
        return rg__fail(RG_ERR_INVALID,
                        "this thread has no group open; begin one with "
                        "rg_group_start");
    rg_status st = rg__engine_start_group(ctx->engine, mine.req, mine.n,
                                          mine.st, mine.why);
    if (mine.st != RG_OK)
        st = rg__fail(mine.st, "%s", mine.why);
    close_group();
    return st;
}

/* It is not started, and ends with st. */
static void abandon(rg_status st)
{
    rg__group_spoil(st);
    rg__engine_start_group(mine.ctx->engine, mine.req, mine.n, mine.st,
                           mine.why);
    close_group();
}

rg_status rg__group_leave(rg_ctx *ctx, rg_status st)
{
    if (mine.ctx != ctx)
        return st;
    if (st == RG_OK)
        st = rg__fail(RG_ERR_INVALID,
                      "a function that rg_run called returned with a group "
                      "open; end it with rg_group_end");
    abandon(st);
    return st;
}

void rg__group_forget(rg_ctx *ctx)
{
    if (mine.ctx == ctx)
        abandon(rg__fail(RG_ERR_INVALID, "rg_finalize was called"));
}

rg_status rg__group_refuse(rg_req **req_p)
{
    if (mine.n == 0 || mine.req[mine.n - 1] != *req_p)
        return RG_IN_PROGRESS;
    const rg_status st =
        rg__fail(RG_ERR_INVALID,
                 "a form that waits, such as rg_allreduce, can't be in a "
                 "group; use rg_allreduce_start there, and wait behind "
                 "rg_group_end");
    rg__group_spoil(st);
    mine.n--;
    rg__engine_start_group(mine.ctx->engine, req_p, 1, st, rg_last_error());
    return rg_wait(req_p, 0);
}
