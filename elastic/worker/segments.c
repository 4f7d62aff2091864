/* rg_alloc memory. The agent makes each segment and hands it to its owner and
 * to every other worker of the host, so that peers can read and write it
 * without knowing the owner's process; it lives until its owner frees it or
 * dies. Without an agent it is made here.  Its pages, and those of a buffer's
 * room in the vault, are reserved by the thread that asks for them: that takes
 * 0.5 s for a gigabyte, and the agent has other things to do. Only one worker
 * of a host does so at a time, since each compares its need with the free
 * memory. */
#include "elastic/worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/grow.h"
#include "sdk/base/log.h"
#include "sdk/base/shm.h"

#define SAY_MS 1500 /* as long as an agent's default limit for others */

/* ------------------------------------------------------------ the mappings */

/* Engine's lock held. */
static rg_status add_mapping(rg_ctx *ctx, const rg__mapping *m)
{
    rg__mappings *all = rg__engine_mappings(ctx->engine);
    rg__mapping *one = rg__grow(&all->item, (size_t)all->count, sizeof *one);
    if (one == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a list of %d segments",
                        all->count + 1);
    *one = *m;
    all->count++;
    return RG_OK;
}

static bool is_named(const rg__mapping *m, rg__member_id owner, uint32_t id)
{
    return m->id == id && m->owner.host == owner.host &&
           m->owner.slot == owner.slot && m->owner.start == owner.start;
}

static void *find_mapping(rg_ctx *ctx, rg__member_id owner, uint32_t id)
{
    const rg__mappings *all = rg__engine_mappings(ctx->engine);
    void *at = NULL;
    rg__engine_lock(ctx->engine);
    for (int i = 0; i < all->count && at == NULL; i++)
        if (is_named(&all->item[i], owner, id))
            at = all->item[i].at;
    rg__engine_unlock(ctx->engine);
    return at;
}

static bool take_mapping(rg_ctx *ctx, rg__member_id owner, uint32_t id,
                         rg__mapping *taken)
{
    rg__mappings *all = rg__engine_mappings(ctx->engine);
    bool found = false;
    rg__engine_lock(ctx->engine);
    for (int i = 0; i < all->count && !found; i++)
        if (is_named(&all->item[i], owner, id)) {
            *taken = all->item[i];
            all->item[i] = all->item[--all->count];
            found = true;
        }
    rg__engine_unlock(ctx->engine);
    return found;
}

void rg__segment_settle(rg_ctx *ctx, uint32_t id, const rg__home *home)
{
    const rg__mappings *all = rg__engine_mappings(ctx->engine);
    rg__engine_lock(ctx->engine);
    for (int i = 0; i < all->count; i++)
        if (is_named(&all->item[i], ctx->me, id))
            all->item[i].home = *home;
    rg__engine_unlock(ctx->engine);
}

static rg_status map_locked(rg_ctx *ctx, const rg__segment *s, int fd,
                            void **at_p)
{
    rg_status st = rg__shm_map(fd, s->bytes, at_p);
    if (st != RG_OK)
        return st;
    const rg__mapping m = {
        .owner = s->owner, .id = s->id, .bytes = s->bytes, .at = *at_p};
    st = add_mapping(ctx, &m);
    if (st != RG_OK)
        rg__shm_unmap(*at_p, s->bytes);
    return st;
}

rg_status rg__segment_map(rg_ctx *ctx, const rg__segment *s, int fd)
{
    void *at = NULL;
    return map_locked(ctx, s, fd, &at);
}

static rg_status map_segment(rg_ctx *ctx, const rg__segment *s, int fd,
                             void **at_p)
{
    rg__engine_lock(ctx->engine);
    const rg_status st = map_locked(ctx, s, fd, at_p);
    rg__engine_unlock(ctx->engine);
    return st;
}

/* ------------------------------------------------- on the Regroup thread */

static bool is_me(const rg_ctx *ctx, rg__member_id id)
{
    return id.host == ctx->me.host && id.slot == ctx->me.slot &&
           id.start == ctx->me.start;
}

