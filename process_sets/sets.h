/* The table of sets of one worker, and what the worker room calls when a
 * generation begins and ends. The table is equal on all ranks: sets are made
 * collectively, and one rank's table counts after a change of membership. */
#ifndef RG_PROCESS_SETS_H
#define RG_PROCESS_SETS_H

#include "sdk/core/context.h"

/* Make the table with the world in it; ctx->engine exists. */
rg_status rg__sets_create(rg_ctx *ctx, rg__sets **sets_p);
void rg__sets_destroy(rg__sets *sets);

/* Enter a generation: open the world on that transport. Called by the Regroup
 * thread; no operation starts before the generation is decided. Other sets stay
 * closed until rg__sets_sync. */
rg_status rg__sets_enter(rg_ctx *ctx, const rg__transport *transport,
                         const rg__boot *boot);

/* Bring the tables to the newest one and open the sets whose members are all
 * here; those with a lost member end, and so do those that it does not have.
 * Collective over the world, on a user thread, before anything else in a
 * decided generation. */
rg_status rg__sets_sync(rg_ctx *ctx);

/* If a rank had opened a device at rg__sets_sync: begin the generation on it,
 * and connect the world and the sets that were made for it, unless they are
 * connected. Collective over the world, after rg__sets_sync. */
rg_status rg__sets_connect(rg_ctx *ctx);

/* Wait until the device, if one is open, has finished its work of this
 * generation: before an agreement that makes it count. */
rg_status rg__sets_settle(rg_ctx *ctx);

/* Has this generation a device, so that what ranks have started on it is to be
 * compared before it counts? The same on all ranks. */
bool rg__sets_are_compared(const rg_ctx *ctx);

/* Compare it; collective over the world. ERR_MISMATCH on all ranks, whose
 * devices do no more work in this generation. */
rg_status rg__sets_compare(rg_ctx *ctx);

/* End the comparing; before the device is destroyed. */
void rg__sets_unwatch(rg_ctx *ctx);

/* Leave the generation: every set is closed with st and why. Regroup thread. */
void rg__sets_leave(rg_ctx *ctx, rg_status st, const char *why);

/* A function that rg_run called has returned st to this thread: a group that it
 * left open ends with that, and RG_OK is ERR_INVALID then. Returns the status
 * to use instead; its sentence is kept. */
rg_status rg__group_leave(rg_ctx *ctx, rg_status st);

/* rg_finalize: end this thread's group and all that it has noted. */
void rg__group_forget(rg_ctx *ctx);

/* Agree on four numbers (maximum each) over the world; tag says what on, and
 * differing tags are ERR_MISMATCH. what: the call that it is for (a literal),
 * which is named if it takes too long. */
rg_status rg__world_agree(rg_ctx *ctx, const char *what, uint64_t tag,
                          const int64_t in[4], int64_t out[4]);
/* The first one of a generation: members may still be in fn of the one before.
 */
rg_status rg__world_agree_first(rg_ctx *ctx, const char *what, uint64_t tag,
                                const int64_t in[4], int64_t out[4]);

/* Broadcast bytes from a world rank, for Regroup's own use. */
rg_status rg__world_broadcast(rg_ctx *ctx, void *data, uint64_t bytes,
                              int root);

/* Gather that many bytes from each of `size` world ranks, for the same use. */
rg_status rg__world_gather(rg_ctx *ctx, const char *what, const void *mine,
                           void *all, uint64_t bytes, int size);

/* Reduce n numbers over the world, in place, for the same use; differing tags
 * are ERR_MISMATCH. */
rg_status rg__world_reduce(rg_ctx *ctx, const char *what, uint64_t tag,
                           double *v, uint64_t n, rg_op op);

/* A set as this worker has it. */
typedef struct rg__set_info {
    uint32_t id;
    int kind; /* RG__SET_LIST, RG__SET_SPLIT, RG__SET_RULE */
    char name[RG__SET_NAME_MAX];
    bool keeps;
    int n; /* 0: a split that lives on other ranks only, or a rule that a rank
              has not got yet */
    int *
        ranks; /* in the world, in the set's order; borrowed until fn returns */
} rg__set_info;

/* Call fn for every live set but the world, in id order, without locks. */
typedef void (*rg__set_fn)(void *arg, const rg__set_info *set);
void rg__sets_each(rg_ctx *ctx, rg__set_fn fn, void *arg);
/* The same for a membership that the caller has copied. */
void rg__sets_each_of(rg_ctx *ctx, const rg__membership *now, rg__set_fn fn,
                      void *arg);

#endif
