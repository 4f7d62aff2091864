/* rg_set_create_mpi: a set for each communicator, in its order, made by its
 * members alone; and a communicator that is not of the world is refused on all
 * of them. The world is all
 * processes except the last, so that one is outside.
 *
 * Covers: mpi/program.c among.c */
#include "tests/mpi/mpi_check.h"

static rg_ctx *ctx;
static MPI_Comm most; /* the world's processes, the other way round */
static int rank, size;

static int sum_on(rg_set *set, int mine)
{
    int sum = 0;
    CHECK_OK(rg_allreduce(set, &mine, &sum, 1, RG_I32, RG_SUM));
    return sum;
}

static void claim_follows(rg_set *set, MPI_Comm comm)
{
    int comm_rank, comm_size, sum = 0;
    MPI_Comm_rank(comm, &comm_rank);
    MPI_Comm_size(comm, &comm_size);
    CHECK_EQ(rg_set_rank(set), comm_rank);
    CHECK_EQ(rg_set_size(set), comm_size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQ(sum_on(set, rank), sum);
}

static void colours_make_sets(void)
{
    MPI_Comm part;
    MPI_Comm_split(most, rank % 2, rank, &part);
    rg_set *set = NULL;
    const rg_set_params params = {.size = sizeof params,
                                  .name = rank % 2 == 0 ? "even" : "odd"};
    CHECK_OK(rg_set_create_mpi(ctx, part, &params, &set));
    CHECK_STR(rg_set_name(set), params.name);
    claim_follows(set, part);
    CHECK_OK(rg_set_destroy(set));
    MPI_Comm_free(&part);
}

/* Ranks that are no members have given it back by then. */
static void name_finds_its_set_again(void)
{
    MPI_Comm part;
    MPI_Comm_split(most, rank % 2, rank, &part);
    rg_set *set = NULL, *again = NULL;
    const rg_set_params params = {.size = sizeof params,
                                  .name = rank % 2 == 0 ? "even" : "odd"};
    CHECK_OK(rg_set_create_mpi(ctx, part, &params, &set));
    CHECK_OK(rg_set_create_mpi(ctx, part, &params, &again));
    CHECK(again == set);
    claim_follows(again, part);
    CHECK_OK(rg_set_destroy(set));
    CHECK_OK(rg_set_create_mpi(ctx, part, &params, &set));
    claim_follows(set, part);
    const rg_set_params taken = {.size = sizeof taken, .name = "even"};
    CHECK_STATUS(rg_set_create_mpi(ctx, most, &taken, &again), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "lives with other members") != NULL);
    if (rank == 0)
        CHECK_OK(rg_set_destroy(set));
    again = NULL;
    const rg_status st = rg_set_create_mpi(ctx, part, &params, &again);
    CHECK_STATUS(st, rank % 2 == 0 ? RG_ERR_MISMATCH : RG_OK);
    CHECK(rank % 2 != 0 ||
          strstr(rg_last_error(), "destroyed on others") != NULL);
    CHECK(again == (rank % 2 == 0 ? NULL : set));
    if (rank != 0)
        CHECK_OK(rg_set_destroy(set));
    MPI_Comm_free(&part);
}

/* What rg_set_create has made on all ranks stays theirs. */
static void a_set_of_ranks_is_found_too(void)
{
    MPI_Comm part;
    MPI_Comm_split(most, rank == 0 ? MPI_UNDEFINED : 1, rank, &part);
    const rg_set_params params = {.size = sizeof params, .name = "tail"};
    int ranks[MEMBERS_MAX];
    for (int i = 1; i < size; i++)
        ranks[i - 1] = i;
    rg_set *set = NULL, *again = NULL;
    CHECK_OK(rg_set_create(ctx, ranks, size - 1, &params, &set));
    CHECK_OK(rg_set_create_mpi(ctx, part, &params, &again));
    CHECK(again == (rank == 0 ? NULL : set));
    CHECK_EQ(rg_set_size(set), size - 1);
    if (rank != 0) {
        claim_follows(set, part);
        MPI_Comm_free(&part);
    }
    CHECK_OK(rg_set_destroy(set));
}

