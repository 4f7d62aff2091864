/* Worlds for tests, without agent and etcd: world_run forks n processes; each
 * builds a context by hand, with a thread that stands in for the Regroup
 * thread, enters generation 1 and calls fn. A test fails when any process
 * fails, and when one has not ended by the deadline, which also kills it. */
#ifndef TESTS_LIB_WORLD_H
#define TESTS_LIB_WORLD_H

#include <pthread.h>

#include "process_sets/sets.h"
#include "tests/check.h"

#define WORLD_MAX         8
#define WORLD_GENERATIONS 6 /* generations 1 .. 6 have a control segment */

typedef struct world_shared world_shared; /* memory of all processes */

typedef struct world {
    rg_ctx *ctx;
    int index; /* of this worker, for good; the rank in generation 1 */
    int n;     /* processes */

    char *alloc; /* my segment, standing in for rg_alloc memory */
    size_t alloc_bytes;
    char *peer_alloc[WORLD_MAX]; /* all ranks' segments, as mapped here */

    world_shared *shared;
    rg__member_id member[WORLD_MAX]; /* by index */
    int host_of[WORLD_MAX];          /* likewise */
    _Atomic int broken;              /* links that were reported as broken */
    _Atomic int broken_rank;         /* the last one's rank */
    char broken_why[RG__TEXT_MAX];
    pthread_t thread;
    _Atomic int wants_stop;
    _Atomic uint64_t leave; /* generation that the thread is to leave */
    rg_status leave_st;
} world;

typedef struct world_params {
    int n;
    size_t alloc_bytes; /* 0: 4 MiB */
    int timeout_s;      /* 0: 50 */
    int is_bare;        /* 1: no mapping is registered yet */
    int is_outside;     /* 1: generation 1 is not entered yet */
    const char *hosts;  /* on which host each is, a digit for each, again from
                           the  begin when there are less. Hosts have control
                           segments  of their own, and TCP over loopback between
                           them.  NULL: what WORLD_HOSTS says, else one host */
} world_params;

typedef void (*world_fn)(world *w, void *arg);

void world_run(const world_params *params, world_fn fn, void *arg);

/* Run n processes, with defaults. */
void world_of(int n, world_fn fn, void *arg);

/* One process for each digit, which says on which host it is. */
void world_on(const char *hosts, world_fn fn, void *arg);

/* The job's key in these worlds. */
extern const uint8_t world_key[RG__KEY_BYTES];

/* Register the segment of process `owner` with this process's engine. */
void world_map(world *w, int owner);

/* Wait for the other processes, by means that are not under test. */
void world_meet(world *w);
/* Wait among n of them; at: which meeting place, 0 .. 15. */
void world_meet_some(world *w, int at, int n);

/* Enter a generation of these processes, in that rank order, and take it up;
 * sets are not synced. */
void world_enter(world *w, uint64_t generation, const int *indexes, int n);

/* Leave the generation as an announced change does, to the end. */
void world_leave(world *w, rg_status st);

/* What an agent does when a peer is lost: raise the abort word of process
 * `index` and ring. Its thread then leaves. */
void world_abort(world *w, int index, uint64_t generation);

/* Wait until this process has left its generation. */
void world_await_left(world *w);

/* The page of a process. */
rg__page *world_page(world *w, int index);

/* The process's listener for other hosts, and its port. */
int world_listener(world *w, int index);
uint32_t world_port(world *w, int index);

/* The control segment of a generation on this process's host, mapped here, for
 * scribbling on it. */
char *world_control(world *w, uint64_t generation, size_t *bytes_p);

/* Bytes of memory that the segment takes there. */
int64_t world_control_memory(const world *w, uint64_t generation);

/* The next long operation begins in its start, as in a program that comes to
 * wait at once. */
void world_begin_at_once(const world *w);

/* A word of shared memory for the test's own use, 0 at first; i: 0 .. 63. */
_Atomic uint64_t *world_word(world *w, int i);

#endif
