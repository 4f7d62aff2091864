/* Loops over much memory under ThreadSanitizer: it looks at all that a loop
 * reads and writes once, before the loop, and not at one element at a time.
 * Threads: any. */
#ifndef RG__UNSEEN_H
#define RG__UNSEEN_H

#include <stddef.h>

#ifdef __SANITIZE_THREAD__
void __tsan_read_range(const void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes);
#define RG__UNSEEN            __attribute__((no_sanitize("thread")))
#define RG__READS(at, bytes)  __tsan_read_range((at), (bytes))
#define RG__WRITES(at, bytes) __tsan_write_range((at), (bytes))
#else
#define RG__UNSEEN
#define RG__READS(at, bytes)  (void)0
#define RG__WRITES(at, bytes) (void)0
#endif

#endif
