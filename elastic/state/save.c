/* Asking for checkpoints. The worker of rank 0 names a commit that counts, and
 * its agent writes it during the steps that follow
 * (elastic/agent/checkpoint/saver.c). Without agents the ranks write it here,
 * from registered memory (write_world.c). */
#include "elastic/state/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process_sets/sets.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/grow.h"
#include "sdk/base/log.h"

static void warn(rg_state *state, const char *why)
{
    if (!state->has_warned)
        rg__log(RG__WARN, "state", "%s; training goes on", why);
    state->has_warned = true;
}

/* -------------------------------------------------------------- directories */

rg_status rg__state_absolute(const char *dir, char to[RG__TEXT_MAX])
{
    char here[RG__TEXT_MAX] = "";
    const bool is_absolute = dir[0] == '/';
    if (!is_absolute && getcwd(here, sizeof here) == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "the working directory has too long a name; name the "
                        "checkpoint directory %s from the root",
                        dir);
    const int n =
        snprintf(to, RG__TEXT_MAX, "%s%s%s", here, is_absolute ? "" : "/", dir);
    if (n >= 0 && n < RG__TEXT_MAX)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "the checkpoint directory %s has a name of over %d bytes",
                    dir, RG__TEXT_MAX - 1);
}

static rg__state_dir *find_dir(const rg_state *state, const char *path)
{
    for (int i = 0; i < state->dirs; i++)
        if (strcmp(state->dir[i].path, path) == 0)
            return &state->dir[i];
    return NULL;
}

/* The serial up to which a directory's checkpoints are ours. */
uint64_t rg__state_known(const rg_state *state, const char *path)
{
    const rg__state_dir *dir = find_dir(state, path);
    return dir != NULL ? dir->newest : 0;
}

void rg__state_know(rg_state *state, const char *path, uint64_t newest)
{
    rg__state_dir *dir = find_dir(state, path);
    if (dir == NULL) {
        dir = rg__grow(&state->dir, (size_t)state->dirs, sizeof *dir);
        if (dir == NULL)
            return; /* then nothing will be written there */
        state->dirs++;
        snprintf(dir->path, sizeof dir->path, "%s", path);
    }
    dir->newest = newest;
}

/* ---------------------------------------------------------- without agents */

/* If another rank failed, it reports the reason itself. */
static void save_ourselves(rg_state *state, const char *dir, int keep)
{
    bool is_elsewhere = false;
    if (keep == 0)
        keep =
            state->ctx->checkpoint_keep > 0 ? state->ctx->checkpoint_keep : 2;
    if (rg__state_write_world(state, dir, keep, &is_elsewhere) == RG_OK)
        state->has_warned = false;
    else if (!is_elsewhere)
        warn(state, rg_last_error());
}

/* ------------------------------------------------------------------ asking */

/* "": the job's own directory, which may have another path on each host. */
static void ask_agent(rg_state *state, const char *dir, int keep)
{
    const rg__membership *now = &state->ctx->now;
    rg__save m = {.head = {RG__SAVE, RG__WIRE_VERSION},
                  .keep = keep,
                  .is_first = now->rank == 0,
                  .shards = state->has_shards ? (uint32_t)now->size : 0,
                  .commit = state->last,
                  .loaded = rg__state_known(state, dir)};
    if (strcmp(dir, state->ctx->checkpoint) != 0)
        snprintf(m.dir, sizeof m.dir, "%s", dir);
    if (state->ctx->hooks->save(state->ctx, &m) != RG_OK)
        warn(state, "the agent can't be asked for a checkpoint");
}

static void ask(rg_state *state, const char *dir, int keep)
{
    char path[RG__TEXT_MAX];
    if (dir[0] == '\0')
        warn(state, "no directory for checkpoints was named "
                    "(--checkpoint-dir): commits are in memory only");
    else if (rg__state_absolute(dir, path) != RG_OK)
        warn(state, rg_last_error());
    else if (!state->ctx->has_agent)
        save_ourselves(state, path, keep);
    else
        ask_agent(state, path, keep);
}

/* Shards lie on each host: one rank there asks its agent for them. Without
 * agents all ranks write. */
static bool is_asking(const rg_state *state)
{
    const rg__membership *now = &state->ctx->now;
    return now->rank == 0 || !state->ctx->has_agent ||
           (state->has_shards && now->local_rank == 0);
}

void rg__state_ask(rg_state *state, const char *dir, int keep)
{
    if (dir == NULL) { /* every rank keeps the time: it may be rank 0 soon */
        state->asked_step = state->step;
        state->asked_ns = rg__now_ns();
        dir = state->ctx->checkpoint;
        state->asked = state->last;
    }
    if (is_asking(state))
        ask(state, dir, keep);
}

/* Without vaults, memory is all that can be written: it must be the newest
 * commit's on every rank. Collective. */
static bool has_newest(rg_state *state)
{
    char why[RG__TEXT_MAX];
    const int64_t in[4] = {!rg__state_is_unchanged(state)};
    int64_t out[4];
    if (rg__world_agree(state->ctx, "the last checkpoint",
                        RG__STATE_AGREE_WRITE, in, out) != RG_OK)
        return false;
    if (out[0] == 0)
        return true;
    snprintf(why, sizeof why,
             "the newest commit, of step %" PRIu64 ", is not saved: memory "
             "has changed since, and without agents no commit is kept; "
             "end with rg_state_save",
             state->last.step);
    if (state->ctx->now.rank == 0)
        warn(state, why);
    return false;
}

void rg__state_ask_last(rg_state *state)
{
    if (state->ctx->checkpoint[0] != '\0' && state->ctx->checkpoint_on_stop &&
        state->last.generation != 0 &&
        state->last.step + 1 != state->loaded_step &&
        !rg__same_commit(state->asked, state->last) &&
        (state->ctx->has_agent || has_newest(state)))
        rg__state_ask(state, NULL, 0);
}

void rg__state_show_loaded(const rg_state *state)
{
    rg__page *page = state->ctx->page;
    const uint64_t serial = rg__state_known(state, state->ctx->checkpoint);
    if (serial == 0)
        return;
    atomic_store(&page->loaded_step, state->loaded_step);
    atomic_store(&page->loaded_serial, serial);
}

bool rg__state_is_due(const rg_state *state, uint64_t step)
{
    const rg__every *every = &state->ctx->checkpoint_every;
    if (state->ctx->checkpoint[0] == '\0')
        return false;
    if (every->steps > 0)
        return step / every->steps > state->asked_step / every->steps;
    return every->ms > 0 &&
           rg__now_ns() - state->asked_ns >= every->ms * RG__MS;
}

rg_status rg_state_saved(const rg_state *state, uint64_t *step_p)
{
    if (state == NULL || step_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_saved needs a state and a place for the "
                        "step");
    uint64_t saved = atomic_load(&state->ctx->page->saved);
    if (saved == 0)
        saved = state->loaded_step;
    if (saved == 0)
        return rg__fail(RG_ERR_NOT_FOUND, "no checkpoint is durable yet");
    *step_p = saved - 1;
    return RG_OK;
}
