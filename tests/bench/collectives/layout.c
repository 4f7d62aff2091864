#include "tests/bench/collectives/layout.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/collectives/late.h"
#include "tests/bench/collectives/table.h"

#define HUNDRED_SETS 100

/* What a layout has of this rank. */
typedef struct stage {
    bench *b;
    rg_set *sets[HUNDRED_SETS]; /* made here, members or not */
    int n_sets;
    work *works; /* one for each set of which this rank is a member */
    work *list[HUNDRED_SETS]; /* those, for trials */
    int n;
    void *rooms[2];
    late lates[2]; /* with ranks in common, and disjoint */
} stage;

static void *must(void *memory)
{
    if (memory != NULL)
        return memory;
    fprintf(stderr, "bench_collectives: no memory; choose smaller sizes\n");
    exit(1);
}

/* ------------------------------------------------------------------ sets */

static work *add_work(stage *s, rg_set *set)
{
    const plan *p = s->b->plan;
    if (rg_set_rank(set) < 0)
        return NULL;
    work *w = &s->works[s->n];
    s->list[s->n++] = w;
    *w = (work){.type = p->type,
                .redop = p->redop,
                .root = p->root,
                .uneven = p->uneven,
                .set = set,
                .rank = rg_set_rank(set),
                .n = rg_set_size(set)};
    if (!work_open(w))
        must(NULL);
    if (s->b->mpi != NULL)
        w->peer = peer_open(set);
    return w;
}

/* Ranks first, first + 1 ... of the world, which is a ring. */
static rg_set *make_set(stage *s, int first, int n)
{
    const int size = rg_size(s->b->ctx);
    int *ranks = must(calloc((size_t)n, sizeof *ranks));
    for (int i = 0; i < n; i++)
        ranks[i] = (first + i) % size;
    rg_set **set = &s->sets[s->n_sets++];
    need(rg_set_create(s->b->ctx, ranks, n, NULL, set), "rg_set_create");
    free(ranks);
    return *set;
}

static work *add_set(stage *s, int first, int n)
{
    return add_work(s, make_set(s, first, n));
}

/* The timed set has the first n ranks; the last rank of the world is late. */
static void make_late(stage *s, late *l, int n, int first_held)
{
    const int size = rg_size(s->b->ctx);
    l->here = add_set(s, 0, n);
    l->held = add_set(s, first_held, size - first_held);
    l->gate = make_set(s, size - 1, n + 1);
    if (rg_set_rank(l->gate) < 0)
        l->gate = NULL;
    l->is_late = rg_rank(s->b->ctx) == size - 1;
}

static void make_sets(stage *s)
{
    const int size = rg_size(s->b->ctx);
    switch (s->b->plan->layout) {
    case HALVES:
        add_set(s, 0, size / 2);
        add_set(s, size / 2, size - size / 2);
        return;
    case HUNDRED:
        for (int i = 0; i < HUNDRED_SETS; i++)
            add_set(s, i % size, size < 2 + i % 2 ? size : 2 + i % 2);
        return;
    case LATE:
        make_late(s, &s->lates[0], size - 1, 0);
        if (size > 3)
            make_late(s, &s->lates[1], size / 2, size / 2);
        return;
    default:
        add_work(s, rg_world(s->b->ctx));
    }
}

static void give_back(stage *s)
{
    for (int i = 0; i < s->n; i++) {
        peer_close(s->works[i].peer);
        work_close(&s->works[i]);
    }
    need(rg_barrier(rg_world(s->b->ctx)), "rg_barrier");
    for (int i = 0; i < s->n_sets; i++)
        need(rg_set_destroy(s->sets[i]), "rg_set_destroy");
    need(rg_free(s->b->ctx, s->rooms[1]), "rg_free");
    free(s->rooms[0]);
    free(s->works);
}

static void make_rooms(stage *s)
{
    const plan *p = s->b->plan;
    size_t room = 0;
    for (int i = 0; i < s->n; i++)
        room += work_room(&s->works[i], plan_most(p));
    if (p->memories[0])
        s->rooms[0] = must(malloc(room));
    if (p->memories[1])
        need(rg_alloc(s->b->ctx, room, NULL, &s->rooms[1]), "rg_alloc");
}

static void place(stage *s, char *room)
{
    for (int i = 0; i < s->n; i++) {
        work_place(&s->works[i], room);
        room += work_room(&s->works[i], plan_most(s->b->plan));
    }
}

