/* Buffers of the program's own memory that collectives read in place, as they
 * do rg_alloc memory (rg_register). The whole pages of a buffer become those of
 * a segment, at the same address. Its first and last page may hold other things
 * of the program, so they stay; the segment has pages for them, too, and an
 * operation copies what the buffer has there (sdk/transport/mapping.c).
 *
 * In the segment's pages, a child of fork would write into the memory of its
 * parent. They are not inherited; the child maps them again, for itself. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "elastic/worker/worker.h"
#include "sdk/base/fail.h"
#include "sdk/base/shm.h"

#define LEAST       ((uint64_t)64 << 10) /* in whole pages; less gains little */
#define SLICE_BYTES ((uint64_t)16 << 20)

#ifndef MADV_COLD /* an older libc */
#define MADV_COLD 20
#endif

typedef struct registered {
    struct registered *next;
    rg__home home;
    uint32_t id;   /* of its segment; 0: none, the buffer is where it was */
    int fd;        /* likewise */
    bool is_there; /* when a process is forked */
} registered;

/* Taken before all locks of the library. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static registered *first;
static int maps = -1;

/* ------------------------------------------------------- what may be moved */

/* A line of /proc/self/maps. */
typedef struct area {
    uint64_t begin, end, inode;
    unsigned major, minor;
    char rights[5];
    int name_at;
} area;

static bool read_area(const char *line, area *a)
{
    return sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %x:%x %" SCNu64 " %n",
                  &a->begin, &a->end, a->rights, &a->major, &a->minor,
                  &a->inode, &a->name_at) >= 6;
}

/* NULL: it is ordinary memory, as from malloc. */
static const char *what_else(const area *a, const char *line)
{
    if (strncmp(line + a->name_at, "[stack", 6) == 0)
        return "they are on a stack";
    if (a->rights[3] != 'p')
        return "they are shared memory already, as rg_alloc's are";
    if (a->inode != 0)
        return "they belong to a file, a device or huge pages";
    return strncmp(a->rights, "rw-", 3) == 0
               ? NULL
               : "they can't be written, or are a program's code";
}

/* Why [at, end) can't be moved, or NULL. */
static const char *find_obstacle(FILE *file, uint64_t at, uint64_t end)
{
    static const char gap[] = "they are not memory of this process alone (a "
                              "GPU's?)";
    const char *why = NULL;
    char *line = NULL;
    size_t room = 0;
    while (at < end && why == NULL && getline(&line, &room, file) > 0) {
        area a;
        if (!read_area(line, &a) || a.end <= at)
            continue;
        why = a.begin > at ? gap : what_else(&a, line);
        at = a.end;
    }
    free(line);
    return why == NULL && at < end ? gap : why;
}

/* The kernel refuses this advice for locked memory; an old one always. */
static bool is_locked(void *at, size_t bytes)
{
    void *other = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool is_known =
        other != MAP_FAILED && madvise(other, bytes, MADV_COLD) == 0;
    if (other != MAP_FAILED)
        munmap(other, bytes);
    return is_known && madvise(at, bytes, MADV_COLD) != 0;
}

static rg_status check_memory(const rg__home *home)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uint64_t begin = (uint64_t)(uintptr_t)home->pages;
    if (home->pages_bytes == 0)
        return RG_OK;
    FILE *file = fopen("/proc/self/maps", "re");
    const char *why =
        file == NULL ? "/proc/self/maps can't be read"
                     : find_obstacle(file, begin, begin + home->pages_bytes);
    if (file != NULL)
        fclose(file);
    if (why == NULL && is_locked(home->pages, page))
        why = "they are locked (mlock)";
    return why == NULL
               ? RG_OK
               : rg__fail(RG_ERR_INVALID,
                          "the %" PRIu64 " bytes at %p can't be registered: "
                          "%s; register memory of malloc or the like, or take "
                          "rg_alloc's",
                          home->bytes, (void *)home->at, why);
}

/* ------------------------------------------------------ what is registered */

/* If the program gave some of the pages other rights or advice, a collective
 * copies, but the pages are still there. */
