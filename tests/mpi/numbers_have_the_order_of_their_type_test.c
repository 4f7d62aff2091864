/* MIN and MAX compare the elements as their type says: in sets so large that
 * MPI itself may do it, and below MPI_THREAD_MULTIPLE, where it does. MPICH 4.0
 * compares unsigned numbers as if they were signed. Pairs give the lowest index
 * of the extreme value, or of NaN. Sums of integers wrap, where Open MPI's end
 * at the largest 8-bit one.
 *
 * Covers: mpi_reduce.c elements.c */
#include <math.h>

#include "tests/mpi/mpi_check.h"

#define MOST 3000

static rg_ctx *ctx;
static int rank, size;

/* Rank 0 has the small number, all others the largest of that type. */
#define CLAIM(T, type, small, large)                                           \
    do {                                                                       \
        static T in[MOST], out[MOST];                                          \
        for (int i = 0; i < MOST; i++)                                         \
            in[i] = rank == 0 ? (small) : (large);                             \
        CHECK_OK(rg_allreduce(rg_world(ctx), in, out, MOST, type, RG_MIN));    \
        CHECK(out[0] == (small) && out[MOST - 1] == (small));                  \
        CHECK_OK(rg_allreduce(rg_world(ctx), in, out, MOST, type, RG_MAX));    \
        CHECK(out[0] == (large) && out[MOST - 1] == (large));                  \
    } while (0)

/* All have the value. */
#define CLAIM_SUM(T, type, value)                                              \
    do {                                                                       \
        static T in[MOST], out[MOST];                                          \
        for (int i = 0; i < MOST; i++)                                         \
            in[i] = (value);                                                   \
        CHECK_OK(rg_allreduce(rg_world(ctx), in, out, MOST, type, RG_SUM));    \
        CHECK(out[0] == (T)(size * (value)));                                  \
        CHECK(out[MOST - 1] == (T)(size * (value)));                           \
    } while (0)

/* All have the value, rank 1 the lowest index among them. */
#define CLAIM_PAIR(T, type, op, best, worst)                                   \
    do {                                                                       \
        static T in[MOST], out[MOST];                                          \
        for (int i = 0; i < MOST; i++) {                                       \
            in[i].value = rank == 0 ? (worst) : (best);                        \
            in[i].index = (int32_t)(rank == 0 ? 0 : rank + i);                 \
        }                                                                      \
        CHECK_OK(rg_allreduce(rg_world(ctx), in, out, MOST, type, op));        \
        for (int i = 0; i < MOST; i++) {                                       \
            CHECK(memcmp(&out[i].value, &in[i].value, sizeof in[i].value) ==   \
                      0 ||                                                     \
                  rank == 0);                                                  \
            CHECK_EQ(out[i].index, i + 1);                                     \
        }                                                                      \
    } while (0)

int main(void)
{
    MPI_Init(NULL, NULL);
    CHECK_OK(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    CHECK(size > 1);
    CLAIM(uint8_t, RG_U8, 3, UINT8_MAX);
    CLAIM(uint32_t, RG_U32, 3, UINT32_MAX);
    CLAIM(uint64_t, RG_U64, 3, UINT64_MAX);
    CLAIM(int8_t, RG_I8, -3, INT8_MAX);
    CLAIM(int32_t, RG_I32, -3, INT32_MAX);
    CLAIM(int64_t, RG_I64, -3, INT64_MAX);
    CLAIM_SUM(uint8_t, RG_U8, 255);
    CLAIM_SUM(int8_t, RG_I8, 127);
    CLAIM_PAIR(rg_f64_i32, RG_F64_I32, RG_MINLOC, -2, 4);
    CLAIM_PAIR(rg_f64_i32, RG_F64_I32, RG_MAXLOC, (double)NAN, 4);
    CLAIM_PAIR(rg_f32_i32, RG_F32_I32, RG_MAXLOC, 4, -2);
    CLAIM_PAIR(rg_f32_i32, RG_F32_I32, RG_MINLOC, NAN, -2);
    CLAIM_PAIR(rg_i32_i32, RG_I32_I32, RG_MINLOC, INT32_MIN, 1);
    CLAIM_PAIR(rg_i64_i32, RG_I64_I32, RG_MAXLOC, INT64_MAX, -1);
    CHECK_OK(rg_finalize(ctx));
    MPI_Finalize();
    return 0;
}
