/* Loaded before libc into an agent: its wall clock is off by as many seconds
 * as the file $REGROUP_RUN_DIR.clock says at the moment. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long offset_s(void)
{
    const char *folder = getenv("REGROUP_RUN_DIR");
    char path[256] = "", text[32] = "";
    snprintf(path, sizeof path, "%s.clock", folder != NULL ? folder : "");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? atol(text) : 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                         struct timespec *t)
{
    const int result = (int)syscall(SYS_clock_gettime, clock, t);
    if (clock == CLOCK_REALTIME)
        t->tv_sec += offset_s();
    return result;
}
