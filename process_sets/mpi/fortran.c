/* The functions of regroup_mpi.h for communicators as Fortran has them. */
#include "sdk/transport/mpi/mpi_parts.h"

/* The standard's ABI has names of its own for these. */
#ifdef MPI_ABI
#define comm_of MPI_Comm_fromint
#define fint_of MPI_Comm_toint
#else
#define comm_of(comm) MPI_Comm_f2c((MPI_Fint)(comm))
#define fint_of(comm) ((int)MPI_Comm_c2f(comm))
#endif

rg_status rg_init_mpi_fint(int comm, const rg_params *params, rg_ctx **ctx_p)
{
    return rg_init_mpi(comm_of(comm), params, ctx_p);
}

rg_status rg_set_create_mpi_fint(rg_ctx *ctx, int comm,
                                 const rg_set_params *params, rg_set **set_p)
{
    return rg_set_create_mpi(ctx, comm_of(comm), params, set_p);
}

rg_status rg_set_mpi_comm_fint(rg_set *set, int *comm_p)
{
    MPI_Comm comm = MPI_COMM_NULL;
    const rg_status st = rg_set_mpi_comm(set, comm_p != NULL ? &comm : NULL);
    if (st == RG_OK)
        *comm_p = fint_of(comm);
    return st;
}
