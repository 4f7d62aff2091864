/* rg_state_load: registered memory from a checkpoint, completely or not at
 * all.  In a job that has a commit, a newcomer reads only the head of the
 * checkpoint: rg_run brings its memory to the commit. The checkpoint's data
 * are needed when no host that holds a commit is left and this rank's memory
 * becomes the job's. */
#include "elastic/state/state.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "elastic/state/checkpoint_dir.h"
#include "process_sets/sets.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define LIST_TRIES 5 /* old ones go while we look */

/* ---------------------------------------------------------------- one file */

static rg_buffer_kind kind_of(const rg__state_buffer *b)
{
    return b->is_local ? RG_LOCAL : b->is_sharded ? RG_SHARDED : RG_REPLICATED;
}

static rg_status check_buffers(const rg_state *state, const rg__checkpoint *c,
                               const char *path)
{
    for (int i = 0; i < state->buffers; i++) {
        const rg__state_buffer *b = &state->buffer[i];
        const uint32_t k = rg__checkpoint_find(c, b->name);
        if (k == c->buffers)
            return rg__fail(RG_ERR_INVALID,
                            "buffer %s is registered with %zu bytes, but "
                            "checkpoint %s has no such buffer; load it with "
                            "the program that wrote it",
                            b->name, b->bytes, path);
        const rg__checkpoint_buffer *stored = &c->buffer[k];
        if (stored->kind != kind_of(b))
            return rg__fail(RG_ERR_INVALID,
                            "buffer %s is registered as %s, but is %s in "
                            "checkpoint %s; load it with the program that "
                            "wrote it",
                            b->name, rg__checkpoint_kind(kind_of(b)),
                            rg__checkpoint_kind(stored->kind), path);
        if (stored->bytes != b->bytes && !b->is_local)
            return rg__fail(RG_ERR_INVALID,
                            "buffer %s is registered with %zu bytes, but has "
                            "%" PRIu64 " in checkpoint %s; load it with the "
                            "program that wrote it",
                            b->name, b->bytes, stored->bytes, path);
    }
    for (uint32_t i = 0; i < c->buffers; i++)
        if (rg__state_find(state, c->buffer[i].name) == NULL)
            return rg__fail(RG_ERR_INVALID,
                            "checkpoint %s has buffer %s of %" PRIu64 " bytes, "
                            "which is not registered; register it before",
                            path, c->buffer[i].name, c->buffer[i].bytes);
    return RG_OK;
}

static rg_status keep(void *arg, uint64_t at, const void *bytes, size_t n)
{
    return rg__state_write(arg, at, bytes, n);
}

static rg_status take(rg_state *state, const rg__checkpoint *c,
                      const rg__checkpoint_source *source)
{
    rg_status st = RG_OK;
    for (int k = 0; k < state->buffers && st == RG_OK; k++) {
        const rg__state_buffer *b = &state->buffer[k];
        if (b->is_sharded)
            continue;
        st = rg__checkpoint_take(c, source, rg__checkpoint_find(c, b->name), 0,
                                 b->bytes, keep, &state->buffer[k]);
    }
    return st == RG_OK ? rg__state_flush(state) : st;
}

static bool only_looks(const rg_state *state)
{
    return state->due[0] != '\0';
}

static void note_step(rg_state *state, uint64_t step, const char *path)
{
    state->step = step;
    state->loaded_step = step + 1;
    rg__log(RG__INFO, "state", "loaded step %" PRIu64 " from %s", step, path);
}

/* The path is absolute. */
static rg_status note_loaded(rg_state *state, const rg__checkpoint *c,
                             const char *path)
{
    rg__state_loaded *l = &state->loaded;
    const char *slash = strrchr(path, '/');
    const int n = snprintf(l->name, sizeof l->name, "%s", slash + 1);
    snprintf(l->dir, sizeof l->dir, "%.*s", (int)(slash - path), path);
    l->hash = c->head_hash;
    if (!only_looks(state))
        note_step(state, c->id.step, path);
    return n < (int)sizeof l->name
               ? RG_OK
               : rg__fail(RG_ERR_INVALID,
                          "checkpoint %s has too long a name; give it a "
                          "shorter one",
                          path);
}

static rg_status take_checkpoint(rg_state *state, const rg__checkpoint *c,
                                 const rg__checkpoint_source *source)
{
    rg_status st = check_buffers(state, c, source->name);
    if (st == RG_OK && !only_looks(state))
        st = rg__checkpoint_verify_replicated(c, source);
    if (st == RG_OK && !only_looks(state))
        st = take(state, c, source);
    return st == RG_OK ? note_loaded(state, c, source->name) : st;
}

