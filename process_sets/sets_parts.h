/* Inside the room: the table of sets. */
#ifndef RG_SETS_SETS_PARTS_H
#define RG_SETS_SETS_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "process_sets/sets.h"

/* A set is a list of workers in the caller's order; ranks in the world follow
 * from it in each generation. An ended set stays for its handle's sake, and
 * never opens again. Owned by the table; `member` is owned.
 *
 * What a split or a rule makes is one entry of the table on all ranks, with one
 * id, in which each rank has the members of its own colour. A split may have
 * ended for one colour and live for another: its entry then stays on all ranks
 * as long as any colour lives, even where the handle was given back. */
typedef enum rg__set_kind {
    LISTED = RG__SET_LIST,
    SPLIT = RG__SET_SPLIT,
    RULE = RG__SET_RULE
} rg__set_kind;

/* The ranks that a list was made with; the same ones find it again. */
typedef struct rg__asked {
    uint64_t digest;
    uint32_t n; /* 0: it is no list */
} rg__asked;

rg__asked rg__set_asked(const int *ranks, int n);
static inline bool rg__set_asks_same(rg__asked a, rg__asked b)
{
    return a.n != 0 && a.n == b.n && a.digest == b.digest;
}

struct rg_set {
    rg_ctx *ctx; /* borrowed */
    rg__channel *channel;
    uint32_t id;
    char name[RG__SET_NAME_MAX];
    rg__set_kind kind;
    bool keeps;        /* it shrinks instead of ending */
    bool is_of_device; /* connected for device memory in each generation */
    rg_color_fn color; /* of a rule; NULL: this rank has not called it yet */
    void *color_arg;
    uint64_t opened; /* generation that a rule was last applied in */
    bool is_named;   /* by its maker, so that it is found again */
    bool is_ended;   /* a member is lost, or others don't know it */
    bool is_over;    /* of a split: it has ended for all colours */
    bool has_handle; /* the program has a handle; else only the table has it */
    int n;
    rg__member_id *member;
    rg_set *next;           /* by id */
    atomic_int reducers;    /* that it is lent to */
    uint64_t reducers_seen; /* highest number of one, on any rank */
    rg__asked asked;        /* of a list */

    /* of one that was declared before the door */
    uint32_t order;  /* which one, from 1; 0: it was not */
    uint64_t digest; /* of what was asked for */
    int *wanted;     /* ranks of a list, until they are members; owned */
    int wanted_n;
};

/* A place for sets in shared memory. */
typedef struct rg__place_of_sets {
    uint32_t last;    /* the highest id that a set had there */
    uint16_t live;    /* sets that have it; a split may also have ended here
                           and live for others */
    bool is_proposed; /* ranks agree on a set there */
} rg__place_of_sets;

struct rg__sets {
    rg_set world; /* member and n unused: all workers of the generation */
    pthread_mutex_t lock; /* guards all below, and every set's fields. After
                             ctx->lock, before the engine's. */
    rg_set *first;
    rg__place_of_sets place[RG__SETS_MAX]; /* by id % RG__SETS_MAX */
    uint64_t synced;  /* generation that the table is of, 0: none yet */
    rg_set *declared; /* and not in the table yet, in that order */
    uint32_t declarations;
    bool has_begun;  /* a generation has been here: no more declarations */
    bool has_device; /* a rank of this generation has opened one */

    /* same.c compares there what ranks start on the device, over the world and
     * in parallel to all of its operations. */
    rg__channel *watch; /* NULL: no device was opened */
    pthread_t watcher;
    bool has_watcher;            /* it is to be joined */
    atomic_bool is_watching;     /* and has not ended */
    _Atomic uint64_t watched_ns; /* when it last did */
    bool is_unwatched;           /* for good; guarded by the lock */
};

static inline bool rg__set_is_world(const rg_set *set)
{
    return set == &set->ctx->sets->world;
}

/* own_calls.c: as rg__world_gather and rg__world_reduce do, over any channel;
 * words: n numbers of 8 bytes. */
rg_status rg__gather_over(rg__channel *channel, const char *what,
                          const void *mine, void *all, uint64_t bytes,
                          int size);
rg_status rg__reduce_over(rg__channel *channel, const char *what, uint64_t tag,
                          rg_type type, rg_op op, void *words, uint64_t n);

/* table.c; the table's lock is held in all of them */
rg_set *rg__set_find(rg__sets *sets, uint32_t id);           /* live, or NULL */
rg_set *rg__set_find_name(rg__sets *sets, const char *name); /* live, or NULL */
void rg__set_insert(rg__sets *sets, rg_set *set);
/* No later set has this id, whether this one becomes a set or not: on another
 * rank a connection that came for it may still wait. */
void rg__set_use_up(rg__sets *sets, uint32_t id);
void rg__set_remove(rg__sets *sets, rg_set *set); /* and free it */
void rg__set_end(rg__sets *sets, rg_set *set, const char *why);
/* It has ended, and its place is free for another one. */
void rg__set_leave_place(rg__sets *sets, rg_set *set);

/* An id in the lowest place that is free here, 0: none. */
uint32_t rg__set_free_id(const rg__sets *sets);

/* Ranks agree on an id by rounds. Each proposes one in the lowest place that is
 * free on it, and not below the highest that any has proposed so far; once all
 * have the same place, the highest id in it is the set's. Proposals are numbers
 * of which the maximum is taken; one above NO_PLACE: this rank has none at all.
 */
