/* Every collective, type and op over the hosts that the arguments say (a digit
 * for each rank), at the sizes at which the algorithm changes, in ordinary,
 * rg_alloc and mixed memory, in place and not, against the same sum done
 * serially.
 *
 * Covers: native.c staged.c zero_copy.c part.c pipeline.c ring.c schedule.c
 *     steps.c rails.c payload.c */
#include "tests/lib/world.h"

#define LARGE ((uint64_t)1 << 20)

/* Bytes: nothing, one, odd; the line (96), the direct copy (2 KiB), the small
 * slot (8 KiB) and the staging slot (256 KiB), each with its neighbours;
 * several turns of the four staging slots. */
static const uint64_t sizes[] = {0,      1,      7,      95,       96,   97,
                                 2047,   2048,   2049,   8191,     8192, 8193,
                                 262143, 262144, 262145, LARGE + 3};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

typedef enum memory { ORDINARY, SHARED, MIXED, MEMORIES } memory;

static const rg_type types[] = {RG_U8, RG_I32, RG_I64, RG_F32, RG_F64};

#define VALUES 23 /* before they repeat */

static int64_t value(int rank, uint64_t i)
{
    return (int64_t)((i * 7 + (uint64_t)rank * 13) % VALUES) + rank - 2;
}

static void store(rg_type type, void *at, uint64_t i, int64_t v)
{
    switch (type) {
    case RG_U8:
        ((uint8_t *)at)[i] = (uint8_t)v;
        break;
    case RG_I32:
        ((int32_t *)at)[i] = (int32_t)v;
        break;
    case RG_I64:
        ((int64_t *)at)[i] = v;
        break;
    case RG_F32:
        ((float *)at)[i] = (float)v / 2;
        break;
    case RG_F64:
        ((double *)at)[i] = (double)v / 2;
        break;
    default:
        break;
    }
}

#define EXPECT(T, W)                                                           \
    do {                                                                       \
        T one[8] = {0};                                                        \
        for (int r = 0; r < n; r++)                                            \
            store(type, one, (uint64_t)r, value(r, i));                        \
        T all = one[0];                                                        \
        for (int r = 1; r < n; r++)                                            \
            all = op == RG_MIN   ? (one[r] < all ? one[r] : all)               \
                  : op == RG_MAX ? (one[r] > all ? one[r] : all)               \
                                 : (T)(all + one[r]);                          \
        if (op == RG_AVG)                                                      \
            all = (T)((W)all / (W)n);                                          \
        if (((const T *)got)[i] != all)                                        \
            CHECK_FAIL("type %d op %d of %d ranks: element %llu of %llu",      \
                       type, op, n, (unsigned long long)i,                     \
                       (unsigned long long)count);                             \
    } while (0)

static void check_element(rg_type type, rg_op op, int n, const void *got,
                          uint64_t i, uint64_t count)
{
    switch (type) {
    case RG_U8:
        EXPECT(uint8_t, int);
        break;
    case RG_I32:
        EXPECT(int32_t, int32_t);
        break;
    case RG_I64:
        EXPECT(int64_t, int64_t);
        break;
    case RG_F32:
        EXPECT(float, float);
        break;
    case RG_F64:
        EXPECT(double, double);
        break;
    default:
        break;
    }
}

/* Two buffers of one rank: in its segment, or not; 64 bytes beyond the end of
 * each must stay as they were. */
typedef struct buffers {
    char *send, *recv;
} buffers;

#define ROOM  (5 * (LARGE + 64))
#define GUARD 0x5a

static buffers pick(const world *w, char *own, memory kind)
{
    const bool is_shared = kind == SHARED || (kind == MIXED && w->index != 1);
    char *base = is_shared ? w->alloc : own;
    return (buffers){base, base + ROOM};
}

static void guard(char *at, uint64_t bytes)
{
    memset(at + bytes, GUARD, 64);
}

static void check_guard(const char *at, uint64_t bytes)
{
    for (int i = 0; i < 64; i++)
        CHECK_EQ(at[bytes + (uint64_t)i], GUARD);
}

/* The first `period` bytes over and over: in long copies, which sanitizers look
 * at as a whole. */
static void repeat(char *at, uint64_t period, uint64_t bytes)
{
    for (uint64_t done = period, now = 0; done < bytes; done += now) {
        now = done < bytes - done ? done : bytes - done;
        memcpy(at + done, at, now);
    }
}

