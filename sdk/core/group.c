/* Groups: operations that are noted first, and then started all or not at all.
 *
 * The tag of each operation of a group is the digest of the whole group on its
 * set, so a difference anywhere is found with the first one, and the others are
 * not begun. Which allreduces are fused follows from the group alone, and so is
 * the same on all ranks: the first one that is left takes all later ones that
 * are small and have its type, op and scales, whatever lies between them. */
#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/hash.h"
#include "sdk/core/engine_parts.h"

#define FUSE_ONE ((uint64_t)64 << 10) /* bytes of one operation */
#define FUSE_ALL ((uint64_t)1 << 20)  /* bytes of all that are fused */

rg_status rg__channel_note(rg__channel *ch, const rg__start *start,
                           rg_req **req_p)
{
    rg_req *req = rg__req_create(ch, start);
    if (req == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a request");
    atomic_store(&req->state, RG__REQ_NOTED);
    req->generation = atomic_load(&ch->engine->generation);
    atomic_fetch_add(&ch->noted, 1);
    *req_p = req;
    return RG_OK;
}

rg__channel *rg__req_channel(const rg_req *req)
{
    return req->channel;
}

bool rg__channel_has_noted(const rg__channel *ch)
{
    return atomic_load(&ch->noted) != 0;
}

/* --------------------------------------------------------------- the digest */

static uint64_t mix_operation(uint64_t hash, const rg__coll *o)
{
    const bool has_own_count =
        rg__kind_is_uneven(o->kind) || o->kind == RG__JOIN;
    uint64_t word[] = {(uint64_t)o->kind << 32 | (uint32_t)o->type,
                       (uint64_t)o->op << 32 | (uint32_t)o->root,
                       has_own_count ? 0 : o->count,
                       o->tag,
                       0,
                       0};
    memcpy(&word[4], &o->prescale, sizeof o->prescale);
    memcpy(&word[5], &o->postscale, sizeof o->postscale);
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        hash = rg__mix(hash, word[i]);
    return hash;
}

/* ------------------------------------------------------------------- fusing */

static uint64_t bytes_of(const rg_req *req)
{
    return req->coll.count * rg_type_size(req->coll.type);
}

static bool is_small(const rg_req *req)
{
    return req->coll.kind == RG__ALLREDUCE && bytes_of(req) <= FUSE_ONE;
}

static bool is_alike(const rg__coll *a, const rg__coll *b)
{
    return a->type == b->type && a->op == b->op && a->prescale == b->prescale &&
           a->postscale == b->postscale;
}

/* The group's operations of one channel. */
typedef struct part {
    rg__channel *channel;
    rg_req **req; /* both arrays are owned */
    rg_req **room;
    int n;
} part;

/* Fuses the operations that fit the i-th, which becomes their leader. */
static rg_status fuse_with(const part *p, int i)
{
    rg_req *leader = p->req[i];
    uint64_t bytes = 0;
    int n = 0;
    if (!is_small(leader))
        return RG_OK;
    for (int k = i; k < p->n; k++) {
        rg_req *req = p->req[k];
        if (req->leader != NULL || !is_small(req) ||
            !is_alike(&req->coll, &leader->coll) ||
            bytes + bytes_of(req) > FUSE_ALL)
            continue;
        bytes += bytes_of(req);
        p->room[n++] = req;
    }
    return n > 1 ? rg__run_fuse(leader, p->room, n) : RG_OK;
}

static rg_status fuse(const part *p)
{
    rg_status st = RG_OK;
    for (int i = 0; i < p->n && st == RG_OK; i++)
        if (p->req[i]->leader == NULL)
            st = fuse_with(p, i);
    return st;
}

/* ---------------------------------------------------------------- in whole */

/* Takes all operations on the channel of the first one not yet taken. */
static bool take_part(rg_req **left, int n, part *p)
{
    p->channel = NULL;
    p->n = 0;
    for (int i = 0; i < n; i++) {
        if (left[i] == NULL ||
            (p->channel != NULL && left[i]->channel != p->channel))
            continue;
        p->channel = left[i]->channel;
        p->req[p->n++] = left[i];
        left[i] = NULL;
    }
    return p->n > 0;
}

/* Lock held. Perhaps no other thread is awake to begin it. */
static void queue_part(rg__engine *e, const part *p)
{
    uint64_t bytes = 0;
    uint64_t tag = rg__mix(RG__MIX_BEGIN, (uint64_t)p->n);
    for (int i = 0; i < p->n; i++)
        tag = mix_operation(tag, &p->req[i]->coll);
    e->groups++;
    for (int i = 0; i < p->n; i++) {
        rg_req *req = p->req[i];
        req->group = e->groups;
        bytes += bytes_of(req);
        atomic_store(&req->state, RG__REQ_RUNS);
        if (req->leader == NULL || req->leader == req) {
            rg__run_set_tag(req, tag + (uint64_t)i);
            rg__channel_append(p->channel, req);
        }
    }
    rg__channel_begin_now(p->channel, bytes);
}

static void fail_all(rg__engine *e, rg_req *const *reqs, int n, rg_status st,
                     const char *why)
{
    for (int i = 0; i < n; i++)
        rg__req_fail_noted(e, reqs[i], st, why);
}

/* Operations noted in one generation are never started in another. */
static rg_status check_generation(const rg__engine *e, const rg_req *req)
{
    if (req->generation == atomic_load(&e->generation))
        return RG_OK;
    if (e->left_st == RG_OK)
        return rg__fail(RG_ERR_INVALID,
                        "the group was begun before rg_run; begin it inside "
                        "rg_run's fn");
    return rg__fail(e->left_st, "%s", e->left_why);
}

static rg_status check_all(const rg__engine *e, rg_req *const *reqs, int n)
{
    rg_status st = RG_OK;
    for (int i = 0; i < n && st == RG_OK; i++) {
        st = rg__channel_check_start(reqs[i]->channel);
        if (st == RG_OK)
            st = check_generation(e, reqs[i]);
    }
    return st;
}

/* Time counts from now, not from when they were noted. */
static void set_deadlines(rg_req *const *reqs, int n)
{
    for (int i = 0; i < n; i++)
        rg__deadline_restart(reqs[i]);
}

static rg_status each_part(rg__engine *e, rg_req *const *reqs, int n, part *p,
                           rg_req **left, bool is_to_queue)
{
    rg_status st = RG_OK;
    for (int i = 0; i < n; i++)
        left[i] = reqs[i];
    while (st == RG_OK && take_part(left, n, p)) {
        if (is_to_queue)
            queue_part(e, p);
        else
            st = fuse(p);
    }
    return st;
}

/* Lock held. */
static rg_status start_all(rg__engine *e, rg_req *const *reqs, int n)
{
    rg_req **rooms = calloc((size_t)(unsigned)n, 3 * sizeof(rg_req *));
    if (rooms == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a group");
    part p = {.req = rooms, .room = rooms + n};
    rg_req **left = rooms + 2 * n;
    rg_status st = check_all(e, reqs, n);
    set_deadlines(reqs, n);
    if (st == RG_OK)
        st = each_part(e, reqs, n, &p, left, false);
    if (st == RG_OK)
        st = each_part(e, reqs, n, &p, left, true);
    free(rooms);
    return st;
}

rg_status rg__engine_start_group(rg__engine *e, rg_req *const *reqs, int n,
                                 rg_status st, const char *why)
{
    if (n == 0)
        return st;
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        bytes += bytes_of(reqs[i]);
        atomic_fetch_sub(&reqs[i]->channel->noted, 1);
    }
    rg__engine_lock(e);
    if (st == RG_OK) {
        st = start_all(e, reqs, n);
        why = rg_last_error();
    }
    if (st != RG_OK)
        fail_all(e, reqs, n, st, why);
    else
        rg__engine_hand_over(e);
    rg__engine_unlock(e);
    if (st == RG_OK)
        rg__engine_wake(e, bytes);
    return st;
}
