/* Regroup: process sets and elastic loops for jobs whose workers come and go.
 *
 * Threads:   every function may be called from any thread unless its comment
 *            says otherwise; one rg_state belongs to one thread at a time.
 * Ownership: what a function named create returns is owned by the caller and
 *            given back to the matching destroy; pointers returned by other
 *            functions are borrowed; the comments say until when.
 * Units:     sizes in bytes, counts in elements, times in the unit that ends
 *            the name (timeout_ms).
 *
 * Every function that can fail returns an rg_status. The enum, its text and
 * what the caller should do (rg_status_advice) come from one table below.
 * Outputs end in _p and are written only with RG_OK.
 *
 * Profilers: each function rg_x also has the name prg_x, as MPI_X has PMPI_X. A
 * tool that is linked before this library, or preloaded, defines rg_allreduce
 * and calls prg_allreduce, which it declares by extern __typeof__(rg_allreduce)
 * prg_allreduce. It sees the program's calls, and none of the library's own.
 */
#ifndef REGROUP_H
#define REGROUP_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RG_API __attribute__((visibility("default")))
#else
#define RG_API
#endif

#define RG_VERSION_MAJOR 0
#define RG_VERSION_MINOR 1
#define RG_VERSION_PATCH 0
#define RG_VERSION       "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- status */

/* What a function that can fail returns; a row is X(name, value, advice, text).
 * The advice is what the caller should do:
 *   NONE     go on
 *   RETRY    call again, nothing is lost
 *   FIX      the program is wrong; no peer is to blame
 *   RESYNC   leave fn; registered memory is as the last step end left it
 *   RESTORE  leave fn; registered memory goes back to the resume commit
 *   ABORT    this worker can't go on; clean up and exit
 */
#define RG_STATUS_MAP(X)                                                       \
    X(OK, 0, NONE, "success")                                                  \
    X(IN_PROGRESS, 1, RETRY, "not finished yet")                               \
    X(JOINING, 2, NONE, "the job runs already, and this worker joins it")      \
    X(ERR_INVALID, -1, FIX, "invalid argument or call")                        \
    X(ERR_MEMORY, -2, ABORT, "out of memory")                                  \
    X(ERR_SYSTEM, -3, ABORT, "a system call failed")                           \
    X(ERR_NOT_MEMBER, -4, FIX, "this rank is not a member of the set")         \
    X(ERR_UNSUPPORTED, -5, FIX, "not supported here")                          \
    X(ERR_MISMATCH, -6, FIX, "ranks disagree")                                 \
    X(ERR_SET_ENDED, -7, FIX, "the set ended with a lost member")              \
    X(ERR_NOT_FOUND, -8, NONE, "there is none")                                \
    X(ERR_TIMEOUT, -9, ABORT, "an operation passed its deadline")              \
    X(ERR_HOSTS_CHANGED, -20, RESYNC, "hosts changed")                         \
    X(ERR_PEER_LOST, -21, RESTORE, "a peer is lost")                           \
    X(ERR_REFUSED, -30, ABORT, "this worker was refused")                      \
    X(ERR_AGENT_LOST, -31, ABORT, "the agent is gone")                         \
    X(ERR_JOB_ENDED, -32, ABORT, "the job has ended")                          \
    X(ERR_STORE, -33, ABORT, "etcd can't be used")                             \
    X(ERR_DAMAGED, -34, ABORT, "what was stored is damaged")                   \
    X(ERR_ASKED_TO_LEAVE, -35, ABORT, "this worker is asked to leave")         \
    X(ERR_DEVICE, -36, ABORT, "the device can't be used")

typedef enum rg_status {
#define RG_X(name, value, advice, text) RG_##name = (value),
    RG_STATUS_MAP(RG_X)
#undef RG_X
} rg_status;

/* What the caller should do about a status; RG_STATUS_MAP explains each. */
typedef enum rg_advice {
    RG_ADVICE_NONE,
    RG_ADVICE_RETRY,
    RG_ADVICE_FIX,
    RG_ADVICE_RESYNC,
    RG_ADVICE_RESTORE,
    RG_ADVICE_ABORT
} rg_advice;

/* The text of a status, never NULL; a static string. */
RG_API const char *rg_status_text(rg_status status);

/* The name of a status as it stands in this header ("RG_ERR_INVALID"). */
RG_API const char *rg_status_name(rg_status status);

/* What the caller should do about a status. */
RG_API rg_advice rg_status_advice(rg_status status);

/* What main should return for the status of rg_run: 1 for an error, else 0; 0
 * also for a worker that was asked to leave, since nothing has gone wrong. */
RG_API int rg_exit_code(rg_status status);

/* The sentence that explains this thread's last error: object, action, cause,
 * remedy. Never NULL; borrowed until the thread's next call into Regroup. */
RG_API const char *rg_last_error(void);

/* The version of the loaded library: the RG_VERSION with which it was built. */
RG_API const char *rg_version(void);

/* --------------------------------------------------------------- context */

typedef struct rg_ctx rg_ctx;
typedef struct rg_set rg_set;
typedef struct rg_req rg_req;
typedef struct rg_state rg_state;
typedef struct rg_sampler rg_sampler;

/* Parameters of rg_init. Every params struct starts with its own size,
 * sizeof(struct) as the caller compiled it; a field that is zero has its
 * default, and NULL means all defaults. */
typedef struct rg_params {
    size_t size;
    int elastic; /* 0: static, the world forms in rg_init and the first failure
                    ends the job; 1: elastic, the world forms in rg_run, or
                    in rg_world_wait */
} rg_params;

/* Connect to the agent, if one started this process, and start the Regroup
 * thread. Without an agent and without a launcher the world is this process
 * alone. Static programs wait here until the world has formed; elastic ones
 * return at once, with no rank yet.
 *
 * ERR_REFUSED: the agent refused (another version, elastic on one worker and
 * static on another, a slot already taken), or a launcher such as mpirun or
 * srun says "several tasks" and there is no agent.
 *
 * A process has one world and one context. A program and libraries inside it
 * may each call rg_init, from any thread: all get the same context, and the
 * first one forms the world. Each calls rg_finalize once, and the last of these
 * calls leaves. A library passes NULL for params and takes the context as it
 * is. ERR_INVALID: params differ from those of the first call, or the last
 * rg_finalize has been called. Operations on the world match in start order,
 * whichever part of the program starts them, so a library makes a set of its
 * own. */
RG_API rg_status rg_init(const rg_params *params, rg_ctx **ctx_p);

/* Leave Regroup and free the context, its sets and its rg_alloc memory; local.
 * If several parts of this process have called rg_init, only the last
 * rg_finalize does so.
 * Requests in flight are aborted, and threads that wait for one return; no
 * other call may be under way. A rank that waits for one that has left gets
 * ERR_PEER_LOST; over MPI only with REGROUP_CHECK=late (regroup_mpi.h). ctx may
 * be NULL. ERR_INVALID: inside fn, where it does nothing. */
RG_API rg_status rg_finalize(rg_ctx *ctx);

/* Wait for the first world of an elastic program, before rg_run: ranks are
 * known and collectives work when this returns RG_OK, so that rank 0 can
 * download what all need, and broadcast it. Every worker of the program makes
 * this call at the same place, or none does (ERR_MISMATCH on all).
 *
 *   RG_OK       This worker is in the first generation. rg_run goes on in it,
 *               without another wait, and makes the first commit.
 *   RG_JOINING  The first commit has been made: the others are in fn. There is
 *               no rank yet. Skip what the first workers do before rg_run,
 *               collectives above all, and call rg_run.
 *
 * A worker that comes after the first generation has begun, and before the
 * first commit, waits for that commit. When the first generation breaks before
 * that commit, all its workers are killed and started again together, wherever
 * they are: nothing that they had begun counts, and this call forms the first
 * world again. Write a download to another name, and rename it when it is
 * complete. Only a worker that died itself uses up one of --max-restarts.
 *
 * A set that is made between this call and rg_run is made collectively; a
 * worker that joins declares the same sets in the same order.
 *
 * RG_OK at once: the call was made before, the program is static or runs alone,
 * or rg_run has returned RG_OK. ERR_INVALID: inside fn. ERR_PEER_LOST: it was
 * called again, and the first generation has ended: this process will be
 * ended. Other errors are those of rg_run: end the process. */
