/* An MPI program that knows nothing about Regroup: each collective that may be
 * interposed, beside the same call of PMPI, on every type, op and size, in
 * place and not, on several communicators. Ends with 0 if all bytes are equal.
 * Sums are of small whole numbers, so their grouping changes no bit. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST   (70 * 1000) /* elements of 8 bytes: several staging slots */
#define GUARD  64
#define PLACES ((size_t)MOST * 8 + GUARD)
#define GIVEN  (8 * PLACES)

static char *give, *by_mpi, *interposed;
static int rank, size, failures;
static MPI_Comm comm;

typedef struct known {
    const char *name;
    MPI_Datatype type;
} known;

/* Bytes that are valid elements of any type, and small as numbers. */
static void fill(char *at, MPI_Datatype type, int n, int seed)
{
    MPI_Aint lower, bytes;
    MPI_Type_get_extent(type, &lower, &bytes);
    memset(at, 0, (size_t)n * (size_t)bytes);
    for (int i = 0; i < n; i++) {
        const int v = (i * 7 + seed * 3 + rank * 5) % 3;
        char *to = at + (size_t)i * (size_t)bytes;
        if (type == MPI_DOUBLE)
            *(double *)(void *)to = v;
        else if (type == MPI_FLOAT)
            *(float *)(void *)to = (float)v;
        else if (type == MPI_C_BOOL)
            *to = v > 0;
        else
            *to = (char)v; /* the lowest byte */
    }
}

static void begin(MPI_Datatype type, int n, int seed)
{
    fill(give, type, n, seed);
    memset(by_mpi, 85, PLACES);
    memset(interposed, 85, PLACES);
}

static void compare(const char *what, const char *type, const char *op, int n,
                    int in_place)
{
    if (memcmp(by_mpi, interposed, PLACES) == 0)
        return;
    failures++;
    fprintf(stderr, "rank %d of %d: %s %s %s, %d elements%s: differs\n", rank,
            size, what, type, op, n, in_place ? ", in place" : "");
}

static void reductions(const known *t, const known *o, MPI_Op op, int n)
{
    const int each = n / size;
    const int root =
        n < 9000 ? n % size : 0; /* else MPICH 4.0 crashes in place */
    MPI_Aint lower, bytes;
    MPI_Type_get_extent(t->type, &lower, &bytes);
    const size_t all = (size_t)n * (size_t)bytes;
    for (int in_place = 0; in_place < 2; in_place++) {
        begin(t->type, n, 1);
        if (in_place) {
            memcpy(by_mpi, give, all);
            memcpy(interposed, give, all);
        }
        const void *send = in_place ? MPI_IN_PLACE : give;
        PMPI_Allreduce(send, by_mpi, n, t->type, op, comm);
        MPI_Allreduce(send, interposed, n, t->type, op, comm);
        compare("allreduce", t->name, o->name, n, in_place);

        begin(t->type, n, 2);
        memcpy(by_mpi, give, all);
        memcpy(interposed, give, all);
        send = in_place && rank == root ? MPI_IN_PLACE : give;
        PMPI_Reduce(send, by_mpi, n, t->type, op, root, comm);
        MPI_Reduce(send, interposed, n, t->type, op, root, comm);
        if (rank == root)
            compare("reduce", t->name, o->name, n, in_place);

        begin(t->type, n, 3);
        if (in_place) {
            memcpy(by_mpi, give, all);
            memcpy(interposed, give, all);
        }
        send = in_place ? MPI_IN_PLACE : give;
        PMPI_Reduce_scatter_block(send, by_mpi, each, t->type, op, comm);
        MPI_Reduce_scatter_block(send, interposed, each, t->type, op, comm);
        if (in_place) /* beyond the result anything may lie */
            memcpy(interposed + (size_t)each * (size_t)bytes,
                   by_mpi + (size_t)each * (size_t)bytes,
                   PLACES - (size_t)each * (size_t)bytes);
        compare("reduce_scatter_block", t->name, o->name, each, in_place);
    }
}

