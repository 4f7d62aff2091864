/* REGROUP_CHECK: members that start different things hear which ranks did
 * what; with each before a byte is written, and the set goes on; with late when
 * it has happened, and the set is over.
 *
 * Covers: check.c */
#include <time.h>
#include <unistd.h>

#include "tests/mpi/mpi_check.h"

static rg_ctx *ctx;
static rg_set *set;
static int rank, size;

static void sum(void)
{
    const int one = 1;
    int n = 0;
    CHECK_OK(rg_allreduce(set, &one, &n, 1, RG_I32, RG_SUM));
    CHECK_EQ(n, size);
}

static int data[4096], result[4096];

/* The last rank does another thing than the others. */
static rg_status differ(const char *what)
{
    const int is_last = rank == size - 1;
    if (strcmp(what, "count") == 0)
        return rg_allreduce(set, data, result, is_last ? 5 : 4, RG_I32, RG_SUM);
    if (strcmp(what, "refused") == 0)
        return rg_allreduce(set, is_last ? NULL : data, result, 4, RG_I32,
                            RG_SUM);
    if (strcmp(what, "op") == 0)
        return rg_allreduce(set, data, result, 4, RG_I32,
                            is_last ? RG_MAX : RG_SUM);
    if (strcmp(what, "type") == 0)
        return rg_allreduce(set, data, result, 4, is_last ? RG_F32 : RG_I32,
                            RG_SUM);
    if (strcmp(what, "root") == 0)
        return rg_broadcast(set, data, 4, RG_I32, is_last);
    return is_last ? rg_barrier(set)
                   : rg_allreduce(set, data, result, 4, RG_I32, RG_SUM);
}

/* The rank whose call is refused has its own reason. */
static int is_refused(const char *what)
{
    return rank == size - 1 && strcmp(what, "refused") == 0;
}

static void claim_named(const char *what)
{
    char last[32];
    snprintf(last, sizeof last, "rank %d", size - 1);
    const char *said = rg_last_error();
    const char *field =
        strcmp(what, "kind") == 0 || strcmp(what, "refused") == 0
            ? "different operations"
            : what;
    if (strstr(said, field) == NULL || strstr(said, last) == NULL)
        CHECK_FAIL("\"%s\" names not %s or not %s", said, field, last);
}

static void named_first(const char *what)
{
    memset(result, 0x11, sizeof result);
    CHECK_STATUS(differ(what),
                 is_refused(what) ? RG_ERR_INVALID : RG_ERR_MISMATCH);
    if (!is_refused(what))
        claim_named(what);
    CHECK_EQ(result[0], 0x11111111);
    sum();
}

/* The last rank has left one out: the first difference is that of two
 * operations, and every later one has the same reason. */
static void named_out_of_step(void)
{
    const int is_last = rank == size - 1;
    char last[32];
    snprintf(last, sizeof last, "rank %d of set", size - 1);
    for (int i = 0; i < 4; i++) {
        const uint64_t count = (uint64_t)(10 + i + is_last);
        CHECK_STATUS(rg_allreduce(set, data, result, count, RG_I32, RG_SUM),
                     RG_ERR_MISMATCH);
        const char *said = rg_last_error();
        if (i > 0 && (strstr(said, last) == NULL ||
                      strstr(said, "is one operation ahead since") == NULL))
            CHECK_FAIL("\"%s\" does not say that %s is ahead", said, last);
    }
    sum();
}

/* The operation itself may have ended well; it is named by then or by one that
 * follows. */
static void named_late(const char *what)
{
    const time_t until = time(NULL) + 30;
    rg_status st = differ(what);
    if (is_refused(what)) {
        CHECK_STATUS(st, RG_ERR_INVALID);
        st = RG_OK;
    }
    while (st == RG_OK && time(NULL) < until)
        st = rg_barrier(set);
    CHECK_STATUS(st, RG_ERR_MISMATCH);
    claim_named(what);
    CHECK_STATUS(rg_barrier(set), RG_ERR_MISMATCH); /* it stays so */
}

/* Far more operations than whose lines are kept, and not a multiple of those
 * that are told. */
#define AHEAD 301

/* A rank that only sends runs ahead of one that only receives, and comes
 * late. */
static rg_status run_ahead(const char *what, int is_ahead, uint64_t count)
{
    rg_status st = RG_OK;
    if (!is_ahead)
        usleep(300000);
    for (int i = 0; i < AHEAD && st == RG_OK; i++)
        st = strcmp(what, "ahead") == 0
                 ? rg_broadcast(set, data, count, RG_I32, 0)
                 : rg_reduce(set, data, result, count, RG_I32, RG_SUM, 0);
    return st == RG_OK ? rg_barrier(set) : st;
}

static void named_far_behind(const char *what)
{
    const int is_ahead = (strcmp(what, "ahead") == 0) == (rank == 0);
    CHECK_OK(run_ahead(what, is_ahead, 4)); /* being late is no mismatch */
    CHECK_STATUS(run_ahead(what, is_ahead, is_ahead ? 4 : 5), RG_ERR_MISMATCH);
    const char *said = rg_last_error();
    if (strstr(said, "different operations") == NULL &&
        strstr(said, "count") == NULL)
        CHECK_FAIL("\"%s\" names no difference", said);
    CHECK_STATUS(rg_barrier(set), RG_ERR_MISMATCH);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "count";
    CHECK_OK(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    int ranks[MEMBERS_MAX];
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    CHECK_OK(rg_set_create(ctx, ranks, size, NULL, &set));
    sum();
    if (strcmp(getenv("REGROUP_CHECK"), "each") == 0) {
        static const char *const all[] = {"count", "op",   "type",
                                          "root",  "kind", "refused"};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            named_first(all[i]);
        named_out_of_step();
    } else if (strcmp(what, "ahead") == 0 || strcmp(what, "behind") == 0) {
        named_far_behind(what);
    } else {
        named_late(what);
    }
    /* the world is not concerned */
    CHECK_OK(rg_barrier(rg_world(ctx)));
    CHECK_OK(rg_set_destroy(set));
    fflush(NULL);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