static void who_brings_none_gets_none(void)
{
    MPI_Comm part;
    MPI_Comm_split(most, rank == 0 ? MPI_UNDEFINED : 1, -rank, &part);
    rg_set *set = (rg_set *)&part;
    CHECK_OK(rg_set_create_mpi(ctx, part, NULL, &set));
    CHECK((set == NULL) == (rank == 0));
    if (set != NULL) {
        claim_follows(set, part);
        MPI_Comm_free(&part);
    }
    CHECK_OK(rg_set_destroy(set));
}

static void a_duplicate_is_a_set_of_its_own(void)
{
    MPI_Comm again;
    MPI_Comm_dup(most, &again);
    rg_set *one = NULL, *two = NULL;
    CHECK_OK(rg_set_create_mpi(ctx, most, NULL, &one));
    CHECK_OK(rg_set_create_mpi(ctx, again, NULL, &two));
    CHECK(one != two && rg_set_id(one) != rg_set_id(two));
    rg_req *req = NULL;
    const int mine = 1;
    int first = 0;
    CHECK_OK(
        rg_allreduce_start(one, &mine, &first, 1, RG_I32, RG_SUM, NULL, &req));
    claim_follows(two, again);
    CHECK_OK(rg_wait(&req, -1));
    CHECK_EQ(first, size);
    CHECK_OK(rg_set_destroy(one));
    CHECK_OK(rg_set_destroy(two));
    MPI_Comm_free(&again);
}

/* The others are in MPI meanwhile, and hear nothing of it. */
static void members_alone_make_it(void)
{
    MPI_Comm part;
    rg_set *set = NULL, *all = NULL;
    MPI_Comm_split(most, rank < 2 ? 1 : MPI_UNDEFINED, rank, &part);
    if (part != MPI_COMM_NULL) {
        for (int i = 0; i < 3; i++) { /* ids run ahead of the others' */
            CHECK_OK(rg_set_create_mpi(ctx, part, NULL, &set));
            claim_follows(set, part);
            CHECK_OK(rg_set_destroy(set));
        }
        CHECK_OK(rg_set_create_mpi(ctx, part, NULL, &set));
    }
    MPI_Barrier(most);
    CHECK_OK(rg_set_create_mpi(ctx, most, NULL, &all));
    claim_follows(all, most);
    if (set != NULL) {
        claim_follows(set, part);
        MPI_Comm_free(&part);
    }
    CHECK_OK(rg_set_destroy(set));
    CHECK_OK(rg_set_destroy(all));
    const int ranks[] = {0, 1};
    CHECK_OK(rg_set_create(ctx, ranks, 2, NULL, &set));
    CHECK_EQ(rg_set_size(set), 2);
    CHECK_OK(rg_set_destroy(set));
}

/* As with rg_set_split. */
static void colours_have_one_name(void)
{
    MPI_Comm row;
    rg_set *set = NULL, *again = NULL;
    const rg_set_params named = {.size = sizeof named, .name = "row"};
    const rg_set_params other = {.size = sizeof other,
                                 .name = rank == 0 ? "this" : "that"};
    MPI_Comm_split(most, rank % 2, rank, &row);
    CHECK_OK(rg_set_create_mpi(ctx, row, &named, &set));
    claim_follows(set, row);
    CHECK_OK(rg_set_create_mpi(ctx, row, &named, &again));
    CHECK(again == set);
    CHECK_OK(rg_set_destroy(set));
    MPI_Comm_free(&row);
    CHECK_STATUS(rg_set_create_mpi(ctx, most, &other, &set), RG_ERR_MISMATCH);
    CHECK(strstr(rg_last_error(), "different names") != NULL);
}

static void strangers_are_refused(void)
{
    rg_set *set = NULL;
    CHECK_STATUS(rg_set_create_mpi(ctx, MPI_COMM_WORLD, NULL, &set),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "not in the world") != NULL);
    CHECK(set == NULL);
}

