/* Sealed memfds. The kernel reserves them page by page, and when no page is
 * left it does not fail but kills some process of the machine; so a reservation
 * is first compared with the memory that is free. */
#include "sdk/base/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/cgroup.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/least.h"
#include "sdk/base/page.h"

/* Usually a huge page takes 1 ms, as much as touching its small ones would. */
#define HUGE_NS       (2 * RG__MS)
#define HUGE_SLACK_NS (50 * RG__MS)
#define SLICE_BYTES   ((size_t)64 << 20)
/* Each call waits for all processors once. */
#define HUGE_SLICE_BYTES (8 * RG__HUGE_BYTES)

#ifndef MADV_POPULATE_READ /* an older libc */
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static uint64_t machine_has(void)
{
    char line[128];
    uint64_t kib = UINT64_MAX / 1024;
    FILE *file = fopen("/proc/meminfo", "re");
    if (file == NULL)
        return UINT64_MAX;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            break;
    fclose(file);
    return kib * 1024;
}

rg_status rg__shm_check(const char *name, size_t bytes)
{
    const uint64_t machine = machine_has();
    const uint64_t group =
        rg__cgroup_free("/proc/self/cgroup", "/sys/fs/cgroup");
    const uint64_t there = machine < group ? machine : group;
    if (bytes <= there)
        return RG_OK;
    return rg__fail(RG_ERR_MEMORY,
                    "shared memory %s needs %zu bytes and %" PRIu64
                    " are free, %" PRIu64 " too few; free memory on this host "
                    "or register less",
                    name, bytes, there, bytes - there);
}

/* A signal would undo the call's work so far, and a profiler's come faster than
 * gigabytes are reserved: none arrives within a slice. */
static int allocate_slice(int fd, size_t at, size_t bytes)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err;
    do
        err = fallocate(fd, 0, (off_t)at, (off_t)bytes) == 0 ? 0 : errno;
    while (err == EINTR); /* stopped, and continued */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

static rg_status allocate(int fd, const char *name, size_t at, size_t bytes)
{
    int err = 0;
    for (size_t done = 0; done < bytes && err == 0; done += SLICE_BYTES)
        err = allocate_slice(fd, at + done,
                             bytes - done < SLICE_BYTES ? bytes - done
                                                        : SLICE_BYTES);
    if (err == 0)
        return RG_OK;
    return rg__fail(RG_ERR_MEMORY,
                    "shared memory %s can't reserve %zu bytes: %s; free memory "
                    "on this host or register less",
                    name, bytes, strerror(err));
}

size_t rg__shm_missing(int fd, size_t at, size_t bytes)
{
    const off_t end = (off_t)(at + bytes);
    size_t missing = 0;
    for (off_t hole = (off_t)at, data; hole < end; hole = data) {
        hole = lseek(fd, hole, SEEK_HOLE);
        if (hole < 0 || hole >= end)
            break;
        data = lseek(fd, hole, SEEK_DATA);
        if (data < 0 || data > end)
            data = end;
        missing += (size_t)(data - hole);
    }
    return missing;
}

rg_status rg__shm_reserve(int fd, const char *name, size_t at, size_t bytes)
{
    const size_t missing = rg__shm_missing(fd, at, bytes);
    if (missing == 0)
        return RG_OK;
    const rg_status st = rg__shm_check(name, missing);
    return st == RG_OK ? allocate(fd, name, at, bytes) : st;
}

static bool has_bytes(int fd, size_t place, size_t bytes)
{
    struct stat info;
    return fstat(fd, &info) == 0 && (uint64_t)info.st_size >= place &&
           (uint64_t)info.st_size - place >= bytes;
}

/* Beyond it the kernel sends SIGXFSZ. */
static rg_status check_limit(const char *name, size_t bytes)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) != 0 || bytes <= most.rlim_cur)
        return RG_OK;
    return rg__fail(RG_ERR_MEMORY,
                    "shared memory %s of %zu bytes, most of which are never "
                    "used, is larger than the %" PRIu64 " bytes that a file "
                    "may have; raise ulimit -f",
                    name, bytes, (uint64_t)most.rlim_cur);
}

rg_status rg__shm_grow(int fd, const char *name, size_t bytes)
{
    if (has_bytes(fd, 0, bytes))
        return RG_OK;
    const rg_status st = check_limit(name, bytes);
    if (st != RG_OK)
        return st;
    if (ftruncate(fd, (off_t)bytes) == 0)
        return RG_OK;
    return rg__fail(RG_ERR_MEMORY,
                    "shared memory %s can't grow to %zu bytes: %s", name, bytes,
                    strerror(errno));
}

