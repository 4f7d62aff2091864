/* The process that writes one checkpoint (writer.h).
 *
 * The commit lies in a vault slot that a later commit will overwrite, and no
 * commit waits for a disk. So it is copied first, into memory that is reserved
 * and touched beforehand, and the slot is looked at again afterwards: a copy
 * that a commit ran into is thrown away, and the next commit tried. One that
 * was not is held against the pieces' checksums.
 *
 * Which commits may be taken: the one that was asked for, the newest decided
 * one, and any for which a piece of a later step of its generation is there,
 * whole or not: a rank begins a commit only when the one before has been agreed
 * on by all. */
#include "elastic/agent/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/hash.h"
#include "sdk/base/shm.h"
#include "sdk/base/sock.h"

#define LOOK_NS  (1 * RG__MS)     /* between looks for a commit */
#define WAIT_NS  (2000 * RG__MS)  /* for one that may be taken */
#define COPY_NS  (10000 * RG__MS) /* for one that stays while it is copied */
#define NICE     10               /* while it writes: training goes first */
#define FIRST_FD 3

typedef struct writer {
    const writer_task *task;
    const rg__vault *vault;
    const char **from; /* each buffer's segment */
    char *copy;        /* of the commit; buffers at vault strides */
    size_t copy_bytes;
    rg__commit_id id; /* that lies in it */
    rg__checkpoint checkpoint;
    const void **data;
} writer;

/* ------------------------------------------------------------- the process */

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Sockets of the agent that lived on here would hide its death. */
static void close_rest(const writer_task *task)
{
    const agent *a = task->a;
    int *keep = malloc(sizeof *keep * ((size_t)a->buffers + 2));
    if (keep == NULL)
        _exit(1);
    int n = 0, first = FIRST_FD;
    for (int i = 0; i < a->buffers; i++)
        keep[n++] = a->buffer[i].fd;
    keep[n++] = a->vault_fd;
    keep[n++] = task->sock;
    qsort(keep, (size_t)n, sizeof *keep, by_number);
    for (int i = 0; i < n; i++) {
        if (keep[i] > first)
            close_range((unsigned)first, (unsigned)keep[i] - 1, 0);
        first = keep[i] + 1;
    }
    close_range((unsigned)first, ~0u, 0);
    free(keep);
}

static void calm_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* The agent has hung up. */
static bool is_given_up(const writer_task *task)
{
    struct pollfd look = {.fd = task->sock};
    return poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR)) != 0;
}

static bool goes_on(void *arg)
{
    return !is_given_up(arg);
}

static void sleep_ns(uint64_t ns)
{
    const struct timespec t = {.tv_nsec = (long)ns};
    nanosleep(&t, NULL);
}

/* -------------------------------------------------------------- the memory
 * All pages are there before the commit is looked for, so that copying it takes
 * no longer than it must. */

static rg_status map_vault(writer *w)
{
    const agent *a = w->task->a;
    void *at = NULL;
    rg_status st = rg__shm_map(a->vault_fd, sizeof(rg__vault), &at);
    w->vault = at;
    w->from = calloc((size_t)a->buffers + 1, sizeof *w->from);
    if (st == RG_OK && w->from == NULL)
        st = rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    for (int i = 0; i < a->buffers && st == RG_OK; i++) {
        const size_t stride = rg__vault_stride(a->buffer[i].bytes);
        const size_t room = stride * a->buffer[i].slots;
        st = rg__shm_map(a->buffer[i].fd, room, &at);
        if (st == RG_OK)
            madvise(at, room, MADV_POPULATE_READ);
        w->from[i] = at;
        w->copy_bytes += stride;
    }
    return st;
}

static rg_status make_room(writer *w)
{
    int fd;
    void *at = NULL;
    rg_status st = rg__shm_create("a checkpoint", w->copy_bytes, true, &fd);
    if (st != RG_OK)
        return st;
    st = rg__shm_map(fd, w->copy_bytes, &at);
    close(fd);
    if (st == RG_OK)
        memset(at, 0, w->copy_bytes);
    w->copy = at;
    return st;
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
    const writer_task *t = w->task;
    if (id.generation == 0 || rg__resume_is_later(t->wanted, id))
        return false;
    return rg__same_commit(id, t->wanted) || rg__same_commit(id, t->decided) ||
           is_followed(w->vault, id);
}

