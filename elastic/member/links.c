#include "elastic/member/links.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/grow.h"

#define MINUTE_NS UINT64_C(60000000000)

/* How long a host is shut out: FIRST, then twice as long each time, up to FIRST
 * << TIMES. A host that stays out of trouble begins with FIRST again. */
#define FIRST_NS    UINT64_C(5000000000)
#define TIMES_MAX   7
#define FORGIVEN_NS (10 * MINUTE_NS)

/* When an accusation counts, in rounds of looks: by then a living host has been
 * asked to look, and its own accusations are here. */
#define STAND(round) ((round) + (round) / 2)
#define PATIENCE(round)                                                        \
    (5 * (round))                      /* with hosts that say nothing: budget  \
                                        */
#define LIMIT(round)    (10 * (round)) /* whatever comes after it */
#define ACCUSERS_ENOUGH 3              /* of a host that says nothing */

typedef struct node {
    uint64_t id;
    int workers, lowest_rank;
    int missing, accusers; /* among the hosts that stay */
    bool is_lost;
    bool has_spoken; /* it accuses a host */
    bool is_deaf;    /* it accuses itself: it hears no host */
} node;

typedef struct graph {
    node *node;
    int n;
} graph;

static int find(const graph *g, uint64_t id)
{
    for (int i = 0; i < g->n; i++)
        if (g->node[i].id == id)
            return i;
    return -1;
}

static void add(graph *g, uint64_t id)
{
    if (find(g, id) < 0)
        g->node[g->n++] = (node){.id = id, .lowest_rank = INT_MAX};
}

static int host_count(const rg__proposal *p)
{
    return p != NULL ? p->host_count : 0;
}

/* A host that has left or begun again is no longer a peer. */
static void add_hosts(const rg__snapshot *s, const rg__proposal *p, graph *g)
{
    for (int i = 0; p != NULL && i < p->host_count; i++) {
        const rg__proposal_host *host = &p->host[i];
        const rg__host_record *record = rg__snapshot_host(s, host->id);
        if (!rg__snapshot_is_other(s, host->name, host->id) &&
            !(record != NULL && record->is_gone))
            add(g, host->id);
    }
}

/* Hosts with a record, and those of the world and of the proposal whose lease
 * has ended. An agent that does not lead sees no records: of other hosts it
 * counts those that accusations name. */
static bool collect(const rg__snapshot *s, const rg__proposal *world, graph *g)
{
    const rg__proposal *next = rg__snapshot_gen(s, s->cur.generation);
    const int most =
        s->hosts + host_count(world) + host_count(next) + 2 * s->suspicions;
    g->node = calloc((size_t)most + 1, sizeof *g->node);
    if (g->node == NULL)
        return false;
    for (int i = 0; i < s->hosts; i++)
        if (!s->host[i].is_gone)
            add(g, s->host[i].id);
    add_hosts(s, world, g);
    add_hosts(s, next, g);
    for (int i = 0; s->hosts == 0 && i < s->suspicions; i++) {
        add(g, s->suspicion[i].host);
        add(g, s->suspicion[i].by);
    }
    for (int r = 0; world != NULL && r < world->size; r++)
        for (int i = 0; i < g->n; i++) {
            node *one = &g->node[i];
            if (one->id != world->member[r].host)
                continue;
            one->workers++;
            one->lowest_rank = r < one->lowest_rank ? r : one->lowest_rank;
        }
    return true;
}

static bool accuses(const rg__snapshot *s, uint64_t by, uint64_t host)
{
    for (int i = 0; i < s->suspicions; i++)
        if (s->suspicion[i].by == by && s->suspicion[i].host == host)
            return true;
    return false;
}

/* Hosts that count: those that stay, and at first only those of the world. */
static bool counts(const node *one, bool only_world)
{
    return !one->is_lost && (one->workers > 0 || !only_world);
}

