/* Every operation of the stand-in for NCCL, every type and operator, against
 * serial computation; sends and recvs of a group run side by side.
 *
 * Covers: support/reduce.c nccl.c half.c */
#include "tests/device/support/ranks.h"

#include "sdk/transport/half.h"

#define N 40000 /* of 8 bytes: several chunks of a pipe */

/* Small integers, which every type holds exactly; products stay small too. */
static double element(int rank, size_t i, int op)
{
    if (op == RG__NCCL_Prod)
        return (double)(1 + (i + (size_t)rank) % 2);
    return (double)((i * 7 + (size_t)rank * 3) % 11);
}

static double expected(int n, size_t i, int op)
{
    double value = element(0, i, op);
    for (int r = 1; r < n; r++) {
        const double x = element(r, i, op);
        if (op == RG__NCCL_Prod)
            value *= x;
        else if (op == RG__NCCL_Max)
            value = x > value ? x : value;
        else if (op == RG__NCCL_Min)
            value = x < value ? x : value;
        else
            value += x;
    }
    return value;
}

static void store(int type, void *at, size_t i, double value)
{
    const float single = (float)value;
    switch (type) {
    case RG__NCCL_Int8:
    case RG__NCCL_Uint8:
        ((uint8_t *)at)[i] = (uint8_t)value;
        return;
    case RG__NCCL_Int32:
    case RG__NCCL_Uint32:
        ((uint32_t *)at)[i] = (uint32_t)value;
        return;
    case RG__NCCL_Int64:
    case RG__NCCL_Uint64:
        ((uint64_t *)at)[i] = (uint64_t)value;
        return;
    case RG__NCCL_Float32:
        ((float *)at)[i] = single;
        return;
    case RG__NCCL_Float64:
        ((double *)at)[i] = value;
        return;
    default:
        rg__half_narrow(type == RG__NCCL_Float16 ? RG_F16 : RG_BF16,
                        (uint16_t *)at + i, &single, 1);
    }
}

static const size_t size_of[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

static void check_allreduce(ranks *r, rg__nccl_comm comm, int type, int op)
{
    static char own[8 * N], want[8 * N], got[8 * N];
    const size_t bytes = N * size_of[type];
    for (size_t i = 0; i < N; i++) {
        store(type, own, i, element(r->rank, i, op));
        store(type, want, i, expected(r->n, i, op));
    }
    void *device = ranks_put(own, bytes); /* in place */
    CHECK_EQ(ncclAllReduce(device, device, N, type, op, comm, r->stream), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    ranks_get(got, device, bytes);
    if (memcmp(got, want, bytes) != 0)
        CHECK_FAIL("allreduce of type %d with operator %d is wrong", type, op);
    CHECK_EQ(cuMemFree_v2((uintptr_t)device), 0);
}

static void every_type_and_operator(ranks *r)
{
    rg__nccl_comm comm = ranks_comm(r, 0);
    for (int type = RG__NCCL_Int8; type <= RG__NCCL_Bfloat16; type++)
        for (int op = RG__NCCL_Sum; op <= RG__NCCL_Min; op++)
            check_allreduce(r, comm, type, op);
    CHECK_EQ(ncclCommAbort(comm), 0);
}

/* Integers are cut off; others are multiplied by the rounded 1/n. */
static void averages(ranks *r)
{
    rg__nccl_comm comm = ranks_comm(r, 0);
    int32_t whole = 5 + r->rank, got = 0;
    float single = 1, got_single = 0;
    void *a = ranks_put(&whole, 4), *b = ranks_put(&single, 4);
    CHECK_EQ(
        ncclAllReduce(a, a, 1, RG__NCCL_Int32, RG__NCCL_Avg, comm, r->stream),
        0);
    CHECK_EQ(
        ncclAllReduce(b, b, 1, RG__NCCL_Float32, RG__NCCL_Avg, comm, r->stream),
        0);
    CHECK_EQ(cuCtxSynchronize(), 0);
    ranks_get(&got, a, 4);
    ranks_get(&got_single, b, 4);
    CHECK_EQ(got, (5 + 6 + 7) / 3);
    const float third = 1.0f / 3;
    CHECK(got_single == third + third + third);
    CHECK_EQ(ncclCommAbort(comm), 0);
}

static void check_numbers(const void *device, const int32_t *want, int n)
{
    int32_t got[4 * RANKS_MAX];
    ranks_get(got, device, (size_t)n * 4);
    for (int i = 0; i < n; i++)
        CHECK_EQ(got[i], want[i]);
}

static void other_collectives(ranks *r)
{
    rg__nccl_comm comm = ranks_comm(r, 0);
    const int32_t own[3] = {r->rank, r->rank + 10, r->rank + 20};
    void *send = ranks_put(own, sizeof own);
    void *recv = ranks_put(NULL, 9 * 4);
    CHECK_EQ(ncclReduce(send, recv, 3, RG__NCCL_Int32, RG__NCCL_Sum, 1, comm,
                        r->stream),
             0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    check_numbers(
        recv, r->rank == 1 ? (int32_t[]){3, 33, 63} : (int32_t[]){0, 0, 0}, 3);
    CHECK_EQ(ncclBroadcast(send, recv, 3, RG__NCCL_Int32, 2, comm, r->stream),
             0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    check_numbers(recv, (int32_t[]){2, 12, 22}, 3);
    CHECK_EQ(ncclAllGather(send, recv, 3, RG__NCCL_Int32, comm, r->stream), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    check_numbers(recv, (int32_t[]){0, 10, 20, 1, 11, 21, 2, 12, 22}, 9);
    CHECK_EQ(ncclReduceScatter(send, recv, 1, RG__NCCL_Int32, RG__NCCL_Max,
                               comm, r->stream),
             0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    check_numbers(recv, (int32_t[]){2 + 10 * r->rank}, 1);
    CHECK_EQ(ncclCommAbort(comm), 0);
}

/* Everyone sends to all, itself included, more than a pipe holds. */
static void messages(ranks *r)
{
    static int32_t own[N], got[N];
    rg__nccl_comm comm = ranks_comm(r, 0);
    void *recv[RANKS_MAX];
    for (int i = 0; i < N; i++)
        own[i] = r->rank * N + i;
    void *send = ranks_put(own, sizeof own);
    CHECK_EQ(ncclGroupStart(), 0);
    for (int p = 0; p < r->n; p++) {
        recv[p] = ranks_put(NULL, sizeof own);
        CHECK_EQ(ncclSend(send, N, RG__NCCL_Int32, p, comm, r->stream), 0);
        CHECK_EQ(ncclRecv(recv[p], N, RG__NCCL_Int32, p, comm, r->stream), 0);
    }
    CHECK_EQ(ncclGroupEnd(), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    for (int p = 0; p < r->n; p++) {
        ranks_get(got, recv[p], sizeof got);
        for (int i = 0; i < N; i++)
            CHECK_EQ(got[i], p * N + i);
    }
    CHECK_EQ(ncclCommAbort(comm), 0);
}

int main(void)
{
    ranks_run(2, NULL, every_type_and_operator);
    ranks_run(3, NULL, averages);
    ranks_run(3, NULL, other_collectives);
    ranks_run(3, NULL, messages);
    return 0;
}
