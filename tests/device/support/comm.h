/* Communicators of the stand-in for NCCL: libfakenccl.so.
 *
 * The members of a communicator are processes that share a segment: a seat for
 * each, and a pipe from each to each, through which kernels move what lies in
 * device memory. A peer's death shows only in the lock on its seat. */
#ifndef TESTS_DEVICE_COMM_H
#define TESTS_DEVICE_COMM_H

#include "tests/device/support/inside.h"

#define FAKE_RANKS_MAX 32
#define FAKE_CALLS     128 /* of a member, which others may not have seen */
#define FAKE_CHUNK     65536
#define FAKE_RUBBISH   0xffffffffu /* a chunk's size: whatever lies there */

enum fake_kind {
    FAKE_ALLREDUCE,
    FAKE_REDUCE,
    FAKE_BROADCAST,
    FAKE_ALLGATHER,
    FAKE_REDUCE_SCATTER,
    FAKE_SEND,
    FAKE_RECV
};

/* What the members of a collective must have in common. */
typedef struct fake_call {
    enum fake_kind kind;
    int type, op, root; /* root: of a send or recv the peer */
    size_t n;
} fake_call;

typedef struct fake_seat {
    int version;
    char bus[16], host[64];
    _Atomic int here, ready; /* steps of the initialisation */
    _Atomic int is_connected;
    _Atomic int splits; /* entered */
    struct {
        int color, key;
    } split[2];
    _Atomic uint64_t arrived; /* collectives */
    fake_call call[FAKE_CALLS];
} fake_seat;

typedef struct fake_pipe {
    _Atomic uint64_t sent, taken; /* chunks */
    uint32_t bytes;               /* in the chunk */
    char chunk[FAKE_CHUNK];
} fake_pipe;

typedef struct fake_segment {
    _Atomic uint32_t bell;
    _Atomic int may_go; /* every member has checked in with the root */
    _Atomic int ready;  /* members that need the path no more */
    fake_seat seat[FAKE_RANKS_MAX];
    fake_pipe pipe[];
} fake_segment;

enum fake_state { FAKE_LIVE, FAKE_MARKED, FAKE_FREED };

struct ncclComm {
    int number; /* the process's first, second ...; a split keeps it */
    int rank, n;
    int device;
    bool is_blocking;
    char path[600];
    int fd;
    fake_segment *_Atomic segment;

    struct ncclComm *parent; /* while it is being split off */
    _Atomic bool is_starting;
    _Atomic bool is_aborted;
    _Atomic int state;
    _Atomic int result; /* of ncclCommGetAsyncError */
    _Atomic int inside; /* the thread that calls with it; 0: none */
    _Atomic int out;    /* kernels */
    _Atomic uint64_t turn;
    uint64_t turns; /* of kernels, which run in turn on whatever streams */
    uint64_t born, marked;
    int splits;
    bool is_connected;
    uint64_t ops, collectives;
    struct ncclComm *next;
};

/* --------------------------------------------------------------- segment.c */

/* Take the seat in the segment at c->path, which is there or is made. */
int fake_sit_down(rg__nccl_comm c);
void fake_stand_up(rg__nccl_comm c);

void fake_ring(rg__nccl_comm c);

/* Wait until the claim holds; false: the communicator is aborted. */
typedef bool (*fake_claim)(rg__nccl_comm c, void *arg);
bool fake_await(rg__nccl_comm c, fake_claim claim, void *arg);
/* The same, forever or for that time. */
void fake_await_abort(rg__nccl_comm c);
bool fake_await_ms(rg__nccl_comm c, int ms);
void fake_await_turn(rg__nccl_comm c, uint64_t turn);

/* Some member of a communicator that was complete holds its seat no more. */
bool fake_peer_is_gone(rg__nccl_comm c);

fake_seat *fake_own_seat(rg__nccl_comm c);
fake_pipe *fake_pipe_of(rg__nccl_comm c, int from, int to);

/* ------------------------------------------------------------------ root.c */

int fake_make_id(rg__nccl_id *id_p);
void fake_path_of_id(const rg__nccl_id *id, char *text, size_t room);
int fake_check_in(rg__nccl_comm c, const rg__nccl_id *id);

/* --------------------------------------------------------------- meeting.c */

int fake_boot(rg__nccl_comm c, const rg__nccl_id *id);
int fake_split(rg__nccl_comm c, int color, int key, rg__nccl_comm *child_p,
               const rg__nccl_config *config);

/* ------------------------------------------------------------------ comm.c */

int fake_version(void);
bool fake_is_blocking(const rg__nccl_config *config);
rg__nccl_comm fake_comm_new(int number, bool is_blocking);
int fake_next_number(void);
fake_where fake_where_of(rg__nccl_comm c, int k);

/* One thread at a time, and none once the communicator is freed. */
void fake_comm_enter(rg__nccl_comm c, const char *call);
void fake_comm_leave(rg__nccl_comm c);
void fake_comm_look(rg__nccl_comm c, const char *call);

/* A communicator that is freed now has no thread in a call with it. */
void fake_comm_look_inside(rg__nccl_comm c);

/* The two halves of an abort: the first only sets the flags. */
void fake_comm_mark(rg__nccl_comm c);
void fake_comms_reclaim(rg__nccl_comm *c, int n);

void fake_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *fake_told(void);

/* ----------------------------------------------------------------- group.c */

typedef struct fake_op {
    fake_call call;
    const char *send;
    char *recv; /* aliases, both */
    rg__nccl_comm comm;
    rg__cu_stream stream;
    int k;
} fake_op;

int fake_group_start(void);
int fake_group_end(void);
int fake_group_add(const fake_op *op);
int fake_group_abort(rg__nccl_comm c);

/* ---------------------------------------------------------------- kernel.c */

typedef struct fake_kernel {
    rg__nccl_comm comm;
    uint64_t turn;
    int n;
    fake_op op[];
} fake_kernel;

void fake_run_kernel(void *kernel);

/* ---------------------------------------------------------------- reduce.c */

size_t fake_type_size(int type); /* 0: no such type */

/* into = part[0] op part[1] ..., rounded behind each step. */
void fake_reduce(void *into, char *const *part, int parts, size_t n, int type,
                 int op);

#endif
