/* Sets share ranks, a member of one is late, and the other goes on; also when
 * ranks start on the two in different orders. */
#include <time.h>

#include "tests/mpi/mpi_check.h"

#define LATE_MS 500

static rg_ctx *ctx;
static int rank, size;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static rg_req *start(rg_set *set, int *sum)
{
    static const int one = 1;
    rg_req *req = NULL;
    CHECK_OK(rg_allreduce_start(set, &one, sum, 1, RG_I32, RG_SUM, NULL, &req));
    return req;
}

/* All but the last rank are done with `free` long before it comes to `held`. */
static void a_late_member(rg_set *held, rg_set *free)
{
    int sum = 0, other = 0;
    CHECK_OK(rg_barrier(rg_world(ctx)));
    const double begin = now_ms();
    if (rank == size - 1) {
        const struct timespec t = {.tv_nsec = LATE_MS * 1000000L};
        nanosleep(&t, NULL);
    }
    rg_req *req = start(held, &sum);
    for (int i = 0; i < 20 && rank != size - 1; i++) {
        rg_req *quick = start(free, &other);
        CHECK_OK(rg_wait(&quick, -1));
        CHECK_EQ(other, size - 1);
    }
    if (rank != size - 1) {
        CHECK(now_ms() - begin < LATE_MS);
        CHECK_STATUS(rg_wait(&req, 0), RG_IN_PROGRESS);
    }
    CHECK_OK(rg_wait(&req, -1));
    CHECK_EQ(sum, size);
}

static void any_order(rg_set *a, rg_set *b)
{
    int in_a = 0, in_b = 0;
    for (int i = 0; i < 50; i++) {
        const int is_first = (rank + i) % 2;
        rg_req *one = start(is_first ? a : b, is_first ? &in_a : &in_b);
        rg_req *two = start(is_first ? b : a, is_first ? &in_b : &in_a);
        CHECK_OK(rg_wait(&one, -1));
        CHECK_OK(rg_wait(&two, -1));
        CHECK_EQ(in_a, size);
        CHECK_EQ(in_b, size);
    }
}

int main(void)
{
    CHECK_OK(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    int ranks[MEMBERS_MAX];
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    rg_set *all = NULL, *some = NULL;
    CHECK_OK(rg_set_create(ctx, ranks, size, NULL, &all));
    CHECK_OK(rg_set_create(ctx, ranks, size - 1, NULL, &some));
    a_late_member(all, some);
    any_order(all, rg_world(ctx));
    CHECK_OK(rg_set_destroy(some));
    CHECK_OK(rg_set_destroy(all));
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
