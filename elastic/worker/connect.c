/* Connecting to the agent: whatever started this process, it identifies itself
 * over the agent's Unix socket and receives page and vault. */
#include "elastic/worker/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/shm.h"
#include "sdk/base/sock.h"

#define ANSWER_TIMEOUT_MS 10000

/* The supervisor's message about the previous agent may come first. */
static rg_status recv_soon(int sock, void *bytes, size_t *n_p,
                           int fds[RG__SOCK_FDS])
{
    const rg__wire_head *head = bytes;
    rg_status st;
    do {
        struct pollfd ready = {.fd = sock, .events = POLLIN};
        if (poll(&ready, 1, ANSWER_TIMEOUT_MS) == 0)
            return rg__fail(
                RG_ERR_AGENT_LOST,
                "the agent did not answer within %d s; is it stopped?",
                ANSWER_TIMEOUT_MS / 1000);
        st = rg__sock_recv(sock, bytes, RG__WIRE_MAX, n_p, fds);
    } while (st == RG_OK && *n_p >= sizeof *head && head->type == RG__GONE);
    return st;
}

static rg_status say_hello(rg__worker *w, int slot)
{
    rg__hello m = {.head = {RG__HELLO, RG__WIRE_VERSION},
                   .pid = getpid(),
                   .slot = slot,
                   .elastic = w->ctx->is_elastic};
    snprintf(m.version, sizeof m.version, "%s", RG_VERSION);
    return rg__sock_send(w->sock, &m, sizeof m, NULL, 0);
}

static rg_status refused(const void *bytes, size_t n)
{
    const rg__text *m = bytes;
    if (n != sizeof *m)
        return rg__fail(RG_ERR_REFUSED,
                        "the agent speaks another version of "
                        "Regroup than this library, %s",
                        RG_VERSION);
    return rg__fail(RG_ERR_REFUSED, "%.*s", RG__TEXT_MAX - 1, m->text);
}

static rg_status take_welcome(rg__worker *w, const rg__welcome *m,
                              const int fds[RG__SOCK_FDS])
{
    rg_ctx *ctx = w->ctx;
    void *at = NULL;
    rg_status st = rg__area_map(fds[0], &ctx->page, &ctx->record);
    if (st != RG_OK)
        return st;
    st = rg__shm_map(fds[1], sizeof(rg__vault), &at);
    if (st != RG_OK)
        return st;
    ctx->vault = at;
    if (w->vault_fd >= 0) /* of an agent that was gone before it answered */
        close(w->vault_fd);
    w->vault_fd = fcntl(fds[1], F_DUPFD_CLOEXEC, 0);
    ctx->me = m->me;
    ctx->slot = (int)m->me.slot;
    w->grace_ms = m->grace_ms;
    w->mend_ms = w->ctx->is_rank ? m->mend_ms : 0;
    snprintf(ctx->host, sizeof ctx->host, "%.63s", m->host);
    snprintf(ctx->job, sizeof ctx->job, "%.63s", m->job);
    snprintf(ctx->job_id, sizeof ctx->job_id, "%.32s", m->job_id);
    snprintf(ctx->history, sizeof ctx->history, "%.255s", m->history);
    snprintf(ctx->checkpoint, sizeof ctx->checkpoint, "%.255s", m->checkpoint);
    ctx->checkpoint_every = (rg__every){m->every_steps, m->every_ms};
    ctx->checkpoint_on_stop = m->saves_last != 0;
    memcpy(ctx->key, m->key, sizeof ctx->key);
    return m->address.text[0] != '\0' ? rg__worker_listen(w, &m->address)
                                      : RG_OK;
}

static rg_status receive_welcome(rg__worker *w, void *room)
{
    size_t n = 0;
    int fds[RG__SOCK_FDS];
    rg_status st = recv_soon(w->sock, room, &n, fds);
    if (st != RG_OK)
        return st;
    const rg__wire_head *head = room;
    if (n >= sizeof *head && head->type == RG__REFUSED)
        st = refused(room, n);
    else if (n != sizeof(rg__welcome) || head->type != RG__WELCOME ||
             head->version != RG__WIRE_VERSION)
        st = refused(room, 0);
    else
        st = take_welcome(w, room, fds);
    rg__sock_close_fds(fds);
    return st;
}

/* *is_lost_p: the agent was there and has gone. */
static rg_status try_to_connect(rg__worker *w, const char *socket_path,
                                int slot, void *room, bool *is_lost_p)
{
    rg_status st = rg__sock_connect(socket_path,
                                    "; start this program with `regroup run`, "
                                    "or unset " RG__ENV_SOCKET,
                                    &w->sock);
    if (st != RG_OK)
        return st;
    st = say_hello(w, slot);
    if (st == RG_OK)
        st = receive_welcome(w, room);
    *is_lost_p = st == RG_ERR_AGENT_LOST;
    return st;
}

/* An agent that is killed before it has answered never knew this worker; the
 * next one listens at the same place. */
rg_status rg__worker_connect(rg__worker *w, const char *socket_path, int slot)
{
    const uint64_t deadline = rg__now_ns() + ANSWER_TIMEOUT_MS * RG__MS;
    void *room = malloc(RG__WIRE_MAX);
    if (room == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to connect to the agent");
    bool is_lost = false;
    rg_status st = try_to_connect(w, socket_path, slot, room, &is_lost);
    while (is_lost && rg__now_ns() < deadline) {
        close(w->sock);
        w->sock = -1;
        rg__sleep_ns(20 * RG__MS);
        is_lost = false;
        st = try_to_connect(w, socket_path, slot, room, &is_lost);
    }
    free(room);
    return st;
}

static void *private_memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static rg_status take_checkpoint_dir(rg_ctx *ctx,
                                     const rg__library_settings *settings)
{
    const char *dir = settings->checkpoint_dir;
    if (dir == NULL)
        return RG_OK;
    if (strlen(dir) >= sizeof ctx->checkpoint)
        return rg__fail(RG_ERR_INVALID,
                        "the directory %s has a name of over %zu bytes; give a "
                        "shorter one (REGROUP_CHECKPOINT_DIR)",
                        dir, sizeof ctx->checkpoint - 1);
    strcpy(ctx->checkpoint, dir);
    ctx->checkpoint_every = settings->checkpoint_every;
    ctx->checkpoint_keep = settings->checkpoint_keep;
    ctx->checkpoint_on_stop = settings->checkpoint_on_stop;
    return RG_OK;
}

rg_status rg__worker_stay_alone(rg__worker *w,
                                const rg__library_settings *settings)
{
    rg_ctx *ctx = w->ctx;
    w->sock = -1;
    ctx->is_alone = true;
    ctx->has_agent = false;
    ctx->page = private_memory(RG__AREA_BYTES);
    ctx->vault = private_memory(sizeof(rg__vault));
    if (ctx->page == NULL || ctx->vault == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a page and a vault");
    ctx->record = rg__record_of(ctx->page);
    atomic_store(&ctx->page->begun, 1); /* no other worker could begin */
    ctx->me = (rg__member_id){.host = 1, .slot = 0, .start = 1};
    if (gethostname(ctx->host, sizeof ctx->host) != 0)
        snprintf(ctx->host, sizeof ctx->host, "localhost");
    ctx->host[sizeof ctx->host - 1] = '\0';
    snprintf(ctx->job, sizeof ctx->job, "alone");
    return take_checkpoint_dir(ctx, settings);
}
