/* Checkpoints of this host: the agent of rank 0's host writes them while steps
 * go on, by a process for each (writer.h); if there are shards, each other host
 * writes a file of its own (shares.c). A checkpoint counts only after a claim
 * (claim.c).
 *
 * A request that comes meanwhile waits; a newer one replaces it. The job waits
 * for checkpoints only at its end: those that were asked for are finished
 * first, within DONE_NS, and so is the newest commit (last.c). Each failure is
 * reported once. */
#include "elastic/agent/checkpoint/checkpoints.h"
#include "elastic/agent/checkpoint/saver.h"
#include "elastic/agent/checkpoint/writer.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/reap.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/supervisor/fdrecord.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/hash.h"
#include "sdk/base/log.h"
#include "sdk/base/sock.h"

#define DONE_NS (60000 * RG__MS) /* for checkpoints, once the job is done */

static void end_late(void *saver_arg);

/* ---------------------------------------------------------------- the state */

/* The next agent goes on with the newest request that is not durable yet. */
static void save_request(const rg__saver *v)
{
    const rg__save *m = v->has_next ? &v->next : &v->now;
    if (v->has_next || v->phase != SAVER_IDLE)
        rg__fdstore_put(v->a->fdstore, "checkpoint", m, sizeof *m, NULL, 0);
    else
        rg__fdstore_drop(v->a->fdstore, "checkpoint");
}

rg_status rg__checkpoint_create(rg__agent *a)
{
    rg__saver *v = calloc(1, sizeof *v);
    if (v == NULL)
        return rg__agent_made(false);
    *v = (rg__saver){.a = a, .pidfd = -1, .sock = -1};
    a->saver = v;
    v->patience = rg__timer_create(a->loop, rg__shares_late, v);
    v->late = rg__timer_create(a->loop, end_late, v);
    v->calm = rg__timer_create(a->loop, rg__last_look, v);
    v->has_next = rg__fdstore_read(a->fdstore, "checkpoint", &v->next,
                                   sizeof v->next) != NULL;
    return rg__agent_made(v->patience != NULL && v->late != NULL &&
                          v->calm != NULL);
}

const char *rg__saver_dir(const rg__saver *v)
{
    return v->now.dir[0] != '\0' ? v->now.dir : v->a->params->checkpoint_dir;
}

void rg__saver_hang_up(rg__saver *v)
{
    rg__loop_close(v->a->loop, &v->sock);
}

/* It takes both: the writer has ended, and etcd has answered what it was asked
 * for this checkpoint; otherwise the next writer would get that answer. */
void rg__saver_rest(rg__saver *v)
{
    if (v->req != NULL || v->pid != 0 || rg__job_owes(v->a, rg__claim_publish))
        return;
    v->phase = SAVER_IDLE;
    v->is_ordered = false;
    rg__timer_stop(v->patience);
    rg__saver_start_next(v);
    save_request(v);
    rg__shares_follow(v);
    rg__last_tell_end(v);
    rg__last_look(v);
    v->a->on->settled(v->a);
}

static void end_late(void *saver_arg)
{
    rg__saver *v = saver_arg;
    const bool is_written =
        v->phase == SAVER_IDLE && !v->has_next && !v->is_last;
    if (!rg__checkpoint_is_busy(v->a))
        return;
    rg__log(RG__WARN, "agent", "the job ends, and %s; it is given up",
            is_written
                ? "etcd has not answered its last message about checkpoints"
                : "its last checkpoint is not durable yet");
    rg__checkpoint_stop(v->a);
    v->a->on->settled(v->a);
}

/* ---------------------------------------------------------------- failures */

/* Refused, and sent again, while the view lacks the last message. */
static void on_told(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__saver *v = arg;
    const bool was_refused = st == RG_OK && !reply->succeeded;
    v->answering = NULL;
    v->is_last = was_refused && !v->a->is_done;
    v->tells_end = was_refused && v->a->is_done;
    rg__saver_rest(v);
}

static void publish_error_again(rg__agent *a)
{
    rg__saver_publish_error(a->saver, a->saver->says_last);
}

