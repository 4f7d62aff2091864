/* Messages between two members over MPI: of any size, out of order, many at
 * once, to itself; a peer may have done what it had to do before they are
 * received.
 *
 * Covers: mpi_lanes.c point_to_point.c */
#include "tests/mpi/mpi_check.h"

#define MANY 64

static const uint64_t sizes[] = {0, 1, 2000, 9000, 70000, 300001};
#define SIZES (int)(sizeof sizes / sizeof *sizes)

static int32_t number(int from, int size, uint64_t i)
{
    return (int32_t)((uint64_t)from * 1000003 + (uint64_t)size * 777 + i);
}

static void pass_all(rg_set *set)
{
    const int n = rg_set_size(set), me = rg_set_rank(set);
    rg_req *req[2 * SIZES * 2];
    int32_t *out[2][SIZES], *in[2][SIZES];
    uint64_t got[2][SIZES];
    int k = 0;
    for (int d = 0; d < 2; d++) /* to the right, and to itself */
        for (int s = 0; s < SIZES; s++) {
            const rg_op_params tag = {.size = sizeof tag,
                                      .tag = (uint64_t)s << 40};
            out[d][s] = malloc((sizes[s] + 1) * 4);
            for (uint64_t i = 0; i < sizes[s]; i++)
                out[d][s][i] = number(me, s, i);
            CHECK_OK(rg_send_start(set, out[d][s], sizes[s], RG_I32,
                                   d == 0 ? (me + 1) % n : me, &tag,
                                   &req[k++]));
        }
    for (int d = 1; d >= 0; d--)
        for (int s = SIZES - 1; s >= 0; s--) {
            const rg_op_params tag = {.size = sizeof tag,
                                      .tag = (uint64_t)s << 40};
            in[d][s] = malloc((sizes[s] + 1) * 4);
            CHECK_OK(rg_recv_start(set, in[d][s], sizes[s] + 1, RG_I32,
                                   d == 0 ? (me + n - 1) % n : me, &got[d][s],
                                   &tag, &req[k++]));
        }
    CHECK_OK(rg_wait_all(req, k, -1));
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < SIZES; s++) {
            CHECK_EQ(got[d][s], sizes[s]);
            for (uint64_t i = 0; i < sizes[s]; i++)
                CHECK_EQ(in[d][s][i],
                         number(d == 0 ? (me + n - 1) % n : me, s, i));
            free(out[d][s]);
            free(in[d][s]);
        }
}

static void many(rg_set *set)
{
    const int n = rg_set_size(set), me = rg_set_rank(set);
    static int32_t out[MANY][512], in[512];
    rg_req *req[MANY];
    for (int i = 0; i < MANY; i++) {
        out[i][0] = i;
        CHECK_OK(rg_send_start(set, out[i], 512, RG_I32, (me + 1) % n, NULL,
                               &req[i]));
    }
    CHECK_OK(rg_barrier(set));
    for (int i = 0; i < MANY; i++) {
        CHECK_OK(rg_recv(set, in, 512, RG_I32, (me + n - 1) % n, 0, NULL));
        CHECK_EQ(in[0], i);
    }
    CHECK_OK(rg_wait_all(req, MANY, -1));
    CHECK_OK(rg_send(set, in, 2, RG_I32, (me + 1) % n, 5));
    CHECK_STATUS(rg_recv(set, in, 1, RG_I32, (me + n - 1) % n, 5, NULL),
                 RG_ERR_MISMATCH);
}

int main(void)
{
    rg_ctx *ctx = NULL;
    CHECK_OK(rg_init(NULL, &ctx));
    pass_all(rg_world(ctx));
    many(rg_world(ctx));
    int ranks[MEMBERS_MAX];
    for (int i = 0; i < rg_size(ctx); i++)
        ranks[i] = rg_size(ctx) - 1 - i;
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(ctx, ranks, rg_size(ctx), NULL, &set));
    pass_all(set);
    many(set);
    CHECK_OK(rg_set_destroy(set));
    if (rg_rank(ctx) == 0) {
        int32_t last = 3;
        CHECK_OK(rg_send(rg_world(ctx), &last, 1, RG_I32, rg_size(ctx) - 1, 9));
    }
    if (rg_rank(ctx) == rg_size(ctx) - 1) {
        int32_t last = 0;
        CHECK_OK(rg_recv(rg_world(ctx), &last, 1, RG_I32, 0, 9, NULL));
        CHECK_EQ(last, 3);
    }
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
