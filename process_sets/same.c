/* Have all members of a set started the same on the device? NCCL compares
 * nothing: ranks that differ wait for each other, or add up what does not
 * belong together. So Regroup compares, over channels in host memory:
 *
 *   at a commit    before anything is saved: a hash of each lane, up to the
 *                  operation that all its members have started
 *   at a stall     when something has waited for REGROUP_STALL on every rank,
 *                  on the device or in an operation on host memory, by a thread
 *                  of its own and a channel that programs don't use
 *
 * Lanes that differ are examined one by one, and the first operation that is
 * not the same on all members is named. That ends the device's work in this
 * generation, on all ranks of the world: whatever they wait for or start
 * returns ERR_MISMATCH. An operation that some have not started at all may
 * still come; it is reported, and its deadline ends it. */
#include "process_sets/sets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "process_sets/sets_parts.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/start_thread.h"

#define LANES  RG__SETS_DEVICE
#define WINDOW 32 /* the newest operations, compared one by one */

static const char comparing[] =
    "comparing what ranks have started on the device";

typedef struct view {
    rg_ctx *ctx;
    rg__channel *channel;
    uint64_t generation;
    int size;
    rg__lane_account lane[LANES]; /* this rank's */
    int lanes;
} view;

static rg_status gather(const view *v, const void *mine, void *all,
                        uint64_t bytes)
{
    return rg__gather_over(v->channel, comparing, mine, all, bytes, v->size);
}

static void look_at_lanes(view *v)
{
    v->lanes =
        rg__device_accounts(v->ctx->device, v->generation, v->lane, LANES);
}

static const rg__lane_account *find(const view *v, uint64_t key)
{
    for (int i = 0; i < v->lanes; i++)
        if (v->lane[i].key == key)
            return &v->lane[i];
    return NULL;
}

/* ---------------------------------------------------------------- one lane */

/* One rank's report on a lane, over three rounds; zeros if no member. */
typedef struct report {
    rg__lane_account account;
    rg__history history[WINDOW]; /* after the last operations that all have
                                  * started */
    uint32_t known;              /* a bit for each of these */
    uint32_t has_descriptor;
    rg__descriptor descriptor; /* of the operation in question */
} report;

/* The lane as all ranks see it. */
typedef struct lane {
    uint64_t key;
    const report *member; /* any one of them; NULL: none is known */
    int n;                /* members that are known */
    uint64_t least;       /* operations that all of them have started */
    uint64_t k;           /* the first that differs, or that some lack */
    bool differs;
    bool is_of_counts; /* only their own counts differ */
} lane;

static void add_up(const view *v, const report *all, lane *l)
{
    for (int r = 0; r < v->size; r++) {
        const rg__lane_account *a = &all[r].account;
        if (a->key != l->key)
            continue;
        if (l->n++ == 0 || a->started < l->least)
            l->least = a->started;
        l->member = &all[r];
    }
}

static bool is_whole(const lane *l)
{
    return l->member != NULL && l->n == l->member->account.n;
}

/* The number of the window's i-th operation; 0 or below: there is none. */
static int64_t at(const lane *l, int i)
{
    return (int64_t)l->least - (WINDOW - 1) + i;
}

static void recall_window(const view *v, const lane *l, report *mine)
{
    rg__descriptor ignored;
    for (int i = 0; i < WINDOW; i++)
        if (at(l, i) > 0 &&
            rg__lane_recall(v->ctx->device, l->key, (uint64_t)at(l, i),
                            &mine->history[i], &ignored))
            mine->known |= UINT32_C(1) << i;
}

/* A bit for each operation in the window that all members have on record. */
static uint32_t find_known(const view *v, const report *all, const lane *l)
{
    uint32_t known = UINT32_MAX;
    for (int r = 0; r < v->size; r++)
        if (all[r].account.key == l->key)
            known &= all[r].known;
    return known;
}

static bool is_same(const view *v, const report *all, const lane *l, int i)
{
    for (int r = 0; r < v->size; r++)
        if (all[r].account.key == l->key &&
            all[r].history[i].hash != l->member->history[i].hash)
            return false;
    return true;
}