/* For `regroup status` on every host, until a checkpoint is durable. */
void rg__saver_publish_error(rg__saver *v, bool is_last)
{
    rg__agent *a = v->a;
    rg__saved saved = a->view.saved;
    if (a->mirror == NULL || (!is_last && strcmp(saved.error, v->error) == 0))
        return;
    if (v->error[0] != '\0')
        snprintf(saved.error, sizeof saved.error, "%s", v->error);
    saved.is_last = is_last;
    v->says_last = is_last;
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_mod(&t, RG__KEY(CHECKPOINT), saved.mod_revision);
    rg__job_put(&t, RG__KEY(CHECKPOINT), rg__saved_text(&saved), 0);
    if (!is_last)
        rg__job_send(&t, NULL, NULL, publish_error_again);
    else /* the agent ends once that is said */
        v->answering = rg__job_send(&t, on_told, v, publish_error_again);
}

void rg__saver_fail(rg__saver *v, const char *why)
{
    snprintf(v->error, sizeof v->error, "%s", why);
    const rg__agent *a = v->a;
    if (strcmp(v->error, v->said) != 0)
        rg__log(RG__WARN, "agent", "%s%s", v->error,
                rg__life_is_ending(a) || a->is_done ? ""
                                                    : "; training goes on");
    snprintf(v->said, sizeof v->said, "%s", v->error);
    rg__saver_publish_error(v, false);
}

void rg__saver_give_up(rg__saver *v, const char *why)
{
    rg__log(RG__WARN, "agent",
            "the checkpoint of step %" PRIu64 " is not published: %s",
            v->word.commit.step, why);
    v->phase = SAVER_SEALING; /* the writer removes it and ends */
    rg__saver_hang_up(v);
}

void rg__saver_lose(rg__saver *v, const char *why)
{
    if (!v->now.is_first) {
        rg__shares_failed(v, why);
        return;
    }
    rg__saver_fail(v, why);
    rg__shares_cancel(v);
    v->phase = SAVER_SEALING;
    rg__saver_hang_up(v);
}

/* A request that waited for another one came too late; a newer will follow. */
static void leave_out(rg__saver *v)
{
    rg__log(RG__INFO, "agent",
            "step %" PRIu64 " gets no checkpoint: its commit was overwritten "
            "while another checkpoint was written",
            v->now.commit.step);
    rg__shares_cancel(v);
    v->phase = SAVER_SEALING;
}

/* ------------------------------------------------------------- the writer */

static void on_first_word(rg__saver *v, const rg__writer_word *word)
{
    if (word->kind == WRITER_BEGUN && v->phase == SAVER_WRITING) {
        v->word = *word;
        rg__claim_begin(v);
        rg__shares_begun(v);
    } else if (word->kind == WRITER_WRITTEN && v->phase == SAVER_WRITING) {
        v->word = *word;
        v->phase = SAVER_WRITTEN;
        rg__timer_stop(v->patience);
        rg__claim_if_decided(v);
    } else if (word->kind == WRITER_SEALED && v->phase == SAVER_SEALING) {
        rg__claim_sealed(v);
    }
}

static void on_word(rg__saver *v, const rg__writer_word *word)
{
    if (word->kind == WRITER_GONE && v->has_waited && v->now.is_first) {
        leave_out(v);
    } else if (word->kind == WRITER_FAILED || word->kind == WRITER_GONE) {
        char why[RG__ERROR_MAX];
        snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, word->why);
        rg__saver_lose(v, why);
    } else if (v->now.is_first) {
        on_first_word(v, word);
    } else if (word->kind == WRITER_HELD && v->phase == SAVER_WRITING) {
        rg__shares_held(v);
    } else if (word->kind == WRITER_SHARED && v->phase == SAVER_SHARING) {
        rg__shares_done(v);
    }
}

static void on_writer_socket(void *arg, int fd, uint32_t events)
{
    rg__writer_word m;
    (void)fd, (void)events;
    rg__saver *v = arg;
    while (v->sock >= 0) {
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        const rg_status st = rg__sock_recv(v->sock, &m, sizeof m, &n, fds);
        if (st == RG_IN_PROGRESS)
            return;
        if (st != RG_OK || n != sizeof m)
            rg__saver_hang_up(v);
        else
            on_word(v, &m);
    }
}

bool rg__saver_order(rg__saver *v, const rg__writer_order *order)
{
    return v->sock >= 0 &&
           rg__sock_send(v->sock, order, sizeof *order, NULL, 0) == RG_OK;
}

