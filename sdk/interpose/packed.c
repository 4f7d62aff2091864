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

int rg__packed_from(rg__packed *p, const void *from, MPI_Count count,
                    MPI_Datatype type, MPI_Comm comm)
{
    *p = (rg__packed){.at = (void *)(uintptr_t)from};
    if (rg__types_is_dense(type))
        return MPI_SUCCESS;
    int at = 0;
    rg__types_bytes(count, type, &p->bytes);
    const int code = make_room(p, comm);
    return code == MPI_SUCCESS ? PMPI_Pack(from, (int)count, type, p->at,
                                           (int)p->bytes, &at, comm)
                               : code;
}

int rg__packed_into(rg__packed *p, void *to, MPI_Count count, MPI_Datatype type,
                    MPI_Comm comm)
{
    *p = (rg__packed){.at = to};
    if (rg__types_is_dense(type))
        return MPI_SUCCESS;
    *p = (rg__packed){.to = to, .type = type, .count = count};
    rg__types_bytes(count, type, &p->bytes);
    return make_room(p, comm);
}

int rg__packed_end(rg__packed *p, int code, MPI_Comm comm)
{
    int at = 0;
    if (code == MPI_SUCCESS && p->to != NULL && p->own != NULL)
        code = PMPI_Unpack(p->own, (int)p->bytes, &at, p->to, (int)p->count,
                           p->type, comm);
    free(p->own);
    p->own = NULL;
    return code;
}
