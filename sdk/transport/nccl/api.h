/* The calls of the CUDA driver and of NCCL that Regroup uses, declared here, so
 * that neither is needed to build Regroup. Both libraries are opened when the
 * program runs (libraries.c), each with one table of calls.
 *
 * Types are as wide as those of cuda.h and nccl.h: enums are int, handles are
 * pointers to the same incomplete structs, a device address has 64 bits. If
 * these headers are present, tests/device compares every line with them. */
#ifndef RG_NCCL_API_H
#define RG_NCCL_API_H

#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------- CUDA */

typedef struct CUctx_st *rg__cu_context;
typedef struct CUstream_st *rg__cu_stream;
typedef struct CUmod_st *rg__cu_module;
typedef struct CUfunc_st *rg__cu_function;
typedef unsigned long long rg__cu_address;

/* Streams that exist without being created. */
#define RG__CU_LEGACY     ((rg__cu_stream)(intptr_t)1)
#define RG__CU_PER_THREAD ((rg__cu_stream)(intptr_t)2)

/* X(name, value): what calls return. */
#define RG__CU_RESULTS(X)                                                      \
    X(SUCCESS, 0)                                                              \
    X(ERROR_INVALID_VALUE, 1)                                                  \
    X(ERROR_OUT_OF_MEMORY, 2)                                                  \
    X(ERROR_NOT_INITIALIZED, 3)                                                \
    X(ERROR_DEINITIALIZED, 4)                                                  \
    X(ERROR_STUB_LIBRARY, 34)                                                  \
    X(ERROR_DEVICE_UNAVAILABLE, 46)                                            \
    X(ERROR_NO_DEVICE, 100)                                                    \
    X(ERROR_INVALID_DEVICE, 101)                                               \
    X(ERROR_INVALID_CONTEXT, 201)                                              \
    X(ERROR_ECC_UNCORRECTABLE, 214)                                            \
    X(ERROR_INVALID_HANDLE, 400)                                               \
    X(ERROR_NOT_FOUND, 500)                                                    \
    X(ERROR_NOT_READY, 600)                                                    \
    X(ERROR_ILLEGAL_ADDRESS, 700)                                              \
    X(ERROR_CONTEXT_IS_DESTROYED, 709)                                         \
    X(ERROR_LAUNCH_FAILED, 719)                                                \
    X(ERROR_NOT_PERMITTED, 800)                                                \
    X(ERROR_NOT_SUPPORTED, 801)                                                \
    X(ERROR_SYSTEM_NOT_READY, 802)                                             \
    X(ERROR_SYSTEM_DRIVER_MISMATCH, 803)                                       \
    X(ERROR_UNKNOWN, 999)