RG_API rg_status rg_world_wait(rg_ctx *ctx);

/* Rank and size of the world; ranks are kept by seniority. -1 in an elastic
 * program before rg_run (or rg_world_wait) and after an rg_run that failed.
 * After an rg_run that returned RG_OK they stay those of the last generation.
 */
RG_API int rg_rank(const rg_ctx *ctx);
RG_API int rg_size(const rg_ctx *ctx);
RG_API int rg_local_rank(const rg_ctx *ctx);
RG_API int rg_local_size(const rg_ctx *ctx);
RG_API int rg_host_index(const rg_ctx *ctx);
RG_API int rg_host_count(const rg_ctx *ctx);

/* The slot on this host, known from rg_init on and kept for life: choose a GPU
 * by it, since local ranks shift and slots don't. Without an agent: the local
 * rank. */
RG_API int rg_slot(const rg_ctx *ctx);

/* The name of this worker's host, borrowed until rg_finalize. */
RG_API const char *rg_host(const rg_ctx *ctx);

/* The current generation, from 1; 0 before the first one. */
RG_API uint64_t rg_generation(const rg_ctx *ctx);

/* ------------------------------------------------------------------ sets */

/* The set of all workers of the current generation, id 0; borrowed until
 * rg_finalize, the same handle in every generation. */
RG_API rg_set *rg_world(rg_ctx *ctx);

/* Where the elements of an operation, or of a registered buffer, are. */
typedef enum rg_memory {
    RG_HOST,
    RG_DEVICE /* on the device of rg_device_open (regroup_cuda.h) */
} rg_memory;

/* The name of a set, and what becomes of it when members are lost. */
typedef struct rg_set_params {
    size_t size;
    const char *name; /* copied; at most 31 bytes; NULL = "set<id>" */
    int keep; /* 1: when members are lost the set shrinks to those that live, in
                 their order, instead of ending; it ends with the last one */
    int unused;       /* never read: padding of older programs */
    rg_memory memory; /* RG_DEVICE: the set is connected for device memory when
                         it is made, and again in each generation before fn
                         runs; else by its first operation on device memory */
} rg_set_params;

/* Make a set of n world ranks, in the caller's order. Collective over the
 * world, for members and others alike, with equal arguments on all ranks. The
 * ranks are resolved once, to workers: a replacement is not a member, and the
 * set ends with a lost member (from then on every call on it returns
 * ERR_SET_ENDED), unless params->keep is set.
 *
 * In an elastic program, call it in one of two places, or after rg_world_wait
 * has returned RG_OK (a worker that joins then declares the set):
 *   inside fn      A set with a name is found again by that name and the same
 *                  ranks as long as it lives, whichever workers have those
 *                  ranks by then, so fn may run from its top again.
 *   before rg_run  Local: the call declares the set, which is made when the
 *                  first generation begins, from that generation's ranks,
 *                  before anything else happens in it. All workers declare the
 *                  same sets, otherwise rg_run returns ERR_MISMATCH; it returns
 *                  ERR_INVALID if the world lacks one of the ranks. A
 *                  newcomer's handle stands for the set that the others have,
 *                  found by name or by order.
 *
 * Two sets may have equal members; each has operations of its own. The caller
 * owns the set and gives it back to rg_set_destroy.
 * ERR_INVALID: a rank is out of range or given twice, n < 1, a set of this name
 * lives with other members, or 4094 sets live. ERR_MISMATCH: the arguments of
 * the ranks differ. */
RG_API rg_status rg_set_create(rg_ctx *ctx, const int *ranks, int n,
                               const rg_set_params *params, rg_set **set_p);

/* The colour of the calling worker: 0 or more, or RG_NO_COLOR for a worker that
 * is in no set of the rule or split. The function may ask ctx for rank, host,
 * slot and the like, and must not call anything collective. */
#define RG_NO_COLOR (-1)
typedef int (*rg_color_fn)(rg_ctx *ctx, void *arg);

/* Make sets by a rule: workers of equal colour form one set, in the order of
 * their world ranks, and each worker gets the set of its own colour. A worker
 * with RG_NO_COLOR gets a set of which it is not a member. Collective over the
 * world. The rule is applied again in every generation, before anything else
 * happens in it, so the set never ends: handle, id and name stay, and members
 * may change. The sets of all colours have the same id and name. arg is
 * borrowed until rg_set_destroy. As with rg_set_create, a name lets fn run from
 * its top, and the rule may be declared before rg_run; a newcomer then has the
 * set from the start, otherwise it joins the rule when it makes this call.
 * params->keep has no meaning here. */
RG_API rg_status rg_set_create_by(rg_ctx *ctx, rg_color_fn color, void *arg,
                                  const rg_set_params *params, rg_set **set_p);

/* Make sets once: workers of equal colour form one set, in the order of their
 * keys, and of their world ranks where keys are equal. Collective over the
 * world. The result is a set as rg_set_create makes it: the set of a colour
 * ends with a lost member, or shrinks, while those of other colours go on. It
 * is found again by its name if colours and keys give it the same members.
 * ERR_INVALID: before rg_run, or a set of this name lives with other members on
 * some rank; destroy that set first. */
RG_API rg_status rg_set_split(rg_ctx *ctx, int color, int key,
                              const rg_set_params *params, rg_set **set_p);

/* Give a set back; local. No operation may be in flight on it. NULL is allowed.
 * ERR_INVALID: it is the world, has operations in an open group, or a reducer
 * has not been destroyed. */
RG_API rg_status rg_set_destroy(rg_set *set);

/* The caller's rank in the set (-1: not a member, or the set has ended), and
 * the set's size, id and name. For a set that is declared but not yet made:
 * -1, 0, 0, and its name or "". */
RG_API int rg_set_rank(const rg_set *set);
RG_API int rg_set_size(const rg_set *set);
RG_API uint32_t rg_set_id(const rg_set *set);
RG_API const char *rg_set_name(const rg_set *set);

/* Translate ranks of one set into ranks of another: out[i] is the rank in `to`
 * of rank ranks[i] of `from`, or -1 if that worker is not a member of `to`.
 * Local; rg_world(ctx) stands for world ranks. ERR_INVALID: `from` has no such
 * rank, or there is no generation yet. */
RG_API rg_status rg_set_translate(const rg_set *from, const int *ranks, int n,
                                  const rg_set *to, int *out);

/* One set in the list of rg_set_list. */
typedef struct rg_set_info {
    uint32_t id;
    char name[32];
    int size;
    int rank; /* -1: not a member */
} rg_set_info;

/* List the sets that live in this process, the world first, ordered by id:
 * info receives the first `room` of them, *n_p their number. Local. */
RG_API rg_status rg_set_list(rg_ctx *ctx, rg_set_info *info, int room,
                             int *n_p);

/* ----------------------------------------------------------- collectives */

/* The type of an element. BOOL is one byte, 0 or 1 (any other value counts as
 * 1). F16 is IEEE half precision, BF16 the upper half of a float. The last six
 * are pairs for MINLOC and MAXLOC, a value and an index, laid out as the
 * structs below and as MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_2INT, MPI_LONG_INT,
 * MPI_2REAL and MPI_2DOUBLE_PRECISION; in host memory only. */
typedef enum rg_type {
    RG_U8,
    RG_I32,
    RG_I64,
    RG_F32,
    RG_F64,
    RG_I8,
    RG_U32,
    RG_U64,
    RG_F16,
    RG_BF16,
    RG_BOOL,
    RG_F32_I32,
    RG_F64_I32,
    RG_I32_I32,
    RG_I64_I32,
    RG_F32_F32,
    RG_F64_F64
} rg_type;

typedef struct rg_f32_i32 {
    float value;
    int32_t index;
} rg_f32_i32;

typedef struct rg_f64_i32 {
    double value;
    int32_t index;
} rg_f64_i32;

typedef struct rg_i32_i32 {
    int32_t value, index;
} rg_i32_i32;

typedef struct rg_i64_i32 {
    int64_t value;
    int32_t index;
} rg_i64_i32;

