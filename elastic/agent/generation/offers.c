/* Offers. A leader that ends a broken generation needs two records, its
 * proposal and its decision, and hosts need time in between to build. So it
 * first says what it is going to propose: each host that is where the leader is
 * (same leader, same `cur`, the decision before passed on) takes it up as if it
 * were on record, and acks it. When all have, one txn writes both records. If
 * they have not within OFFER_NS, or something else happens, the offer goes on
 * record as any proposal does (leader.c).
 *
 * While that txn is under way members restore what they are to resume from: the
 * leader says which commit it expects to be decided. They enter fn when the
 * decision is on record, and leave what they have built if it never is.
 *
 * Another leader may record another proposal under the same number. A host
 * takes up only one proposal of a number: it says that the other one is broken,
 * and the next number follows. */
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/generation/generation_parts.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/hosts/hosts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/failpoint.h"

/* A host that has said that its workers have finished takes up none: the job
 * may be done meanwhile. Neither does one that etcd may no longer answer: a
 * death and its replacement are one change, once it answers again. */
static bool may_take(const rg__agent *a, const rg__proposal *p)
{
    const rg__cur *cur = &a->view.cur;
    return cur->phase == RG__GEN_DECIDED &&
           p->generation == cur->generation + 1 &&
           a->delivered == cur->generation && p->cur == cur->mod_revision &&
           p->token == a->view.leader_token && !p->is_announced &&
           a->life.offered < p->generation &&
           a->generation->prepared < p->generation &&
           a->generation->finning < cur->generation &&
           !a->departure.is_leaving && !rg__life_is_ending(a) &&
           rg__etcd_is_sound(a->etcd);
}

/* Which member died may be known here alone, so only what ends in any case is
 * offered: no first world, and none that may be done. */
static bool may_offer(const rg__agent *a, const rg__proposal *p)
{
    for (int i = 0; i < a->known.fins; i++)
        if (a->known.fin[i].generation == a->known.cur.generation)
            return false;
    return may_take(a, p) && !a->params->is_mpi && !p->is_awaited &&
           a->known.begun != 0;
}

/* The next agent must know that there was one before a worker does. */
static void take(rg__agent *a, const rg__proposal *p, char *text)
{
    rg__offer_drop(a);
    a->life.offered = p->generation;
    a->offer = (rg__offer){.token = p->token,
                           .cur = p->cur,
                           .text = text,
                           .since_ns = rg__now_ns()};
    memcpy(a->offer.op, p->op, sizeof a->offer.op);
    a->on->noted(a);
    rg__failpoint("agent.offered", -1, 0, p->generation);
}

bool rg__offer_make(rg__agent *a, const rg__proposal *p)
{
    char *text =
        may_offer(a, p)
            ? rg__proposal_difference(p, rg__proposal_base(&a->known, p))
            : NULL;
    if (text == NULL || !rg__beat_can_carry(text)) {
        free(text);
        return false;
    }
    rg__failpoint("agent.propose", -1, 0, p->generation);
    take(a, p, text);
    rg__beat_tell(a, RG__BEAT_OFFER, p->generation, text);
    return true;
}

void rg__offer_hear(rg__agent *a, uint64_t host, uint64_t generation,
                    const char *text, size_t bytes)
{
    rg__proposal p;
    if (host != a->view.leader || rg__view_i_lead(a) ||
        !rg__proposal_parse(text, bytes, &a->view, &p))
        return;
    p.generation = generation;
    char *copy = may_take(a, &p) ? strndup(text, bytes) : NULL;
    if (copy != NULL)
        take(a, &p, copy);
    rg__proposal_free(&p);
    if (copy != NULL)
        a->on->offered(a);
}

static bool is_dead(const rg__snapshot *snap, rg__member_id m)
{
    const rg__host_record *host = rg__snapshot_host(snap, m.host);
    for (int i = 0; host != NULL && i < host->slot_count; i++) {
        const rg__slot_record *slot = &host->slot[i];
        if (slot->slot == m.slot)
            return !slot->is_alive || slot->start != m.start;
    }
    return false;
}

/* Sets of members that an offer leaves out end when the others restore. If it
 * comes to nothing, the living would come back and miss them. */
static bool leaves_out_only_dead(const rg__agent *a)
{
    const rg__snapshot *snap = &a->known;
    const rg__proposal *world = rg__snapshot_decided(snap),
                       *next = rg__snapshot_gen(snap, a->life.offered);
    for (int i = 0; world != NULL && next != NULL && i < world->size; i++)
        if (rg__proposal_rank(next, world->member[i]) < 0 &&
            !is_dead(snap, world->member[i]))
            return false;
    return next != NULL;
}

/* Where no vault lacks the commit, and all have acked. */
void rg__expect(void *agent_arg)
{
    rg__agent *a = agent_arg;
    const rg__commit_id resume = a->leader->expected;
    char text[2 * sizeof "18446744073709551615"];
    if (a->leader->acting == NULL || resume.generation == 0 ||
        !leaves_out_only_dead(a))
        return;
    snprintf(text, sizeof text, "%" PRIu64 ".%" PRIu64, resume.generation,
             resume.step);
    rg__beat_tell(a, RG__BEAT_EXPECT, a->life.offered, text);
    a->on->expected(a, resume);
}

/* An agent takes up one offer of a number, and that has one decision. */
void rg__expect_hear(rg__agent *a, uint64_t host, uint64_t generation,
                     const char *text, size_t bytes)
{
    rg__commit_id resume;
    char *copy = host == a->view.leader && !rg__view_i_lead(a) &&
                         rg__view_is_offered(a, &a->view) &&
                         a->life.offered == generation
                     ? strndup(text, bytes)
                     : NULL;
    if (copy != NULL && sscanf(copy, "%" SCNu64 ".%" SCNu64, &resume.generation,
                               &resume.step) == 2)
        a->on->expected(a, resume);
    free(copy);
}

void rg__offer_drop(rg__agent *a)
{
    free(a->offer.text);
    a->offer = (rg__offer){0};
    a->life.offered = 0;
}
