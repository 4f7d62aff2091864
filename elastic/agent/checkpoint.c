/* Checkpoints of this host: the agent of rank 0's host writes them, behind the
 * steps, by a process for each (writer.h).
 *
 *   idle -> writing -> written -> claiming -> sealing -> publishing -> idle
 *
 * A checkpoint has its final name, and counts, only after a claim in etcd: a
 * txn that applies while `cur` is what this agent has seen, with the commit on
 * its lineage and this host in its world. A host that was left out meanwhile
 * can't claim, and who can't claim removes what it wrote. So for whoever finds
 * the directory later, when job and etcd are gone, the names alone say what
 * counts. What is durable is then published for the workers and for people.
 *
 * A request that comes meanwhile waits; a newer one replaces it. Nothing here
 * makes the job wait but its end: what was asked for before is finished first,
 * within LAST_NS. Whatever fails is said once. */
#include "elastic/agent/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/hash.h"
#include "sdk/base/log.h"
#include "sdk/base/sock.h"

#define LAST_NS                                                                \
    (60000 * RG__MS) /* for the checkpoints of a job that is done              \
                      */

typedef enum saver_phase {
    IDLE,
    WRITING,
    WRITTEN, /* waits for a decided generation */
    CLAIMING,
    SEALING,
    PUBLISHING
} saver_phase;

struct saver {
    agent *a;
    saver_phase phase;
    bool has_next;
    rg__save now, next; /* requests: of this writing, and the one that waits */
    pid_t pid;          /* of the writer, 0: none */
    int pidfd, sock;
    uint64_t where;         /* hash of the directory's name */
    int64_t claim_revision; /* of its claim when it began */
    int64_t cur_revision;   /* of all/cur when it claimed */
    writer_word word;       /* what was written */
    rg__etcd_req *req;      /* on its way */
    rg__timer *last;        /* the job is done */
    char error[RG__ERROR_MAX], said[RG__ERROR_MAX];
};

static void start_next(saver *v);
static void claim_if_decided(saver *v);

/* ---------------------------------------------------------------- the state */

/* The next agent goes on with the newest request that is not durable. */
static void keep_request(const saver *v)
{
    const rg__save *m = v->has_next ? &v->next : &v->now;
    if (v->has_next || v->phase != IDLE)
        rg__keep_put(v->a->keep, "checkpoint", m, sizeof *m, NULL, 0);
    else
        rg__keep_drop(v->a->keep, "checkpoint");
}

static void take_request(saver *v)
{
    const rg__kept *kept =
        rg__kept_find(rg__keep_born_with(v->a->keep), "checkpoint");
    if (kept == NULL || kept->n != sizeof v->next)
        return;
    memcpy(&v->next, kept->bytes, sizeof v->next);
    v->has_next = true;
}

