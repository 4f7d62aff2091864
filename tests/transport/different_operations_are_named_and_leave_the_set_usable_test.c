/* Ranks that start different operations: every one gets ERR_MISMATCH and the
 * same sentence, nothing is written, and the next operation is right. Differing
 * counts lie on both sides of each place where the algorithm changes. The
 * arguments say on which hosts the three ranks are.
 *
 * Covers: descriptor.c */
#include "tests/lib/world.h"

#define ROOM (300 << 10) /* somewhat more than any operation has */

typedef struct variant {
    rg__kind kind;
    rg_type type;
    rg_op op;
    int root;
    uint64_t count;
} variant;

typedef struct difference {
    variant most, odd; /* rank 1 starts the odd one */
    const char *words; /* that the sentence has, besides the ranks */
} difference;

#define REDUCE(type, op, count)                                                \
    {                                                                          \
        RG__ALLREDUCE, type, op, 0, count                                      \
    }

static const difference differences[] = {
    {REDUCE(RG_F32, RG_SUM, 4), REDUCE(RG_F32, RG_SUM, 8),
     "allreduce on the world: count 4 on ranks 0,2 but 8 on rank 1"},
    {REDUCE(RG_F32, RG_SUM, 4), REDUCE(RG_I32, RG_SUM, 4),
     "type f32 on ranks 0,2 but i32 on rank 1"},
    {REDUCE(RG_F32, RG_SUM, 4), REDUCE(RG_F32, RG_MAX, 4),
     "op sum on ranks 0,2 but max on rank 1"},
    {REDUCE(RG_U8, RG_SUM, 4),
     {RG__BROADCAST, RG_U8, RG_SUM, 0, 4},
     "operation allreduce on ranks 0,2 but broadcast on rank 1"},
    {REDUCE(RG_U8, RG_SUM, 4),
     {RG__ALLGATHER, RG_U8, RG_SUM, 0, 4},
     "operation allreduce on ranks 0,2 but allgather on rank 1"},
    {REDUCE(RG_U8, RG_SUM, 0),
     {RG__BARRIER, RG_U8, RG_SUM, 0, 0},
     "operation allreduce on ranks 0,2 but barrier on rank 1"},
    {{RG__BROADCAST, RG_U8, RG_SUM, 0, 5000},
     {RG__BROADCAST, RG_U8, RG_SUM, 2, 5000},
     "broadcast on the world: root 0 on ranks 0,2 but 2 on rank 1"},
    {{RG__ALLGATHER, RG_U8, RG_SUM, 0, 96},
     {RG__ALLGATHER, RG_U8, RG_SUM, 0, 97},
     "count 96 on ranks 0,2 but 97 on rank 1"},
    {REDUCE(RG_U8, RG_SUM, 0), REDUCE(RG_U8, RG_SUM, 1), "count 0"},
    {REDUCE(RG_U8, RG_SUM, 96), REDUCE(RG_U8, RG_SUM, 97), "count 96"},
    {REDUCE(RG_U8, RG_SUM, 2047), REDUCE(RG_U8, RG_SUM, 2048), "count 2047"},
    {REDUCE(RG_U8, RG_SUM, 8192), REDUCE(RG_U8, RG_SUM, 8193), "count 8192"},
    {REDUCE(RG_U8, RG_SUM, 262144), REDUCE(RG_U8, RG_SUM, 262145),
     "count 262144"},
    {REDUCE(RG_U8, RG_SUM, 1), REDUCE(RG_U8, RG_SUM, 262145), "count 1 "},
    {{RG__BROADCAST, RG_U8, RG_SUM, 0, 8192},
     {RG__BROADCAST, RG_U8, RG_SUM, 0, 8193},
     "count 8192"},
    {{RG__ALLGATHER, RG_U8, RG_SUM, 0, 8192},
     {RG__ALLGATHER, RG_U8, RG_SUM, 0, 8193},
     "count 8192"},
};
#define DIFFERENCES ((int)(sizeof differences / sizeof *differences))

