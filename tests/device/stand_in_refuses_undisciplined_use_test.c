/* Each use of device memory and NCCL that would fail on some machine some
 * day ends a test at once, with a sentence.
 *
 * Covers: support/comm.c cuda.c */
#include "tests/device/support/ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *memory;

static int allreduce(rg__nccl_comm comm, rg__cu_stream stream)
{
    if (!memory)
        memory = ranks_put(NULL, 4);
    return ncclAllReduce(memory, memory, 1, RG__NCCL_Int32, RG__NCCL_Sum, comm,
                         stream);
}

static rg__nccl_comm freed(ranks *r)
{
    rg__nccl_comm comm = ranks_comm(r, 0);
    CHECK_EQ(ncclCommAbort(comm), 0);
    return comm;
}

static void use_after_abort(ranks *r)
{
    allreduce(freed(r), r->stream);
}

static void question_after_abort(ranks *r)
{
    int rc;
    ncclCommGetAsyncError(freed(r), &rc);
}

static void question_between_mark_and_end(ranks *r)
{
    rg__nccl_comm comm = ranks_comm(r, 0);
    int rc;
    ncclGroupStart();
    ncclCommAbort(comm);
    ncclCommGetAsyncError(comm, &rc);
}

static void second_abort(ranks *r)
{
    rg__nccl_comm comm = ranks_comm(r, 0);
    ncclGroupStart();
    ncclCommAbort(comm);
    ncclCommAbort(comm);
}

/* The last operation of b hangs while a is freed. */
static void abort_of_one_of_two(ranks *r)
{
    rg__nccl_comm a = ranks_comm(r, 0), b = ranks_comm(r, 1);
    allreduce(b, r->stream);
    ncclCommAbort(a);
}

static void group_abort_of_both(ranks *r)
{
    rg__nccl_comm a = ranks_comm(r, 0), b = ranks_comm(r, 1);
    allreduce(b, r->stream);
    ncclGroupStart();
    ncclCommAbort(a);
    ncclCommAbort(b);
    ncclGroupEnd();
}

static void group_with_an_operation(ranks *r)
{
    rg__nccl_comm a = ranks_comm(r, 0), b = ranks_comm(r, 1);
    ncclGroupStart();
    ncclCommAbort(a);
    allreduce(b, r->stream);
    ncclGroupEnd();
}

static atomic_int begun; /* launches */

static void *block(void *arg)
{
    void **both = arg;
    rg__cu_context context;
    CHECK_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(cuCtxSetCurrent(context), 0);
    for (int i = 0; i < 3; i++) {
        atomic_fetch_add(&begun, 1);
        allreduce(both[0], both[1]);
    }
    return NULL;
}

static void *both[2];

/* Another thread is in its second launch for good, since the queue is full. */
static rg__nccl_comm blocked(ranks *r)
{
    pthread_t thread;
    both[0] = ranks_comm(r, 0);
    both[1] = r->stream;
    memory = ranks_put(NULL, 4);
    CHECK(pthread_create(&thread, NULL, block, both) == 0);
    while (atomic_load(&begun) < 2 || fake_caller(both[0]) == 0)
        usleep(1000);
    return both[0];
}

static void two_threads_in_one_comm(ranks *r)
{
    allreduce(blocked(r), r->stream);
}

static void free_under_a_thread(ranks *r)
{
    ncclCommAbort(blocked(r));
}

static void split_of_a_busy_comm(ranks *r)
{
    rg__nccl_comm comm = ranks_comm(r, 0), child;
    allreduce(comm, r->stream);
    ncclCommSplit(comm, 0, 0, &child, NULL);
}

static void host_memory(ranks *r)
{
    int own = 0;
    ncclAllReduce(&own, &own, 1, RG__NCCL_Int32, RG__NCCL_Sum, ranks_comm(r, 0),
                  r->stream);
}

static void too_long_a_copy(ranks *r)
{
    char *device = ranks_put(NULL, 10);
    cuMemsetD8Async((uintptr_t)device + 5, 0, 6, r->stream);
}

