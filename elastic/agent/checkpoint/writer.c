/* The process that writes a checkpoint, or a share of one (writer.h).
 *
 * The commit lies in a vault slot that a later commit will overwrite, and no
 * commit waits for a disk. So it is copied first, into memory that is reserved
 * and touched beforehand, and the slot is checked again afterwards: if a commit
 * wrote to it meanwhile, the copy is thrown away, and the next commit tried.
 * Any other copy is compared with the checksums of its pieces and shards.
 *
 * Which commits may be taken: the one that was asked for, the newest decided
 * one, and any for which a piece of a later step of its generation is there,
 * whole or not: a rank begins a commit only when the one before has been agreed
 * on by all. With shards, only commits of the same world, which cuts them
 * alike; if several hosts write, only the one that was asked for. */
#include "elastic/agent/checkpoint/writer.h"
#include "elastic/agent/checkpoint/image.h"
#include "elastic/agent/base/file_writer.h"
#include "elastic/agent/vault/vaults.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/sock.h"

#define LOOK_NS (1 * RG__MS)     /* between looks for a commit */
#define WAIT_NS (2000 * RG__MS)  /* for one that may be taken */
#define COPY_NS (10000 * RG__MS) /* for one that stays while it is copied */
#define NICE    10               /* while it writes: training goes first */

typedef struct writer {
    const rg__writer_task *task;
    bool is_exact; /* all hosts must take the same commit */
    rg__image image;
} writer;

/* ------------------------------------------------------------- the process */

static void calm_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* The agent has hung up. */
static bool is_given_up(const rg__writer_task *task)
{
    struct pollfd look = {.fd = task->sock};
    return poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR)) != 0;
}

static bool goes_on(void *arg)
{
    return !is_given_up(((const writer *)arg)->task);
}

/* --------------------------------------------------------------- the commit */

/* A later step of its generation was begun. */
static bool is_followed(const rg__vault *vault, rg__commit_id id)
{
    for (int vault_slot = 0; vault_slot < RG__VAULT_SLOTS; vault_slot++)
        for (int i = 0; i < RG__HOST_SLOTS_MAX; i++) {
            const rg__piece *p = &vault->slot[vault_slot][i];
            if (atomic_load(&p->state) != RG__PIECE_EMPTY &&
                atomic_load(&p->generation) == id.generation &&
                atomic_load(&p->step) > id.step)
                return true;
        }
    return false;
}

static bool may_be_taken(const writer *w, rg__commit_id id)
{
    const rg__writer_task *t = w->task;
    if (id.generation == 0 || rg__resume_is_later(t->wanted, id))
        return false;
    if (rg__same_commit(id, t->wanted))
        return true;
    if (w->is_exact || (t->shards > 0 && id.generation != t->wanted.generation))
        return false;
    return rg__same_commit(id, t->decided) || is_followed(w->image.vault, id);
}

/* The slot of the newest commit that may be taken, -1: none. */
static int find_commit(const writer *w, rg__commit_id *id_p)
{
    int found = -1;
    for (int vault_slot = 0; vault_slot < RG__VAULT_SLOTS; vault_slot++) {
        const rg__commit_id id = rg__vault_id(w->image.vault, vault_slot);
        if (!may_be_taken(w, id) ||
            (found >= 0 && !rg__resume_is_later(id, *id_p)))
            continue;
        found = vault_slot;
        *id_p = id;
    }
    return found;
}

/* The same words each time, so that they are logged once. */
static rg_status too_late(const writer *w, bool was_there)
{
    if (was_there && !w->is_exact)
        return rg__fail(RG_ERR_SYSTEM,
                        "commits follow each other faster than the %zu bytes "
                        "of one can be copied for a checkpoint; commit less "
                        "often",
                        w->image.bytes);
    return rg__fail(RG_ERR_NOT_FOUND,
                    "a commit has left the vault of host %s before it was "
                    "copied for a checkpoint; commit less often, and ask for "
                    "checkpoints less often",
                    w->task->a->params->host);
}

static rg_status copy_commit(writer *w)
{
    const uint64_t begin_ns = rg__now_ns();
    bool was_there = false;
    for (;;) {
        rg__commit_id id = {0, 0};
        const int vault_slot = find_commit(w, &id);
        const uint64_t waited = rg__now_ns() - begin_ns;
        if (is_given_up(w->task))
            _exit(0);
        if (vault_slot >= 0 && rg__image_fill(&w->image, vault_slot, id))
            return rg__image_check(&w->image);
        was_there = was_there || vault_slot >= 0;
        if (w->is_exact || waited > (was_there ? COPY_NS : WAIT_NS))
            return too_late(w, was_there);
        if (vault_slot < 0)
            rg__sleep_ns(LOOK_NS);
    }
}

/* ------------------------------------------------------------------- words */

