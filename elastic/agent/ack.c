/* Acks. A host tells the leader in a datagram that it has built a generation,
 * and etcd only where that may not be enough:
 *
 *   not confirmed within a tenth of the budget, another agent leads, or there
 *   is no decision within the budget (an agent that took over from the leader's
 *   has heard nothing)
 *
 * So a change writes nothing for each host, and its acks cost no round through
 * etcd. An ack is a fact that stays true, so it does not matter on which ways
 * and how often it comes. The leader counts both kinds alike. */
#include "elastic/agent/inside.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

#define PATIENCE_SHARE 10 /* of the budget, until it is confirmed */
#define MISSING_SAID   4  /* by name */

typedef struct heard {
    uint64_t host; /* its incarnation */
    rg__ack ack;
} heard;

struct acks {
    char *text; /* ours, until it is in etcd; NULL: nothing to say */
    uint64_t generation, leader; /* whom we told */
    rg__timer *timer;
    heard *heard;    /* the newest of each host */
    uint64_t minded; /* generation whose acks we wait for as the leader */
    int count;
};

/* ------------------------------------------------------------------ our own */

static void on_put(void *arg, rg_status st, const rg__txn_reply *reply)
{
    agent *a = arg;
    if (st != RG_OK)
        rg__agent_leave(a, RG__EXIT_STORE, "%s", rg_last_error());
    else if (!reply->succeeded) /* cur has moved on */
        rg__mirror_expect(a->mirror);
}

static bool is_awaited(const agent *a)
{
    return a->acks->text != NULL && a->view.cur.phase == RG__GEN_PROPOSED &&
           a->view.cur.generation == a->acks->generation;
}

static void put_in_etcd(void *agent_arg)
{
    agent *a = agent_arg;
    acks *k = a->acks;
    if (is_awaited(a))
        rg__generation_put(a, "lead/ack", k->generation, k->text, true, on_put);
    else
        free(k->text);
    k->text = NULL;
    rg__timer_stop(k->timer);
}

static uint64_t budget_ns(const agent *a)
{
    return a->params->detect_ms * RG__MS;
}

void rg__ack_say(agent *a, uint64_t generation, const rg__ack *ack)
{
    acks *k = a->acks;
    free(k->text);
    k->text = rg__ack_text(ack);
    k->generation = generation;
    k->leader = a->view.leader;
    if (k->text == NULL)
        return;
    if (rg__leader_is_me(a)) {
        const peer me = {.id = a->id};
        rg__timer_set(k->timer, budget_ns(a));
        rg__ack_hear(a, &me, generation, k->text, strlen(k->text));
    } else if (rg__etcd_is_up(a->etcd) &&
               rg__beat_ack(a, k->leader, generation, k->text)) {
        rg__timer_set(k->timer, budget_ns(a) / PATIENCE_SHARE);
    } else {
        put_in_etcd(a);
    }
}

void rg__ack_is_heard(agent *a, uint64_t leader, uint64_t generation)
{
    const acks *k = a->acks;
    if (k->text != NULL && k->leader == leader && k->generation == generation)
        rg__timer_set(k->timer, budget_ns(a));
}

void rg__ack_follow(agent *a)
{
    const acks *k = a->acks;
    if (k->text != NULL && (!is_awaited(a) || a->view.leader != k->leader))
        put_in_etcd(a);
}

/* ------------------------------------------------------- those that are heard
 */

static heard *place_of(acks *k, uint64_t host)
{
    for (int i = 0; i < k->count; i++)
        if (k->heard[i].host == host)
            return &k->heard[i];
    heard *more = realloc(k->heard, sizeof *more * (size_t)(k->count + 1));
    if (more == NULL)
        return NULL;
    k->heard = more;
    more[k->count] = (heard){.host = host};
    return &more[k->count++];
}

/* The name of a host that has a record or a place in the proposal; an
 * incarnation that was replaced has neither. */
static const char *name_of(const agent *a, uint64_t host)
{
    const rg__host_record *record = rg__snapshot_host(&a->known, host);
    const rg__proposal *p =
        rg__snapshot_gen(&a->known, a->known.cur.generation);
    if (record != NULL)
        return record->name;
    for (int i = 0; p != NULL && i < p->host_count; i++)
        if (p->host[i].id == host)
            return p->host[i].name;
    return NULL;
}

