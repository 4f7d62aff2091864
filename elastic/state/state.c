/* Registered memory: registration, the end of a step, commit, sync.
 *
 * A commit fills the vault slot that does not hold the newest agreed commit,
 * each local rank its piece, and then one agreement over the world that nobody
 * leaves before all have entered: so when one rank has left it, every piece on
 * every host is complete, and a commit that one rank reported is never lost.
 * Before the agreement the former commit is whole in the other vault slot.
 *
 * The vault is written only through the gate (context.h): once a generation is
 * left no byte of it changes by a worker until the decision of the next is
 * taken up. By then the agent has seen to it that the vault holds the decided
 * commit. */
#include "elastic/state/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process_sets/sets.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/shm.h"

/* What an agreement is on; ranks that differ are told so. */
enum { AGREE_STEP_END = 1, AGREE_COMMIT, AGREE_FINISH, AGREE_SYNC };

/* ------------------------------------------------------------ registration */

rg_status rg_state_create(rg_ctx *ctx, const rg_state_params *params,
                          rg_state **st_p)
{
    if (ctx == NULL || st_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_create needs a context and a place for the "
                        "state");
    if (params != NULL && params->size != sizeof *params)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_params.size is %zu; set it to "
                        "sizeof(rg_state_params)",
                        params->size);
    rg_state *st = calloc(1, sizeof *st);
    if (st == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a state");
    st->ctx = ctx;
    st->vault_slot = -1;
    const rg_status rs = rg__history_open(ctx->history, ctx->host, ctx->slot,
                                          ctx->me.start, &st->history);
    if (rs != RG_OK) {
        free(st);
        return rs;
    }
    *st_p = st;
    return RG_OK;
}

void rg_state_destroy(rg_state *st)
{
    if (st == NULL)
        return;
    for (int i = 0; i < st->buffers; i++)
        rg__shm_unmap(st->buffer[i].vault, st->buffer[i].room);
    rg__history_close(st->history);
    free(st->buffer);
    free(st->dir);
    free(st);
}

static rg_status check_add(const rg_state *st, const char *name,
                           const void *data, size_t bytes,
                           const rg_buffer_params *params)
{
    if (st == NULL || name == NULL || data == NULL || bytes == 0)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_add needs a state, a name, memory and a size "
                        "above 0");
    if (st->is_running)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s can't be registered inside rg_run; register "
                        "it before",
                        name);
    if (strlen(name) >= RG__BUFFER_NAME_MAX || name[0] == '\0')
        return rg__fail(RG_ERR_INVALID,
                        "the buffer name \"%s\" must have 1 to %d bytes", name,
                        RG__BUFFER_NAME_MAX - 1);
    if (params != NULL &&
        (params->size != sizeof *params || params->kind != RG_REPLICATED))
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s: rg_buffer_params must have size "
                        "sizeof(rg_buffer_params) and kind RG_REPLICATED",
                        name);
    for (int i = 0; i < st->buffers; i++)
        if (strcmp(st->buffer[i].name, name) == 0)
            return rg__fail(RG_ERR_INVALID,
                            "buffer %s is registered already, with %zu bytes; "
                            "give each buffer its own name",
                            name, st->buffer[i].bytes);
    if (st->buffers == RG__BUFFERS_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s is one too many; at most %d can be "
                        "registered, so join small ones",
                        name, RG__BUFFERS_MAX);
    return RG_OK;
}

static rg_status map_room(rg_state *st, rg__state_buffer *b)
{
    int fd = -1;
    rg_status rs = st->ctx->hooks->reserve(st->ctx, b->name, b->bytes, &fd);
    if (rs != RG_OK)
        return rs;
    void *at = NULL;
    rs = rg__shm_map(fd, b->room, &at);
    close(fd);
    b->vault = at;
    return rs;
}