static void all_reductions(void)
{
    const known types[] = {{"double", MPI_DOUBLE},
                           {"float", MPI_FLOAT},
                           {"int", MPI_INT},
                           {"int64", MPI_INT64_T},
                           {"int8", MPI_INT8_T},
                           {"uint8", MPI_UINT8_T},
                           {"uint32", MPI_UINT32_T},
                           {"unsigned long", MPI_UNSIGNED_LONG},
                           {"short", MPI_SHORT} /* is MPI's */,
                           {"bool", MPI_C_BOOL},
                           {"byte", MPI_BYTE}};
    const known ops[] = {{"sum", 0},  {"max", 0}, {"min", 0},  {"prod", 0},
                         {"land", 0}, {"lor", 0}, {"lxor", 0}, {"band", 0},
                         {"bor", 0},  {"bxor", 0}};
    const MPI_Op handles[] = {MPI_SUM, MPI_MAX,  MPI_MIN,  MPI_PROD, MPI_LAND,
                              MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR,  MPI_BXOR};
    const int counts[] = {0,    1, 7 /* odd */, 130, 3000 /* a slot */,
                          40007 /* staged */};
    for (int t = 0; t < 11; t++)
        for (int o = 0; o < 10; o++)
            for (int c = 0; c < 6; c++) {
                const int is_float = t < 2, is_bool = t == 9, is_byte = t == 10;
                const int logical = o >= 4 && o < 7, bits = o >= 7;
                if ((is_float && (logical || bits)) || (is_bool && !logical) ||
                    (is_byte && !bits) || (c != 1 && c != 3 && o > 1))
                    continue;
                reductions(&types[t], &ops[o], handles[o], counts[c]);
            }
}

/* Between a value and the next one there may be bytes that stay. */
static void pair_reductions(void)
{
    const known types[] = {{"double and int", MPI_DOUBLE_INT},
                           {"float and int", MPI_FLOAT_INT},
                           {"int and int", MPI_2INT},
                           {"long and int", MPI_LONG_INT},
                           {"short and int", MPI_SHORT_INT} /* is MPI's */};
    const known ops[] = {{"minloc", 0}, {"maxloc", 0}};
    const MPI_Op handles[] = {MPI_MINLOC, MPI_MAXLOC};
    const int counts[] = {1, 130, 3000, 30001};
    for (int t = 0; t < 5; t++)
        for (int c = 0; c < 4; c++)
            reductions(&types[t], &ops[(t + c) % 2], handles[(t + c) % 2],
                       counts[c]);
}

/* n elements to or from each rank, of one type here and of another there. */
static void moves(const char *name, MPI_Datatype here, MPI_Datatype there,
                  int n)
{
    const int root = n % size;
    MPI_Datatype mine = rank % 2 ? here : there;
    MPI_Datatype root_type = rank == root ? here : there;
    for (int in_place = 0; in_place < 2; in_place++) {
        begin(MPI_INT, MOST, 4);
        if (rank == root) {
            memcpy(by_mpi, give, PLACES - GUARD);
            memcpy(interposed, give, PLACES - GUARD);
        }
        PMPI_Bcast(by_mpi, n, root_type, root, comm);
        MPI_Bcast(interposed, n, root_type, root, comm);
        compare("bcast", name, "", n, in_place);

        begin(MPI_INT, MOST, 5);
        memcpy(by_mpi, give, PLACES - GUARD);
        memcpy(interposed, give, PLACES - GUARD);
        const void *send = in_place ? MPI_IN_PLACE : give;
        PMPI_Allgather(send, n, mine, by_mpi, n, here, comm);
        MPI_Allgather(send, n, mine, interposed, n, here, comm);
        compare("allgather", name, "", n, in_place);

        if (here != MPI_DOUBLE) /* in place, that fails in MPICH 4.0 */
            send = give;
        PMPI_Alltoall(send, n, mine, by_mpi, n, mine, comm);
        MPI_Alltoall(send, n, mine, interposed, n, mine, comm);
        compare("alltoall", name, "", n, in_place);

        const int roots = in_place && rank == root;
        const int writes = roots ? PROT_READ : PROT_READ | PROT_WRITE;
        PMPI_Gather(roots ? MPI_IN_PLACE : give, n, mine, by_mpi, n, there,
                    root, comm);
        MPI_Gather(roots ? MPI_IN_PLACE : give, n, mine, interposed, n, there,
                   root, comm);
        compare("gather", name, "", n, in_place);

        PMPI_Scatter(give, n, there, roots ? MPI_IN_PLACE : by_mpi, n, mine,
                     root, comm);
        mprotect(give, GIVEN, writes); /* what is sent is not written */
        MPI_Scatter(give, n, there, roots ? MPI_IN_PLACE : interposed, n, mine,
                    root, comm);
        mprotect(give, GIVEN, PROT_READ | PROT_WRITE);
        compare("scatter", name, "", n, in_place);
    }
}