typedef struct rg_f32_f32 {
    float value, index;
} rg_f32_f32;

typedef struct rg_f64_f64 {
    double value, index;
} rg_f64_f64;

/* The operation of a reduction. Which op goes with which type:
 *
 *                   integers   floats   BOOL                             pairs
 *   SUM AVG PROD    yes        yes      ERR_INVALID (use LOR, LAND, LXOR)  -
 *   MIN MAX         yes        yes      yes (and, or)                      -
 *   LAND LOR LXOR   yes        -        yes   of "is not 0"; 0 or 1        -
 *   BAND BOR BXOR   yes        -        yes                                -
 *   MINLOC MAXLOC   -          -        -                                  yes
 *
 * MINLOC and MAXLOC give the pair with the least or the greatest value, and
 * among equal values the one with the lowest index. They and MIN and MAX of
 * floats prefer a NaN to any number, so all ranks learn that there is one, and
 * of pairs where; in sets of more than 64 members over MPI, MPI decides about
 * NaN, and in device memory NCCL does. Pairs take no scale; pairs in device
 * memory are ERR_UNSUPPORTED.
 *
 * AVG is the sum divided by the size of the set; integers are truncated. Sums
 * and products of integers wrap. All ranks get equal bits. F16 and BF16 are
 * computed in float32 and rounded once on each host, once more for each further
 * host, and there once more for AVG or a postscale. An average of F16 is finite
 * even if the sum is beyond the range of F16. */
typedef enum rg_op {
    RG_SUM,
    RG_AVG,
    RG_MIN,
    RG_MAX,
    RG_PROD,
    RG_LAND,
    RG_LOR,
    RG_LXOR,
    RG_BAND,
    RG_BOR,
    RG_BXOR,
    RG_MINLOC,
    RG_MAXLOC
} rg_op;

/* Bytes of one element, 0 for an unknown type. */
RG_API size_t rg_type_size(rg_type type);

/* 1 when the op goes with the type, else 0. */
RG_API int rg_op_has(rg_op op, rg_type type);

/* What an operation may be told besides its arguments. */
typedef struct rg_op_params {
    size_t size;
    int root;        /* rank in the set: broadcast, reduce, gather, scatter */
    int timeout_ms;  /* 0: none. See "Deadlines" */
    double prescale; /* of reductions: every element is multiplied by it before,
                        0 meaning 1; the product is computed in double and
                        rounded once: f32 and f64 to nearest (f16 and bf16 to
                        f32, and to their own type when the operation ends),
                        integers truncated to the nearest value of the type */
    double postscale; /* likewise, of the result (after AVG's division) */
    uint64_t tag; /* the program's own, such as a step or the hash of a name;
                     compared like the count: ERR_MISMATCH where it differs. A
                     message goes to the receive with an equal tag */
    rg_memory memory; /* of send and recv; the same on all ranks */
    void *stream;     /* RG_DEVICE: the CUstream or cudaStream_t that the
                         operation runs in (regroup_cuda.h); NULL: the default
                         stream */
} rg_op_params;

/* A function whose name ends in _start starts a collective on a set, and
 * rg_wait ends it; the form without _start does both, and is not for groups.
 * Collective over the set's members; operations on one set match in start
 * order, as in MPI and NCCL. Every operation makes progress without its caller,
 * and no set waits for another. Buffers belong to the library until the request
 * has completed; arrays of counts and places are copied. The request belongs to
 * the generation that started it. Counts and places are in elements, and may
 * exceed 2^31.
 *
 * In place: send == recv where both have equal length (allreduce, reduce,
 * alltoall with equal counts and places); else send is this rank's own part of
 * recv (allgather, gather at the root), or recv this rank's own part of send
 * (reduce_scatter, scatter at the root). rg_allgather takes send == recv too:
 * it sends the data at the start of recv, and moves them to their part. Other
 * overlaps are ERR_INVALID.
 *
 * Arrays of places (where a rank's part begins) may be NULL: parts then follow
 * each other in rank order. Parts of one recv must not overlap.
 *
 * Unknown sizes: rg_allgather of one U64 count before an allgatherv, and
 * rg_alltoall of the counts before an alltoallv, tell every rank what it will
 * receive, and so what to allocate; rg_gather before a gatherv and rg_scatter
 * before a scatterv likewise, and rg_broadcast of a count before a broadcast.
 *
 * ERR_INVALID: there is no generation yet (call it inside rg_run's fn), a NULL
 * buffer with count > 0, an unknown type, or an op that the type does not have.
 * ERR_INVALID and ERR_MEMORY are returned at once. A call that is refused on
 * one rank counts as an operation there: the other members, which have started
 * theirs, do not wait for it but get ERR_MISMATCH, which names the rank and its
 * status. On device memory (NCCL) they do wait, until their deadline.
 * ERR_MISMATCH: members started different operations, one rank's call was
 * refused, or one rank sends another count than its peer receives; every member
 * gets it, no byte was written, and the set stays usable.
 * ERR_PEER_LOST, ERR_HOSTS_CHANGED: return it from fn. The contents of buffers
 * in flight are undefined.
 *
 * Deadlines. An operation that has not completed timeout_ms after its start is
 * given up by all members. Under an agent, this worker reports the missing
 * ranks as the reason to end the generation: every member gets ERR_PEER_LOST,
 * an elastic job goes on in a new generation (with the same workers if none
 * is dead), and a static job ends. Without an agent, this operation and all
 * others on the set end with ERR_TIMEOUT here, this rank can't use the set any
 * more, and its peers wait until their own deadlines.
 * After ERR_TIMEOUT the buffers belong to the library until rg_finalize. Over
 * MPI, where a nonblocking operation can't be cancelled, they belong to the
 * library until MPI_Finalize; so do the buffers of operations in flight when
 * their set or the context is given back, and of those that end with
 * ERR_MISMATCH under REGROUP_CHECK=late (regroup_mpi.h). */

/* Reduce count elements of every rank; every rank receives the result. */
RG_API rg_status rg_allreduce_start(rg_set *set, const void *send, void *recv,
                                    uint64_t count, rg_type type, rg_op op,
                                    const rg_op_params *params, rg_req **req_p);

/* Reduce count elements of every rank. The result is at the root only;
 * elsewhere recv is not used. */
RG_API rg_status rg_reduce_start(rg_set *set, const void *send, void *recv,
                                 uint64_t count, rg_type type, rg_op op,
                                 const rg_op_params *params, rg_req **req_p);

/* Reduce, and cut the result into equal parts. send holds count x set size
 * elements; part r of the result goes to rank r, count elements for each. */
RG_API rg_status rg_reduce_scatter_start(rg_set *set, const void *send,
                                         void *recv, uint64_t count,
                                         rg_type type, rg_op op,
                                         const rg_op_params *params,
                                         rg_req **req_p);

/* Reduce, and cut the result into parts of any sizes: counts[r] elements for
 * rank r; send holds all of them, one part after the other. counts has the
 * set's size and is equal on all ranks. */
RG_API rg_status rg_reduce_scatterv_start(rg_set *set, const void *send,
                                          void *recv, const uint64_t *counts,
                                          rg_type type, rg_op op,
                                          const rg_op_params *params,
                                          rg_req **req_p);

/* Copy the root's data to all ranks: count elements, read at the root and
 * written elsewhere. */
RG_API rg_status rg_broadcast_start(rg_set *set, void *data, uint64_t count,
                                    rg_type type, const rg_op_params *params,
                                    rg_req **req_p);

/* Bring equal parts of all ranks together on every rank. send holds count
 * elements, recv holds count x set size, in set-rank order. */
RG_API rg_status rg_allgather_start(rg_set *set, const void *send, void *recv,
                                    uint64_t count, rg_type type,
                                    const rg_op_params *params, rg_req **req_p);

/* Bring parts of any sizes together on every rank. Rank r gives counts[r]
 * elements, which every rank receives at places[r]. counts is equal on all
 * ranks, and count is counts[own rank]. */
RG_API rg_status rg_allgatherv_start(rg_set *set, const void *send,
                                     uint64_t count, void *recv,
                                     const uint64_t *counts,
                                     const uint64_t *places, rg_type type,
                                     const rg_op_params *params,
                                     rg_req **req_p);