static void count(const rg__snapshot *s, graph *g, bool only_world)
{
    for (int i = 0; i < g->n; i++)
        g->node[i].missing = g->node[i].accusers = 0;
    for (int i = 0; i < s->suspicions; i++) {
        const rg__suspicion *one = &s->suspicion[i];
        const int host = find(g, one->host), by = find(g, one->by);
        if (host < 0 || by < 0 || host == by || /* it has no link to itself */
            !counts(&g->node[host], only_world) ||
            !counts(&g->node[by], only_world))
            continue;
        g->node[host].accusers++;
        /* a link that both accuse is one link */
        if (accuses(s, one->host, one->by) && host > by)
            continue;
        g->node[host].missing++;
        g->node[by].missing++;
    }
}

/* Asked to look at all others, a host that lives and is accused accuses as
 * well: a link that is broken in one direction is broken for both ends. */
static bool is_silent(const node *one)
{
    return one->accusers > 0 && !one->has_spoken;
}

static bool goes_before(const node *a, const node *b)
{
    if (is_silent(a) != is_silent(b))
        return is_silent(a);
    if (a->missing != b->missing)
        return a->missing > b->missing;
    if (a->accusers != b->accusers)
        return a->accusers > b->accusers;
    if (a->is_deaf != b->is_deaf)
        return a->is_deaf;
    if (a->workers != b->workers)
        return a->workers < b->workers;
    return a->lowest_rank > b->lowest_rank;
}

/* Of the world in the first round, of the others in the second. */
static node *worst(graph *g, bool only_world)
{
    node *found = NULL;
    for (int i = 0; i < g->n; i++) {
        node *one = &g->node[i];
        if (!one->is_lost && one->missing > 0 &&
            (one->workers > 0) == only_world &&
            (found == NULL || goes_before(one, found)))
            found = one;
    }
    return found;
}

static void hear_all(const rg__snapshot *all, graph *g)
{
    for (int i = 0; i < all->suspicions; i++) {
        const int by = find(g, all->suspicion[i].by);
        if (by < 0)
            continue;
        g->node[by].has_spoken = true;
        g->node[by].is_deaf |= all->suspicion[i].host == g->node[by].id;
    }
}

/* snap has the accusations that count; `all` also has those that don't yet. */
static int find_lost(const rg__snapshot *snap, const rg__snapshot *all,
                     uint64_t *lost, int room)
{
    graph g = {0};
    int n = 0;
    if (snap->suspicions == 0 || !collect(snap, rg__snapshot_decided(snap), &g))
        return 0;
    hear_all(all, &g);
    for (int round = 0; round < 2; round++) {
        const bool only_world = round == 0;
        node *one;
        for (count(snap, &g, only_world);
             n < room && (one = worst(&g, only_world)) != NULL;
             count(snap, &g, only_world)) {
            one->is_lost = true;
            lost[n++] = one->id;
        }
    }
    free(g.node);
    return n;
}

void rg__links_keep_times(rg__snapshot *snap, const rg__suspicion *before,
                          int n, uint64_t now_ns)
{
    for (int i = 0; i < snap->suspicions; i++) {
        rg__suspicion *one = &snap->suspicion[i];
        one->since_ns = now_ns;
        for (int k = 0; k < n; k++)
            if (before[k].host == one->host && before[k].by == one->by &&
                before[k].mod_revision == one->mod_revision)
                one->since_ns = before[k].since_ns;
    }
}

/* ------------------------------------------------------- when they count */

/* Hosts of the world that accusations link, and so are judged together. */
typedef struct party {
    int of;        /* node of the world: the first host of its party */
    bool is_whole; /* all of the party have spoken */
    uint64_t newest_ns;
    int accusers_stood; /* of this host */
} party;

/* An accusation between two hosts of the world; others only cost an outsider
 * its place, and are judged one by one. */
static bool is_inner(const graph *g, const rg__suspicion *s, int *host, int *by)
{
    *host = find(g, s->host);
    *by = find(g, s->by);
    return *host >= 0 && *by >= 0 && g->node[*host].workers > 0 &&
           g->node[*by].workers > 0;
}