/* A type of addresses, whose buffer is MPI_BOTTOM. */
static void addresses(int n)
{
    MPI_Datatype there;
    MPI_Aint at;
    const int root = n % size;
    begin(MPI_INT, n, 8);
    memcpy(by_mpi, give, (size_t)n * sizeof(int));
    PMPI_Bcast(by_mpi, n, MPI_INT, root, comm);
    if (rank == root)
        memcpy(interposed, give, (size_t)n * sizeof(int));
    MPI_Get_address(interposed, &at);
    MPI_Type_create_hindexed(1, &n, &at, MPI_INT, &there);
    MPI_Type_commit(&there);
    MPI_Bcast(MPI_BOTTOM, 1, there, root, comm);
    MPI_Type_free(&there);
    compare("bcast", "addresses", "", n, 0);
}

static void all_moves(void)
{
    const int counts[] = {0, 1, 9, 200, 2100};
    MPI_Datatype gaps, four, swapped, two;
    const int ones[] = {1, 1}, places[] = {1, 0};
    MPI_Type_vector(2, 2, 4, MPI_INT, &gaps); /* 4 of 6 */
    MPI_Type_contiguous(4, MPI_INT, &four);
    MPI_Type_indexed(2, ones, places, MPI_INT, &swapped);
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&swapped);
    MPI_Type_commit(&two);
    MPI_Type_commit(&gaps);
    MPI_Type_commit(&four);
    for (int c = 0; c < 5; c++) {
        moves("double", MPI_DOUBLE, MPI_DOUBLE, counts[c]);
        moves("pair", MPI_DOUBLE_INT, MPI_DOUBLE_INT, counts[c]);
        moves("gaps", gaps, four, counts[c]);
        moves("swapped", swapped, two, counts[c]);
        addresses(counts[c] + 1);
        MPI_Barrier(comm);
    }
    MPI_Type_free(&gaps);
    MPI_Type_free(&swapped);
    MPI_Type_free(&two);
    MPI_Type_free(&four);
}

static void minimum(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++)
        if (((int *)in)[i] < ((int *)inout)[i])
            ((int *)inout)[i] = ((int *)in)[i];
}

/* Pairs, and an op of the program. */
static void of_mpi_alone(void)
{
    MPI_Op op;
    MPI_Op_create(minimum, 1, &op);
    begin(MPI_INT, 100, 6);
    PMPI_Allreduce(give, by_mpi, 100, MPI_INT, op, comm);
    MPI_Allreduce(give, interposed, 100, MPI_INT, op, comm);
    compare("allreduce", "int", "own", 100, 0);
    MPI_Allreduce(give, interposed, 40, MPI_2INT, MPI_MINLOC, comm);
    PMPI_Allreduce(give, by_mpi, 40, MPI_2INT, MPI_MINLOC, comm);
    compare("allreduce", "pair", "minloc", 40, 0);
    MPI_Op_free(&op);
}

/* Counts of MPI_Count on some ranks, of int on others. */
static void large_counts(void)
{
#if MPI_VERSION >= 4
    for (int i = 0; i < 20; i++) {
        begin(MPI_INT, 500, 7);
        PMPI_Allreduce(give, by_mpi, 500, MPI_INT, MPI_SUM, comm);
        if (rank % 2)
            MPI_Allreduce_c(give, interposed, 500, MPI_INT, MPI_SUM, comm);
        else
            MPI_Allreduce(give, interposed, 500, MPI_INT, MPI_SUM, comm);
        compare("allreduce_c", "int", "sum", 500, 0);
    }
#endif
}

static void all_of(MPI_Comm of)
{
    comm = of;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    all_moves();
    all_reductions();
    pair_reductions();
    of_mpi_alone();
    large_counts();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int world, every = 0;
    MPI_Comm half;
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    give = mmap(NULL, GIVEN, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    by_mpi = malloc(PLACES);
    interposed = malloc(PLACES);
    all_of(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, world % 2, -world, &half);
    all_of(half);
    MPI_Comm_free(&half);
    PMPI_Allreduce(&failures, &every, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (world == 0)
        printf("%d calls differ\n", every);
    munmap(give, GIVEN);
    free(by_mpi);
    free(interposed);
    MPI_Finalize();
    return every != 0;
}