rg_status rg__checkpoint_create(agent *a)
{
    saver *v = calloc(1, sizeof *v);
    if (v == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an agent");
    *v = (saver){.a = a, .pidfd = -1, .sock = -1};
    a->saver = v;
    take_request(v);
    return RG_OK;
}

static const char *dir_of(const saver *v)
{
    return v->now.dir[0] != '\0' ? v->now.dir : v->a->params->checkpoint_dir;
}

static void hang_up(saver *v)
{
    if (v->sock < 0)
        return;
    rg__loop_unwatch(v->a->loop, v->sock);
    close(v->sock);
    v->sock = -1;
}

/* Both are needed: the writer has ended, and its last word was dealt with. */
static void rest_if_over(saver *v)
{
    if (v->phase == PUBLISHING || v->phase == CLAIMING || v->pid != 0)
        return;
    v->phase = IDLE;
    start_next(v);
    keep_request(v);
    rg__agent_check_end(v->a);
}

/* ---------------------------------------------------------------- failures */

/* For `regroup status` on every host, and for good until one is durable. */
static void publish_error(saver *v)
{
    agent *a = v->a;
    rg__saved saved = a->view.saved;
    if (a->mirror == NULL || strcmp(saved.error, v->error) == 0)
        return;
    snprintf(saved.error, sizeof saved.error, "%s", v->error);
    char *key = rg__record_key(a->prefix, "all/checkpoint", 0, NULL);
    char *text = rg__saved_text(&saved);
    rg__txn *txn = rg__txn_create();
    if (key != NULL && text != NULL && txn != NULL) {
        rg__txn_if_mod(txn, key, saved.mod_revision);
        rg__txn_put(txn, RG__THEN, key, text, 0);
        rg__etcd_txn(a->etcd, txn, rg__agent_ignore, NULL);
    }
    free(key);
    free(text);
}

static void fail(saver *v, const char *why)
{
    snprintf(v->error, sizeof v->error, "%s", why);
    if (strcmp(v->error, v->said) != 0)
        rg__log(RG__WARN, "agent", "%s; training goes on", v->error);
    snprintf(v->said, sizeof v->said, "%s", v->error);
    publish_error(v);
}

/* What was written does not become a checkpoint. */
static void give_up(saver *v, const char *why)
{
    rg__log(RG__WARN, "agent",
            "the checkpoint of step %" PRIu64 " is not published: %s",
            v->word.commit.step, why);
    v->phase = SEALING; /* the writer removes it and ends */
    hang_up(v);
}

/* -------------------------------------------------------------- publishing */

static void on_published(void *arg, rg_status st, const rg__txn_reply *reply)
{
    saver *v = arg;
    v->req = NULL;
    v->phase = SEALING;
    if (st != RG_OK)
        fail(v, rg_last_error());
    else if (!reply->succeeded)
        rg__log(RG__INFO, "agent",
                "a newer checkpoint than that of step "
                "%" PRIu64 " is known already",
                v->word.commit.step);
    rest_if_over(v);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static char *claim_key(const saver *v)
{
    return rg__record_key(v->a->prefix, "all/claim", v->where, NULL);
}

/* Guarded by the claim: if it is another's by now, that one's is newer. */
static void publish(saver *v)
{
    agent *a = v->a;
    rg__saved saved = {.serial = v->word.serial,
                       .commit = v->word.commit,
                       .hash = v->word.hash,
                       .at_ms = now_ms()};
    snprintf(saved.file, sizeof saved.file, "%s/%s", dir_of(v), v->word.name);
    snprintf(saved.host, sizeof saved.host, "%s", a->params->host);
    rg__claim claim = {.serial = v->word.serial};
    memcpy(claim.op, v->word.op, sizeof claim.op);
    char *guard = claim_key(v);
    char *claim_text = rg__claim_text(&claim);
    char *key = rg__record_key(a->prefix, "all/checkpoint", 0, NULL);
    char *text = rg__saved_text(&saved);
    rg__txn *txn = rg__txn_create();
    if (guard != NULL && claim_text != NULL && key != NULL && text != NULL &&
        txn != NULL) {
        rg__txn_if_value(txn, guard, claim_text);
        rg__txn_put(txn, RG__THEN, key, text, 0);
        v->phase = PUBLISHING;
        v->req = rg__etcd_txn(a->etcd, txn, on_published, v);
    }
    free(guard);
    free(claim_text);
    free(key);
    free(text);
}

static void on_sealed(saver *v)
{
    rg__log(RG__INFO, "agent", "step %" PRIu64 " is durable: %s/%s",
            v->word.commit.step, dir_of(v), v->word.name);
    v->error[0] = v->said[0] = '\0';
    publish(v);
}

/* ---------------------------------------------------------------- the claim */

static void order_sealing(saver *v)
{
    v->phase = SEALING;
    if (v->sock < 0 || rg__sock_send(v->sock, "s", 1, NULL, 0) != RG_OK)
        hang_up(v);
}

static bool is_in_world(const agent *a)
{
    const rg__proposal *p = rg__snapshot_decided(&a->view);
    for (int i = 0; p != NULL && i < p->host_count; i++)
        if (p->host[i].id == a->id)
            return true;
    return a->is_draining; /* it left at a commit, and in peace */
}

/* NULL: it may be sealed, as far as the view goes. */
static const char *why_not(const agent *a, rg__commit_id id)
{
    if (!is_in_world(a))
        return "the job went on without this host";
    if (!rg__resume_is_on_lineage(&a->view, id))
        return "the job went back to an earlier commit";
    return NULL;
}

static bool is_ours(const saver *v, const rg__txn_reply *reply)
{
    rg__snapshot found;
    rg__snapshot_read(&found, v->a->prefix, reply->kv, reply->kv_count);
    const rg__claim *c = rg__snapshot_claim(&found, v->where);
    const bool is_ours = c != NULL && c->serial == v->word.serial &&
                         strcmp(c->op, v->word.op) == 0;
    rg__snapshot_free(&found);
    return is_ours;
}

static void on_claimed(void *arg, rg_status st, const rg__txn_reply *reply)
{
    saver *v = arg;
    v->req = NULL;
    v->phase = WRITTEN;
    if (st != RG_OK) {
        fail(v, rg_last_error());
        give_up(v, "etcd refuses its claim");
    } else if (reply->succeeded || is_ours(v, reply)) {
        order_sealing(v);
    } else {
        claim_if_decided(v); /* `cur` has moved on, or the claim */
    }
    rest_if_over(v);
}

static void claim(saver *v)
{
    agent *a = v->a;
    rg__claim mine = {.serial = v->word.serial};
    memcpy(mine.op, v->word.op, sizeof mine.op);
    char *cur = rg__record_key(a->prefix, "all/cur", 0, NULL);
    char *key = claim_key(v);
    char *text = rg__claim_text(&mine);
    rg__txn *txn = rg__txn_create();
    if (cur != NULL && key != NULL && text != NULL && txn != NULL) {
        rg__txn_if_mod(txn, cur, a->view.cur.mod_revision);
        rg__txn_if_mod(txn, key, v->claim_revision);
        rg__txn_put(txn, RG__THEN, key, text, 0);
        rg__txn_get(txn, RG__ELSE, key, NULL);
        v->phase = CLAIMING;
        v->cur_revision = a->view.cur.mod_revision;
        v->req = rg__etcd_txn(a->etcd, txn, on_claimed, v);
    }
    free(cur);
    free(key);
    free(text);
}

static int64_t revision_of(const saver *v)
{
    const rg__claim *c = rg__snapshot_claim(&v->a->view, v->where);
    return c != NULL ? c->mod_revision : 0;
}

/* The view decides only what to try; the txn decides. One that was refused is
 * tried again once the view has moved on as well. */
static void claim_if_decided(saver *v)
{
    const agent *a = v->a;
    const rg__cur *cur = &a->view.cur;
    if (cur->phase != RG__GEN_DECIDED && cur->phase != RG__GEN_DONE)
        return;
    const char *why = why_not(a, v->word.commit);
    if (why == NULL && revision_of(v) != v->claim_revision)
        why = "another host has claimed a newer one";
    if (why != NULL)
        give_up(v, why);
    else if (cur->mod_revision != v->cur_revision)
        claim(v);
}

/* ------------------------------------------------------------- the writer */

static void on_word(saver *v, const writer_word *word)
{
    if (word->kind == WRITER_FAILED) {
        char why[RG__ERROR_MAX];
        snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, word->why);
        fail(v, why);
        v->phase = SEALING;
    } else if (word->kind == WRITER_WRITTEN && v->phase == WRITING) {
        v->word = *word;
        v->phase = WRITTEN;
        claim_if_decided(v);
    } else if (word->kind == WRITER_SEALED && v->phase == SEALING) {
        on_sealed(v);
    }
}

static void on_writer_socket(void *arg, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    saver *v = arg;
    while (v->sock >= 0) {
        writer_word word;
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        const rg_status st =
            rg__sock_recv(v->sock, &word, sizeof word, &n, fds);
        if (st == RG_IN_PROGRESS)
            return;
        if (st != RG_OK || n != sizeof word)
            hang_up(v);
        else
            on_word(v, &word);
    }
}

/* A writer says how it went before it ends; one that was killed does not. */
static void on_writer_end(void *arg, int fd, uint32_t events)
{
    (void)events;
    saver *v = arg;
    int status = 0;
    on_writer_socket(v, v->sock, EPOLLIN);
    hang_up(v);
    rg__loop_unwatch(v->a->loop, fd);
    close(fd);
    v->pidfd = -1;
    waitpid(v->pid, &status, 0);
    v->pid = 0;
    if (WIFSIGNALED(status) || v->phase == WRITING) {
        char why[RG__ERROR_MAX];
        snprintf(why, sizeof why,
                 "the writer of a checkpoint was ended (%s %d); the one before "
                 "still counts",
                 WIFSIGNALED(status) ? "signal" : "code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        fail(v, why);
    }
    rest_if_over(v);
}

static uint32_t size_of(const agent *a, uint64_t generation)
{
    const rg__proposal *p = rg__snapshot_gen(&a->view, generation);
    if (p == NULL)
        p = rg__snapshot_decided(&a->view);
    return p != NULL && p->size > 0 ? (uint32_t)p->size : 1;
}

static uint64_t newest_of(const saver *v)
{
    const rg__claim *c = rg__snapshot_claim(&v->a->view, v->where);
    return c != NULL && c->serial > v->now.loaded ? c->serial : v->now.loaded;
}

static void run_writer(const saver *v, int sock)
{
    const agent *a = v->a;
    const writer_task task = {
        .a = a,
        .sock = sock,
        .wanted = v->now.commit,
        .decided = a->view.lines > 0 ? a->view.line[a->view.lines - 1].resume
                                     : (rg__commit_id){0, 0},
        .world_size = size_of(a, v->now.commit.generation),
        .dir = dir_of(v),
        .makes_dir = v->now.dir[0] != '\0',
        .newest = newest_of(v),
        .keep = v->now.keep > 0 ? v->now.keep : a->params->checkpoint_keep};
    rg__writer_run(&task);
}

static rg_status watch_writer(saver *v)
{
    agent *a = v->a;
    v->pidfd = (int)syscall(SYS_pidfd_open, v->pid, 0);
    if (v->pidfd < 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "a writer of checkpoints can't be "
                        "watched: %s",
                        strerror(errno));
    rg_status st =
        rg__loop_watch(a->loop, v->sock, EPOLLIN, on_writer_socket, v);
    if (st == RG_OK)
        st = rg__loop_watch(a->loop, v->pidfd, EPOLLIN, on_writer_end, v);
    return st;
}

static rg_status start_writer(saver *v)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return rg__fail(RG_ERR_SYSTEM, "no socket for a checkpoint: %s",
                        strerror(errno));
    v->where = rg__hash_of(v->now.dir, strlen(v->now.dir));
    v->claim_revision = revision_of(v);
    v->cur_revision = 0;
    v->pid = fork();
    if (v->pid == 0)
        run_writer(v, pair[1]);
    close(pair[1]);
    v->sock = pair[0];
    if (v->pid > 0 && watch_writer(v) == RG_OK)
        return RG_OK;
    const int cause = errno;
    hang_up(v);
    if (v->pid > 0) {
        kill(v->pid, SIGKILL);
        waitpid(v->pid, NULL, 0);
    }
    v->pid = 0;
    return rg__fail(RG_ERR_SYSTEM, "no process for a checkpoint: %s",
                    strerror(cause));
}

static bool may_start(const saver *v)
{
    const agent *a = v->a;
    return v->phase == IDLE && v->has_next && !a->is_over &&
           a->resume == RESUME_NOT &&
           !(a->is_ending && a->exit_code == RG__EXIT_STORE);
}

static void start_next(saver *v)
{
    if (!may_start(v))
        return;
    v->has_next = false;
    v->now = v->next;
    v->phase = WRITING;
    if (start_writer(v) == RG_OK)
        return;
    v->phase = IDLE;
    fail(v, rg_last_error());
}

/* --------------------------------------------------------------- the agent */

void rg__checkpoint_ask(slot *s, const rg__save *m)
{
    saver *v = s->a->saver;
    rg__save next = *m;
    next.dir[sizeof next.dir - 1] = '\0';
    const bool is_decided = next.commit.generation <= s->a->delivered ||
                            s->a->resume != RESUME_NOT; /* not known yet */
    if (next.commit.generation == 0 || !is_decided || next.keep < 0 ||
        (next.dir[0] == '\0' && s->a->params->checkpoint_dir == NULL))
        return;
    v->next = next;
    v->has_next = true;
    start_next(v);
    keep_request(v);
}

void rg__checkpoint_show(const slot *s)
{
    const rg__saved *saved = &s->a->view.saved;
    if (s->w.page != NULL && saved->serial != 0)
        atomic_store(&s->w.page->saved, saved->commit.step + 1);
}

static void end_late(void *arg)
{
    saver *v = arg;
    if (v->phase == IDLE && !v->has_next)
        return;
    rg__log(RG__WARN, "agent",
            "the job is done, and a checkpoint is not durable within %d s; it "
            "is given up",
            (int)(LAST_NS / (1000 * RG__MS)));
    rg__checkpoint_stop(v->a);
    rg__agent_check_end(v->a);
}

static void bound_the_end(saver *v)
{
    if (!v->a->is_done || v->last != NULL)
        return;
    v->last = rg__timer_create(v->a->loop, end_late, v);
    if (v->last != NULL)
        rg__timer_set(v->last, LAST_NS);
}

void rg__checkpoint_follow(agent *a)
{
    saver *v = a->saver;
    for (int i = 0; i < a->params->slots; i++)
        rg__checkpoint_show(&a->slot[i]);
    bound_the_end(v);
    start_next(v); /* of the agent before */
    if (v->phase == WRITTEN)
        claim_if_decided(v);
}

bool rg__checkpoint_is_busy(const agent *a)
{
    const saver *v = a->saver;
    if (a->is_ending && a->exit_code == RG__EXIT_STORE)
        return false;
    return v->phase != IDLE || v->has_next;
}

void rg__checkpoint_stop(agent *a)
{
    saver *v = a->saver;
    if (v->req != NULL)
        rg__etcd_cancel(v->req);
    v->req = NULL;
    hang_up(v);
    if (v->pidfd >= 0) {
        rg__loop_unwatch(a->loop, v->pidfd);
        close(v->pidfd);
    }
    v->pidfd = -1;
    v->pid = 0; /* it ends by itself, and nobody waits for its disk */
    v->phase = IDLE;
    v->has_next = false;
}

void rg__checkpoint_destroy(agent *a)
{
    if (a->saver == NULL)
        return;
    rg__checkpoint_stop(a);
    rg__timer_destroy(a->saver->last);
    free(a->saver);
    a->saver = NULL;
}
