#include "elastic/state/checkpoint_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/grow.h"
#include "sdk/base/hash.h"
#include "sdk/base/put_at.h"

#define CHUNK ((size_t)1 << 20)

/* ------------------------------------------------------------------- names */

static void put_name(uint64_t serial, uint64_t step, const char *op,
                     bool is_part, char text[RG__CHECKPOINT_NAME_MAX])
{
    snprintf(text, RG__CHECKPOINT_NAME_MAX,
             "checkpoint-%08" PRIu64 "-step%" PRIu64 "-%.8s.rgck%s", serial,
             step, op, is_part ? ".part" : "");
}

void rg__checkpoint_name_of(const rg__checkpoint *c, bool is_part,
                            char text[RG__CHECKPOINT_NAME_MAX])
{
    put_name(c->serial, c->id.step, c->op, is_part, text);
}

/* A name is valid if put_name makes the same one from its numbers. */
bool rg__checkpoint_name_read(const char *text, rg__checkpoint_name *name)
{
    char op[RG__CHECKPOINT_OP], again[RG__CHECKPOINT_NAME_MAX];
    if (sscanf(text, "checkpoint-%" SCNu64 "-step%" SCNu64 "-%8[0-9a-f]",
               &name->serial, &name->step, op) != 3 ||
        name->serial == 0)
        return false;
    for (int i = 0; i < 2; i++) {
        name->is_part = i == 1;
        put_name(name->serial, name->step, op, name->is_part, again);
        if (strcmp(again, text) != 0)
            continue;
        strcpy(name->text, text);
        return true;
    }
    return false;
}

static int newest_first(const void *a_p, const void *b_p)
{
    const rg__checkpoint_name *a = a_p, *b = b_p;
    if (a->serial != b->serial)
        return a->serial < b->serial ? 1 : -1;
    return strcmp(b->text, a->text);
}

static rg_status add_name(rg__checkpoint_name **names, size_t *count,
                          const rg__checkpoint_name *name)
{
    rg__checkpoint_name *one = rg__grow(names, *count, sizeof *one);
    if (one == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a list of checkpoints");
    *one = *name;
    ++*count;
    return RG_OK;
}

static rg_status fail_read(const char *dir)
{
    const int cause = errno;
    const bool is_gone = cause == ENOENT || cause == ENOTDIR;
    return rg__fail(is_gone ? RG_ERR_NOT_FOUND : RG_ERR_SYSTEM,
                    "the checkpoint directory %s can't be read: %s", dir,
                    strerror(cause));
}

rg_status rg__checkpoint_list(const char *dir, rg__checkpoint_name **names_p,
                              size_t *count_p)
{
    rg_status st = RG_OK;
    *names_p = NULL;
    *count_p = 0;
    DIR *open = opendir(dir);
    if (open == NULL)
        return fail_read(dir);
    for (const struct dirent *e; st == RG_OK && (e = readdir(open)) != NULL;) {
        rg__checkpoint_name name;
        if (rg__checkpoint_name_read(e->d_name, &name))
            st = add_name(names_p, count_p, &name);
    }
    closedir(open);
    if (st != RG_OK) {
        free(*names_p);
        *names_p = NULL;
        *count_p = 0;
    } else if (*count_p > 1) {
        qsort(*names_p, *count_p, sizeof **names_p, newest_first);
    }
    return st;
}

static const rg__checkpoint_name *first_sealed(const rg__checkpoint_name *names,
                                               size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!names[i].is_part)
            return &names[i];
    return NULL;
}

/* The same words for the same cause, so that each is logged once. */
static rg_status fail_write(const char *dir, int cause)
{
    return rg__fail(RG_ERR_SYSTEM,
                    "no checkpoint can be written in %s: %s; an older one, if "
                    "there is one, still counts",
                    dir, strerror(cause));
}

static rg_status sync_dir(const char *dir)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_write(dir, errno);
    const bool is_synced = fsync(fd) == 0 || errno == EINVAL;
    const rg_status st = is_synced ? RG_OK : fail_write(dir, errno);
    close(fd);
    return st;
}

bool rg__checkpoint_make_dir(const char *dir)
{
    char above[PATH_MAX];
    if (mkdir(dir, 0777) != 0)
        return errno == EEXIST;
    return (size_t)snprintf(above, sizeof above, "%s/..", dir) < sizeof above &&
           sync_dir(above) == RG_OK;
}

