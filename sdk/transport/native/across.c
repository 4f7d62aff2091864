/* Comms over several hosts: which connections a member needs, and the turns of
 * the net. */
#include "sdk/transport/native/across.h"

#include <stdlib.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

#define LOOK_NS 500

/* The link to the member of a host in my lane, made when it is first asked for.
 */
static rg_status take_link(comm *c, const int *ranks, int host,
                           rg__link **link_p)
{
    across *x = c->across;
    const int member = rg__spread_member(&x->spread, host, c->rank);
    const int rank = ranks[member];
    for (int i = 0; i < x->links; i++)
        if (x->link[i]->rank == rank) {
            *link_p = x->link[i];
            return RG_OK;
        }
    const rg_status st = rg__link_create(c->shared->net, c->id, rank, link_p);
    if (st != RG_OK)
        return st;
    (*link_p)->member = member;
    x->link[x->links++] = *link_p;
    return RG_OK;
}

static rg_status link_exchange(comm *c, const int *ranks)
{
    const spread *s = &c->across->spread;
    exchange *e = &c->across->exchange;
    rg_status st = RG_OK;
    if (c->rank >= s->lanes)
        return RG_OK;
    for (int d = 1; d < s->hosts && st == RG_OK; d *= 2) {
        const int to = rg__spread_after(s, s->host, -d);
        const int from = rg__spread_after(s, s->host, d);
        st = take_link(c, ranks, to, &e->to[e->rounds]);
        if (st == RG_OK)
            st = take_link(c, ranks, from, &e->from[e->rounds]);
        e->rounds++;
    }
    return st;
}

static rg_status link_crossing(comm *c, const int *ranks)
{
    const spread *s = &c->across->spread;
    crossing *x = &c->across->crossing;
    if (c->rank >= s->lanes)
        return RG_OK;
    const int next = rg__spread_after(s, s->host, 1);
    const int prev = rg__spread_after(s, s->host, -1);
    rg_status st = take_link(c, ranks, next, &x->next);
    if (st == RG_OK)
        st = take_link(c, ranks, prev, &x->prev);
    return st;
}

static rg_status reserve(across *x, bool is_lane)
{
    const size_t n = (size_t)x->spread.n, hosts = (size_t)x->spread.hosts;
    x->line = calloc(n, sizeof *x->line);
    x->link = calloc(2 * ROUNDS_MAX + 2, sizeof(rg__link *));
    if (is_lane) {
        x->exchange.begin = calloc(hosts, sizeof *x->exchange.begin);
        x->crossing.scratch = malloc(STAGE_BYTES);
    }
    if (x->line == NULL || x->link == NULL ||
        (is_lane && (x->exchange.begin == NULL || x->crossing.scratch == NULL)))
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    return RG_OK;
}

rg_status rg__across_open(comm *c, spread *s, const int *ranks)
{
    if (s->n > MEMBERS_MAX)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "a set of %d members is too large: up to %d can be on "
                        "several hosts",
                        s->n, MEMBERS_MAX);
    across *x = calloc(1, sizeof *x);
    if (x == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    c->across = x;
    x->spread = *s;
    *s = (spread){0};
    x->verdict =
        (verdict *)(void *)(c->shared->at + c->shared->layout.verdicts) +
        (uint64_t)(c->id % RG__SETS_MAX) * (uint64_t)c->shared->local_size +
        (uint64_t)c->shared->local_rank[c->member[0].rank];
    rg_status st = reserve(x, c->rank < x->spread.lanes);
    if (st == RG_OK)
        st = link_exchange(c, ranks);
    if (st == RG_OK)
        st = link_crossing(c, ranks);
    return st;
}

void rg__across_close(comm *c)
{
    across *x = c->across;
    if (x == NULL)
        return;
    if (x->is_running)
        rg__across_end(c);
    for (int i = 0; i < x->links; i++)
        rg__link_destroy(x->link[i]);
    rg__spread_clear(&x->spread);
    free(x->link);
    free(x->line);
    free(x->exchange.store);
    free(x->exchange.begin);
    free(x->crossing.scratch);
    free(x);
    c->across = NULL;
}

void rg__across_begin(comm *c)
{
    c->across->is_running = true;
    c->across->reach = rg__verdict_reach(c);
    rg__exchange_begin(c);
    rg__verdict_publish(c);
    c->shared->net->operations++;
}

void rg__across_end(comm *c)
{
    c->across->is_running = false;
    c->shared->net->operations--;
}

advance_fn rg__across_choose(const comm *c)
{
    if (c->rank == 0)
        return rg__verdict_find;
    return c->across->reach == MEDIUM && c->rank < c->across->spread.lanes
               ? rg__verdict_find_beside
               : rg__verdict_await;
}

/* A look at a socket costs as much as several looks at shared memory. Who waits
 * looks at shared memory without a pause at first; if it looked at sockets as
 * often, it would only keep the processor from the peers that it waits for. */
static bool is_time_to_look(comm *c)
{
    across *x = c->across;
    const uint64_t now = rg__now_ns();
    if (c->base.moves == x->moves && now - x->looked_ns < LOOK_NS)
        return false;
    x->moves = c->base.moves;
    x->looked_ns = now;
    return true;
}

void rg__across_poll(comm *c)
{
    across *x = c->across;
    bool is_urgent = false;
    if (!is_time_to_look(c))
        return;
    for (int i = 0; i < x->links; i++) {
        x->link[i]->wants = 0;
        is_urgent |= !rg__link_is_settled(x->link[i]);
    }
    rg__net_poll(c->shared->net, is_urgent);
}

/* Frames of an operation that differed: nobody waited for them. */
static void skip(rg__link *l)
{
    char away[4096];
    if (l->body_left == 0)
        rg__link_take(l);
    while (l->has_head && rg__link_read(l, away, sizeof away) > 0)
        ;
}

const frame *rg__across_head(comm *c, rg__link *l)
{
    const frame *head = rg__link_head(l);
    while (head != NULL && c->across->has_differed &&
           (int32_t)(head->op - c->ops) < 0) {
        skip(l);
        head = l->has_head ? NULL : rg__link_head(l);
    }
    return head;
}

bool rg__across_has_left(const comm *c, int member)
{
    const across *x = c->across;
    for (int i = 0; x != NULL && i < x->links; i++)
        if (x->link[i]->member == member)
            return x->link[i]->has_ended;
    return false;
}

/* The exchange waits for one host at a time, and the ring for the one before:
 * who is missing there is not known here, so the whole host is named. */
int rg__across_awaited(const comm *c, int *ranks, int room)
{
    const spread *s = &c->across->spread;
    const exchange *e = &c->across->exchange;
    const int d = e->is_complete || e->round >= e->rounds ? -1 : 1 << e->round;
    const int host = rg__spread_after(s, s->host, d);
    int n = 0;
    for (int k = 0; k < rg__spread_size(s, host) && n < room; k++)
        ranks[n++] = rg__spread_member(s, host, k);
    return n;
}
