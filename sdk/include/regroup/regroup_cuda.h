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
 * An operation with memory RG_DEVICE is as if enqueued in its stream: what the
 * stream holds before it runs before it, and what comes behind it in the stream
 * sees its result. The call returns when it is enqueued. The request is
 * optional: with req_p NULL none is made, and rg_device_wait or a commit sees
 * its end. Operations on one set are started in the same order on all its
 * ranks, with the same kind, count, type, op, root, tag and scales, and all on
 * device memory. Where they differ they wait for each other, or end with a
 * wrong result, since NCCL compares nothing. Regroup compares them beside it:
 * before each commit, as far as all members have come, and when something has
 * waited for REGROUP_STALL on every rank of the world. All are told
 * ERR_MISMATCH then, with the operation and the ranks, and nothing on the
 * device goes on in this generation. What some ranks have not started at all is
 * told of, and ended by its deadline (timeout_ms). So are the counts of
 * gatherv, scatterv and alltoallv. Two sets run side by side.
 *
 * When a worker is lost, all operations under way on the device end within
 * milliseconds, with whatever they have made of their buffers so far; so does
 * a cudaStreamSynchronize that waits for them. rg_wait, rg_device_wait and the
 * next call say ERR_PEER_LOST. The process, its context and its device memory
 * live on, and fn runs again with new communicators.
 *
 * OK of a device operation is weaker than of one on host memory: while another
 * member leaves, an operation may have ended with a wrong result. Nothing
 * counts before the step's end: rg_state_commit waits for the device, and
 * counts only if all members have come to it unharmed. So what a step computes
 * is the program's to use within the step, and to print or to send elsewhere
 * only behind its commit.
 *
 * Kinds: allreduce, reduce, broadcast, allgather(v), reduce_scatter(v),
 * gather(v), scatter(v), alltoall(v) and barrier. Sums are rounded where NCCL
 * adds up, in the type of the elements. Averages of floats, prescale and
 * postscale are computed in float32, or in double for what has more bits, and
 * rounded once, as on host memory, by kernels of Regroup's own before and
 * behind NCCL's: where the sum is the same, so is the result. A Regroup that
 * was built without clang has none, and refuses these alone. A prescale in
 * reduce and reduce_scatter, and an alltoall in place, need device memory for
 * as many elements while they run. Those of a group (rg_group_start) on one set
 * and in one stream are one launch, which fuses nothing and has one end; none
 * of them uses what another one makes. ERR_UNSUPPORTED: joins, since nobody
 * tells a rank that has joined what the others start; LAND to BXOR, and BOOL in
 * reductions; a stream that is being captured into a graph.
 *
 * Device memory is registered by rg_state_add with memory RG_DEVICE in its
 * params, replicated or sharded, behind rg_device_open. A commit waits for
 * everything that runs in the device's context, and saves what is this rank's
 * through a few MiB of pinned memory; a restore, and rg_state_load, go the
 * other way. No second copy of a buffer is held on the host, but for the moment
 * in which rank 0 sends its memory to the others of a new job. Memory that is
 * freed while it is registered: ERR_INVALID with the buffer's name.
 *
 * The communicators of the world, and of sets with memory RG_DEVICE in their
 * params, are made again in each generation, before fn runs, and in
 * rg_world_wait where the device was opened before it. Another set is connected
 * by its first operation on device memory, as is any set that is used between
 * rg_world_wait, a device opened behind it, and rg_run; the operation then
 * waits for all its members to start it: order these as you would order
 * blocking calls. */
#ifndef REGROUP_CUDA_H
#define REGROUP_CUDA_H

#include "regroup/regroup.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *rg_stream; /* CUstream, cudaStream_t */

/* As a stream: the buffers are ready now, and only rg_wait or rg_device_wait
 * says when the operation has ended. */
#define RG_STREAM_NONE ((void *)(intptr_t)-1)

typedef struct rg_device_params {
    size_t size;
    int max_ctas;         /* blocks that one communicator may take; 0: NCCL's
                             choice */
    int init_timeout_ms;  /* of the communicators of a generation; 0: 10000.
                             A generation that they take longer in is broken */
    int abort_timeout_ms; /* 0: 10000. A device that has not stopped by then
                             ends this process with 71, and its slot starts
                             again */
    int in_flight; /* operations of a set that may be under way, 1 to 1024,
                      rounded up to a power of two; 0: 64. One more waits for
                      the oldest */
} rg_device_params;

/* Use a device: the one that is current on the calling thread (cudaSetDevice),
 * and where none is, number rg_slot modulo the visible ones, which becomes
 * current. Opens the driver and NCCL, and retains the device's primary context
 * for the life of the process; local. Once, after rg_init and before
 * rg_run, by all workers of a job or by none. Where a process that was in this
 * slot before still holds the device's memory, waits up to 10 s for it.
 *
 * ERR_UNSUPPORTED: there is no driver, no device or no NCCL here, or one that
 * is too old. ERR_INVALID: called before or inside rg_run, or a variable of
 * NCCL is set that would mix generations (NCCL_COMM_ID). ERR_DEVICE: the device
 * refuses. */
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

/* Wait until what this worker has started on the device in this generation has
 * ended, and is right as far as this worker knows; other members may still be
 * at it. timeout_ms as of rg_wait: IN_PROGRESS when it is over first.
 * ERR_PEER_LOST, ERR_HOSTS_CHANGED: return it from fn. */
RG_API rg_status rg_device_wait(rg_ctx *ctx, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
