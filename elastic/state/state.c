/* Registered memory: the end of a step, commit, sync.
 *
 * A commit fills a vault slot, each local rank its piece and its shard, and
 * then one agreement over the world that no rank leaves before all have
 * entered: once one rank has left it, every piece on every host is complete,
 * and a commit that one rank has reported is never lost, whatever happens to
 * workers.
 *
 * A commit is live, and nothing is saved over it, from the agreement on it
 * until the agreement on a later one; where shards are copied to other hosts,
 * until an agreement that all copies of a later one are stored. So there is a
 * complete commit before and after every agreement, whichever worker dies; with
 * copies, also if no more hosts are lost than there are copies. All ranks agree
 * on the same things, so all know the same live commits.
 *
 * The vault is written only through the gate (context.h): once a generation is
 * left no byte of it changes by a worker until the decision of the next is
 * taken up. By then the agent has seen to it that the vault holds the decided
 * commit. */
#include "elastic/state/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process_sets/sets.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/params.h"
#include "sdk/base/futex.h"
#include "sdk/base/log.h"
#include "sdk/base/nvtx.h"

#define LOOK_NS     (10 * RG__MS)
#define NAMED_RANKS 16
#define ASIDE       1 /* vault slot; the first commit goes to 0 */

/* The call that waits for it. */
static const char *const agree_names[] = {
    [RG__STATE_AGREE_STEP_END] = "rg_step_end",
    [RG__STATE_AGREE_COMMIT] = "rg_state_commit",
    [RG__STATE_AGREE_FINISH] = "the end of rg_run",
    [RG__STATE_AGREE_SYNC] = "the sync of rg_run",
    [RG__STATE_AGREE_COPIES] = "rg_state_commit",
    [RG__STATE_AGREE_SHARDS] = "the sync of rg_run",
    [RG__STATE_AGREE_PARTS] = "the sync of rg_run"};

/* ------------------------------------------------------- the end of a step */

#define SMOOTH 8 /* steps */

static void smooth(_Atomic uint64_t *mean, uint64_t value)
{
    const uint64_t old = atomic_load(mean);
    atomic_store(mean, old == 0 ? value : old - old / SMOOTH + value / SMOOTH);
}

/* Steps in which the generation changed have no times. */
static void show_times(rg_state *state, uint64_t now_ns, uint64_t generation)
{
    rg__page *page = state->ctx->page;
    const uint64_t waited = atomic_load(&page->waited_ns);
    const uint64_t before = atomic_load(&page->step_ns);
    if (before != 0 && atomic_load(&page->first_generation) == generation) {
        smooth(&page->step_took_ns, now_ns - before);
        smooth(&page->step_waited_ns, waited - state->waited_ns);
    }
    state->waited_ns = waited;
}

static void show_progress(rg_state *state)
{
    rg__page *page = state->ctx->page;
    const uint64_t now_ns = rg__now_ns();
    const uint64_t generation = state->ctx->now.generation;
    show_times(state, now_ns, generation);
    atomic_store(&page->step_ns, now_ns);
    atomic_store(&page->step, state->step);
    if (atomic_load(&page->first_generation) < generation) {
        atomic_store(&page->first_ns, now_ns);
        atomic_store(&page->first_generation, generation);
    }
}

/* Shards go to other hosts, if there are any. */
static bool copies_shards(const rg_state *state)
{
    return state->has_copies && state->ctx->now.host_count > 1;
}

/* 1 + the newest step of this generation for which all copies of this host's
 * shards are stored. */
static int64_t copied_here(const rg_state *state)
{
    const rg__page *page = state->ctx->page;
    if (!copies_shards(state))
        return INT64_MAX;
    if (atomic_load(&page->copied_generation) != state->ctx->now.generation)
        return 0;
    return (int64_t)atomic_load(&page->copied);
}

/* A live commit that was made in this generation and whose copies are stored
 * counts for good; older ones are no longer live. */
