/* Deaths on other hosts, of which the leader hears before etcd does. Their
 * agents publish them in any case. A death stays true, as an ack does: it
 * counts, whatever that host's record says, until the mirror shows it. */
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/generation/generation_parts.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/grow.h"

static bool is_living(const rg__host_record *host, const rg__slot_record *slot,
                      const rg__told_death *death)
{
    char name[RG__NAME_MAX + 32];
    snprintf(name, sizeof name, "%s.%u.%u", host->name, slot->slot,
             slot->start);
    return host->id == death->host && slot->is_alive &&
           strcmp(name, death->member) == 0;
}

/* false: the mirror shows it, or it is garbage. The next reading takes the
 * record from there again. */
static bool lay(rg__snapshot *known, const rg__told_death *death)
{
    for (int i = 0; i < known->hosts; i++) {
        rg__host_record *host = &known->host[i];
        for (int k = 0; k < host->slot_count; k++) {
            if (!is_living(host, &host->slot[k], death))
                continue;
            if (!rg__snapshot_lay(
                    known, RG__KEY(REASON, death->generation, death->member),
                    death->reason))
                return false;
            host->slot[k].is_alive = host->slot[k].is_at_door = false;
            host->mod_revision = -1;
            return true;
        }
    }
    return false;
}

void rg__deaths_lay(rg__agent *a)
{
    struct rg__leader *l = a->leader;
    int left = 0;
    for (int i = 0; i < l->deaths; i++)
        if (lay(&a->known, &l->death[i]))
            l->death[left++] = l->death[i];
        else
            free(l->death[i].member);
    l->deaths = left;
}

/* Nothing of a first world counts before all hosts have spoken; and when etcd
 * is back, it hears of a death and its replacement at once. */
static bool may_count(const rg__agent *a)
{
    return rg__leader_sees_all(a) && a->known.begun != 0 &&
           rg__etcd_is_sound(a->etcd);
}

void rg__death_hear(rg__agent *a, uint64_t host, uint64_t generation,
                    const char *text, size_t bytes)
{
    char *member = may_count(a) ? strndup(text, bytes) : NULL;
    char *reason = member != NULL ? strchr(member, ' ') : NULL;
    rg__told_death *more =
        reason != NULL ? rg__grow(&a->leader->death, (size_t)a->leader->deaths,
                                  sizeof *more)
                       : NULL;
    if (more == NULL) {
        free(member);
        return;
    }
    *reason++ = '\0';
    *more = (rg__told_death){host, generation, member, reason};
    a->leader->deaths++;
    rg__leader_has_news(a);
}

void rg__deaths_forget(rg__agent *a)
{
    for (int i = 0; i < a->leader->deaths; i++)
        free(a->leader->death[i].member);
    free(a->leader->death);
    a->leader->death = NULL;
    a->leader->deaths = 0;
}