/* A writer reports how it went before it ends, unless it is killed. */
static void on_writer_end(void *arg, int fd, uint32_t events)
{
    (void)fd, (void)events;
    rg__saver *v = arg;
    const int status = rg__how_ended(v->pid);
    on_writer_socket(v, v->sock, EPOLLIN);
    rg__saver_hang_up(v);
    rg__loop_close(v->a->loop, &v->pidfd);
    rg__reap(v->pid);
    v->pid = 0;
    const bool is_sealed = v->phase == SAVER_PUBLISHING;
    if ((WIFSIGNALED(status) && !is_sealed) || v->phase == SAVER_WRITING ||
        v->phase == SAVER_SHARING) {
        char why[RG__ERROR_MAX];
        snprintf(why, sizeof why,
                 "the writer of a checkpoint was ended (%s %d); the one before "
                 "still counts",
                 WIFSIGNALED(status) ? "signal" : "code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        rg__saver_lose(v, why);
    }
    rg__saver_rest(v);
}

static uint32_t size_of(const rg__agent *a, uint64_t generation)
{
    const rg__proposal *p = rg__snapshot_gen(&a->view, generation);
    if (p == NULL)
        p = rg__view_decided(a);
    return p != NULL && p->size > 0 ? (uint32_t)p->size : 1;
}

static uint64_t newest_of(const rg__saver *v)
{
    const rg__claim *c = rg__snapshot_claim(&v->a->view, v->where);
    return c != NULL && c->serial > v->now.loaded ? c->serial : v->now.loaded;
}

static void run_writer(const rg__saver *v, int sock)
{
    const rg__agent *a = v->a;
    const rg__line *line = rg__view_line(a);
    const rg__writer_task task = {
        .a = a,
        .sock = sock,
        .is_first = v->now.is_first,
        .shards = v->now.shards,
        .world = rg__snapshot_gen(&a->view, v->now.commit.generation),
        .wanted = v->now.commit,
        .decided = line != NULL ? line->resume : (rg__commit_id){0, 0},
        .world_size = size_of(a, v->now.commit.generation),
        .dir = rg__saver_dir(v),
        .makes_dir = v->now.dir[0] != '\0',
        .newest = newest_of(v),
        .keep = v->now.keep > 0 ? v->now.keep : a->params->checkpoint_keep};
    rg__writer_run(&task);
}

static rg_status watch_writer(rg__saver *v)
{
    rg__agent *a = v->a;
    v->pidfd = (int)syscall(SYS_pidfd_open, v->pid, 0);
    if (v->pidfd < 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "a writer of checkpoints can't be watched: %s",
                        strerror(errno));
    rg_status st =
        rg__loop_watch(a->loop, v->sock, EPOLLIN, on_writer_socket, v);
    if (st == RG_OK)
        st = rg__loop_watch(a->loop, v->pidfd, EPOLLIN, on_writer_end, v);
    return st;
}

/* The proposal says which rank owns each shard, and is not kept forever. */
static rg_status check_world(const rg__saver *v)
{
    const rg__proposal *p =
        rg__snapshot_gen(&v->a->view, v->now.commit.generation);
    if (v->now.shards == 0 || (p != NULL && p->size == (int)v->now.shards))
        return RG_OK;
    return rg__fail(
        RG_ERR_SYSTEM,
        "the commit's world is no longer on record; no checkpoint is written");
}

static rg_status start_writer(rg__saver *v)
{
    int pair[2];
    const rg_status st = check_world(v);
    if (st != RG_OK)
        return st;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return rg__fail(RG_ERR_SYSTEM, "no socket for a checkpoint: %s",
                        strerror(errno));
    v->where = rg__hash_of(v->now.dir, strlen(v->now.dir));
    v->claim_revision = rg__claim_revision(v);
    v->cur_revision = 0;
    v->pid = fork();
    if (v->pid == 0)
        run_writer(v, pair[1]);
    close(pair[1]);
    v->sock = pair[0];
    if (v->pid > 0 && watch_writer(v) == RG_OK)
        return RG_OK;
    const int cause = errno;
    rg__saver_hang_up(v);
    if (v->pid > 0) {
        kill(v->pid, SIGKILL);
        rg__reap(v->pid);
    }
    v->pid = 0;
    return rg__fail(RG_ERR_SYSTEM, "no process for a checkpoint: %s",
                    strerror(cause));
}

static bool may_start(const rg__saver *v)
{
    const rg__agent *a = v->a;
    return v->phase == SAVER_IDLE && v->has_next && !rg__life_is_over(a) &&
           !rg__life_takes_over(a) &&
           !(rg__life_is_ending(a) && a->verdict.code == RG__EXIT_STORE);
}

void rg__saver_start_next(rg__saver *v)
{
    if (!may_start(v))
        return;
    v->has_next = false;
    v->now = v->next;
    v->has_waited = v->next_waits;
    v->phase = SAVER_WRITING;
    if (start_writer(v) == RG_OK)
        return;
    rg__saver_lose(v, rg_last_error());
    v->phase = SAVER_IDLE;
    rg__timer_set(v->calm, 0); /* an older commit may do for the last one */
}

/* --------------------------------------------------------------- the agent */

bool rg__saver_is_durable(const rg__saver *v, const rg__save *m)
{
    const rg__saved *saved = &v->a->view.saved;
    return m->dir[0] == '\0' && saved->serial != 0 &&
           rg__same_commit(saved->commit, m->commit);
}

void rg__checkpoint_ask(rg__slot *s, const rg__save *m)
{
    rg__saver *v = s->a->saver;
    rg__save next = *m;
    next.dir[sizeof next.dir - 1] = '\0';
    const bool is_decided = next.commit.generation <= s->a->delivered ||
                            rg__life_takes_over(s->a); /* not known yet */
    if (next.commit.generation == 0 || !is_decided || next.keep < 0 ||
        (next.dir[0] == '\0' && s->a->params->checkpoint_dir == NULL) ||
        rg__saver_is_durable(v, &next))
        return;
    v->next = next;
    v->has_next = true;
    v->next_waits = v->phase != SAVER_IDLE;
    rg__shares_asked(v);
    rg__saver_start_next(v);
    save_request(v);
}

void rg__checkpoint_show(const rg__slot *s)
{
    const rg__saved *saved = &s->a->view.saved;
    if (s->w.page != NULL && saved->serial != 0)
        atomic_store(&s->w.page->saved, saved->commit.step + 1);
}

void rg__checkpoint_bound(rg__agent *a, uint64_t within_ns)
{
    if (!rg__timer_is_set(a->saver->late))
        rg__timer_set(a->saver->late, within_ns);
}

void rg__checkpoint_follow(rg__agent *a)
{
    rg__saver *v = a->saver;
    for (int i = 0; i < a->params->slots; i++)
        rg__checkpoint_show(&a->slot[i]);
    if (a->is_done)
        rg__checkpoint_bound(a, DONE_NS);
    rg__saver_start_next(v); /* of the agent before */
    rg__claim_follow(v);
    if (v->phase == SAVER_WRITTEN)
        rg__claim_if_decided(v);
    rg__shares_follow(v);
    rg__last_tell_end(v);
    rg__last_follow(a);
}

bool rg__checkpoint_is_busy(const rg__agent *a)
{
    const rg__saver *v = a->saver;
    if (rg__life_is_ending(a) && a->verdict.code == RG__EXIT_STORE)
        return false;
    return v->phase != SAVER_IDLE || v->has_next || v->answering != NULL ||
           v->is_last || v->tells_end;
}

void rg__checkpoint_stop(rg__agent *a)
{
    rg__saver *v = a->saver;
    rg__etcd_cancel(v->req);
    rg__etcd_cancel(v->answering);
    v->req = v->answering = NULL;
    rg__saver_hang_up(v);
    rg__loop_close(a->loop, &v->pidfd);
    v->pid = 0; /* it ends by itself, and nothing waits for its disk */
    v->phase = SAVER_IDLE;
    v->has_next = v->is_last = v->tells_end = false;
    v->is_ordered = false;
    rg__timer_stop(v->patience);
}

void rg__checkpoint_destroy(rg__agent *a)
{
    if (a->saver == NULL)
        return;
    rg__checkpoint_stop(a);
    rg__timer_destroy(a->saver->late);
    rg__timer_destroy(a->saver->calm);
    rg__timer_destroy(a->saver->patience);
    free(a->saver);
    a->saver = NULL;
}
