/* Writing to a place in a file. Threads: any. */
#ifndef RG_BASE_PUT_AT_H
#define RG_BASE_PUT_AT_H

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

/* All n bytes; false: not all of them, and errno says why. */
static inline bool rg__put_at(int fd, const void *bytes, size_t n, off_t at)
{
    for (size_t done = 0; done < n;) {
        const ssize_t put =
            pwrite(fd, (const char *)bytes + done, n - done, at + (off_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0)
            errno = ENOSPC;
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

#endif