static bool is_balanced(const view *v, const report *all, const lane *l, int i)
{
    uint64_t sum = 0;
    for (int r = 0; r < v->size; r++)
        if (all[r].account.key == l->key)
            sum += all[r].history[i].balance;
    return sum == 0;
}

static void find_first(const view *v, const report *all, lane *l)
{
    const uint32_t known = find_known(v, all, l);
    l->k = l->least + 1;
    for (int i = 0; i < WINDOW && !l->differs; i++) {
        if ((known & UINT32_C(1) << i) == 0)
            continue;
        l->is_of_counts = is_same(v, all, l, i);
        l->differs = !l->is_of_counts || !is_balanced(v, all, l, i);
        if (l->differs)
            l->k = (uint64_t)at(l, i);
    }
}

/* "rank 1 has", "ranks 1,3 have": those that started the fewest operations. */
static void list_late(const view *v, const report *all, const lane *l,
                      char *text, size_t room)
{
    int n = 0;
    for (int r = 0; r < v->size; r++)
        n += all[r].account.key == l->key && all[r].account.started == l->least;
    size_t used = (size_t)snprintf(text, room, n == 1 ? "rank" : "ranks");
    for (int r = 0, k = 0; r < v->size && used + 20 < room; r++)
        if (all[r].account.key == l->key && all[r].account.started == l->least)
            used += (size_t)snprintf(text + used, room - used, "%s%d",
                                     k++ > 0 ? "," : " ", all[r].account.rank);
    snprintf(text + used, room - used, n == 1 ? " has" : " have");
}

/* Said on the ranks that wait for the others. */
static void tell_missing(const view *v, const report *all, const lane *l)
{
    const rg__lane_account *mine = find(v, l->key);
    char ranks[120];
    if (mine == NULL || mine->started == l->least)
        return;
    list_late(v, all, l, ranks, sizeof ranks);
    for (int r = 0; r < v->size; r++)
        if (all[r].account.key == l->key && all[r].has_descriptor) {
            rg__log(RG__WARN, "set",
                    "stalled: on the device, operation %" PRIu64
                    " on %s is the %s of rank %d, and %s not started it",
                    l->k, rg__set_words(mine->set).text,
                    rg__kind_name(all[r].descriptor.kind), all[r].account.rank,
                    ranks);
            return;
        }
}

