/* Times of the newest changes of the world on this host; how long those before
 * have taken is kept as a histogram. */
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/generation/generation_parts.h"
#include "elastic/agent/base/view.h"

#include <stdlib.h>
#include <string.h>

const double rg__recovery_bucket_s[RG__RECOVERY_BUCKETS] = {
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

void rg__recoveries_add(rg__recoveries *r, const rg__change *c)
{
    if (c->generation < 2 || c->detected == 0 || c->stepped <= c->detected)
        return;
    const double s = (double)(c->stepped - c->detected) / 1e9;
    for (int k = 0; k < RG__RECOVERY_BUCKETS; k++)
        r->count[k] += s <= rg__recovery_bucket_s[k];
    r->seconds += s;
    r->all++;
}

int rg__changes(const rg__agent *a)
{
    return a->generation->changes;
}

const rg__change *rg__change_at(const rg__agent *a, int i)
{
    return &a->generation->change[i];
}

const rg__recoveries *rg__recoveries_past(const rg__agent *a)
{
    return &a->generation->past;
}

rg__change *rg__change_find(const rg__agent *a, uint64_t generation)
{
    for (int i = a->generation->changes - 1; i >= 0; i--)
        if (a->generation->change[i].generation == generation)
            return &a->generation->change[i];
    return NULL;
}

static void drop_oldest(rg__agent *a)
{
    rg__recoveries_add(&a->generation->past, &a->generation->change[0]);
    memmove(a->generation->change, a->generation->change + 1,
            sizeof *a->generation->change * (RG__CHANGES_MAX - 1));
    a->generation->changes--;
}

rg__change *rg__change_of(rg__agent *a, uint64_t generation)
{
    rg__change *found = rg__change_find(a, generation);
    if (found != NULL)
        return found;
    if (a->generation->change == NULL)
        a->generation->change =
            calloc(RG__CHANGES_MAX, sizeof *a->generation->change);
    if (a->generation->change == NULL)
        return NULL;
    if (a->generation->changes == RG__CHANGES_MAX)
        drop_oldest(a);
    a->generation->change[a->generation->changes] =
        (rg__change){.generation = generation};
    return &a->generation->change[a->generation->changes++];
}

/* The last local member's times, from the pages; zero while one is missing. */
void rg__change_note_steps(rg__agent *a, uint64_t generation)
{
    rg__change *c = rg__change_of(a, generation);
    const rg__proposal *p = rg__snapshot_gen(&a->view, generation);
    if (c == NULL || p == NULL || c->stepped != 0)
        return;
    uint64_t synced = 0, stepped = 0;
    for (int i = 0; i < p->size; i++) {
        if (p->member[i].host != a->id)
            continue;
        const rg__slot *s = rg__slot_of(a, p->member[i]);
        if (s == NULL || s->w.page == NULL ||
            atomic_load(&s->w.page->first_generation) != generation)
            return;
        const uint64_t at = atomic_load(&s->w.page->first_ns);
        const uint64_t sync = atomic_load(&s->w.page->synced_ns);
        stepped = at > stepped ? at : stepped;
        synced = sync > synced ? sync : synced;
    }
    c->synced = synced;
    c->stepped = stepped;
}
