/* Messages between two members reach the receive with their tag, in order, of
 * any size, many at once, and beside collectives of their set; a receive that
 * does not fit says so, and what nobody receives yet is bounded.
 *
 * Covers: point_to_point.c message_start.c messages.c incoming.c outgoing.c
 * message_lanes.c self.c */
#include "tests/lib/elements.h"
#include "tests/lib/world.h"

#define MANY  200
#define SMALL 1024 /* bytes of each of MANY */

static const uint64_t sizes[] = {0,    1,    7,     80,    8191,
                                 8192, /* the last eager one */
                                 8193, 8225, 65536, 65537, (3 << 20) + 5};
#define SIZES (int)(sizeof sizes / sizeof *sizes)

static rg_op_params tagged(uint64_t tag)
{
    return (rg_op_params){.size = sizeof(rg_op_params), .tag = tag};
}

static pattern bytes_of(int from, int to, uint64_t tag)
{
    return pattern_of_bytes((uint64_t)(from * WORLD_MAX + to) << 32 | tag);
}

static void fill(char *at, uint64_t n, int from, int to, uint64_t tag)
{
    const pattern p = bytes_of(from, to, tag);
    pattern_write(&p, at, 0, n);
}

static void check(const char *at, uint64_t n, int from, int to, uint64_t tag)
{
    const pattern p = bytes_of(from, to, tag);
    const uint64_t i = pattern_wrong(&p, at, 0, n);
    if (i < n)
        CHECK_FAIL("byte %llu of %llu from %d to %d differs",
                   (unsigned long long)i, (unsigned long long)n, from, to);
}

static char *room_of(uint64_t n)
{
    char *at = malloc((size_t)n + 1);
    CHECK(at != NULL);
    return at;
}

/* Every pair exchanges one of each size; receives are started the other way
 * round, and a collective of the set is in flight all the while. */
static void all_sizes(rg_set *set)
{
    const int n = rg_set_size(set), me = rg_set_rank(set);
    rg_req *req[WORLD_MAX * SIZES * 2], *sum = NULL;
    char *out[WORLD_MAX][SIZES], *in[WORLD_MAX][SIZES];
    uint64_t got[WORLD_MAX][SIZES];
    int32_t one = 1;
    int k = 0;
    if (me != 0)
        CHECK_OK(
            rg_allreduce_start(set, &one, &one, 1, RG_I32, RG_SUM, NULL, &sum));
    for (int p = 0; p < n; p++)
        for (int s = 0; s < SIZES; s++) {
            const rg_op_params tag = tagged((uint64_t)s);
            out[p][s] = room_of(sizes[s]);
            fill(out[p][s], sizes[s], me, p, (uint64_t)s);
            CHECK_OK(rg_send_start(set, out[p][s], sizes[s], RG_U8, p, &tag,
                                   &req[k++]));
        }
    for (int p = n - 1; p >= 0; p--)
        for (int s = SIZES - 1; s >= 0; s--) {
            const rg_op_params tag = tagged((uint64_t)s);
            in[p][s] = room_of(sizes[s] + 1);
            CHECK_OK(rg_recv_start(set, in[p][s], sizes[s] + (uint64_t)(s % 2),
                                   RG_U8, p, &got[p][s], &tag, &req[k++]));
        }
    CHECK_OK(rg_wait_all(req, k, -1));
    if (me == 0)
        CHECK_OK(
            rg_allreduce_start(set, &one, &one, 1, RG_I32, RG_SUM, NULL, &sum));
    CHECK_OK(rg_wait(&sum, -1));
    CHECK_EQ(one, n);
    for (int p = 0; p < n; p++)
        for (int s = 0; s < SIZES; s++) {
            CHECK_EQ(got[p][s], sizes[s]);
            check(in[p][s], sizes[s], p, me, (uint64_t)s);
            free(out[p][s]);
            free(in[p][s]);
        }
}

