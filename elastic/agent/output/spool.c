/* The spool of an output.
 *
 * Each change is made by one store, of a position; the data that it covers is
 * there before, and stays untouched until the next store. If no store has
 * recorded what a system call did, that can still be found:
 *
 *   read    the ring's free bytes are 0xff before it, which is in no text
 *   write   the file has grown since the text came */
#include "elastic/agent/output/spool.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/least.h"

#define FREE 0xff
#define WRITE_BYTES                                                            \
    4096 /* a pipe that polls writable takes as many at once                   \
          */

/* Behind all that the program has printed so far, before all that comes. */
static void note(uint64_t *position, uint64_t value)
{
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile uint64_t *)position = value;
    atomic_signal_fence(memory_order_seq_cst);
}

static unsigned char *byte_at(rg__spool *sp, uint64_t position)
{
    return sp->ring + position % RG__SPOOL_BYTES;
}

/* --------------------------------------------------------------- the ring */

ssize_t rg__spool_read(rg__spool *sp, int fd)
{
    unsigned char *to = byte_at(sp, sp->read);
    const size_t room = RG__SPOOL_BYTES - (size_t)(sp->read - sp->printed);
    const size_t n = rg__least(room, (size_t)(sp->ring + RG__SPOOL_BYTES - to));
    memset(to, FREE, n);
    note(&sp->reading, sp->read + n);
    const ssize_t got = read(fd, to, n);
    if (got > 0)
        note(&sp->read, sp->read + (uint64_t)got);
    return got;
}

static void find_what_was_read(rg__spool *sp)
{
    uint64_t end = sp->reading;
    while (end > sp->read && *byte_at(sp, end - 1) == FREE)
        end--;
    if (end > sp->read)
        note(&sp->read, end);
}

size_t rg__spool_held(const rg__spool *sp, char bytes[RG__SPOOL_BYTES])
{
    const size_t n = (size_t)(sp->read - sp->printed);
    const size_t at = sp->printed % RG__SPOOL_BYTES;
    const size_t first = rg__least(n, RG__SPOOL_BYTES - at);
    memcpy(bytes, sp->ring + at, first);
    memcpy(bytes + first, sp->ring, n - first);
    return n;
}

/* --------------------------------------------------------------- the text */

void rg__spool_print(rg__spool *sp, size_t n, const char *text, size_t bytes,
                     int to, bool is_file)
{
    memcpy(sp->text, text, bytes);
    sp->at = 0;
    sp->end = bytes;
    sp->file_bytes = is_file ? lseek(to, 0, SEEK_END) : -1;
    note(&sp->printed, sp->printed + n);
}

static bool is_writable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) != 0; /* broken counts: the write says so */
}

/* false: it does not take more now. */
static bool write_text(rg__spool *sp, int to, bool is_file)
{
    while (sp->at < sp->end) {
        if (!is_file && !is_writable(to))
            return false;
        const ssize_t put = write(to, sp->text + sp->at,
                                  rg__least(sp->end - sp->at, WRITE_BYTES));
        if (put < 0 && errno == EAGAIN)
            return false;
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            sp->error = put < 0 ? errno : EIO;
            break;
        }
        sp->at += (size_t)put;
    }
    return true;
}

bool rg__spool_write(rg__spool *sp, int to, bool is_file)
{
    if (sp->written == sp->printed)
        return true;
    if (!write_text(sp, to, is_file))
        return false;
    note(&sp->written, sp->printed);
    return true;
}

bool rg__spool_is_empty(const rg__spool *sp)
{
    return sp->written == sp->read;
}

bool rg__spool_is_within(const rg__spool *sp)
{
    return sp->written != sp->printed && sp->at > 0 && sp->at < sp->end;
}

static void find_what_was_written(rg__spool *sp, int to)
{
    if (sp->written == sp->printed || sp->file_bytes < 0)
        return;
    const off_t grown = lseek(to, 0, SEEK_END) - sp->file_bytes;
    if (grown >= 0) /* not truncated meanwhile */
        sp->at = rg__least((size_t)grown, sp->end);
}

void rg__spool_resume(rg__spool *sp, int to)
{
    find_what_was_read(sp);
    find_what_was_written(sp, to);
}
