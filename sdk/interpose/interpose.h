/* The interposer: a library for LD_PRELOAD that carries collectives of an
 * unchanged MPI program over native shared memory (README.md).
 *
 * Whether a call goes there follows from what MPI requires to be equal on all
 * ranks of its communicator: the call itself, the bytes of its type signature,
 * the size of the communicator and, for reductions, type and op. So all ranks
 * decide alike, and none is told.
 *
 * Threads: any that may call MPI. What belongs to a communicator is touched by
 * the calls on it only, of which MPI allows one at a time. */
#ifndef RG_INTERPOSE_H
#define RG_INTERPOSE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "sdk/transport/transport.h"

/* ------------------------------------------------------------ the choice */

/* Kinds by their bits, as all ranks of MPI_COMM_WORLD have them. */
typedef struct rg__chosen {
    int32_t on;     /* where it is faster */
    int32_t always; /* at any size */
} rg__chosen;

/* choice.c: names that REGROUP_INTERPOSE may have; NULL: nothing is chosen.
 * ERR_INVALID: an unknown one. */
rg_status rg__choice_read(const char *text, rg__chosen *chosen);
/* Is native wanted for so many bytes that one member gives to another? */
bool rg__choice_has(rg__kind kind, uint64_t bytes);
/* Among so many members? */
bool rg__choice_suits(rg__kind kind, int n);

/* begin.c: of this process; nothing before MPI_Init and after MPI_Finalize. */
extern rg__chosen rg__chosen_here;
extern int rg__interpose_keyval;
extern rg__wait_policy rg__interpose_wait;
extern MPI_Request rg__interpose_never; /* it completes at MPI_Finalize */
/* A call of that kind has been made, over native or not. */
void rg__interpose_count(rg__kind kind, bool is_native);

/* ------------------------------------------------------ native_set.c */

/* How others find a process, and know it from a later one of its number. */
typedef struct rg__life {
    int32_t pid;
    int32_t ok;
    uint64_t start; /* clock ticks since boot */
} rg__life;

/* What a communicator has; freed with it. */
typedef struct rg__native_set {
    rg__comm *comm; /* NULL: none */
    rg__life *life; /* by rank */
    int rank, n;
    uint32_t calls; /* until it is made */
    bool is_never;  /* all calls go to MPI */
    bool is_over;   /* a member was lost */
} rg__native_set;

/* The set of a communicator, for a call that all of its ranks make and that
 * native may carry; NULL: it goes to MPI. Counts the call, unless this rank has
 * made a mistake in root or buffers, which are the program's here. */
rg__native_set *rg__native_set_of(MPI_Comm comm, const rg__coll *coll);

/* The attribute's delete function. */
int rg__native_set_free(MPI_Comm comm, int keyval, void *value, void *extra);

/* peer_lives.c: of this process; has that one ended? */
rg__life rg__life_of_me(void);
bool rg__life_is_over(const rg__life *life);

/* --------------------------------------------------------------- calls */

/* carry.c: run the operation to its end; a code of MPI, for which the handler
 * of comm has been called. MPI goes on meanwhile. */
int rg__carry(rg__native_set *set, MPI_Comm comm, const rg__coll *coll);

/* mpi_types.c: what a reduction of that type and op is; false: it is MPI's. */
void rg__types_begin(void);
bool rg__types_find(MPI_Datatype type, MPI_Op op, rg_type *type_p, rg_op *op_p);

/* mpi_types.c: bytes of count elements; false: MPI is to say what is wrong. */
bool rg__types_bytes(MPI_Count count, MPI_Datatype type, uint64_t *bytes_p);
/* Do elements lie one behind the other, without gaps? */
bool rg__types_is_dense(MPI_Datatype type);

/* packed.c: elements of any type as bytes that lie one behind the other. */
typedef struct rg__packed {
    void *at;
    void *own;    /* malloc'd; NULL: `at` is the program's memory */
    bool is_into; /* it is unpacked at the end, */
    void *to;     /* to there, which may be MPI_BOTTOM: NULL */
    MPI_Datatype type;
    MPI_Count count;
    uint64_t bytes;
} rg__packed;

/* A code of MPI. */
int rg__packed_from(rg__packed *p, const void *from, MPI_Count count,
                    MPI_Datatype type, MPI_Comm comm);
int rg__packed_into(rg__packed *p, void *to, MPI_Count count, MPI_Datatype type,
                    MPI_Comm comm);
/* Unpack what has arrived, if code is MPI_SUCCESS, and free; the code. */
int rg__packed_end(rg__packed *p, int code, MPI_Comm comm);

#endif
