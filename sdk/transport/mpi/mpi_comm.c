/* The mpi transport: opening comms, comparing what members start, and going
 * from stage to stage (mpi_comm.h). */
#include "sdk/transport/mpi/check.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/hash.h"
#include "sdk/base/log.h"
#include "sdk/transport/mpi/lost.h"

/* ---------------------------------------------------------- open and close */

/* MPI goes on using its memory: a nonblocking operation can't be taken back. */
static bool mpi_holds(rg__comm *base)
{
    const rg__mpi *c = (const rg__mpi *)base;
    return c->requests > 0 || rg__lost_in(c);
}

/* Throw a message away; parts that have not arrived come while MPI goes on. */
static void take(MPI_Message *message, const MPI_Status *status)
{
    int bytes = 0, is_whole = 0;
    MPI_Get_count(status, MPI_PACKED, &bytes);
    void *data = malloc((size_t)bytes + 1);
    MPI_Request request;
    if (data == NULL ||
        MPI_Imrecv(data, bytes, MPI_PACKED, message, &request) != MPI_SUCCESS) {
        free(data);
        return;
    }
    MPI_Test(&request, &is_whole, MPI_STATUS_IGNORE);
    if (is_whole)
        free(data);
    else
        MPI_Request_free(&request);
}

/* Messages of operations that this member did not start, or gave up. They would
 * hold their senders' memory, MPICH refuses to free a communicator with such
 * messages, and other MPIs would deliver them on the next communicator. */
static void receive_abandoned_messages(MPI_Comm comm)
{
    int is_there = 0;
    MPI_Message message;
    MPI_Status status;
    while (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &is_there, &message,
                       &status) == MPI_SUCCESS &&
           is_there)
        take(&message, &status);
}

static void close_world(void)
{
    rg__check_close();
    rg__mpi_keep_spares(0);
}

static void close_comm(rg__mpi *c)
{
    if (c == NULL)
        return;
    rg__mpi_note_no_wait(c);
    rg__check_part(c);
    if (c->is_world)
        close_world();
    rg__mpi_lanes_close(c->lanes);
    if (c->mpi != MPI_COMM_NULL && !rg__lost_in(c))
        receive_abandoned_messages(c->mpi);
    if (mpi_holds(&c->base))
        return;
    if (c->mpi != MPI_COMM_NULL && !c->is_world)
        rg__mpi_free(&c->mpi, c->ranks, c->n);
    if (c->scratch != NULL)
        rg__mpi_free_scratch(c);
    rg__slip_clear(&c->slip);
    free(c->ranks);
    free(c->request);
    free(c->all);
    free(c->told);
    free(c->collected);
    free(c->found);
    free(c->failed);
    free(c);
}

static void mpi_close(rg__comm *base)
{
    rg__mpi *c = (rg__mpi *)base;
    if (rg__mpi_may_call()) {
        close_comm(c);
        return;
    }
    rg__log(RG__WARN, "mpi",
            "%s was given back by a thread that may not call MPI; its "
            "communicator stays",
            rg__set_words(c->id).text);
}

static rg_status create_comm(uint32_t id, int n, rg__mpi **c_p)
{
    rg__mpi *c = calloc(1, sizeof *c);
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
    c->collected = calloc((size_t)n, sizeof *c->collected);
    c->found = calloc((size_t)n, sizeof *c->found);
    if (c->all == NULL || c->request == NULL || c->told == NULL ||
        c->collected == NULL || c->found == NULL) {
        close_comm(c);
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    }
    *c_p = c;
    return RG_OK;
}

static void warn_of_level(const rg__boot *boot)
{
    if (boot->rank == 0 && boot->size > 1 && !rg__mpi_are_multiple())
        rg__log(RG__WARN, "mpi",
                "MPI came up below MPI_THREAD_MULTIPLE: operations of several "
                "steps go on only while the program is inside a call of "
                "Regroup, and other ranks wait for that; ask MPI_Init_thread "
                "for MPI_THREAD_MULTIPLE");
}