static rg_status load_file(rg_state *state, const char *path)
{
    rg__checkpoint_file file;
    rg__checkpoint c;
    rg_status st = rg__checkpoint_file_open(&file, path);
    if (st != RG_OK)
        return st;
    st = rg__checkpoint_open(&c, &file.source);
    if (st == RG_OK) {
        st = take_checkpoint(state, &c, &file.source);
        rg__checkpoint_close(&c);
    }
    rg__checkpoint_file_close(&file);
    return st;
}

/* ------------------------------------------------------------------ shards */

static rg_status take_shards(rg_state *state, const rg__checkpoint *c,
                             const rg__checkpoint_source *source,
                             rg_status *dealt_p)
{
    const rg__membership *now = &state->ctx->now;
    rg_status st = check_buffers(state, c, source->name);
    for (int k = 0; k < state->buffers && st == RG_OK; k++) {
        const rg__state_buffer *b = &state->buffer[k];
        size_t begin, end;
        if (!b->is_sharded || b->is_local)
            continue;
        rg__state_slice(b, (uint32_t)now->rank, (uint32_t)now->size, &begin,
                        &end);
        st = rg__checkpoint_take(c, source, rg__checkpoint_find(c, b->name),
                                 begin, end, keep, &state->buffer[k]);
    }
    if (st == RG_OK && state->has_local) {
        const rg_parts from = {.state = state,
                               .count = c->world_size,
                               .checkpoint = c,
                               .source = source};
        *dealt_p = rg__state_deal(&from);
        st = *dealt_p == RG_ERR_DAMAGED ? *dealt_p : RG_OK;
    }
    return st == RG_OK ? rg__state_flush(state) : st;
}

static rg_status take_shards_of(rg_state *state, const char *path,
                                uint64_t hash, rg_status *dealt_p)
{
    rg__checkpoint_file file;
    rg__checkpoint c;
    rg_status st = rg__checkpoint_file_open(&file, path);
    if (st != RG_OK) /* another rank read it a moment ago */
        return st == RG_ERR_NOT_FOUND ? RG_ERR_SYSTEM : st;
    st = rg__checkpoint_open(&c, &file.source);
    if (st == RG_OK && c.head_hash != hash)
        st = rg__fail(RG_ERR_DAMAGED,
                      "checkpoint %s is not the one that rank 0 has loaded; "
                      "let all hosts see one directory",
                      path);
    if (st == RG_OK)
        st = take_shards(state, &c, &file.source, dealt_p);
    rg__checkpoint_close(&c);
    rg__checkpoint_file_close(&file);
    return st;
}

/* A rank that came later may have loaded another checkpoint, or none. */
rg_status rg__state_load_shards(rg_state *state, int source, rg_status *dealt_p)
{
    rg__state_loaded from = state->loaded;
    char path[PATH_MAX];
    const rg_status st =
        rg__world_broadcast(state->ctx, &from, sizeof from, source);
    if (st != RG_OK || from.name[0] == '\0')
        return st;
    const char *dir = state->loaded.name[0] != '\0' ? state->loaded.dir
                      : state->ctx->checkpoint[0] != '\0'
                          ? state->ctx->checkpoint
                          : from.dir;
    snprintf(path, sizeof path, "%s/%s", dir, from.name);
    return take_shards_of(state, path, from.hash, dealt_p);
}

/* ------------------------------------------------------------- a directory */

static rg_status load_name(rg_state *state, const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return rg__fail(RG_ERR_INVALID,
                        "the checkpoint directory %s has too long a name", dir);
    return load_file(state, path);
}

/* Load the newest complete one. A damaged one is named, and the one before it
 * used. IN_PROGRESS: a file has disappeared meanwhile. */
static rg_status load_newest(rg_state *state, const char *dir,
                             const rg__checkpoint_name *names, size_t count)
{
    rg_status st = rg__fail(RG_ERR_NOT_FOUND, "%s has no checkpoint", dir);
    for (size_t i = 0; i < count; i++) {
        if (names[i].is_part)
            continue;
        st = load_name(state, dir, names[i].text);
        if (st == RG_ERR_NOT_FOUND)
            return RG_IN_PROGRESS;
        if (st != RG_ERR_DAMAGED)
            return st;
        rg__log(RG__WARN, "state", "%s", rg_last_error());
    }
    return st;
}

/* The directory's newest serial on record stays as it is. */
rg_status rg__state_load_before(rg_state *state)
{
    rg__checkpoint_name *names;
    size_t count, i = 0;
    char name[RG__TEXT_MAX];
    snprintf(name, sizeof name, "%s", state->loaded.name);
    if (state->loaded.is_named)
        return rg__fail(RG_ERR_DAMAGED,
                        "checkpoint %s/%s is damaged; load another one",
                        state->loaded.dir, name);
    rg_status st = rg__checkpoint_list(state->loaded.dir, &names, &count);
    if (st != RG_OK)
        return st;
    while (i < count && strcmp(names[i].text, name) != 0)
        i++;
    i += i < count;
    st = load_newest(state, state->loaded.dir, names + i, count - i);
    free(names);
    if (st == RG_ERR_NOT_FOUND || st == RG_IN_PROGRESS)
        st = rg__fail(RG_ERR_DAMAGED,
                      "no checkpoint before %s is in %s; start over in another "
                      "directory",
                      name, state->loaded.dir);
    if (st == RG_OK)
        rg__state_note_load(state);
    return st;
}

