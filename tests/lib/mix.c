/* Two rules keep a mix from waiting forever by its own fault. A rank starts
 * the operations of one set in the order of their places, others as it likes.
 * And it waits without looking elsewhere for an operation only when it has
 * started all that stand before it. Sets are made between acts, by all ranks in
 * one order.
 */
#include "tests/lib/mix.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/mix_inside.h"

#define ACTS    4 /* at most */
#define AHEAD   6 /* the next item is one of so many */
#define CROWDED 24
#define BYTES   ((size_t)24 << 20)
#define HANG_MS 100000

/* ---------------------------------------------------------------- starting */

static bool share_a_team(const item *a, const item *b)
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if (a->entry[i]->team == b->entry[k]->team)
                return true;
    return false;
}

/* Choose one of the next items that no earlier item on its sets holds up. */
static int pick_item(lane *l)
{
    const uint64_t n = (uint64_t)(l->items < AHEAD ? l->items : AHEAD);
    int i = (int)dice_roll(&l->own, n);
    for (int k = 0; k < i; k++)
        if (share_a_team(&l->item[k], &l->item[i])) {
            i = k;
            k = -1;
        }
    return i;
}

static void fly(lane *l, entry *e)
{
    if (e->run.st != RG_OK) {
        free(e);
        return;
    }
    CHECK(l->flights < MIX_FLIGHT);
    e->bytes = e->run.send_room.bytes + e->run.recv_room.bytes;
    l->bytes += e->bytes;
    l->flight[l->flights++] = e;
}

static void start_entry(lane *l, entry *e, bool is_group)
{
    mix_run_start(&e->run, mix_set_of(l->mix, e->team));
    if (is_group && e->run.st == RG_OK)
        CHECK_STATUS(rg_test(&e->run.req), RG_IN_PROGRESS);
}

static void start_next(lane *l)
{
    rg_ctx *ctx = l->mix->params->ctx;
    const int i = pick_item(l);
    item it = l->item[i];
    l->items--;
    memmove(&l->item[i], &l->item[i + 1],
            (size_t)(l->items - i) * sizeof *l->item);
    for (int k = 0; k < it.n; k++)
        mix_run_prepare(&it.entry[k]->run, &l->own, &l->arena);
    if (it.is_group)
        CHECK_OK(rg_group_start(ctx));
    for (int k = 0; k < it.n; k++)
        start_entry(l, it.entry[k], it.is_group);
    if (it.is_group)
        CHECK_OK(rg_group_end(ctx));
    for (int k = 0; k < it.n; k++)
        fly(l, it.entry[k]);
}

/* ----------------------------------------------------------------- waiting */

static void land(lane *l, int i, rg_status st)
{
    entry *e = l->flight[i];
    l->flight[i] = l->flight[--l->flights];
    l->bytes -= e->bytes;
    if (st == RG_ERR_MISMATCH && strstr(rg_last_error(), "rank") == NULL)
        CHECK_FAIL("%s: \"%s\" names no rank", e->run.label, rg_last_error());
    mix_run_check(&e->run, st);
    free(e);
}

/* May it be waited for? */
static bool is_due(const lane *l, const entry *e)
{
    return l->items == 0 || e->needs < l->item[0].at;
}

static void look(lane *l)
{
    if (l->flights == 0)
        return;
    const int i = (int)dice_roll(&l->own, (uint64_t)l->flights);
    const int ms = (int)dice_roll(&l->own, 3);
    const rg_status st = rg_wait(&l->flight[i]->run.req, ms == 2 ? 1 : 0);
    if (st != RG_IN_PROGRESS)
        land(l, i, st);
}

static rg_status wait_for(entry *e)
{
    const rg_status st = rg_wait(&e->run.req, HANG_MS);
    if (st == RG_IN_PROGRESS)
        CHECK_FAIL("%s hangs", e->run.label);
    return st;
}

static void wait_for_one(lane *l)
{
    const uint64_t n = (uint64_t)l->flights;
    const uint64_t first = n == 0 ? 0 : dice_roll(&l->own, n);
    for (uint64_t k = 0; k < n; k++) {
        const int i = (int)((first + k) % n);
        if (is_due(l, l->flight[i])) {
            land(l, i, wait_for(l->flight[i]));
            return;
        }
    }
}

/* The outcome of several that are waited for at once: the first failure. */
static void wait_for_all(lane *l)
{
    entry *due[MIX_FLIGHT];
    rg_req *req[MIX_FLIGHT];
    rg_status expected = RG_OK;
    int n = 0, left = 0;
    for (int i = 0; i < l->flights; i++) {
        entry *e = l->flight[i];
        if (!is_due(l, e)) {
            l->flight[left++] = e;
            continue;
        }
        l->bytes -= e->bytes;
        due[n] = e;
        req[n++] = e->run.req;
        expected = expected == RG_OK ? e->run.expected : expected;
    }
    l->flights = left;
    CHECK_STATUS(rg_wait_all(req, n, HANG_MS), expected);
    for (int i = 0; i < n; i++) {
        mix_run_check(&due[i]->run, due[i]->run.expected);
        free(due[i]);
    }
}