static rg_status name_difference(const view *v, const report *all,
                                 const lane *l)
{
    rg__coll ignored;
    rg__descriptor *descriptor =
        calloc((size_t)(unsigned)l->n, sizeof *descriptor);
    if (descriptor == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to compare ranks");
    for (int r = 0; r < v->size; r++)
        if (all[r].account.key == l->key && all[r].account.rank < l->n &&
            all[r].account.rank >= 0)
            descriptor[all[r].account.rank] = all[r].descriptor;
    const rg_status st = rg__descriptor_compare(
        l->member->account.set, descriptor, sizeof *descriptor, l->n, &ignored);
    free(descriptor);
    return st != RG_ERR_MISMATCH
               ? rg__fail(RG_ERR_MISMATCH,
                          "on the device, before operation %" PRIu64
                          " of set %u: ranks have started different "
                          "operations; start the same on every member",
                          l->k, l->member->account.set)
               : rg__fail(RG_ERR_MISMATCH,
                          "on the device, operation %" PRIu64 ": %s", l->k,
                          rg_last_error());
}

/* ------------------------------------------------- counts of a rank's own */

/* Room for one rank's report of counts: whether it knows them, how many
 * elements it sends to each of n members, and how many it expects from each. */
static size_t count_words(const lane *l)
{
    return 1 + 2 * (size_t)(unsigned)l->n;
}

static rg_status fail_pair(const lane *l, int from, int to, uint64_t sends,
                           uint64_t expects)
{
    return rg__fail(RG_ERR_MISMATCH,
                    "on the device, operation %" PRIu64 ": %s on %s: rank %d "
                    "sends %" PRIu64 " elements to rank %d, which expects "
                    "%" PRIu64 "; give the same count on both",
                    l->k, rg__kind_name(l->member->descriptor.kind),
                    rg__set_words(l->member->account.set).text, from, sends, to,
                    expects);
}

static rg_status fail_counts(const lane *l)
{
    return rg__fail(RG_ERR_MISMATCH,
                    "on the device, before operation %" PRIu64 " of set %u: "
                    "in a gatherv, scatterv or alltoallv a rank sends what "
                    "another does not expect; give the same count on both",
                    l->k, l->member->account.set);
}

/* of[r] is what member r reports. */
static rg_status find_pair(const lane *l, const uint64_t *const *of)
{
    for (int r = 0; r < l->n; r++)
        if (of[r] == NULL || of[r][0] == 0)
            return fail_counts(l);
    for (int from = 0; from < l->n; from++)
        for (int to = 0; to < l->n; to++)
            if (of[from][1 + to] != of[to][1 + l->n + from])
                return fail_pair(l, from, to, of[from][1 + to],
                                 of[to][1 + l->n + from]);
    return fail_counts(l);
}

static rg_status name_pair(const view *v, const report *all, const lane *l,
                           const uint64_t *counts)
{
    const uint64_t **of = calloc((size_t)(unsigned)l->n, sizeof *of);
    if (of == NULL)
        return fail_counts(l);
    for (int r = 0; r < v->size; r++)
        if (all[r].account.key == l->key && all[r].account.rank < l->n &&
            all[r].account.rank >= 0)
            of[all[r].account.rank] =
                counts + (size_t)(unsigned)r * count_words(l);
    const rg_status st = find_pair(l, of);
    free(of);
    return st;
}

static rg_status name_counts(const view *v, const report *all, const lane *l)
{
    const size_t words = count_words(l);
    uint64_t *mine = calloc(words, sizeof *mine);
    uint64_t *each = calloc(words * (unsigned)v->size, sizeof *each);
    rg_status st = RG_OK;
    if (mine == NULL || each == NULL)
        st = rg__fail(RG_ERR_MEMORY, "no memory to compare ranks");
    if (st == RG_OK) {
        mine[0] =
            rg__lane_recall_counts(v->ctx->device, l->key, l->k, mine + 1);
        st = gather(v, mine, each, words * sizeof *mine);
    }
    if (st == RG_OK)
        st = name_pair(v, all, l, each);
    free(mine);
    free(each);
    return st;
}

/* All ranks go through the same rounds, so that all see the same. */
static rg_status compare_in(const view *v, lane *l, report *mine, report *all)
{
    const rg__lane_account *account = find(v, l->key);
    rg__history ignored;
    if (account != NULL)
        mine->account = *account;
    rg_status st = gather(v, mine, all, sizeof *mine);
    if (st != RG_OK)
        return st;
    add_up(v, all, l);
    if (!is_whole(l))
        return RG_OK;
    if (account != NULL)
        recall_window(v, l, mine);
    st = gather(v, mine, all, sizeof *mine);
    if (st != RG_OK)
        return st;
    find_first(v, all, l);
    mine->has_descriptor =
        account != NULL && rg__lane_recall(v->ctx->device, l->key, l->k,
                                           &ignored, &mine->descriptor);
    st = gather(v, mine, all, sizeof *mine);
    if (st != RG_OK)
        return st;
    if (l->differs)
        return l->is_of_counts ? name_counts(v, all, l)
                               : name_difference(v, all, l);
    tell_missing(v, all, l);
    return RG_OK;
}

static rg_status compare_lane(const view *v, uint64_t key)
{
    lane l = {.key = key};
    report mine = {0};
    report *all = calloc((size_t)(unsigned)v->size, sizeof *all);
    if (all == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to compare ranks");
    const rg_status st = compare_in(v, &l, &mine, all);
    free(all);
    return st;
}

/* The smallest key above the last one. */
static uint64_t next_key(const uint64_t *keys, int n, uint64_t last)
{
    uint64_t next = 0;
    for (int r = 0; r < n; r++)
        if (keys[r] > last && (next == 0 || keys[r] < next))
            next = keys[r];
    return next;
}

/* Each rank names a lane, or none (0); these are compared until one differs. */
static rg_status compare_named(const view *v, uint64_t mine)
{
    uint64_t *keys = calloc((size_t)(unsigned)v->size, sizeof *keys);
    if (keys == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to compare ranks");
    rg_status st = gather(v, &mine, keys, sizeof mine);
    uint64_t key = 0;
    while (st == RG_OK && (key = next_key(keys, v->size, key)) != 0)
        st = compare_lane(v, key);
    free(keys);
    return st;
}

static rg_status end_here(const view *v, rg_status st)
{
    char why[RG__TEXT_MAX];
    if (st != RG_ERR_MISMATCH)
        return st;
    snprintf(why, sizeof why, "%s", rg_last_error());
    rg__device_close(v->ctx->device, v->generation, st, why);
    rg__engine_shut_in(v->ctx->engine, v->generation, st, why);
    return rg__fail(st, "%s", why);
}

/* ------------------------------------------------------------- at a commit */

/* Was the world connected on all ranks at once? (Otherwise, on none.) */
bool rg__sets_are_compared(const rg_ctx *ctx)
{
    rg__channel *watch = ctx->sets->watch;
    return watch != NULL && rg__channel_check(watch) == RG_OK;
}

static uint64_t weight_of(uint64_t key, int rank)
{
    uint64_t w = key + (uint64_t)(unsigned)rank * UINT64_C(0x9e3779b97f4a7c15);
    w = (w ^ w >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return w ^ w >> 27;
}

/* The weights of all members add up to 0; so do equal hashes times their
 * weights, and matching balances. */
static uint64_t weigh(const rg__lane_account *a, const rg__history *h)
{
    uint64_t weight = 0;
    if (a->rank != 0)
        return h->hash * weight_of(a->key, a->rank) + h->balance;
    for (int r = 1; r < a->n; r++)
        weight -= weight_of(a->key, r);
    return h->hash * weight + h->balance;
}

/* For each place of sets: what all members have started and still have on
 * record. Sets without a common member may share a place, and are then compared
 * only as far as the slower one has come. */
typedef struct bounds {
    int64_t started[LANES], kept[LANES]; /* kept is negative */
} bounds;

static void bound(const view *v, bounds *b)
{
    for (int i = 0; i < LANES; i++)
        b->started[i] = b->kept[i] = INT64_MAX;
    for (int i = 0; i < v->lanes; i++) {
        const uint32_t place = v->lane[i].set % LANES;
        b->started[place] = (int64_t)v->lane[i].started;
        b->kept[place] = -(int64_t)v->lane[i].kept;
    }
}

static void weigh_all(const view *v, const bounds *b, uint64_t sum[LANES])
{
    for (int i = 0; i < v->lanes; i++) {
        const rg__lane_account *a = &v->lane[i];
        const int64_t k = b->started[a->set % LANES];
        rg__history history;
        rg__descriptor ignored;
        if (k >= -b->kept[a->set % LANES] &&
            rg__lane_recall(v->ctx->device, a->key, (uint64_t)k, &history,
                            &ignored))
            sum[a->set % LANES] = weigh(a, &history);
    }
}

static uint64_t key_at(const view *v, uint32_t place)
{
    for (int i = 0; i < v->lanes; i++)
        if (v->lane[i].set % LANES == place)
            return v->lane[i].key;
    return 0;
}

static rg_status compare_all(const view *v)
{
    bounds b;
    uint64_t sum[LANES] = {0};
    bound(v, &b);
    rg_status st = rg__reduce_over(v->channel, comparing, 0, RG_I64, RG_MIN, &b,
                                   2 * LANES);
    if (st != RG_OK)
        return st;
    weigh_all(v, &b, sum);
    st = rg__reduce_over(v->channel, comparing, 0, RG_U64, RG_SUM, sum, LANES);
    for (uint32_t i = 0; i < LANES && st == RG_OK; i++)
        if (sum[i] != 0)
            st = compare_named(v, key_at(v, i));
    return st;
}

rg_status rg__sets_compare(rg_ctx *ctx)
{
    view v = {.ctx = ctx,
              .channel = ctx->sets->world.channel,
              .generation = ctx->now.generation,
              .size = ctx->now.size};
    look_at_lanes(&v);
    return end_here(&v, compare_all(&v));
}

/* -------------------------------------------------------------- at a stall */

static uint64_t stalled_key(const view *v)
{
    for (int i = 0; i < v->lanes; i++)
        if (v->lane[i].is_stalled)
            return v->lane[i].key;
    return 0;
}

/* All ranks have come here because something waits on each; so only now does
 * this one read what it has started. */
static rg_status watch(view *v)
{
    const rg__coll coll = {.kind = RG__BARRIER, .what = comparing};
    const rg_status st = rg__channel_run(v->channel, &coll, 0, 0);
    if (st != RG_OK)
        return st;
    look_at_lanes(v);
    return compare_named(v, stalled_key(v));
}

static void *run_watcher(void *arg)
{
    rg_ctx *ctx = arg;
    rg__membership now;
    pthread_setname_np(pthread_self(), "rg-watch");
    if (rg__context_copy_membership(ctx, &now) == RG_OK) {
        view v = {.ctx = ctx,
                  .channel = ctx->sets->watch,
                  .generation = now.generation,
                  .size = now.size};
        free(now.member);
        end_here(&v, watch(&v));
    }
    atomic_store(&ctx->sets->watched_ns, rg__now_ns());
    atomic_store(&ctx->sets->is_watching, false);
    return NULL;
}

static void begin(rg_ctx *ctx)
{
    rg__sets *sets = ctx->sets;
    if (sets->has_watcher)
        pthread_join(sets->watcher, NULL);
    atomic_store(&sets->is_watching, true);
    sets->has_watcher = rg__start_thread(&sets->watcher, run_watcher, ctx) == 0;
    if (!sets->has_watcher)
        atomic_store(&sets->is_watching, false);
}

void rg__same_look(void *arg, bool is_stalled)
{
    rg_ctx *ctx = arg;
    rg__sets *sets = ctx->sets;
    const uint64_t stall = rg__engine_stall_ms(ctx->engine) * RG__MS;
    if (atomic_load(&sets->is_watching) ||
        rg__now_ns() < atomic_load(&sets->watched_ns) + stall ||
        (!is_stalled && !rg__engine_is_stalled(ctx->engine)) ||
        rg__channel_check(sets->watch) != RG_OK)
        return;
    pthread_mutex_lock(&sets->lock);
    if (!sets->is_unwatched)
        begin(ctx);
    pthread_mutex_unlock(&sets->lock);
}

void rg__sets_unwatch(rg_ctx *ctx)
{
    rg__sets *sets = ctx->sets;
    pthread_mutex_lock(&sets->lock);
    sets->is_unwatched = true;
    pthread_mutex_unlock(&sets->lock);
    if (sets->watch != NULL)
        rg__channel_close(sets->watch, RG_ERR_INVALID,
                          "rg_finalize was called");
    if (sets->has_watcher)
        pthread_join(sets->watcher, NULL);
    sets->has_watcher = false;
}

rg_status rg__same_create(rg_ctx *ctx)
{
    rg_status st = RG_OK;
    if (ctx->sets->watch == NULL)
        st = rg__channel_create(ctx->engine, &ctx->sets->watch);
    if (st != RG_OK)
        return st;
    rg__channel_name(ctx->sets->watch, "world");
    rg__channel_hush(ctx->sets->watch);
    return RG_OK;
}

rg_status rg__same_open(rg_ctx *ctx, int n)
{
    int *ranks = calloc((size_t)(unsigned)n, sizeof *ranks);
    if (ranks == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to connect a set");
    for (int r = 0; r < n; r++)
        ranks[r] = r;
    const rg_status st =
        rg__channel_open(ctx->sets->watch, rg__engine_generation(ctx->engine),
                         ranks, n, RG__SET_OWN);
    free(ranks);
    return st;
}
