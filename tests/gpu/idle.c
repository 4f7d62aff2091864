/* A driver and an NCCL whose calls do nothing and take no time: what is left of
 * a launch, or of a commit, is Regroup's own. One library in the place of both;
 * of one rank alone, and never installed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "sdk/base/clock.h"
#include "sdk/transport/nccl/api.h"

#define API __attribute__((visibility("default")))

int nothing(void);
int nothing(void)
{
    return 0;
}

/* Callers pass arguments, which it leaves alone. */
#define NOTHING(symbol) API int symbol(void) __attribute__((alias("nothing")));
#define OF_CUDA(X)                                                             \
    X(cuInit)                                                                  \
    X(cuGetErrorName)                                                          \
    X(cuGetErrorString)                                                        \
    X(cuDeviceGetName)                                                         \
    X(cuDeviceGetAttribute)                                                    \
    X(cuDeviceGetPCIBusId)                                                     \
    X(cuDeviceTotalMem_v2)                                                     \
    X(cuDevicePrimaryCtxRelease_v2)                                            \
    X(cuCtxSetCurrent)                                                         \
    X(cuCtxSynchronize)                                                        \
    X(cuMemGetInfo_v2)                                                         \
    X(cuMemFree_v2)                                                            \
    X(cuMemAllocAsync)                                                         \
    X(cuMemFreeAsync)                                                          \
    X(cuMemFreeHost)                                                           \
    X(cuMemcpyHtoDAsync_v2)                                                    \
    X(cuMemcpyDtoHAsync_v2)                                                    \
    X(cuMemcpyDtoDAsync_v2)                                                    \
    X(cuMemsetD8Async)                                                         \
    X(cuStreamDestroy_v2)                                                      \
    X(cuStreamQuery)                                                           \
    X(cuStreamSynchronize)                                                     \
    X(cuStreamIsCapturing)                                                     \
    X(cuModuleLoadData)                                                        \
    X(cuModuleGetFunction)                                                     \
    X(cuLaunchKernel)
#define OF_NCCL(X)                                                             \
    X(ncclGetUniqueId)                                                         \
    X(ncclCommInitRankConfig)                                                  \
    X(ncclCommSplit)                                                           \
    X(ncclCommGetAsyncError)                                                   \
    X(ncclCommAbort)                                                           \
    X(ncclGroupStart)                                                          \
    X(ncclGroupEnd)                                                            \
    X(ncclAllReduce)                                                           \
    X(ncclReduce)                                                              \
    X(ncclBroadcast)                                                           \
    X(ncclAllGather)                                                           \
    X(ncclReduceScatter)                                                       \
    X(ncclSend)                                                                \
    X(ncclRecv)
OF_CUDA(NOTHING)
OF_NCCL(NOTHING)

/* --------------------------------------------------- what has to say something
 */

API int cuDriverGetVersion(int *version_p);
API int cuDeviceGetCount(int *n_p);
API int cuDeviceGet(int *device_p, int ordinal);
API int cuDevicePrimaryCtxRetain(rg__cu_context *context_p, int device);
API int cuCtxGetCurrent(rg__cu_context *context_p);
API int cuCtxGetDevice(int *device_p);
API int cuMemHostAlloc(void **memory_p, size_t bytes, unsigned flags);
API int cuMemAlloc_v2(rg__cu_address *address_p, size_t bytes);
API int cuMemHostGetDevicePointer_v2(rg__cu_address *address_p, void *memory,
                                     unsigned flags);
API int cuPointerGetAttribute(void *value, int attribute,
                              rg__cu_address address);
API int cuStreamCreateWithPriority(rg__cu_stream *stream_p, unsigned flags,
                                   int priority);
API int cuStreamWriteValue32_v2(rg__cu_stream stream, rg__cu_address to,
                                uint32_t value, unsigned flags);
API void idle_delay(int us);
API uint64_t idle_written_ns(void);
API int ncclGetVersion(int *version_p);
API const char *ncclGetErrorString(int result);
API const char *ncclGetLastError(rg__nccl_comm comm);

static char context; /* any address */

API int cuDriverGetVersion(int *version_p)
{
    *version_p = 13000;
    return 0;
}

API int cuDeviceGetCount(int *n_p)
{
    *n_p = 1;
    return 0;
}

API int cuDeviceGet(int *device_p, int ordinal)
{
    *device_p = ordinal;
    return 0;
}

API int cuDevicePrimaryCtxRetain(rg__cu_context *context_p, int device)
{
    (void)device;
    *context_p = (rg__cu_context)(void *)&context;
    return 0;
}

API int cuCtxGetCurrent(rg__cu_context *context_p)
{
    return cuDevicePrimaryCtxRetain(context_p, 0);
}

API int cuCtxGetDevice(int *device_p)
{
    return cuDeviceGet(device_p, 0);
}

API int cuMemHostAlloc(void **memory_p, size_t bytes, unsigned flags)
{
    (void)flags;
    *memory_p = calloc(bytes, 1);
    return *memory_p == NULL ? RG__CU_ERROR_OUT_OF_MEMORY : 0;
}

API int cuMemAlloc_v2(rg__cu_address *address_p, size_t bytes)
{
    void *memory = NULL;
    const int rc = cuMemHostAlloc(&memory, bytes, 0);
    *address_p = (uintptr_t)memory;
    return rc;
}

API int cuMemHostGetDevicePointer_v2(rg__cu_address *address_p, void *memory,
                                     unsigned flags)
{
    (void)flags;
    *address_p = (uintptr_t)memory;
    return 0;
}

API int cuPointerGetAttribute(void *value, int attribute,
                              rg__cu_address address)
{
    (void)attribute;
    (void)address;
    *(int *)value = 0; /* the only device's */
    return 0;
}

API int cuStreamCreateWithPriority(rg__cu_stream *stream_p, unsigned flags,
                                   int priority)
{
    (void)flags;
    (void)priority;
    *stream_p = (rg__cu_stream)(void *)&context;
    return 0;
}

/* ------------------------------------------------------- when a word is
 * written
 */

static int delay_us; /* behind the launch; 0: at once */
static _Atomic uint64_t written_ns;

typedef struct write {
    _Atomic uint32_t *at;
    uint32_t value;
    uint64_t when_ns;
} write;

API void idle_delay(int us)
{
    delay_us = us;
}

API uint64_t idle_written_ns(void)
{
    return atomic_load(&written_ns);
}

static void *write_later(void *arg)
{
    write *w = arg;
    while (rg__now_ns() < w->when_ns)
        continue;
    atomic_store(&written_ns, rg__now_ns());
    atomic_store(w->at, w->value);
    free(w);
    return NULL;
}

API int cuStreamWriteValue32_v2(rg__cu_stream stream, rg__cu_address to,
                                uint32_t value, unsigned flags)
{
    const write now = {(_Atomic uint32_t *)(uintptr_t)to, value, 0};
    pthread_t thread;
    (void)stream;
    (void)flags;
    if (delay_us == 0) {
        atomic_store(now.at, value);
        return 0;
    }
    write *later = malloc(sizeof *later);
    *later = now;
    later->when_ns = rg__now_ns() + (uint64_t)delay_us * 1000;
    if (pthread_create(&thread, NULL, write_later, later) == 0)
        pthread_detach(thread);
    return 0;
}

API int ncclGetVersion(int *version_p)
{
    *version_p = 22809;
    return 0;
}

API const char *ncclGetErrorString(int result)
{
    (void)result;
    return "nothing";
}

API const char *ncclGetLastError(rg__nccl_comm comm)
{
    (void)comm;
    return "nothing";
}
