/* The sets that workers have. No agent keeps a list of them: an agent that is
 * asked for the status asks its workers, whose Regroup threads answer at once.
 * Every worker knows the sets of listed ranks; of splits and rules it knows
 * only its own colour, so colours without a member on this host are not seen
 * here.
 *
 * What a worker says is checked before it is kept. */
#include "elastic/agent/workers/workers.h"
#include "elastic/agent/workers/crew.h"
#include "elastic/agent/base/tell.h"
#include "elastic/agent/base/view.h"
#include "sdk/base/grow.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (4u << 20) /* of one worker's entries; more is left out */
#define CHAINS    256

/* ------------------------------------------------------------------ asking */

static bool can_answer(const rg__slot *s)
{
    return rg__slot_is_ready(s) && !s->w.is_finalized && !s->a->is_paused;
}

uint32_t rg__set_list_ask(rg__agent *a)
{
    const uint32_t ask = ++a->crew->sets_asked;
    for (int i = 0; i < a->params->slots; i++) {
        if (!can_answer(&a->slot[i]))
            continue;
        a->slot[i].w.sets.asked = ask;
        rg__worker_tell_mark(&a->slot[i], RG__SETS, ask);
    }
    return ask;
}

bool rg__set_list_is_here(const rg__agent *a, uint32_t ask)
{
    for (int i = 0; i < a->params->slots; i++)
        if (can_answer(&a->slot[i]) && a->slot[i].w.sets.asked >= ask &&
            a->slot[i].w.sets.told < ask)
            return false;
    return true;
}

void rg__set_list_drop(rg__worker *w)
{
    free(w->sets.bytes);
    w->sets = (rg__listed_sets){0};
}

/* ----------------------------------------------------------------- hearing */

static bool is_rank(int32_t rank)
{
    return rank >= 0 && rank < RG__WORLD_MAX;
}

static uint32_t length(rg__range r)
{
    return (uint32_t)(r.first < r.last ? r.last - r.first : r.first - r.last) +
           1;
}

static const rg__range *ranges_of(const rg__set_entry *entry)
{
    return (const rg__range *)(const void *)(entry + 1);
}

static size_t bytes_of(const rg__set_entry *entry)
{
    return sizeof *entry + sizeof(rg__range) * entry->ranges;
}

/* The entry at `at`, NULL: none that could be true. */
static const rg__set_entry *read_entry(const char *at, size_t left)
{
    const rg__set_entry *entry = (const rg__set_entry *)(const void *)at;
    if (left < sizeof *entry || entry->n < 1 || entry->n > RG__WORLD_MAX ||
        entry->ranges < 1 || entry->ranges > entry->n ||
        entry->kind >= RG__SET_KINDS || left < bytes_of(entry) ||
        memchr(entry->name, '\0', sizeof entry->name) == NULL)
        return NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < entry->ranges; i++) {
        const rg__range r = ranges_of(entry)[i];
        if (!is_rank(r.first) || !is_rank(r.last))
            return NULL;
        n += length(r);
    }
    return n <= entry->n ? entry : NULL;
}

static bool are_entries(const char *at, size_t left)
{
    while (left > 0) {
        const rg__set_entry *entry = read_entry(at, left);
        if (entry == NULL)
            return false;
        at += bytes_of(entry);
        left -= bytes_of(entry);
    }
    return true;
}

static void append(rg__listed_sets *s, const char *entries, size_t n)
{
    char *more = s->n + n <= BYTES_MAX ? realloc(s->bytes, s->n + n + 1) : NULL;
    if (more == NULL)
        return;
    memcpy(more + s->n, entries, n);
    s->bytes = more;
    s->n += n;
}

bool rg__set_list_take(rg__slot *from, const rg__sets_list *m, size_t n)
{
    rg__listed_sets *s = &from->w.sets;
    if (!are_entries((const char *)(m + 1), n - sizeof *m))
        return false;
    if (m->ask != s->asked)
        return true; /* another agent's, or an older one */
    if (m->ask != s->coming) {
        s->coming = m->ask;
        s->n = 0;
    }
    s->generation = m->generation;
    append(s, (const char *)(m + 1), n - sizeof *m);
    if (m->is_last != 0) {
        s->told = m->ask;
        from->a->on->sets_told(from->a);
    }
    return true;
}

