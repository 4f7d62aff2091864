/* sdk/base/shm.h without reserving: what an input asks for is not to be had of
 * the machine. */
#include "sdk/base/shm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sdk/base/fail.h"

#define RESERVED_MAX ((size_t)1 << 20)

static rg_status create(const char *name, size_t bytes, bool reserved,
                        int seals, int *fd_p)
{
    if (reserved && bytes > RESERVED_MAX)
        return rg__fail(RG_ERR_MEMORY, "no %zu bytes for %s", bytes, name);
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return rg__fail(RG_ERR_SYSTEM, "no memfd");
    if (rg__shm_grow(fd, name, bytes) != RG_OK ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL | seals) != 0) {
        close(fd);
        return rg__fail(RG_ERR_MEMORY, "no %zu bytes for %s", bytes, name);
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

rg_status rg__shm_grow(int fd, const char *name, size_t bytes)
{
    struct stat info;
    const bool is_there = fstat(fd, &info) == 0 && info.st_size >= 0 &&
                          (size_t)info.st_size >= bytes;
    return is_there || ftruncate(fd, (off_t)bytes) == 0
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY, "no %zu bytes for %s", bytes, name);
}

rg_status rg__shm_check(const char *name, size_t bytes)
{
    return bytes <= RESERVED_MAX
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY, "no %zu bytes for %s", bytes, name);
}

size_t rg__shm_missing(int fd, size_t at, size_t bytes)
{
    (void)fd;
    (void)at;
    return bytes;
}

rg_status rg__shm_reserve(int fd, const char *name, size_t at, size_t bytes)
{
    (void)fd;
    (void)at;
    return rg__shm_check(name, bytes);
}

rg_status rg__shm_map(int fd, size_t bytes, void **at_p)
{
    return rg__shm_map_at(fd, 0, bytes, at_p);
}

rg_status rg__shm_map_at(int fd, size_t place, size_t bytes, void **at_p)
{
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)place);
    if (at == MAP_FAILED)
        return rg__fail(RG_ERR_MEMORY, "%zu bytes can't be mapped", bytes);
    *at_p = at;
    return RG_OK;
}

rg_status rg__shm_map_over(int fd, size_t place, size_t bytes, void *at)
{
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
             (off_t)place) == MAP_FAILED)
        return rg__fail(RG_ERR_MEMORY, "%zu bytes can't be mapped", bytes);
    return RG_OK;
}

void rg__shm_touch(void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
}

void rg__shm_make_huge(void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
}

void rg__shm_unmap(void *at, size_t bytes)
{
    if (at != NULL)
        munmap(at, bytes);
}
