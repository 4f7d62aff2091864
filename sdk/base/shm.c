#include "sdk/base/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sdk/base/fail.h"

#define HUGE_BYTES ((size_t)2 << 20)

static rg_status fill(int fd, const char *name, size_t bytes, bool reserved)
{
    if (ftruncate(fd, (off_t)bytes) != 0)
        return rg__fail(RG_ERR_MEMORY,
                        "shared memory %s can't grow to %zu bytes: %s", name,
                        bytes, strerror(errno));
    if (reserved && fallocate(fd, 0, 0, (off_t)bytes) != 0)
        return rg__fail(RG_ERR_MEMORY,
                        "shared memory %s can't reserve %zu bytes: %s; free "
                        "memory on this host or register less",
                        name, bytes, strerror(errno));
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return rg__fail(RG_ERR_SYSTEM, "shared memory %s can't be sealed: %s",
                        name, strerror(errno));
    return RG_OK;
}

rg_status rg__shm_create(const char *name, size_t bytes, bool reserved,
                         int *fd_p)
{
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return rg__fail(RG_ERR_SYSTEM, "shared memory %s can't be made: %s",
                        name, strerror(errno));
    const rg_status st = fill(fd, name, bytes, reserved);
    if (st != RG_OK) {
        close(fd);
        return st;
    }
    *fd_p = fd;
    return RG_OK;
}

rg_status rg__shm_map(int fd, size_t bytes, void **at_p)
{
    struct stat info;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &info) != 0 || info.st_size < (off_t)bytes || seals < 0 ||
        (seals & F_SEAL_SHRINK) == 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "shared memory of %zu bytes was expected, but the "
                        "descriptor is smaller or not sealed",
                        bytes);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return rg__fail(RG_ERR_MEMORY,
                        "shared memory of %zu bytes can't be mapped: %s", bytes,
                        strerror(errno));
    madvise(at, bytes, MADV_DONTFORK);
    if (bytes >= HUGE_BYTES)
        madvise(at, bytes, MADV_HUGEPAGE);
    *at_p = at;
    return RG_OK;
}

void rg__shm_unmap(void *at, size_t bytes)
{
    if (at != NULL)
        munmap(at, bytes);
}
