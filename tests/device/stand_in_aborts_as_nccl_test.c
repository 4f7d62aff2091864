/* How communicators of the stand-in begin and end: initialisation in the
 * background, aborts in two halves, dead ranks; and nothing is left.
 *
 * Covers: support/comm.c nccl.c */
#include "tests/device/support/ranks.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define N 1000

static int allreduce(ranks *r, rg__nccl_comm comm, int32_t *device)
{
    return ncclAllReduce(device, device, N, RG__NCCL_Int32, RG__NCCL_Sum, comm,
                         r->stream);
}

static int32_t *ones(void)
{
    int32_t one[N];
    for (int i = 0; i < N; i++)
        one[i] = 1;
    return ranks_put(one, sizeof one);
}

static int32_t first(const int32_t *device)
{
    int32_t got;
    ranks_get(&got, device, sizeof got);
    return got;
}

/* A blocking child of a nonblocking parent, as Regroup makes them. */
static rg__nccl_comm split_off(rg__nccl_comm parent)
{
    rg__nccl_config config = RG__NCCL_CONFIG;
    rg__nccl_comm child = NULL;
    config.blocking = 1;
    config.split_share = 0;
    CHECK_EQ(ncclCommSplit(parent, 0, 0, &child, &config), RG__NCCL_InProgress);
    CHECK_EQ(ranks_await(parent), RG__NCCL_Success);
    CHECK(child);
    return child;
}

/* ------------------------------------------------------------------- beginning
 */