/* X(name, value): flags, attributes, and the values of attributes. */
#define RG__CU_CONSTANTS(X)                                                    \
    X(STREAM_NON_BLOCKING, 1)                                                  \
    X(STREAM_WRITE_VALUE_DEFAULT, 0)                                           \
    X(STREAM_CAPTURE_STATUS_NONE, 0)                                           \
    X(MEMHOSTALLOC_PORTABLE, 1)                                                \
    X(MEMHOSTALLOC_DEVICEMAP, 2)                                               \
    X(DEVICE_ATTRIBUTE_COMPUTE_MODE, 20)                                       \
    X(DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                                 \
    X(DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                           \
    X(DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                           \
    X(COMPUTEMODE_DEFAULT, 0)                                                  \
    X(COMPUTEMODE_PROHIBITED, 2)                                               \
    X(COMPUTEMODE_EXCLUSIVE_PROCESS, 3)                                        \
    X(POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                        \
    X(POINTER_ATTRIBUTE_IS_MANAGED, 8)                                         \
    X(POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                     \
    X(MEMORYTYPE_HOST, 1)                                                      \
    X(MEMORYTYPE_DEVICE, 2)

enum {
#define RG__X(name, value) RG__CU_##name = (value),
    RG__CU_RESULTS(RG__X) RG__CU_CONSTANTS(RG__X)
#undef RG__X
};

/* X(need, type, member, symbol, arguments). REQUIRED: a library without it is
 * refused. OPTIONAL: NULL if it is missing. Symbols are those of the library:
 * cuda.h gives some of them shorter names. */
#define RG__CUDA_CALLS(X)                                                      \
    X(REQUIRED, int, init, cuInit, (unsigned flags))                           \
    X(REQUIRED, int, driver_version, cuDriverGetVersion, (int *version_p))     \
    X(REQUIRED, int, error_name, cuGetErrorName,                               \
      (int result, const char **text_p))                                       \
    X(REQUIRED, int, error_string, cuGetErrorString,                           \
      (int result, const char **text_p))                                       \
    X(REQUIRED, int, device_count, cuDeviceGetCount, (int *n_p))               \
    X(REQUIRED, int, device_get, cuDeviceGet, (int *device_p, int ordinal))    \
    X(REQUIRED, int, device_name, cuDeviceGetName,                             \
      (char *text, int room, int device))                                      \
    X(REQUIRED, int, device_attribute, cuDeviceGetAttribute,                   \
      (int *value_p, int attribute, int device))                               \
    X(REQUIRED, int, device_bus, cuDeviceGetPCIBusId,                          \
      (char *text, int room, int device))                                      \
    X(REQUIRED, int, device_memory, cuDeviceTotalMem_v2,                       \
      (size_t * bytes_p, int device))                                          \
    X(REQUIRED, int, context_retain, cuDevicePrimaryCtxRetain,                 \
      (rg__cu_context * context_p, int device))                                \
    X(REQUIRED, int, context_release, cuDevicePrimaryCtxRelease_v2,            \
      (int device))                                                            \
    X(REQUIRED, int, context_set, cuCtxSetCurrent, (rg__cu_context context))   \
    X(REQUIRED, int, context_get, cuCtxGetCurrent,                             \
      (rg__cu_context * context_p))                                            \
    X(REQUIRED, int, context_device, cuCtxGetDevice, (int *device_p))          \
    X(REQUIRED, int, context_synchronize, cuCtxSynchronize, (void))            \
    X(REQUIRED, int, memory_info, cuMemGetInfo_v2,                             \
      (size_t * free_p, size_t * total_p))                                     \
    X(REQUIRED, int, memory_alloc, cuMemAlloc_v2,                              \
      (rg__cu_address * address_p, size_t bytes))                              \
    X(REQUIRED, int, memory_free, cuMemFree_v2, (rg__cu_address address))      \
    X(REQUIRED, int, memory_take, cuMemAllocAsync,                             \
      (rg__cu_address * address_p, size_t bytes, rg__cu_stream stream))        \
    X(REQUIRED, int, memory_give, cuMemFreeAsync,                              \
      (rg__cu_address address, rg__cu_stream stream))                          \
    X(REQUIRED, int, host_alloc, cuMemHostAlloc,                               \
      (void **memory_p, size_t bytes, unsigned flags))                         \
    X(REQUIRED, int, host_free, cuMemFreeHost, (void *memory))                 \
    X(REQUIRED, int, host_address, cuMemHostGetDevicePointer_v2,               \
      (rg__cu_address * address_p, void *memory, unsigned flags))              \
    X(REQUIRED, int, pointer_attribute, cuPointerGetAttribute,                 \
      (void *value, int attribute, rg__cu_address address))                    \
    X(REQUIRED, int, copy_in, cuMemcpyHtoDAsync_v2,                            \
      (rg__cu_address to, const void *from, size_t bytes,                      \
       rg__cu_stream stream))                                                  \
    X(REQUIRED, int, copy_out, cuMemcpyDtoHAsync_v2,                           \
      (void *to, rg__cu_address from, size_t bytes, rg__cu_stream stream))     \
    X(REQUIRED, int, copy_within, cuMemcpyDtoDAsync_v2,                        \
      (rg__cu_address to, rg__cu_address from, size_t bytes,                   \
       rg__cu_stream stream))                                                  \
    X(REQUIRED, int, set_bytes, cuMemsetD8Async,                               \
      (rg__cu_address to, unsigned char value, size_t n,                       \
       rg__cu_stream stream))                                                  \
    X(REQUIRED, int, stream_create, cuStreamCreateWithPriority,                \
      (rg__cu_stream * stream_p, unsigned flags, int priority))                \
    X(REQUIRED, int, stream_destroy, cuStreamDestroy_v2,                       \
      (rg__cu_stream stream))                                                  \
    X(REQUIRED, int, stream_query, cuStreamQuery, (rg__cu_stream stream))      \
    X(REQUIRED, int, stream_synchronize, cuStreamSynchronize,                  \
      (rg__cu_stream stream))                                                  \
    X(REQUIRED, int, stream_capturing, cuStreamIsCapturing,                    \
      (rg__cu_stream stream, int *status_p))                                   \
    X(REQUIRED, int, stream_write, cuStreamWriteValue32_v2,                    \
      (rg__cu_stream stream, rg__cu_address to, uint32_t value,                \
       unsigned flags))                                                        \
    X(REQUIRED, int, module_load, cuModuleLoadData,                            \
      (rg__cu_module * module_p, const void *image))                           \
    X(REQUIRED, int, module_function, cuModuleGetFunction,                     \
      (rg__cu_function * function_p, rg__cu_module module, const char *name))  \
    X(REQUIRED, int, launch, cuLaunchKernel,                                   \
      (rg__cu_function function, unsigned grid_x, unsigned grid_y,             \
       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,  \
       unsigned shared_bytes, rg__cu_stream stream, void **arguments,          \
       void **extra))

typedef struct rg__cuda {
#define RG__X(need, type, member, symbol, arguments) type(*member) arguments;
    RG__CUDA_CALLS(RG__X)
#undef RG__X
} rg__cuda;

/* ------------------------------------------------------------------- NCCL */

typedef struct ncclComm *rg__nccl_comm;

typedef struct rg__nccl_id {
    char bytes[128];
} rg__nccl_id;

/* X(name, value): what calls return. */
#define RG__NCCL_RESULTS(X)                                                    \
    X(Success, 0)                                                              \
    X(UnhandledCudaError, 1)                                                   \
    X(SystemError, 2)                                                          \
    X(InternalError, 3)                                                        \
    X(InvalidArgument, 4)                                                      \
    X(InvalidUsage, 5)                                                         \
    X(RemoteError, 6)                                                          \
    X(InProgress, 7)

/* X(name, value): operators and types. */
#define RG__NCCL_CONSTANTS(X)                                                  \
    X(Sum, 0)                                                                  \
    X(Prod, 1)                                                                 \
    X(Max, 2)                                                                  \
    X(Min, 3)                                                                  \
    X(Avg, 4)                                                                  \
    X(Int8, 0)                                                                 \
    X(Uint8, 1)                                                                \
    X(Int32, 2)                                                                \
    X(Uint32, 3)                                                               \
    X(Int64, 4)                                                                \
    X(Uint64, 5)                                                               \
    X(Float16, 6)                                                              \
    X(Float32, 7)                                                              \
    X(Float64, 8)                                                              \
    X(Bfloat16, 9)

enum {
#define RG__X(name, value) RG__NCCL_##name = (value),
    RG__NCCL_RESULTS(RG__X) RG__NCCL_CONSTANTS(RG__X)
#undef RG__X
};

/* As NCCL 2.28 has it. Older libraries read the fields that they know, newer
 * ones have more fields; both rely on size, magic and version. A field that is
 * not chosen is RG__NCCL_UNSET, or NULL. */
typedef struct rg__nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share, traffic_class;
    const char *comm_name;
    int collnet_enable, cta_policy, shrink_share, nvls_ctas;
    int channels_per_net_peer, nvlink_centric_sched;
} rg__nccl_config;

#define RG__NCCL_UNSET   ((int)0x80000000)
#define RG__NCCL_MAGIC   0xcafebeefu
#define RG__NCCL_LAYOUT  22809u /* the version that the struct is taken from */
#define RG__NCCL_MINIMUM 22200  /* several comms can be aborted together */
#define RG__NCCL_QUICK   22602  /* a kernel soon notices an abort */

#define RG__NCCL_CONFIG                                                        \
    {                                                                          \
        sizeof(rg__nccl_config), RG__NCCL_MAGIC, RG__NCCL_LAYOUT,              \
            RG__NCCL_UNSET, RG__NCCL_UNSET, RG__NCCL_UNSET, RG__NCCL_UNSET,    \
            NULL, RG__NCCL_UNSET, RG__NCCL_UNSET, NULL, RG__NCCL_UNSET,        \
            RG__NCCL_UNSET, RG__NCCL_UNSET, RG__NCCL_UNSET, RG__NCCL_UNSET,    \
            RG__NCCL_UNSET                                                     \
    }

#ifndef __cplusplus
_Static_assert(sizeof(rg__nccl_config) == 80, "ncclConfig_t of 2.28");
_Static_assert(offsetof(rg__nccl_config, blocking) == 16, "blocking");
_Static_assert(offsetof(rg__nccl_config, net_name) == 32, "netName");
_Static_assert(offsetof(rg__nccl_config, split_share) == 40, "splitShare");
_Static_assert(offsetof(rg__nccl_config, comm_name) == 48, "commName");
_Static_assert(offsetof(rg__nccl_config, shrink_share) == 64, "shrinkShare");
_Static_assert(offsetof(rg__nccl_config, nvlink_centric_sched) == 76,
               "nvlinkCentricSched");
_Static_assert(sizeof(rg__nccl_id) == 128, "ncclUniqueId");
_Static_assert(sizeof(rg__cu_address) == 8, "CUdeviceptr");
#endif

#define RG__NCCL_CALLS(X)                                                      \
    X(REQUIRED, int, version, ncclGetVersion, (int *version_p))                \
    X(REQUIRED, const char *, error_string, ncclGetErrorString, (int result))  \
    X(REQUIRED, const char *, last_error, ncclGetLastError,                    \
      (rg__nccl_comm comm))                                                    \
    X(REQUIRED, int, unique_id, ncclGetUniqueId, (rg__nccl_id * id_p))         \
    X(REQUIRED, int, comm_init, ncclCommInitRankConfig,                        \
      (rg__nccl_comm * comm_p, int n, rg__nccl_id id, int rank,                \
       rg__nccl_config *config))                                               \
    X(REQUIRED, int, comm_split, ncclCommSplit,                                \
      (rg__nccl_comm comm, int color, int key, rg__nccl_comm *comm_p,          \
       rg__nccl_config *config))                                               \
    X(REQUIRED, int, comm_error, ncclCommGetAsyncError,                        \
      (rg__nccl_comm comm, int *result_p))                                     \
    X(REQUIRED, int, comm_abort, ncclCommAbort, (rg__nccl_comm comm))          \
    X(REQUIRED, int, group_start, ncclGroupStart, (void))                      \
    X(REQUIRED, int, group_end, ncclGroupEnd, (void))                          \
    X(REQUIRED, int, allreduce, ncclAllReduce,                                 \
      (const void *send, void *recv, size_t n, int type, int op,               \
       rg__nccl_comm comm, rg__cu_stream stream))                              \
    X(REQUIRED, int, reduce, ncclReduce,                                       \
      (const void *send, void *recv, size_t n, int type, int op, int root,     \
       rg__nccl_comm comm, rg__cu_stream stream))                              \
    X(REQUIRED, int, broadcast, ncclBroadcast,                                 \
      (const void *send, void *recv, size_t n, int type, int root,             \
       rg__nccl_comm comm, rg__cu_stream stream))                              \
    X(REQUIRED, int, allgather, ncclAllGather,                                 \
      (const void *send, void *recv, size_t n, int type, rg__nccl_comm comm,   \
       rg__cu_stream stream))                                                  \
    X(REQUIRED, int, reduce_scatter, ncclReduceScatter,                        \
      (const void *send, void *recv, size_t n, int type, int op,               \
       rg__nccl_comm comm, rg__cu_stream stream))                              \
    X(REQUIRED, int, send, ncclSend,                                           \
      (const void *send, size_t n, int type, int peer, rg__nccl_comm comm,     \
       rg__cu_stream stream))                                                  \
    X(REQUIRED, int, recv, ncclRecv,                                           \
      (void *recv, size_t n, int type, int peer, rg__nccl_comm comm,           \
       rg__cu_stream stream))                                                  \
    X(OPTIONAL, int, comm_shrink, ncclCommShrink,                              \
      (rg__nccl_comm comm, int *excluded, int n, rg__nccl_comm *comm_p,        \
       rg__nccl_config *config, int flags))                                    \
    X(OPTIONAL, int, comm_revoke, ncclCommRevoke,                              \
      (rg__nccl_comm comm, int flags))

typedef struct rg__nccl {
#define RG__X(need, type, member, symbol, arguments) type(*member) arguments;
    RG__NCCL_CALLS(RG__X)
#undef RG__X
} rg__nccl;

#endif
