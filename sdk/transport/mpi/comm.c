/* The mpi transport: opening comms, comparing what members start, and going
 * from stage to stage (comm.h). */
#include "sdk/transport/mpi/check.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/transport/mpi/lost.h"

/* A nap takes half as much longer than it should: a small part of what was
 * waited for already. */
#define NAP_NS      (RG__MS / 10)
#define PATIENCE_NS (3 * RG__MS)
#define REST_PART   16
#define MOST_PART   4
#define SPARE_MOST  ((uint64_t)16 << 20)
/* Copies are slow to a place that lies, seen modulo a page, a few bytes behind
 * where they come from. So scratch lies as the program's memory does: rg_alloc
 * memory begins with a page, malloc's 16 bytes behind it. */
#define PAGE ((uint64_t)4096)

/* Guarded by the engine's lock. */
static int waiting;         /* comms that were looked at in vain */
static uint64_t started_ns; /* the newest operation beside those */

/* ---------------------------------------------------------- open and close */

/* The scratch of operations that have ended, for the next ones: fresh pages
 * cost as much as moving them. A block begins with its place in the list, the
 * newest first. Guarded by the engine's lock. */
typedef struct spare {
    struct spare *next;
    uint64_t bytes;
} spare;

static spare *spares;

/* The newest stay, up to so many bytes. */
static void keep_spares(uint64_t most)
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

/* The smallest that has room for so many bytes; NULL: none has. */
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

static void free_scratch(comm *c)
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
    keep_spares(SPARE_MOST);
}

