/* The group that a thread has open: its operations are noted, and started
 * together by rg_group_end (sdk/core/group.c); those on device memory as one
 * launch for each set and stream, before those on host memory, since more can
 * go wrong in launching. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "process_sets/sets_parts.h"
#include "sdk/base/fail.h"
#include "sdk/base/grow.h"

/* An operation on device memory. */
typedef struct device_op {
    rg_set *set; /* NULL once it has been launched */
    rg__launch launch;
    uint64_t generation; /* in which it was noted */
    uint64_t *arrays;    /* owned */
    rg_req *req;
    bool is_wanted; /* false: the request is freed */
} device_op;

typedef struct group {
    rg_ctx *ctx; /* NULL: none is open */
    rg_req **req;
    int n;
    device_op *op;
    int ops;
    rg_status st;            /* of the first call that failed */
    const rg__channel *told; /* its set's, whose members know; or NULL */
    char why[512];
} group;

static _Thread_local group mine;
/* In all threads; while it is 0, no thread looks. */
static _Atomic int open_groups;

rg_status rg_group_start(rg_ctx *ctx)
{
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_group_start needs a context");
    if (mine.ctx != NULL)
        return rg__fail(RG_ERR_INVALID, "this thread has a group open already; "
                                        "end it with rg_group_end first");
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

/* A group of that set's context is open. */
static rg_status refuse(rg__channel *ch, const char *what, rg_status st)
{
    if (mine.st != RG_OK)
        return st;
    rg__group_spoil(st);
    mine.told = ch;
    return rg__channel_refuse(ch, what, st);
}

rg_status rg__group_refuse_call(rg_set *set, const char *what, rg_status st)
{
    if (rg__group_is_open(set->ctx))
        return refuse(set->channel, what, st);
    rg__group_spoil(st);
    return rg__channel_refuse(set->channel, what, st);
}

/* Members of the group's other sets have started their operations, too. */
static void refuse_all(rg_status st)
{
    for (int i = 0; i < mine.n; i++) {
        rg__channel *ch = rg__req_channel(mine.req[i]);
        bool is_told = ch == mine.told;
        for (int k = 0; k < i && !is_told; k++)
            is_told = rg__req_channel(mine.req[k]) == ch;
        if (!is_told)
            rg__channel_refuse(ch, "a group", st);
    }
}

static rg_status fail_memory(void)
{
    return rg__fail(RG_ERR_MEMORY, "no memory for a group");
}

static rg_status note(rg_set *set, const rg__start *start, rg_req **req_p)
{
    rg_status st = RG_OK;
    if (rg__grow(&mine.req, (size_t)mine.n, sizeof(rg_req *)) != NULL) {
        st = rg__channel_note(set->channel, start, req_p);
    } else {
        free(start->arrays);
        st = fail_memory();
    }
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
    return rg__group_is_open(set->ctx)
               ? note(set, start, req_p)
               : rg__channel_begin(set->channel, start, req_p);
}

/* --------------------------------------------------------- on device memory */

rg_status rg__group_add_device(rg_set *set, const rg__start *start,
                               void *stream, rg_req **req_p)
{
    device_op op = {.set = set,
                    .generation = rg__engine_generation(set->ctx->engine),
                    .arrays = start->arrays,
                    .is_wanted = req_p != NULL};
    rg_status st = rg__set_check_launch(set, start, stream, &op.launch);
    if (st == RG_OK && rg__grow(&mine.op, (size_t)mine.ops, sizeof op) == NULL)
        st = fail_memory();
    if (st == RG_OK)
        st = rg__req_note_device(set->channel, set->ctx->device, &op.req);
    if (st != RG_OK) {
        free(op.arrays);
        rg__group_spoil(st);
        return st;
    }
    if (req_p != NULL)
        *req_p = op.req;
    mine.op[mine.ops++] = op;
    return RG_OK;
}

/* Ends op with st; the sentence of a failure is this thread's last error. */
static void end_op(device_op *op, rg_status st, const rg__ticket *ticket)
{
    rg__req_launched(op->req, st, ticket);
    if (!op->is_wanted)
        rg__req_free(op->req);
    free(op->arrays);
    op->set = NULL;
}

static bool is_of(const device_op *op, const device_op *first)
{
    return op->set == first->set && op->launch.stream == first->launch.stream;
}

/* Launches the i-th operation with all later ones of its set and stream; room
 * holds their launches. */
static rg_status launch_part(int i, rg__launch *room, rg_status st)
{
    const device_op first = mine.op[i];
    rg__ticket ticket = {0};
    int n = 0;
    for (int k = i; k < mine.ops && st == RG_OK; k++)
        if (is_of(&mine.op[k], &first))
            room[n++] = mine.op[k].launch;
    if (st == RG_OK &&
        first.generation != rg__engine_generation(mine.ctx->engine))
        st = rg__fail(RG_ERR_PEER_LOST, "the group was opened in a generation "
                                        "that is over; return this status "
                                        "from fn");
    if (st == RG_OK)
        st = rg__set_launch_all(first.set, room, n, &ticket);
    for (int k = i; k < mine.ops; k++)
        if (is_of(&mine.op[k], &first))
            end_op(&mine.op[k], st, &ticket);
    return st;
}

/* If st is not OK, all of them end with st. */
static rg_status launch_ops(rg_status st)
{
    if (mine.ops == 0)
        return st;
    rg__launch *room = malloc((size_t)(unsigned)mine.ops * sizeof *room);
    if (room == NULL && st == RG_OK)
        st = fail_memory();
    for (int i = 0; i < mine.ops; i++)
        if (mine.op[i].set != NULL)
            st = launch_part(i, room, st);
    free(room);
    return st;
}

/* --------------------------------------------------------------- the end */

static void close_group(void)
{
    free(mine.req);
    free(mine.op);
    mine = (group){0};
    atomic_fetch_sub(&open_groups, 1);
}

/* Starts everything, or nothing if st is not OK: then mine.why says why, and
 * the thread's last sentence belongs to the returned status. */
static rg_status start_all(rg_status st)
{
    if (st != RG_OK)
        rg__fail(st, "%s", mine.why);
    const rg_status launched = launch_ops(st);
    if (st == RG_OK && launched != RG_OK)
        rg__group_spoil(launched);
    st = rg__engine_start_group(mine.ctx->engine, mine.req, mine.n, mine.st,
                                mine.why);
    return mine.st != RG_OK ? rg__fail(mine.st, "%s", mine.why) : st;
}

rg_status rg_group_end(rg_ctx *ctx)
{
    if (ctx == NULL || mine.ctx != ctx)
        return rg__fail(RG_ERR_INVALID,
                        "this thread has no group open; begin one with "
                        "rg_group_start");
    if (mine.st != RG_OK)
        refuse_all(mine.st);
    const rg_status st = start_all(mine.st);
    close_group();
    return st;
}

/* Closes the group without starting it; its operations end with st. */
static void abandon(rg_status st)
{
    rg__group_spoil(st);
    start_all(mine.st);
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
    const rg_status st = rg__fail(
        RG_ERR_INVALID,
        "a form that waits, such as rg_allreduce, can't be in a group; use "
        "rg_allreduce_start there, and wait after rg_group_end");
    refuse(rg__req_channel(*req_p), "a group", st);
    mine.n--;
    rg__engine_start_group(mine.ctx->engine, req_p, 1, st, rg_last_error());
    return rg_wait(req_p, 0);
}

rg_status rg__group_complete(rg_set *set, const rg__start *start)
{
    if (!rg__group_is_open(set->ctx))
        return rg__channel_complete(set->channel, start);
    rg_req *req = NULL;
    const rg_status st = note(set, start, &req);
    return st == RG_OK ? rg__group_refuse(&req) : st;
}
