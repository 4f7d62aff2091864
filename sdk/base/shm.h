/* Shared memory without names: sealed memfds that travel by SCM_RIGHTS. */
#ifndef RG_BASE_SHM_H
#define RG_BASE_SHM_H

#include <stdbool.h>
#include <stddef.h>

#include "regroup/regroup.h"

#define RG__HUGE_BYTES ((size_t)2 << 20) /* a huge page */

/* Make a memfd of that size, zeroed and sealed against resizing; reserved:
 * every page exists now, so that no later store can fail (ERR_MEMORY). */
rg_status rg__shm_create(const char *name, size_t bytes, bool reserved,
                         int *fd_p);

/* One whose size may rise, with these bytes reserved from the start. Mapped
 * memory stays as it is, and so does a memfd that is large enough. */
rg_status rg__shm_create_growing(const char *name, size_t bytes, int *fd_p);
rg_status rg__shm_grow(int fd, const char *name, size_t bytes);

/* Reserve the pages from `at` on now (ERR_MEMORY). */
rg_status rg__shm_reserve(int fd, const char *name, size_t at, size_t bytes);

/* Bytes of [at, at + bytes) that have no pages yet. */
size_t rg__shm_missing(int fd, size_t at, size_t bytes);

/* Is so much memory free? ERR_MEMORY. */
rg_status rg__shm_check(const char *name, size_t bytes);

/* Map it shared, for reading and writing; not inherited by fork, nor in core
 * dumps. Refuses a descriptor that is smaller than bytes or can shrink. */
rg_status rg__shm_map(int fd, size_t bytes, void **at_p);

/* The same of bytes [place, place + bytes); place: whole pages. */
rg_status rg__shm_map_at(int fd, size_t place, size_t bytes, void **at_p);

/* The same in the place of the whole pages at `at`. */
rg_status rg__shm_map_over(int fd, size_t place, size_t bytes, void *at);

/* Have all pages of mapped memory that is reserved, here and in this process's
 * table of pages, before it is used: the kernel is several times as fast with
 * many at once. It may not know how (before Linux 5.14); then they come when
 * they are used. */
void rg__shm_touch(void *at, size_t bytes);

/* Move the pages of new memory into huge ones, as many as the kernel finds in a
 * time that is worth it (from Linux 6.1 on): a pass over a large buffer is a
 * fifth slower in small ones. Other processes' mappings follow when they are
 * next used. at: where a huge page may begin, as rg__shm_map chooses it. */
void rg__shm_make_huge(void *at, size_t bytes);

/* NULL is allowed. */
void rg__shm_unmap(void *at, size_t bytes);

#endif