/* ------------------------------------------------------------------ rows */

static trial trial_of(const stage *s, const char *name, int moves)
{
    return (trial){.name = name,
                   .run = run_in_turn,
                   .works = s->list,
                   .n = s->n,
                   .quiet_ns = QUIET_NS,
                   .moves = moves,
                   .beside = -1,
                   .bases = {-1, -1}};
}

/* Behind its trial of Regroup, the same of MPI where it has the operation. */
static int beside(const stage *s, trial *trials, int n)
{
    if (!peer_has(s->list[0]))
        return n;
    trial *mine = &trials[n - 1], *mpi = &trials[n];
    *mpi = *mine;
    mpi->by_mpi = true;
    mpi->run = mine->run == run_together ? run_mpi_together : run_mpi_in_turn;
    mine->beside = n;
    return n + 1;
}

static int try_one(const stage *s, trial *trials)
{
    trials[0] = trial_of(s, "world", 1);
    return beside(s, trials, 1);
}

static int try_halves(const stage *s, trial *trials)
{
    const bool is_lower = rg_rank(s->b->ctx) < rg_size(s->b->ctx) / 2;
    int n = 0;
    trials[n] = trial_of(s, "lower alone", 1);
    trials[n].n = is_lower;
    trials[n].line = s->list[0]->set;
    const int lower = n++;
    n = beside(s, trials, n);
    trials[n] = trial_of(s, "upper alone", 1);
    trials[n].n = !is_lower;
    trials[n].line = s->list[0]->set;
    const int upper = n++;
    n = beside(s, trials, n);
    trials[n] = trial_of(s, "both", 2);
    trials[n].bases[0] = lower;
    trials[n].bases[1] = upper;
    trials[n].line = rg_world(s->b->ctx);
    return beside(s, trials, n + 1);
}

static int try_hundred(const stage *s, trial *trials)
{
    int n = 0;
    trials[n] = trial_of(s, "100 in turn", HUNDRED_SETS);
    n = beside(s, trials, n + 1);
    trials[n] = trial_of(s, "100 together", HUNDRED_SETS);
    trials[n].run = run_together;
    trials[n].bases[0] = 0;
    return beside(s, trials, n + 1);
}

static int try_late(stage *s, trial *trials)
{
    static const char *const names[2][LATE_TRIALS] = {
        {"common alone", "common late"}, {"apart alone", "apart late"}};
    late_trials(&s->lates[0], names[0], 0, trials);
    if (rg_size(s->b->ctx) <= 3)
        return LATE_TRIALS;
    late_trials(&s->lates[1], names[1], LATE_TRIALS, trials + LATE_TRIALS);
    return 2 * LATE_TRIALS;
}

#define TRIALS_MAX 6

static void measure_row(stage *s, bool in_alloc)
{
    const plan *p = s->b->plan;
    trial trials[TRIALS_MAX];
    int n = 0;
    place(s, s->rooms[in_alloc]);
    if (p->layout == HALVES)
        n = try_halves(s, trials);
    else if (p->layout == HUNDRED)
        n = try_hundred(s, trials);
    else if (p->layout == LATE)
        n = try_late(s, trials);
    else
        n = try_one(s, trials);
    measure(s->b, trials, n);
    table_rows(s->b, s->list[0], in_alloc ? "alloc" : "user", trials, n);
}

static void measure_size(stage *s, kind k, uint64_t size)
{
    const plan *p = s->b->plan;
    const bool is_one_place = k == BROADCAST || k == BARRIER;
    for (int in_place = 0; in_place < 2; in_place++) {
        if (is_one_place ? !in_place : !p->places[in_place])
            continue;
        for (int i = 0; i < s->n; i++) {
            s->works[i].kind = k;
            s->works[i].in_place = in_place;
            work_size(&s->works[i], size);
        }
        for (int in_alloc = 0; in_alloc < 2; in_alloc++)
            if (p->memories[in_alloc])
                measure_row(s, in_alloc);
    }
}

void layout_run(bench *b)
{
    const plan *p = b->plan;
    stage s = {.b = b};
    s.works = must(calloc(HUNDRED_SETS, sizeof *s.works));
    make_sets(&s);
    make_rooms(&s);
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; p->kinds[k] && i < (k == BARRIER ? 1 : p->n_sizes); i++)
            measure_size(&s, (kind)k, p->sizes[i]);
    give_back(&s);
}
