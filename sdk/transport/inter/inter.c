/* Comms over several hosts: a member's connections, and turns of the net. */
#include "sdk/transport/inter/inter.h"
#include "sdk/transport/inter/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

#define LOOK_NS 500

rg_status rg__inter_link(rg__native *c, int member, rg__link **link_p)
{
    rg__inter *x = c->inter;
    rg__link **to = &x->link_to[member];
    if (*to == NULL) {
        const rg_status st =
            rg__link_create(c->shared->net, c->id, x->world_rank[member], to);
        if (st != RG_OK)
            return st;
        (*to)->member = member;
        x->link[x->links++] = *to;
    }
    *link_p = *to;
    return RG_OK;
}

/* The link to the member on that host that is in my rail. */
static rg_status link_rail(rg__native *c, int host, rg__link **link_p)
{
    return rg__inter_link(
        c, rg__topology_member(&c->inter->topology, host, c->rank), link_p);
}

static rg_status link_exchange(rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    rg__exchange *e = &c->inter->exchange;
    rg_status st = RG_OK;
    if (c->rank >= s->rails)
        return RG_OK;
    for (int d = 1; d < s->hosts && st == RG_OK; d *= 2) {
        const int from = rg__topology_at(s, d);
        const int to =
            rg__topology_pairs(s) ? from : rg__topology_after(s, s->host, -d);
        st = link_rail(c, to, &e->to[e->rounds]);
        if (st == RG_OK)
            st = link_rail(c, from, &e->from[e->rounds]);
        e->rounds++;
    }
    return st;
}

static rg_status link_rails(rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    rg__pipeline *x = &c->inter->pipeline;
    if (c->rank >= s->rails)
        return RG_OK;
    const int next = rg__topology_after(s, s->host, 1);
    const int prev = rg__topology_after(s, s->host, -1);
    rg_status st = link_rail(c, next, &x->next);
    if (st == RG_OK)
        st = link_rail(c, prev, &x->prev);
    return st;
}

static rg_status reserve(rg__inter *x, bool is_rail)
{
    const size_t n = (size_t)x->topology.n, hosts = (size_t)x->topology.hosts;
    x->descriptor = calloc(n, sizeof *x->descriptor);
    x->world_rank = malloc(n * sizeof *x->world_rank);
    x->link = calloc(n, sizeof(rg__link *));
    x->link_to = calloc(n, sizeof(rg__link *));
    if (is_rail) {
        x->exchange.begin = calloc(hosts, sizeof *x->exchange.begin);
        x->pipeline.scratch = malloc(STAGE_BYTES);
    }
    if (x->descriptor == NULL || x->world_rank == NULL || x->link == NULL ||
        x->link_to == NULL ||
        (is_rail && (x->exchange.begin == NULL || x->pipeline.scratch == NULL)))
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    return RG_OK;
}

rg_status rg__inter_open(rg__native *c, rg__topology *s, const int *ranks)
{
    if (s->n > MEMBERS_MAX)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "a set of %d members is too large: up to %d can be on "
                        "several hosts",
                        s->n, MEMBERS_MAX);
    rg__inter *x = calloc(1, sizeof *x);
    if (x == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    c->inter = x;
    x->topology = *s;
    *s = (rg__topology){0};
    x->verdict = (rg__exchange_verdict *)(void *)c->area +
                 c->shared->local_rank[c->member[0].rank];
    rg_status st = reserve(x, c->rank < x->topology.rails);
    if (st == RG_OK)
        memcpy(x->world_rank, ranks, (size_t)x->topology.n * sizeof *ranks);
    if (st == RG_OK)
        st = link_exchange(c);
    if (st == RG_OK)
        st = link_rails(c);
    return st;
}

void rg__inter_close(rg__native *c)
{
    rg__inter *x = c->inter;
    if (x == NULL)
        return;
    if (x->is_running)
        rg__inter_end(c);
    rg__pairs_free(c);
    for (int i = 0; i < x->links; i++)
        rg__link_destroy(x->link[i]);
    rg__topology_clear(&x->topology);
    free(x->link);
    free(x->link_to);
    free(x->world_rank);
    free(x->descriptor);
    free(x->exchange.store.at);
    free(x->exchange.halved.at);
    free(x->exchange.begin);
    free(x->pipeline.scratch);
    free(x);
    c->inter = NULL;
}

void rg__inter_begin(rg__native *c)
{
    c->inter->is_running = true;
    c->inter->ops++;
    c->inter->size_class = rg__payload_class(c);
    rg__exchange_begin(c);
    rg__payload_publish(c);
    c->shared->net->operations++;
}

void rg__inter_end(rg__native *c)
{
    c->inter->is_running = false;
    c->shared->net->operations--;
}

rg__advance_fn rg__inter_choose(const rg__native *c)
{
    if (c->rank == 0)
        return rg__verdict_find;
    return c->inter->size_class == MEDIUM && c->rank < c->inter->topology.rails
               ? rg__verdict_find_beside
               : rg__verdict_await;
}

/* A look at a socket costs as much as several looks at shared memory. A waiting
 * thread polls shared memory without a pause at first; if it polled sockets as
 * often, it would only keep the processor from the peers that it waits for. */
static bool is_time_to_look(rg__native *c)
{
    rg__inter *x = c->inter;
    const uint64_t now = rg__now_ns();
    if (c->base.moves == x->moves && now - x->looked_ns < LOOK_NS)
        return false;
    x->moves = c->base.moves;
    x->looked_ns = now;
    return true;
}

void rg__inter_poll(rg__native *c)
{
    rg__inter *x = c->inter;
    bool is_urgent = false;
    if (!is_time_to_look(c))
        return;
    for (int i = 0; i < x->links; i++) {
        x->link[i]->wants = 0;
        is_urgent |= !rg__link_is_settled(x->link[i]);
    }
    rg__net_poll(c->shared->net, is_urgent);
}

bool rg__inter_has_left(const rg__native *c, int member)
{
    const rg__inter *x = c->inter;
    for (int i = 0; x != NULL && i < x->links; i++)
        if (x->link[i]->member == member)
            return x->link[i]->has_ended;
    return false;
}

/* The exchange waits for one host at a time, and the ring for the one before:
 * it is not known here which member is missing there, so all are named. */
int rg__inter_awaited(const rg__native *c, int *ranks, int room)
{
    const rg__topology *s = &c->inter->topology;
    const rg__exchange *e = &c->inter->exchange;
    const int host = e->is_complete || e->round >= e->rounds
                         ? rg__topology_after(s, s->host, -1)
                         : rg__topology_at(s, 1 << e->round);
    int n = 0;
    if (rg__pairs_is_running(c))
        return rg__pairs_awaited(c, ranks, room);
    for (int k = 0; k < rg__topology_size(s, host) && n < room; k++)
        ranks[n++] = rg__topology_member(s, host, k);
    return n;
}
