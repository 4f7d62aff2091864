/* file: and kubernetes: a file that exists is a notice. A thread reads it,
 * since a file system that hangs would block the loop; the thread reads once
 * for each time it is asked. If the source is destroyed while the thread hangs,
 * the thread is left behind and frees their memory when it returns. */
#include "elastic/notice/notice_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include "sdk/base/start_thread.h"

#define FILE_MAX 4096 /* of it is read */

typedef struct reader {
    rg__source *s;
    pthread_mutex_t lock; /* guards all below; nothing is locked under it */
    pthread_cond_t request;
    char *path;
    bool is_wanted, is_over, is_reading;
    int event, error;
    size_t bytes;
    char text[FILE_MAX + 1];
} reader;

static void free_reader(reader *r)
{
    pthread_cond_destroy(&r->request);
    pthread_mutex_destroy(&r->lock);
    close(r->event);
    free(r->path);
    free(r);
}

/* ------------------------------------------------------------------ thread */

/* Returns an errno, or 0 and the bytes. */
static int read_file(const char *path, char *text, size_t *bytes_p)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno;
    ssize_t n = 0;
    int error = fstat(fd, &about) != 0 ? errno : 0;
    if (error == 0 && !S_ISREG(about.st_mode))
        error = EINVAL;
    if (error == 0 && (n = read(fd, text, FILE_MAX)) < 0)
        error = errno;
    close(fd);
    *bytes_p = n > 0 ? (size_t)n : 0;
    return error;
}

static void read_once(reader *r)
{
    char text[FILE_MAX + 1];
    size_t bytes = 0;
    const uint64_t one = 1;
    pthread_mutex_unlock(&r->lock);
    const int error = read_file(r->path, text, &bytes);
    pthread_mutex_lock(&r->lock);
    memcpy(r->text, text, bytes);
    r->text[bytes] = '\0';
    r->bytes = bytes;
    r->error = error;
    r->is_reading = false;
    if (!r->is_over && write(r->event, &one, sizeof one) < 0)
        r->error = errno; /* the counter can't overflow */
}

static void *run_reader(void *arg)
{
    reader *r = arg;
    pthread_mutex_lock(&r->lock);
    while (!r->is_over) {
        if (r->is_wanted) {
            r->is_wanted = false;
            read_once(r);
        } else {
            pthread_cond_wait(&r->request, &r->lock);
        }
    }
    pthread_mutex_unlock(&r->lock);
    free_reader(r);
    return NULL;
}

/* -------------------------------------------------------------------- loop */

static void say(rg__source *s, int error, const char *text, size_t bytes)
{
    rg__notice notice = {.kind = RG__NOTICE_NONE};
    if (error == ENOENT || error == ENOTDIR)
        rg__source_says(s, &notice);
    else if (error == EINVAL)
        rg__source_fails(s, "it is not an ordinary file");
    else if (error != 0)
        rg__source_fails(s, "it can't be read: %s", strerror(error));
    else if (rg__site_read_any(text, bytes, &notice))
        rg__source_says(s, &notice);
    else
        rg__source_fails(s, "its JSON is not a notice");
}

static void on_read(void *arg, int fd, uint32_t events)
{
    char text[FILE_MAX + 1];
    reader *r = arg;
    uint64_t times;
    (void)events;
    if (read(fd, &times, sizeof times) < 0)
        return;
    pthread_mutex_lock(&r->lock);
    const size_t bytes = r->bytes;
    const int error = r->error;
    memcpy(text, r->text, bytes + 1);
    pthread_mutex_unlock(&r->lock);
    say(r->s, error, text, bytes);
}

/* The thread takes no signals: they are for the loop. */
static int start_thread(reader *r)
{
    pthread_t thread;
    const int error = rg__start_thread(&thread, run_reader, r);
    if (error == 0)
        pthread_detach(thread);
    return error;
}

static reader *make_reader(rg__source *s)
{
    reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->s = s;
    r->path = strdup(s->value);
    r->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->request, NULL);
    if (r->path == NULL || r->event < 0 ||
        rg__loop_watch(s->all->loop, r->event, EPOLLIN, on_read, r) != RG_OK ||
        start_thread(r) != 0) {
        rg__loop_unwatch(s->all->loop, r->event);
        free_reader(r);
        return NULL;
    }
    return r;
}

void rg__file_ask(rg__source *s)
{
    if (s->reader == NULL)
        s->reader = make_reader(s);
    reader *r = s->reader;
    if (r == NULL) {
        rg__source_fails(s, "this machine has no thread to read it");
        return;
    }
    pthread_mutex_lock(&r->lock);
    if (!r->is_reading) {
        r->is_wanted = r->is_reading = true;
        pthread_cond_signal(&r->request);
    }
    pthread_mutex_unlock(&r->lock);
}

void rg__file_close(rg__source *s)
{
    reader *r = s->reader;
    if (r == NULL)
        return;
    rg__loop_unwatch(s->all->loop, r->event);
    s->reader = NULL;
    pthread_mutex_lock(&r->lock);
    r->is_over = true;
    pthread_cond_signal(&r->request);
    pthread_mutex_unlock(&r->lock);
}
