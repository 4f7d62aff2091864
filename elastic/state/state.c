/* Registered memory: the end of a step, commit, sync.
 *
 * A commit fills a vault slot, each local rank its piece and its shard, and
 * then one agreement over the world that nobody leaves before all have entered:
 * so when one rank has left it, every piece on every host is complete, and a
 * commit that one rank reported is never lost by what happens to workers.
 *
 * A commit is live, and nothing is saved over it, from the agreement on it
 * until the agreement on a later one; where shards are copied to other hosts,
 * until an agreement which says that all copies of a later one are stored. So
 * before and after every agreement there is a commit that is whole, whoever
 * dies; with copies also when hosts are lost, no more than there are copies.
 * All ranks agree on the same things, so all know the same live commits.
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
#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/params.h"
#include "sdk/base/futex.h"
#include "sdk/base/log.h"

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
    [RG__STATE_AGREE_SHARDS] = "the sync of rg_run"};

/* ------------------------------------------------------- the end of a step */

static void show_progress(rg_state *st)
{
    rg__page *page = st->ctx->page;
    const uint64_t now_ns = rg__now_ns();
    const uint64_t generation = st->ctx->now.generation;
    atomic_store(&page->step_ns, now_ns);
    atomic_store(&page->step, st->step);
    if (atomic_load(&page->first_generation) < generation) {
        atomic_store(&page->first_ns, now_ns);
        atomic_store(&page->first_generation, generation);
    }
}

/* Shards go to other hosts, if there are any. */
static bool copies_shards(const rg_state *st)
{
    return st->has_copies && st->ctx->now.host_count > 1;
}

/* Of this host's shards: 1 + the newest step of this generation whose copies
 * are all stored. */
static int64_t copied_here(const rg_state *st)
{
    const rg__page *page = st->ctx->page;
    if (!copies_shards(st))
        return INT64_MAX;
    if (atomic_load(&page->copied_generation) != st->ctx->now.generation)
        return 0;
    return (int64_t)atomic_load(&page->copied);
}

/* A live commit that was made in this generation and whose copies are stored
 * counts for good; what is older is live no more. */
static void let_go(rg_state *st, int64_t copied)
{
    while (st->lives > 1 && (int64_t)st->live[1].id.step < copied) {
        rg__state_note_stored(st, &st->live[1]);
        memmove(st->live, st->live + 1, sizeof *st->live * (size_t)--st->lives);
    }
}

/* Of a commit that rank 0 wants as a checkpoint; of a change that was announced
 * to anybody, which goes before: the checkpoint is still due then; of an end of
 * the job that any rank wants, behind which nothing is due. */
enum { NOTHING, DUE, ANNOUNCED, STOPPED };

static int64_t tidings(const rg_state *st, uint64_t on, uint64_t step)
{
    if (st->wants_stop)
        return STOPPED;
    if (atomic_load(&st->ctx->page->announce) > st->ctx->now.generation)
        return ANNOUNCED;
    return on == RG__STATE_AGREE_COMMIT && st->ctx->now.rank == 0 &&
                   rg__state_is_due(st, step)
               ? DUE
               : NOTHING;
}

/* What a rank does where others do something else, in its step. */
#define ON_BITS 3
#define ON_MASK ((1 << ON_BITS) - 1)

static int64_t place_of(uint64_t on, uint64_t step)
{
    return (int64_t)(step << ON_BITS | on);
}

/* "ranks 0,2 commit step 1" of those from rank `first` on that do the same. */
static int name_place(const int64_t *all, int size, int first, char *text,
                      size_t room)
{
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
    snprintf(text + used, room - used, "%s %s step %" PRId64,
             n > NAMED_RANKS ? ".." : "",
             on == RG__STATE_AGREE_FINISH ? n == 1 ? "has returned from fn at"
                                                   : "have returned from fn at"
             : on == RG__STATE_AGREE_STEP_END ? n == 1 ? "ends" : "end"
             : n == 1                         ? "commits"
                                              : "commit",
             all[first] >> ON_BITS);
    return n;
}