static void answer(rg__worker *w, uint32_t id, rg_status st, void *at, int *fd,
                   const char *text)
{
    pthread_mutex_lock(&w->lock);
    if (w->reply.awaited == RG__SEGMENT && w->reply.ask == id) {
        w->reply.is_here = true;
        w->reply.st = st;
        w->reply.at = at;
        w->reply.fd = *fd;
        *fd = -1;
        snprintf(w->reply.text, sizeof w->reply.text, "%.*s", RG__TEXT_MAX - 1,
                 text);
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
}

void rg__segment_arrived(rg__worker *w, const rg__segment *m, int *fd)
{
    void *at = find_mapping(w->ctx, m->owner, m->id);
    rg_status st = (rg_status)m->status;
    const char *text = m->text;
    if (st == RG_OK && at == NULL) { /* else an agent that took over repeats
                                        itself */
        st = map_segment(w->ctx, m, *fd, &at);
        text = rg_last_error();
    }
    if (is_me(w->ctx, m->owner))
        answer(w, m->id, st, at, fd, text);
}

void rg__segment_gone(rg__worker *w, const rg__segment *m)
{
    rg__mapping gone;
    if (!is_me(w->ctx, m->owner) &&
        take_mapping(w->ctx, m->owner, m->id, &gone))
        rg__shm_unmap(gone.at, gone.bytes);
}

/* --------------------------------------------------------- on user threads */

/* Wait for a change; if the answer takes long, log that once. */
static void wait_and_say(rg__worker *w, uint64_t *say_at_ns)
{
    const struct timespec until = rg__timespec(*say_at_ns);
    if (*say_at_ns == 0) {
        pthread_cond_wait(&w->changed, &w->lock);
    } else if (pthread_cond_timedwait(&w->changed, &w->lock, &until) ==
               ETIMEDOUT) {
        *say_at_ns = 0;
        rg__log(RG__WARN, "worker",
                "process %d waits for the agent's answer to %s, for %d ms now; "
                "it goes on when the agent answers, or one that takes over, or "
                "ends after the agent's --agent-grace; is the agent stopped?",
                (int)getpid(),
                w->reply.awaited == RG__SEGMENT ? "rg_alloc" : "rg_state_add",
                SAY_MS);
    }
}

/* Until the answer is here; asked again whenever another agent took over. */
static rg_status wait_for_reply(rg__worker *w, const void *message,
                                size_t bytes)
{
    uint32_t asked = w->agents;
    uint64_t say_at_ns = rg__now_ns() + SAY_MS * RG__MS;
    rg_status st = rg__worker_send(w, message, bytes);
    while (st == RG_OK && !w->reply.is_here && w->phase != RG__PHASE_ENDED) {
        wait_and_say(w, &say_at_ns);
        if (asked == w->agents || w->reply.is_here)
            continue;
        asked = w->agents;
        st = rg__worker_send(w, message, bytes);
    }
    return st;
}

/* Ask the agent something and wait for w->reply, a message of that type and
 * number; lock held. An agent that takes over is asked again. */
static rg_status ask_agent(rg__worker *w, rg__wire_type reply, uint32_t ask,
                           const void *message, size_t bytes)
{
    while (w->reply.awaited != 0) /* another thread asks */
        pthread_cond_wait(&w->changed, &w->lock);
    w->reply = (rg__reply){.awaited = reply, .ask = ask, .fd = -1};
    rg_status st = wait_for_reply(w, message, bytes);
    if (st == RG_OK && !w->reply.is_here)
        st = rg__fail(w->end, "%s", w->end_why);
    else if (st == RG_OK && w->reply.st != RG_OK)
        st = rg__fail(w->reply.st, "%s", w->reply.text);
    w->reply.awaited = 0;
    pthread_cond_broadcast(&w->changed);
    return st;
}

/* ------------------------------------------------------------- the pages */

/* Opened again, so that the lock holds between threads, too. -1: no lock. */
static int wait_for_turn(const rg__worker *w)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", w->vault_fd);
    const int turn = open(path, O_RDONLY | O_CLOEXEC);
    while (turn >= 0 && flock(turn, LOCK_EX) != 0 && errno == EINTR)
        continue;
    return turn;
}

static void end_turn(int turn)
{
    if (turn < 0)
        return;
    flock(turn, LOCK_UN); /* a child that was forked meanwhile has it as well */
    close(turn);
}

static rg_status reserve_pages(const rg__worker *w, int fd, const char *name,
                               uint64_t place, size_t bytes)
{
    const int turn = wait_for_turn(w);
    const rg_status st = rg__shm_reserve(fd, name, place, bytes);
    end_turn(turn);
    return st;
}

rg_status rg__worker_reserve(rg_ctx *ctx, const rg__register *what, int *fd_p,
                             uint64_t *place_p)
{
    rg__worker *w = ctx->worker;
    *fd_p = -1;
    if (w->sock < 0)
        return RG_OK;
    rg__register m = *what;
    m.head = (rg__wire_head){RG__REGISTER, RG__WIRE_VERSION};
    pthread_mutex_lock(&w->lock);
    m.ask = ++w->last_ask;
    rg_status st = ask_agent(w, RG__BUFFER, m.ask, &m, sizeof m);
    const uint64_t place = w->reply.place;
    pthread_mutex_unlock(&w->lock);
    if (st == RG_OK && !what->is_sharded)
        st = reserve_pages(w, w->vault_fd, what->name, place,
                           rg__vault_stride(what->bytes) * what->slots);
    if (st != RG_OK)
        return st;
    *fd_p = w->vault_fd;
    *place_p = place;
    return RG_OK;
}