/* Bring equal parts of all ranks together at the root. send holds count
 * elements; at the root recv holds count x set size, in set-rank order;
 * elsewhere recv is not used. */
RG_API rg_status rg_gather_start(rg_set *set, const void *send, void *recv,
                                 uint64_t count, rg_type type,
                                 const rg_op_params *params, rg_req **req_p);

/* Bring parts of any sizes together at the root. This rank gives count
 * elements; at the root counts[r] elements from rank r are stored at places[r].
 * Elsewhere recv, counts and places are not used. */
RG_API rg_status rg_gatherv_start(rg_set *set, const void *send, uint64_t count,
                                  void *recv, const uint64_t *counts,
                                  const uint64_t *places, rg_type type,
                                  const rg_op_params *params, rg_req **req_p);

/* Deal the root's data out in equal parts. The root's send holds count x set
 * size elements, of which rank r gets the r-th part; elsewhere send is not
 * used. */
RG_API rg_status rg_scatter_start(rg_set *set, const void *send, void *recv,
                                  uint64_t count, rg_type type,
                                  const rg_op_params *params, rg_req **req_p);

/* Deal the root's data out in parts of any sizes. This rank gets count
 * elements; at the root the counts[r] elements for rank r begin at places[r].
 * Elsewhere send, counts and places are not used. */
RG_API rg_status rg_scatterv_start(rg_set *set, const void *send,
                                   const uint64_t *counts,
                                   const uint64_t *places, void *recv,
                                   uint64_t count, rg_type type,
                                   const rg_op_params *params, rg_req **req_p);

/* Exchange equal parts between all ranks. Part r of send goes to rank r, part r
 * of recv comes from rank r; count elements in each. */
RG_API rg_status rg_alltoall_start(rg_set *set, const void *send, void *recv,
                                   uint64_t count, rg_type type,
                                   const rg_op_params *params, rg_req **req_p);

/* Exchange parts of any sizes between all ranks, with counts and places for
 * each rank. Rank b must receive from rank a as many elements as a sends to
 * b. */
RG_API rg_status rg_alltoallv_start(rg_set *set, const void *send,
                                    const uint64_t *send_counts,
                                    const uint64_t *send_places, void *recv,
                                    const uint64_t *recv_counts,
                                    const uint64_t *recv_places, rg_type type,
                                    const rg_op_params *params, rg_req **req_p);

/* Wait for all members: the barrier completes once every member has started
 * it. */
RG_API rg_status rg_barrier_start(rg_set *set, const rg_op_params *params,
                                  rg_req **req_p);

/* Join: this rank has no more data. Until every member has joined, it takes
 * part in the allreduces of the others (grouped ones too) without adding
 * anything; AVG still divides by the size of the set. Completes when all
 * members have joined. *last_p (may be NULL) is then the rank that joined last,
 * the same on all ranks; the highest one if several joined at once.
 * While a rank has joined, any collective but an allreduce on the set returns
 * ERR_MISMATCH to the ranks that started it, and the join goes on; in a group
 * the operations after it get the same, except those that run as one with an
 * allreduce before it. Prescale is allowed with SUM and AVG only
 * (ERR_UNSUPPORTED). */
RG_API rg_status rg_join_start(rg_set *set, int *last_p,
                               const rg_op_params *params, rg_req **req_p);

/* Send count elements to rank `peer` of the set, or receive at most count
 * elements from it. Only the two ranks take part. A message and a receive match
 * by set, peer and tag (params->tag, equal on both sides); messages of one set,
 * peer and tag arrive in the order of their starts. A rank may have many
 * messages in flight, and send to itself. No message waits for a collective of
 * the set, or for a message with another tag.
 *
 * A send has completed when data may be used again. A message of at most 8 KiB
 * may still be on its way then, and no receive needs to have been started: the
 * receiver keeps up to 32 KiB of such messages from each sender, a message
 * counting 32 bytes more than its data. A longer message, or one beyond those
 * 32 KiB, waits for its receive; so two ranks that send to each other first,
 * and receive then, must use rg_send_start. The first message to a rank of
 * another host also waits until that rank starts or waits for any operation.
 *
 * *count_p (may be NULL) is the number of elements that arrived, at most count.
 * ERR_MISMATCH, at the receiver only: the message is longer than count, or of
 * another type; nothing was written, and the message is gone. ERR_PEER_LOST
 * also when the peer leaves. ERR_UNSUPPORTED: device memory. ERR_INVALID: no
 * such rank, or in an open group. A message that is not received before its
 * generation ends, or its set is destroyed, is thrown away.
 */
RG_API rg_status rg_send_start(rg_set *set, const void *data, uint64_t count,
                               rg_type type, int peer,
                               const rg_op_params *params, rg_req **req_p);
RG_API rg_status rg_recv_start(rg_set *set, void *data, uint64_t count,
                               rg_type type, int peer, uint64_t *count_p,
                               const rg_op_params *params, rg_req **req_p);

/* A group: between these two calls, the thread's *_start calls on sets of ctx
 * are only noted; rg_group_end starts all of them, or none. If one of the calls
 * failed, every request of the group ends with that error; if ranks group
 * different operations on a set, every request on that set does.
 * Small allreduces of equal type, op and scale on one set run as one operation,
 * even if other operations lie between them. The results are those of the
 * single operations; over MPI, floats may be added or multiplied in another
 * order, but all ranks still get equal bits.
 * Wait for the requests after rg_group_end: before it, rg_wait returns
 * IN_PROGRESS at once, and the blocking forms below return ERR_INVALID, which
 * fails the group. Deadlines count from rg_group_end. Groups don't nest
 * (ERR_INVALID). An empty group is allowed.
 * Noted operations belong to their generation: after a change, rg_group_end
 * returns the status with which that generation was left. A group that is still
 * open when fn returns ends with fn's status (ERR_INVALID if that is RG_OK),
 * and with ERR_INVALID when its thread calls rg_finalize. */
RG_API rg_status rg_group_start(rg_ctx *ctx);
RG_API rg_status rg_group_end(rg_ctx *ctx);

/* Wait for a request. timeout_ms < 0 waits without limit, 0 looks once. After
 * IN_PROGRESS, request and buffers stay in flight; after every other status the
 * request is gone and *req_p is NULL. ERR_INVALID: *req_p is NULL. */
RG_API rg_status rg_wait(rg_req **req_p, int timeout_ms);

/* rg_wait with timeout 0. */
RG_API rg_status rg_test(rg_req **req_p);

/* Wait for all n requests; NULL entries count as complete. Once none is in
 * flight, returns the first error in array order, or RG_OK; IN_PROGRESS before.
 */
RG_API rg_status rg_wait_all(rg_req **reqs, int n, int timeout_ms);

/* The blocking forms: start, and wait without limit. With a group open on this
 * thread: ERR_INVALID, and the group fails. */
RG_API rg_status rg_allreduce(rg_set *set, const void *send, void *recv,
                              uint64_t count, rg_type type, rg_op op);
RG_API rg_status rg_reduce(rg_set *set, const void *send, void *recv,
                           uint64_t count, rg_type type, rg_op op, int root);
RG_API rg_status rg_reduce_scatter(rg_set *set, const void *send, void *recv,
                                   uint64_t count, rg_type type, rg_op op);
RG_API rg_status rg_broadcast(rg_set *set, void *data, uint64_t count,
                              rg_type type, int root);
RG_API rg_status rg_allgather(rg_set *set, const void *send, void *recv,
                              uint64_t count, rg_type type);
RG_API rg_status rg_gather(rg_set *set, const void *send, void *recv,
                           uint64_t count, rg_type type, int root);
RG_API rg_status rg_scatter(rg_set *set, const void *send, void *recv,
                            uint64_t count, rg_type type, int root);
RG_API rg_status rg_alltoall(rg_set *set, const void *send, void *recv,
                             uint64_t count, rg_type type);
RG_API rg_status rg_barrier(rg_set *set);
RG_API rg_status rg_join(rg_set *set, int *last_p);
RG_API rg_status rg_send(rg_set *set, const void *data, uint64_t count,
                         rg_type type, int peer, uint64_t tag);