static void let_go(rg_state *state, int64_t copied)
{
    while (state->lives > 1 && (int64_t)state->live[1].id.step < copied) {
        rg__state_note_stored(state, &state->live[1]);
        memmove(state->live, state->live + 1,
                sizeof *state->live * (size_t)--state->lives);
    }
}

/* A rank's value for the agreement that ends a step; the highest counts. DUE:
 * rank 0 wants a checkpoint of this commit. ANNOUNCED: a change was announced;
 * the checkpoint is then due later. STOPPED: the job is to end. */
enum { NOTHING, DUE, ANNOUNCED, STOPPED };

static int64_t pending(const rg_state *state, uint64_t on, uint64_t step)
{
    if (state->wants_stop)
        return STOPPED;
    if (atomic_load(&state->ctx->page->announce) > state->ctx->now.generation)
        return ANNOUNCED;
    return on == RG__STATE_AGREE_COMMIT && state->ctx->now.rank == 0 &&
                   rg__state_is_due(state, step)
               ? DUE
               : NOTHING;
}

/* What a rank does while others do something else, in its step. */
#define ON_BITS 3
#define ON_MASK ((1 << ON_BITS) - 1)

static int64_t place_of(uint64_t on, uint64_t step)
{
    return (int64_t)(step << ON_BITS | on);
}

/* "ranks 0,2 commit step 1" of those from rank `first` on that do the same. */
static int name_place(const rg_ctx *ctx, const int64_t *all, int first,
                      char *text, size_t room)
{
    const int size = ctx->now.size;
    const uint64_t on = (uint64_t)all[first] & ON_MASK;
    int n = 0;
    size_t used;
    for (int r = first; r < size; r++)
        n += all[r] == all[first];
    used = (size_t)snprintf(text, room, n == 1 ? "rank" : "ranks");
    for (int r = first, k = 0; r < size && k <= NAMED_RANKS; r++)
        if (all[r] == all[first] && k++ < NAMED_RANKS)
            used += (size_t)snprintf(text + used, room - used, "%s%d",
                                     k > 1 ? "," : " ", r);
    const bool is_one = n == 1;
    const char *does = is_one ? "commits" : "commit";
    if (on == RG__STATE_AGREE_STEP_END)
        does = is_one ? "ends" : "end";
    else if (on == RG__STATE_AGREE_FINISH && ctx->is_rank)
        does = is_one ? "has come to rg_finalize at"
                      : "have come to rg_finalize at";
    else if (on == RG__STATE_AGREE_FINISH)
        does = is_one ? "has returned from fn at" : "have returned from fn at";
    snprintf(text + used, room - used, "%s %s step %" PRId64,
             n > NAMED_RANKS ? ".." : "", does, all[first] >> ON_BITS);
    return n;
}