static bool is_in_maps(FILE *file, const registered *r)
{
    struct stat own;
    uint64_t at = (uint64_t)(uintptr_t)r->home.pages;
    const uint64_t end = at + r->home.pages_bytes;
    bool is_right = fstat(r->fd, &own) == 0;
    char *line = NULL;
    size_t room = 0;
    while (at < end && is_right && getline(&line, &room, file) > 0) {
        area a;
        if (!read_area(line, &a) || a.end <= at)
            continue;
        is_right = a.begin <= at && a.rights[3] == 's' &&
                   a.inode == own.st_ino && a.major == major(own.st_dev) &&
                   a.minor == minor(own.st_dev);
        at = a.end;
    }
    free(line);
    return is_right && at >= end;
}

static bool is_there(const registered *r)
{
    if (rg__mapping_is_shared(-1, &r->home))
        return true;
    FILE *file = fopen("/proc/self/maps", "re");
    const bool is_it = file != NULL && is_in_maps(file, r);
    if (file != NULL)
        fclose(file);
    return is_it;
}

/* -------------------------------------------------------------------- forks */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    for (registered *r = first; r != NULL; r = r->next)
        r->is_there = r->id != 0 && is_there(r);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* What the child has not written, it sees as its parent has it. The segments
 * are the parent's alone; the child's own children inherit its memory. */
