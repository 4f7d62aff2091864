/* Device memory for the rooms above: one device for a process, one lane for
 * each set that uses it in a generation.
 *
 * Not a transport (transport.h): calls of CUDA and NCCL block, and none of them
 * is made under the engine's lock or by the Regroup thread. An operation is
 * launched by its caller, runs in the caller's stream, and stores a number into
 * a word of its own when it has ended. The host's comm stays beside it, for
 * agreements, and for the rendezvous before a lane is connected.
 *
 * Threads:   any, except for rg__device_close, which the Regroup thread may
 *            call as well: it stores, rings, and never waits.
 * Ownership: a device lives until rg__device_destroy; lanes belong to it. */
#ifndef RG_NCCL_H
#define RG_NCCL_H

#include "regroup/regroup_cuda.h"
#include "sdk/transport/descriptor.h"
#include "sdk/transport/transport.h"

typedef struct rg__device rg__device;

/* Called when the generation can't go on here, with the reason, on any thread
 * that holds no lock of the device. */
typedef void (*rg__device_broken_fn)(void *arg, uint64_t generation,
                                     const char *why);

/* Called from time to time by the device's thread, without a lock: has an
 * operation on the device been waiting for so long that it was reported? */
typedef void (*rg__device_look_fn)(void *arg, bool is_stalled);

typedef struct rg__device_config {
    rg_device_params params; /* zeros are replaced by defaults */
    const char *cuda_lib, *nccl_lib;
    int slot;
    uint64_t stall_ms; /* longer operations are reported; 0: none */
    rg__device_broken_fn broken;
    rg__device_look_fn look;
    void *arg;
} rg__device_config;

rg_status rg__device_create(const rg__device_config *config,
                            rg__device **device_p);

/* Wait for resources that must be given back, and give back the rest. Requests
 * may be waited for afterwards. NULL allowed. */
void rg__device_destroy(rg__device *d);
/* Count the references of requests; NULL allowed. */
void rg__device_ref(rg__device *d);
void rg__device_unref(rg__device *d);

void rg__device_info(rg__device *d, rg_device_info *info);

/* Can the device use that memory? ERR_INVALID: it can't. */
rg_status rg__device_check_memory(rg__device *d, const void *p);

/* Is it memory that only a device can access? Asks the driver that the process
 * has loaded. Managed and pinned memory is the host's as well. */
bool rg__device_owns(const void *p);

/* Wait for everything in the device's context, including the program's own.
 * ERR_DEVICE: the device can't go on. */
rg_status rg__device_drain(rg__device *d);

/* Copies between host memory and the device's, through a pinned ring: the next
 * piece is on its way while the CPU has this one. One thread at a time, and not
 * ordered with what the program has enqueued. ERR_DEVICE.
 *
 * Reading hands out the device's bytes piece by piece, in order, until a piece
 * is not OK. Writing goes on until the flush; `from` is free before. */
typedef rg_status (*rg__device_piece_fn)(void *arg, const char *bytes,
                                         size_t n);
rg_status rg__device_read(rg__device *d, const void *from, size_t bytes,
                          rg__device_piece_fn fn, void *arg);
rg_status rg__device_write(rg__device *d, void *to, const void *from,
                           size_t bytes);
rg_status rg__device_flush(rg__device *d);

/* ------------------------------------------------------------- generations */

/* End everything of generations up to this one: lanes are aborted in the
 * background, and callers that wait get st and why (copied). */
void rg__device_close(rg__device *d, uint64_t generation, rg_status st,
                      const char *why);

/* Wait until nothing of an earlier generation, the program's own kernels
 * included, stores into device memory, and begin this one. ERR_PEER_LOST: it
 * was closed meanwhile. ERR_DEVICE: the device can't go on. */
rg_status rg__device_enter(rg__device *d, uint64_t generation);

/* OK, or what the generation was closed with. */
rg_status rg__device_check(rg__device *d, uint64_t generation);

/* ------------------------------------------------------------------- lanes */