static rg_status mpi_open(const rg__boot *boot, rg__comm **comm_p)
{
    warn_of_level(boot);
    rg__mpi *c = NULL;
    rg_status st = create_comm(0, boot->size, &c);
    if (st != RG_OK)
        return st;
    c->mpi = rg__mpi_world();
    c->is_world = true;
    c->rank = boot->rank;
    st = rg__mpi_lanes_open(c->mpi, c->n, &c->lanes);
    if (st == RG_OK)
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

static rg_status note_ranks(rg__mpi *c, const int *ranks)
{
    c->ranks = malloc((size_t)c->n * sizeof *c->ranks);
    if (c->ranks == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    memcpy(c->ranks, ranks, (size_t)c->n * sizeof *c->ranks);
    return RG_OK;
}

/* Needs no lock: it uses nothing that the engine's lock guards. */
static rg_status mpi_rendezvous(rg__comm *world, const int *ranks, int n,
                                uint32_t id, rg__comm **comm_p)
{
    (void)world;
    rg__mpi *c = NULL;
    rg_status st = create_comm(id, n, &c);
    if (st != RG_OK)
        return st;
    st = note_ranks(c, ranks);
    if (st == RG_OK)
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
    (void)world, (void)n, (void)id;
    rg__mpi *c = (rg__mpi *)*comm_p;
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

static bool is_among(int m, const int *ranks, int n)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] == m)
            return true;
    return false;
}

/* MPI does not say which ranks it waits for; those that have left are known. */
static int mpi_awaited(rg__comm *base, int *ranks, int room)
{
    const rg__mpi *c = (const rg__mpi *)base;
    int n = rg__check_left(c, ranks, room);
    for (int m = 0; m < c->n && n < room; m++)
        if (m != c->rank && rg__lost_is(c, m) && !is_among(m, ranks, n))
            ranks[n++] = m;
    return n;
}

static void mpi_goodbye(rg__comm *world)
{
    (void)world;
    if (rg__mpi_may_call() && !rg__lost_any())
        rg__check_goodbye();
}

static rg__gone mpi_gone(rg__comm *base, int rank)
{
    const rg__mpi *c = (const rg__mpi *)base;
    if (rg__lost_is(c, rank))
        return RG__IS_LOST;
    return rg__check_has_left(c, rank) ? RG__HAS_LEFT : RG__IS_HERE;
}

