/* What one rank sends is not what another expects: too little, too much,
 * nothing, or something where nothing is expected. Both counts are named; with
 * REGROUP_CHECK=each on all members, no byte is written, and the set goes on;
 * with late by the operation or one after it, and the set is over.
 *
 * Covers: uneven.c check.c */
#include <time.h>

#include "tests/mpi/mpi_check.h"

#define MOST  200000
#define GUARD 0x5a

static rg_ctx *ctx;
static int rank, size;
static char in[MOST], out[MOST];

/* Rank 0 sends rank 1 so many elements, which expects others. */
static rg_status alltoallv(rg_set *set, uint64_t sent, uint64_t expected)
{
    uint64_t to[MEMBERS_MAX] = {0}, from[MEMBERS_MAX] = {0};
    if (rank == 0)
        to[1] = sent;
    if (rank == 1)
        from[0] = expected;
    rg_req *req = NULL;
    CHECK_OK(rg_alltoallv_start(set, in, to, NULL, out, from, NULL, RG_U8, NULL,
                                &req));
    return rg_wait(&req, -1);
}

/* Rank 1 sends, and rank 0 is the root. */
static rg_status gatherv(rg_set *set, uint64_t sent, uint64_t expected)
{
    const uint64_t from[MEMBERS_MAX] = {0, expected};
    rg_req *req = NULL;
    CHECK_OK(rg_gatherv_start(set, in, rank == 1 ? sent : 0, out,
                              rank == 0 ? from : NULL, NULL, RG_U8, NULL,
                              &req));
    return rg_wait(&req, -1);
}

static rg_status scatterv(rg_set *set, uint64_t sent, uint64_t expected)
{
    const uint64_t to[MEMBERS_MAX] = {0, sent};
    rg_req *req = NULL;
    CHECK_OK(rg_scatterv_start(set, in, rank == 0 ? to : NULL, NULL, out,
                               rank == 1 ? expected : 0, RG_U8, NULL, &req));
    return rg_wait(&req, -1);
}

typedef rg_status (*uneven_fn)(rg_set *set, uint64_t sent, uint64_t expected);

static void claim_named(uint64_t sent, uint64_t expected)
{
    char sends[64], expects[64];
    snprintf(sends, sizeof sends, "sends %llu elements",
             (unsigned long long)sent);
    snprintf(expects, sizeof expects, "expects %llu;",
             (unsigned long long)expected);
    const char *said = rg_last_error();
    if (strstr(said, sends) == NULL || strstr(said, expects) == NULL)
        CHECK_FAIL("\"%s\" says not \"%s\" or not \"%s\"", said, sends,
                   expects);
}

static void claim_untouched(void)
{
    for (int i = 0; i < MOST; i++)
        CHECK(out[i] == GUARD);
}

static void differ(uneven_fn uneven, uint64_t sent, uint64_t expected,
                   int is_each)
{
    rg_set *set = NULL;
    int ranks[MEMBERS_MAX];
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    CHECK_OK(rg_set_create(ctx, ranks, size, NULL, &set));
    CHECK_OK(uneven(set, expected, expected));
    CHECK_OK(rg_barrier(set));
    memset(out, GUARD, sizeof out);
    const time_t until = time(NULL) + 30;
    rg_status st = uneven(set, sent, expected);
    while (!is_each && st == RG_OK && time(NULL) < until)
        st = rg_barrier(set);
    CHECK_STATUS(st, RG_ERR_MISMATCH);
    claim_named(sent, expected);
    claim_untouched();
    CHECK_STATUS(rg_barrier(set), is_each ? RG_OK : RG_ERR_MISMATCH);
    CHECK_OK(rg_barrier(rg_world(ctx)));
    CHECK_OK(rg_set_destroy(set));
}

int main(void)
{
    static const uneven_fn all[] = {alltoallv, gatherv, scatterv};
    CHECK_OK(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    const int is_each = strcmp(getenv("REGROUP_CHECK"), "each") == 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        differ(all[i], 5, 10, is_each);
        differ(all[i], 10, 5, is_each);
        differ(all[i], 0, 10, is_each);
        differ(all[i], 10, 0, is_each);
        differ(all[i], 5, MOST, is_each); /* not at once, in most MPIs */
        differ(all[i], MOST, 5, is_each);
    }
    fflush(NULL);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