static rg_status run_variant(rg_set *set, const variant *v, char *send,
                             char *recv)
{
    switch (v->kind) {
    case RG__ALLREDUCE:
        return rg_allreduce(set, send, recv, v->count, v->type, v->op);
    case RG__BROADCAST:
        return rg_broadcast(set, recv, v->count, v->type, v->root);
    case RG__ALLGATHER:
        return rg_allgather(set, send, recv, v->count, v->type);
    default:
        return rg_barrier(set);
    }
}

static void check_right(rg_set *set, char *send, char *recv)
{
    static const uint64_t counts[] = {1, 200, 5000, 300000};
    for (int i = 0; i < 4; i++) {
        memset(send, 2, counts[i]);
        CHECK_OK(rg_allreduce(set, send, recv, counts[i], RG_U8, RG_SUM));
        CHECK_EQ(recv[0], 6);
        CHECK_EQ(recv[counts[i] - 1], 6);
    }
}

static void check_difference(world *w, const difference *d, char *send,
                             char *recv)
{
    rg_set *set = rg_world(w->ctx);
    memset(send, 1, ROOM);
    memset(recv, 77, ROOM);
    const variant *v = w->index == 1 ? &d->odd : &d->most;
    CHECK_STATUS(run_variant(set, v, send, recv), RG_ERR_MISMATCH);
    if (strstr(rg_last_error(), d->words) == NULL)
        CHECK_FAIL("\"%s\" is not in \"%s\"", d->words, rg_last_error());
    CHECK_BYTES(recv, 77, ROOM);
    check_right(set, send, recv);
}

static void agreements_differ(world *w)
{
    const int64_t in[4] = {w->index, 1, 2, 3};
    int64_t out[4] = {-1, -1, -1, -1};
    CHECK_STATUS(rg__world_agree(w->ctx, NULL, w->index == 2 ? 9 : 8, in, out),
                 RG_ERR_MISMATCH);
    CHECK(strstr(rg_last_error(),
                 "the arguments of ranks 0,1 are not those of rank 2"));
    CHECK_EQ(out[0], -1);
    CHECK_OK(rg__world_agree(w->ctx, NULL, 8, in, out));
    CHECK_EQ(out[0], 2);
    CHECK_EQ(out[3], 3);
}

static void start_one_of(world *w, int i, rg_status expected, const char *words)
{
    static const variant after_each_other[] = {
        {RG__BROADCAST, RG_U8, RG_SUM, 0, 11},
        REDUCE(RG_I32, RG_MAX, 3),
        {RG__ALLGATHER, RG_U8, RG_SUM, 0, 5},
        REDUCE(RG_F64, RG_SUM, 2),
        {RG__BROADCAST, RG_U8, RG_SUM, 1, 9}};
    char send[64] = {0}, recv[64];
    CHECK_STATUS(
        run_variant(rg_world(w->ctx), &after_each_other[i], send, recv),
        expected);
    if (words != NULL && strstr(rg_last_error(), words) == NULL)
        CHECK_FAIL("\"%s\" is not in \"%s\"", words, rg_last_error());
}

/* Rank 1 leaves one out, and all that follow differ for that one reason; then
 * rank 0 has one too many. Where all start the same, that is over. */
static void one_is_out_of_step(world *w)
{
    for (int i = 0; i < 4; i++)
        start_one_of(w, w->index == 1 ? i + 1 : i, RG_ERR_MISMATCH,
                     i == 0
                         ? "different operations"
                         : "rank 1 of the world is one operation ahead since "
                           "operation ");
    start_one_of(w, 2, RG_OK, NULL);
    for (int i = 0; i < 4; i++)
        start_one_of(w, w->index == 0 ? i : i + 1, RG_ERR_MISMATCH,
                     i == 0
                         ? "different operations"
                         : "rank 0 of the world is one operation behind since "
                           "operation ");
    start_one_of(w, 2, RG_OK, NULL);
}

static void all(world *w, void *arg)
{
    (void)arg;
    char *own = malloc(2 * ROOM);
    CHECK(own != NULL);
    for (int i = 0; i < DIFFERENCES; i++) {
        check_difference(w, &differences[i], own, own + ROOM);
        check_difference(w, &differences[i], w->alloc, w->alloc + ROOM);
        char *base = w->index == 2 ? own : w->alloc;
        check_difference(w, &differences[i], base, base + ROOM);
    }
    agreements_differ(w);
    one_is_out_of_step(w);
    free(own);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
