/* What the stages of an operation post and wait for, and where they keep their
 * data (mpi_comm.h). */
#include <stdlib.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/least.h"
#include "sdk/transport/mpi/mpi_comm.h"

/* Fractions of the time that an operation has waited. */
#define BACKOFF_PART 16
#define BACKOFF_MOST 4
#define UNTIMED      16
#define SPARE_MOST   ((uint64_t)16 << 20)
/* Copies are slow to a place that is, modulo a page, a few bytes after the
 * source. So scratch is aligned as the program's memory is: rg_alloc memory
 * begins at a page, malloc's 16 bytes after it. */
#define PAGE ((uint64_t)4096)

/* Guarded by the engine's lock. */
static int waiting;         /* comms that were polled without success */
static uint64_t started_ns; /* the newest operation besides those */

/* ----------------------------------------------------------------- scratch */

/* The scratch of operations that have ended, for the next ones: fresh pages
 * cost as much as moving them. A block begins with its place in the list, the
 * newest first. Guarded by the engine's lock. */
typedef struct spare {
    struct spare *next;
    uint64_t bytes;
} spare;

static spare *spares;

/* Keep the newest blocks, up to so many bytes. */
void rg__mpi_keep_spares(uint64_t most)
{
    spare **at = &spares;
    while (*at != NULL && (*at)->bytes <= most) {
        most -= (*at)->bytes;
        at = &(*at)->next;
    }
    for (spare *old = *at, *next; old != NULL; old = next) {
        next = old->next;
        free(old);
    }
    *at = NULL;
}

/* The smallest block with room for so many bytes; NULL: none has. */
static spare *take_spare(uint64_t bytes)
{
    spare **best = NULL;
    for (spare **at = &spares; *at != NULL; at = &(*at)->next)
        if ((*at)->bytes >= bytes &&
            (best == NULL || (*at)->bytes < (*best)->bytes))
            best = at;
    if (best == NULL)
        return NULL;
    spare *taken = *best;
    *best = taken->next;
    return taken;
}

void rg__mpi_free_scratch(rg__mpi *c)
{
    spare *block = c->block;
    c->scratch = c->block = NULL;
    if (block == NULL)
        return;
    if (c->block_bytes > SPARE_MOST) {
        free(block);
        return;
    }
    *block = (spare){spares, c->block_bytes};
    spares = block;
    rg__mpi_keep_spares(SPARE_MOST);
}

rg_status rg__mpi_posted(const char *call, int code)
{
    const rg_status st = rg__mpi_status(call, code);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

static bool make_room(rg__mpi *c)
{
    MPI_Request *more = realloc(c->request, sizeof *more * 2 * (size_t)c->room);
    if (more == NULL)
        return false;
    c->request = more;
    c->room *= 2;
    return true;
}

MPI_Request *rg__mpi_request(rg__mpi *c)
{
    if (c->requests == c->room && !make_room(c)) {
        rg__fail(RG_ERR_MEMORY, "no memory for %d requests", 2 * c->room);
        return NULL;
    }
    c->request[c->requests] = MPI_REQUEST_NULL;
    return &c->request[c->requests++];
}

static void take_block(rg__mpi *c, uint64_t bytes)
{
    spare *taken = take_spare(bytes);
    if (taken != NULL) {
        c->block_bytes = taken->bytes;
        c->block = taken;
    } else {
        c->block_bytes = (bytes + PAGE - 1) / PAGE * PAGE;
        c->block = aligned_alloc(PAGE, c->block_bytes);
    }
}

uint64_t rg__mpi_stride(uint64_t bytes)
{
    return bytes < PAGE ? bytes : (bytes + PAGE - 1) / PAGE * PAGE;
}

rg_status rg__mpi_scratch(rg__mpi *c, uint64_t bytes, const void *like)
{
    if (bytes <= sizeof c->small) {
        c->scratch = c->small;
        return RG_OK;
    }
    take_block(c, bytes + PAGE);
    if (c->block == NULL)
        return rg__fail(RG_ERR_MEMORY,
                        "no memory for the %llu bytes that an operation on %s "
                        "needs meanwhile",
                        (unsigned long long)bytes, rg__set_words(c->id).text);
    c->scratch = (char *)c->block + (uintptr_t)like % PAGE;
    return RG_OK;
}

/* ----------------------------------------------------------------- waiting */

void rg__mpi_note_no_wait(rg__mpi *c)
{
    if (c->since_ns != 0)
        waiting--;
    c->since_ns = 0;
    c->looks = 0;
}

/* Polling a set that is not ready makes MPI look at all sets, and yield. So
 * when several are in flight, a set that has waited for long is polled again
 * only after a part of that time, in favour of those that have just started. */
static uint64_t part_of_wait(const rg__mpi *c, uint64_t part)
{
    return rg__least((c->looked_ns - c->since_ns) / part, RG__MPI_SLEEP_NS);
}

bool rg__mpi_backs_off(const rg__mpi *c)
{
    if (c->since_ns == 0)
        return false;
    const uint64_t now = rg__now_ns();
    if (waiting < 2 && now > started_ns + RG__MPI_SLEEP_NS)
        return false;
    const uint64_t begun =
        started_ns > c->looked_ns ? started_ns : c->looked_ns;
    return now < begun + part_of_wait(c, BACKOFF_PART) &&
           now < c->looked_ns + part_of_wait(c, BACKOFF_MOST);
}

/* A short wait is not worth a clock. */
static void note_vain_look(rg__mpi *c)
{
    if (++c->looks < UNTIMED)
        return;
    c->looked_ns = rg__now_ns();
    if (c->since_ns != 0)
        return;
    c->since_ns = c->looked_ns;
    waiting++;
}

/* Are the requests that are needed complete? One by one: MPICH reports a
 * failure of several at once to the handler of MPI_COMM_WORLD. */
rg_status rg__mpi_await(rg__mpi *c)
{
    const bool needs_all = c->needed > c->requests;
    const int needed = needs_all ? c->requests : c->needed;
    while (c->completed < needed) {
        int is_done = 0;
        const rg_status st =
            rg__mpi_status("MPI_Test", MPI_Test(&c->request[c->completed],
                                                &is_done, MPI_STATUS_IGNORE));
        if (st != RG_OK)
            return st;
        if (!is_done) {
            note_vain_look(c);
            return RG_IN_PROGRESS;
        }
        c->completed++;
    }
    rg__mpi_note_no_wait(c);
    if (needs_all)
        c->requests = c->completed = 0;
    return RG_OK;
}

void rg__mpi_need_so_far(rg__mpi *c)
{
    c->needed = c->requests;
}

rg_status rg__mpi_then(rg__mpi *c, rg__stage_fn stage, int needed)
{
    c->needed = needed;
    c->stage = stage;
    const rg_status st = rg__mpi_await(c);
    return st == RG_OK ? stage(c) : st;
}

void rg__mpi_note_start(void)
{
    if (waiting > 0)
        started_ns = rg__now_ns();
}
