/* The agent's part of a timeline: it starts the process that writes, hands it
 * the record of each worker, and tells it of each change of the world.
 *
 *   worker: span ring ──> writer: events, the file
 *                agent ──> records, changes */
#include "elastic/agent/timeline/timeline_parts.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/base/file_writer.h"
#include "elastic/agent/base/reap.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/generation/generation.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/sock.h"

#define LOOK_NS   (200 * RG__MS)
#define WRITER_MS 100 /* it takes one, unless the disk is stuck */

typedef struct rg__timeline {
    int sock;
    pid_t writer;
    rg__timer *look;
    rg__timeline_counts *counts;
    uint32_t met[RG__HOST_SLOTS_MAX]; /* starts whose records it has */
    uint64_t told[RG__CHANGES_MAX];   /* generations whose change it knows */
} rg__timeline;

/* --------------------------------------------------------- what it is told */

/* false: not now; it is tried again. */
static bool tell(const rg__timeline *t, const rg__timeline_word *word, int fd)
{
    return rg__sock_send(t->sock, word, sizeof *word, &fd, fd >= 0) == RG_OK;
}

void rg__timeline_met(const rg__slot *s)
{
    rg__timeline *t = s->a->timeline;
    const rg__timeline_word word = {.kind = RG__TIMELINE_WORKER,
                                    .slot = s->index};
    if (t == NULL || s->w.record == NULL || t->met[s->index] == s->saved.start)
        return;
    atomic_store(&s->w.record->traces, 1);
    if (tell(t, &word, s->w.page_fd))
        t->met[s->index] = s->saved.start;
}

static void tell_change(rg__timeline *t, const rg__agent *a,
                        const rg__change *c)
{
    rg__timeline_word word = {.kind = RG__TIMELINE_CHANGE, .change = *c};
    uint64_t *told = &t->told[c->generation % RG__CHANGES_MAX];
    const rg__proposal *p = rg__snapshot_gen(&a->view, c->generation);
    if (c->stepped == 0 || *told >= c->generation)
        return;
    if (p != NULL)
        memcpy(word.cause, p->cause, sizeof word.cause);
    if (tell(t, &word, -1))
        *told = c->generation;
}

static void look(rg__agent *a)
{
    const rg__proposal *decided = rg__view_decided(a);
    for (int i = 0; i < a->params->slots; i++)
        rg__timeline_met(&a->slot[i]);
    if (decided != NULL)
        rg__change_note_steps(a, decided->generation);
    for (int i = 0; i < rg__changes(a); i++)
        tell_change(a->timeline, a, rg__change_at(a, i));
}

static void on_look(void *arg)
{
    rg__agent *a = arg;
    look(a);
    rg__timer_set(a->timeline->look, LOOK_NS);
}

/* -------------------------------------------------------------------- life */

static void drop(rg__agent *a)
{
    rg__timeline *t = a->timeline;
    for (int i = 0; a->slot != NULL && i < a->params->slots; i++)
        if (a->slot[i].w.record != NULL)
            atomic_store(&a->slot[i].w.record->traces, 0);
    if (t->sock >= 0)
        close(t->sock);
    if (t->writer > 0)
        rg__reap(t->writer);
    rg__timer_destroy(t->look);
    if (t->counts != NULL)
        munmap(t->counts, sizeof *t->counts);
    free(t);
    a->timeline = NULL;
}

static rg_status make_parts(rg__timeline *t, rg__agent *a)
{
    t->sock = -1;
    t->look = rg__timer_create(a->loop, on_look, a);
    t->counts = mmap(NULL, sizeof *t->counts, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t->counts == MAP_FAILED)
        t->counts = NULL;
    return t->look != NULL && t->counts != NULL
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY, "no memory for a timeline");
}

/* Earlier spans do not belong to this timeline. */
static void skip_old(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++) {
        rg__record *record = a->slot[i].w.record;
        if (record == NULL)
            continue;
        atomic_store(&record->read, atomic_load(&record->written));
        atomic_store(&record->dropped, 0);
    }
}

static int64_t wall_offset_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - (int64_t)rg__now_ns();
}

static rg_status start_writer(rg__timeline *t, const rg__agent *a, int file,
                              const char *path, bool goes_on)
{
    const rg__timeline_out out = {.file = file,
                                  .path = path,
                                  .host = a->params->host,
                                  .base = (unsigned)(a->id % 10000) * 100,
                                  .to_wall_ns = wall_offset_ns(),
                                  .since_ns = goes_on ? 0 : rg__now_ns(),
                                  .counts = t->counts};
    return rg__writer_start("a timeline", rg__timeline_write, &out, &file, 1,
                            &t->sock, &t->writer);
}

rg_status rg__timeline_start(rg__agent *a, const char *path, bool goes_on)
{
    if (a->timeline != NULL)
        return rg__fail(RG_ERR_INVALID, "a timeline is being written already; "
                                        "end it with `regroup timeline stop`");
    const int file = rg__timeline_file(path, goes_on);
    if (file < 0)
        return RG_ERR_INVALID;
    rg__timeline *t = a->timeline = calloc(1, sizeof *t);
    rg_status st = t != NULL
                       ? make_parts(t, a)
                       : rg__fail(RG_ERR_MEMORY, "no memory for a timeline");
    if (st == RG_OK)
        st = start_writer(t, a, file, path, goes_on);
    close(file);
    if (st != RG_OK) {
        if (t != NULL)
            drop(a);
        return st;
    }
    if (!goes_on)
        skip_old(a);
    on_look(a);
    return RG_OK;
}

/* Without its timeline a job does not begin, but it does not end for one. */
rg_status rg__timeline_open(rg__agent *a)
{
    if (a->params->user.timeline == NULL)
        return RG_OK;
    char *path = rg__writer_path(a->params, a->params->user.timeline);
    if (path == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a name");
    const bool goes_on = a->life.agents > 1;
    const rg_status st = rg__timeline_start(a, path, goes_on);
    free(path);
    if (st != RG_OK && goes_on)
        rg__log(RG__WARN, "agent", "%s", rg_last_error());
    return goes_on ? RG_OK : st;
}

/* The writer hangs up when it has written all. */
static void await_writer(const rg__timeline *t)
{
    struct pollfd end = {.fd = t->sock};
    if (shutdown(t->sock, SHUT_WR) == 0)
        poll(&end, 1, WRITER_MS);
}

/* Spans that the writer has left, because it is stuck or gone. */
static uint64_t untaken(const rg__agent *a)
{
    uint64_t n = 0;
    for (int i = 0; i < a->params->slots; i++) {
        rg__record *r = a->slot[i].w.record;
        const uint64_t there =
            r == NULL ? 0 : atomic_load(&r->written) - atomic_load(&r->read);
        if (r != NULL)
            n += atomic_load(&r->dropped) + (there <= RG__SPANS ? there : 0);
    }
    return n;
}

rg_status rg__timeline_stop(rg__agent *a, uint64_t *events_p,
                            uint64_t *dropped_p)
{
    rg__timeline *t = a->timeline;
    if (t == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "no timeline is being written; begin one with "
                        "`regroup timeline start FILE`");
    const rg__timeline_word over = {.kind = RG__TIMELINE_STOP};
    look(a);
    tell(t, &over, -1);
    await_writer(t);
    *events_p = atomic_load(&t->counts->events);
    *dropped_p = atomic_load(&t->counts->dropped) +
                 (atomic_load(&t->counts->is_whole) ? 0 : untaken(a));
    drop(a);
    return RG_OK;
}
