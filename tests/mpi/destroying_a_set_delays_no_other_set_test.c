/* A member gives a set back while its left neighbour is late, and has not said
 * yet that it has ended the set's last operation: another thread's operations
 * on another set go on meanwhile.
 *
 * Covers: mpi_comm.c */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/mpi/mpi_check.h"

#define TIMES   4
#define LATE_MS 300
#define MOST_MS 50

static rg_ctx *ctx;
static rg_set *own;
static atomic_int is_over;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *sum_again_and_again(void *done)
{
    const int one = 1;
    int sum = 0;
    while (!is_over) {
        CHECK_OK(rg_allreduce(own, &one, &sum, 1, RG_I32, RG_SUM));
        ++*(atomic_int *)done;
    }
    return NULL;
}

static rg_set *make(int n)
{
    const int ranks[] = {0, 1};
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(ctx, ranks, n, NULL, &set));
    return set;
}

/* The root of a broadcast ends without its neighbour. */
static double give_back(rg_set *both)
{
    atomic_int done = 0;
    pthread_t thread;
    is_over = 0;
    CHECK(pthread_create(&thread, NULL, sum_again_and_again, &done) == 0);
    while (done == 0)
        sched_yield();
    int data = 7;
    CHECK_OK(rg_broadcast(both, &data, 1, RG_I32, 0));
    const double begin = now_ms();
    CHECK_OK(rg_set_destroy(both));
    const double took = now_ms() - begin;
    is_over = 1;
    pthread_join(thread, NULL);
    return took;
}

static void be_late(rg_set *both)
{
    const struct timespec late = {.tv_nsec = LATE_MS * 1000000L};
    int data = 0;
    nanosleep(&late, NULL);
    CHECK_OK(rg_broadcast(both, &data, 1, RG_I32, 0));
    CHECK_EQ(data, 7);
    CHECK_OK(rg_set_destroy(both));
}

int main(void)
{
    CHECK_OK(rg_init(NULL, &ctx));
    own = make(1);
    double least = LATE_MS; /* the machine may be busy */
    for (int i = 0; i < TIMES; i++) {
        rg_set *both = make(2);
        CHECK_OK(rg_barrier(rg_world(ctx)));
        double took = 0;
        if (rg_rank(ctx) == 0)
            took = give_back(both);
        else
            be_late(both);
        least = took < least ? took : least;
        CHECK_OK(rg_barrier(rg_world(ctx)));
    }
    if (least > MOST_MS)
        CHECK_FAIL("rg_set_destroy took %.0f ms", least);
    CHECK_OK(rg_set_destroy(own));
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
