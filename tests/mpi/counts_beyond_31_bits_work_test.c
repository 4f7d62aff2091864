/* B16: more than 2^31 elements, which MPI's counts do not hold, in every
 * collective. Elements are right at both ends, in the middle, and around each
 * 2^27 of them, where messages end.
 *
 * The buffers repeat a few megabytes of memory over and over, except for the
 * pages around the elements that are checked, which are their own: so the
 * test needs little memory, and data that are missing or misplaced are noticed.
 *
 *   counts_beyond_31_bits_work [NAME...]     these collectives; none: all
 *
 * Covers: elements.c mpi_reduce.c */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/mpi/mpi_check.h"

#define COUNT  ((UINT64_C(1) << 31) + 4099)
#define PIECE  (UINT64_C(1) << 27)
#define PERIOD ((uint64_t)(3 * 1024 + 4) << 10)
#define AROUND ((uint64_t)32 << 10) /* bytes with pages of their own */
#define NEAR   64                   /* bytes that are looked at */
#define SPOTS  32

static rg_ctx *ctx;
static rg_set *set;
static int rank, size;
static uint8_t *send, *recv; /* of size parts */

/* Places in a part of so many elements; their number. */
static int spots_of(uint64_t count, uint64_t *spots)
{
    int n = 0;
    for (uint64_t at = 0; at < count; at += PIECE)
        spots[n++] = at;
    spots[n++] = count / 3;
    spots[n++] = count / 2;
    spots[n++] = count;
    return n;
}

static void repeat(uint8_t *at, uint64_t bytes)
{
    const int fd = memfd_create("large", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)PERIOD) == 0);
    for (uint64_t done = 0; done < bytes; done += PERIOD)
        CHECK(mmap(at + done, PERIOD, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) != MAP_FAILED);
    close(fd);
}