/* Equal tags arrive in order; there is room for few that nobody asks for. */
static void many_in_order(rg_set *set)
{
    const int n = rg_set_size(set), me = rg_set_rank(set);
    const int to = (me + 1) % n, from = (me + n - 1) % n;
    static char out[MANY][SMALL];
    char in[SMALL];
    rg_req *req[MANY];
    for (int i = 0; i < MANY; i++) {
        fill(out[i], SMALL, me, to, (uint64_t)i);
        CHECK_OK(rg_send_start(set, out[i], SMALL, RG_U8, to, NULL, &req[i]));
    }
    int complete = 0;
    for (int i = 0; i < MANY; i++)
        complete += rg_test(&req[i]) == RG_OK;
    CHECK(complete <= (32 << 10) / SMALL);
    CHECK_OK(rg_barrier(set)); /* none has received anything */
    for (int i = 0; i < MANY; i++) {
        CHECK_OK(rg_recv(set, in, SMALL, RG_U8, from, 0, NULL));
        check(in, SMALL, from, me, (uint64_t)i);
    }
    for (int i = 0; i < MANY; i++)
        if (req[i] != NULL)
            CHECK_OK(rg_wait(&req[i], -1));
}

/* A short and a long one that do not fit, and one of another type. */
static void what_does_not_fit(rg_set *set)
{
    static const uint64_t counts[] = {100, 5000, 10};
    const int n = rg_set_size(set), me = rg_set_rank(set);
    const int to = (me + 1) % n, from = (me + n - 1) % n;
    static int32_t out[5000];
    int32_t in[100];
    rg_req *req[4];
    for (int i = 0; i < 3; i++)
        CHECK_OK(rg_send_start(set, out, counts[i], RG_I32, to, NULL, &req[i]));
    out[0] = 77;
    memset(in, 1, sizeof in);
    CHECK_STATUS(rg_recv(set, in, 99, RG_I32, from, 0, NULL), RG_ERR_MISMATCH);
    CHECK(strstr(rg_last_error(), "100 elements of i32"));
    CHECK_STATUS(rg_recv(set, in, 99, RG_I32, from, 0, NULL), RG_ERR_MISMATCH);
    CHECK_STATUS(rg_recv(set, in, 99, RG_F32, from, 0, NULL), RG_ERR_MISMATCH);
    CHECK(strstr(rg_last_error(), "f32"));
    CHECK_BYTES(in, 1, sizeof in);
    CHECK_OK(rg_wait_all(req, 3, -1));
    CHECK_OK(rg_send_start(set, out, 1, RG_I32, to, NULL, &req[3]));
    CHECK_OK(rg_recv(set, in, 99, RG_I32, from, 0, NULL));
    CHECK_EQ(in[0], 77);
    CHECK_OK(rg_wait(&req[3], -1));
}

static void what_is_wrong(rg_ctx *ctx, rg_set *set)
{
    const rg_op_params device = {.size = sizeof device, .memory = RG_DEVICE};
    int32_t x = 0;
    rg_req *req = NULL;
    CHECK_STATUS(rg_send(set, &x, 1, RG_I32, rg_set_size(set), 0),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_recv(set, &x, 1, RG_I32, -1, 0, NULL), RG_ERR_INVALID);
    CHECK_STATUS(rg_send(set, NULL, 1, RG_I32, 0, 0), RG_ERR_INVALID);
    CHECK_STATUS(rg_send_start(set, &x, 1, RG_I32, 0, &device, &req),
                 RG_ERR_UNSUPPORTED);
    CHECK_OK(rg_group_start(ctx));
    CHECK_STATUS(rg_send(set, &x, 1, RG_I32, 0, 0), RG_ERR_INVALID);
    CHECK_STATUS(rg_group_end(ctx), RG_ERR_INVALID);
}

static void on(rg_ctx *ctx, rg_set *set)
{
    all_sizes(set);
    many_in_order(set);
    what_does_not_fit(set);
    what_is_wrong(ctx, set);
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
    CHECK_OK(rg_set_create(w->ctx, ranks, w->n, NULL, &set));
    on(w->ctx, set);
    CHECK_OK(rg_set_destroy(set));
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
