/* What tests may ask of the stand-in for device memory and NCCL, beside what
 * the real libraries offer: dlsym on libfakecuda.so. README.md tells what the
 * stand-in imitates, how faults are written down and what it does not forgive.
 *
 * Threads: any. */
#ifndef TESTS_DEVICE_FAKE_H
#define TESTS_DEVICE_FAKE_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

/* What this process holds. Of communicators, threads and descriptors it counts
 * those that the stand-in made. */
typedef struct fake_holdings {
    int comms;     /* not freed yet */
    int threads;   /* of streams, of initialisation, of unique ids */
    int files;     /* descriptors */
    int streams;   /* not destroyed yet */
    int blocks;    /* of device and pinned memory */
    size_t device; /* bytes */
    size_t pinned; /* bytes */
} fake_holdings;
FAKE_API void fake_held(fake_holdings *held_p);

/* From now on a call by this thread ends the test. What: for the sentence. A
 * thread with the name "regroup" needs no such call. */
FAKE_API void fake_forbid_thread(const char *what);

/* guard: says why no call may be made now by the thread that asks, or NULL. It
 * is asked in each call, without a lock. */
typedef const char *(*fake_guard)(void);
FAKE_API void fake_set_guard(fake_guard guard);

/* The thread that is in a call with this communicator, by its id; 0: none. */
struct ncclComm;
FAKE_API int fake_caller(struct ncclComm *comm);

/* Enqueue fn as a kernel; it may touch device memory at what fake_reach says.
 * arg is the caller's until then. */
struct CUstream_st;
FAKE_API int fake_launch(struct CUstream_st *stream, void (*fn)(void *),
                         void *arg);

/* A fault that no call outlives; 0: none. */
FAKE_API int fake_sticky(void);

/* Where a kernel finds n bytes of device or pinned memory. */
FAKE_API void *fake_reach(unsigned long long address, size_t n);

#endif
