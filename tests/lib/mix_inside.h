/* Inside a mix: its sets (mix_sets.c), what each rank starts in an act
 * (mix_act.c), and the threads that do so (mix.c). Threads: a lane is one
 * thread's, all else is the first one's. */
#ifndef TESTS_LIB_MIX_INSIDE_H
#define TESTS_LIB_MIX_INSIDE_H

#include "tests/check.h"
#include "tests/lib/mix.h"

#define MIX_SLOTS  5 /* sets, splits or rules at a time */
#define MIX_COLORS 3
#define MIX_TEAMS  (1 + MIX_SLOTS * MIX_COLORS)
#define MIX_LANES  2   /* threads */
#define MIX_ATOM   8   /* operations of a group */
#define MIX_FLIGHT 128 /* operations of all lanes */

/* Members, in the order of the set, as every rank knows them; n 0: no set. */
typedef struct mix_team {
    int n, rank[MIX_MEMBERS];
} mix_team;

typedef struct rg__slot {
    rg_set *set; /* NULL: none */
    int team;    /* my team; -1: none */
    int color[MIX_MEMBERS];
} rg__slot;

/* My part in an operation; owned by its item, then by the waiting thread. */
typedef struct entry {
    mix_run run;
    int team;
    uint64_t needs; /* items before it have started when it is waited for */
    size_t bytes;
} entry;

/* What is started at once: an operation, or a group. */
typedef struct item {
    uint64_t at; /* in the order that all ranks know */
    bool is_group;
    int n;
    entry *entry[MIX_ATOM];
} item;

typedef struct mix mix;

typedef struct lane {
    mix *mix;
    dice own;   /* of this rank alone */
    item *item; /* not started yet; owned */
    int items, room;
    entry *flight[MIX_FLIGHT];
    int flights;
    size_t bytes; /* in flight */
    mix_arena arena;
} lane;

struct mix {
    const mix_params *params;
    uint64_t seed;
    int act, me, size;
    dice own;                 /* of this rank alone */
    mix_team team[MIX_TEAMS]; /* 0: the world */
    rg__slot
        slot[MIX_SLOTS]; /* slot s has the teams from 1 + s * MIX_COLORS on */
    uint64_t at;
    lane lane[MIX_LANES];
    int lanes;
};

/* mix_sets.c */
int mix_rank_in(const mix_team *t, int rank);
rg_set *mix_set_of(const mix *m, int team);
/* Make and give back some sets; collective over the world. quiet waits until
 * nothing of an old set is in flight, before it is given back. */
void mix_change_sets(mix *m, void (*quiet)(mix *m, int i));
void mix_drop_sets(mix *m);
/* Claim that sets have equal ids on all ranks; collective over the world. */
void mix_claim_ids(mix *m);

/* mix_act.c: draw an act, and give each lane what this rank starts in it. */
void mix_draw_act(mix *m);

#endif
