/* B31 to B36, B39 to B42: members that start different things, other counts,
 * roots or scales, or counts that do not fit each other: ERR_MISMATCH on every
 * rank, with a sentence that names the ranks; no byte is written and the set
 * stays usable. Arguments that make no sense on any rank are refused at once.
 *
 * Covers: core/group.c counts.c */
#include "tests/lib/world.h"

#define N    3
#define ROOM 30000

typedef struct buffers {
    uint8_t send[ROOM], recv[ROOM];
} buffers;

static buffers b;

static rg_status finish(rg_status st, rg_req **req)
{
    return st == RG_OK ? rg_wait(req, -1) : st;
}

typedef struct difference {
    int rank; /* of the caller */
    uint64_t count;
    bool is_other; /* this rank is the one that differs */
} difference;

static rg_status other_counts(rg_set *set, difference d)
{
    uint64_t out[N], in[N];
    rg_req *req = NULL;
    for (int r = 0; r < N; r++)
        out[r] = in[r] = d.count;
    out[2] += d.is_other; /* rank 1 sends rank 2 one more than it expects */
    return finish(rg_alltoallv_start(set, b.send, out, NULL, b.recv, in, NULL,
                                     RG_U8, NULL, &req),
                  &req);
}

static rg_status other_gather(rg_set *set, difference d)
{
    const uint64_t in[N] = {d.count, d.count, d.count};
    rg_req *req = NULL;
    return finish(rg_gatherv_start(set, b.send, d.count + d.is_other, b.recv,
                                   in, NULL, RG_U8, NULL, &req),
                  &req);
}

static rg_status other_allgather(rg_set *set, difference d)
{
    uint64_t in[N] = {d.count, d.count, d.count};
    rg_req *req = NULL;
    in[2] += d.is_other;
    return finish(rg_allgatherv_start(set, b.send, in[d.rank], b.recv, in, NULL,
                                      RG_U8, NULL, &req),
                  &req);
}

static rg_status other_parts(rg_set *set, difference d)
{
    uint64_t in[N] = {d.count, d.count, d.count};
    rg_req *req = NULL;
    in[0] += d.is_other; /* the sum stays as it is */
    in[2] -= d.is_other;
    return finish(rg_reduce_scatterv_start(set, b.send, b.recv, in, RG_U8,
                                           RG_SUM, NULL, &req),
                  &req);
}

static rg_status other_tag(rg_set *set, difference d)
{
    const uint64_t in[N] = {d.count, d.count, d.count};
    const rg_op_params params = {.size = sizeof params, .tag = d.is_other};
    rg_req *req = NULL;
    return finish(rg_reduce_scatterv_start(set, b.send, b.recv, in, RG_U8,
                                           RG_SUM, &params, &req),
                  &req);
}

static rg_status other_root(rg_set *set, difference d)
{
    return rg_scatter(set, b.send, b.recv, d.count, RG_U8, d.is_other);
}

static rg_status other_kind(rg_set *set, difference d)
{
    return d.is_other ? rg_gather(set, b.send, b.recv, d.count, RG_U8, 0)
                      : rg_alltoall(set, b.send, b.recv, d.count, RG_U8);
}

static rg_status other_op(rg_set *set, difference d)
{
    return rg_reduce(set, b.send, b.recv, d.count, RG_U8,
                     d.is_other ? RG_PROD : RG_BXOR, 0);
}

static rg_status other_type(rg_set *set, difference d)
{
    return rg_reduce_scatter(set, b.send, b.recv, d.count / 2,
                             d.is_other ? RG_F16 : RG_BF16, RG_SUM);
}

static rg_status other_scale(rg_set *set, difference d)
{
    const rg_op_params params = {.size = sizeof params,
                                 .prescale = d.is_other ? 0.5 : 0.25};
    rg_req *req = NULL;
    return finish(rg_allreduce_start(set, b.send, b.recv, d.count, RG_U8,
                                     RG_SUM, &params, &req),
                  &req);
}

static rg_status other_count(rg_set *set, difference d)
{
    return rg_alltoall(set, b.send, b.recv, d.count + d.is_other, RG_U8);
}

static const struct {
    rg_status (*start)(rg_set *set, difference d);
    const char *words;
} differences[] = {
    {other_counts, "rank 1 sends"},
    {other_gather, "rank 1 sends"},
    {other_allgather, "rank 2"},
    {other_tag, "the tag, its counts"},
    {other_parts, "its counts, or what is grouped with it, of ranks 0,2 are"},
    {other_root, "root 0 on ranks 0,2 but 1 on rank 1"},
    {other_kind, "operation alltoall on ranks 0,2 but gather on rank 1"},
    {other_op, "op bxor on ranks 0,2 but prod on rank 1"},
    {other_type, "type bf16 on ranks 0,2 but f16 on rank 1"},
    {other_scale, "prescale 0.25 on ranks 0,2 but 0.5 on rank 1"},
    {other_count, "on rank 1"}};
#define DIFFERENCES ((int)(sizeof differences / sizeof *differences))

static void differ(world *w, uint64_t count)
{
    rg_set *set = rg_world(w->ctx);
    for (int i = 0; i < DIFFERENCES; i++) {
        memset(b.recv, 77, ROOM);
        const difference d = {w->index, count, w->index == 1};
        CHECK_STATUS(differences[i].start(set, d), RG_ERR_MISMATCH);
        if (strstr(rg_last_error(), differences[i].words) == NULL)
            CHECK_FAIL("\"%s\" is not in \"%s\"", differences[i].words,
                       rg_last_error());
        for (int k = 0; k < ROOM; k++)
            CHECK_EQ(b.recv[k], 77);
        int32_t one = 1, sum = 0;
        CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
        CHECK_EQ(sum, N);
    }
}

static void refused_at_once(world *w)
{
    rg_set *set = rg_world(w->ctx), *other = NULL;
    const int two[2] = {0, 1};
    uint64_t counts[N] = {1, 1, 1};
    rg_req *req = NULL;
    CHECK_STATUS(rg_reduce(set, b.send, b.recv, 1, RG_F32, RG_BAND, 0),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "does not go with"));
    CHECK_STATUS(rg_allreduce(set, b.send, b.recv, 1, RG_BOOL, RG_SUM),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_gather(set, b.send, b.recv, 1, RG_U8, N), RG_ERR_INVALID);
    CHECK_STATUS(rg_alltoallv_start(set, b.send, NULL, NULL, b.recv, counts,
                                    NULL, RG_U8, NULL, &req),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_allgatherv_start(set, b.send, 2, b.recv, counts, NULL,
                                     RG_U8, NULL, &req),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_alltoall(set, b.send, b.send + 1, 1, RG_U8),
                 RG_ERR_INVALID);
    CHECK_OK(rg_set_create(w->ctx, two, 2, NULL, &other));
    if (w->index == 2)
        CHECK_STATUS(rg_alltoall(other, b.send, b.recv, 1, RG_U8),
                     RG_ERR_NOT_MEMBER);
    CHECK_OK(rg_barrier(set));
}

static void all(world *w, void *arg)
{
    (void)arg;
    differ(w, 5);
    differ(w, 400);
    differ(w, 9000);
    refused_at_once(w);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