static void fill(const world *w, rg_type type, void *at, uint64_t count)
{
    for (uint64_t i = 0; i < count && i < VALUES; i++)
        store(type, at, i, value(w->index, i));
    repeat(at, VALUES * rg_type_size(type), count * rg_type_size(type));
}

static void reduce_once(world *w, buffers b, rg_type type, rg_op op,
                        uint64_t count, bool in_place)
{
    const uint64_t bytes = count * rg_type_size(type);
    char *send = in_place ? b.recv : b.send;
    memset(b.recv, 0, bytes);
    fill(w, type, send, count);
    guard(b.recv, bytes);
    CHECK_OK(rg_allreduce(rg_world(w->ctx), send, b.recv, count, type, op));
    check_guard(b.recv, bytes);
    const uint64_t stride = count > 5000 ? 97 : 1;
    for (uint64_t i = 0; i < count; i += stride)
        check_element(type, op, w->n, b.recv, i, count);
    for (uint64_t i = 0; i < count && !in_place; i += stride) {
        char want[8];
        store(type, want, 0, value(w->index, i));
        CHECK(memcmp(want, send + i * rg_type_size(type), rg_type_size(type)) ==
              0);
    }
}

static void reduce_all(world *w, buffers b)
{
    for (int t = 0; t < 5; t++)
        for (int s = 0; s < SIZES; s++) {
            const uint64_t count = sizes[s] / rg_type_size(types[t]);
            /* every op up to the small slot, then one by turns */
            for (int op = RG_SUM; op <= RG_MAX; op++)
                if (sizes[s] < 9000 || (t + s) % 4 == op)
                    reduce_once(w, b, types[t], (rg_op)op, count,
                                (s + op) % 2 == 0);
        }
}

/* Steps between hosts are longest where members are alone: several, with the
 * last one not whole. */
static void reduce_long(world *w, buffers b)
{
    const uint64_t count = (ROOM - 64) / sizeof(float) - 3;
    reduce_once(w, b, RG_F32, RG_SUM, count, false);
    reduce_once(w, b, RG_F32, RG_AVG, count, true);
}

static void broadcast_all(world *w, buffers b)
{
    for (int s = 0; s < SIZES; s++)
        for (int root = 0; root<w->n; root += w->n> 2 ? 2 : 1) {
            const uint64_t n = sizes[s];
            memset(b.recv, w->index == root ? root + 1 : 99, n);
            guard(b.recv, n);
            CHECK_OK(rg_broadcast(rg_world(w->ctx), b.recv, n, RG_U8, root));
            check_guard(b.recv, n);
            CHECK_BYTES(b.recv, root + 1, n);
        }
}

#define PERIOD 50

static void gather_once(world *w, buffers b, uint64_t n, int how)
{
    char *place[3] = {b.send, b.recv, b.recv + (uint64_t)w->index * n};
    char *send = place[how];
    memset(b.recv, 99, n * (uint64_t)w->n);
    for (uint64_t i = 0; i < n && i < PERIOD; i++)
        send[i] = (char)(w->index + 1 + (int)i);
    repeat(send, PERIOD, n);
    guard(b.recv, n * (uint64_t)w->n);
    CHECK_OK(rg_allgather(rg_world(w->ctx), send, b.recv, n, RG_U8));
    check_guard(b.recv, n * (uint64_t)w->n);
    for (int r = 0; r < w->n; r++) {
        const char *part = b.recv + (uint64_t)r * n;
        for (uint64_t i = 0; i < n && i < PERIOD; i++)
            CHECK_EQ(part[i], r + 1 + (int)i);
        CHECK(n <= PERIOD || memcmp(part, part + PERIOD, n - PERIOD) == 0);
    }
}

static void gather_all(world *w, buffers b)
{
    for (int s = 0; s < SIZES; s++)
        for (int how = 0; how < 3; how++)
            gather_once(w, b, sizes[s], how);
}

static void all(world *w, void *arg)
{
    (void)arg;
    char *own = malloc(2 * ROOM);
    CHECK(own != NULL);
    for (int m = 0; m < MEMORIES; m++) {
        const buffers b = pick(w, own, (memory)m);
        reduce_all(w, b);
        reduce_long(w, b);
        broadcast_all(w, b);
        gather_all(w, b);
        CHECK_OK(rg_barrier(rg_world(w->ctx)));
    }
    free(own);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const world_params params = {.n = (int)strlen(argv[i]),
                                     .hosts = argv[i],
                                     .alloc_bytes = 2 * ROOM,
                                     .timeout_s = 200};
        world_run(&params, all, NULL);
    }
    return 0;
}
