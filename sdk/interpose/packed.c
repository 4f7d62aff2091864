/* Elements with gaps travel packed: a rank can't leave them to MPI, since
 * another rank may have described the same signature by a predefined type. */
#include "sdk/interpose/interpose.h"

#include <stdlib.h>

static int make_room(rg__packed *p, MPI_Comm comm)
{
    p->own = malloc((size_t)p->bytes + 1);
    p->at = p->own;
    if (p->own != NULL)
        return MPI_SUCCESS;
    PMPI_Comm_call_errhandler(comm, MPI_ERR_NO_MEM);
    return MPI_ERR_NO_MEM;
}

/* MPICH packs nothing at MPI_BOTTOM: these are the same elements, as they lie
 * from another place. */
static char other_place;

static int see_from_there(MPI_Count count, MPI_Datatype type,
                          MPI_Datatype *type_p)
{
    const int n = (int)count;
    const MPI_Aint to_bottom = -(MPI_Aint)(intptr_t)&other_place;
    const int code = PMPI_Type_create_hindexed(1, &n, &to_bottom, type, type_p);
    return code == MPI_SUCCESS ? PMPI_Type_commit(type_p) : code;
}

static int pack(const rg__packed *p, const void *from, MPI_Count count,
                MPI_Datatype type, MPI_Comm comm)
{
    int at = 0, n = (int)count;
    MPI_Datatype seen = type;
    if (from == MPI_BOTTOM) {
        const int code = see_from_there(count, type, &seen);
        if (code != MPI_SUCCESS)
            return code;
        from = &other_place;
        n = 1;
    }
    const int code = PMPI_Pack(from, n, seen, p->at, (int)p->bytes, &at, comm);
    if (seen != type)
        PMPI_Type_free(&seen);
    return code;
}

static int unpack(const rg__packed *p, MPI_Comm comm)
{
    int at = 0, n = (int)p->count;
    void *to = p->to;
    MPI_Datatype seen = p->type;
    if (to == MPI_BOTTOM) {
        const int code = see_from_there(p->count, p->type, &seen);
        if (code != MPI_SUCCESS)
            return code;
        to = &other_place;
        n = 1;
    }
    const int code = PMPI_Unpack(p->own, (int)p->bytes, &at, to, n, seen, comm);
    if (seen != p->type)
        PMPI_Type_free(&seen);
    return code;
}

int rg__packed_from(rg__packed *p, const void *from, MPI_Count count,
                    MPI_Datatype type, MPI_Comm comm)
{
    *p = (rg__packed){.at = (void *)(uintptr_t)from};
    if (rg__types_is_dense(type))
        return MPI_SUCCESS;
    rg__types_bytes(count, type, &p->bytes);
    const int code = make_room(p, comm);
    return code == MPI_SUCCESS ? pack(p, from, count, type, comm) : code;
}

int rg__packed_into(rg__packed *p, void *to, MPI_Count count, MPI_Datatype type,
                    MPI_Comm comm)
{
    *p = (rg__packed){.at = to};
    if (rg__types_is_dense(type))
        return MPI_SUCCESS;
    *p = (rg__packed){.is_into = true, .to = to, .type = type, .count = count};
    rg__types_bytes(count, type, &p->bytes);
    return make_room(p, comm);
}

int rg__packed_end(rg__packed *p, int code, MPI_Comm comm)
{
    if (code == MPI_SUCCESS && p->is_into && p->own != NULL)
        code = unpack(p, comm);
    free(p->own);
    p->own = NULL;
    return code;
}
