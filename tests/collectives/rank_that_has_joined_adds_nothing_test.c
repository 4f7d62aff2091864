/* B48 to B50: ranks with less data than others join; allreduces of the others
 * go on, grouped ones too, AVG divides by the size of the set; all learn which
 * joined last; a prescale of 1 is none, and another one goes with sums only;
 * another collective during a join fails for those that started it, and the
 * join completes. On the world and on other sets.
 *
 * Covers: run_request.c */
#include "tests/lib/world.h"

/* A rank has batches for as many rounds as its place says. */
static int rounds_of(int rank)
{
    return 2 + 3 * rank;
}

static void reduce(rg_set *set, int rank, int n, int round, uint64_t count)
{
    static double data[70000];
    int active = 0, sum = 0;
    for (int r = 0; r < n; r++)
        if (rounds_of(r) > round) {
            active++;
            sum += r + 1;
        }
    for (uint64_t i = 0; i < count; i++)
        data[i] = rank + 1;
    const rg_op op = round % 3 == 0 ? RG_AVG : round % 3 == 1 ? RG_SUM : RG_MIN;
    const rg_op_params params = {.size = sizeof params, .prescale = 1};
    rg_req *req = NULL;
    CHECK_OK(
        rg_allreduce_start(set, data, data, count, RG_F64, op, &params, &req));
    CHECK_OK(rg_wait(&req, -1));
    for (uint64_t i = 0; i < count; i++) {
        const double want = op == RG_AVG   ? (double)sum / n
                            : op == RG_SUM ? sum
                                           : n - active + 1;
        if (data[i] != want)
            CHECK_FAIL("round %d: %g, not %g", round, data[i], want);
    }
}

static void grouped(rg_ctx *ctx, rg_set *set, int n, int round)
{
    int32_t a = 1, b = 2;
    int active = 0;
    rg_req *req[2] = {0};
    for (int r = 0; r < n; r++)
        active += rounds_of(r) > round;
    CHECK_OK(rg_group_start(ctx));
    CHECK_OK(rg_allreduce_start(set, &a, &a, 1, RG_I32, RG_SUM, NULL, &req[0]));
    CHECK_OK(rg_allreduce_start(set, &b, &b, 1, RG_I32, RG_SUM, NULL, &req[1]));
    CHECK_OK(rg_group_end(ctx));
    CHECK_OK(rg_wait_all(req, 2, -1));
    CHECK_EQ(a, active);
    CHECK_EQ(b, 2 * active);
}

/* While others have joined. */
static void scaled_maximum(rg_set *set)
{
    const rg_op_params params = {.size = sizeof params, .prescale = 2};
    rg_req *req = NULL;
    double x = 1;
    CHECK_OK(rg_allreduce_start(set, &x, &x, 1, RG_F64, RG_MAX, &params, &req));
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_UNSUPPORTED);
}

static void on(rg_ctx *ctx, rg_set *set)
{
    static const uint64_t counts[] = {1, 0, 300, 5000, 70000};
    const int n = rg_set_size(set), rank = rg_set_rank(set);
    for (int round = 0; round < rounds_of(rank); round++) {
        reduce(set, rank, n, round, counts[round % 5]);
        grouped(ctx, set, n, round);
    }
    if (rank == n - 1 && n > 1) {
        int32_t x = 0;
        CHECK_STATUS(rg_broadcast(set, &x, 1, RG_I32, 0), RG_ERR_MISMATCH);
        CHECK(strstr(rg_last_error(), "joined"));
        scaled_maximum(set);
    }
    int last = -1;
    CHECK_OK(rg_join(set, &last));
    CHECK_EQ(last, n - 1);
    CHECK_OK(rg_barrier(set));
}

static void all(world *w, void *arg)
{
    (void)arg;
    on(w->ctx, rg_world(w->ctx));
    int ranks[WORLD_MAX];
    for (int i = 0; i < w->n; i++)
        ranks[i] = w->n - 1 - i;
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(w->ctx, ranks, w->n > 1 ? w->n - 1 : 1, NULL, &set));
    if (rg_set_rank(set) >= 0)
        on(w->ctx, set);
    CHECK_OK(rg_set_destroy(set));
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
