/* The mpi transport: opening comms, comparing what members start, and going
 * from stage to stage (comm.h). */
#include "sdk/transport/mpi/comm.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/log.h"

/* ---------------------------------------------------------- open and close */

static void close_comm(comm *c)
{
    if (c == NULL)
        return;
    /* what is in flight can't be taken back: MPI goes on using it */
    const bool is_idle = c->request == MPI_REQUEST_NULL;
    if (is_idle && c->mpi != MPI_COMM_NULL && !c->is_world)
        MPI_Comm_free(&c->mpi);
    if (!is_idle)
        return;
    free(c->all);
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
    c->request = MPI_REQUEST_NULL;
    c->id = id;
    c->n = n;
    c->all = calloc((size_t)n, sizeof *c->all);
    if (c->all == NULL) {
        close_comm(c);
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    }
    *c_p = c;
    return RG_OK;
}

static rg_status mpi_open(const rg__boot *boot, rg__comm **comm_p)
{
    comm *c = NULL;
    const rg_status st = create_comm(0, boot->size, &c);
    if (st != RG_OK)
        return st;
    c->mpi = rg__mpi_world();
    c->is_world = true;
    c->rank = boot->rank;
    *comm_p = &c->base;
    return RG_OK;
}

static rg_status mpi_split(rg__comm *world, const int *ranks, int n,
                           uint32_t id, rg__comm **comm_p)
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

static rg__bell *mpi_bell(rg__comm *world)
{
    (void)world;
    return NULL;
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

static rg_status after_compare(comm *c)
{
    const rg_status st = rg__native_compare(
        c->id, &c->all[0].line, sizeof *c->all, c->n, &c->base.joined);
    if (st != RG_OK)
        return st;
    c->stage = c->next;
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
    const rg_status st = rg__mpi_status(
        "MPI_Iallgather",
        MPI_Iallgather(&c->mine, (int)sizeof c->mine, MPI_BYTE, c->all,
                       (int)sizeof c->mine, MPI_BYTE, c->mpi, &c->request));
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

static void note_mine(comm *c)
{
    const rg__coll *coll = &c->coll;
    c->mine.line = (said_line){.kind = (uint8_t)coll->kind,
                               .type = (uint8_t)coll->type,
                               .op = (uint8_t)coll->op,
                               .root = coll->root,
                               .count = coll->count,
                               .prescale = coll->prescale,
                               .postscale = coll->postscale,
                               .tag = coll->tag};
    if (coll->kind == RG__AGREE)
        memcpy(c->mine.value, coll->send, sizeof c->mine.value);
}

/* --------------------------------------------------------------- operations */

static rg_status mpi_start(rg__comm *base, const rg__coll *coll)
{
    comm *c = (comm *)base;
    if (c->is_broken)
        return rg__fail(RG_ERR_SYSTEM,
                        "MPI has failed on set %u before; it can't be used any "
                        "more",
                        c->id);
    if (coll->kind > RG__AGREE || coll->type > RG_F64 || coll->op == RG_AVG ||
        coll->op > RG_MAX || coll->prescale != 0 || coll->postscale != 0)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "this transport has not got this operation, type or op "
                        "yet");
    c->coll = *coll;
    c->at = c->part = 0;
    c->next = coll->kind == RG__AGREE ? agree : rg__mpi_first_stage(c);
    if (coll->kind != RG__AGREE && rg__mpi_check() != CHECK_EACH) {
        c->stage = c->next;
        return RG_OK;
    }
    note_mine(c);
    c->stage = bring;
    return RG_OK;
}

static rg_status mpi_test(rg__comm *base)
{
    comm *c = (comm *)base;
    int is_done = 1;
    rg_status st = RG_OK;
    if (c->request != MPI_REQUEST_NULL)
        st = rg__mpi_status("MPI_Test",
                            MPI_Test(&c->request, &is_done, MPI_STATUS_IGNORE));
    if (st == RG_OK && !is_done)
        return RG_IN_PROGRESS;
    if (st == RG_OK) {
        base->moves++;
        st = c->stage(c);
    }
    c->is_broken |= st == RG_ERR_SYSTEM;
    return st;
}

const rg__transport rg__transport_mpi = {.size = sizeof(rg__transport),
                                         .name = "mpi",
                                         .open = mpi_open,
                                         .split = mpi_split,
                                         .start = mpi_start,
                                         .test = mpi_test,
                                         .bell = mpi_bell,
                                         .is_for_all = mpi_is_for_all,
                                         .admits = mpi_admits,
                                         .nap_ns = 100000,
                                         .close = mpi_close};