static void a_round(ranks *r, int number)
{
    rg__nccl_comm parent = NULL;
    CHECK_EQ(ranks_start(r, number, 0, &parent), RG__NCCL_InProgress);
    CHECK(parent);
    CHECK_EQ(ranks_await(parent), RG__NCCL_Success);
    rg__nccl_comm child = split_off(parent);
    int32_t *device = ones();
    CHECK_EQ(allreduce(r, child, device), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    CHECK_EQ(first(device), r->n);
    CHECK_EQ(ncclGroupStart(), 0);
    CHECK_EQ(ncclCommAbort(child), 0);
    CHECK_EQ(ncclCommAbort(parent), 0);
    CHECK_EQ(ncclGroupEnd(), 0);
    CHECK_EQ(cuMemFree_v2((uintptr_t)device), 0);
}

static int entries_of(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    CHECK(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void twenty_rounds_leave_nothing(ranks *r)
{
    fake_holdings before, after;
    a_round(r, 0);
    ranks_meet(r);
    fake_held(&before);
    const int files = entries_of("/proc/self/fd");
    for (int i = 1; i <= 20; i++)
        a_round(r, i);
    do /* the last threads of ids end behind the rounds */
        fake_held(&after);
    while (after.threads > before.threads || after.files > before.files);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    CHECK_EQ(entries_of("/proc/self/fd"), files);
}

static void a_split_is_ordered_by_key(ranks *r)
{
    rg__nccl_comm parent = ranks_comm(r, 0), child = NULL;
    const int color = r->rank % 2; /* 0 2 and 1 3, each backwards */
    CHECK_EQ(ncclCommSplit(parent, color, -r->rank, &child, NULL), 0);
    int32_t own = r->rank, got[2];
    int32_t *send = ranks_put(&own, 4), *recv = ranks_put(NULL, 8);
    CHECK_EQ(ncclAllGather(send, recv, 1, RG__NCCL_Int32, child, r->stream), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    ranks_get(got, recv, 8);
    CHECK(got[0] == color + 2 && got[1] == color);
    CHECK_EQ(ncclCommAbort(child), 0);
    CHECK_EQ(ncclCommAbort(parent), 0);
}

static void refused_at_the_meeting(ranks *r, const char *sentence)
{
    rg__nccl_comm comm = NULL;
    CHECK_EQ(ranks_start(r, 0, 1, &comm), RG__NCCL_InvalidUsage);
    CHECK(!comm);
    if (!strstr(ncclGetLastError(NULL), sentence))
        CHECK_FAIL("the sentence is \"%s\"", ncclGetLastError(NULL));
}

static void versions_must_be_equal(ranks *r)
{
    CHECK(setenv("REGROUP_SLOT", r->rank ? "1" : "0", 1) == 0);
    refused_at_the_meeting(r, "Mismatched NCCL version");
}

static void a_device_is_for_one(ranks *r)
{
    rg__cu_context context;
    CHECK_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(cuCtxSetCurrent(context), 0);
    refused_at_the_meeting(r, "Duplicate GPU");
}

static void one_host_is_several(ranks *r)
{
    rg__cu_context context;
    CHECK(setenv("NCCL_HOSTID", r->rank ? "b" : "a", 1) == 0);
    CHECK_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(cuCtxSetCurrent(context), 0);
    CHECK_EQ(ncclCommAbort(ranks_comm(r, 0)), 0);
}

/* `init rank=1 never`: only an abort ends what the others wait for. */
static void an_init_without_end_is_aborted(ranks *r)
{
    rg__nccl_comm comm = NULL;
    int rc = 0;
    CHECK_EQ(ranks_start(r, 0, 0, &comm), RG__NCCL_InProgress);
    usleep(20000);
    CHECK_EQ(ncclCommGetAsyncError(comm, &rc), 0);
    CHECK_EQ(rc, RG__NCCL_InProgress);
    CHECK_EQ(ncclCommAbort(comm), 0);
    ranks_meet(r);
}

/* A rank without a thread at the port waits for a root that has gone. */
static void the_root_ends_with_its_port(ranks *r)
{
    rg__nccl_id id;
    struct sockaddr_in at, own;
    fake_holdings held;
    (void)r;
    fake_held(&held);
    const int threads = held.threads;
    CHECK_EQ(ncclGetUniqueId(&id), 0);
    fake_held(&held);
    CHECK(held.threads == threads + 1 && held.files == 1);
    memcpy(&at, id.bytes + 8, sizeof at);
    for (int fd = 3; fd < 64; fd++) {
        socklen_t room = sizeof own;
        if (getsockname(fd, (struct sockaddr *)&own, &room) == 0 &&
            own.sin_port == at.sin_port)
            CHECK(shutdown(fd, SHUT_RDWR) == 0);
    }
    do
        fake_held(&held);
    while (held.threads > threads || held.files > 0);
    setenv("NCCL_SOCKET_RETRY_CNT", "3", 1);
    setenv("NCCL_SOCKET_RETRY_SLEEP_MSEC", "1", 1);
    rg__nccl_comm comm = NULL;
    CHECK_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, NULL),
             RG__NCCL_RemoteError);
}

/* -------------------------------------------------------------------- the
 * abort
 */

/* Rank 1 dies in the middle; the others are not told. */
static void a_dead_rank_is_not_noticed(ranks *r)
{
    int rc = 0;
    rg__nccl_comm comm = ranks_comm(r, 0);
    int32_t *device = ones();
    CHECK_EQ(allreduce(r, comm, device), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    if (r->rank == 1) {
        ranks_expect_death(r);
        raise(SIGKILL);
    }
    CHECK_EQ(allreduce(r, comm, device), 0);
    usleep(30000);
    CHECK_EQ(cuStreamQuery(r->stream), RG__CU_ERROR_NOT_READY);
    CHECK_EQ(ncclCommGetAsyncError(comm, &rc), 0);
    CHECK_EQ(rc, RG__NCCL_Success);
    atomic_fetch_add(ranks_word(r, 0), 1);
    ranks_await_word(ranks_word(r, 0), r->n - 1);
    ranks_script("peers noticed\n");
    while (rc == RG__NCCL_Success) /* until the process is gone */
        CHECK_EQ(ncclCommGetAsyncError(comm, &rc), 0);
    CHECK_EQ(rc, RG__NCCL_RemoteError);
    CHECK_EQ(ncclCommAbort(comm), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    CHECK(first(device) != 2 * r->n); /* rubbish */
}

typedef struct launcher {
    ranks *ranks;
    rg__nccl_comm comm;
    int32_t *device;
    _Atomic int launched;
} launcher;

static void *launch(void *arg)
{
    launcher *l = arg;
    for (int i = 0; i < 6; i++) {
        allreduce(l->ranks, l->comm, l->device);
        atomic_fetch_add(&l->launched, 1);
    }
    return NULL;
}

/* Two halves: the flags release threads inside, the memory goes later. */
static void an_abort_frees_a_blocked_launch(ranks *r)
{
    pthread_t thread;
    launcher l = {.ranks = r, .comm = ranks_comm(r, 0), .device = ones()};
    CHECK_EQ(allreduce(r, l.comm, l.device), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    if (r->rank == 0) {
        CHECK(pthread_create(&thread, NULL, launch, &l) == 0);
        ranks_await_word(&l.launched, 2); /* the queue is full */
        usleep(20000);
        CHECK_EQ(atomic_load(&l.launched), 2);
        CHECK_EQ(ncclGroupStart(), 0);
        CHECK_EQ(ncclCommAbort(l.comm), 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_EQ(cuStreamSynchronize(r->stream), 0);
        CHECK_EQ(ncclGroupEnd(), 0);
    }
    ranks_meet(r);
    if (r->rank == 1)
        CHECK_EQ(ncclCommAbort(l.comm), 0);
}

/* The first collective blocks until all are there, or until the abort. */
static void an_abort_frees_a_first_operation(ranks *r)
{
    pthread_t thread;
    launcher l = {.ranks = r, .comm = ranks_comm(r, 0), .device = ones()};
    if (r->rank == 0) {
        CHECK(pthread_create(&thread, NULL, launch, &l) == 0);
        usleep(20000);
        CHECK_EQ(atomic_load(&l.launched), 0);
        CHECK_EQ(ncclGroupStart(), 0);
        CHECK_EQ(ncclCommAbort(l.comm), 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_EQ(ncclGroupEnd(), 0);
    }
    ranks_meet(r);
    if (r->rank == 1)
        CHECK_EQ(ncclCommAbort(l.comm), 0);
}

/* Rank 1's kernel is aborted, posts its steps, and rank 0 ends well. */
static void a_neighbour_takes_rubbish(ranks *r)
{
    rg__nccl_comm comm = ranks_comm(r, 0);
    int32_t *device = ones();
    int rc = 0;
    CHECK_EQ(allreduce(r, comm, device), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    CHECK_EQ(allreduce(r, comm, device), 0);
    if (r->rank == 0) {
        CHECK_EQ(cuStreamSynchronize(r->stream), 0);
        CHECK_EQ(ncclCommGetAsyncError(comm, &rc), 0);
        CHECK_EQ(rc, RG__NCCL_Success);
        CHECK(first(device) != 2 * r->n);
    } else {
        CHECK_EQ(cuStreamQuery(r->stream), RG__CU_ERROR_NOT_READY);
    }
    CHECK_EQ(ncclCommAbort(comm), 0);
}

static void *abort_for_ever(void *comm)
{
    ncclCommAbort(comm);
    CHECK_FAIL("the abort has ended");
}

/* `op k=2 through`: the flags are set, but freeing waits for the kernel. */
static void an_abort_may_not_end(ranks *r)
{
    pthread_t thread;
    rg__nccl_comm comm = ranks_comm(r, 0);
    int32_t *device = ones();
    CHECK_EQ(allreduce(r, comm, device), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    CHECK_EQ(allreduce(r, comm, device), 0);
    CHECK(pthread_create(&thread, NULL, abort_for_ever, comm) == 0);
    usleep(50000);
    _exit(0);
}

/* `op rank=0 k=2 remote`: one rank sees an error, and the other nothing. */
static void an_error_is_seen_where_it_is(ranks *r)
{
    rg__nccl_comm comm = ranks_comm(r, 0);
    int32_t *device = ones();
    int rc = 0;
    CHECK_EQ(allreduce(r, comm, device), 0);
    CHECK_EQ(allreduce(r, comm, device), 0);
    while (r->rank == 0 && rc != RG__NCCL_RemoteError)
        CHECK_EQ(ncclCommGetAsyncError(comm, &rc), 0);
    ranks_meet(r);
    CHECK_EQ(ncclCommGetAsyncError(comm, &rc), 0);
    CHECK_EQ(rc, r->rank == 0 ? RG__NCCL_RemoteError : RG__NCCL_Success);
    CHECK_EQ(cuStreamQuery(r->stream), RG__CU_ERROR_NOT_READY);
    ranks_meet(r);
    CHECK_EQ(ncclCommAbort(comm), 0);
}

int main(void)
{
    ranks_run(2, NULL, twenty_rounds_leave_nothing);
    ranks_run(4, NULL, a_split_is_ordered_by_key);
    ranks_run(2, "nccl slot=1 version=22602\n", versions_must_be_equal);
    ranks_run(2, NULL, a_device_is_for_one);
    ranks_run(2, NULL, one_host_is_several);
    ranks_run(3, "init rank=1 never\n", an_init_without_end_is_aborted);
    ranks_run(1, NULL, the_root_ends_with_its_port);
    ranks_run(3, NULL, a_dead_rank_is_not_noticed);
    ranks_run(2, "queue n=2\n", an_abort_frees_a_blocked_launch);
    ranks_run(2, NULL, an_abort_frees_a_first_operation);
    ranks_run(2, "op rank=1 k=2 hang\n", a_neighbour_takes_rubbish);
    ranks_run(1, "op k=2 through\n", an_abort_may_not_end);
    ranks_run(2, "op rank=0 k=2 remote\n", an_error_is_seen_where_it_is);
    return 0;
}