RG_API rg_status rg_recv(rg_set *set, void *data, uint64_t count, rg_type type,
                         int peer, uint64_t tag, uint64_t *count_p);

/* Called by the blocking forms in programs that were built with 0.1.0. */
RG_API rg_status rg__group_refuse(rg_req **req_p);

/* ---------------------------------------------------------------- memory */

/* Parameters of rg_alloc: none so far. */
typedef struct rg_alloc_params {
    size_t size;
} rg_alloc_params;

/* Memory that collectives read in place between workers of one host, without a
 * copy: zeroed, 64-byte aligned, kept through generations, not inherited by
 * fork. Local; each call makes one shared segment, so allocate few and large.
 * ERR_MEMORY. */
RG_API rg_status rg_alloc(rg_ctx *ctx, size_t bytes,
                          const rg_alloc_params *params, void **p_p);

/* Give rg_alloc memory back. No operation may be in flight on it. NULL is
 * allowed; ERR_INVALID for any other pointer that rg_alloc did not return. */
RG_API rg_status rg_free(rg_ctx *ctx, void *p);

/* Let collectives read a buffer of the program's own memory in place, as they
 * do rg_alloc memory: its whole pages become shared memory at the same address,
 * with the same contents. Operations on any part of it gain from 16 KiB on,
 * between workers of one host; if no other worker can map it (a world of one,
 * transport mpi without an agent), or it is below 64 KiB, it stays as it is and
 * the call succeeds. Local.
 *
 * The buffer is borrowed until rg_unregister or rg_finalize, and kept through
 * generations. During this call and rg_unregister no operation may be in flight
 * on it, and no other thread or device may write it; a device that has pinned
 * its pages loses them. It may begin anywhere, and the memory around it is left
 * alone. A child of fork sees what its parent writes until it writes a page
 * itself, and what it writes is its own.
 *
 * Memory that is freed before rg_unregister, all of it or a part, is ordinary
 * memory again for collectives; the segment behind it is held until
 * rg_unregister, which returns ERR_INVALID then.
 *
 * ERR_INVALID: memory other than malloc's and the like (on a stack, of a file
 * or a device, shared, locked, in huge pages of hugetlb, not writable), or a
 * part of it is registered already. ERR_MEMORY: there is no room for a second
 * copy, which this call needs. The buffer is then as it was. */
RG_API rg_status rg_register(rg_ctx *ctx, void *p, size_t bytes);

/* Give a registered buffer, by its first byte, pages of its own again. NULL is
 * allowed. ERR_INVALID: it is not registered, or was freed before. ERR_MEMORY:
 * it stays registered. */
RG_API rg_status rg_unregister(rg_ctx *ctx, void *p);

/* --------------------------------------------------------------- reducer
 * The gradients of a training step, reduced while backward is still running:
 *
 *     for (int i = 0; i < n; i++)
 *         rg_reducer_add(reducer, name[i], grad[i], count[i], RG_F32, NULL);
 *     ...
 *     rg_reducer_start_step(reducer);
 *     for (int i = n - 1; i >= 0; i--) {     backward
 *         compute(grad[i]);
 *         rg_reducer_ready(reducer, i);
 *     }
 *     rg_reducer_finish(reducer);            grad[] are the averages
 *
 * Tensors are put together in buckets, and a bucket is reduced as soon as all
 * of its tensors are ready and the buckets before it have started. In the first
 * step the last tensor comes first. The order in which rank 0 of the set then
 * had its tensors ready is the plan that all ranks follow from the next step
 * on. The plan is made again in each generation, and when rank 0 has had one
 * and the same other order in eight steps in a row. */

typedef struct rg_reducer rg_reducer;

/* How tensors of F32 and F64 travel between ranks; other types travel as they
 * are. */
typedef enum rg_compression {
    RG_COMPRESS_NONE,
    RG_COMPRESS_F16,  /* added up in float32; beyond 65504 it is infinite */
    RG_COMPRESS_BF16, /* likewise, in the range of float32 */
    RG_COMPRESS_TOP_K /* of each tensor the elements that are largest on the
                         rank, as F32; what is left out is added in the next
                         step */
} rg_compression;

/* How gradients are reduced; equal on all ranks. */
typedef struct rg_reducer_params {
    size_t size;
    int sum;               /* 1: the sum; 0: the average over the set's size */
    int may_miss;          /* 1: a tensor that is not ready counts as zeros on
                              that rank; 0: all ranks get ERR_INVALID */
    uint64_t bucket_bytes; /* limit of a bucket, which has at least one tensor;
                              0: 4 MiB at first; then what is fastest */
    double scale;          /* of the result, as rg_op_params.postscale; 0: 1 */
    rg_compression compression; /* of all tensors (rg_reducer_compress) */
    int error_feedback; /* 1: what F16 and BF16 round off is added in the next
                           step; costs a copy of the tensors */
    double top_k;       /* TOP_K: this part of a tensor, one element at least;
                           0: 0.01 */
    int adasum;         /* 1: rg_adasum of each tensor instead of a sum or an
                           average, when the step ends; no compression */
    int deterministic;  /* 1: buckets depend on the tensors alone, not on what
                           is measured, nor on the order in which tensors are
                           ready */
    uint64_t own_bytes; /* a tensor of at least this size in the program's
                           memory is reduced where it is, others are copied to
                           a bucket and back; 0: 1 MiB. Registered memory
                           (rg_register) gains from 64 KiB on */
} rg_reducer_params;

/* Make a reducer for a set, which is borrowed until rg_reducer_destroy; local.
 * It may be made before rg_run, and lives through generations: fn runs again
 * from its top, and the next rg_reducer_start_step begins a step in the new
 * one. Only one thread at a time may call its functions, except for
 * rg_reducer_ready. */
RG_API rg_status rg_reducer_create(rg_set *set, const rg_reducer_params *params,
                                   rg_reducer **reducer_p);

/* Free a reducer and the memory of its tensors, before its set is destroyed and
 * before rg_finalize. The call waits for a step that has begun. NULL is
 * allowed. */
RG_API void rg_reducer_destroy(rg_reducer *reducer);

/* Add a tensor of count elements, before the first step; local, and equal on
 * all ranks, in the same order. data is borrowed until rg_reducer_destroy;
 * NULL: the tensor lives in its bucket, so that nothing is copied
 * (rg_reducer_tensor). Tensors of at least own_bytes are reduced where they
 * are; smaller ones that live elsewhere are copied to their bucket and back.
 * name is copied, at most 63 bytes. *index_p (may be NULL): 0, 1, 2 ...
 * ERR_INVALID: a step has begun, the type is no float, or data is memory of a
 * device. */
RG_API rg_status rg_reducer_add(rg_reducer *reducer, const char *name,
                                void *data, uint64_t count, rg_type type,
                                int *index_p);

/* Give a tensor a compression of its own, such as none for a small one among
 * others with TOP_K; local, before the first step, equal on all ranks.
 * ERR_INVALID: too late, or no such tensor. */
RG_API rg_status rg_reducer_compress(rg_reducer *reducer, int index,
                                     rg_compression compression);

/* Where a tensor is; borrowed until rg_reducer_destroy. Zeroed at first. No
 * tensor can be added after the first call for one that lives in its bucket.
 * ERR_MEMORY. */
RG_API rg_status rg_reducer_tensor(rg_reducer *reducer, int index,
                                   void **data_p);

/* Begin a step; collective over the set in the first step of a generation, when
 * the lists of tensors are compared: ERR_MISMATCH, on all ranks, names the
 * first difference. A step of a generation that was left is given up.
 * ERR_INVALID: a step has begun already, or there is no tensor. */
RG_API rg_status rg_reducer_start_step(rg_reducer *reducer);

/* Say that a tensor has its values for this step; from any thread, in any
 * order. The tensor belongs to the reducer until rg_reducer_finish: call that
 * when all these calls have returned (a later one is ERR_INVALID). If ranks
 * make these calls in different orders, start no other operation on the set
 * until rg_reducer_finish. To accumulate gradients, call it in the last
 * backward only. ERR_INVALID: no step has begun, there is no such tensor, or it
 * was ready before. */
