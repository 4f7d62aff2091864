/* This process writes a timeline. It puts each piece over the end of the
 * document, with a new end, so the file is always whole, even after a kill. */
#include "elastic/agent/timeline/timeline_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elastic/agent/base/file_writer.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/wire.h"

#define HEAD "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
#define NONE "{\"ph\":\"M\",\"pid\":0,\"name\":\"regroup\"}"
#define TAIL "\n]}\n"

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
        rg__put_at(file, HEAD NONE TAIL, strlen(HEAD NONE TAIL), 0))
        return file;
    rg__fail(RG_ERR_INVALID, "the timeline %s can't be written: %s", path,
             strerror(errno));
    if (file >= 0)
        close(file);
    return -1;
}

/* A piece that does not fit on the disk is taken back: what was there fits. */
static bool append(int file, const char *path, char *bytes, size_t n)
{
    const off_t end = lseek(file, 0, SEEK_END) - (off_t)strlen(TAIL);
    memcpy(bytes + n, TAIL, strlen(TAIL));
    if (rg__put_at(file, bytes, n + strlen(TAIL), end))
        return true;
    rg__log(RG__WARN, "agent",
            "the timeline %s ends before the job, since it can't be written "
            "any more: %s",
            path, strerror(errno));
    if (!rg__put_at(file, TAIL, strlen(TAIL), end) ||
        ftruncate(file, end + (off_t)strlen(TAIL)) != 0)
        rg__log(RG__WARN, "agent", "its last line can't be written either: %s",
                strerror(errno));
    return false;
}

int rg__timeline_write(int sock, const void *arg)
{
    static char room[RG__WIRE_MAX + sizeof TAIL];
    const rg__timeline_out *out = arg;
    size_t got;
    while ((got = rg__writer_next(sock, room, RG__WIRE_MAX)) > 0)
        if (!append(out->file, out->path, room, got))
            return 1;
    return 0;
}