static uint64_t newest_sealed(const rg__checkpoint_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!names[i].is_part)
            return names[i].serial;
    return 0;
}

static rg_status load_dir(rg_state *state, const char *dir)
{
    rg_status st = RG_IN_PROGRESS;
    for (int i = 0; i < LIST_TRIES && st == RG_IN_PROGRESS; i++) {
        rg__checkpoint_name *names;
        size_t count;
        st = rg__checkpoint_list(dir, &names, &count);
        if (st != RG_OK)
            return st;
        st = load_newest(state, dir, names, count);
        if (st == RG_OK) /* damaged or not, it is this job's */
            rg__state_know(state, dir, newest_sealed(names, count));
        free(names);
        state->loaded.is_named = false;
    }
    if (st == RG_IN_PROGRESS)
        return rg__fail(RG_ERR_SYSTEM,
                        "the checkpoints in %s disappear while they are read; "
                        "let one job at a time write there",
                        dir);
    return st;
}

/* --------------------------------------------------------------------- API */

static rg_status check_load(const rg_state *state, const char *path,
                            const uint64_t *step_p)
{
    if (state == NULL || step_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_load needs a state and a place for the step");
    if (state->ctx->is_running || state->last.generation != 0)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_load belongs before rg_run: afterwards "
                        "registered memory is that of its last commit");
    if (path == NULL && state->ctx->checkpoint[0] == '\0')
        return rg__fail(RG_ERR_NOT_FOUND,
                        "no directory of checkpoints was named; name it with "
                        "--checkpoint-dir");
    return RG_OK;
}

/* Newer ones in its directory are not ours. */
static rg_status load_named(rg_state *state, const char *path)
{
    char dir[RG__TEXT_MAX];
    rg__checkpoint_name name;
    const char *slash = strrchr(path, '/');
    const rg_status st = load_file(state, path);
    if (st == RG_OK && rg__checkpoint_name_read(slash + 1, &name)) {
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
        rg__state_know(state, dir, name.serial);
    }
    state->loaded.is_named = st == RG_OK;
    return st;
}

/* The path is absolute. */
static rg_status load(rg_state *state, const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0)
        return S_ISDIR(info.st_mode) ? load_dir(state, path)
                                     : load_named(state, path);
    const int cause = errno;
    return rg__fail(cause == ENOENT ? RG_ERR_NOT_FOUND : RG_ERR_SYSTEM,
                    "checkpoint %s can't be read: %s", path, strerror(cause));
}

/* It is on record in etcd, as the agent has told this worker. */
static bool job_has_commit(const rg_ctx *ctx)
{
    return ctx->has_agent && atomic_load(&ctx->page->begun) != 0;
}

static rg_status load_when_due(rg_state *state, const char *path)
{
    snprintf(state->due, sizeof state->due, "%s", path);
    const rg_status st = load(state, path);
    if (st != RG_OK) {
        state->due[0] = '\0';
        return st;
    }
    rg__log(RG__INFO, "state",
            "nothing is read from %s: the job has a commit, and rg_run brings "
            "registered memory to it",
            path);
    return rg__fail(RG_ERR_NOT_FOUND,
                    "nothing is read from %.200s: job %s has a commit, and "
                    "rg_run brings registered memory to it",
                    path, state->ctx->job);
}

rg_status rg__state_load_due(rg_state *state)
{
    char path[RG__TEXT_MAX];
    if (!only_looks(state))
        return RG_OK;
    snprintf(path, sizeof path, "%s", state->due);
    state->due[0] = '\0';
    const rg_status st = load(state, path);
    if (st == RG_OK)
        rg__state_note_load(state);
    return st;
}

rg_status rg_state_load(rg_state *state, const char *given, uint64_t *step_p)
{
    char path[RG__TEXT_MAX];
    rg_status st = check_load(state, given, step_p);
    if (st == RG_OK)
        st = rg__state_absolute(given != NULL ? given : state->ctx->checkpoint,
                                path);
    if (st != RG_OK)
        return st;
    if (job_has_commit(state->ctx))
        return load_when_due(state, path);
    st = rg__state_await_device(state);
    if (st == RG_OK)
        st = load(state, path);
    if (st == RG_OK) {
        *step_p = state->step;
        rg__state_note_load(state);
    }
    return st;
}