/* All know that ranks differ: say which ranks do what, for two kinds. */
static rg_status tell_places(rg_state *state, int64_t mine)
{
    const int size = state->ctx->now.size;
    int64_t *all = malloc(sizeof *all * (size_t)size);
    char first[120], other[120];
    int r = 0;
    if (all == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to compare steps");
    const rg_status st =
        rg__world_gather(state->ctx, "comparing the steps of ranks", &mine, all,
                         sizeof mine, size);
    while (st == RG_OK && r < size - 1 && all[r] == all[0])
        r++;
    if (st == RG_OK) {
        name_place(state->ctx, all, r, first, sizeof first);
        name_place(state->ctx, all, 0, other, sizeof other);
    }
    free(all);
    return st != RG_OK ? st
                       : rg__fail(RG_ERR_MISMATCH,
                                  "%s, %s; end the same steps on every rank, "
                                  "and %s after the same one",
                                  first, other,
                                  state->ctx->is_rank ? "call rg_finalize"
                                                      : "return from fn");
}

/* Every call that ends a step, and fn's return, takes part in one agreement,
 * which tells a rank that has returned from those that go on. */
static uint64_t tag_of(uint64_t on)
{
    return on == RG__STATE_AGREE_SYNC ? on : RG__STEP_TAG;
}

/* Agree on the step that ends, on what is pending, and on the copies that are
 * stored everywhere. Numbers: place, -place, pending, -copied. */
static rg_status agree(rg_state *state, uint64_t on, uint64_t step,
                       bool *is_announced_p)
{
    rg_ctx *ctx = state->ctx;
    const int64_t mine = place_of(on, step);
    const int64_t in[4] = {mine, -mine, pending(state, on, step),
                           -copied_here(state)};
    int64_t out[4];
    const rg_status st =
        rg__world_agree(ctx, agree_names[on], tag_of(on), in, out);
    if (st != RG_OK)
        return st;
    if (out[0] != -out[1])
        return tell_places(state, mine);
    *is_announced_p = out[2] >= ANNOUNCED;
    state->has_stopped = out[2] == STOPPED;
    state->wants_stop |= state->has_stopped;
    state->is_due = out[2] == DUE;
    let_go(state, -out[3]);
    return RG_OK;
}

/* ------------------------------------------------------------------ commits */

static bool is_live(const rg_state *state, int slot)
{
    for (int i = 0; i < state->lives; i++)
        if (state->live[i].slot == slot)
            return true;
    return false;
}

/* The same on all ranks of a host; -1: all hold live commits. */
static int free_slot(const rg_state *state)
{
    for (int i = 1; i <= state->slots; i++) {
        const int slot = (state->vault_slot + i) % state->slots;
        if (!is_live(state, slot))
            return slot;
    }
    return -1;
}

/* Sleep until our own copies of the oldest live commit but one are stored. */
static rg_status await_copies(rg_state *state)
{
    rg_ctx *ctx = state->ctx;
    const int64_t wanted = (int64_t)state->live[1].id.step + 1;
    for (;;) {
        const rg__word wake = {&ctx->page->wake, atomic_load(&ctx->page->wake)};
        if (copied_here(state) >= wanted)
            return RG_OK;
        if (atomic_load(&ctx->page->abort) >= ctx->now.generation)
            return rg__fail(RG_ERR_PEER_LOST,
                            "a peer is lost and the generation has ended; "
                            "return this status from fn");
        rg__futex_wait_any(&wake, 1, LOOK_NS);
    }
}

/* A vault slot to fill; commits that follow each other faster than their
 * copies reach other hosts wait here. */
static rg_status take_slot(rg_state *state, int *slot_p)
{
    bool is_announced = false; /* and still will be at the commit's agreement */
    rg_status st = RG_OK;
    while ((*slot_p = free_slot(state)) < 0 && st == RG_OK) {
        st = await_copies(state);
        if (st == RG_OK)
            st = agree(state, RG__STATE_AGREE_COPIES, state->step,
                       &is_announced);
    }
    return st;
}

/* The agent copies only what counts. */
static void show_commit(rg_state *state, rg__commit_id id)
{
    rg__page *page = state->ctx->page;
    if (!state->has_shards)
        return;
    if (atomic_load(&page->committed_generation) != id.generation) {
        atomic_store(&page->committed, 0);
        atomic_store(&page->committed_generation, id.generation);
    }
    atomic_store(&page->committed, id.step + 1);
    if (state->ctx->now.local_rank == 0)
        state->ctx->hooks->committed(state->ctx, id.generation);
}

static void now_counts(rg_state *state, int slot, rg__commit_id id)
{
    state->live[state->lives++] = (rg__live){.id = id, .slot = slot};
    state->commits++;
    state->vault_slot = slot;
    state->last = id;
    state->last_rank = state->ctx->now.rank;
    state->last_size = state->ctx->now.size;
    if (!copies_shards(state))
        let_go(state, INT64_MAX);
    show_commit(state, id);
}

/* After an agreement, since a rank that has returned from fn compares nothing.
 * With ULFM that agreement is enough: a rank that leaves it alive was alive
 * while any other was in an MPI call of this step. */
static rg_status look(rg_state *state, uint64_t step)
{
    bool is_announced = false;
    const bool looks = rg__state_looks(state);
    const bool compares = rg__sets_are_compared(state->ctx);
    if (!looks && !compares && !state->outlives)
        return RG_OK;
    rg_status st = agree(state, RG__STATE_AGREE_COPIES, step, &is_announced);
    if (st == RG_OK && compares)
        st = rg__sets_compare(state->ctx);
    return st == RG_OK && looks ? rg__state_look(state, step) : st;
}

/* Save and agree; afterwards the commit counts. */
static rg_status commit(rg_state *state, uint64_t step, bool *is_announced_p)
{
    rg_ctx *ctx = state->ctx;
    const rg__commit_id id = {ctx->now.generation, step};
    int slot = -1;
    rg_status st = rg__sets_settle(ctx);
    if (st == RG_OK)
        st = rg__state_reduce_metrics(state, step);
    if (st == RG_OK)
        st = look(state, step);
    if (st == RG_OK)
        st = take_slot(state, &slot);
    if (st == RG_OK)
        st = rg__state_fill(state, slot, id);
    if (st != RG_OK)
        return st;
    state->doubted = id;
    rg__failpoint("commit.before_agree", ctx->now.rank, step,
                  ctx->now.generation);
    st = agree(state, RG__STATE_AGREE_COMMIT, step, is_announced_p);
    if (st != RG_OK)
        return st;
    rg__failpoint("commit.after_agree", ctx->now.rank, step,
                  ctx->now.generation);
    now_counts(state, slot, id);
    return RG_OK;
}

/* The program brings to registered memory what it keeps elsewhere. It may call
 * collectives, so an agreement comes first: another rank may have ended its
 * step in another way. */
static rg_status bring(rg_state *state, bool has_agreed)
{
    bool is_announced = false;
    rg_status st = RG_OK;
    if (state->on_save == NULL)
        return RG_OK;
    if (!has_agreed)
        st = agree(state, RG__STATE_AGREE_COPIES, state->step + 1,
                   &is_announced);
    if (st != RG_OK)
        return st;
    state->is_in_fn = false; /* it ends no steps */
    st = state->on_save(state, state->save_arg);
    state->is_in_fn = true;
    return st;
}

static rg_status end_by_commit(rg_state *state, bool has_agreed,
                               bool *is_announced_p)
{
    const rg_status st = bring(state, has_agreed);
    return st == RG_OK ? commit(state, state->step + 1, is_announced_p) : st;
}

/* The commit's step has ended. If shards are copied, the history gets the
 * commit once it is safe from the loss of hosts. */
static void note_commit(rg_state *state)
{
    if (copies_shards(state))
        rg__state_note_made(state, &state->live[state->lives - 1]);
    else
        rg__state_note(state, "commit", state->step, true);
}

rg_status rg__state_check_in_fn(const rg_state *state, const char *what)
{
    if (state == NULL || !state->is_in_fn)
        return rg__fail(RG_ERR_INVALID,
                        "%s belongs inside the function that rg_run calls, or "
                        "after rg_state_resume",
                        what);
    return RG_OK;
}

static rg_status read_save(const char *dir, const rg_save_params *params,
                           rg_save_params *own)
{
    const rg_status st = rg__params_read("rg_save_params", params,
                                         RG__PARAMS_UP_TO(rg_save_params, keep),
                                         own, sizeof *own);
    if (st != RG_OK)
        return st;
    if (own->keep < 0)
        return rg__fail(RG_ERR_INVALID,
                        "rg_save_params.keep is %d; use 0 or more", own->keep);
    if (dir != NULL && (dir[0] == '\0' || strlen(dir) >= RG__TEXT_MAX))
        return rg__fail(RG_ERR_INVALID,
                        "the name of a checkpoint directory must have 1 to %d "
                        "bytes",
                        RG__TEXT_MAX - 1);
    return RG_OK;
}

/* A step is noted before its call: after a throw there is no second call. */
void rg__state_tell(rg_state *state)
{
    const bool is_in_fn = state->is_in_fn;
    state->is_in_fn = false; /* it ends no steps */
    while (state->told < state->step) {
        state->told++;
        if (state->on_commit != NULL)
            state->on_commit(state, state->told, state->commit_arg);
    }
    state->is_in_fn = is_in_fn;
}

/* Other ranks go on while on_commit runs here. */
static rg_status go_on(rg_state *state, bool is_announced)
{
    const bool is_left = is_announced && !state->has_stopped;
    if (is_left) {
        state->is_clean = true;
        state->ctx->hooks->leave(state->ctx, state->ctx->now.generation);
    }
    rg__state_tell(state);
    if (!is_announced)
        return RG_OK;
    return rg__fail(RG_ERR_HOSTS_CHANGED, "%s",
                    is_left ? "hosts changed; return this status from fn"
                            : "the job ends at this commit, as rg_stop asked; "
                              "return this status from fn");
}

static void step_ended(rg_state *state)
{
    state->step++;
    show_progress(state);
    rg__state_note_step(state);
}

/* A commit that counts has ended the step. */
static rg_status committed(rg_state *state, bool is_announced)
{
    step_ended(state);
    note_commit(state);
    if (state->is_due)
        rg__state_ask(state, NULL, 0);
    return go_on(state, is_announced);
}

rg_status rg_step_end(rg_state *state)
{
    rg_status st = rg__state_check_in_fn(state, "rg_step_end");
    if (st != RG_OK)
        return st;
    rg__failpoint("step_end", state->ctx->now.rank, state->step + 1,
                  state->ctx->now.generation);
    bool is_announced = false;
    st = rg__state_reduce_metrics(state, state->step + 1);
    if (st == RG_OK)
        st = agree(state, RG__STATE_AGREE_STEP_END, state->step + 1,
                   &is_announced);
    if (st != RG_OK)
        return st;
    if (!is_announced) {
        step_ended(state);
        return RG_OK;
    }
    st = end_by_commit(state, true, &is_announced);
    return st == RG_OK ? committed(state, true) : st;
}

static void trace_commit(const rg_state *state, rg__span_kind kind,
                         uint64_t began_ns)
{
    const rg__span span = {.span = kind,
                           .begun_ns = began_ns,
                           .ended_ns = rg__now_ns(),
                           .number = (uint32_t)state->step,
                           .generation = (uint32_t)state->ctx->now.generation};
    if (began_ns != 0 && rg__record_traces(state->ctx->record))
        rg__record_span(state->ctx->record, &span);
}

rg_status rg_state_commit(rg_state *state)
{
    rg_status st = rg__state_check_in_fn(state, "rg_state_commit");
    if (st != RG_OK)
        return st;
    bool is_announced = false;
    const uint64_t began_ns =
        rg__record_traces(state->ctx->record) ? rg__now_ns() : 0;
    const uint64_t range = rg__nvtx_begin("commit", "");
    trace_commit(state, RG__SPAN_BEGINS, began_ns);
    st = end_by_commit(state, false, &is_announced);
    if (st == RG_OK)
        st = committed(state, is_announced);
    trace_commit(state, RG__SPAN_COMMIT, began_ns);
    rg__nvtx_end(range);
    return st;
}

rg_status rg_state_save(rg_state *state, const char *dir,
                        const rg_save_params *params)
{
    rg_save_params own = {.size = sizeof own};
    rg_status st = rg__state_check_in_fn(state, "rg_state_save");
    if (st == RG_OK)
        st = read_save(dir, params, &own);
    if (st != RG_OK)
        return st;
    bool is_announced = false;
    st = end_by_commit(state, false, &is_announced);
    if (st != RG_OK)
        return st;
    step_ended(state);
    note_commit(state);
    rg__state_ask(state, dir, own.keep);
    return go_on(state, is_announced);
}

rg_status rg_stop(rg_state *state)
{
    const rg_status st = rg__state_check_in_fn(state, "rg_stop");
    if (st == RG_OK)
        state->wants_stop = true;
    return st;
}

bool rg__state_has_stopped(const rg_state *state, rg_status st)
{
    return state->has_stopped && st == RG_ERR_HOSTS_CHANGED;
}

rg_status rg__state_finish(rg_state *state)
{
    bool is_announced = false;
    rg__failpoint("finish", state->ctx->now.rank, state->step,
                  state->ctx->now.generation);
    rg_status st = rg__sets_settle(state->ctx);
    if (st == RG_OK)
        st = agree(state, RG__STATE_AGREE_FINISH, state->step, &is_announced);
    if (st == RG_OK)
        rg__state_ask_last(state);
    return st;
}

/* -------------------------------------------------------------------- sync */

/* Incoming data wait in a vault slot that commit 0 does not use, and become
 * this rank's memory once all of them are here: if the source dies on the way,
 * each rank keeps the memory of one process, which may be commit 0 of the next
 * generation. The ranks of a host receive the same bytes in the same place;
 * none does before all have come here (rg__sets_sync), so no rank still reads
 * what came in an earlier generation. */
static rg_status receive_aside(rg_state *state, int source)
{
    rg_ctx *ctx = state->ctx;
    uint64_t step = 0;
    rg_status st = rg__world_broadcast(ctx, &step, sizeof step, source);
    for (int k = 0; k < state->buffers && st == RG_OK; k++) {
        const rg__state_buffer *b = &state->buffer[k];
        if (!b->is_sharded)
            st = rg__world_broadcast(ctx, b->vault + b->stride * ASIDE,
                                     b->bytes, source);
    }
    if (st != RG_OK)
        return st;
    for (int k = 0; k < state->buffers; k++) {
        const rg__state_buffer *b = &state->buffer[k];
        if (b->is_sharded)
            continue;
        st = rg__state_write(b, 0, b->vault + b->stride * ASIDE, b->bytes);
        if (st != RG_OK)
            return st;
    }
    state->step = step;
    return rg__state_flush(state);
}

/* A temporary copy of it on the host: once in a job's life. */
static rg_status pass_device(rg_ctx *ctx, const rg__state_buffer *b, int source)
{
    char *copy = ctx->now.size > 1 ? malloc(b->bytes) : NULL;
    const bool is_source = ctx->now.rank == source;
    if (ctx->now.size == 1)
        return RG_OK;
    if (copy == NULL)
        return rg__fail(RG_ERR_MEMORY,
                        "no memory to pass buffer %s, %zu bytes of the device, "
                        "on to the other ranks",
                        b->name, b->bytes);
    rg_status st = is_source ? rg__state_copy_out(b, 0, b->bytes, copy) : RG_OK;
    if (st == RG_OK)
        st = rg__world_broadcast(ctx, copy, b->bytes, source);
    if (st == RG_OK && !is_source)
        st = rg__state_write(b, 0, copy, b->bytes);
    free(copy);
    return st;
}

static rg_status pass(rg_state *state, int source)
{
    rg_ctx *ctx = state->ctx;
    rg_status st =
        rg__world_broadcast(ctx, &state->step, sizeof state->step, source);
    for (int k = 0; k < state->buffers && st == RG_OK; k++) {
        const rg__state_buffer *b = &state->buffer[k];
        if (b->is_sharded)
            continue;
        st = b->device == NULL
                 ? rg__world_broadcast(ctx, b->data, b->bytes, source)
                 : pass_device(ctx, b, source);
    }
    return st == RG_OK ? rg__state_flush(state) : st;
}

static rg_status receive(rg_state *state, int source)
{
    const rg_status st = rg__state_spoil(state, ASIDE);
    return st == RG_OK ? receive_aside(state, source) : st;
}

static rg_status broadcast_replicated(rg_state *state, int source)
{
    /* without agents there is no vault, and no next generation */
    return state->ctx->now.rank == source || !state->ctx->has_agent
               ? pass(state, source)
               : receive(state, source);
}

/* true on all ranks if one has damaged shards. If one refuses, all do. */
static rg_status load_shards(rg_state *state, int source, bool *is_damaged_p)
{
    int64_t in[4] = {0}, out[4] = {0};
    rg_status dealt = RG_OK;
    rg_status st = rg__state_load_shards(state, source, &dealt);
    if (st == RG_ERR_DAMAGED) {
        rg__log(RG__WARN, "state", "%s", rg_last_error());
        in[0] = 1;
        st = dealt = RG_OK;
    }
    if (st == RG_OK)
        st = rg__world_agree(state->ctx, agree_names[RG__STATE_AGREE_SHARDS],
                             RG__STATE_AGREE_SHARDS, in, out);
    *is_damaged_p = out[0] != 0;
    return st == RG_OK && state->has_local && !*is_damaged_p
               ? rg__state_agree_parts(state, dealt)
               : st;
}

/* No commit is on the lineage: registered memory becomes that of rank `source`;
 * a sharded buffer stays each rank's own, or comes from a checkpoint. If its
 * shards are damaged, the one before it is used. */
static rg_status broadcast(rg_state *state, int source)
{
    rg_status st =
        state->ctx->now.rank == source ? rg__state_load_due(state) : RG_OK;
    if (st == RG_OK)
        st = broadcast_replicated(state, source);
    for (bool is_damaged = state->has_shards; st == RG_OK && is_damaged;) {
        st = load_shards(state, source, &is_damaged);
        if (st != RG_OK || !is_damaged)
            break;
        if (state->ctx->now.rank == source)
            st = rg__state_load_before(state);
        if (st == RG_OK)
            st = broadcast_replicated(state, source);
    }
    return st;
}

static bool has_same_shard(const rg_state *state)
{
    return state->last_rank == state->ctx->now.rank &&
           state->last_size == state->ctx->now.size;
}

static rg_status deal_parts(rg_state *state, int slot, bool is_needed)
{
    const rg_parts from = {
        .state = state,
        .count = atomic_load(&state->ctx->vault->slot[slot]->shards),
        .slot = slot};
    return rg__state_agree_parts(state,
                                 is_needed ? rg__state_deal(&from) : RG_OK);
}

static rg_status restore(rg_state *state, int slot, rg__commit_id resume,
                         bool is_here)
{
    const bool is_needed = !is_here || !has_same_shard(state);
    rg_status st = rg__state_restore(state, slot, resume, !is_here);
    if (st == RG_OK)
        st = rg__state_restore_shard(state, slot, resume, is_needed);
    if (st == RG_OK && state->has_local)
        st = deal_parts(state, slot, is_needed);
    bool is_announced = false;
    if (st ==
        RG_OK) /* no rank commits over an older one before all are restored */
        st = agree(state, RG__STATE_AGREE_SYNC, state->step, &is_announced);
    if (st == RG_OK && state->ahead != 0)
        rg__log(RG__INFO, "state",
                "%" PRIu64 " bytes of commit %" PRIu64 ".%" PRIu64
                " were copied before the world changed",
                state->was_here, resume.generation, resume.step);
    return st;
}

static rg_status take_from_vault(rg_state *state, rg__commit_id resume,
                                 bool is_here)
{
    const int slot = rg__vault_find(state->ctx->vault, resume);
    if (slot < 0)
        return rg__fail(RG_ERR_PEER_LOST,
                        "the vault of host %s no longer holds commit "
                        "%llu.%llu; return this status from fn",
                        state->ctx->host, (unsigned long long)resume.generation,
                        (unsigned long long)resume.step);
    state->live[0] = (rg__live){.id = resume, .slot = slot};
    state->lives = 1;
    state->vault_slot = slot;
    state->step = resume.step;
    return restore(state, slot, resume, is_here);
}

static bool is_gate_shut(rg_ctx *ctx)
{
    pthread_mutex_lock(&ctx->gate);
    const bool is_shut = ctx->gate_generation != ctx->now.generation;
    pthread_mutex_unlock(&ctx->gate);
    return is_shut;
}

/* A later generation's record belongs to a world that replaced this one. */
static bool is_on_record(const rg_ctx *ctx)
{
    const uint64_t begun = atomic_load(&ctx->page->begun);
    return begun != 0 && begun <= ctx->now.generation;
}

/* Sleep until etcd has on record that there is a commit: without that record
 * others may still begin with the memory of a worker. Rank 0 has it written. */
static rg_status await_record(const rg_state *state)
{
    rg_ctx *ctx = state->ctx;
    atomic_store(&ctx->page->zero, ctx->now.generation);
    if (ctx->now.rank == 0)
        ctx->hooks->committed(ctx, ctx->now.generation);
    for (;;) {
        const rg__word wake = {&ctx->page->wake, atomic_load(&ctx->page->wake)};
        if (is_on_record(ctx))
            return RG_OK;
        if (is_gate_shut(ctx))
            return rg__fail(RG_ERR_PEER_LOST,
                            "the generation has ended before its first commit "
                            "was on record; return this status from fn");
        rg__futex_wait_any(&wake, 1, LOOK_NS);
    }
}

/* The first commit of the job, before any rank has entered fn. */
static rg_status commit_zero(rg_state *state)
{
    bool is_announced = false;
    rg_status st = commit(state, state->step, &is_announced);
    if (st == RG_OK)
        note_commit(state);
    if (st == RG_OK)
        st = await_record(state);
    return st;
}

/* Count towards the next checkpoint from here; one of a step that was rolled
 * back is due again. */
static void count_from_here(rg_state *state)
{
    if (state->asked_ns == 0 || state->asked_step > state->step)
        state->asked_step = state->step;
    if (state->asked_ns == 0)
        state->asked_ns = rg__now_ns();
}

/* Memory is that of the commit from which all go on. A worker does not report
 * commits that others made before it came or while it was left out. */
static void tell_what_counts(rg_state *state, rg__commit_id resume)
{
    const bool is_ours =
        resume.generation != 0 && rg__same_commit(state->doubted, resume);
    if (!is_ours && state->told < state->step)
        state->told = state->step;
    rg__state_tell(state);
}

static void forget_commits(rg_state *state)
{
    state->lives = 0;
    state->vault_slot = -1;
}

/* Nothing of the generation is told to anybody before. */
static rg_status await_decision(const rg_state *state)
{
    rg_ctx *ctx = state->ctx;
    rg__failpoint("restored", ctx->now.rank, state->step, ctx->now.generation);
    return ctx->hooks->await_decision(ctx);
}

rg_status rg__state_sync(rg_state *state, const rg__decided *decided)
{
    rg_ctx *ctx = state->ctx;
    const bool has_resume = decided->resume.generation != 0;
    const bool is_here =
        state->is_clean && rg__same_commit(state->last, decided->resume);
    rg__failpoint("sync", ctx->now.rank, state->step, ctx->now.generation);
    state->has_samples = state->has_stopped = false;
    state->metrics = 0;
    state->is_clean = false; /* from the first byte on, also when this fails */
    forget_commits(state);
    rg_status st = rg__state_await_device(state);
    if (st == RG_OK)
        st = rg__state_reserve_shard(state);
    if (st == RG_OK)
        st = has_resume ? take_from_vault(state, decided->resume, is_here)
                        : broadcast(state, decided->source);
    rg__state_forget_ahead(state);
    if (st == RG_OK)
        st = rg__state_check_agree(state, !has_resume);
    if (st == RG_OK && has_resume)
        st = await_decision(state);
    if (st != RG_OK)
        return st;
    if (has_resume && !is_here)
        rg__state_note(state, "restore", decided->resume.step, true);
    state->last = decided->resume;
    state->due[0] = '\0';
    count_from_here(state);
    atomic_store(&ctx->page->synced_ns, rg__now_ns());
    rg__state_note(state, "sync", state->step, true);
    tell_what_counts(state, decided->resume);
    if (!has_resume)
        st = commit_zero(state); /* the loaded step does not belong to this
                                    job */
    atomic_store(&ctx->page->step, state->step);
    return st;
}
