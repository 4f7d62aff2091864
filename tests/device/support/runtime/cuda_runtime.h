/* CUDA C on the stand-in: what examples use of the CUDA runtime, and kernels
 * that run on the CPU. In place of nvcc, g++ compiles the same file with this
 * header, after one change to its text (rg_cuda_on_stand_in):
 *
 *     kernel<<<blocks, threads, 0, stream>>>(a, b);
 *     stand_in_launch({blocks, threads, 0, stream}, kernel, a, b);
 *
 * A launch is enqueued in the stand-in's stream, where a loop calls the kernel
 * once for each thread. Pointers among a kernel's arguments reach it as the
 * address at which the CPU may touch device memory (fake_reach); everywhere
 * else such memory is what it is on a GPU: out of the CPU's reach. So a program
 * that forgets to copy dies, and so does a kernel that finds a pointer to
 * device memory in a struct.
 *
 * Threads of a kernel run one after the other: it can have neither shared
 * memory nor __syncthreads. */
#ifndef TESTS_DEVICE_CUDA_RUNTIME_H
#define TESTS_DEVICE_CUDA_RUNTIME_H

#include <cmath>
#include <functional>

extern "C" {
#include "tests/device/support/calls.h"
#include "tests/device/support/fake.h"
}

#define __global__ static
#define __device__
#define __host__

/* What calls return, and a launch leaves for cudaGetLastError. */
typedef int cudaError_t;
enum { cudaSuccess = RG__CU_SUCCESS, cudaErrorInvalidConfiguration = 9 };
static thread_local cudaError_t stand_in_last_error;

/* ------------------------------------------------------------------- kernels
 */

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};

static thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

typedef struct CUstream_st *cudaStream_t;

struct stand_in_shape {
    dim3 blocks, threads;
    size_t shared = 0;
    cudaStream_t stream = nullptr;
};

/* What a kernel is given for an argument. */
template <class T> T stand_in_reach(T value)
{
    return value;
}

template <class T> T *stand_in_reach(T *at)
{
    return at ? (T *)fake_reach((uintptr_t)at, 1) : at;
}

template <class... P>
void stand_in_run(const stand_in_shape &s, void (*kernel)(P...), P... args)
{
    gridDim = s.blocks;
    blockDim = s.threads;
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
            for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
                for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
                    kernel(args...);
}

typedef std::function<void()> stand_in_work;

static inline void stand_in_do(void *arg)
{
    stand_in_work *work = static_cast<stand_in_work *>(arg);
    if (!fake_sticky())
        (*work)();
    delete work;
}

template <class... P, class... A>
void stand_in_launch(const stand_in_shape &s, void (*kernel)(P...), A... args)
{
    const dim3 &b = s.blocks, &t = s.threads;
    if (b.x * b.y * b.z == 0 || t.x * t.y * t.z == 0 || t.x * t.y * t.z > 1024)
        stand_in_last_error = cudaErrorInvalidConfiguration;
    else
        fake_launch(s.stream, stand_in_do, new stand_in_work([=] {
                        stand_in_run<P...>(s, kernel,
                                           stand_in_reach(P(args))...);
                    }));
}

/* --------------------------------------------------------------- the runtime
 */

typedef enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3
} cudaMemcpyKind;

static inline const char *cudaGetErrorString(cudaError_t rc)
{
    const char *text = NULL;
    return cuGetErrorString(rc, &text) == RG__CU_SUCCESS ? text : "unknown";
}

static inline cudaError_t cudaGetLastError(void)
{
    const cudaError_t rc = stand_in_last_error;
    stand_in_last_error = cudaSuccess;
    return fake_sticky() ? fake_sticky() : rc;
}

/* Regroup chooses a device by itself; a program without it needs this. */
static inline cudaError_t cudaSetDevice(int device)
{
    rg__cu_context context = NULL;
    cudaError_t rc = cuInit(0);
    if (rc == cudaSuccess)
        rc = cuDevicePrimaryCtxRetain(&context, device);
    return rc == cudaSuccess ? cuCtxSetCurrent(context) : rc;
}

template <class T> cudaError_t cudaMalloc(T **at_p, size_t bytes)
{
    rg__cu_address at = 0;
    const cudaError_t rc = cuMemAlloc_v2(&at, bytes);
    *at_p = (T *)(uintptr_t)at;
    return rc;
}

static inline cudaError_t cudaFree(void *at)
{
    return cuMemFree_v2((uintptr_t)at);
}

static inline cudaError_t cudaStreamCreate(cudaStream_t *stream_p)
{
    return cuStreamCreateWithPriority(stream_p, 0, 0);
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return cuStreamSynchronize(stream);
}

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from,
                                          size_t bytes, cudaMemcpyKind kind,
                                          cudaStream_t stream)
{
    const rg__cu_address to_at = (uintptr_t)to, from_at = (uintptr_t)from;
    return kind == cudaMemcpyHostToDevice
               ? cuMemcpyHtoDAsync_v2(to_at, from, bytes, stream)
           : kind == cudaMemcpyDeviceToHost
               ? cuMemcpyDtoHAsync_v2(to, from_at, bytes, stream)
               : cuMemcpyDtoDAsync_v2(to_at, from_at, bytes, stream);
}

static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes,
                                     cudaMemcpyKind kind)
{
    const cudaError_t rc = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    return rc == cudaSuccess ? cudaStreamSynchronize(NULL) : rc;
}

static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                                          cudaStream_t stream)
{
    return cuMemsetD8Async((uintptr_t)to, (unsigned char)value, bytes, stream);
}

#endif