static void messages_in_place(ranks *r)
{
    rg__nccl_comm comm = ranks_comm(r, 0);
    char *data = ranks_put(NULL, 12);
    ncclGroupStart();
    ncclSend(data, 8, RG__NCCL_Uint8, 0, comm, r->stream);
    ncclRecv(data + 4, 8, RG__NCCL_Uint8, 0, comm, r->stream);
    ncclGroupEnd();
}

static void no_context(ranks *r)
{
    rg__nccl_comm comm;
    CHECK_EQ(cuCtxSetCurrent(NULL), 0);
    ranks_start(r, 0, 0, &comm);
}

static void destroyed_stream(ranks *r)
{
    CHECK_EQ(cuStreamDestroy_v2(r->stream), 0);
    cuStreamQuery(r->stream);
}

static void fixed_id(ranks *r)
{
    (void)r;
    setenv("NCCL_COMM_ID", "127.0.0.1:1", 1);
    rg__nccl_id id;
    ncclGetUniqueId(&id);
}

static void *call_as_regroup(void *arg)
{
    int n;
    (void)arg;
    prctl(PR_SET_NAME, "regroup");
    cuDeviceGetCount(&n);
    return NULL;
}

static void the_regroup_thread(ranks *r)
{
    pthread_t thread;
    (void)r;
    CHECK(pthread_create(&thread, NULL, call_as_regroup, NULL) == 0);
    pthread_join(thread, NULL);
}

static void a_named_thread(ranks *r)
{
    fake_forbid_thread("the thread that answers");
    cuStreamQuery(r->stream);
}

static const char *guard(void)
{
    return "with the engine's lock held";
}

static void a_guarded_call(ranks *r)
{
    fake_set_guard(guard);
    cuStreamQuery(r->stream);
}

static void allocation_between_marks(ranks *r)
{
    rg__cu_address at;
    (void)r;
    ranks_script("alloc forbidden\n");
    cuMemAlloc_v2(&at, 1);
}

static void memory_at_the_end(ranks *r)
{
    CHECK_EQ(cuStreamDestroy_v2(r->stream), 0);
    ranks_put(NULL, 1);
}

int main(void)
{
    ranks_refused(NULL, use_after_abort, "has been aborted and freed");
    ranks_refused(NULL, question_after_abort, "has been aborted and freed");
    ranks_refused(NULL, question_between_mark_and_end, "is being aborted");
    ranks_refused(NULL, second_abort, "is being aborted already");
    ranks_refused("op comm=2 hang\n", abort_of_one_of_two,
                  "abort both in one group");
    ranks_run(1, "op comm=2 hang\n", group_abort_of_both);
    ranks_refused("op comm=2 hang\nnccl version=22105\n", group_abort_of_both,
                  "abort both in one group");
    ranks_refused(NULL, group_with_an_operation, "and launches operations");
    ranks_refused("queue n=1\nop hang\n", two_threads_in_one_comm,
                  "another thread is in a call");
    ranks_refused("queue n=1\nop hang\nnccl version=22105\n",
                  free_under_a_thread, "while a thread is in a call");
    ranks_refused("op hang\n", split_of_a_busy_comm, "is not still");
    ranks_refused(NULL, host_memory, "is neither device nor pinned memory");
    ranks_refused(NULL, too_long_a_copy, "reach past their block");
    ranks_refused(NULL, messages_in_place, "receives into what it sends");
    ranks_refused(NULL, no_context, "NCCL would take device 0");
    ranks_refused(NULL, destroyed_stream, "is no stream");
    ranks_refused(NULL, fixed_id, "generations would mix");
    ranks_refused(NULL, the_regroup_thread, "by the Regroup thread");
    ranks_refused(NULL, a_named_thread, "by the thread that answers");
    ranks_refused(NULL, a_guarded_call, "with the engine's lock held");
    ranks_refused(NULL, allocation_between_marks, "the test forbids it");
    ranks_refused("exit strict\n", memory_at_the_end, "1 blocks of memory");
    return 0;
}
