/* What the two libraries of the stand-in share. libfakenccl.so calls this in
 * libfakecuda.so, so there is one device for both. */
#ifndef TESTS_DEVICE_INSIDE_H
#define TESTS_DEVICE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sdk/transport/nccl/api.h"
#include "tests/device/support/fake.h"

/* ----------------------------------------------------------------- script.c */

/* What a line of the script is compared with; -1: not known here. */
typedef struct fake_where {
    int rank, size;
    int comm; /* the process's first, second ... initialisation */
    int k;    /* the communicator's first, second ... operation */
} fake_where;

typedef struct fake_fault {
    char event[16], verdict[16];
    int rank, size, comm, k, slot; /* -1: any */
    int once;                      /* -1: each time */
    int ms, rc, n, version;        /* -1: not said */
} fake_fault;

/* The first line for this event that fits; where: NULL for what is not about a
 * communicator. The script is read again when it has changed. */
FAKE_API bool fake_script(const char *event, const fake_where *where,
                          fake_fault *fault_p);

/* The number n= of a setting, or what it is without one. */
FAKE_API int fake_setting(const char *event, int otherwise);

/* A path in the test's folder: $FAKE_DEVICE, or /tmp. */
FAKE_API void fake_path(char *text, size_t room, const char *name);

/* Undisciplined use: a sentence for the test, then abort(). */
FAKE_API _Noreturn void fake_violation(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* At the start of every call: which thread may call, and in which process. */
FAKE_API void fake_enter(const char *call);

FAKE_API void fake_nap_ms(int ms);
FAKE_API double fake_now_ms(void);

/* A thread that takes no signals and is never joined; counted. */
FAKE_API void fake_thread(void *(*run)(void *), void *arg);
FAKE_API void fake_thread_ends(void);

FAKE_API void fake_count(int comms, int files);

/* ----------------------------------------------------------------- memory.c */

/* The alias of device or pinned memory, for kernels. */
FAKE_API char *fake_alias(const char *call, rg__cu_address at, size_t bytes);

int fake_memory_type(rg__cu_address at, int *device_p); /* 0: no memory here */
bool fake_is_pinned(const void *at, size_t bytes);
int fake_memory_add(bool is_pinned, size_t bytes, int device, void **at_p);
int fake_memory_drop(bool is_pinned, void *at);
int fake_memory_forget(bool is_pinned, void *at); /* waits for nothing */
void fake_memory_info(int device, size_t *free_p, size_t *total_p);
void fake_memory_held(fake_holdings *held);

/* ----------------------------------------------------------------- stream.c */

typedef void (*fake_work)(void *arg);

/* Enqueue; blocks while the queue is full. */
FAKE_API void fake_push(rg__cu_stream stream, fake_work work, void *arg);

/* Wait until everything that is in streams now has run. */
FAKE_API void fake_streams_wait(void);

rg__cu_stream fake_stream_create(bool is_blocking, int device);
bool fake_stream_is(rg__cu_stream stream);
void fake_stream_destroy(rg__cu_stream stream);
bool fake_stream_is_idle(rg__cu_stream stream);
void fake_stream_wait(rg__cu_stream stream);
void fake_streams_held(fake_holdings *held);

/* ---------------------------------------------------------------- kernels.c */

/* NULL: there is none of that name. */
const void *fake_kernel_find(const char *name);
/* For fake_push, by so many threads; the arguments are copied. */
void *fake_kernel_make(const void *found, unsigned threads, void **arguments);
void fake_kernel_run(void *kernel);

/* ------------------------------------------------------------------- cuda.c */

/* The device of this thread's context; -1: it has none. */
FAKE_API int fake_device(void);
FAKE_API void fake_device_bus(int device, char *text, size_t room);

FAKE_API void fake_set_sticky(int code);

#endif