/* --------------------------------------------------------------- gathering */

typedef struct chained {
    const rg__set_entry *entry;
    int next; /* of equal id % CHAINS, -1: none */
} chained;

typedef struct gathered {
    chained *item;
    int count;
    int chain[CHAINS];
} gathered;

static bool is_same(const rg__set_entry *a, const rg__set_entry *b)
{
    return a->id == b->id && a->n == b->n && a->ranges == b->ranges &&
           memcmp(ranges_of(a), ranges_of(b), sizeof(rg__range) * a->ranges) ==
               0;
}

static bool has(const gathered *g, const rg__set_entry *entry)
{
    for (int i = g->chain[entry->id % CHAINS]; i >= 0; i = g->item[i].next)
        if (is_same(g->item[i].entry, entry))
            return true;
    return false;
}

static void add(gathered *g, const rg__set_entry *entry)
{
    if (has(g, entry))
        return;
    int *const chain = &g->chain[entry->id % CHAINS];
    chained *one = rg__grow(&g->item, (size_t)g->count, sizeof *one);
    if (one == NULL)
        return;
    *one = (chained){entry, *chain};
    *chain = g->count++;
}

static void add_all(gathered *g, const rg__listed_sets *s)
{
    for (size_t at = 0; at < s->n;) {
        const rg__set_entry *entry =
            (const rg__set_entry *)(const void *)(s->bytes + at);
        add(g, entry);
        at += bytes_of(entry);
    }
}

static int compare_entries(const void *a, const void *b)
{
    const rg__set_entry *x = ((const chained *)a)->entry;
    const rg__set_entry *y = ((const chained *)b)->entry;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return ranges_of(x)->first - ranges_of(y)->first;
}

/* ----------------------------------------------------------------- telling */

static void print_range(FILE *out, rg__range r)
{
    if (length(r) == 1)
        fprintf(out, "%d", r.first);
    else
        fprintf(out, "%d%c%d", r.first, length(r) == 2 ? ',' : '-', r.last);
}

/* As in `0-3,6`, in the set's order. */
static json_t *ranks_json(const rg__set_entry *entry)
{
    char *text = NULL;
    size_t bytes = 0;
    uint32_t n = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return json_null();
    for (uint32_t i = 0; i < entry->ranges; i++) {
        if (i > 0)
            fputc(',', out);
        print_range(out, ranges_of(entry)[i]);
        n += length(ranges_of(entry)[i]);
    }
    if (n < entry->n)
        fputs(",...", out);
    fclose(out);
    json_t *j = json_string(text);
    free(text);
    return j;
}

static json_t *set_json(const rg__set_entry *entry)
{
    static const char *const kinds[RG__SET_KINDS] = {"list", "split", "rule"};
    json_t *name = json_string(entry->name);
    return json_pack("{s:I,s:o,s:s,s:b,s:i,s:o}", "id", (json_int_t)entry->id,
                     "name", name != NULL ? name : json_null(), "kind",
                     kinds[entry->kind], "keep", entry->keeps != 0, "size",
                     (int)entry->n, "ranks", ranks_json(entry));
}

static json_t *world_json(int size)
{
    char ranks[32];
    snprintf(ranks, sizeof ranks, size > 1 ? "0-%d" : "0", size - 1);
    return json_pack("{s:i,s:s,s:s,s:b,s:i,s:s}", "id", 0, "name", "world",
                     "kind", "world", "keep", 0, "size", size, "ranks", ranks);
}

json_t *rg__set_list_json(const rg__agent *a, uint64_t generation, int size)
{
    gathered g = {0};
    json_t *sets = json_array();
    for (int i = 0; i < CHAINS; i++)
        g.chain[i] = -1;
    for (int i = 0; i < a->params->slots; i++) {
        const rg__listed_sets *s = &a->slot[i].w.sets;
        if (s->told == a->crew->sets_asked && s->generation == generation)
            add_all(&g, s);
    }
    if (g.count > 0)
        qsort(g.item, (size_t)g.count, sizeof *g.item, compare_entries);
    if (size > 0)
        json_array_append_new(sets, world_json(size));
    for (int i = 0; i < g.count; i++)
        json_array_append_new(sets, set_json(g.item[i].entry));
    free(g.item);
    return sets;
}
