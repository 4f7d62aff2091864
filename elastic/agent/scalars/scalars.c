/* The agent's part: on a timer it takes the scalars of whole steps from the
 * records of its workers, the oldest generation first, because rank 0 may have
 * moved, and hands them to the process that writes. A step leaves the record
 * when it is handed over, so the next agent goes on with the next step. If a
 * generation resumes at a step, later steps are rolled back. */
#include "elastic/agent/scalars/scalars_parts.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "elastic/agent/base/reap.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/file_writer.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define TICK_NS    (20 * RG__MS)
#define TICK_STEPS 512
#define CLOSE_MS   2000 /* a disk that takes longer is not waited for */

typedef struct rg__scalars {
    int sock; /* -1: nothing is written */
    pid_t writer;
    rg__timer *tick;
    uint64_t generation; /* whose decision was followed */
    bool has_generation;
    uint64_t dropped; /* that was reported */
    rg__scalar latest[RG__SCALARS_OF_STEP];
    int n;
} rg__scalars;

/* false: not now. A writer that is gone has said why. */
static bool give(rg__scalars *s, const rg__scalar *row, int n)
{
    return s->sock < 0 ||
           send(s->sock, row, sizeof *row * (size_t)n,
                MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
           errno != EAGAIN;
}

static void keep_latest(rg__scalars *s, const rg__scalar *row)
{
    int i = 0;
    while (i < s->n && strcmp(s->latest[i].name, row->name) != 0)
        i++;
    if (i == RG__SCALARS_OF_STEP)
        return;
    s->latest[i] = *row;
    s->n += i == s->n;
}

static bool has_next(const rg__record *r)
{
    return atomic_load(&r->scalars_read) != atomic_load(&r->scalars_written);
}

/* It may be gone or another one by now; its numbers are checked in a copy. */
static const rg__scalar *next_of(const rg__record *r)
{
    return &r->scalar[atomic_load(&r->scalars_read) % RG__SCALARS];
}

static void choose(rg__record **oldest, rg__record *r)
{
    if (r != NULL && has_next(r) &&
        (*oldest == NULL ||
         next_of(r)->generation < next_of(*oldest)->generation))
        *oldest = r;
}

/* The record with a step of the oldest generation; NULL: all are empty. */
static rg__record *find_oldest(const rg__agent *a)
{
    rg__record *oldest = NULL;
    for (int i = 0; i < a->params->slots; i++) {
        choose(&oldest, a->slot[i].fallen.record);
        choose(&oldest, a->slot[i].w.record);
    }
    return oldest;
}

/* A worker may have written anything. */
static bool is_sound(const rg__scalar *row, int n)
{
    for (int i = 0; i < n; i++)
        if (!rg__is_scalar_name(row[i].name) || row[i].count != (uint32_t)n ||
            row[i].step != row->step || row->step == 0)
            return false;
    return n > 0;
}

/* false: the writer has no room for it now. */
static bool take_step(rg__scalars *s, rg__record *r)
{
    rg__scalar row[RG__SCALARS_OF_STEP];
    const uint64_t read = atomic_load(&r->scalars_read);
    const uint64_t there = atomic_load(&r->scalars_written) - read;
    const uint64_t n = next_of(r)->count;
    const bool fits = n <= there && n <= RG__SCALARS_OF_STEP;
    for (uint64_t i = 0; fits && i < n; i++)
        row[i] = r->scalar[(read + i) % RG__SCALARS];
    if (!fits || !is_sound(row, (int)n)) {
        atomic_store(&r->scalars_read, read + there);
        return true;
    }
    if (!give(s, row, (int)n))
        return false;
    for (uint64_t i = 0; i < n; i++)
        keep_latest(s, &row[i]);
    atomic_store(&r->scalars_read, read + n);
    s->dropped += atomic_exchange(&r->scalars_dropped, 0);
    return true;
}

/* Steps of a generation come before the next decision: those behind its commit
 * are rolled back. After a takeover the first repeated step does that. */
static bool follow(rg__scalars *s, const rg__line *line)
{
    const rg__scalar cut = {.step = line->resume.step};
    if (line->resume.generation != 0 && !give(s, &cut, 1))
        return false;
    s->generation = line->generation;
    return true;
}

/* true: there may be more. */
static bool take_next(rg__agent *a)
{
    rg__scalars *s = a->scalars;
    const rg__line *line = rg__view_line(a);
    rg__record *r = find_oldest(a);
    if (!s->has_generation && line != NULL) {
        s->generation = a->life.agents > 1 ? line->generation : 0;
        s->has_generation = true;
    }
    if (line != NULL && line->generation > s->generation &&
        (r == NULL || next_of(r)->generation >= line->generation))
        return follow(s, line);
    return r != NULL && take_step(s, r);
}

static void take_all(rg__agent *a)
{
    const uint64_t dropped = a->scalars->dropped;
    for (int i = 0; i < TICK_STEPS && take_next(a); i++)
        continue;
    if (dropped == 0 && a->scalars->dropped > 0)
        rg__log(RG__WARN, "agent",
                "metrics of steps are lost, as they come faster than they can "
                "be written");
}

static void on_tick(void *arg)
{
    rg__agent *a = arg;
    take_all(a);
    rg__timer_set(a->scalars->tick, TICK_NS);
}

int rg__scalars_latest(const rg__agent *a, const rg__scalar **row_p)
{
    const rg__proposal *now = rg__view_decided(a);
    const rg__proposal_host *host =
        now == NULL ? NULL : rg__view_host_of(a, now->generation, 0);
    if (a->scalars == NULL || host == NULL || host->id != a->id)
        return 0;
    *row_p = a->scalars->latest;
    return a->scalars->n;
}

/* -------------------------------------------------------------------- life */

static void await(pid_t child)
{
    const int fd = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd end = {fd, POLLIN, 0};
    if (fd >= 0)
        poll(&end, 1, CLOSE_MS);
    close(fd);
}

void rg__scalars_close(rg__agent *a)
{
    rg__scalars *s = a->scalars;
    if (s == NULL)
        return;
    for (int i = 0; a->slot != NULL && i < 100; i++) {
        take_all(a);
        if (find_oldest(a) == NULL)
            break;
        poll(&(struct pollfd){s->sock, POLLOUT, 0}, 1, CLOSE_MS / 100);
    }
    if (s->sock >= 0)
        close(s->sock);
    if (s->writer > 0) {
        await(s->writer);
        rg__reap(s->writer);
    }
    rg__timer_destroy(s->tick);
    free(s);
    a->scalars = NULL;
}

static rg_status open_files(const rg__agent *a, rg__scalars_out *out)
{
    if (out->csv_path != NULL)
        out->csv = rg__csv_open(out->csv_path, out->is_first);
    if (out->csv_path != NULL && out->csv < 0)
        return RG_ERR_INVALID;
    out->board_path = a->params->user.metrics_board;
    if (out->board_path != NULL)
        out->board = rg__board_open(out->board_path);
    return out->board_path != NULL && out->board < 0 ? RG_ERR_INVALID : RG_OK;
}

static rg_status start_writer(rg__agent *a, char *csv_path)
{
    rg__scalars_out out = {.csv_path = csv_path,
                           .host = a->params->host,
                           .csv = -1,
                           .board = -1,
                           .is_first = a->life.agents == 1};
    rg_status st = open_files(a, &out);
    const int keep[2] = {out.csv, out.board};
    if (st == RG_OK)
        st = rg__writer_start("metrics", rg__scalars_write, &out, keep, 2,
                              &a->scalars->sock, &a->scalars->writer);
    if (out.csv >= 0)
        close(out.csv);
    if (out.board >= 0)
        close(out.board);
    return st;
}

static rg_status start(rg__agent *a)
{
    const rg__agent_params *p = a->params;
    if (p->user.metrics_csv == NULL && p->user.metrics_board == NULL)
        return RG_OK;
    char *path = p->user.metrics_csv == NULL
                     ? NULL
                     : rg__writer_path(p, p->user.metrics_csv);
    const rg_status st = p->user.metrics_csv != NULL && path == NULL
                             ? rg__fail(RG_ERR_MEMORY, "no memory for a name")
                             : start_writer(a, path);
    free(path);
    return st;
}

rg_status rg__scalars_open(rg__agent *a)
{
    const rg__agent_params *p = a->params;
    if (p->user.metrics == NULL && p->user.metrics_csv == NULL &&
        p->user.metrics_board == NULL)
        return RG_OK;
    rg__scalars *s = a->scalars = calloc(1, sizeof *s);
    if (s == NULL || (s->tick = rg__timer_create(a->loop, on_tick, a)) == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for metrics");
    s->sock = -1;
    rg__timer_set(s->tick, TICK_NS);
    const rg_status st = start(a);
    if (st == RG_OK || a->life.agents == 1)
        return st;
    rg__log(RG__WARN, "agent", "%s", rg_last_error());
    return RG_OK;
}