static void add(agent *a, heard *one)
{
    const rg__cur *cur = &a->known.cur;
    if (cur->phase != RG__GEN_PROPOSED ||
        cur->generation != one->ack.generation)
        return;
    const char *name = name_of(a, one->host);
    if (name == NULL)
        return;
    snprintf(one->ack.host, sizeof one->ack.host, "%s", name);
    rg__snapshot_add_ack(&a->known, &one->ack);
}

void rg__ack_add_heard(agent *a)
{
    acks *k = a->acks;
    int kept = 0;
    for (int i = 0; i < k->count; i++) {
        if (k->heard[i].ack.generation < a->known.cur.generation)
            rg__ack_free(&k->heard[i].ack);
        else
            k->heard[kept++] = k->heard[i];
    }
    k->count = kept;
    for (int i = 0; i < kept; i++)
        add(a, &k->heard[i]);
}

/* A look costs more than an ack: it waits for as many as there are hosts in
 * the proposal. */
static bool may_be_all(const agent *a)
{
    const uint64_t generation = a->known.cur.generation;
    const rg__proposal *p = rg__snapshot_gen(&a->known, generation);
    int n = 0;
    for (int i = 0; i < a->known.acks; i++)
        n += a->known.ack[i].generation == generation;
    return p != NULL && n >= p->host_count;
}

bool rg__ack_hear(agent *a, const peer *from, uint64_t generation,
                  const char *text, size_t bytes)
{
    rg__ack ack;
    if (!rg__leader_is_me(a) || !rg__ack_parse(text, bytes, &ack))
        return false;
    heard *one = place_of(a->acks, from->id);
    if (one == NULL || generation < one->ack.generation) {
        rg__ack_free(&ack);
        return false;
    }
    ack.generation = generation;
    ack.id = from->id;
    rg__ack_free(&one->ack);
    one->ack = ack;
    add(a, one);
    if (may_be_all(a))
        rg__leader_look(a);
    return true;
}

/* ------------------------------------------------------- those that are
 * missing
 */

static bool is_here(const rg__snapshot *s, uint64_t generation,
                    const char *host)
{
    for (int i = 0; i < s->acks; i++)
        if (s->ack[i].generation == generation &&
            strcmp(s->ack[i].host, host) == 0)
            return true;
    return false;
}

/* "h2, h3 and 4 more"; how many are missing. */
static int list_missing(const rg__snapshot *s, const rg__proposal *p,
                        char *text, size_t room)
{
    int n = 0;
    size_t used = 0;
    for (int i = 0; i < p->host_count; i++) {
        if (is_here(s, p->generation, p->host[i].name))
            continue;
        if (n++ < MISSING_SAID)
            used += (size_t)snprintf(text + used, room - used, "%s%.31s",
                                     n > 1 ? ", " : "", p->host[i].name);
    }
    if (n > MISSING_SAID)
        snprintf(text + used, room - used, " and %d more", n - MISSING_SAID);
    return n;
}

void rg__acks_mind(agent *a)
{
    char hosts[MISSING_SAID * 34 + 32] = "";
    const rg__cur *cur = &a->known.cur;
    const rg__proposal *p =
        rg__leader_is_me(a) && cur->phase == RG__GEN_PROPOSED && !a->is_ending
            ? rg__snapshot_gen(&a->known, cur->generation)
            : NULL;
    if (a->acks->minded != (p != NULL ? p->generation : 0))
        rg__wait_end(a, RG__WAIT_ACK, 0);
    a->acks->minded = p != NULL ? p->generation : 0;
    if (p != NULL && !p->is_announced && /* its members may compute for long */
        list_missing(&a->known, p, hosts, sizeof hosts) > 0)
        rg__wait_begin(a, RG__WAIT_ACK, 0, "%s to be ready for generation %llu",
                       hosts, (unsigned long long)p->generation);
    else
        rg__wait_end(a, RG__WAIT_ACK, 0);
}

/* --------------------------------------------------------- create and destroy
 */

rg_status rg__acks_create(agent *a)
{
    a->acks = calloc(1, sizeof *a->acks);
    if (a->acks != NULL)
        a->acks->timer = rg__timer_create(a->loop, put_in_etcd, a);
    return a->acks != NULL && a->acks->timer != NULL
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY, "no memory for acks");
}

void rg__acks_destroy(agent *a)
{
    acks *k = a->acks;
    if (k == NULL)
        return;
    for (int i = 0; i < k->count; i++)
        rg__ack_free(&k->heard[i].ack);
    rg__timer_destroy(k->timer);
    free(k->heard);
    free(k->text);
    free(k);
    a->acks = NULL;
}
