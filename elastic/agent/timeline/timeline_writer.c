/* This process makes a timeline: it reads the spans that workers have put into
 * their records, makes events of them, and puts each piece over the end of the
 * document, with a new end, so the file is always whole, even after a kill.
 *
 * It reads when the fullest ring may be a quarter full, as fast as that was
 * filled last. Records and the file are locked: a writer that was left behind
 * by an agent that was killed, or by a disk that hangs, ends first. */
#include "elastic/agent/timeline/timeline_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elastic/agent/base/file_writer.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/sock.h"

#define HEAD "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
#define NONE "{\"ph\":\"M\",\"pid\":0,\"name\":\"regroup\"}"
#define TAIL "\n]}\n"

#define LEAST_MS 5
#define MOST_MS  100 /* what a kill of all processes takes away */

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

/* 0: none. */
static pid_t writer_of(int file)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(file, F_GETLK, &all) == 0 && all.l_type != F_UNLCK ? all.l_pid
                                                                    : 0;
}

int rg__timeline_file(const char *path, bool goes_on)
{
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0 && goes_on && is_whole(file))
        return file;
    const pid_t writer = file >= 0 && !goes_on ? writer_of(file) : 0;
    if (writer != 0) {
        close(file);
        rg__fail(RG_ERR_INVALID,
                 "the timeline %s is being written by another process (%d); "
                 "choose another file",
                 path, (int)writer);
        return -1;
    }
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

void rg__trace_flush(rg__trace *t)
{
    const rg__timeline_out *out = t->out;
    if (t->n > 0 && !t->is_cut)
        t->is_cut = !append(out->file, out->path, t->buffer, t->n);
    if (t->is_cut)
        t->dropped += t->held;
    else
        atomic_fetch_add(&out->counts->events, t->held);
    atomic_store(&out->counts->dropped, t->dropped);
    t->n = t->held = 0;
}

/* ------------------------------------------------------------------ records */

/* Once no other process has it; no lock where the file system has none. */
static void lock(int file)
{
    const struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    while (fcntl(file, F_SETLKW, &all) != 0 && errno == EINTR)
        continue;
}

static rg__timeline_track tracks[RG__HOST_SLOTS_MAX];

/* The next agent's writer reads the last wait again, with what follows it. */
static void drop_worker(rg__trace *t, int slot, bool with_wait)
{
    rg__timeline_track *k = &tracks[slot];
    if (k->record == NULL)
        return;
    rg__trace_drain(t, k, slot);
    if (with_wait)
        rg__trace_last_wait(t, k, slot);
    rg__area_unmap(k->page);
    close(k->fd);
    *k = (rg__timeline_track){.fd = -1};
}

static void take_worker(rg__trace *t, int slot, int fd)
{
    rg__timeline_track *k = &tracks[slot];
    drop_worker(t, slot, true);
    *k = (rg__timeline_track){.fd = fd, .rank = -1};
    if (rg__area_map(fd, &k->page, &k->record) == RG_OK) {
        lock(fd);
        return;
    }
    close(fd);
    rg__log(RG__WARN, "agent", "slot %d has no timeline: %s", slot,
            rg_last_error());
}

/* Returns the most spans that there were in a ring. */
static uint64_t drain_all(rg__trace *t)
{
    uint64_t most = 0;
    for (int i = 0; i < RG__HOST_SLOTS_MAX; i++) {
        if (tracks[i].record == NULL)
            continue;
        const uint64_t n = rg__trace_drain(t, &tracks[i], i);
        most = n > most ? n : most;
    }
    rg__trace_dropped(t);
    rg__trace_flush(t);
    return most;
}

/* ----------------------------------------------------------------- messages */

/* false: the agent has hung up. */
static bool take_words(rg__trace *t, int sock, bool *is_over_p)
{
    rg__timeline_word word;
    int fds[RG__SOCK_FDS];
    size_t n = 0;
    rg_status st;
    while ((st = rg__sock_recv(sock, &word, sizeof word, &n, fds)) == RG_OK) {
        if (word.kind == RG__TIMELINE_WORKER && fds[0] >= 0)
            take_worker(t, (int)word.slot, fds[0]);
        else if (word.kind == RG__TIMELINE_CHANGE)
            rg__trace_change(t, &word.change, word.cause);
        else
            *is_over_p = word.kind == RG__TIMELINE_STOP;
    }
    return st == RG_IN_PROGRESS;
}

/* How long a ring takes to be a quarter full. */
static int pause_ms(uint64_t spans, uint64_t in_ns)
{
    const uint64_t quarter = RG__SPANS / 4;
    const uint64_t ms = spans > 0 ? in_ns / RG__MS * quarter / spans : MOST_MS;
    return ms < LEAST_MS ? LEAST_MS : ms > MOST_MS ? MOST_MS : (int)ms;
}

/* Until the agent hangs up; true: the timeline is over. */
static bool follow(rg__trace *t, int sock)
{
    bool is_over = false;
    uint64_t before = rg__now_ns();
    while (take_words(t, sock, &is_over) && !t->is_cut) {
        const uint64_t now = rg__now_ns();
        struct pollfd word = {.fd = sock, .events = POLLIN};
        poll(&word, 1, pause_ms(drain_all(t), now - before));
        before = now;
    }
    return is_over;
}

int rg__timeline_write(int sock, const void *arg)
{
    static rg__trace t;
    t.out = arg;
    lock(t.out->file);
    rg__trace_name_world(&t);
    const bool is_over = follow(&t, sock);
    for (int i = 0; i < RG__HOST_SLOTS_MAX; i++)
        drop_worker(&t, i, is_over);
    if (is_over)
        rg__trace_end(&t);
    rg__trace_flush(&t);
    atomic_store(&t.out->counts->is_whole, !t.is_cut);
    return t.is_cut;
}