RG_API rg_status rg_reducer_ready(rg_reducer *reducer, int index);

/* End the step: wait until all tensors are reduced; collective over the set.
 * The step is over with any status. ERR_INVALID: a rank did not have a tensor
 * ready; the same sentence on all ranks names both, and the values are
 * undefined. A rank with no more data calls rg_join instead of the next step.
 */
RG_API rg_status rg_reducer_finish(rg_reducer *reducer);

/* What a reducer has done so far. */
typedef struct rg_reducer_info {
    size_t size;
    int tensors, buckets;
    uint64_t steps; /* that have ended well */
    uint64_t plans; /* that were made, with another order than before */
} rg_reducer_info;

RG_API rg_status rg_reducer_info_get(const rg_reducer *reducer,
                                     rg_reducer_info *info);

/* Adasum of count elements of every rank, in place: the sum of gradients that
 * are orthogonal, the average of those that are equal, and something in between
 * for others. Ranks are combined in pairs, then pairs of pairs. For types of
 * floats; halves are computed in float32. Collective over the set, on any
 * number of ranks; equal bits on all. A rank that has joined adds nothing. */
RG_API rg_status rg_adasum(rg_set *set, void *data, uint64_t count,
                           rg_type type);

/* Rows of a table: row i belongs to place at[i]. */
typedef struct rg_rows {
    size_t size;
    uint64_t n;
    uint64_t *at;
    void *rows;
} rg_rows;

/* Sparse gradients: add up rows of a table, n of them on this rank (0 is
 * allowed), each of width elements of a type of floats; row i belongs to place
 * at[i] of the table. Every rank gets one row for each place that any rank
 * gave, in rising order: rows of one place are added up in double, in the order
 * of ranks, and rounded once. op is RG_SUM or RG_AVG, which divides by the size
 * of the set. *rows_p is the caller's, for rg_rows_free. Collective over the
 * set; a rank that has joined gives none. ERR_MISMATCH: ranks differ in width
 * or type. ERR_INVALID: on this rank only. */
RG_API rg_status rg_allreduce_rows(rg_set *set, const uint64_t *at,
                                   const void *rows, uint64_t n, uint64_t width,
                                   rg_type type, rg_op op, rg_rows **rows_p);
RG_API void rg_rows_free(rg_rows *rows); /* NULL is allowed */

/* ----------------------------------------------------------------- state */

/* Parameters of rg_state_create: none so far. */
typedef struct rg_state_params {
    size_t size;
} rg_state_params;

/* The memory that a step changes: parameters, optimizer state, counters.
 * Registered before rg_run; equal on all ranks whenever a step has ended. One
 * state per context. */
RG_API rg_status rg_state_create(rg_ctx *ctx, const rg_state_params *params,
                                 rg_state **state_p);

/* Free the state; the registered memory stays the caller's. NULL is allowed.
 * Inside fn it logs an error and does nothing.
 * For a state that rg_state_resume has filled, the call is collective and waits
 * for all ranks, as rg_finalize does after it. */
RG_API void rg_state_destroy(rg_state *state);

/* REPLICATED: every rank holds an equal copy. SHARDED: the buffer is one array,
 * of which each rank holds a part, its shard (rg_state_slice). LOCAL: memory of
 * each rank's own, of a size of its own. */
typedef enum rg_buffer_kind {
    RG_REPLICATED,
    RG_SHARDED,
    RG_LOCAL
} rg_buffer_kind;

/* The parts of a LOCAL buffer in a commit or a checkpoint, one for each rank of
 * the world that made it; valid while rg_redistribute_fn runs. */
typedef struct rg_parts rg_parts;

/* The number of parts, and the size of part i; read n bytes of it, from byte
 * `begin` on. Local. ERR_INVALID: there is no such part, or it is smaller.
 * ERR_NOT_FOUND: the part is not here; while the number of ranks is unchanged,
 * only part rg_rank is sure to be. ERR_DAMAGED: the part of a checkpoint is
 * damaged. */
RG_API int rg_parts_count(const rg_parts *parts);
RG_API rg_status rg_parts_bytes(const rg_parts *parts, int i, size_t *bytes_p);
RG_API rg_status rg_parts_read(const rg_parts *parts, int i, size_t begin,
                               size_t n, void *to);

/* Fill a LOCAL buffer from parts that do not fit it as this rank has registered
 * it: the number of ranks, or the size of its part, was another one. Give the
 * buffer memory of the right size (rg_state_resize) and fill that from any
 * parts; likewise again if a loss comes before the next commit. Called on the
 * thread of rg_run or rg_state_resume, before memory is used; it may call the
 * rg_parts functions, rg_state_resize of this buffer, rg_rank and rg_size, and
 * nothing else of Regroup. A status other than RG_OK becomes ERR_REFUSED on all
 * ranks; with ERR_DAMAGED from a part of a checkpoint, all ranks begin with the
 * checkpoint before it. */
typedef rg_status (*rg_redistribute_fn)(rg_state *state, const rg_parts *parts,
                                        void *arg);

/* How a buffer is kept. */
typedef struct rg_buffer_params {
    size_t size;
    rg_buffer_kind kind;
    int replicas; /* SHARDED, LOCAL: copies of each rank's part on other hosts,
                     0 or more */
    size_t align; /* SHARDED: shards begin at multiples of it; 0: 64 */
    int may_differ;   /* REPLICATED, 1: ranks may hold different bytes, such as
                         running statistics, and a commit holds any mixture;
                         0: differences are reported (REGROUP_CHECK_STATE) */
    int constant;     /* 1: steps need not change it; 0: a warning names it when
                         no byte has changed over ten commits */
    rg_memory memory; /* of data; RG_DEVICE: see regroup_cuda.h */
    rg_redistribute_fn redistribute; /* LOCAL; NULL: ERR_REFUSED instead */
    void *redistribute_arg;
} rg_buffer_params;

/* Register memory, and reserve room for it in the host's vault: twice
 * `bytes`, once per host. data is borrowed until rg_state_destroy; name is
 * copied, and has at most 63 bytes. Local, but every worker of the job
 * registers the same buffers in the same order: if a worker does not, its host
 * leaves the job with 78 when that worker calls rg_run.
 *
 * A SHARDED buffer has `bytes` bytes in all, and data has room for all of them
 * on every rank, but only the rank's own shard counts. Regroup never touches
 * pages outside of the shard, so they cost nothing unless the program touches
 * them. A commit keeps the shards of the host's own ranks. When ranks change,
 * shards are cut again, and a rank gets what it did not hold before from the
 * hosts that hold it. Before commit 0 each rank's own memory counts: make it
 * the same function of the index on every rank, such as zeros. A job with
 * sharded buffers has at most 1024 workers (--max); with more, ERR_INVALID.
 *
 * replicas: each shard is also copied to the vaults of that many other hosts,
 * while training goes on; the vault then has three slots instead of two. When
 * hosts are lost, no more than `replicas` at a time, training goes back to the
 * newest commit whose copies were all stored: the last one or one of the two
 * before it, since a third commit waits for the copies. With replicas 0 a lost
 * host takes its shards with it, and the job ends if no commit is whole without
 * them. A host that can't hold its part leaves the job and says why.
 *
 * A LOCAL buffer has `bytes` bytes on this rank, 0 to 256 GiB; other ranks may
 * have more or fewer. Rank r gets from a commit what rank r had in it, wherever
 * that rank is then: a survivor that keeps its rank keeps its memory, and a
 * newcomer gets the part of the rank that it takes over. If ranks have closed
 * up, parts stay with the ranks. If the number of ranks has changed, or the
 * buffer's size is not the part's, `redistribute` fills the buffer; without
 * that function the commit is refused on all ranks (ERR_REFUSED, which names
 * both numbers). Before commit 0 each rank's own memory counts. Names, replicas
 * and the order of buffers are equal on all ranks, and all of them or none have
 * the function; replicas and --max are as with SHARDED ones.
 *
 * ERR_INVALID: the name is registered already, the call comes inside rg_run or
 * after rg_state_resume, bytes is 0 and the buffer is not LOCAL, or another
 * worker of this host registered the name with another size or kind.
 * ERR_MEMORY: the vault has no room; the sentence says how much is missing. */
