/* The stand-in for the driver: memory that the CPU may not touch, streams in
 * order and waiting for each other, queues that block, and errors that stay.
 *
 * Covers: support/stream.c cuda.c */
#include "tests/device/support/ranks.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 100000

/* ---------------------------------------------------------------------- memory
 */

static int signal_of_child_that(void (*touches)(char *), char *memory)
{
    int status = 0;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* also where a sanitizer has its own */
        touches(memory);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void reads(char *memory)
{
    *(volatile char *)memory;
}

static void writes(char *memory)
{
    *(volatile char *)memory = 1;
}

static void memory_is_out_of_reach(ranks *r)
{
    static char own[BYTES], got[BYTES];
    (void)r;
    for (int i = 0; i < BYTES; i++)
        own[i] = (char)(i % 251);
    char *device = ranks_put(own, BYTES);
    CHECK_EQ(signal_of_child_that(reads, device), SIGSEGV);
    CHECK_EQ(signal_of_child_that(writes, device), SIGSEGV);
    char *second = ranks_put(NULL, BYTES);
    CHECK_EQ(cuMemcpyDtoDAsync_v2((uintptr_t)second + 1, (uintptr_t)device,
                                  BYTES - 1, NULL),
             0);
    ranks_get(got, second, BYTES);
    CHECK(got[0] == 0 && memcmp(got + 1, own, BYTES - 1) == 0);
}

static void memory_is_counted(ranks *r)
{
    size_t before, after, total;
    rg__cu_address at, other;
    void *pinned;
    unsigned type = 0;
    (void)r;
    CHECK_EQ(cuMemGetInfo_v2(&before, &total), 0);
    CHECK_EQ(total, 2 << 20);
    CHECK_EQ(cuMemAlloc_v2(&at, BYTES), 0);
    CHECK_EQ(cuMemAlloc_v2(&other, total), RG__CU_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cuMemGetInfo_v2(&after, &total), 0);
    CHECK_EQ(before - after, BYTES);
    CHECK_EQ(
        cuPointerGetAttribute(&type, RG__CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at),
        0);
    CHECK_EQ(type, RG__CU_MEMORYTYPE_DEVICE);
    CHECK_EQ(cuMemHostAlloc(&pinned, BYTES, 0), 0);
    fake_holdings held;
    fake_held(&held);
    CHECK(held.blocks == 2 && held.device == BYTES && held.pinned == BYTES);
    CHECK_EQ(cuMemFree_v2(at), 0);
    CHECK_EQ(cuMemFreeHost(pinned), 0);
    fake_held(&held);
    CHECK_EQ(held.blocks, 0);
}

/* --------------------------------------------------------------------- streams
 */

typedef struct gate {
    _Atomic int is_open;
} gate;

static void stand_at(void *arg)
{
    gate *g = arg;
    while (!atomic_load(&g->is_open))
        usleep(200);
}

static uint32_t *pinned_word(rg__cu_address *at_p)
{
    void *word;
    CHECK_EQ(cuMemHostAlloc(&word, 4, RG__CU_MEMHOSTALLOC_DEVICEMAP), 0);
    CHECK_EQ(cuMemHostGetDevicePointer_v2(at_p, word, 0), 0);
    return word;
}

static rg__cu_stream stream(unsigned flags)
{
    rg__cu_stream s;
    CHECK_EQ(cuStreamCreateWithPriority(&s, flags, 0), 0);
    return s;
}

static void words_stand_behind_work(ranks *r)
{
    static gate g;
    rg__cu_address at;
    _Atomic uint32_t *word = (_Atomic uint32_t *)pinned_word(&at);
    CHECK_EQ(fake_launch(r->stream, stand_at, &g), 0);
    CHECK_EQ(cuStreamWriteValue32_v2(r->stream, at, 7, 0), 0);
    CHECK_EQ(cuStreamQuery(r->stream), RG__CU_ERROR_NOT_READY);
    CHECK_EQ(atomic_load(word), 0);
    atomic_store(&g.is_open, 1);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    CHECK_EQ(atomic_load(word), 7);
    CHECK_EQ(cuStreamQuery(r->stream), 0);
}

/* Only streams that block wait for the legacy one, and it for them. */
static void the_legacy_stream_stands_between(ranks *r)
{
    static gate g;
    rg__cu_address at;
    rg__cu_stream blocking = stream(0);
    _Atomic uint32_t *word = (_Atomic uint32_t *)pinned_word(&at);
    CHECK_EQ(fake_launch(blocking, stand_at, &g), 0);
    CHECK_EQ(cuStreamWriteValue32_v2(NULL, at, 1, 0), 0);
    CHECK_EQ(cuStreamWriteValue32_v2(stream(0), at, 2, 0), 0);
    CHECK_EQ(cuStreamSynchronize(r->stream), 0);
    CHECK_EQ(cuStreamQuery(RG__CU_LEGACY), RG__CU_ERROR_NOT_READY);
    CHECK_EQ(atomic_load(word), 0);
    atomic_store(&g.is_open, 1);
    CHECK_EQ(cuCtxSynchronize(), 0);
    CHECK_EQ(atomic_load(word), 2);
}

/* A thread of its own, and so with a context of its own. */
static void *fill(void *arg)
{
    static gate open = {1};
    rg__cu_context context;
    ranks *r = arg;
    CHECK_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(cuCtxSetCurrent(context), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(fake_launch(r->stream, stand_at, &open), 0);
        atomic_fetch_add(ranks_word(r, 0), 1);
    }
    return NULL;
}

/* `queue n=2`: the gate and one more fit. */
static void a_full_queue_blocks(ranks *r)
{
    static gate g;
    pthread_t thread;
    CHECK_EQ(fake_launch(r->stream, stand_at, &g), 0);
    CHECK(pthread_create(&thread, NULL, fill, r) == 0);
    ranks_await_word(ranks_word(r, 0), 1);
    usleep(20000);
    CHECK_EQ(atomic_load(ranks_word(r, 0)), 1);
    atomic_store(&g.is_open, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(atomic_load(ranks_word(r, 0)), 4);
}

/* ---------------------------------------------------------------------- errors
 */

static void errors_are_those_of_the_script(ranks *r)
{
    rg__cu_address at;
    int n = 0;
    (void)r;
    ranks_script("cuinit rc=802\ndevices n=2\nalloc oom ms=30\n");
    CHECK_EQ(cuInit(0), RG__CU_ERROR_SYSTEM_NOT_READY);
    CHECK_EQ(cuDeviceGetCount(&n), 0);
    CHECK_EQ(n, 2);
    CHECK_EQ(cuMemAlloc_v2(&at, 1), RG__CU_ERROR_OUT_OF_MEMORY);
    usleep(40000);
    CHECK_EQ(cuMemAlloc_v2(&at, 1), 0);
    ranks_script("sticky rc=719\n");
    CHECK_EQ(cuMemAlloc_v2(&at, 1), RG__CU_ERROR_LAUNCH_FAILED);
    ranks_script("");
    CHECK_EQ(cuCtxSynchronize(), RG__CU_ERROR_LAUNCH_FAILED);
}

static int in_child(void)
{
    int n, status = 0;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(cuDeviceGetCount(&n));
    CHECK(waitpid(pid, &status, 0) == pid);
    return WEXITSTATUS(status);
}

static void *without_context(void *arg)
{
    *(int *)arg = cuCtxSynchronize();
    return NULL;
}

static void processes_and_threads_begin_by_themselves(ranks *r)
{
    pthread_t thread;
    int rc = 0;
    (void)r;
    CHECK_EQ(in_child(), RG__CU_ERROR_NOT_INITIALIZED);
    CHECK(pthread_create(&thread, NULL, without_context, &rc) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(rc, RG__CU_ERROR_INVALID_CONTEXT);
}

int main(void)
{
    ranks_run(1, NULL, memory_is_out_of_reach);
    ranks_run(1, "memory n=2\n", memory_is_counted);
    ranks_run(1, NULL, words_stand_behind_work);
    ranks_run(1, NULL, the_legacy_stream_stands_between);
    ranks_run(1, "queue n=2\n", a_full_queue_blocks);
    ranks_run(1, NULL, errors_are_those_of_the_script);
    ranks_run(1, NULL, processes_and_threads_begin_by_themselves);
    return 0;
}