static rg__writer_word word_of(const writer *w, rg__writer_kind kind)
{
    const rg__checkpoint *c = &w->image.checkpoint;
    rg__writer_word word = {.kind = kind,
                            .serial = c->serial,
                            .commit = c->id,
                            .hash = c->head_hash};
    memcpy(word.op, c->op, sizeof word.op);
    if (kind == WRITER_FAILED || kind == WRITER_GONE)
        snprintf(word.why, sizeof word.why, "%s", rg_last_error());
    else
        rg__checkpoint_name_of(c, false, word.name);
    return word;
}

static void tell(const writer *w, rg__writer_kind kind)
{
    const rg__writer_word word = word_of(w, kind);
    rg__sock_send(w->task->sock, &word, sizeof word, NULL, 0);
}

/* false: the agent has hung up. */
static bool await_order(const writer *w, rg__writer_order_kind kind,
                        rg__writer_order *m)
{
    struct pollfd ready = {.fd = w->task->sock, .events = POLLIN};
    while (poll(&ready, 1, -1) < 0 && errno == EINTR)
        continue;
    return read(w->task->sock, m, sizeof *m) == (ssize_t)sizeof *m &&
           m->kind == (uint32_t)kind;
}

/* ----------------------------------------------------------------- the file */

static rg__checkpoint_writing writing_of(writer *w)
{
    return (rg__checkpoint_writing){.dir = w->task->dir,
                                    .checkpoint = &w->image.checkpoint,
                                    .data = w->image.data,
                                    .goes_on = goes_on,
                                    .arg = w};
}

static rg_status fill_file(writer *w, const rg__checkpoint_writing *writing)
{
    rg__writer_order m;
    tell(w, WRITER_BEGUN);
    const rg_status st = rg__checkpoint_put(writing);
    if (st != RG_OK)
        return st;
    if (w->is_exact && !await_order(w, WRITER_GO, &m))
        return rg__fail(RG_ERR_JOB_ENDED, "a checkpoint was given up");
    return rg__checkpoint_end(writing);
}

static rg_status write_file(writer *w)
{
    const rg__writer_task *t = w->task;
    const rg__checkpoint_writing writing = writing_of(w);
    if (t->makes_dir)
        rg__checkpoint_make_dir(t->dir); /* what follows says why not */
    rg_status st =
        rg__checkpoint_next(t->dir, t->newest, &w->image.checkpoint.serial);
    if (st == RG_OK)
        st = rg__checkpoint_begin(&writing);
    if (st != RG_OK)
        return st;
    st = fill_file(w, &writing);
    if (st != RG_OK)
        rg__checkpoint_drop(t->dir, &w->image.checkpoint);
    return st;
}

/* ---------------------------------------------------------------- the roles */

static rg_status be_first(writer *w)
{
    const rg__writer_task *t = w->task;
    rg__checkpoint *c = &w->image.checkpoint;
    rg__writer_order m;
    rg_status st = write_file(w);
    if (st != RG_OK)
        return st;
    rg__failpoint("checkpoint.written", -1, c->id.step, c->id.generation);
    tell(w, WRITER_WRITTEN);
    if (!await_order(w, WRITER_SEAL, &m)) {
        rg__checkpoint_drop(t->dir, c);
        return RG_OK;
    }
    st = rg__checkpoint_seal(t->dir, c, t->keep);
    rg__failpoint("checkpoint.sealed", -1, c->id.step, c->id.generation);
    if (st == RG_OK)
        tell(w, WRITER_SEALED);
    return st;
}

static rg_status share(writer *w)
{
    rg__checkpoint *c = &w->image.checkpoint;
    const rg__checkpoint_writing writing = writing_of(w);
    rg__writer_order m;
    tell(w, WRITER_HELD);
    if (!await_order(w, WRITER_PUT, &m))
        return RG_OK;
    c->serial = m.serial;
    memcpy(c->op, m.op, sizeof c->op);
    rg__failpoint("checkpoint.share", -1, c->id.step, c->id.generation);
    const rg_status st = w->image.file == 0
                             ? RG_OK /* it has no bytes of any buffer */
                             : rg__checkpoint_put_file(&writing, w->image.file);
    if (st == RG_OK)
        tell(w, WRITER_SHARED);
    return st;
}

void rg__writer_run(const rg__writer_task *task)
{
    writer w = {.task = task, .is_exact = rg__writer_has_others(task)};
    /* sockets of the agent that stayed open here would hide its death */
    rg__writer_close_others(task->sock, &task->a->store->fd, 1);
    calm_signals();
    rg_status st = rg__image_begin(&w.image, task);
    if (st == RG_OK)
        st = copy_commit(&w);
    if (nice(NICE) == -1)
        errno = 0; /* as it was */
    if (st == RG_OK)
        st = task->is_first ? be_first(&w) : share(&w);
    if (st != RG_OK)
        tell(&w, st == RG_ERR_NOT_FOUND ? WRITER_GONE : WRITER_FAILED);
    _exit(0);
}