static void join(party *all, int n, int a, int b)
{
    const int stays = all[a].of < all[b].of ? all[a].of : all[b].of;
    const int goes = all[a].of < all[b].of ? all[b].of : all[a].of;
    for (int i = 0; i < n; i++)
        if (all[i].of == goes)
            all[i].of = stays;
}

static void find_parties(const rg__snapshot *s, const graph *g, uint64_t now_ns,
                         uint64_t round_ns, party *all)
{
    int host, by;
    for (int i = 0; i < g->n; i++)
        all[i] = (party){.of = i, .is_whole = true};
    for (int i = 0; i < s->suspicions; i++)
        if (is_inner(g, &s->suspicion[i], &host, &by))
            join(all, g->n, host, by);
    for (int i = 0; i < g->n; i++)
        all[all[i].of].is_whole &= g->node[i].has_spoken;
    for (int i = 0; i < s->suspicions; i++) {
        const uint64_t since = s->suspicion[i].since_ns;
        if (!is_inner(g, &s->suspicion[i], &host, &by))
            continue;
        party *its = &all[all[host].of];
        its->newest_ns = since > its->newest_ns ? since : its->newest_ns;
        all[host].accusers_stood += now_ns >= since + STAND(round_ns);
    }
}

static int count_world(const graph *g)
{
    int n = 0;
    for (int i = 0; i < g->n; i++)
        n += g->node[i].workers > 0;
    return n;
}

/* Many hosts miss it, and it has been silent: there is nothing to wait for. */
static bool is_clearly_gone(const graph *g, const party *all, int host)
{
    const int accusers = all[host].accusers_stood;
    return !g->node[host].has_spoken &&
           (accusers >= ACCUSERS_ENOUGH || accusers * 2 > count_world(g) - 1);
}

/* When an accusation begins to count. */
static uint64_t counts_from(const graph *g, const party *all,
                            const rg__suspicion *s, uint64_t round_ns)
{
    int host, by;
    if (!is_inner(g, s, &host, &by) || is_clearly_gone(g, all, host))
        return s->since_ns + STAND(round_ns);
    const party *its = &all[all[host].of];
    const uint64_t at =
        its->newest_ns + (its->is_whole ? STAND(round_ns) : PATIENCE(round_ns));
    const uint64_t limit = s->since_ns + LIMIT(round_ns);
    return at < limit ? at : limit;
}

static void choose_stood(const rg__snapshot *snap, uint64_t now_ns,
                         uint64_t round_ns, const graph *g, const party *all,
                         rg__snapshot *stood, uint64_t *again_ns_p)
{
    for (int i = 0; i < snap->suspicions; i++) {
        const rg__suspicion *one = &snap->suspicion[i];
        const uint64_t at = counts_from(g, all, one, round_ns);
        const uint64_t own = one->since_ns + STAND(round_ns);
        if (at <= now_ns) {
            stood->suspicion[stood->suspicions++] = *one;
            continue;
        }
        /* its own time may settle which host is gone */
        const uint64_t next = own > now_ns && own < at ? own : at;
        if (*again_ns_p == 0 || next - now_ns < *again_ns_p)
            *again_ns_p = next - now_ns;
    }
}

int rg__links_lost(const rg__snapshot *snap, uint64_t now_ns, uint64_t round_ns,
                   uint64_t *lost, int room, uint64_t *again_ns_p)
{
    graph g = {0};
    rg__snapshot stood = *snap;
    int n = 0;
    *again_ns_p = 0;
    if (snap->suspicions == 0 || !collect(snap, rg__snapshot_decided(snap), &g))
        return 0;
    hear_all(snap, &g);
    stood.suspicions = 0;
    stood.suspicion = calloc((size_t)snap->suspicions, sizeof *stood.suspicion);
    party *all = calloc((size_t)g.n + 1, sizeof *all);
    if (stood.suspicion != NULL && all != NULL) {
        find_parties(snap, &g, now_ns, round_ns, all);
        choose_stood(snap, now_ns, round_ns, &g, all, &stood, again_ns_p);
        n = find_lost(&stood, snap, lost, room);
    }
    free(stood.suspicion);
    free(all);
    free(g.node);
    return n;
}