rg_status rg__checkpoint_next(const char *dir, uint64_t newest,
                              uint64_t *serial_p)
{
    rg__checkpoint_name *names;
    size_t count;
    rg_status st = rg__checkpoint_list(dir, &names, &count);
    if (st != RG_OK)
        return st == RG_ERR_NOT_FOUND ? fail_write(dir, ENOENT) : st;
    const rg__checkpoint_name *last = first_sealed(names, count);
    if (last != NULL && last->serial > newest)
        st = rg__fail(RG_ERR_INVALID,
                      "%s has %s, which this job has neither loaded nor "
                      "written; load the newest one there (rg_state_load), or "
                      "name another directory",
                      dir, last->text);
    else
        *serial_p = newest + 1;
    free(names);
    return st;
}

static rg_status path_of(const char *dir, const char *name, char path[PATH_MAX])
{
    const int n = snprintf(path, PATH_MAX, "%s/%s", dir, name);
    if (n >= 0 && n < PATH_MAX)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "the checkpoint directory %s has too long a name", dir);
}

/* ----------------------------------------------------------------- reading */

static rg_status read_file(void *arg, uint32_t file, uint64_t at, void *to,
                           size_t n)
{
    const rg__checkpoint_file *f = arg;
    const int fd = file == 0 ? f->fd : f->other_fd;
    for (size_t done = 0; done < n;) {
        const ssize_t got =
            pread(fd, (char *)to + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return rg__fail(RG_ERR_SYSTEM, "checkpoint %s can't be read: %s",
                            f->source.name, strerror(errno));
        if (got == 0)
            return rg__fail(RG_ERR_DAMAGED,
                            "checkpoint %s became shorter while it was read",
                            f->source.name);
        done += (size_t)got;
    }
    return RG_OK;
}

static void close_other(rg__checkpoint_file *f)
{
    if (f->other_fd >= 0)
        close(f->other_fd);
    f->other_fd = -1;
}

static rg_status open_other(void *arg, uint32_t file, uint64_t bytes)
{
    rg__checkpoint_file *f = arg;
    struct stat info = {0};
    char path[PATH_MAX];
    if (f->other_fd >= 0 && f->other == file)
        return RG_OK;
    close_other(f);
    snprintf(path, sizeof path, "%s.%" PRIu32, f->source.name, file);
    f->other = file;
    f->other_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->other_fd < 0 && errno != ENOENT)
        return rg__fail(RG_ERR_SYSTEM, "checkpoint %s can't be opened: %s",
                        path, strerror(errno));
    if (f->other_fd >= 0 && fstat(f->other_fd, &info) == 0 &&
        S_ISREG(info.st_mode) && (uint64_t)info.st_size == bytes)
        return RG_OK;
    close_other(f);
    return rg__fail(RG_ERR_DAMAGED,
                    "checkpoint %s is damaged: %s.%" PRIu32 " is not there, or "
                    "does not have its %" PRIu64 " bytes; copy all its files, "
                    "or use another one",
                    f->source.name, f->source.name, file, bytes);
}

rg_status rg__checkpoint_file_open(rg__checkpoint_file *f, const char *path)
{
    struct stat info;
    f->other_fd = -1;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0) {
        const int cause = errno;
        return rg__fail(cause == ENOENT ? RG_ERR_NOT_FOUND : RG_ERR_SYSTEM,
                        "checkpoint %s can't be opened: %s", path,
                        strerror(cause));
    }
    if (fstat(f->fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(f->fd);
        f->fd = -1;
        return rg__fail(RG_ERR_DAMAGED,
                        "%s is not a checkpoint: it is not a regular file",
                        path);
    }
    f->source = (rg__checkpoint_source){.name = path,
                                        .bytes = (uint64_t)info.st_size,
                                        .open = open_other,
                                        .read = read_file,
                                        .arg = f};
    return RG_OK;
}