#define RG__SET_NO_PLACE (INT64_C(1) << 40)
typedef struct rg__proposal {
    uint32_t id;   /* of mine; 0: no place is free */
    int rounds;    /* this one counted */
    int64_t most;  /* highest that a rank has proposed, */
    int64_t least; /* and lowest place, negative */
} rg__proposal;

/* Mine for the next round, into most and least. The place is kept for it until
 * the end of the proposal. */
void rg__set_propose(rg_ctx *ctx, rg__proposal *p);
/* The outcome is in most and least: OK with the id, IN_PROGRESS: another round,
 * ERR_INVALID with its sentence: no place is free. */
rg_status rg__set_proposed(const rg__proposal *p, uint32_t *id_p);
void rg__set_end_proposal(rg_ctx *ctx, const rg__proposal *p);

/* Rank of a worker in a list of n, -1 when it is not there. */
int rg__set_index(const rg__member_id *member, int n, rg__member_id id);

/* Make a set outside of the table, with its channel closed; member is copied.
 */
rg_status rg__set_make(rg_ctx *ctx, const rg__member_id *member, int n,
                       rg_set **set_p);
void rg__set_free(rg_set *set); /* NULL allowed */

/* open_group.c: start an operation, or add it to this thread's open group. */
rg_status rg__group_add(rg_set *set, const rg__start *start, rg_req **req_p);
/* The same for a call that waits, which can't be in a group. */
rg_status rg__group_complete(rg_set *set, const rg__start *start);
bool rg__group_is_open(const rg_ctx *ctx);
/* The same on device memory; a group is open. */
rg_status rg__group_add_device(rg_set *set, const rg__start *start,
                               void *stream, rg_req **req_p);
/* A call failed: so does the group that is open, if any. */
void rg__group_spoil(rg_status st);
/* The same of a call on that set, which other members learn of. Returns st. */
rg_status rg__group_refuse_call(rg_set *set, const char *what, rg_status st);

/* device_sets.c: launch an operation on device memory, or add it to this
 * thread's open group. The start's arrays are its own, also when it fails. */
rg_status rg__set_launch(rg_set *set, const rg__start *start, void *stream,
                         rg_req **req_p);
/* ERR_INVALID: the set's device can't use that memory. */
rg_status rg__set_check_memory(const rg_set *set, const char *what,
                               const void *p);
/* Its form for the launch; and launch n of one stream together. */
rg_status rg__set_check_launch(rg_set *set, const rg__start *start,
                               void *stream, rg__launch *launch_p);
rg_status rg__set_launch_all(rg_set *set, const rg__launch *launch, int n,
                             rg__ticket *ticket_p);
/* same.c: a channel for comparing what ranks start on the device; open it for
 * the n ranks of the world, collective; start a comparison when something waits
 * for long (rg__device_look_fn; arg: the context). */
rg_status rg__same_create(rg_ctx *ctx);
rg_status rg__same_open(rg_ctx *ctx, int n);
void rg__same_look(void *arg, bool is_stalled);
/* Connect a set that was made for device memory; collective over its members,
 * nothing on other ranks. */
rg_status rg__set_connect(rg_set *set);

/* colors.c: the workers with my colour, by key and rank, in *member_p (owned by
 * the caller) and *n_p; none without has_color. Collective over the world. */
rg_status rg__color_members(rg_ctx *ctx, const char *what,
                            const rg__membership *now, int color, int key,
                            rg__member_id **member_p, int *n_p);
/* Apply all rules in a new generation, those that every rank has. */
rg_status rg__color_apply_rules(rg_ctx *ctx, const rg__membership *now);

/* splits.c: after a change, end splits on which their members differ, and
 * remove those that live for no colour. Collective over the world; ids: of the
 * splits that are in the tables of all ranks. */
rg_status rg__splits_compare(rg_ctx *ctx, const rg__membership *now,
                             const uint32_t *ids, int n);
/* The remains of a split that has ended for this rank, or never began: NULL if
 * there are none, or it lives. Table's lock held. */
rg_set *rg__split_rest(rg__sets *sets, uint32_t id);
/* Remove the remains, unless the program has a handle. */
void rg__split_drop_rest(rg__sets *sets, uint32_t id);

/* declared.c; the table's lock is held in all but the first */
/* Is this an elastic program before the door? */
bool rg__declares(rg_ctx *ctx);
bool rg__declared_remove(rg__sets *sets, rg_set *set); /* false: not one */
/* Equal where workers have declared the same; of 62 bits, never 0. */
int64_t rg__declared_digest(const rg__sets *sets);
/* The first generation: all have declared the same, and it is made here. */
rg_status rg__declared_make(rg__sets *sets, const rg__membership *now);
/* Take out the declaration that fits a set of that description; NULL: none. */
rg_set *rg__declared_take(rg__sets *sets, const rg_set *like);
/* A later generation: end the ones that the others don't have. */
void rg__declared_end(rg__sets *sets);

/* Give a set other members, which are copied. Table's lock held. */
rg_status rg__set_replace(rg_set *set, const rg__member_id *member, int n);

/* Open a set in the present generation, if this worker is a member. */
rg_status rg__set_open(rg_set *set, const rg__membership *now);

#endif