/* ----------------------------------------------------- broken connections */

/* Forget a host that has stayed out of trouble for long enough. */
static void forgive(rg__plan_clock *clock, uint64_t now_ns)
{
    int n = 0;
    for (int i = 0; i < clock->shut_outs; i++)
        if (now_ns < clock->shut_out[i].until_ns + FORGIVEN_NS)
            clock->shut_out[n++] = clock->shut_out[i];
    clock->shut_outs = n;
}

static rg__shut_out *find_shut_out(const rg__plan_clock *clock, uint64_t host)
{
    for (int i = 0; i < clock->shut_outs; i++)
        if (clock->shut_out[i].host == host)
            return &clock->shut_out[i];
    return NULL;
}

static rg__shut_out *make_shut_out(rg__plan_clock *clock, uint64_t host)
{
    rg__shut_out *one =
        rg__grow(&clock->shut_out, (size_t)clock->shut_outs, sizeof *one);
    if (one == NULL)
        return NULL; /* it may try again at once */
    one->host = host;
    clock->shut_outs++;
    return one;
}

void rg__shut_out_add(rg__plan_clock *clock, uint64_t host, uint64_t now_ns)
{
    forgive(clock, now_ns);
    rg__shut_out *one = find_shut_out(clock, host);
    if (one == NULL)
        one = make_shut_out(clock, host);
    if (one == NULL || one->until_ns > now_ns)
        return;
    one->until_ns = now_ns + (FIRST_NS << one->times);
    one->times += one->times < TIMES_MAX;
}

bool rg__shut_out_is(const rg__plan_clock *clock, uint64_t host,
                     uint64_t now_ns)
{
    const rg__shut_out *one = find_shut_out(clock, host);
    return one != NULL && one->until_ns > now_ns;
}

void rg__plan_clock_reset(rg__plan_clock *clock)
{
    free(clock->shut_out);
    *clock = (rg__plan_clock){0};
}

static bool is_noted(const rg__plan_clock *clock, const rg__reason *r)
{
    for (int i = 0; i < clock->reports; i++)
        if (clock->report[i].generation == r->generation &&
            strcmp(clock->report[i].by, r->by) == 0 &&
            strcmp(clock->report[i].link, r->link) == 0)
            return true;
    return false;
}

static void drop_old(rg__plan_clock *clock, uint64_t now_ns)
{
    int n = 0;
    for (int i = 0; i < clock->reports; i++)
        if (now_ns - clock->report[i].at_ns < MINUTE_NS)
            clock->report[n++] = clock->report[i];
    if (n == RG__REPORTS_MAX) {
        memmove(clock->report, clock->report + 1,
                sizeof clock->report[0] * (RG__REPORTS_MAX - 1));
        n--;
    }
    clock->reports = n;
}

static bool is_pair(const rg__link_report *r, const char *a, const char *b)
{
    return (strcmp(r->by, a) == 0 && strcmp(r->link, b) == 0) ||
           (strcmp(r->by, b) == 0 && strcmp(r->link, a) == 0);
}

/* The generation that followed that one; NULL: none yet. */
static const rg__proposal *successor(const rg__snapshot *snap,
                                     uint64_t generation)
{
    for (int i = 0; i < snap->lines; i++)
        if (snap->line[i].generation > generation)
            return rg__snapshot_gen(snap, snap->line[i].generation);
    return NULL;
}

static const rg__proposal_host *host_named(const rg__proposal *p,
                                           const char *name)
{
    for (int i = 0; p != NULL && i < p->host_count; i++)
        if (strcmp(p->host[i].name, name) == 0)
            return &p->host[i];
    return NULL;
}

static bool has_kept(const rg__proposal *before, const rg__proposal *after,
                     const char *name)
{
    const rg__proposal_host *a = host_named(before, name);
    const rg__proposal_host *b = host_named(after, name);
    return a != NULL && b != NULL && a->id == b->id;
}

