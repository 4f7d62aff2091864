/* Shared memory: zeroed, of one size forever, refused when it could still
 * shrink; in huge pages where the kernel has them; reserving more than there
 * is, is an error and not a signal later.
 *
 * Covers: shm.c */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/shm.h"
#include "tests/check.h"
#include "tests/lib/huge.h"

#define BYTES ((size_t)3 << 20)

static void check_sealed(void)
{
    int fd = -1;
    void *at = NULL, *twin = NULL;
    CHECK_OK(rg__shm_create("sealed", BYTES, true, &fd));
    CHECK(ftruncate(fd, 10) != 0);
    CHECK(ftruncate(fd, (off_t)BYTES * 2) != 0);
    CHECK((fcntl(fd, F_GET_SEALS) & F_SEAL_SEAL) != 0);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK_OK(rg__shm_map(fd, BYTES, &at));
    CHECK_OK(rg__shm_map(fd, BYTES, &twin));
    for (size_t i = 0; i < BYTES; i += 4096)
        CHECK_EQ(((char *)at)[i], 0);
    memset(at, 7, BYTES);
    CHECK_EQ(((char *)twin)[BYTES - 1], 7);
    rg__shm_unmap(twin, BYTES);
    void *too_large = NULL;
    CHECK_STATUS(rg__shm_map(fd, BYTES + 1, &too_large), RG_ERR_SYSTEM);
    CHECK(too_large == NULL);
    rg__shm_unmap(at, BYTES);
    rg__shm_unmap(NULL, BYTES);
    close(fd);
}

/* A limit on files is an error, not the signal that the kernel would send. */
static void check_limited(void)
{
    int fd = -1;
    struct rlimit before, small;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){BYTES, before.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_STATUS(rg__shm_create("large", BYTES + 1, false, &fd), RG_ERR_MEMORY);
    CHECK(strstr(rg_last_error(), "ulimit -f") != NULL);
    CHECK_OK(rg__shm_create("small", BYTES, false, &fd));
    close(fd);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* Larger while it is mapped, never smaller; a part of it is mapped. To ask for
 * less than there is, as after a crash, is no error. */
static void check_growing(void)
{
    int fd = -1;
    struct stat info;
    char *whole, *part;
    void *at = NULL;
    CHECK_OK(rg__shm_create_growing("growing", BYTES, &fd));
    CHECK_OK(rg__shm_map(fd, BYTES, &at));
    whole = at;
    CHECK_STATUS(rg__shm_map_at(fd, BYTES, BYTES, &at), RG_ERR_SYSTEM);
    CHECK_OK(rg__shm_grow(fd, "growing", BYTES * 2));
    CHECK_OK(rg__shm_map_at(fd, BYTES - 4096, 8192, &at));
    part = at;
    part[0] = 5;
    CHECK_EQ(whole[BYTES - 4096], 5);
    part[4096] = 6;
    CHECK_OK(rg__shm_grow(fd, "growing", BYTES));
    CHECK_EQ(fstat(fd, &info), 0);
    CHECK_EQ(info.st_size, (off_t)BYTES * 2);
    CHECK_STATUS(rg__shm_map_at(fd, BYTES * 3, 4096, &at), RG_ERR_SYSTEM);
    rg__shm_unmap(part, 8192);
    rg__shm_unmap(whole, BYTES);
    close(fd);
}

static void check_huge(void)
{
    const size_t bytes = 2 * HUGE_PAGE + 4097;
    int fd = -1;
    void *at = NULL;
    CHECK_OK(rg__shm_create("huge", bytes, true, &fd));
    CHECK_OK(rg__shm_map(fd, bytes, &at));
    memset(at, 7, bytes);
    rg__shm_make_huge(at, bytes);
    check_is_huge(at);
    CHECK_BYTES(at, 7, bytes);
    rg__shm_unmap(at, bytes);
    close(fd);
}

static double worked_ms(void)
{
    struct timespec t;
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Beside processes that take the processors most of the time, too, unless that
 * costs this thread too much. */
static void check_huge_when_busy(void)
{
    enum { OTHERS = 16 };
    const size_t bytes = 64 * HUGE_PAGE;
    const pid_t me = getpid();
    pid_t other[OTHERS];
    int fd = -1;
    void *at = NULL;
    for (int i = 0; i < OTHERS; i++) {
        other[i] = fork();
        CHECK(other[i] >= 0);
        while (other[i] == 0)
            if (getppid() != me)
                _exit(1);
    }
    CHECK_OK(rg__shm_create("huge", bytes, true, &fd));
    CHECK_OK(rg__shm_map(fd, bytes, &at));
    const double before = worked_ms();
    rg__shm_make_huge(at, bytes);
    const double worked = worked_ms() - before;
    for (int i = 0; i < OTHERS; i++) {
        CHECK_EQ(kill(other[i], SIGKILL), 0);
        CHECK_EQ(waitpid(other[i], NULL, 0), other[i]);
    }
    memset(at, 7, bytes);
    if (huge_kib(at) < (long)(bytes >> 11) && worked < 50) /* half of it */
        CHECK(madvise(at, bytes, 25 /* MADV_COLLAPSE */) != 0);
    rg__shm_unmap(at, bytes);
    close(fd);
}

static void check_unsealed(void)
{
    void *at = NULL;
    const int fd = memfd_create("unsealed", MFD_ALLOW_SEALING);
    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, (off_t)BYTES), 0);
    CHECK_STATUS(rg__shm_map(fd, BYTES, &at), RG_ERR_SYSTEM);
    close(fd);
    CHECK_STATUS(rg__shm_map(-1, BYTES, &at), RG_ERR_SYSTEM);
    CHECK(at == NULL);
}

static void check_reserved(void)
{
    struct stat info;
    int fd = -1;
    CHECK_OK(rg__shm_create("reserved", BYTES, true, &fd));
    CHECK_EQ(fstat(fd, &info), 0);
    CHECK(info.st_blocks * 512 >= (long)BYTES);
    close(fd);
    CHECK_OK(rg__shm_create("sparse", (size_t)1 << 40, false, &fd));
    CHECK_EQ(fstat(fd, &info), 0);
    CHECK_EQ(info.st_blocks, 0);
    close(fd);
}

/* Should the check under test be missing, the kernel is to kill this process
 * and no other process. */
static void be_the_first_to_go(void)
{
    FILE *file = fopen("/proc/self/oom_score_adj", "w");
    if (file == NULL || fputs("1000", file) < 0 || fclose(file) != 0)
        SKIP("this process can't offer itself to the kernel's OOM killer");
}

static void check_more_than_there_is(void)
{
    int fd = -1;
    be_the_first_to_go();
    CHECK_STATUS(rg__shm_create("far too large", (size_t)1 << 50, true, &fd),
                 RG_ERR_MEMORY);
    CHECK(
        strstr(rg_last_error(), "far too large needs 1125899906842624 bytes"));
    CHECK(strstr(rg_last_error(), "too few"));
    CHECK_EQ(fd, -1);
}

int main(void)
{
    check_sealed();
    check_limited();
    check_growing();
    check_huge();
    check_huge_when_busy();
    check_unsealed();
    check_reserved();
    check_more_than_there_is();
    return 0;
}
