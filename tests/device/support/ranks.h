/* Ranks for tests of the stand-in itself: processes with a device each, in a
 * folder of the test's own, which is removed after them. */
#ifndef TESTS_DEVICE_RANKS_H
#define TESTS_DEVICE_RANKS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "tests/check.h"
#include "tests/device/support/calls.h"
#include "tests/device/support/fake.h"

#define RANKS_MAX 4

typedef struct ranks {
    int rank, n;
    rg__cu_stream stream;      /* a non-blocking one */
    struct ranks_page *shared; /* of all processes */
} ranks;

typedef void (*ranks_fn)(ranks *r);

/* n processes call fn, each with device `rank` current. Each must end with 0,
 * unless it was expected to be killed. script: the faults, NULL: none. */
void ranks_run(int n, const char *script, ranks_fn fn);

/* One process calls fn, and is aborted with a sentence that has this part. */
void ranks_refused(const char *script, ranks_fn fn, const char *part);

/* This process is to be killed, by itself or by others. */
void ranks_expect_death(ranks *r);

/* From now on these are the faults. */
void ranks_script(const char *script);

/* Wait until all n are here. */
void ranks_meet(ranks *r);

/* A word of shared memory, 0 at first; i: 0 .. 15. */
_Atomic int *ranks_word(ranks *r, int i);
pid_t ranks_pid(ranks *r, int rank);

/* Device memory with these bytes, or with zeros, and its contents. */
void *ranks_put(const void *from, size_t bytes);
void ranks_get(void *to, const void *from, size_t bytes);

/* A blocking communicator of all ranks: the number-th that they make. */
rg__nccl_comm ranks_comm(ranks *r, int number);
/* The same, and what its initialisation is. */
int ranks_start(ranks *r, int number, int blocking, rg__nccl_comm *comm_p);

/* Wait until an initialisation has ended, and how. */
int ranks_await(rg__nccl_comm comm);
/* The same, 100 s at most, for a word. */
void ranks_await_word(_Atomic int *word, int value);

#endif