static void own_pages(uint8_t *at)
{
    const uintptr_t begin = ((uintptr_t)at - AROUND) & ~(uintptr_t)4095;
    CHECK(mmap((void *)begin, 2 * AROUND, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
}

static uint8_t *make_buffer(void)
{
    const uint64_t bytes = (uint64_t)size * COUNT + 2 * AROUND + PERIOD;
    uint8_t *at = mmap(NULL, bytes + PERIOD, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED);
    repeat(at, bytes);
    at += 2 * AROUND;
    uint64_t spots[SPOTS];
    const int n = spots_of(COUNT, spots);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            own_pages(at + (uint64_t)r * COUNT + spots[i]);
    return at;
}

/* -------------------------------------------------------- what is looked at */

static uint8_t value_of(int from, int to, uint64_t i)
{
    return (uint8_t)(i * 3 + (i >> 11) * 7 + (i >> 27) * 31 +
                     (uint64_t)from * 101 + (uint64_t)to * 53);
}

/* From all: their sum. */
#define ALL (-1)

static uint8_t result_of(int from, int to, uint64_t i)
{
    uint8_t sum = 0;
    for (int r = 0; r < size; r++)
        if (from == ALL || from == r)
            sum = (uint8_t)(sum + value_of(r, to, i));
    return sum;
}

typedef enum deed { PUT, WIPE, LOOK } deed;

/* What goes from one rank to another, at part. */
static void at_spots(deed todo, const char *what, uint8_t *part, uint64_t count,
                     int from, int to)
{
    uint64_t spots[SPOTS];
    const int n = spots_of(count, spots);
    for (int s = 0; s < n; s++) {
        uint64_t i = spots[s] < NEAR ? 0 : spots[s] - NEAR;
        for (; i < spots[s] + NEAR && i < count; i++) {
            const uint8_t want = result_of(from, to, i);
            if (todo == LOOK && part[i] != want)
                CHECK_FAIL("%s: element %llu of %d for %d is %u and not %u",
                           what, (unsigned long long)i, from, to, part[i],
                           want);
            if (todo != LOOK)
                part[i] = todo == PUT ? want : (uint8_t)~want;
        }
    }
}

static void give(uint8_t *part, uint64_t count, int to)
{
    at_spots(PUT, "", part, count, rank, to);
}

/* Parts of that many elements, one behind the other. */
typedef uint64_t (*count_fn)(int from, int to);

static uint64_t even(int from, int to)
{
    (void)from;
    (void)to;
    return COUNT;
}

static uint64_t uneven(int from, int to)
{
    return COUNT - 5 * (uint64_t)(from + to);
}

/* As many elements for each rank, from whichever rank. */
static uint64_t by_rank(int from, int to)
{
    (void)from;
    return COUNT - 5 * (uint64_t)to;
}

static void give_each(uint8_t *at, count_fn count)
{
    for (int r = 0; r < size; at += count(rank, r), r++)
        give(at, count(rank, r), r);
}

static void from_each(deed todo, const char *what, uint8_t *at, count_fn count,
                      int to)
{
    for (int r = 0; r < size; r++) {
        const uint64_t n = count(r, rank);
        at_spots(todo, what, at, n, r, to < 0 ? r : to);
        at += n;
    }
}

static void done(rg_status st, rg_req *req)
{
    CHECK_OK(st);
    CHECK_OK(rg_wait(&req, -1));
}

/* ------------------------------------------------------------- collectives */

static rg_op_params at_last_rank(void)
{
    return (rg_op_params){.size = sizeof(rg_op_params), .root = size - 1};
}

static void allreduce(void)
{
    give(send, COUNT, 0);
    at_spots(WIPE, "", recv, COUNT, ALL, 0);
    CHECK_OK(rg_allreduce(set, send, recv, COUNT, RG_U8, RG_SUM));
    at_spots(LOOK, "allreduce", recv, COUNT, ALL, 0);
    CHECK_OK(rg_allreduce(set, send, send, COUNT, RG_U8, RG_SUM));
    at_spots(LOOK, "allreduce in place", send, COUNT, ALL, 0);
}

static void reduce(void)
{
    give(send, COUNT, 0);
    at_spots(WIPE, "", recv, COUNT, ALL, 0);
    CHECK_OK(rg_reduce(set, send, recv, COUNT, RG_U8, RG_SUM, size - 1));
    if (rank == size - 1)
        at_spots(LOOK, "reduce", recv, COUNT, ALL, 0);
}

static void reduce_scatter(void)
{
    give_each(send, even);
    at_spots(WIPE, "", recv, COUNT, ALL, rank);
    CHECK_OK(rg_reduce_scatter(set, send, recv, COUNT, RG_U8, RG_SUM));
    at_spots(LOOK, "reduce_scatter", recv, COUNT, ALL, rank);
}

static void reduce_scatterv(void)
{
    uint64_t counts[MEMBERS_MAX] = {0};
    for (int r = 0; r < size; r++)
        counts[r] = by_rank(0, r);
    give_each(send, by_rank);
    at_spots(WIPE, "", recv, counts[rank], ALL, rank);
    rg_req *req = NULL;
    const rg_status st = rg_reduce_scatterv_start(set, send, recv, counts,
                                                  RG_U8, RG_SUM, NULL, &req);
    done(st, req);
    at_spots(LOOK, "reduce_scatterv", recv, counts[rank], ALL, rank);
}

static void broadcast(void)
{
    const int root = size - 1;
    at_spots(rank == root ? PUT : WIPE, "", send, COUNT, root, 0);
    CHECK_OK(rg_broadcast(set, send, COUNT, RG_U8, root));
    at_spots(LOOK, "broadcast", send, COUNT, root, 0);
}

static void allgather(void)
{
    give(send, COUNT, 0);
    from_each(WIPE, "", recv, even, 0);
    CHECK_OK(rg_allgather(set, send, recv, COUNT, RG_U8));
    from_each(LOOK, "allgather", recv, even, 0);
}

/* What rank r gives. */
static uint64_t given(int from, int to)
{
    (void)to;
    return COUNT - 5 * (uint64_t)from;
}

static void allgatherv(void)
{
    uint64_t counts[MEMBERS_MAX] = {0};
    for (int r = 0; r < size; r++)
        counts[r] = given(r, 0);
    give(send, counts[rank], 0);
    from_each(WIPE, "", recv, given, 0);
    rg_req *req = NULL;
    const rg_status st = rg_allgatherv_start(set, send, counts[rank], recv,
                                             counts, NULL, RG_U8, NULL, &req);
    done(st, req);
    from_each(LOOK, "allgatherv", recv, given, 0);
}

static void gather(void)
{
    give(send, COUNT, 0);
    from_each(WIPE, "", recv, even, 0);
    CHECK_OK(rg_gather(set, send, recv, COUNT, RG_U8, size - 1));
    if (rank == size - 1)
        from_each(LOOK, "gather", recv, even, 0);
}

static void gatherv(void)
{
    uint64_t counts[MEMBERS_MAX] = {0};
    const rg_op_params params = at_last_rank();
    for (int r = 0; r < size; r++)
        counts[r] = given(r, 0);
    give(send, counts[rank], 0);
    from_each(WIPE, "", recv, given, 0);
    rg_req *req = NULL;
    const rg_status st = rg_gatherv_start(set, send, counts[rank], recv, counts,
                                          NULL, RG_U8, &params, &req);
    done(st, req);
    if (rank == size - 1)
        from_each(LOOK, "gatherv", recv, given, 0);
}

static void scatter(void)
{
    give_each(send, even);
    at_spots(WIPE, "", recv, COUNT, size - 1, rank);
    CHECK_OK(rg_scatter(set, send, recv, COUNT, RG_U8, size - 1));
    at_spots(LOOK, "scatter", recv, COUNT, size - 1, rank);
}

static void scatterv(void)
{
    uint64_t counts[MEMBERS_MAX] = {0};
    const rg_op_params params = at_last_rank();
    for (int r = 0; r < size; r++)
        counts[r] = by_rank(0, r);
    give_each(send, by_rank);
    at_spots(WIPE, "", recv, counts[rank], size - 1, rank);
    rg_req *req = NULL;
    const rg_status st = rg_scatterv_start(set, send, counts, NULL, recv,
                                           counts[rank], RG_U8, &params, &req);
    done(st, req);
    at_spots(LOOK, "scatterv", recv, counts[rank], size - 1, rank);
}

static void alltoall(void)
{
    give_each(send, even);
    from_each(WIPE, "", recv, even, rank);
    CHECK_OK(rg_alltoall(set, send, recv, COUNT, RG_U8));
    from_each(LOOK, "alltoall", recv, even, rank);
}

static void alltoall_in_place(void)
{
    give_each(send, even);
    CHECK_OK(rg_alltoall(set, send, send, COUNT, RG_U8));
    from_each(LOOK, "alltoall in place", send, even, rank);
}

static void alltoallv(void)
{
    uint64_t counts[MEMBERS_MAX] = {0};
    for (int r = 0; r < size; r++)
        counts[r] = uneven(rank, r);
    give_each(send, uneven);
    from_each(WIPE, "", recv, uneven, rank);
    rg_req *req = NULL;
    const rg_status st = rg_alltoallv_start(set, send, counts, NULL, recv,
                                            counts, NULL, RG_U8, NULL, &req);
    done(st, req);
    from_each(LOOK, "alltoallv", recv, uneven, rank);
}

static const struct {
    const char *name;
    void (*run)(void);
} collectives[] = {{"allreduce", allreduce},
                   {"reduce", reduce},
                   {"reduce_scatter", reduce_scatter},
                   {"reduce_scatterv", reduce_scatterv},
                   {"broadcast", broadcast},
                   {"allgather", allgather},
                   {"allgatherv", allgatherv},
                   {"gather", gather},
                   {"gatherv", gatherv},
                   {"scatter", scatter},
                   {"scatterv", scatterv},
                   {"alltoall", alltoall},
                   {"alltoall_in_place", alltoall_in_place},
                   {"alltoallv", alltoallv}};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int is_asked_for(const char *name, int n, char **names)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return n == 0;
}

int main(int argc, char **argv)
{
    CHECK_OK(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    set = rg_world(ctx);
    CHECK(size >= 2 && size <= MEMBERS_MAX);
    send = make_buffer();
    recv = make_buffer();
    int run = 0;
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        if (!is_asked_for(collectives[i].name, argc - 1, argv + 1))
            continue;
        const double begin = now();
        collectives[i].run();
        run++;
        if (rank == 0)
            printf("%s %.1f s\n", collectives[i].name, now() - begin);
    }
    CHECK(run > 0);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