void rg__checkpoint_file_close(rg__checkpoint_file *f)
{
    close_other(f);
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

/* ----------------------------------------------------------------- writing */

static rg_status write_chunks(const rg__checkpoint_writing *w, int fd,
                              uint32_t i, char *room)
{
    rg__checkpoint_piece *p = &w->checkpoint->piece[i];
    const char *data = w->data[i];
    rg__hash hash;
    rg__hash_begin(&hash);
    for (uint64_t at = 0; at < p->bytes; at += CHUNK) {
        const size_t n = p->bytes - at < CHUNK ? p->bytes - at : CHUNK;
        if (w->goes_on != NULL && !w->goes_on(w->arg))
            return rg__fail(RG_ERR_JOB_ENDED,
                            "a checkpoint in %s was given up half-way", w->dir);
        const rg_status st =
            room != NULL ? w->fill(w->arg, i, at, room, n) : RG_OK;
        if (st != RG_OK)
            return st;
        const char *from = room != NULL ? room : data + at;
        rg__hash_update(&hash, from, n);
        if (!rg__put_at(fd, from, n, (off_t)(p->offset + at)))
            return fail_write(w->dir, errno);
        rg__failpoint("checkpoint.write", -1, w->checkpoint->id.step,
                      w->checkpoint->id.generation);
    }
    p->hash = rg__hash_value(&hash);
    return RG_OK;
}

static rg_status write_piece(const rg__checkpoint_writing *w, int fd,
                             uint32_t i)
{
    if (w->data[i] != NULL)
        return write_chunks(w, fd, i, NULL);
    char *room = malloc(CHUNK);
    if (room == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to write a checkpoint");
    const rg_status st = write_chunks(w, fd, i, room);
    free(room);
    return st;
}

/* file 0: the one that gets the head. */
static rg_status path_of_file(const char *dir, const rg__checkpoint *c,
                              uint32_t file, char path[PATH_MAX])
{
    char name[RG__CHECKPOINT_NAME_MAX], number[16] = "";
    rg__checkpoint_name_of(c, file == 0, name);
    if (file > 0)
        snprintf(number, sizeof number, ".%" PRIu32, file);
    const rg_status st = path_of(dir, name, path);
    if (st == RG_OK && strlen(path) + strlen(number) < PATH_MAX)
        strcat(path, number);
    return st;
}

static rg_status open_file(const rg__checkpoint_writing *w, uint32_t file,
                           int how, int *fd_p)
{
    char path[PATH_MAX];
    const rg_status st = path_of_file(w->dir, w->checkpoint, file, path);
    if (st != RG_OK)
        return st;
    *fd_p = open(path, O_WRONLY | O_CLOEXEC | how, 0666);
    return *fd_p >= 0 ? RG_OK : fail_write(w->dir, errno);
}

/* Sync to the disk, which may be another machine's and report errors late. */
static rg_status close_file(const rg__checkpoint_writing *w, int fd,
                            rg_status st)
{
    if (st == RG_OK && fsync(fd) != 0)
        st = fail_write(w->dir, errno);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (close(fd) != 0 && st == RG_OK)
        st = fail_write(w->dir, errno);
    return st;
}

/* If the file system can reserve space, a full one fails early. */
static bool reserve(int fd, uint64_t bytes)
{
    return fallocate(fd, 0, 0, (off_t)bytes) == 0 ||
           ((errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) &&
            ftruncate(fd, (off_t)bytes) == 0);
}

rg_status rg__checkpoint_begin(const rg__checkpoint_writing *w)
{
    int fd;
    rg_status st = open_file(w, 0, O_CREAT | O_EXCL, &fd);
    if (st != RG_OK)
        return st;
    if (!reserve(fd, w->checkpoint->file_bytes))
        st = fail_write(w->dir, errno);
    st = close_file(w, fd, st);
    if (st != RG_OK)
        rg__checkpoint_drop(w->dir, w->checkpoint);
    return st;
}

static rg_status write_pieces(const rg__checkpoint_writing *w, uint32_t file,
                              int fd)
{
    rg_status st = RG_OK;
    for (uint32_t i = 0; i < w->checkpoint->pieces && st == RG_OK; i++)
        if (w->checkpoint->piece[i].file == file)
            st = write_piece(w, fd, i);
    return st;
}

rg_status rg__checkpoint_put(const rg__checkpoint_writing *w)
{
    int fd;
    const rg_status st = open_file(w, 0, 0, &fd);
    return st == RG_OK ? close_file(w, fd, write_pieces(w, 0, fd)) : st;
}

static rg_status check_part(const rg__checkpoint_writing *w)
{
    char path[PATH_MAX];
    const rg_status st = path_of_file(w->dir, w->checkpoint, 0, path);
    if (st != RG_OK || access(path, F_OK) == 0)
        return st;
    return rg__fail(RG_ERR_SYSTEM,
                    "the file of a checkpoint is not in %s: %s; let all hosts "
                    "see one directory (NFS), used by one job only; the one "
                    "before still counts",
                    w->dir, strerror(errno));
}

/* Bytes and hash of each of a file's pieces, in order, and a hash of these:
 * they stand at the end of another host's file until the head has them. Only
 * that host knows how long its parts of a local buffer are. */
typedef struct sums {
    uint64_t *word; /* owned */
    size_t bytes;
    uint64_t at; /* in the file */
} sums;

static rg_status make_sums(const rg__checkpoint *c, uint32_t file, sums *s)
{
    size_t n = 0;
    *s = (sums){.word = calloc(2 * (size_t)c->pieces + 1, sizeof *s->word),
                .at = rg__checkpoint_bytes_of(c, file)};
    if (s->word == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    for (uint32_t i = 0; i < c->pieces; i++) {
        if (c->piece[i].file != file)
            continue;
        s->word[n++] = c->piece[i].bytes;
        s->word[n++] = c->piece[i].hash;
    }
    s->word[n] = rg__hash_of(s->word, n * sizeof *s->word);
    s->bytes = (n + 1) * sizeof *s->word;
    return RG_OK;
}

static rg_status put_sums(const rg__checkpoint_writing *w, uint32_t file,
                          int fd)
{
    sums s;
    rg_status st = make_sums(w->checkpoint, file, &s);
    if (st == RG_OK && !rg__put_at(fd, s.word, s.bytes, (off_t)s.at))
        st = fail_write(w->dir, errno);
    free(s.word);
    return st;
}

rg_status rg__checkpoint_put_file(const rg__checkpoint_writing *w,
                                  uint32_t file)
{
    int fd;
    char path[PATH_MAX];
    const uint64_t bytes = rg__checkpoint_bytes_of(w->checkpoint, file);
    rg_status st = check_part(w);
    if (st == RG_OK)
        st = open_file(w, file, O_CREAT | O_EXCL, &fd);
    if (st != RG_OK)
        return st;
    st = reserve(fd, bytes) ? write_pieces(w, file, fd)
                            : fail_write(w->dir, errno);
    if (st == RG_OK)
        st = put_sums(w, file, fd);
    st = close_file(w, fd, st);
    if (st == RG_OK)
        st = sync_dir(w->dir);
    if (st != RG_OK && path_of_file(w->dir, w->checkpoint, file, path) == RG_OK)
        unlink(path);
    return st;
}

static bool read_sums(int fd, sums *s)
{
    struct stat info;
    const size_t n = s->bytes / sizeof *s->word - 1;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
        (uint64_t)info.st_size < s->bytes)
        return false;
    s->at = (uint64_t)info.st_size - s->bytes;
    return pread(fd, s->word, s->bytes, (off_t)s->at) == (ssize_t)s->bytes &&
           s->word[n] == rg__hash_of(s->word, n * sizeof *s->word);
}

static bool use_sums(rg__checkpoint *c, uint32_t file, const sums *s)
{
    const uint64_t *word = s->word;
    for (uint32_t i = 0; i < c->pieces; i++) {
        rg__checkpoint_piece *p = &c->piece[i];
        if (p->file != file)
            continue;
        if (c->buffer[p->buffer].kind == RG_LOCAL)
            p->bytes = *word;
        else if (p->bytes != *word)
            return false;
        p->hash = word[1];
        word += 2;
    }
    rg__checkpoint_lay_out(c);
    return rg__checkpoint_bytes_of(c, file) == s->at;
}

/* Take another host's, whose file was durable before the host reported it. */
static rg_status take_sums(const rg__checkpoint_writing *w, uint32_t file)
{
    rg__checkpoint *c = w->checkpoint;
    char path[PATH_MAX];
    sums s = {0};
    rg_status st = path_of_file(w->dir, c, file, path);
    if (st == RG_OK)
        st = make_sums(c, file, &s);
    if (st != RG_OK)
        return st;
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || !read_sums(fd, &s) || !use_sums(c, file, &s) ||
        ftruncate(fd, (off_t)s.at) != 0)
        st = rg__fail(RG_ERR_SYSTEM,
                      "%s, which another host has written, is incomplete in "
                      "the directory of rank 0's host; let all hosts see one "
                      "directory (NFS); the one before still counts",
                      path);
    free(s.word);
    return fd < 0 ? st : close_file(w, fd, st);
}

static rg_status take_all_sums(const rg__checkpoint_writing *w)
{
    rg_status st = RG_OK;
    for (uint32_t i = 1; i <= w->checkpoint->files && st == RG_OK; i++)
        st = take_sums(w, i);
    return st;
}

rg_status rg__checkpoint_end(const rg__checkpoint_writing *w)
{
    int fd;
    rg__checkpoint *c = w->checkpoint;
    unsigned char trailer[RG__CHECKPOINT_TRAILER];
    rg_status st = take_all_sums(w);
    unsigned char *head = st == RG_OK ? malloc(c->head_bytes) : NULL;
    if (head == NULL)
        return st != RG_OK ? st
                           : rg__fail(RG_ERR_MEMORY,
                                      "no memory for a checkpoint's head");
    rg__checkpoint_encode(c, head, trailer);
    st = open_file(w, 0, 0, &fd);
    if (st == RG_OK) {
        if (!rg__put_at(fd, trailer, sizeof trailer,
                        (off_t)(c->file_bytes - sizeof trailer)) ||
            !rg__put_at(fd, head, c->head_bytes, 0))
            st = fail_write(w->dir, errno);
        st = close_file(w, fd, st);
    }
    free(head);
    return st;
}

/* ----------------------------------------------------------------- sealing */

static void remove_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (path_of(dir, name, path) == RG_OK)
        unlink(path);
}

