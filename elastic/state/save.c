/* Asking for checkpoints. The worker of rank 0 names a commit that counts, and
 * its agent writes it behind the steps that follow
 * (elastic/agent/checkpoint/checkpoint.c). A worker alone writes it here, from
 * registered memory. */
#include "elastic/state/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/state/checkpoint_dir.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

static void warn(rg_state *st, const char *why)
{
    if (!st->has_warned)
        rg__log(RG__WARN, "state", "%s; training goes on", why);
    st->has_warned = true;
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

static rg__state_dir *find_dir(const rg_state *st, const char *path)
{
    for (int i = 0; i < st->dirs; i++)
        if (strcmp(st->dir[i].path, path) == 0)
            return &st->dir[i];
    return NULL;
}

uint64_t rg__state_known(const rg_state *st, const char *path)
{
    const rg__state_dir *dir = find_dir(st, path);
    return dir != NULL ? dir->newest : 0;
}

void rg__state_know(rg_state *st, const char *path, uint64_t newest)
{
    rg__state_dir *dir = find_dir(st, path);
    if (dir == NULL) {
        dir = realloc(st->dir, sizeof *dir * (size_t)(st->dirs + 1));
        if (dir == NULL)
            return; /* then nothing is written there */
        st->dir = dir;
        dir = &st->dir[st->dirs++];
        snprintf(dir->path, sizeof dir->path, "%s", path);
    }
    dir->newest = newest;
}

/* ------------------------------------------------------------------- alone */

static rg_status describe(const rg_state *st, rg__checkpoint *c,
                          const void **data)
{
    rg_status rs = RG_OK;
    for (int i = 0; i < st->buffers && rs == RG_OK; i++) {
        const rg__state_buffer *b = &st->buffer[i];
        data[i] = b->data;
        rs = b->is_sharded
                 ? rg__checkpoint_add_sharded(c, b->name, b->bytes, b->align, 1)
                 : rg__checkpoint_add(c, b->name, b->bytes);
        if (rs == RG_OK)
            rs = rg__state_pull(b, 0, b->bytes);
    }
    if (rs == RG_OK)
        rs = rg__checkpoint_sign(c, st->ctx->job, st->ctx->host);
    c->id = st->last;
    c->world_size = 1;
    rg__checkpoint_lay_out(c);
    return rs;
}

static rg_status write_alone(rg_state *st, const char *dir, int keep)
{
    rg__checkpoint c = {0};
    const void **data = calloc((size_t)st->buffers + 1, sizeof *data);
    if (data == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    const rg__checkpoint_writing w = {
        .dir = dir, .checkpoint = &c, .data = data};
    rg_status rs = describe(st, &c, data);
    if (rs == RG_OK)
        rs = rg__checkpoint_next(dir, rg__state_known(st, dir), &c.serial);
    if (rs == RG_OK)
        rs = rg__checkpoint_write(&w);
    if (rs == RG_OK)
        rs = rg__checkpoint_seal(dir, &c, keep);
    if (rs == RG_OK) {
        rg__state_know(st, dir, c.serial);
        atomic_store(&st->ctx->page->saved, c.id.step + 1);
    }
    free(data);
    rg__checkpoint_close(&c);
    return rs;
}

static void save_alone(rg_state *st, const char *dir, int keep)
{
    if (keep == 0)
        keep = st->ctx->checkpoint_keep > 0 ? st->ctx->checkpoint_keep : 2;
    if (write_alone(st, dir, keep) == RG_OK)
        st->has_warned = false;
    else
        warn(st, rg_last_error());
}

/* ------------------------------------------------------------------ asking */

/* "" stands for the job's own directory, which each host may see elsewhere. */
static void ask_agent(rg_state *st, const char *dir, int keep)
{
    const rg__membership *now = &st->ctx->now;
    rg__save m = {.head = {RG__SAVE, RG__WIRE_VERSION},
                  .keep = keep,
                  .is_first = now->rank == 0,
                  .shards = st->has_shards ? (uint32_t)now->size : 0,
                  .commit = st->last,
                  .loaded = rg__state_known(st, dir)};
    if (strcmp(dir, st->ctx->checkpoint) != 0)
        snprintf(m.dir, sizeof m.dir, "%s", dir);
    if (st->ctx->hooks->save(st->ctx, &m) != RG_OK)
        warn(st, "the agent can't be asked for a checkpoint");
}

static void ask(rg_state *st, const char *dir, int keep)
{
    char path[RG__TEXT_MAX];
    if (dir[0] == '\0')
        warn(st, "no directory for checkpoints was named (--checkpoint-dir): "
                 "commits are in memory only");
    else if (rg__state_absolute(dir, path) != RG_OK)
        warn(st, rg_last_error());
    else if (st->ctx->is_alone)
        save_alone(st, path, keep);
    else
        ask_agent(st, path, keep);
}

/* Shards lie on each host: one rank there asks its agent for them. */
static bool is_asking(const rg_state *st)
{
    const rg__membership *now = &st->ctx->now;
    return now->rank == 0 || (st->has_shards && now->local_rank == 0);
}

void rg__state_ask(rg_state *st, const char *dir, int keep)
{
    if (dir == NULL) { /* every rank keeps the time: it may be rank 0 soon */
        st->asked_step = st->step;
        st->asked_ns = rg__now_ns();
        dir = st->ctx->checkpoint;
        st->asked = st->last;
    }
    if (is_asking(st))
        ask(st, dir, keep);
}

void rg__state_ask_last(rg_state *st)
{
    if (st->ctx->checkpoint[0] != '\0' && st->ctx->checkpoint_on_stop &&
        st->last.generation != 0 && st->last.step + 1 != st->loaded_step &&
        !rg__same_commit(st->asked, st->last))
        rg__state_ask(st, NULL, 0);
}

void rg__state_show_loaded(const rg_state *st)
{
    rg__page *page = st->ctx->page;
    const uint64_t serial = rg__state_known(st, st->ctx->checkpoint);
    if (serial == 0)
        return;
    atomic_store(&page->loaded_step, st->loaded_step);
    atomic_store(&page->loaded_serial, serial);
}

bool rg__state_is_due(const rg_state *st, uint64_t step)
{
    const rg__every *every = &st->ctx->checkpoint_every;
    if (st->ctx->checkpoint[0] == '\0')
        return false;
    if (every->steps > 0)
        return step / every->steps > st->asked_step / every->steps;
    return every->ms > 0 && rg__now_ns() - st->asked_ns >= every->ms * RG__MS;
}

rg_status rg_state_saved(const rg_state *st, uint64_t *step_p)
{
    if (st == NULL || step_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_saved needs a state and a place for the "
                        "step");
    uint64_t saved = atomic_load(&st->ctx->page->saved);
    if (saved == 0)
        saved = st->loaded_step;
    if (saved == 0)
        return rg__fail(RG_ERR_NOT_FOUND, "no checkpoint is durable yet");
    *step_p = saved - 1;
    return RG_OK;
}