rg_status rg_state_add(rg_state *st, const char *name, void *data, size_t bytes,
                       const rg_buffer_params *params)
{
    rg_status rs = check_add(st, name, data, bytes, params);
    if (rs != RG_OK)
        return rs;
    rg__state_buffer *more =
        realloc(st->buffer, sizeof *more * (size_t)(st->buffers + 1));
    if (more == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to register buffer %s", name);
    st->buffer = more;
    rg__state_buffer *b = &more[st->buffers];
    *b = (rg__state_buffer){
        .data = data, .bytes = bytes, .stride = rg__vault_stride(bytes)};
    b->room = b->stride * RG__VAULT_SLOTS;
    snprintf(b->name, sizeof b->name, "%s", name);
    rs = map_room(st, b);
    if (rs == RG_OK)
        st->buffers++;
    return rs;
}

rg_status rg_state_on_reset(rg_state *st, rg_reset_fn fn, void *arg)
{
    if (st == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_state_on_reset needs a state");
    st->on_reset = fn;
    st->reset_arg = arg;
    return RG_OK;
}

uint64_t rg_state_step(const rg_state *st)
{
    return st == NULL ? 0 : st->step;
}

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

/* Agree on the step that ends, and whether a change was announced to anyone.
 * Numbers: step, -step, announced. */
static rg_status agree(rg_state *st, uint64_t on, uint64_t step,
                       bool *is_announced_p)
{
    rg_ctx *ctx = st->ctx;
    const bool announced =
        atomic_load(&ctx->page->announce) > ctx->now.generation;
    const int64_t in[4] = {(int64_t)step, -(int64_t)step, announced,
                           (int64_t)st->buffers};
    int64_t out[4];
    const rg_status rs = rg__world_agree(ctx, on, in, out);
    if (rs != RG_OK)
        return rs;
    if (out[0] != -out[1])
        return rg__fail(RG_ERR_MISMATCH,
                        "ranks end different steps: %lld here, %lld to %lld in "
                        "the world; end every step on every rank",
                        (long long)step, (long long)-out[1], (long long)out[0]);
    *is_announced_p = out[2] != 0;
    return RG_OK;
}

/* Save and agree; afterwards the commit counts. */
static rg_status commit(rg_state *st, uint64_t step, bool *is_announced_p)
{
    rg_ctx *ctx = st->ctx;
    const int slot = st->vault_slot < 0 ? 0 : 1 - st->vault_slot;
    const rg__commit_id id = {ctx->now.generation, step};
    rg_status rs = rg__state_fill(st, slot, id);
    if (rs != RG_OK)
        return rs;
    rg__failpoint("commit.before_agree", ctx->now.rank, step,
                  ctx->now.generation);
    rs = agree(st, AGREE_COMMIT, step, is_announced_p);
    if (rs != RG_OK)
        return rs;
    rg__failpoint("commit.after_agree", ctx->now.rank, step,
                  ctx->now.generation);
    st->vault_slot = slot;
    st->last = id;
    return RG_OK;
}

static rg_status check_in_fn(const rg_state *st, const char *what)
{
    if (st == NULL || !st->is_in_fn)
        return rg__fail(RG_ERR_INVALID,
                        "%s belongs inside the function that rg_run calls",
                        what);
    return RG_OK;
}

static rg_status check_save(const char *dir, const rg_save_params *params)
{
    if (params != NULL && (params->size != sizeof *params || params->keep < 0))
        return rg__fail(RG_ERR_INVALID,
                        "rg_save_params must have size "
                        "sizeof(rg_save_params) and keep 0 or more");
    if (dir != NULL && (dir[0] == '\0' || strlen(dir) >= RG__TEXT_MAX))
        return rg__fail(RG_ERR_INVALID,
                        "the name of a checkpoint directory must have 1 to %d "
                        "bytes",
                        RG__TEXT_MAX - 1);
    return RG_OK;
}

static rg_status leave_announced(rg_state *st)
{
    st->is_clean = true;
    st->ctx->hooks->leave(st->ctx, st->ctx->now.generation);
    return rg__fail(RG_ERR_HOSTS_CHANGED,
                    "hosts changed; return this status from fn");
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
    rg__state_note(st, "commit", st->step, true);
    rg__state_ask_if_due(st);
    return is_announced ? leave_announced(st) : RG_OK;
}

rg_status rg_step_end(rg_state *st)
{
    rg_status rs = check_in_fn(st, "rg_step_end");
    if (rs != RG_OK)
        return rs;
    rg__failpoint("step_end", st->ctx->now.rank, st->step + 1,
                  st->ctx->now.generation);
    bool is_announced = false;
    rs = agree(st, AGREE_STEP_END, st->step + 1, &is_announced);
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
    rg_status rs = check_in_fn(st, "rg_state_save");
    if (rs == RG_OK)
        rs = check_save(dir, params);
    if (rs != RG_OK)
        return rs;
    bool is_announced = false;
    rs = commit(st, st->step + 1, &is_announced);
    if (rs != RG_OK)
        return rs;
    step_ended(st);
    rg__state_note(st, "commit", st->step, true);
    rg__state_ask(st, dir, params != NULL ? params->keep : 0);
    return is_announced ? leave_announced(st) : RG_OK;
}

rg_status rg__state_finish(rg_state *st)
{
    bool is_announced = false;
    rg__failpoint("finish", st->ctx->now.rank, st->step,
                  st->ctx->now.generation);
    return agree(st, AGREE_FINISH, st->step, &is_announced);
}

/* -------------------------------------------------------------------- sync */

/* No commit is on the lineage: registered memory is rank source's. */
static rg_status broadcast(rg_state *st, int source)
{
    rg_ctx *ctx = st->ctx;
    rg_status rs = rg__world_broadcast(ctx, &st->step, sizeof st->step, source);
    for (int k = 0; k < st->buffers && rs == RG_OK; k++)
        rs = rg__world_broadcast(ctx, st->buffer[k].data, st->buffer[k].bytes,
                                 source);
    return rs;
}

static rg_status take_from_vault(rg_state *st, rg__commit_id resume)
{
    const int slot = rg__vault_find(st->ctx->vault, resume);
    if (slot < 0)
        return rg__fail(RG_ERR_PEER_LOST,
                        "the vault of host %s does not hold commit %llu.%llu "
                        "any more; return this status from fn",
                        st->ctx->host, (unsigned long long)resume.generation,
                        (unsigned long long)resume.step);
    st->vault_slot = slot;
    st->step = resume.step;
    const bool is_here = st->is_clean && rg__same_commit(st->last, resume);
    rg_status rs = rg__state_restore(st, slot, resume, !is_here);
    bool is_announced = false;
    if (rs == RG_OK) /* nobody commits over an older one before all are right */
        rs = agree(st, AGREE_SYNC, st->step, &is_announced);
    if (rs == RG_OK && !is_here)
        rg__state_note(st, "restore", resume.step, true);
    return rs;
}

/* The first commit of the job: before anybody has entered fn. */
static rg_status commit_zero(rg_state *st)
{
    bool is_announced = false;
    const rg_status rs = commit(st, st->step, &is_announced);
    if (rs == RG_OK)
        rg__state_note(st, "commit", st->step, true);
    return rs;
}

rg_status rg__state_sync(rg_state *st, const rg__decided *decided)
{
    rg_ctx *ctx = st->ctx;
    const bool has_resume = decided->resume.generation != 0;
    rg__failpoint("sync", ctx->now.rank, st->step, ctx->now.generation);
    st->has_samples = false;
    st->vault_slot = -1;
    rg_status rs = has_resume ? take_from_vault(st, decided->resume)
                              : broadcast(st, decided->source);
    if (rs != RG_OK)
        return rs;
    st->last = decided->resume;
    st->is_clean = false;
    st->asked_step = st->step;
    if (st->asked_ns == 0)
        st->asked_ns = rg__now_ns();
    atomic_store(&ctx->page->synced_ns, rg__now_ns());
    rg__state_note(st, "sync", st->step, true);
    if (!has_resume)
        rs = commit_zero(st); /* what was loaded is no step of this job */
    atomic_store(&ctx->page->step, st->step);
    return rs;
}