static rg__messages *mpi_messages(rg__comm *world)
{
    return rg__mpi_lanes_messages(((const rg__mpi *)world)->lanes);
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

/* ---------------------------------------------------------- what all bring */

static rg_status after_compare(rg__mpi *c)
{
    const rg__descriptor *line = &c->all[0].descriptor;
    const rg_status st =
        rg__mpi_check() == CHECK_EACH
            ? rg__slip_compare(&c->slip, c->ops, c->id, line, sizeof *c->all,
                               c->n, &c->base.joined)
            : rg__descriptor_compare(c->id, line, sizeof *c->all, c->n,
                                     &c->base.joined);
    if (st != RG_OK)
        return st;
    c->stage = rg__uneven_is(c) ? rg__uneven_compare : c->next;
    return c->stage(c);
}

static rg_status agree(rg__mpi *c)
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

static rg_status bring(rg__mpi *c)
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

static uint64_t tag_of(const rg__mpi *c)
{
    const rg__coll *coll = &c->coll;
    uint64_t tag = coll->tag;
    if (has_equal_counts(coll->kind))
        for (int m = 0; m < c->n; m++)
            tag = rg__mix(tag, coll->recv_counts[m]);
    return tag;
}

/* Tags of an agreement may differ, and are compared there. */
static uint64_t hash_of(rg__descriptor line)
{
    if (line.kind == RG__AGREE)
        line.tag = 0;
    return rg__check_hash(&line);
}

static void note_mine(rg__mpi *c)
{
    const rg__coll *coll = &c->coll;
    c->mine.descriptor =
        (rg__descriptor){.kind = (uint8_t)coll->kind,
                         .type = (uint8_t)coll->type,
                         .op = (uint8_t)coll->op,
                         .root = coll->root,
                         .count = rg__uneven_is(c) ? 0 : coll->count,
                         .tag = tag_of(c),
                         .prescale = coll->prescale,
                         .postscale = coll->postscale};
    c->hash = hash_of(c->mine.descriptor);
    c->tag = (int)((c->hash ^ c->hash >> 32) % RG__MPI_TAGS);
    if (coll->kind == RG__AGREE)
        memcpy(c->mine.value, coll->send, sizeof c->mine.value);
}

/* --------------------------------------------------------------- operations */

static rg_status join(rg__mpi *c)
{
    (void)c;
    return RG_OK; /* the findings are in joined */
}

static rg__stage_fn first_stage(const rg__mpi *c)
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

static rg_status refuse_join(const rg__mpi *c)
{
    return rg__fail(RG_ERR_UNSUPPORTED,
                    "%s can't join over transport mpi unless operations "
                    "are compared before they start: set REGROUP_CHECK=each on "
                    "all ranks",
                    rg__set_words(c->id).text);
}

static rg_status mpi_start(rg__comm *base, const rg__coll *coll)
{
    rg__mpi *c = (rg__mpi *)base;
    rg_status st = rg__check_verdict(c);
    if (st != RG_OK)
        return st;
    if (c->is_broken)
        return rg__fail(RG_ERR_SYSTEM,
                        "MPI has failed on %s before; it can't be used any "
                        "more",
                        rg__set_words(c->id).text);
    const bool is_each = rg__mpi_check() == CHECK_EACH;
    c->coll = *coll;
    c->element = rg_type_size(coll->type);
    if (coll->kind == RG__JOIN && !is_each)
        return refuse_join(c);
    c->ops++;
    c->at = c->part = 0;
    c->needed = RG__ALL;
    c->is_packed = false;
    rg__mpi_note_start();
    note_mine(c);
    c->is_untold = !rg__uneven_is(c);
    if (!c->is_untold)
        rg__check_started(c); /* the first stage may find a difference */
    c->next = first_stage(c);
    c->stage = is_each || coll->kind == RG__AGREE ? bring : c->next;
    return RG_OK;
}

static rg_status go_on(rg__mpi *c)
{
    rg_status st = c->requests == 0 ? RG_OK : rg__mpi_await(c);
    if (st == RG_IN_PROGRESS) {
        st = rg__check_waits(c);
        return st == RG_OK ? RG_IN_PROGRESS : st;
    }
    if (st != RG_OK)
        return st;
    c->base.moves++;
    st = c->stage(c);
    if (c->is_untold)
        rg__check_started(c);
    c->is_untold = false;
    return st;
}

static void end(rg__mpi *c, rg_status st)
{
    if (st == RG_OK)
        rg__check_ended(c);
    rg__mpi_note_no_wait(c);
    c->is_broken =
        st == RG_ERR_SYSTEM || st == RG_ERR_MEMORY || st == RG_ERR_PEER_LOST;
    if (c->requests == 0 && c->scratch != NULL)
        rg__mpi_free_scratch(c);
}

static rg_status mpi_test(rg__comm *base)
{
    rg__mpi *c = (rg__mpi *)base;
    if (rg__mpi_backs_off(c))
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
                                         .rendezvous = mpi_rendezvous,
                                         .start = mpi_start,
                                         .test = mpi_test,
                                         .bell = mpi_bell,
                                         .awaited = mpi_awaited,
                                         .goodbye = mpi_goodbye,
                                         .gone = mpi_gone,
                                         .messages = mpi_messages,
                                         .is_for_all = mpi_is_for_all,
                                         .admits = mpi_admits,
                                         .wait = {.pauses = 800,
                                                  .yields = 80,
                                                  .poll_ns = 3 * RG__MS,
                                                  .sleep_ns = RG__MPI_SLEEP_NS},
                                         .holds = mpi_holds,
                                         .close = mpi_close};
