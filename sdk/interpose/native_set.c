/* The native set of a communicator: made at the CALLS-th call that native may
 * carry, so that a short-lived one costs nothing, and kept in an attribute,
 * which MPI deletes on whatever way the communicator ends.
 *
 * It is made inside a collective call of the communicator, by collectives of
 * its own, which all of its ranks make at this point. Its memory is a segment
 * of the lowest rank's, which the others open by that process's descriptor: one
 * that succeeds runs on the same host. If any of them can't, all calls on this
 * communicator go to MPI. */
#include "sdk/interpose/interpose.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sdk/base/log.h"
#include "sdk/base/page.h"
#include "sdk/base/shm.h"
#include "sdk/transport/native/native.h"

#define CALLS 8

/* What the lowest rank tells of its segment. */
typedef struct segment {
    int32_t pid, fd; /* fd -1: it has none */
    uint64_t space;  /* of the number */
    uint64_t nonce;  /* in the segment's name */
} segment;

#define NAME_FORMAT "regroup-interpose-%016" PRIx64

static uint64_t own_space(void)
{
    struct stat info;
    return stat("/proc/self/ns/pid", &info) == 0 ? (uint64_t)info.st_ino : 0;
}

static segment make_segment(int n)
{
    segment s = {.pid = getpid(), .fd = -1, .space = own_space()};
    char name[64];
    if (getrandom(&s.nonce, sizeof s.nonce, 0) != sizeof s.nonce)
        return s;
    snprintf(name, sizeof name, NAME_FORMAT, s.nonce);
    if (rg__shm_create(name, rg__shm_control_bytes(n, 1), false, &s.fd) !=
        RG_OK)
        s.fd = -1;
    return s;
}

/* Another host may have a process of that number with such a descriptor, but
 * none of that name. */
static int open_segment(const segment *s)
{
    char path[64], own[64], name[64], is[128];
    if (s->fd < 0 || s->space != own_space())
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", s->pid, s->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    snprintf(name, sizeof name, "/memfd:" NAME_FORMAT, s->nonce);
    const ssize_t n = readlink(own, is, sizeof is - 1);
    is[n > 0 ? n : 0] = '\0';
    if (strncmp(is, name, strlen(name)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void close_comm(rg__native_set *set)
{
    if (set->comm != NULL)
        set->comm->transport->close(set->comm);
    set->comm = NULL;
    free(set->life);
    set->life = NULL;
}

/* Have all ranks opened it? Their lives are then known, too. */
static bool agree(rg__native_set *set, MPI_Comm comm, bool ok)
{
    rg__life mine = rg__life_of_me();
    mine.ok = mine.ok && ok;
    if (PMPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, set->life,
                       (int)sizeof mine, MPI_BYTE, comm) != MPI_SUCCESS)
        return false;
    for (int r = 0; r < set->n; r++)
        if (!set->life[r].ok)
            return false;
    return true;
}

/* Ranks of another world, which was spawned or has been connected, may be
 * without the library. All ranks see some of them here, or none does. */
static bool is_within_my_world(MPI_Comm comm, int n)
{
    int ranks[RG__HOST_SLOTS_MAX], in_world[RG__HOST_SLOTS_MAX];
    MPI_Group here, world;
    bool is_within = true;
    for (int r = 0; r < n; r++)
        ranks[r] = r;
    PMPI_Comm_group(comm, &here);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(here, n, ranks, world, in_world);
    for (int r = 0; r < n; r++)
        is_within &= in_world[r] != MPI_UNDEFINED;
    PMPI_Group_free(&here);
    PMPI_Group_free(&world);
    return is_within;
}

/* A rank without memory for the answer can't take part. */
static void make(rg__native_set *set, MPI_Comm comm)
{
    segment s = {.fd = -1};
    if (!is_within_my_world(comm, set->n)) {
        set->is_never = true;
        return;
    }
    set->life = calloc((size_t)set->n, sizeof *set->life);
    if (set->life == NULL) {
        rg__log(RG__ERROR, "interpose", "no memory for %d ranks", set->n);
        PMPI_Abort(comm, 1);
    }
    if (set->rank == 0)
        s = make_segment(set->n);
    if (PMPI_Bcast(&s, (int)sizeof s, MPI_BYTE, 0, comm) != MPI_SUCCESS)
        s.fd = -1;
    const int fd = set->rank == 0 ? s.fd : open_segment(&s);
    const bool is_open = fd >= 0 && rg__native_open_alone(set->rank, set->n, fd,
                                                          &set->comm) == RG_OK;
    if (!agree(set, comm, is_open)) {
        close_comm(set);
        set->is_never = true;
        rg__log(RG__DEBUG, "interpose",
                "a communicator of %d ranks stays with MPI: they do not share "
                "memory",
                set->n);
    }
    if (fd >= 0)
        close(fd);
}

int rg__native_set_free(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    close_comm(value);
    free(value);
    return MPI_SUCCESS;
}

/* At a communicator's first call. */
static rg__native_set *note(MPI_Comm comm)
{
    int is_inter = 0;
    rg__native_set *set = calloc(1, sizeof *set);
    if (set == NULL || PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS ||
        PMPI_Comm_size(comm, &set->n) != MPI_SUCCESS ||
        PMPI_Comm_rank(comm, &set->rank) != MPI_SUCCESS ||
        PMPI_Comm_set_attr(comm, rg__interpose_keyval, set) != MPI_SUCCESS) {
        free(set);
        return NULL;
    }
    set->is_never = is_inter || set->n < 2 || set->n > RG__HOST_SLOTS_MAX;
    return set;
}

/* A mistake is MPI's to tell, on the rank that makes it: others may not even be
 * in such a call, so it does not count. */
static bool is_right(const rg__native_set *set, const rg__coll *o)
{
    const bool is_root = set->rank == o->root;
    if (o->root < 0 || o->root >= set->n)
        return false;
    switch (o->kind) {
    case RG__BARRIER:
        return true;
    case RG__REDUCE:
    case RG__GATHER:
        return (is_root ? o->recv : o->send) != MPI_IN_PLACE;
    case RG__SCATTER:
        return (is_root ? o->send : o->recv) != MPI_IN_PLACE;
    default:
        return o->recv != MPI_IN_PLACE;
    }
}

rg__native_set *rg__native_set_of(MPI_Comm comm, const rg__coll *coll)
{
    rg__native_set *set = NULL;
    int is_there = 0;
    if (comm == MPI_COMM_NULL ||
        PMPI_Comm_get_attr(comm, rg__interpose_keyval, &set, &is_there) !=
            MPI_SUCCESS)
        return NULL;
    if (!is_there)
        set = note(comm);
    if (set == NULL || set->is_never || !is_right(set, coll))
        return NULL;
    if (set->comm == NULL && ++set->calls == CALLS)
        make(set, comm);
    return set->comm != NULL ? set : NULL;
}