/* What members tell each other before a lane is connected. */
typedef struct rg__device_card {
    int32_t st;      /* not OK: the member could not make its card */
    int32_t version; /* NCCL's version; 0: the member has opened no device */
    char host[64];   /* its host, or NCCL_HOSTID */
    char bus[16];    /* PCI address of its device */
    char why[128];   /* the reason for st */
    char id[128];    /* the rendezvous, from the first member */
} rg__device_card;

/* is_first: make an id, too. d NULL: this worker has no open device. */
void rg__device_card_make(rg__device *d, bool is_first, const char *host,
                          rg__device_card *card);

/* No member will connect there: end the threads that wait for them. */
void rg__device_card_void(const rg__device_card *card);

/* Do n cards fit together? All members get the same answer. name: the set's. */
rg_status rg__device_cards_check(const rg__device_card *card, int n,
                                 const char *name);

typedef struct rg__lane_config {
    uint32_t set; /* its id */
    uint64_t generation;
    const char *name; /* the set's; copied */
    int n, rank;
    const rg__device_card *first; /* the first member's; NULL where n is 1 */
} rg__lane_config;

/* Connect a lane, and wait until a first operation has run on it. Collective
 * over the set's members. ERR_PEER_LOST: the generation was closed, or is to
 * end because this lane can't be connected. */
rg_status rg__lane_open(rg__device *d, const rg__lane_config *config);

bool rg__lane_is_open(rg__device *d, uint32_t set, uint64_t generation);

/* --------------------------------------------------------------- operations */

/* A launched operation. */
typedef struct rg__ticket {
    uint64_t generation;
    uint32_t row, number; /* its word, and the number there when it has ended */
} rg__ticket;

typedef struct rg__launch {
    rg__coll coll;
    void *stream;
    int timeout_ms; /* 0: none */
} rg__launch;

/* Refuse what NCCL can't do, before anything is launched. */
rg_status rg__launch_check(const rg__device *d, const rg__coll *coll);

/* Enqueue n operations of one set, as one group if n is above 1. Waits while
 * too many of the set are under way. */
rg_status rg__lane_launch(rg__device *d, uint32_t set, uint64_t generation,
                          const rg__launch *launch, int n,
                          rg__ticket *ticket_p);

/* What this member has started on a lane. Operations count from 1. */
typedef struct rg__lane_account {
    uint64_t key; /* the lane's key: the same on all its members, never 0 */
    uint64_t started;
    uint64_t kept; /* number of the oldest operation on record */
    uint32_t set;
    int32_t n, rank;
    bool is_stalled; /* an operation was reported to take long */
} rg__lane_account;

/* Fill in accounts of the generation's lanes that have other members, at most
 * `room`; returns how many. */
int rg__device_accounts(rg__device *d, uint64_t generation,
                        rg__lane_account *account, int room);

/* What a member has started up to some operation. */
typedef struct rg__history {
    uint64_t hash;    /* equal on all members that have started the same */
    uint64_t balance; /* the sum over the members is 0 if each expects what
                         the others send to it */
} rg__history;

/* The history up to operation k, and its descriptor. false: not on record. */
bool rg__lane_recall(rg__device *d, uint64_t key, uint64_t k,
                     rg__history *history_p, rg__descriptor *descriptor_p);

/* counts: 2 n of them, the elements that operation k sends to each member, and
 * those that it expects from each. false: k has none on record. */
bool rg__lane_recall_counts(rg__device *d, uint64_t key, uint64_t k,
                            uint64_t *counts);

/* Wait until it has ended, or until deadline_ns (UINT64_MAX: forever). OK: it
 * has ended, and its generation is not closed. IN_PROGRESS: not yet. Any other
 * status is that of the generation's end. */
rg_status rg__ticket_wait(rg__device *d, const rg__ticket *ticket,
                          uint64_t deadline_ns);

/* Wait for everything that was launched in the generation; with `whole`, for
 * everything in the context. */
rg_status rg__device_settle(rg__device *d, uint64_t generation, bool whole,
                            uint64_t deadline_ns);

#endif