/* Read the name of the checkpoint that another host's data belong to. */
static bool read_data_name(const char *text, rg__checkpoint_name *of)
{
    char name[RG__CHECKPOINT_NAME_MAX];
    const char *dot = strrchr(text, '.');
    const size_t n = dot != NULL ? (size_t)(dot - text) : 0;
    if (n == 0 || n >= sizeof name || dot[1] == '\0' ||
        strspn(dot + 1, "0123456789") != strlen(dot + 1))
        return false;
    memcpy(name, text, n);
    name[n] = '\0';
    return rg__checkpoint_name_read(name, of) && !of->is_part;
}

static bool has_name(const rg__checkpoint_name *names, size_t count,
                     const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i].text, text) == 0)
            return true;
    return false;
}

/* Remove data that belong to none of these checkpoints, nor to a later one. */
static void remove_data(const char *dir, uint64_t serial,
                        const rg__checkpoint_name *names, size_t count)
{
    DIR *open = opendir(dir);
    if (open == NULL)
        return;
    for (const struct dirent *e; (e = readdir(open)) != NULL;) {
        rg__checkpoint_name of;
        if (read_data_name(e->d_name, &of) && of.serial <= serial &&
            !has_name(names, count, of.text))
            remove_file(dir, e->d_name);
    }
    closedir(open);
}

