/* The process that writes a timeline: a disk that hangs holds it up, and not
 * the agent. The end of the document is written with each piece, over the end
 * before, so the file can be opened at any time, also after a kill. */
#include "elastic/agent/timeline/timeline_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/wire.h"

#define HEAD "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
#define NONE "{\"ph\":\"M\",\"pid\":0,\"name\":\"regroup\"}"
#define TAIL "\n]}\n"

static bool put(int file, const char *bytes, size_t n, off_t at)
{
    while (n > 0) {
        const ssize_t put = pwrite(file, bytes, n, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0)
            errno = ENOSPC;
        if (put <= 0)
            return false;
        bytes += put;
        at += put;
        n -= (size_t)put;
    }
    return true;
}

/* Does it end as a file of ours? */
static bool is_whole(int file)
{
    char tail[sizeof TAIL], head[sizeof HEAD];
    struct stat at;
    const off_t least = (off_t)(strlen(HEAD NONE TAIL));
    return fstat(file, &at) == 0 && at.st_size >= least &&
           pread(file, head, strlen(HEAD), 0) == (ssize_t)strlen(HEAD) &&
           memcmp(head, HEAD, strlen(HEAD)) == 0 &&
           pread(file, tail, strlen(TAIL), at.st_size - (off_t)strlen(TAIL)) ==
               (ssize_t)strlen(TAIL) &&
           memcmp(tail, TAIL, strlen(TAIL)) == 0;
}

int rg__timeline_file(const char *path, bool goes_on)
{
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0 && goes_on && is_whole(file))
        return file;
    if (file >= 0 && ftruncate(file, 0) == 0 &&
        put(file, HEAD NONE TAIL, strlen(HEAD NONE TAIL), 0))
        return file;
    rg__fail(RG_ERR_INVALID, "the timeline %s can't be written: %s", path,
             strerror(errno));
    if (file >= 0)
        close(file);
    return -1;
}

/* A piece that the disk has no room for is taken back: the end of before had
 * room. */
static bool append(int file, const char *path, char *bytes, size_t n)
{
    const off_t end = lseek(file, 0, SEEK_END) - (off_t)strlen(TAIL);
    memcpy(bytes + n, TAIL, strlen(TAIL));
    if (put(file, bytes, n + strlen(TAIL), end))
        return true;
    rg__log(RG__WARN, "agent",
            "the timeline %s ends before the job, since it can't be written "
            "any more: %s",
            path, strerror(errno));
    if (!put(file, TAIL, strlen(TAIL), end) ||
        ftruncate(file, end + (off_t)strlen(TAIL)) != 0)
        rg__log(RG__WARN, "agent", "its last line can't be written either: %s",
                strerror(errno));
    return false;
}

_Noreturn void rg__timeline_write(int file, const char *path, int sock)
{
    static char room[RG__WIRE_MAX + sizeof TAIL];
    sigset_t all;
    sigfillset(&all); /* a signal to the job's processes means the others */
    sigprocmask(SIG_SETMASK, &all, NULL);
    const int low = file < sock ? file : sock, high = file < sock ? sock : file;
    if (low > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)low - 1, 0);
    if (high > low + 1)
        close_range((unsigned)low + 1, (unsigned)high - 1, 0);
    close_range((unsigned)high + 1, ~0u, 0);
    for (;;) {
        const ssize_t got = recv(sock, room, RG__WIRE_MAX, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || !append(file, path, room, (size_t)got))
            _exit(got == 0 ? 0 : 1);
    }
}