static rg_status fill(int fd, const char *name, size_t bytes, bool reserved,
                      int seals)
{
    rg_status st = rg__shm_grow(fd, name, bytes);
    if (st == RG_OK && reserved)
        st = allocate(fd, name, 0, bytes);
    if (st != RG_OK)
        return st;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL | seals) != 0)
        return rg__fail(RG_ERR_SYSTEM, "shared memory %s can't be sealed: %s",
                        name, strerror(errno));
    return RG_OK;
}

static rg_status create(const char *name, size_t bytes, bool reserved,
                        int seals, int *fd_p)
{
    if (reserved && rg__shm_check(name, bytes) != RG_OK)
        return RG_ERR_MEMORY;
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return rg__fail(RG_ERR_SYSTEM, "shared memory %s can't be made: %s",
                        name, strerror(errno));
    const rg_status st = fill(fd, name, bytes, reserved, seals);
    if (st != RG_OK) {
        close(fd);
        return st;
    }
    *fd_p = fd;
    return RG_OK;
}

rg_status rg__shm_create(const char *name, size_t bytes, bool reserved,
                         int *fd_p)
{
    return create(name, bytes, reserved, F_SEAL_GROW, fd_p);
}

rg_status rg__shm_create_growing(const char *name, size_t bytes, int *fd_p)
{
    return create(name, bytes, true, 0, fd_p);
}

/* Room for the bytes, where huge pages fit. NULL: the kernel may choose. */
static void *find_place(size_t bytes)
{
    if (bytes < RG__HUGE_BYTES)
        return NULL;
    const size_t whole = rg__page_round(bytes);
    char *room = mmap(NULL, whole + RG__HUGE_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    const size_t before = -(uintptr_t)room % RG__HUGE_BYTES;
    if (before > 0)
        munmap(room, before);
    munmap(room + before + whole, RG__HUGE_BYTES - before);
    return room + before;
}

static rg_status map(int fd, size_t place, size_t bytes, void *hint, int flags,
                     void **at_p)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    if (!has_bytes(fd, place, bytes) || seals < 0 ||
        (seals & F_SEAL_SHRINK) == 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "shared memory of %zu bytes was expected, but the "
                        "descriptor is smaller or not sealed",
                        bytes);
    void *at = mmap(hint, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd,
                    (off_t)place);
    if (at == MAP_FAILED)
        return rg__fail(RG_ERR_MEMORY,
                        "shared memory of %zu bytes can't be mapped: %s", bytes,
                        strerror(errno));
    madvise(at, bytes, MADV_DONTFORK);
    madvise(at, bytes, MADV_DONTDUMP); /* sparse, or a copy of what is */
    if (bytes >= RG__HUGE_BYTES)
        madvise(at, bytes, MADV_HUGEPAGE);
    *at_p = at;
    return RG_OK;
}

rg_status rg__shm_map_at(int fd, size_t place, size_t bytes, void **at_p)
{
    return map(fd, place, bytes, NULL, 0, at_p);
}

rg_status rg__shm_map_over(int fd, size_t place, size_t bytes, void *at)
{
    const rg_status st = map(fd, place, bytes, at, MAP_FIXED, &at);
    if (st != RG_OK)
        return st;
    madvise(at, bytes, MADV_DODUMP); /* the program's, no copy */
    madvise(at, (size_t)sysconf(_SC_PAGESIZE), MADV_RANDOM);
    return RG_OK;
}

rg_status rg__shm_map(int fd, size_t bytes, void **at_p)
{
    void *place = find_place(bytes);
    const rg_status st =
        map(fd, 0, bytes, place, place != NULL ? MAP_FIXED : 0, at_p);
    if (st != RG_OK)
        rg__shm_unmap(place, bytes);
    return st;
}

/* By its processor time: on a busy machine calls last longer, at equal cost. */
static uint64_t worked_ns(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000 * RG__MS + (uint64_t)t.tv_nsec;
}

/* Where memory is in pieces the kernel has to move others' pages first. */
void rg__shm_make_huge(void *at, size_t bytes)
{
    const uint64_t begin = worked_ns();
    uint64_t ns = HUGE_SLACK_NS;
    for (size_t p = 0; p + RG__HUGE_BYTES <= bytes; p += HUGE_SLICE_BYTES) {
        const size_t slice = rg__least(bytes - p, HUGE_SLICE_BYTES);
        const bool fails = madvise((char *)at + p, slice, MADV_COLLAPSE) != 0;
        ns += slice / RG__HUGE_BYTES * HUGE_NS;
        if ((fails && errno != EAGAIN && errno != EBUSY) ||
            worked_ns() - begin > ns)
            return;
    }
}

/* Reading maps the pages around as well, and shared memory for writing. */
void rg__shm_touch(void *at, size_t bytes)
{
    madvise(at, bytes, MADV_POPULATE_READ);
}

void rg__shm_unmap(void *at, size_t bytes)
{
    if (at != NULL)
        munmap(at, bytes);
}