/* A fault on one rank is an error on all, and no rank waits. */
static void one_is_wrong_for_all(void)
{
    const rg_set_params named = {.size = sizeof named, .name = "short"};
    const rg_set_params wrong[] = {
        {.size = sizeof wrong[0], .name = "0123456789012345678901234567890123"},
        {.size = sizeof wrong[0], .name = ""},
        {.size = 1, .name = "short"}};
    rg_set *set = NULL;
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(
            rg_set_create_mpi(ctx, most, rank == 1 ? &wrong[i] : &named, &set),
            RG_ERR_INVALID);
        CHECK(rank == 1 || strstr(rg_last_error(), "on rank 1 the") != NULL);
        CHECK(set == NULL);
    }
    MPI_Comm comm = MPI_COMM_NULL;
    CHECK_STATUS(rg_set_mpi_comm(rg_world(ctx), rank == 1 ? NULL : &comm),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "rank 1 of the set") != NULL);
    CHECK(comm == MPI_COMM_NULL);
}

/* Only _start forms go into a group: these communicate, and wait. */
static void not_in_a_group(void)
{
    rg_set *set = NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    if (rank == 1)
        CHECK_OK(rg_group_start(ctx));
    CHECK_STATUS(rg_set_create_mpi(ctx, most, NULL, &set), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), rank == 1 ? "be in a group" : "on rank 1"));
    if (rank == 1)
        CHECK_OK(rg_group_end(ctx));
    CHECK_OK(rg_group_start(ctx));
    CHECK_STATUS(rg_set_create_mpi(ctx, most, NULL, &set), RG_ERR_INVALID);
    CHECK_STATUS(rg_set_mpi_comm(rg_world(ctx), &comm), RG_ERR_INVALID);
    CHECK_STATUS(rg_group_end(ctx), RG_ERR_INVALID);
    CHECK(set == NULL && comm == MPI_COMM_NULL);
    CHECK_EQ(sum_on(rg_world(ctx), 1), size);
}

static void two_groups_are_no_set(void)
{
    MPI_Comm part, both;
    MPI_Comm_split(most, rank == 0, rank, &part);
    MPI_Intercomm_create(part, 0, most, rank == 0 ? 1 : 0, 7, &both);
    rg_set *set = NULL;
    CHECK_STATUS(rg_set_create_mpi(ctx, both, NULL, &set), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "intra-communicator") != NULL);
    MPI_Comm_free(&both);
    MPI_Comm_free(&part);
}

/* As a library inside the program does. */
static void others_share_it(void)
{
    rg_ctx *again = NULL;
    MPI_Comm same, less;
    MPI_Comm_dup(most, &same);
    MPI_Comm_split(most, rank % 2, rank, &less);
    CHECK_OK(rg_init_mpi(same, NULL, &again));
    CHECK(again == ctx);
    CHECK_STATUS(rg_init_mpi(less, NULL, &again), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "other ranks than the world") != NULL);
    CHECK_OK(rg_init(NULL, &again));
    CHECK_EQ(sum_on(rg_world(again), 1), size);
    CHECK_OK(rg_finalize(again));
    CHECK_OK(rg_finalize(again));
    MPI_Comm_free(&same);
    MPI_Comm_free(&less);
}

static void in_the_world(void)
{
    CHECK_OK(rg_init_mpi(most, NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    int most_rank;
    MPI_Comm_rank(most, &most_rank);
    CHECK_EQ(rank, most_rank);
    CHECK_EQ(sum_on(rg_world(ctx), 1), size);
    others_share_it();
    colours_make_sets();
    name_finds_its_set_again();
    a_set_of_ranks_is_found_too();
    who_brings_none_gets_none();
    a_duplicate_is_a_set_of_its_own();
    members_alone_make_it();
    colours_have_one_name();
    strangers_are_refused();
    one_is_wrong_for_all();
    not_in_a_group();
    two_groups_are_no_set();
    CHECK_EQ(sum_on(rg_world(ctx), 1), size);
    CHECK_OK(rg_finalize(ctx));
}

int main(void)
{
    int level = 0, of_all = 0, all = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &of_all);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    const int is_out = of_all == all - 1;
    MPI_Comm_split(MPI_COMM_WORLD, is_out ? MPI_UNDEFINED : 0, -of_all, &most);
    if (!is_out) {
        in_the_world();
        MPI_Comm_free(&most);
    }
    MPI_Finalize();
    return 0;
}
