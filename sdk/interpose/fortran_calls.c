/* Fortran's calls where they do not call MPI_NAME of C, which is interposed
 * already, but PMPI.
 *
 * Open MPI: mpif.h and `use mpi` call mpi_NAME_, by whatever convention the
 * compiler has; `use mpi_f08` calls ompi_NAME_f inside of MPI. MPICH: the calls
 * of `use mpi_f08` that have no buffer. */
#include "sdk/interpose/interpose.h"

#ifdef OPEN_MPI
/* MPI_IN_PLACE and MPI_BOTTOM of Fortran are variables; the library that has
 * them is mapped in Fortran programs only. */
#define PLACE(name) extern __attribute__((weak)) int name
PLACE(mpi_fortran_in_place_);
PLACE(mpi_fortran_in_place);
PLACE(mpi_fortran_in_place__);
PLACE(MPI_FORTRAN_IN_PLACE);
PLACE(mpi_fortran_bottom_);
PLACE(mpi_fortran_bottom);
PLACE(mpi_fortran_bottom__);
PLACE(MPI_FORTRAN_BOTTOM);

/* A weak one that is nowhere has the address 0. */
static void *in(void *p)
{
    if (p == NULL)
        return p;
    if (p == &mpi_fortran_in_place_ || p == &mpi_fortran_in_place ||
        p == &mpi_fortran_in_place__ || p == &MPI_FORTRAN_IN_PLACE)
        return MPI_IN_PLACE;
    if (p == &mpi_fortran_bottom_ || p == &mpi_fortran_bottom ||
        p == &mpi_fortran_bottom__ || p == &MPI_FORTRAN_BOTTOM)
        return MPI_BOTTOM;
    return p;
}

#define COMM(f) PMPI_Comm_f2c(*(f))
#define TYPE(f) PMPI_Type_f2c(*(f))
#define OP(f)   PMPI_Op_f2c(*(f))

/* One function under all the names that compilers give it. */
#define FORTRAN(lower, UPPER, parameters, call)                                \
    void ompi_##lower##_f parameters;                                          \
    void ompi_##lower##_f parameters                                           \
    {                                                                          \
        const int code = call;                                                 \
        if (ierr != NULL)                                                      \
            *ierr = code;                                                      \
    }                                                                          \
    __attribute__((alias("ompi_" #lower "_f"))) void mpi_##lower parameters;   \
    __attribute__((                                                            \
        alias("ompi_" #lower "_f"))) void mpi_##lower##_ parameters;           \
    __attribute__((                                                            \
        alias("ompi_" #lower "_f"))) void mpi_##lower##__ parameters;          \
    __attribute__((alias("ompi_" #lower "_f"))) void MPI_##UPPER parameters;

FORTRAN(init, INIT, (MPI_Fint * ierr), MPI_Init(NULL, NULL))
FORTRAN(init_thread, INIT_THREAD,
        (MPI_Fint * required, MPI_Fint *provided, MPI_Fint *ierr),
        MPI_Init_thread(NULL, NULL, *required, provided))
FORTRAN(barrier, BARRIER, (MPI_Fint * comm, MPI_Fint *ierr),
        MPI_Barrier(COMM(comm)))
FORTRAN(bcast, BCAST,
        (void *data, MPI_Fint *count, MPI_Fint *type, MPI_Fint *root,
         MPI_Fint *comm, MPI_Fint *ierr),
        MPI_Bcast(in(data), *count, TYPE(type), *root, COMM(comm)))
FORTRAN(allreduce, ALLREDUCE,
        (void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op,
         MPI_Fint *comm, MPI_Fint *ierr),
        MPI_Allreduce(in(send), in(recv), *count, TYPE(type), OP(op),
                      COMM(comm)))
FORTRAN(reduce, REDUCE,
        (void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op,
         MPI_Fint *root, MPI_Fint *comm, MPI_Fint *ierr),
        MPI_Reduce(in(send), in(recv), *count, TYPE(type), OP(op), *root,
                   COMM(comm)))
FORTRAN(reduce_scatter_block, REDUCE_SCATTER_BLOCK,
        (void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op,
         MPI_Fint *comm, MPI_Fint *ierr),
        MPI_Reduce_scatter_block(in(send), in(recv), *count, TYPE(type), OP(op),
                                 COMM(comm)))
FORTRAN(allgather, ALLGATHER,
        (void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv,
         MPI_Fint *recv_count, MPI_Fint *recv_type, MPI_Fint *comm,
         MPI_Fint *ierr),
        MPI_Allgather(in(send), *send_count, TYPE(send_type), in(recv),
                      *recv_count, TYPE(recv_type), COMM(comm)))
FORTRAN(alltoall, ALLTOALL,
        (void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv,
         MPI_Fint *recv_count, MPI_Fint *recv_type, MPI_Fint *comm,
         MPI_Fint *ierr),
        MPI_Alltoall(in(send), *send_count, TYPE(send_type), in(recv),
                     *recv_count, TYPE(recv_type), COMM(comm)))
FORTRAN(gather, GATHER,
        (void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv,
         MPI_Fint *recv_count, MPI_Fint *recv_type, MPI_Fint *root,
         MPI_Fint *comm, MPI_Fint *ierr),
        MPI_Gather(in(send), *send_count, TYPE(send_type), in(recv),
                   *recv_count, TYPE(recv_type), *root, COMM(comm)))
FORTRAN(scatter, SCATTER,
        (void *send, MPI_Fint *send_count, MPI_Fint *send_type, void *recv,
         MPI_Fint *recv_count, MPI_Fint *recv_type, MPI_Fint *root,
         MPI_Fint *comm, MPI_Fint *ierr),
        MPI_Scatter(in(send), *send_count, TYPE(send_type), in(recv),
                    *recv_count, TYPE(recv_type), *root, COMM(comm)))
#elif !defined MPI_ABI /* Fortran has none */
#define FORTRAN(lower, parameters, call)                                       \
    void mpi_##lower##_f08_ parameters;                                        \
    void mpi_##lower##_f08_ parameters                                         \
    {                                                                          \
        const int code = call;                                                 \
        if (ierr != NULL)                                                      \
            *ierr = code;                                                      \
    }

FORTRAN(init, (int *ierr), MPI_Init(NULL, NULL))
FORTRAN(init_thread, (const int *required, int *provided, int *ierr),
        MPI_Init_thread(NULL, NULL, *required, provided))
FORTRAN(barrier, (const MPI_Fint *comm, int *ierr),
        MPI_Barrier(PMPI_Comm_f2c(*comm)))
#endif
