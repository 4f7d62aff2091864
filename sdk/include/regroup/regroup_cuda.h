/* Device memory: operations by NCCL in stream order, and what becomes of them
 * when the membership changes. Needs neither CUDA's headers nor its libraries
 * to compile or to link: both are opened when the program asks for a device.
 *
 * Threads:   any.
 * Ownership: devices, streams and device memory are the program's.
 *
 *     rg_device_open(ctx, NULL);                 before rg_run, on all workers
 *     rg_op_params p = {.size = sizeof p, .memory = RG_DEVICE, .stream = s};
 *     rg_allreduce_start(set, g, g, n, RG_F32, RG_SUM, &p, NULL);
 *
 * An operation with memory RG_DEVICE behaves like work in its stream: it runs
 * after what the stream already holds, and what is enqueued later sees its
 * result. The call returns when the operation is enqueued. The request is
 * optional: with req_p NULL none is made, and rg_device_wait or a commit waits
 * for the operation. Two sets run side by side, in whatever order ranks start
 * their operations; within one stream that order must be the same on all ranks.
 *
 * Operations on one set are started in the same order on all its ranks, with
 * the same kind, count, type, op, root, tag and scales, and all on device
 * memory; in gatherv, scatterv and alltoallv, what one rank sends another one
 * receives. Operations that differ wait for each other or end with a wrong
 * result, since NCCL compares nothing. Regroup compares them afterwards: before
 * each commit, as far as all members have come, and when an operation has
 * waited for REGROUP_STALL on every rank of the world. Then ranks get
 * ERR_MISMATCH, with the operation and the ranks in the sentence, and nothing
 * on the device goes on in this generation; a rank gets ERR_PEER_LOST instead
 * if fn has returned on another rank before this rank was told. An operation
 * that some ranks have not started at all is reported, and ended by its
 * deadline (timeout_ms).
 *
 * When a worker is lost, all operations under way on the device end within
 * milliseconds, and leave their buffers half done; a cudaStreamSynchronize that
 * waits for them returns. rg_wait, rg_device_wait and the next call return
 * ERR_PEER_LOST. The process, its context and its device memory live on, and fn
 * runs again with new communicators.
 *
 * RG_OK means less for a device operation than for one on host memory: if
 * another member leaves meanwhile, the operation may have ended with a wrong
 * result. Nothing counts before the end of the step: rg_state_commit waits for
 * the device, and succeeds only if no member has seen a failure. So use results
 * freely within the step, and print them or send them elsewhere only after its
 * commit.
 *
 * Kinds: allreduce, reduce, broadcast, allgather(v), reduce_scatter(v),
 * gather(v), scatter(v), alltoall(v) and barrier. Sums are rounded where NCCL
 * adds up, in the type of the elements. Averages of floats, prescale and
 * postscale are computed in float32, or in double for types with more bits, and
 * rounded once, as on host memory, by kernels of Regroup's own before and after
 * NCCL's: if the sum is the same, so is the result. A Regroup that was built
 * without clang has no kernels, and refuses only these. A prescale in reduce
 * and reduce_scatter, and an alltoall in place, need device memory for as many
 * elements while they run. The operations of a group (rg_group_start) on one
 * set and in one stream are one launch, which fuses nothing and completes as a
 * whole; none of them may use the result of another. ERR_UNSUPPORTED: joins,
 * since a rank that has joined is not told what the others start; LAND to BXOR,
 * and BOOL in reductions; a stream that is being captured into a graph.
 *
 * Device memory is registered by rg_state_add with memory RG_DEVICE in its
 * params, replicated or sharded, after rg_device_open. A commit waits for
 * everything that runs in the device's context, and saves this rank's part
 * through a few MiB of pinned memory; a restore, and rg_state_load, go the
 * other way. The host holds no second copy of a buffer, except while rank 0
 * sends its memory to the other ranks of a new job. Memory that is freed while
 * it is registered: ERR_INVALID with the buffer's name.
 *
 * The communicators of the world, and of sets with memory RG_DEVICE in their
 * params, are made again in each generation, before fn runs, and in
 * rg_world_wait if the device was opened before. Any other set is connected by
 * its first operation on device memory, and so is every set that is used before
 * rg_run when the device was opened after rg_world_wait. That operation waits
 * until all members start it, so order such calls like blocking ones. */
#ifndef REGROUP_CUDA_H
#define REGROUP_CUDA_H

#include "regroup/regroup.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *rg_stream; /* CUstream, cudaStream_t */

/* Instead of a stream: the buffers are ready now, and only rg_wait or
 * rg_device_wait tells when the operation has ended. */
#define RG_STREAM_NONE ((void *)(intptr_t)-1)

typedef struct rg_device_params {
    size_t size;
    int max_ctas;         /* blocks that one communicator may take; 0: NCCL's
                             choice */
    int init_timeout_ms;  /* to make the communicators of a generation; 0:
                             10000. After that the generation is broken */
    int abort_timeout_ms; /* 0: 10000. A device that has not stopped by then
                             ends this process with 71, and its slot starts
                             again */
    int in_flight; /* operations of a set that may be under way, 1 to 1024,
                      rounded up to a power of two; 0: 64. The next one waits
                      for the oldest */
} rg_device_params;

/* Use a device: the one that is current on the calling thread (cudaSetDevice);
 * if none is, the one with number rg_slot modulo the number of visible ones,
 * which becomes current. Opens the driver and NCCL, and retains the device's
 * primary context for the life of the process; local. Call it once, after
 * rg_init and before rg_run, on all workers of a job or on none. If an earlier
 * process of this slot still holds the device's memory, this call waits up to
 * 10 s for that to end.
 *
 * ERR_UNSUPPORTED: there is no driver, no device or no NCCL here, or one of
 * them is too old. ERR_INVALID: it was called before, or inside rg_run, or a
 * variable of NCCL is set that would mix generations (NCCL_COMM_ID).
 * ERR_DEVICE: the device refuses. */
RG_API rg_status rg_device_open(rg_ctx *ctx, const rg_device_params *params);

typedef struct rg_device_info {
    size_t size;   /* sizeof(rg_device_info), by the caller */
    int device;    /* among those that are visible, from 0 */
    int driver;    /* the CUDA version that the driver is for: 13000 is 13.0 */
    int nccl;      /* 22809 is 2.28.9 */
    char name[64]; /* of the device */
    char bus[16];  /* where it is: "0000:81:00.0" */
    uint64_t free_bytes, total_bytes; /* of its memory, now */
} rg_device_info;

/* ERR_INVALID: no device is open. */
RG_API rg_status rg_device_info_get(rg_ctx *ctx, rg_device_info *info_p);

/* Wait until everything that this worker has started on the device in this
 * generation has ended, and is right as far as this worker knows; other members
 * may still be working on it. timeout_ms as in rg_wait: IN_PROGRESS once it has
 * passed.
 * ERR_PEER_LOST, ERR_HOSTS_CHANGED: return it from fn. */
RG_API rg_status rg_device_wait(rg_ctx *ctx, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