static void pause_shortly(lane *l)
{
    const struct timespec pause = {.tv_nsec =
                                       (long)dice_roll(&l->own, 1500000)};
    nanosleep(&pause, NULL);
}

static bool is_crowded(const lane *l)
{
    return l->flights > CROWDED || l->bytes > BYTES;
}

static void step(lane *l)
{
    const uint64_t what = dice_roll(&l->own, 40);
    if (what == 0)
        pause_shortly(l);
    else if (what == 1)
        wait_for_all(l);
    else if (what < 10)
        wait_for_one(l);
    else if (what < 22)
        look(l);
    else if (l->items > 0)
        start_next(l);
}

static void *play_lane(void *arg)
{
    lane *l = arg;
    while (l->items > 0) {
        if (is_crowded(l))
            wait_for_one(l);
        step(l);
    }
    while (l->flights > 0 && !dice_once_in(&l->own, 30))
        step(l);
    return NULL;
}

/* -------------------------------------------------------------------- acts */

static void land_team(lane *l, int team)
{
    for (int i = l->flights - 1; i >= 0; i--)
        if (l->flight[i]->team == team)
            land(l, i, wait_for(l->flight[i]));
}

static void quiet(mix *m, int i)
{
    if (m->slot[i].team >= 0)
        land_team(&m->lane[0], m->slot[i].team);
}

/* The first lane takes over what is still in flight. */
static void hand_over(mix *m, lane *l)
{
    lane *to = &m->lane[0];
    for (int i = 0; i < l->flights; i++) {
        CHECK(to->flights < MIX_FLIGHT);
        to->flight[to->flights++] = l->flight[i];
        to->bytes += l->flight[i]->bytes;
    }
    l->flights = 0;
    l->bytes = 0;
}

/* Others do not read memory for which I have no operation in flight. */
static void renew_arena(mix *m, lane *l)
{
    rg_ctx *ctx = m->params->ctx;
    void *at = NULL;
    if (m->params->shared != NULL || l->arena.live > 0 ||
        (l->arena.at != NULL && dice_once_in(&m->own, 2)))
        return;
    CHECK_OK(rg_free(ctx, l->arena.at));
    CHECK_OK(rg_alloc(ctx, l->arena.bytes, NULL, &at));
    l->arena.at = at;
}

static void play_act(mix *m)
{
    pthread_t thread[MIX_LANES];
    dice d = {dice_seed(m->seed, (uint64_t)(3000 + m->act))};
    m->lanes = m->params->may_thread && dice_once_in(&d, 3) ? MIX_LANES : 1;
    for (int i = 0; i < m->lanes; i++)
        renew_arena(m, &m->lane[i]);
    mix_change_sets(m, quiet);
    mix_claim_ids(m);
    mix_draw_act(m);
    for (int i = 1; i < m->lanes; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, play_lane, &m->lane[i]), 0);
    play_lane(&m->lane[0]);
    for (int i = 1; i < m->lanes; i++) {
        pthread_join(thread[i], NULL);
        hand_over(m, &m->lane[i]);
    }
}

static void make_lanes(mix *m)
{
    const size_t bytes = m->params->shared_bytes / MIX_LANES / 64 * 64;
    for (int i = 0; i < MIX_LANES; i++) {
        lane *l = &m->lane[i];
        l->mix = m;
        l->own = (dice){dice_seed(m->own.state, (uint64_t)i)};
        pthread_mutex_init(&l->arena.lock, NULL);
        l->arena.bytes = bytes;
        if (m->params->shared != NULL)
            l->arena.at = m->params->shared + (size_t)i * bytes;
    }
}

static void drop_lanes(mix *m)
{
    for (int i = 0; i < MIX_LANES; i++) {
        CHECK_EQ(m->lane[i].flights, 0);
        CHECK_EQ(m->lane[i].arena.live, 0);
        pthread_mutex_destroy(&m->lane[i].arena.lock);
        if (m->params->shared == NULL)
            CHECK_OK(rg_free(m->params->ctx, m->lane[i].arena.at));
        free(m->lane[i].item);
    }
}

void mix_play(const mix_params *params, uint64_t seed)
{
    static mix m; /* large */
    m = (mix){.params = params,
              .seed = seed,
              .me = rg_rank(params->ctx),
              .size = rg_size(params->ctx)};
    m.own = (dice){dice_seed(seed, (uint64_t)(4000 + m.me))};
    m.team[0].n = m.size;
    for (int i = 0; i < m.size; i++)
        m.team[0].rank[i] = i;
    make_lanes(&m);
    const int acts = 1 + (int)(dice_seed(seed, 5000) % ACTS);
    for (m.act = 0; m.act < acts; m.act++)
        play_act(&m);
    wait_for_all(&m.lane[0]);
    mix_drop_sets(&m);
    drop_lanes(&m);
}