RG_API rg_status rg_state_add(rg_state *state, const char *name, void *data,
                              size_t bytes, const rg_buffer_params *params);

/* Move a LOCAL buffer, or change its size, from the next commit on; data as in
 * rg_state_add. Local, at any time between two commits, and in
 * rg_redistribute_fn, there for its own buffer only. A program that calls this
 * needs `redistribute`: an earlier commit may have another size. ERR_INVALID:
 * no such LOCAL buffer, or another one is being redistributed. ERR_MEMORY: the
 * vault has no room, and the buffer stays as it was. */
RG_API rg_status rg_state_resize(rg_state *state, const char *name, void *data,
                                 size_t bytes);

/* Bytes [*begin_p, *end_p) of a registered buffer that this rank holds: all of
 * a REPLICATED or LOCAL one; of a SHARDED one the same part for equal rank and
 * size in every generation. Local; inside rg_run. ERR_INVALID: no such buffer,
 * or this worker has no rank now. */
RG_API rg_status rg_state_slice(const rg_state *state, const char *name,
                                size_t *begin_p, size_t *end_p);

/* Call fn in every generation, the first included, once registered memory is
 * right and before the training function; on the thread that called rg_run,
 * with no lock held. A status other than RG_OK leaves the generation as fn's
 * would. */
typedef rg_status (*rg_reset_fn)(rg_state *state, void *arg);
RG_API rg_status rg_state_on_reset(rg_state *state, rg_reset_fn fn, void *arg);

/* Call fn before registered memory is saved: by rg_state_commit, rg_state_save,
 * and by rg_step_end where that saves. There a program copies to registered
 * memory what it keeps elsewhere, so that a step without a commit costs
 * nothing. All ranks call fn for the same step, on the thread of rg_run with no
 * lock held, and fn may call collectives. A status other than RG_OK ends the
 * call with that status, and nothing is saved. One fn per state; NULL: none.
 * ERR_INVALID inside rg_run. */
typedef rg_status (*rg_save_fn)(rg_state *state, void *arg);
RG_API rg_status rg_state_on_save(rg_state *state, rg_save_fn fn, void *arg);

/* Call fn once for each step that counts, in order, on every rank that made it.
 * The commit that makes the step count calls fn before it returns, also when it
 * returns ERR_HOSTS_CHANGED. A rank that learns only from the next decision
 * that the commit counts gets the call in rg_run, before the function of
 * rg_state_on_reset. Steps that rg_step_end has ended come with the next
 * commit, or with the end of the job. There is no second call for a step that a
 * loss of hosts has rolled back. Always on the thread of rg_run, with no lock
 * held. fn may print, write files and ask for rank and size; it calls nothing
 * collective, and does not change registered memory, which is that of the
 * newest of these steps. One fn per state; NULL: none. ERR_INVALID inside
 * rg_run. */
typedef void (*rg_commit_fn)(rg_state *state, uint64_t step, void *arg);
RG_API rg_status rg_state_on_commit(rg_state *state, rg_commit_fn fn,
                                    void *arg);

/* End the step and save registered memory in the vault, on all ranks or on
 * none: collective over the world, inside fn. With RG_OK the commit counts
 * and is never lost by a later failure; with sharded buffers rg_state_add says
 * what the loss of hosts may cost. ERR_HOSTS_CHANGED: it counts as well, and
 * the membership changes now. This rank goes on with its memory as it is, which
 * is the commit: fn changes nothing in it before it returns.
 *
 * A commit takes a slice of a REPLICATED buffer from each rank of a host, so
 * the buffer must be equal on all ranks. The first three commits of a job and
 * the first after each change of membership compare hashes of it first; a
 * difference is a warning, once for a buffer, that names buffer, ranks and
 * step. REGROUP_CHECK_STATE (of rank 0): off; a number N, every N commits;
 * strict: a difference is ERR_MISMATCH on all ranks, and nothing is saved. */
RG_API rg_status rg_state_commit(rg_state *state);

/* End the step without saving it: collective over the world, inside fn. If a
 * change of membership was announced, this call saves as rg_state_commit does
 * and returns ERR_HOSTS_CHANGED, so that an announced change rolls nothing
 * back. */
RG_API rg_status rg_step_end(rg_state *state);

/* A number of the step that is under way, such as its loss: the next
 * rg_state_commit, rg_step_end or rg_state_save takes the SUM, AVG, MIN or MAX
 * over all ranks of the world, in F64 (NaN, if one of them has it), and the
 * agent of rank 0 shows it (--metrics-csv, --metrics-tensorboard, --metrics).
 * Local, inside fn; all ranks give the same metrics in the same order in each
 * step, or its end is ERR_MISMATCH. A name has 1 to 63 letters, digits and
 * _ . - / ; a second value of a name in a step replaces the first, and a step
 * has at most 64. What is given after the last step's end is dropped. Of a step
 * that was rolled back, the files show only the repetition. ERR_INVALID:
 * outside of fn, another op or a bad name, or a 65th. */
RG_API rg_status rg_metric(rg_state *state, const char *name, double value,
                           rg_op op);

/* Steps ended on the current lineage; goes back with the memory on a restore.
 */
RG_API uint64_t rg_state_step(const rg_state *state);

/* Call fn on a thread of its own when the generation in which this worker
 * computes has broken, or this worker is to end; not when its members agree to
 * leave it (ERR_HOSTS_CHANGED). It is for programs with communicators of their
 * own, in which the thread of rg_run may be waiting: abort them here. At most
 * once for a generation, and only while rg_run runs; rg_run waits for fn to
 * return before it begins another generation or returns. fn may ask for rank
 * and size, which are still those of that generation, and calls nothing else of
 * Regroup. One fn per context; NULL: none. ERR_INVALID inside rg_run. */
typedef void (*rg_break_fn)(rg_ctx *ctx, uint64_t generation, void *arg);
RG_API rg_status rg_on_break(rg_ctx *ctx, rg_break_fn fn, void *arg);

/* The training function. The one rule: return every status that is not RG_OK;
 * don't retry, don't exit. It is called again from its top, on the thread that
 * called rg_run, with registered memory as the resume commit has it. */
typedef rg_status (*rg_train_fn)(rg_state *state, void *arg);

/* Run fn elastically: wait for a place in a generation, bring registered memory
 * to the commit from which the job resumes, and call fn; do the same again
 * after every change of membership, until fn has returned RG_OK on all ranks.
 * Collective over the job. Registered memory belongs to Regroup until fn is
 * called: a worker that joins copies a commit into it while others train.
 *
 * RG_OK: the job is done. Ranks, sets and rg_world stay those of the last
 * generation, and collectives work until members call rg_finalize or end: then
 * a rank that waits for one of them gets ERR_PEER_LOST. So
 * `if (rg_rank(ctx) == 0) write_model();` may follow; a worker that is lost
 * here is not started again.
 *
 * ERR_ASKED_TO_LEAVE: an operator stops the job, or this host is drained; or
 * the job was done before this worker, such as a spare, got a place in it.
 * Calls inside fn return it, then rg_run does. A worker that is still in fn
 * after 2 s gets SIGTERM. A worker that has returned gets no signal until its
 * time is over, and then SIGKILL: after 5 s, or, if its host is drained, not
 * before --deadline (30 s by default). `return rg_exit_code(st);` ends main
 * with 0 here.
 *
 * Any other status is the first one of fn or of Regroup whose advice is FIX or
 * ABORT. This worker has left the job then, and the others go on without it;
 * its process has --agent-grace to end before it is killed, and its slot starts
 * again. The same happens when the thread ends inside fn (pthread_exit, or
 * pthread_cancel, which takes effect inside fn only), and when a C++ exception
 * leaves fn or another function that rg_run calls: the exception passes through
 * rg_run, which has left the job by then, and may be caught outside of it.
 * rg_run can't be called again, and rg_finalize works. The function of
 * rg_on_break must not throw.
 * ERR_INVALID: the program is static, rg_run is running already or has run in
 * this process, or fn has left ten times without a step for a reason that no
 * other rank knows, such as a status kept from an earlier generation.
 * ERR_SYSTEM: no key for thread-specific data is left in this process. */