/* All have learnt that some do something else: who does what. Of more than two
 * kinds two are named. */
static rg_status tell_places(rg_state *st, int64_t mine)
{
    const int size = st->ctx->now.size;
    int64_t *all = malloc(sizeof *all * (size_t)size);
    char first[120], other[120];
    int r = 0;
    if (all == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to compare steps");
    const rg_status rs = rg__world_gather(
        st->ctx, "comparing the steps of ranks", &mine, all, sizeof mine, size);
    while (rs == RG_OK && r < size - 1 && all[r] == all[0])
        r++;
    if (rs == RG_OK) {
        name_place(all, size, r, first, sizeof first);
        name_place(all, size, 0, other, sizeof other);
    }
    free(all);
    return rs != RG_OK
               ? rs
               : rg__fail(RG_ERR_MISMATCH,
                          "%s, %s; end the same steps on every rank, and "
                          "return from fn behind the same one",
                          first, other);
}

/* Whichever call ends a step, or fn: all of them meet in one agreement, so that
 * a rank that has returned is told from those that go on. */
static uint64_t tag_of(uint64_t on)
{
    return on == RG__STATE_AGREE_SYNC ? on : RG__STEP_TAG;
}

/* Agree on the step that ends, on tidings, and on the copies that are stored
 * everywhere. Numbers: place, -place, tidings, -copied. */
static rg_status agree(rg_state *st, uint64_t on, uint64_t step,
                       bool *is_announced_p)
{
    rg_ctx *ctx = st->ctx;
    const int64_t mine = place_of(on, step);
    const int64_t in[4] = {mine, -mine, tidings(st, on, step),
                           -copied_here(st)};
    int64_t out[4];
    const rg_status rs =
        rg__world_agree(ctx, agree_names[on], tag_of(on), in, out);
    if (rs != RG_OK)
        return rs;
    if (out[0] != -out[1])
        return tell_places(st, mine);
    *is_announced_p = out[2] >= ANNOUNCED;
    st->has_stopped = out[2] == STOPPED;
    st->wants_stop |= st->has_stopped;
    st->is_due = out[2] == DUE;
    let_go(st, -out[3]);
    return RG_OK;
}

/* ------------------------------------------------------------------ commits */

static bool is_live(const rg_state *st, int slot)
{
    for (int i = 0; i < st->lives; i++)
        if (st->live[i].slot == slot)
            return true;
    return false;
}

/* The same on all ranks of a host; -1: all hold live commits. */
static int free_slot(const rg_state *st)
{
    for (int i = 1; i <= st->slots; i++) {
        const int slot = (st->vault_slot + i) % st->slots;
        if (!is_live(st, slot))
            return slot;
    }
    return -1;
}

/* Sleep until our own copies of the oldest live commit but one are stored. */
static rg_status await_copies(rg_state *st)
{
    rg_ctx *ctx = st->ctx;
    const int64_t wanted = (int64_t)st->live[1].id.step + 1;
    for (;;) {
        const rg__word wake = {&ctx->page->wake, atomic_load(&ctx->page->wake)};
        if (copied_here(st) >= wanted)
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
static rg_status take_slot(rg_state *st, int *slot_p)
{
    bool is_announced = false; /* and will be so at the commit's agreement */
    rg_status rs = RG_OK;
    while ((*slot_p = free_slot(st)) < 0 && rs == RG_OK) {
        rs = await_copies(st);
        if (rs == RG_OK)
            rs = agree(st, RG__STATE_AGREE_COPIES, st->step, &is_announced);
    }
    return rs;
}

/* The agent copies what counts, and nothing else. */
static void show_commit(rg_state *st, rg__commit_id id)
{
    rg__page *page = st->ctx->page;
    if (!st->has_shards)
        return;
    if (atomic_load(&page->committed_generation) != id.generation) {
        atomic_store(&page->committed, 0);
        atomic_store(&page->committed_generation, id.generation);
    }
    atomic_store(&page->committed, id.step + 1);
    if (st->ctx->now.local_rank == 0)
        st->ctx->hooks->committed(st->ctx, id.generation);
}

static void now_counts(rg_state *st, int slot, rg__commit_id id)
{
    st->live[st->lives++] = (rg__live){.id = id, .slot = slot};
    st->commits++;
    st->vault_slot = slot;
    st->last = id;
    st->last_rank = st->ctx->now.rank;
    st->last_size = st->ctx->now.size;
    if (!copies_shards(st))
        let_go(st, INT64_MAX);
    show_commit(st, id);
}

/* Behind an agreement, since a rank that has returned from fn compares nothing.
 */
static rg_status look(rg_state *st, uint64_t step)
{
    bool is_announced = false;
    const bool looks = rg__state_looks(st);
    const bool compares = rg__sets_are_compared(st->ctx);
    if (!looks && !compares)
        return RG_OK;
    rg_status rs = agree(st, RG__STATE_AGREE_COPIES, step, &is_announced);
    if (rs == RG_OK && compares)
        rs = rg__sets_compare(st->ctx);
    return rs == RG_OK && looks ? rg__state_look(st, step) : rs;
}

/* Save and agree; afterwards the commit counts. */
static rg_status commit(rg_state *st, uint64_t step, bool *is_announced_p)
{
    rg_ctx *ctx = st->ctx;
    const rg__commit_id id = {ctx->now.generation, step};
    int slot = -1;
    rg_status rs = rg__sets_settle(ctx);
    if (rs == RG_OK)
        rs = look(st, step);
    if (rs == RG_OK)
        rs = take_slot(st, &slot);
    if (rs == RG_OK)
        rs = rg__state_fill(st, slot, id);
    if (rs != RG_OK)
        return rs;
    st->doubted = id;
    rg__failpoint("commit.before_agree", ctx->now.rank, step,
                  ctx->now.generation);
    rs = agree(st, RG__STATE_AGREE_COMMIT, step, is_announced_p);
    if (rs != RG_OK)
        return rs;
    rg__failpoint("commit.after_agree", ctx->now.rank, step,
                  ctx->now.generation);
    now_counts(st, slot, id);
    return RG_OK;
}

/* The step that it ends has ended; where shards are copied, the history hears
 * of the commit when it is safe from the loss of hosts. */
static void note_commit(rg_state *st)
{
    if (copies_shards(st))
        rg__state_note_made(st, &st->live[st->lives - 1]);
    else
        rg__state_note(st, "commit", st->step, true);
}

static rg_status check_in_fn(const rg_state *st, const char *what)
{
    if (st == NULL || !st->is_in_fn)
        return rg__fail(RG_ERR_INVALID,
                        "%s belongs inside the function that rg_run calls",
                        what);
    return RG_OK;
}

static rg_status read_save(const char *dir, const rg_save_params *params,
                           rg_save_params *own)
{
    const rg_status rs = rg__params_read("rg_save_params", params,
                                         RG__PARAMS_UP_TO(rg_save_params, keep),
                                         own, sizeof *own);
    if (rs != RG_OK)
        return rs;
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

/* Each step before its call: a function that throws is not called again. */
void rg__state_tell(rg_state *st)
{
    const bool is_in_fn = st->is_in_fn;
    st->is_in_fn = false; /* it ends no steps */
    while (st->told < st->step) {
        st->told++;
        if (st->on_commit != NULL)
            st->on_commit(st, st->told, st->commit_arg);
    }
    st->is_in_fn = is_in_fn;
}

/* The others go on while on_commit runs here. */
static rg_status go_on(rg_state *st, bool is_announced)
{
    const bool is_left = is_announced && !st->has_stopped;
    if (is_left) {
        st->is_clean = true;
        st->ctx->hooks->leave(st->ctx, st->ctx->now.generation);
    }
    rg__state_tell(st);
    if (!is_announced)
        return RG_OK;
    return rg__fail(RG_ERR_HOSTS_CHANGED, "%s",
                    is_left ? "hosts changed; return this status from fn"
                            : "the job ends at this commit, as rg_stop asked; "
                              "return this status from fn");
}

static void step_ended(rg_state *st)
{
    st->step++;
    show_progress(st);
    rg__state_note_step(st);
}

/* A commit that counts has ended the step. */
static rg_status committed(rg_state *st, bool is_announced)
{
    step_ended(st);
    note_commit(st);
    if (st->is_due)
        rg__state_ask(st, NULL, 0);
    return go_on(st, is_announced);
}

rg_status rg_step_end(rg_state *st)
{
    rg_status rs = check_in_fn(st, "rg_step_end");
    if (rs != RG_OK)
        return rs;
    rg__failpoint("step_end", st->ctx->now.rank, st->step + 1,
                  st->ctx->now.generation);
    bool is_announced = false;
    rs = agree(st, RG__STATE_AGREE_STEP_END, st->step + 1, &is_announced);
    if (rs != RG_OK)
        return rs;
    if (!is_announced) {
        step_ended(st);
        return RG_OK;
    }
    rs = commit(st, st->step + 1, &is_announced);
    return rs == RG_OK ? committed(st, true) : rs;
}

rg_status rg_state_commit(rg_state *st)
{
    rg_status rs = check_in_fn(st, "rg_state_commit");
    if (rs != RG_OK)
        return rs;
    bool is_announced = false;
    rs = commit(st, st->step + 1, &is_announced);
    return rs == RG_OK ? committed(st, is_announced) : rs;
}

rg_status rg_state_save(rg_state *st, const char *dir,
                        const rg_save_params *params)
{
    rg_save_params own = {.size = sizeof own};
    rg_status rs = check_in_fn(st, "rg_state_save");
    if (rs == RG_OK)
        rs = read_save(dir, params, &own);
    if (rs != RG_OK)
        return rs;
    bool is_announced = false;
    rs = commit(st, st->step + 1, &is_announced);
    if (rs != RG_OK)
        return rs;
    step_ended(st);
    note_commit(st);
    rg__state_ask(st, dir, own.keep);
    return go_on(st, is_announced);
}

rg_status rg_stop(rg_state *st)
{
    const rg_status rs = check_in_fn(st, "rg_stop");
    if (rs == RG_OK)
        st->wants_stop = true;
    return rs;
}

bool rg__state_has_stopped(const rg_state *st, rg_status rs)
{
    return st->has_stopped && rs == RG_ERR_HOSTS_CHANGED;
}

rg_status rg__state_finish(rg_state *st)
{
    bool is_announced = false;
    rg__failpoint("finish", st->ctx->now.rank, st->step,
                  st->ctx->now.generation);
    rg_status rs = rg__sets_settle(st->ctx);
    if (rs == RG_OK)
        rs = agree(st, RG__STATE_AGREE_FINISH, st->step, &is_announced);
    if (rs == RG_OK)
        rg__state_ask_last(st);
    return rs;
}

/* -------------------------------------------------------------------- sync */

/* What comes waits in a vault slot that commit 0 does not take, and becomes
 * this rank's memory when all of it is here: a source that dies on the way
 * leaves each rank with memory of one process, which may be commit 0 of the
 * next generation. The ranks of a host receive the same bytes in the same
 * place; nobody does before all have come here (rg__sets_sync), so that nobody
 * still takes what came in an earlier generation. */
static rg_status receive(rg_state *st, int source)
{
    rg_ctx *ctx = st->ctx;
    uint64_t step = 0;
    rg_status rs = rg__state_spoil(st, ASIDE);
    if (rs == RG_OK)
        rs = rg__world_broadcast(ctx, &step, sizeof step, source);
    for (int k = 0; k < st->buffers && rs == RG_OK; k++) {
        const rg__state_buffer *b = &st->buffer[k];
        if (!b->is_sharded)
            rs = rg__world_broadcast(ctx, b->vault + b->stride * ASIDE,
                                     b->bytes, source);
    }
    if (rs != RG_OK)
        return rs;
    for (int k = 0; k < st->buffers; k++) {
        const rg__state_buffer *b = &st->buffer[k];
        if (b->is_sharded)
            continue;
        rg__copy(b->data, b->vault + b->stride * ASIDE, b->bytes);
        rs = rg__state_push(b, 0, b->bytes);
        if (rs != RG_OK)
            return rs;
    }
    st->step = step;
    return RG_OK;
}

static rg_status send(rg_state *st, int source)
{
    rg_ctx *ctx = st->ctx;
    rg_status rs = rg__world_broadcast(ctx, &st->step, sizeof st->step, source);
    for (int k = 0; k < st->buffers && rs == RG_OK; k++) {
        const rg__state_buffer *b = &st->buffer[k];
        if (b->is_sharded)
            continue;
        rs = rg__state_pull(b, 0, b->bytes);
        if (rs == RG_OK)
            rs = rg__world_broadcast(ctx, b->data, b->bytes, source);
    }
    return rs;
}

static rg_status broadcast_replicated(rg_state *st, int source)
{
    return st->ctx->now.rank == source ? send(st, source) : receive(st, source);
}

/* true on all ranks when the shards of one of them are damaged. */
static rg_status load_shards(rg_state *st, int source, bool *is_damaged_p)
{
    int64_t in[4] = {0}, out[4] = {0};
    rg_status rs = rg__state_load_shards(st, source);
    if (rs == RG_ERR_DAMAGED) {
        rg__log(RG__WARN, "state", "%s", rg_last_error());
        in[0] = 1;
        rs = RG_OK;
    }
    if (rs == RG_OK)
        rs = rg__world_agree(st->ctx, agree_names[RG__STATE_AGREE_SHARDS],
                             RG__STATE_AGREE_SHARDS, in, out);
    *is_damaged_p = out[0] != 0;
    return rs;
}

/* No commit is on the lineage: registered memory is rank source's, and of a
 * sharded buffer each rank's own or what a checkpoint has. One whose shards are
 * damaged gives way to the one before it. */
static rg_status broadcast(rg_state *st, int source)
{
    rg_status rs = st->ctx->now.rank == source ? rg__state_load_due(st) : RG_OK;
    if (rs == RG_OK)
        rs = broadcast_replicated(st, source);
    for (bool is_damaged = st->has_shards; rs == RG_OK && is_damaged;) {
        rs = load_shards(st, source, &is_damaged);
        if (rs != RG_OK || !is_damaged)
            break;
        if (st->ctx->now.rank == source)
            rs = rg__state_load_before(st);
        if (rs == RG_OK)
            rs = broadcast_replicated(st, source);
    }
    return rs;
}

static bool has_same_shard(const rg_state *st)
{
    return st->last_rank == st->ctx->now.rank &&
           st->last_size == st->ctx->now.size;
}

static rg_status restore(rg_state *st, int slot, rg__commit_id resume,
                         bool is_here)
{
    rg_status rs = rg__state_restore(st, slot, resume, !is_here);
    if (rs == RG_OK)
        rs = rg__state_restore_shard(st, slot, resume,
                                     !is_here || !has_same_shard(st));
    bool is_announced = false;
    if (rs == RG_OK) /* nobody commits over an older one before all are right */
        rs = agree(st, RG__STATE_AGREE_SYNC, st->step, &is_announced);
    if (rs == RG_OK && !is_here)
        rg__state_note(st, "restore", resume.step, true);
    return rs;
}

static rg_status take_from_vault(rg_state *st, rg__commit_id resume,
                                 bool is_here)
{
    const int slot = rg__vault_find(st->ctx->vault, resume);
    if (slot < 0)
        return rg__fail(RG_ERR_PEER_LOST,
                        "the vault of host %s does not hold commit %llu.%llu "
                        "any more; return this status from fn",
                        st->ctx->host, (unsigned long long)resume.generation,
                        (unsigned long long)resume.step);
    st->live[0] = (rg__live){.id = resume, .slot = slot};
    st->lives = 1;
    st->vault_slot = slot;
    st->step = resume.step;
    return restore(st, slot, resume, is_here);
}

static bool is_gate_shut(rg_ctx *ctx)
{
    pthread_mutex_lock(&ctx->gate);
    const bool is_shut = ctx->gate_generation != ctx->now.generation;
    pthread_mutex_unlock(&ctx->gate);
    return is_shut;
}

/* The record of a later generation is that of a world which has taken the place
 * of this one. */
static bool is_on_record(const rg_ctx *ctx)
{
    const uint64_t begun = atomic_load(&ctx->page->begun);
    return begun != 0 && begun <= ctx->now.generation;
}

/* Sleep until etcd has it on record that there is a commit: without that record
 * others may still begin with the memory of a worker. Rank 0 has it written. */
static rg_status await_record(const rg_state *st)
{
    rg_ctx *ctx = st->ctx;
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

/* The first commit of the job: before anybody has entered fn. */
static rg_status commit_zero(rg_state *st)
{
    bool is_announced = false;
    rg_status rs = commit(st, st->step, &is_announced);
    if (rs == RG_OK)
        note_commit(st);
    if (rs == RG_OK)
        rs = await_record(st);
    return rs;
}

/* Towards the next checkpoint; one of a step that was rolled back is due again.
 */
static void count_from_here(rg_state *st)
{
    if (st->asked_ns == 0 || st->asked_step > st->step)
        st->asked_step = st->step;
    if (st->asked_ns == 0)
        st->asked_ns = rg__now_ns();
}

/* Memory is that of the commit from which all go on. What others have made
 * without this worker, before it was there or while it was left out, is not its
 * own to tell. */
static void tell_what_counts(rg_state *st, rg__commit_id resume)
{
    const bool is_ours =
        resume.generation != 0 && rg__same_commit(st->doubted, resume);
    if (!is_ours && st->told < st->step)
        st->told = st->step;
    rg__state_tell(st);
}

static void forget_commits(rg_state *st)
{
    st->lives = 0;
    st->vault_slot = -1;
}

rg_status rg__state_sync(rg_state *st, const rg__decided *decided)
{
    rg_ctx *ctx = st->ctx;
    const bool has_resume = decided->resume.generation != 0;
    const bool is_here =
        st->is_clean && rg__same_commit(st->last, decided->resume);
    rg__failpoint("sync", ctx->now.rank, st->step, ctx->now.generation);
    st->has_samples = st->has_stopped = false;
    st->is_clean = false; /* from the first byte on, also when this fails */
    forget_commits(st);
    rg_status rs = rg__state_reserve_shard(st);
    if (rs == RG_OK)
        rs = has_resume ? take_from_vault(st, decided->resume, is_here)
                        : broadcast(st, decided->source);
    if (rs == RG_OK)
        rs = rg__state_check_agree(st, !has_resume);
    if (rs != RG_OK)
        return rs;
    st->last = decided->resume;
    st->due[0] = '\0';
    count_from_here(st);
    atomic_store(&ctx->page->synced_ns, rg__now_ns());
    rg__state_note(st, "sync", st->step, true);
    tell_what_counts(st, decided->resume);
    if (!has_resume)
        rs = commit_zero(st); /* what was loaded is no step of this job */
    atomic_store(&ctx->page->step, st->step);
    return rs;
}