static void in_child(void)
{
    for (registered *r = first; r != NULL; r = r->next) {
        if (r->is_there)
            mmap(r->home.pages, r->home.pages_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED, r->fd, (off_t)r->home.pages_at);
        if (r->id != 0)
            close(r->fd);
        r->id = 0;
    }
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

/* ------------------------------------------------------------------- moving */

static rg__home home_of(char *at, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t p = (uintptr_t)at;
    const uintptr_t begin = (p + page - 1) / page * page;
    const uintptr_t end = (p + bytes) / page * page;
    return (rg__home){.at = at,
                      .bytes = bytes,
                      .pages = (char *)begin,
                      .pages_bytes = end > begin ? end - begin : 0,
                      .pages_at = begin > p ? page : 0};
}

/* Do others of this host map what is registered here? */
static bool has_peers(const rg__worker *w)
{
    return w->sock >= 0 || w->registry != NULL;
}

static void drop_segment(rg_ctx *ctx, registered *r)
{
    close(r->fd);
    rg__segment_drop(ctx, r->id);
    r->id = 0;
}

static void open_maps(rg_ctx *ctx)
{
    if (maps < 0)
        maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    rg__engine_lock(ctx->engine);
    rg__engine_mappings(ctx->engine)->maps = maps;
    rg__engine_unlock(ctx->engine);
}

static rg_status move(rg_ctx *ctx, registered *r)
{
    const rg__home *home = &r->home;
    const size_t bytes =
        home->pages_at + home->pages_bytes + (size_t)sysconf(_SC_PAGESIZE);
    void *segment = NULL;
    rg_status st = rg__segment_make(ctx, bytes, &r->id, &r->fd, &segment);
    if (st != RG_OK)
        return st;
    if (!rg__mapping_is_area(-1, segment, bytes)) { /* /proc tells nothing */
        drop_segment(ctx, r);
        return RG_OK;
    }
    memcpy((char *)segment + home->pages_at, home->pages, home->pages_bytes);
    st =
        rg__shm_map_over(r->fd, home->pages_at, home->pages_bytes, home->pages);
    if (st != RG_OK) {
        drop_segment(ctx, r);
        return st;
    }
    rg__shm_touch(home->pages, home->pages_bytes);
    open_maps(ctx);
    rg__segment_settle(ctx, r->id, home);
    return RG_OK;
}

/* The system call itself: under some MPIs UCX replaces libc's mremap by one
 * that drops the last argument. */
static bool put_over(char *from, size_t bytes, char *to)
{
    return syscall(SYS_mremap, from, bytes, bytes,
                   MREMAP_MAYMOVE | MREMAP_FIXED, to) == (long)(uintptr_t)to;
}

/* In slices, whose memory in the segment is given back at once, so that no
 * second copy of all is needed. A slice that can't be moved stays in the
 * segment's pages, which live as long as they are mapped there. */
static rg_status move_back(const registered *r)
{
    const rg__home *home = &r->home;
    char *own = mmap(NULL, home->pages_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        return rg__fail(RG_ERR_MEMORY,
                        "no memory for the %" PRIu64 " bytes at %p: %s; they "
                        "stay registered",
                        home->bytes, (void *)home->at, strerror(errno));
    for (uint64_t at = 0; at < home->pages_bytes; at += SLICE_BYTES) {
        const uint64_t left = home->pages_bytes - at;
        const size_t bytes = left < SLICE_BYTES ? left : SLICE_BYTES;
        memcpy(own + at, home->pages + at, bytes);
        if (!put_over(own + at, bytes, home->pages + at))
            munmap(own + at, bytes);
        else
            fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      (off_t)(home->pages_at + at), (off_t)bytes);
    }
    return RG_OK;
}

/* --------------------------------------------------------------- the calls */

/* Buffers whose memory is gone are dropped. */
static rg_status check_others(rg_ctx *ctx, const rg__home *home)
{
    for (registered **at = &first; *at != NULL;) {
        registered *r = *at;
        if (r->home.at >= home->at + home->bytes ||
            home->at >= r->home.at + r->home.bytes) {
            at = &r->next;
            continue;
        }
        if (r->id == 0 || is_there(r))
            return rg__fail(RG_ERR_INVALID,
                            "the %" PRIu64 " bytes at %p are registered "
                            "already, or some of them: %" PRIu64 " at %p are",
                            home->bytes, (void *)home->at, r->home.bytes,
                            (void *)r->home.at);
        *at = r->next;
        drop_segment(ctx, r);
        free(r);
    }
    return RG_OK;
}

static rg_status add(rg_ctx *ctx, registered *r)
{
    rg_status st = check_others(ctx, &r->home);
    if (st == RG_OK)
        st = check_memory(&r->home);
    if (st == RG_OK && has_peers(ctx->worker) && r->home.pages_bytes >= LEAST)
        st = move(ctx, r);
    if (st != RG_OK)
        return st;
    r->next = first;
    first = r;
    return RG_OK;
}

rg_status rg_register(rg_ctx *ctx, void *p, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (ctx == NULL || p == NULL || bytes == 0 || bytes > PTRDIFF_MAX ||
        (uintptr_t)p > UINTPTR_MAX - bytes)
        return rg__fail(RG_ERR_INVALID,
                        "rg_register needs a context, memory, and a size above "
                        "0 of what memory holds");
    registered *r = calloc(1, sizeof *r);
    if (r == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a registration");
    pthread_once(&once, watch_forks);
    r->home = home_of(p, bytes);
    pthread_mutex_lock(&lock);
    const rg_status st = add(ctx, r);
    pthread_mutex_unlock(&lock);
    if (st != RG_OK)
        free(r);
    return st;
}

static rg_status take_back(rg_ctx *ctx, registered *r)
{
    static const rg__home none = {0};
    if (!is_there(r))
        return rg__fail(RG_ERR_INVALID,
                        "the %" PRIu64 " bytes at %p were freed or unmapped "
                        "before rg_unregister; they are registered no more",
                        r->home.bytes, (void *)r->home.at);
    rg__segment_settle(ctx, r->id, &none);
    const rg_status st = move_back(r);
    if (st != RG_OK)
        rg__segment_settle(ctx, r->id, &r->home);
    return st;
}

static rg_status remove_at(rg_ctx *ctx, const void *p)
{
    registered **at = &first;
    while (*at != NULL && (*at)->home.at != p)
        at = &(*at)->next;
    registered *r = *at;
    if (r == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "%p was not registered, or is not any more", p);
    const rg_status st = r->id == 0 ? RG_OK : take_back(ctx, r);
    if (st == RG_ERR_MEMORY)
        return st;
    *at = r->next;
    if (r->id != 0)
        drop_segment(ctx, r);
    free(r);
    return st;
}

rg_status rg_unregister(rg_ctx *ctx, void *p)
{
    if (p == NULL)
        return RG_OK;
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_unregister needs a context");
    pthread_mutex_lock(&lock);
    const rg_status st = remove_at(ctx, p);
    pthread_mutex_unlock(&lock);
    return st;
}

void rg__registered_end(rg_ctx *ctx)
{
    pthread_mutex_lock(&lock);
    while (first != NULL) {
        registered *r = first;
        first = r->next;
        if (r->id != 0) {
            take_back(ctx, r);
            close(r->fd);
        }
        free(r);
    }
    if (maps >= 0)
        close(maps);
    maps = -1;
    pthread_mutex_unlock(&lock);
}