/* The slot of the newest commit that may be taken, -1: none. */
static int find_commit(const writer *w, rg__commit_id *id_p)
{
    int found = -1;
    for (int vault_slot = 0; vault_slot < RG__VAULT_SLOTS; vault_slot++) {
        const rg__commit_id id = rg__vault_id(w->vault, vault_slot);
        if (!may_be_taken(w, id) ||
            (found >= 0 && !rg__resume_is_later(id, *id_p)))
            continue;
        found = vault_slot;
        *id_p = id;
    }
    return found;
}

static char *copy_of(const writer *w, int k)
{
    char *at = w->copy;
    for (int i = 0; i < k; i++)
        at += rg__vault_stride(w->task->a->buffer[i].bytes);
    return at;
}

static uint64_t sum_of_piece(const writer *w, uint32_t i, uint32_t count)
{
    const agent *a = w->task->a;
    uint64_t sum = 0;
    for (int k = 0; k < a->buffers; k++) {
        size_t begin, end;
        rg__hash hash;
        rg__vault_slice(a->buffer[k].bytes, i, count, &begin, &end);
        if (begin == end)
            continue;
        rg__hash_begin_named(&hash, a->buffer[k].name);
        rg__hash_update(&hash, copy_of(w, k) + begin, end - begin);
        sum += rg__hash_value(&hash);
    }
    return sum;
}

typedef struct sums {
    uint32_t count;
    uint64_t sum[RG__HOST_SLOTS_MAX];
} sums;

static sums read_sums(const rg__vault *vault, int vault_slot)
{
    sums s = {.count = atomic_load(&vault->slot[vault_slot][0].count)};
    if (s.count > RG__HOST_SLOTS_MAX)
        s.count = 0;
    for (uint32_t i = 0; i < s.count; i++)
        s.sum[i] = atomic_load(&vault->slot[vault_slot][i].sum);
    return s;
}

/* false: a commit came in between. */
static bool copy_slot(writer *w, int vault_slot, rg__commit_id id, sums *sums_p)
{
    const agent *a = w->task->a;
    *sums_p = read_sums(w->vault, vault_slot);
    for (int i = 0; i < a->buffers; i++) {
        const size_t stride = rg__vault_stride(a->buffer[i].bytes);
        memcpy(copy_of(w, i), w->from[i] + stride * (size_t)vault_slot,
               a->buffer[i].bytes);
    }
    atomic_thread_fence(memory_order_seq_cst);
    w->id = id;
    return rg__same_commit(rg__vault_id(w->vault, vault_slot), id);
}

static rg_status check_sums(const writer *w, const sums *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (sum_of_piece(w, i, s->count) != s->sum[i])
            return rg__fail(RG_ERR_DAMAGED,
                            "commit %" PRIu64 ".%" PRIu64 " in the vault of "
                            "host %s is damaged: piece %u does not have its "
                            "checksum; it becomes no checkpoint",
                            w->id.generation, w->id.step,
                            w->task->a->params->host, i);
    return RG_OK;
}

static rg_status too_late(const writer *w, bool was_there)
{
    if (was_there)
        return rg__fail(RG_ERR_SYSTEM,
                        "commits follow each other faster than the %zu bytes "
                        "of one can be copied for a checkpoint; commit less "
                        "often",
                        w->copy_bytes);
    return rg__fail(RG_ERR_SYSTEM,
                    "commit %" PRIu64 ".%" PRIu64 " has left the vault before "
                    "it became a checkpoint",
                    w->task->wanted.generation, w->task->wanted.step);
}