/* No worker died: both hosts went on. */
static bool is_of_links_only(const rg__snapshot *snap, const rg__link_report *r)
{
    const rg__proposal *before = rg__snapshot_gen(snap, r->generation);
    const rg__proposal *after = successor(snap, r->generation);
    return has_kept(before, after, r->by) && has_kept(before, after, r->link);
}

/* A host that has started again has other connections. */
static bool is_of_same_agents(const rg__snapshot *snap,
                              const rg__link_report *before,
                              const rg__reason *now)
{
    const rg__proposal *a = rg__snapshot_gen(snap, before->generation);
    const rg__proposal *b = rg__snapshot_gen(snap, now->generation);
    return has_kept(a, b, now->by) && has_kept(a, b, now->link);
}

static bool is_reported_before(const rg__plan_clock *clock,
                               const rg__snapshot *snap, const rg__reason *r)
{
    for (int i = 0; i < clock->reports; i++)
        if (clock->report[i].generation < r->generation &&
            is_pair(&clock->report[i], r->by, r->link) &&
            is_of_links_only(snap, &clock->report[i]) &&
            is_of_same_agents(snap, &clock->report[i], r))
            return true;
    return false;
}

/* The other end of a report that names this host; NULL: it does not. */
static const char *far_end(const rg__link_report *r, const char *host)
{
    if (strcmp(r->link, host) == 0)
        return r->by;
    return strcmp(r->by, host) == 0 ? r->link : NULL;
}

/* Other hosts whose connections with this one broke. It is a matter of chance
 * which end tells it first. */
static int accusers_of(const rg__plan_clock *clock, const char *host)
{
    int n = 0;
    for (int i = 0; i < clock->reports; i++) {
        const char *other = far_end(&clock->report[i], host);
        bool is_first = other != NULL;
        for (int k = 0; k < i && is_first; k++) {
            const char *before = far_end(&clock->report[k], host);
            is_first = before == NULL || strcmp(before, other) != 0;
        }
        n += is_first;
    }
    return n;
}

static node as_node(const rg__plan_clock *clock, const rg__proposal *p,
                    const rg__proposal_host *host)
{
    node n = {.id = host->id,
              .lowest_rank = INT_MAX,
              .accusers = accusers_of(clock, host->name)};
    for (int r = p->size - 1; r >= 0; r--)
        if (p->member[r].host == host->id) {
            n.workers++;
            n.lowest_rank = r;
        }
    return n;
}

static void shut_one_out(rg__plan_clock *clock, const rg__proposal *p,
                         const rg__reason *r, uint64_t now_ns)
{
    const rg__proposal_host *a = host_named(p, r->by);
    const rg__proposal_host *b = host_named(p, r->link);
    if (a == NULL || b == NULL)
        return; /* one of them is out already */
    const node one = as_node(clock, p, a), other = as_node(clock, p, b);
    rg__shut_out_add(clock, goes_before(&one, &other) ? one.id : other.id,
                     now_ns);
}

void rg__links_note_broken(rg__plan_clock *clock, const rg__snapshot *snap,
                           uint64_t now_ns)
{
    const rg__proposal *decided = rg__snapshot_decided(snap);
    for (int i = 0; i < snap->reasons; i++) {
        const rg__reason *r = &snap->reason[i];
        const bool is_past = /* the time is not known: this leader is new */
            decided != NULL && r->generation < decided->generation;
        if (r->link[0] == '\0' || is_past || is_noted(clock, r))
            continue;
        drop_old(clock, now_ns);
        const bool is_second = is_reported_before(clock, snap, r);
        rg__link_report *note = &clock->report[clock->reports++];
        note->generation = r->generation;
        note->at_ns = now_ns;
        strcpy(note->by, r->by);
        strcpy(note->link, r->link);
        if (is_second)
            shut_one_out(clock, rg__snapshot_gen(snap, r->generation), r,
                         now_ns);
    }
}
