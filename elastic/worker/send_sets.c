/* The sets of this worker, listed when the agent asks, so that making sets does
 * not cost anything for it. On the Regroup thread. */
#include "elastic/worker/worker.h"

#include <stdlib.h>
#include <string.h>

typedef struct answer {
    rg__worker *w;
    rg__sets_list *m; /* RG__WIRE_MAX bytes; owned */
    size_t n;         /* of them in use */
} answer;

static void send_part(answer *a, bool is_last)
{
    a->m->is_last = is_last;
    rg__worker_send(a->w, a->m, a->n);
    a->n = sizeof *a->m;
}

static bool is_next(const rg__range *r, int rank)
{
    const int step = r->last > r->first ? 1 : -1;
    return rank == r->last + step ||
           (r->first == r->last && rank == r->last + 1);
}

/* Returns how many ranges there are, `room` at most. */
static uint32_t put_ranges(const rg__set_info *set, rg__range *range,
                           uint32_t room)
{
    uint32_t n = 0;
    for (int i = 0; i < set->n; i++) {
        if (n > 0 && is_next(&range[n - 1], set->ranks[i]))
            range[n - 1].last = set->ranks[i];
        else if (n < room)
            range[n++] = (rg__range){set->ranks[i], set->ranks[i]};
        else
            break;
    }
    return n;
}

/* The most that an entry may take; less if ranks are consecutive. */
static size_t most_bytes(const rg__set_info *set)
{
    const size_t bytes =
        sizeof(rg__set_entry) + sizeof(rg__range) * (size_t)set->n;
    const size_t room = RG__WIRE_MAX - sizeof(rg__sets_list);
    return bytes < room ? bytes : room;
}

static void add_entry(void *arg, const rg__set_info *set)
{
    answer *a = arg;
    const size_t most = most_bytes(set);
    if (set->n == 0)
        return;
    if (RG__WIRE_MAX - a->n < most)
        send_part(a, false);
    rg__set_entry *entry = (rg__set_entry *)(void *)((char *)a->m + a->n);
    *entry = (rg__set_entry){.id = set->id,
                             .n = (uint32_t)set->n,
                             .kind = (uint8_t)set->kind,
                             .keeps = set->keeps};
    memcpy(entry->name, set->name, sizeof entry->name);
    entry->ranges =
        put_ranges(set, (rg__range *)(void *)(entry + 1),
                   (uint32_t)((most - sizeof *entry) / sizeof(rg__range)));
    a->n += sizeof *entry + sizeof(rg__range) * entry->ranges;
}

void rg__worker_send_sets(rg__worker *w, uint64_t ask)
{
    rg__membership now;
    answer a = {.w = w, .m = malloc(RG__WIRE_MAX), .n = sizeof *a.m};
    if (a.m == NULL || rg__context_copy_membership(w->ctx, &now) != RG_OK) {
        free(a.m);
        return;
    }
    *a.m = (rg__sets_list){.head = {RG__SETS_LIST, RG__WIRE_VERSION},
                           .ask = (uint32_t)ask,
                           .generation = now.generation};
    rg__sets_each_of(w->ctx, &now, add_entry, &a);
    send_part(&a, true);
    free(now.member);
    free(a.m);
}