static rg_status copy_commit(writer *w)
{
    const uint64_t begin_ns = rg__now_ns();
    bool was_there = false;
    for (;;) {
        rg__commit_id id = {0, 0};
        sums s;
        const int vault_slot = find_commit(w, &id);
        const uint64_t waited = rg__now_ns() - begin_ns;
        if (is_given_up(w->task))
            _exit(0);
        if (vault_slot >= 0 && copy_slot(w, vault_slot, id, &s))
            return check_sums(w, &s);
        was_there = was_there || vault_slot >= 0;
        if (waited > (was_there ? COPY_NS : WAIT_NS))
            return too_late(w, was_there);
        if (vault_slot < 0)
            sleep_ns(LOOK_NS);
    }
}

/* ---------------------------------------------------------------- the file */

static rg_status describe(writer *w)
{
    const writer_task *t = w->task;
    rg__checkpoint *c = &w->checkpoint;
    rg_status st = RG_OK;
    w->data = calloc((size_t)t->a->buffers + 1, sizeof *w->data);
    if (w->data == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    for (int i = 0; i < t->a->buffers && st == RG_OK; i++) {
        w->data[i] = copy_of(w, i);
        st = rg__checkpoint_add(c, t->a->buffer[i].name, t->a->buffer[i].bytes);
    }
    if (st == RG_OK)
        st = rg__checkpoint_sign(c, t->a->params->job, t->a->params->host);
    c->id = w->id;
    c->world_size = t->world_size;
    return st;
}

static rg_status write_file(writer *w)
{
    writer_task task = *w->task;
    const rg__checkpoint_writing writing = {.dir = task.dir,
                                            .checkpoint = &w->checkpoint,
                                            .data = w->data,
                                            .goes_on = goes_on,
                                            .arg = &task};
    if (task.makes_dir)
        mkdir(task.dir, 0777); /* what follows says why not */
    const rg_status st =
        rg__checkpoint_next(task.dir, task.newest, &w->checkpoint.serial);
    return st == RG_OK ? rg__checkpoint_write(&writing) : st;
}

/* ------------------------------------------------------------------- words */

static void tell(const writer *w, writer_kind kind)
{
    const rg__checkpoint *c = &w->checkpoint;
    writer_word word = {.kind = kind,
                        .serial = c->serial,
                        .commit = c->id,
                        .hash = c->head_hash};
    memcpy(word.op, c->op, sizeof word.op);
    if (kind == WRITER_FAILED)
        snprintf(word.why, sizeof word.why, "%s", rg_last_error());
    else
        rg__checkpoint_name_of(c, false, word.name);
    rg__sock_send(w->task->sock, &word, sizeof word, NULL, 0);
}

/* false: the agent has hung up. */
static bool await_order(const writer_task *task)
{
    char order;
    struct pollfd ready = {.fd = task->sock, .events = POLLIN};
    while (poll(&ready, 1, -1) < 0 && errno == EINTR)
        continue;
    return read(task->sock, &order, 1) == 1;
}

static rg_status prepare(writer *w)
{
    rg_status st = map_vault(w);
    if (st == RG_OK)
        st = make_room(w);
    if (st == RG_OK)
        st = copy_commit(w);
    if (st == RG_OK)
        st = describe(w);
    return st;
}

void rg__writer_run(const writer_task *task)
{
    writer w = {.task = task};
    close_rest(task);
    calm_signals();
    rg_status st = prepare(&w);
    if (nice(NICE) == -1)
        errno = 0; /* as it was */
    if (st == RG_OK)
        st = write_file(&w);
    if (st != RG_OK) {
        tell(&w, WRITER_FAILED);
        _exit(0);
    }
    rg__failpoint("checkpoint.written", -1, w.id.step, w.id.generation);
    tell(&w, WRITER_WRITTEN);
    if (!await_order(task)) {
        rg__checkpoint_drop(task->dir, &w.checkpoint);
        _exit(0);
    }
    st = rg__checkpoint_seal(task->dir, &w.checkpoint, task->keep);
    tell(&w, st == RG_OK ? WRITER_SEALED : WRITER_FAILED);
    _exit(0);
}