/* MPI goes on using its memory: a nonblocking operation can't be taken back. */
static bool mpi_holds(rg__comm *base)
{
    const comm *c = (const comm *)base;
    return c->requests > 0 || c->lost_ns != 0;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void close_world(void)
{
    rg__check_close();
    keep_spares(0);
}

static void note_no_wait(comm *c)
{
    if (c->since_ns != 0)
        waiting--;
    c->since_ns = 0;
}

static void close_comm(comm *c)
{
    if (c == NULL)
        return;
    note_no_wait(c);
    rg__check_part(c);
    if (c->is_world)
        close_world();
    if (mpi_holds(&c->base))
        return;
    if (c->mpi != MPI_COMM_NULL && !c->is_world)
        MPI_Comm_free(&c->mpi);
    if (c->scratch != NULL)
        free_scratch(c);
    free(c->request);
    free(c->all);
    free(c->told);
    free(c->heard);
    free(c->found);
    free(c->failed);
    free(c);
}

static void mpi_close(rg__comm *base)
{
    comm *c = (comm *)base;
    if (rg__mpi_may_call()) {
        close_comm(c);
        return;
    }
    rg__log(RG__WARN, "mpi",
            "set %u was given back by a thread that may not call MPI; its "
            "communicator stays",
            c->id);
}

static rg_status create_comm(uint32_t id, int n, comm **c_p)
{
    comm *c = calloc(1, sizeof *c);
    if (c == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    c->base.transport = &rg__transport_mpi;
    c->mpi = MPI_COMM_NULL;
    c->id = id;
    c->n = n;
    c->room = 2 * n;
    c->request = calloc((size_t)c->room, sizeof *c->request);
    c->all = calloc((size_t)n, sizeof *c->all);
    c->told = calloc((size_t)n, sizeof *c->told);
    c->heard = calloc((size_t)n, sizeof *c->heard);
    c->found = calloc((size_t)n, sizeof *c->found);
    if (c->all == NULL || c->request == NULL || c->told == NULL ||
        c->heard == NULL || c->found == NULL) {
        close_comm(c);
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    }
    *c_p = c;
    return RG_OK;
}

static rg_status mpi_open(const rg__boot *boot, rg__comm **comm_p)
{
    comm *c = NULL;
    rg_status st = create_comm(0, boot->size, &c);
    if (st != RG_OK)
        return st;
    c->mpi = rg__mpi_world();
    c->is_world = true;
    c->rank = boot->rank;
    st = rg__check_open();
    if (st == RG_OK)
        st = rg__check_join(c, NULL);
    if (st != RG_OK) {
        close_comm(c);
        return st;
    }
    *comm_p = &c->base;
    return RG_OK;
}

/* Touches nothing that the engine's lock guards. */
static rg_status mpi_meet(rg__comm *world, const int *ranks, int n, uint32_t id,
                          rg__comm **comm_p)
{
    (void)world;
    comm *c = NULL;
    rg_status st = create_comm(id, n, &c);
    if (st != RG_OK)
        return st;
    st = rg__mpi_create(ranks, n, id, &c->mpi);
    if (st == RG_OK)
        st = rg__mpi_status("MPI_Comm_rank", MPI_Comm_rank(c->mpi, &c->rank));
    if (st != RG_OK) {
        close_comm(c);
        return st;
    }
    *comm_p = &c->base;
    return RG_OK;
}

static rg_status mpi_split(rg__comm *world, const int *ranks, int n,
                           uint32_t id, rg__comm **comm_p)
{
    (void)world;
    (void)n;
    (void)id;
    comm *c = (comm *)*comm_p;
    const rg_status st = rg__check_join(c, ranks);
    if (st != RG_OK)
        close_comm(c);
    return st;
}

static rg__bell *mpi_bell(rg__comm *world)
{
    (void)world;
    return NULL;
}

static int mpi_awaited(rg__comm *base, int *ranks, int room)
{
    return rg__check_left((const comm *)base, ranks, room);
}

static void mpi_farewell(rg__comm *world)
{
    (void)world;
    if (rg__mpi_may_call() && !rg__lost_any())
        rg__check_farewell();
}

/* Asked of those that are awaited only. */
static bool mpi_has_left(rg__comm *base, int rank)
{
    (void)base;
    (void)rank;
    return true;
}

static bool mpi_is_for_all(rg__comm *world)
{
    (void)world;
    return rg__mpi_is_multiple();
}

static bool mpi_admits(rg__comm *world)
{
    (void)world;
    return rg__mpi_may_call();
}

/* ------------------------------------------------------------ for the stages
 */

rg_status rg__mpi_posted(const char *call, int code)
{
    const rg_status st = rg__mpi_status(call, code);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

static bool make_room(comm *c)
{
    MPI_Request *more = realloc(c->request, sizeof *more * 2 * (size_t)c->room);
    if (more == NULL)
        return false;
    c->request = more;
    c->room *= 2;
    return true;
}

MPI_Request *rg__mpi_request(comm *c)
{
    if (c->requests == c->room && !make_room(c)) {
        rg__fail(RG_ERR_MEMORY, "no memory for %d requests", 2 * c->room);
        return NULL;
    }
    c->request[c->requests] = MPI_REQUEST_NULL;
    return &c->request[c->requests++];
}

static void take_block(comm *c, uint64_t bytes)
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

rg_status rg__mpi_scratch(comm *c, uint64_t bytes, const void *like)
{
    if (bytes <= sizeof c->small) {
        c->scratch = c->small;
        return RG_OK;
    }
    take_block(c, bytes + PAGE);
    if (c->block == NULL)
        return rg__fail(RG_ERR_MEMORY,
                        "no memory for the %llu bytes that an operation on "
                        "set %u needs by the way",
                        (unsigned long long)bytes, c->id);
    c->scratch = (char *)c->block + (uintptr_t)like % PAGE;
    return RG_OK;
}

/* ---------------------------------------------------------- what all bring */

static rg_status after_compare(comm *c)
{
    const rg_status st = rg__native_compare(
        c->id, &c->all[0].line, sizeof *c->all, c->n, &c->base.joined);
    if (st != RG_OK)
        return st;
    c->stage = rg__uneven_is(c) ? rg__uneven_compare : c->next;
    return c->stage(c);
}

static rg_status agree(comm *c)
{
    int64_t most[4];
    memcpy(most, c->all[0].value, sizeof most);
    for (int m = 1; m < c->n; m++)
        for (int i = 0; i < 4; i++)
            if (c->all[m].value[i] > most[i])
                most[i] = c->all[m].value[i];
    memcpy(c->coll.recv, most, sizeof most);
    return RG_OK;
}

static rg_status bring(comm *c)
{
    c->stage = after_compare;
    return rg__mpi_posted("MPI_Iallgather",
                          MPI_Iallgather(&c->mine, (int)sizeof c->mine,
                                         MPI_BYTE, c->all, (int)sizeof c->mine,
                                         MPI_BYTE, c->mpi, rg__mpi_request(c)));
}

static bool has_equal_counts(rg__kind kind)
{
    return kind == RG__ALLGATHERV || kind == RG__REDUCE_SCATTERV;
}

static uint64_t tag_of(const comm *c)
{
    const rg__coll *coll = &c->coll;
    uint64_t tag = coll->tag;
    if (has_equal_counts(coll->kind))
        for (int m = 0; m < c->n; m++)
            tag = (tag ^ coll->recv_counts[m]) * UINT64_C(0x100000001b3);
    return tag;
}

static double scale_of(double scale)
{
    return scale == 1 ? 0 : scale;
}

static int message_tag(const said_line *line)
{
    const uint64_t hash = rg__check_mix(0, line);
    return (int)((hash ^ hash >> 32) % RG__MPI_TAGS);
}

static void note_mine(comm *c)
{
    const rg__coll *coll = &c->coll;
    c->mine.line = (said_line){.kind = (uint8_t)coll->kind,
                               .type = (uint8_t)coll->type,
                               .op = (uint8_t)coll->op,
                               .root = coll->root,
                               .count = rg__uneven_is(c) ? 0 : coll->count,
                               .tag = tag_of(c),
                               .prescale = scale_of(coll->prescale),
                               .postscale = scale_of(coll->postscale)};
    c->tag = message_tag(&c->mine.line);
    if (coll->kind == RG__AGREE)
        memcpy(c->mine.value, coll->send, sizeof c->mine.value);
}

/* --------------------------------------------------------------- operations */

static rg_status join(comm *c)
{
    (void)c;
    return RG_OK; /* what was found is in joined */
}

static stage_fn first_stage(const comm *c)
{
    switch (c->coll.kind) {
    case RG__AGREE:
        return agree;
    case RG__ALLREDUCE:
    case RG__REDUCE:
    case RG__REDUCE_SCATTER:
    case RG__REDUCE_SCATTERV:
        return rg__mpi_reduces(c);
    case RG__JOIN:
        return join;
    default:
        return rg__mpi_moves(c);
    }
}

static rg_status refuse_join(const comm *c)
{
    return rg__fail(RG_ERR_UNSUPPORTED,
                    "set %u can't join over transport mpi unless operations "
                    "are compared before they start: set REGROUP_CHECK=each on "
                    "all ranks",
                    c->id);
}

static rg_status mpi_start(rg__comm *base, const rg__coll *coll)
{
    comm *c = (comm *)base;
    rg_status st = rg__check_verdict(c);
    if (st != RG_OK)
        return st;
    if (c->is_broken)
        return rg__fail(RG_ERR_SYSTEM,
                        "MPI has failed on set %u before; it can't be used any "
                        "more",
                        c->id);
    const bool is_each = rg__mpi_check() == CHECK_EACH;
    c->coll = *coll;
    if (coll->kind == RG__JOIN && !is_each)
        return refuse_join(c);
    c->at = c->part = 0;
    c->is_packed = false;
    if (waiting > 0)
        started_ns = rg__now_ns();
    note_mine(c);
    rg__check_started(c);
    c->next = first_stage(c);
    c->stage = is_each || coll->kind == RG__AGREE ? bring : c->next;
    return RG_OK;
}

/* Every look at a set in vain lets MPI look for all sets, and yield. So among
 * several that are in flight one that has waited for long is looked at after a
 * part of that time again, and gives way for a part to what has just started.
 */
static uint64_t part_of_wait(const comm *c, uint64_t part)
{
    return at_most((c->looked_ns - c->since_ns) / part, NAP_NS);
}

static bool rests(const comm *c)
{
    if (c->since_ns == 0)
        return false;
    const uint64_t now = rg__now_ns();
    if (waiting < 2 && now > started_ns + NAP_NS)
        return false;
    const uint64_t begun =
        started_ns > c->looked_ns ? started_ns : c->looked_ns;
    return now < begun + part_of_wait(c, REST_PART) &&
           now < c->looked_ns + part_of_wait(c, MOST_PART);
}

static void note_vain_look(comm *c)
{
    c->looked_ns = rg__now_ns();
    if (c->since_ns != 0)
        return;
    c->since_ns = c->looked_ns;
    waiting++;
}

/* Is what is needed of what was posted complete? One by one: a failure of
 * several at once is told to the handler of MPI_COMM_WORLD by MPICH. */
static rg_status await(comm *c)
{
    const int needed = c->needed == 0 ? c->requests : c->needed;
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
    note_no_wait(c);
    if (c->completed == c->requests)
        c->requests = c->completed = c->needed = 0;
    return RG_OK;
}

void rg__mpi_need_so_far(comm *c)
{
    c->needed = c->requests;
}

rg_status rg__mpi_then(comm *c, stage_fn stage)
{
    c->needed = 0;
    c->stage = stage;
    const rg_status st = await(c);
    return st == RG_OK ? stage(c) : st;
}

static rg_status go_on(comm *c)
{
    rg_status st = c->requests == 0 ? RG_OK : await(c);
    if (st == RG_IN_PROGRESS) {
        st = rg__check_waits(c);
        return st == RG_OK ? RG_IN_PROGRESS : st;
    }
    if (st != RG_OK)
        return st;
    c->base.moves++;
    return c->stage(c);
}

static void end(comm *c, rg_status st)
{
    if (st == RG_OK)
        rg__check_ended(c);
    note_no_wait(c);
    c->is_broken =
        st == RG_ERR_SYSTEM || st == RG_ERR_MEMORY || st == RG_ERR_PEER_LOST;
    if (c->requests == 0 && c->scratch != NULL)
        free_scratch(c);
}

static rg_status mpi_test(rg__comm *base)
{
    comm *c = (comm *)base;
    if (rests(c))
        return RG_IN_PROGRESS;
    rg_status st = c->lost_ns != 0     ? RG_ERR_PEER_LOST
                   : c->failed != NULL ? RG_ERR_SYSTEM
                                       : go_on(c);
    if (st == RG_ERR_PEER_LOST)
        st = rg__lost_name(c, rg_last_error());
    if (st == RG_ERR_SYSTEM)
        st = rg__check_failed(c, st, rg_last_error());
    if (st != RG_IN_PROGRESS)
        end(c, st);
    return st;
}

const rg__transport rg__transport_mpi = {.size = sizeof(rg__transport),
                                         .name = "mpi",
                                         .open = mpi_open,
                                         .split = mpi_split,
                                         .meet = mpi_meet,
                                         .start = mpi_start,
                                         .test = mpi_test,
                                         .bell = mpi_bell,
                                         .awaited = mpi_awaited,
                                         .farewell = mpi_farewell,
                                         .has_left = mpi_has_left,
                                         .is_for_all = mpi_is_for_all,
                                         .admits = mpi_admits,
                                         .patience_ns = PATIENCE_NS,
                                         .nap_ns = NAP_NS,
                                         .holds = mpi_holds,
                                         .close = mpi_close};