static rg_status show_in_registry(rg__worker *w, const rg__segment *m, int fd)
{
    const int shown = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (shown < 0)
        return rg__fail(RG_ERR_SYSTEM, "no descriptor for rg_alloc: %s",
                        strerror(errno));
    const rg_status st = rg__registry_write(w, m, shown);
    if (st != RG_OK)
        close(shown);
    return st;
}

static rg_status alloc_alone(rg_ctx *ctx, const rg__segment *m, int *fd_p,
                             void **p_p)
{
    rg__worker *w = ctx->worker;
    rg_status st = rg__shm_create("rg_alloc", m->bytes, true, fd_p);
    if (st == RG_OK && w->registry != NULL)
        st = show_in_registry(w, m, *fd_p);
    if (st == RG_OK)
        st = map_segment(ctx, m, *fd_p, p_p);
    if (st != RG_OK && w->registry != NULL)
        rg__registry_wipe(w, m->id);
    return st;
}

rg_status rg__segment_drop(rg_ctx *ctx, uint32_t id)
{
    rg__mapping gone;
    const rg__segment m = {
        .head = {RG__FREE, RG__WIRE_VERSION}, .owner = ctx->me, .id = id};
    if (take_mapping(ctx, ctx->me, id, &gone))
        rg__shm_unmap(gone.at, gone.bytes);
    if (ctx->worker->registry != NULL)
        rg__registry_wipe(ctx->worker, id);
    return ctx->worker->sock < 0 ? RG_OK
                                 : rg__worker_send(ctx->worker, &m, sizeof m);
}

static rg_status ask_for_segment(rg__worker *w, const rg__segment *m, int *fd_p,
                                 void **p_p)
{
    const rg_status st = ask_agent(w, RG__SEGMENT, m->id, m, sizeof *m);
    *fd_p = st == RG_OK ? w->reply.fd : -1;
    *p_p = w->reply.at;
    return st;
}

static rg_status make_segment(rg__worker *w, rg__segment *m, int *fd_p,
                              void **p_p)
{
    pthread_mutex_lock(&w->lock);
    m->id = ++w->last_segment;
    const rg_status st = w->sock < 0 ? alloc_alone(w->ctx, m, fd_p, p_p)
                                     : ask_for_segment(w, m, fd_p, p_p);
    pthread_mutex_unlock(&w->lock);
    return st;
}

rg_status rg__segment_make(rg_ctx *ctx, size_t bytes, uint32_t *id_p, int *fd_p,
                           void **p_p)
{
    rg__worker *w = ctx->worker;
    void *at = NULL;
    int fd = -1;
    rg__segment m = {.head = {RG__ALLOC, RG__WIRE_VERSION},
                     .owner = ctx->me,
                     .bytes = rg__page_round(bytes)};
    rg_status st = make_segment(w, &m, &fd, &at);
    if (st == RG_OK && w->sock >= 0) {
        st = reserve_pages(w, fd, "rg_alloc", 0, m.bytes);
        if (st != RG_OK)
            rg__segment_drop(ctx, m.id);
    }
    if (st != RG_OK) {
        if (fd >= 0)
            close(fd);
        return st;
    }
    *id_p = m.id;
    *fd_p = fd;
    *p_p = at;
    return RG_OK;
}

rg_status rg_alloc(rg_ctx *ctx, size_t bytes, const rg_alloc_params *params,
                   void **p_p)
{
    (void)params;
    if (ctx == NULL || p_p == NULL || bytes == 0)
        return rg__fail(RG_ERR_INVALID, "rg_alloc needs a context, a size "
                                        "above 0 and a place for the pointer");
    if (bytes > PTRDIFF_MAX)
        return rg__fail(RG_ERR_MEMORY,
                        "rg_alloc can't make %zu bytes: no memory is that "
                        "large; check the size",
                        bytes);
    uint32_t id = 0;
    int fd = -1;
    const rg_status st = rg__segment_make(ctx, bytes, &id, &fd, p_p);
    if (st != RG_OK)
        return st;
    rg__shm_make_huge(*p_p, rg__page_round(bytes));
    close(fd);
    return RG_OK;
}

static uint32_t id_of(rg_ctx *ctx, const void *p)
{
    const rg__mappings *all = rg__engine_mappings(ctx->engine);
    uint32_t id = 0;
    rg__engine_lock(ctx->engine);
    for (int i = 0; i < all->count; i++)
        if (all->item[i].at == p && all->item[i].home.at == NULL &&
            is_me(ctx, all->item[i].owner))
            id = all->item[i].id;
    rg__engine_unlock(ctx->engine);
    return id;
}

rg_status rg_free(rg_ctx *ctx, void *p)
{
    if (p == NULL)
        return RG_OK;
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_free needs a context");
    const uint32_t id = id_of(ctx, p);
    if (id == 0)
        return rg__fail(RG_ERR_INVALID,
                        "%p was not returned by rg_alloc, or freed already", p);
    return rg__segment_drop(ctx, id);
}
