/* Acks. A host tells the leader in a datagram that it has built a generation,
 * and tells it again with every beat until that generation is decided or given
 * up. So a lost ack, a new leader, or an agent that has taken over from the
 * leader's costs one beat, and a change writes nothing to etcd for each host.
 * An ack is a fact that stays true: the leader counts the first that it
 * hears. */
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/generation/generation_parts.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/hosts/beat_wire.h"
#include "elastic/agent/hosts/hosts.h"

#include <stdlib.h>
#include <string.h>

#define MISSING_SAID 4 /* by name */

_Static_assert(RG__VAULT_SLOTS *RG__SHARDS_MAX * sizeof "16383" + 512 <=
                   RG__BEAT_TEXT_MAX,
               "the shards of all commits in a vault, by number");

/* ------------------------------------------------------------------ our own */

static bool is_awaited(const rg__agent *a)
{
    return a->view.cur.phase == RG__GEN_PROPOSED &&
           a->view.cur.generation == a->acking;
}

void rg__ack_repeat(rg__agent *a)
{
    if (a->acks->ack == NULL)
        return;
    if (!is_awaited(a)) {
        free(a->acks->ack);
        a->acks->ack = NULL;
    } else if (rg__view_i_lead(a)) {
        rg__ack_hear(a, a->id, a->acking, a->acks->ack, strlen(a->acks->ack));
    } else if (rg__etcd_is_up(a->etcd)) {
        rg__beat_ack(a, a->view.leader, a->acking, a->acks->ack);
    }
}

void rg__ack_say(rg__agent *a, const rg__ack *ack)
{
    free(a->acks->ack);
    a->acks->ack = rg__ack_text(ack);
    rg__ack_repeat(a);
}

/* ----------------------------------------------------- those that are heard */

/* A look costs more than an ack: it waits for an ack of every host. */
static bool may_be_all(const rg__agent *a)
{
    const rg__cur *cur = &a->known.cur;
    const rg__proposal *p = rg__snapshot_gen(&a->known, cur->generation);
    int n = 0;
    if (p == NULL || a->known.acks < p->host_count)
        return false;
    for (int i = 0; i < a->known.acks; i++)
        n += a->known.ack[i].generation == cur->generation;
    return cur->phase == RG__GEN_PROPOSED && n >= p->host_count;
}

/* An incarnation that was replaced has neither. */
static bool has_record_or_place(const rg__agent *a, uint64_t host)
{
    return rg__snapshot_host(&a->known, host) != NULL ||
           rg__view_has_host(a, host);
}

void rg__ack_hear(rg__agent *a, uint64_t host, uint64_t generation,
                  const char *text, size_t bytes)
{
    rg__ack ack;
    if (!rg__view_i_lead(a) || !has_record_or_place(a, host) ||
        generation < a->known.cur.generation ||
        rg__snapshot_ack(&a->known, generation, host) != NULL ||
        !rg__ack_parse(text, bytes, &ack))
        return;
    ack.id = host;
    ack.generation = generation;
    if (rg__snapshot_add_ack(&a->known, &ack) && may_be_all(a))
        rg__leader_look(a);
}

/* ------------------------------------------------------- those that are
 * missing */

/* "h2, h3 and 4 more"; how many are missing. */
static int list_missing(const rg__snapshot *s, const rg__proposal *p,
                        char *text, size_t room)
{
    int n = 0;
    size_t used = 0;
    for (int i = 0; i < p->host_count; i++) {
        if (rg__snapshot_ack(s, p->generation, p->host[i].id) != NULL)
            continue;
        if (n++ < MISSING_SAID)
            used += (size_t)snprintf(text + used, room - used, "%s%.31s",
                                     n > 1 ? ", " : "", p->host[i].name);
    }
    if (n > MISSING_SAID)
        snprintf(text + used, room - used, " and %d more", n - MISSING_SAID);
    return n;
}

void rg__acks_mind(rg__agent *a)
{
    char hosts[MISSING_SAID * 34 + 32] = "";
    int missing = 0;
    const rg__cur *cur = &a->known.cur;
    const rg__proposal *p = rg__view_i_lead(a) &&
                                    cur->phase == RG__GEN_PROPOSED &&
                                    !rg__life_is_ending(a)
                                ? rg__snapshot_gen(&a->known, cur->generation)
                                : NULL;
    if (a->acks->minded != (p != NULL ? p->generation : 0))
        rg__wait_end(a, RG__WAIT_ACK, 0);
    a->acks->minded = p != NULL ? p->generation : 0;
    if (p != NULL && !p->is_announced && /* its members may compute for long */
        (missing = list_missing(&a->known, p, hosts, sizeof hosts)) > 0)
        rg__wait_begin(
            a, RG__WAIT_ACK, 0, "host%s %s to be ready for generation %llu",
            missing > 1 ? "s" : "", hosts, (unsigned long long)p->generation);
    else
        rg__wait_end(a, RG__WAIT_ACK, 0);
}