static void remove_old(const char *dir, uint64_t serial, int keep)
{
    rg__checkpoint_name *names;
    size_t count, left = 0;
    int kept = 0;
    if (rg__checkpoint_list(dir, &names, &count) != RG_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        const rg__checkpoint_name *n = &names[i];
        kept += !n->is_part;
        if (n->is_part ? n->serial <= serial : kept > keep)
            remove_file(dir, n->text);
        else
            names[left++] = *n;
    }
    remove_data(dir, serial, names, left);
    free(names);
}

rg_status rg__checkpoint_seal(const char *dir, const rg__checkpoint *c,
                              int keep)
{
    char part[RG__CHECKPOINT_NAME_MAX], name[RG__CHECKPOINT_NAME_MAX];
    char from[PATH_MAX], to[PATH_MAX];
    rg__checkpoint_name_of(c, true, part);
    rg__checkpoint_name_of(c, false, name);
    rg_status st = path_of(dir, part, from);
    if (st == RG_OK)
        st = path_of(dir, name, to);
    if (st != RG_OK)
        return st;
    uint64_t serial = c->serial;
    st = rg__checkpoint_next(dir, serial - 1, &serial); /* no other was
                                                         * faster */
    if (st != RG_OK)
        return st;
    rg__failpoint("checkpoint.seal", -1, c->id.step, c->id.generation);
    if (rename(from, to) != 0)
        return fail_write(dir, errno);
    st = sync_dir(dir);
    if (st == RG_OK)
        remove_old(dir, c->serial, keep);
    return st;
}

void rg__checkpoint_drop(const char *dir, const rg__checkpoint *c)
{
    char path[PATH_MAX];
    for (uint32_t i = 0; i <= c->files; i++)
        if (path_of_file(dir, c, i, path) == RG_OK)
            unlink(path);
}