RG_API rg_status rg_run(rg_state *state, rg_train_fn fn, void *arg);

/* rg_run as a loop of the program's own, whose body stands in the place of fn:
 *
 *     rg_status st = RG_OK;
 *     while (rg_next(state, &st)) {           once in each generation
 *         while (st == RG_OK && step < 200) {
 *             st = train_step();
 *             if (st == RG_OK)
 *                 st = rg_state_commit(state);
 *         }
 *     }
 *     return rg_exit_code(st);
 *
 * 1: a generation has begun, registered memory is as the resume commit has it,
 * and *st_p is RG_OK; compute, and leave in *st_p what fn would return: RG_OK
 * when the work is done, else the first status that is not RG_OK. `continue` is
 * fn's return. 0: the loop is over, and *st_p is what rg_run would return. A
 * first call with another status than RG_OK in *st_p does nothing and returns
 * 0, so a failure before the loop skips it.
 *
 * All that is said of rg_run and of "inside fn" holds here, on the thread of
 * the first call; in a function that Regroup calls, such as that of
 * rg_state_on_reset, this call is ERR_INVALID. Leave the loop by rg_next alone:
 * where rg_state_destroy or rg_finalize finds it open, after a break, a return
 * or an exception, this worker leaves the job, as if its thread had ended
 * inside fn. */
RG_API int rg_next(rg_state *state, rg_status *st_p);

/* ------------------------------------------------------------ checkpoints
 * A checkpoint is a commit in a file; it survives the loss of all hosts at
 * once. It is written while training goes on, under a temporary name, and
 * published only if its commit still belongs to the job's history; so a
 * checkpoint that can be found is whole, and its commit counted. A program that
 * loads it goes on from there, with any number of workers:
 *
 *     uint64_t step = 0;
 *     rg_status st = rg_state_load(state, NULL, &step);
 *     if (st != RG_OK && st != RG_ERR_NOT_FOUND) return fail(st);
 *     st = rg_run(state, train, &job);
 *
 * and `regroup run --checkpoint-dir DIR` does the rest. On several hosts, DIR
 * is one directory that all of them see; with sharded buffers each host writes
 * its shards into a file of its own beside the first. */

/* For programs without fn (the ranks of `regroup run --mpi`): after the
 * rg_state_add calls, fill registered memory with the newest commit of earlier
 * launches, or else with the newest checkpoint of --checkpoint-dir; *step_p is
 * its step. Then rg_state_commit, rg_step_end and rg_state_save may be called,
 * outside of any fn. Collective over the world, once; under --mpi=ulfm again
 * after each loss: it then waits for the world of the remaining ranks, in which
 * they go on. The work is done when all ranks have called rg_finalize, which
 * waits for them here.
 *
 * ERR_NOT_FOUND: no step was committed: *step_p is 0, registered memory is
 * rank 0's, and the program begins. ERR_HOSTS_CHANGED from a later commit: the
 * step is saved, and this launch ends: clean up, and end the process.
 * ERR_PEER_LOST, here or later: this process is ended, and the next launch
 * resumes; under --mpi=ulfm it comes only later: call rg_state_resume again.
 * ERR_MISMATCH: ranks have registered different buffers. ERR_INVALID: it was
 * called before, or this process is no rank of such a job. */
RG_API rg_status rg_state_resume(rg_state *state, uint64_t *step_p);

/* Fill registered memory and the step from a checkpoint, before rg_run, on
 * every rank: the newest whole one in a directory, or the one in a file. path
 * NULL: the directory of --checkpoint-dir. Buffers must be registered as they
 * were when it was written, in any order. Each rank gets its shard of a sharded
 * buffer in rg_run, once it has a rank; if a shard is damaged, all ranks begin
 * with the checkpoint before, and inside fn rg_state_step tells its step.
 *
 * In a job that has a commit, a newcomer reads no data, since rg_run brings its
 * memory to that commit: this call returns ERR_NOT_FOUND at once, and
 * rg_last_error says why. Only if no host with a commit is left does rg_run
 * read the checkpoint, on one rank.
 *
 * ERR_NOT_FOUND: there is none, or no directory was named: start at the
 * beginning; or the job has a commit. ERR_INVALID: other buffers or sizes are
 * registered, a newer Regroup or a machine of the other byte order wrote it, or
 * rg_run has begun. ERR_DAMAGED: no checkpoint is whole. ERR_SYSTEM: it can't
 * be read. Registered memory changes with RG_OK only, unless the file changes
 * meanwhile. */
RG_API rg_status rg_state_load(rg_state *state, const char *path,
                               uint64_t *step_p);

/* How many checkpoints stay. */
typedef struct rg_save_params {
    size_t size;
    int keep; /* newest checkpoints that stay in the directory; 0: the
                 --checkpoint-keep of the job, 2 by default */
} rg_save_params;

/* Commit as rg_state_commit does, and make the commit a checkpoint: collective
 * over the world, inside fn, with equal arguments. Returns when the commit
 * counts and the agent of rank 0's host has been asked to write it; without an
 * agent, when it is written. A newer request replaces one that still waits;
 * with sharded buffers a request is dropped if its commit leaves the vault
 * before it is written. dir NULL: the directory of --checkpoint-dir; without
 * one this is rg_state_commit and a warning. A disk that fails costs the
 * checkpoint and a warning, never the training. */
RG_API rg_status rg_state_save(rg_state *state, const char *dir,
                               const rg_save_params *params);

/* End the job at the step that is under way: for early stopping, or a time
 * limit that the program knows. Local, inside fn, on any rank, before it ends
 * the step: the next rg_step_end, rg_state_commit or rg_state_save of all ranks
 * commits that step and returns ERR_HOSTS_CHANGED. Once fn has returned that on
 * all ranks, rg_run returns RG_OK: the job is done, and its last commit becomes
 * a checkpoint where there is a --checkpoint-dir. If this rank is lost before
 * the step ends, its request is lost too; a loss right after the step may cost
 * one more. ERR_INVALID: outside of fn. */
RG_API rg_status rg_stop(rg_state *state);

/* The step of the newest checkpoint that this job has published or this worker
 * has loaded; local. ERR_NOT_FOUND: none yet. */
RG_API rg_status rg_state_saved(const rg_state *state, uint64_t *step_p);

/* --------------------------------------------------------------- sampler */

/* Which samples belong to which step: a pure function of (seed, epoch, step),
 * independent of the world's size. Step k of an epoch is a fixed list of
 * positions, dealt to ranks in contiguous parts, so that every sample of an
 * epoch is used exactly once whatever happens to the workers. */
typedef struct rg_sampler_params {
    size_t size;
    uint64_t count; /* samples in the data set, 1 .. 2^32 - 1 */
    uint64_t batch; /* global, in samples; the last of an epoch may be short */
    uint64_t seed;
    int in_order; /* 1: samples in their own order, 0: shuffled every epoch */
} rg_sampler_params;

/* Make a sampler; local. state may be NULL; with a state the positions taken
 * are noted in the history of its steps. ERR_INVALID: count or batch out of
 * range. */
RG_API rg_status rg_sampler_create(rg_state *state,
                                   const rg_sampler_params *params,
                                   rg_sampler **sampler_p);
RG_API void rg_sampler_destroy(rg_sampler *sampler);

/* Steps in one epoch: count / batch, rounded up. */
RG_API uint64_t rg_sampler_steps(const rg_sampler *sampler);

/* Sample indices in the global batch of this step, over all ranks. */
RG_API uint64_t rg_sampler_batch_size(const rg_sampler *sampler, uint64_t step);

/* The sample indices that rank `rank` of `size` takes in step `step` of epoch
 * `epoch`: *n_p of them, possibly 0, borrowed until the sampler's next call.
 * ERR_INVALID: step out of range, or no such rank. */
RG_API rg_status rg_sampler_take(rg_sampler *sampler, uint64_t epoch,
                                 uint64_t step, int rank, int size,
                                 const uint64_t **indices_p, uint64_t *n_p);

#ifdef __cplusplus
}
#endif
#endif
