/* Streams: a thread each, which runs what was enqueued in that order. The
 * legacy stream waits for the blocking ones, and they for it. */
#include "tests/device/support/inside.h"

#include <stdlib.h>
#include <string.h>

#define QUEUE_MAX 1024 /* launches that a stream takes before it blocks */

typedef struct after { /* work of another stream that comes first */
    rg__cu_stream stream;
    uint64_t count;
} after;

typedef struct item {
    fake_work work;
    void *arg;
    after *after;
    int after_count;
    struct item *next;
} item;

struct CUstream_st {
    bool is_blocking, is_legacy, is_stopping;
    bool is_gone; /* destroyed; the struct stays for waiting threads */
    int device;
    uint64_t pushed, done;
    item *first, **last;
    struct CUstream_st *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static rg__cu_stream streams, legacy;

static bool has_come(const after *a)
{
    return a->stream->done >= a->count;
}

static item *take_item(rg__cu_stream s)
{
    while (!s->first && !s->is_stopping)
        pthread_cond_wait(&changed, &lock);
    item *i = s->first;
    for (int k = 0; i && k < i->after_count; k++)
        while (!has_come(&i->after[k]))
            pthread_cond_wait(&changed, &lock);
    return i;
}

static void drop_item(rg__cu_stream s, item *i)
{
    s->first = i->next;
    if (!s->first)
        s->last = &s->first;
    s->done++;
    free(i->after);
    free(i);
    pthread_cond_broadcast(&changed);
}

static void *run_stream(void *arg)
{
    rg__cu_stream s = arg;
    item *i;
    pthread_mutex_lock(&lock);
    while ((i = take_item(s))) {
        pthread_mutex_unlock(&lock);
        i->work(i->arg);
        pthread_mutex_lock(&lock);
        drop_item(s, i);
    }
    s->is_gone = true;
    fake_thread_ends();
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static rg__cu_stream make_stream(bool is_blocking, int device)
{
    rg__cu_stream s = calloc(1, sizeof *s);
    s->is_blocking = is_blocking;
    s->device = device;
    s->last = &s->first;
    s->next = streams;
    streams = s;
    fake_thread(run_stream, s);
    return s;
}

static rg__cu_stream legacy_stream(void)
{
    if (!legacy) {
        legacy = make_stream(false, 0);
        legacy->is_legacy = true;
    }
    return legacy;
}

/* With the lock held. */
static rg__cu_stream find(rg__cu_stream stream)
{
    if (!stream || stream == RG__CU_LEGACY)
        return legacy_stream();
    if (stream == RG__CU_PER_THREAD)
        fake_violation("the stream of a thread is not imitated");
    for (rg__cu_stream s = streams; s; s = s->next)
        if (s == stream && !s->is_gone && !s->is_stopping)
            return s;
    fake_violation("%p is no stream, or one that was destroyed",
                   (void *)stream);
}

static bool comes_before(const struct CUstream_st *other, rg__cu_stream s)
{
    if (other == s || other->done == other->pushed)
        return false;
    return (s->is_legacy && other->is_blocking) ||
           (s->is_blocking && other->is_legacy);
}

static void add_after(item *i, rg__cu_stream s)
{
    int n = 0;
    for (rg__cu_stream o = streams; o; o = o->next)
        n += comes_before(o, s);
    i->after = n ? calloc((size_t)n, sizeof *i->after) : NULL;
    for (rg__cu_stream o = streams; o && n; o = o->next)
        if (comes_before(o, s))
            i->after[i->after_count++] = (after){o, o->pushed};
}

void fake_push(rg__cu_stream stream, fake_work work, void *arg)
{
    const uint64_t room = (uint64_t)fake_setting("queue", QUEUE_MAX);
    item *i = calloc(1, sizeof *i);
    i->work = work;
    i->arg = arg;
    pthread_mutex_lock(&lock);
    rg__cu_stream s = find(stream);
    while (s->pushed - s->done >= room)
        pthread_cond_wait(&changed, &lock);
    add_after(i, s);
    s->pushed++;
    *s->last = i;
    s->last = &i->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* With the lock held. */
static void wait_for(rg__cu_stream s, uint64_t count)
{
    while (s->done < count)
        pthread_cond_wait(&changed, &lock);
}

void fake_streams_wait(void)
{
    after upto[256];
    int n = 0;
    pthread_mutex_lock(&lock);
    for (rg__cu_stream s = streams; s && n < 256; s = s->next)
        upto[n++] = (after){s, s->pushed};
    for (int i = 0; i < n; i++)
        wait_for(upto[i].stream, upto[i].count);
    pthread_mutex_unlock(&lock);
}

rg__cu_stream fake_stream_create(bool is_blocking, int device)
{
    pthread_mutex_lock(&lock);
    rg__cu_stream s = make_stream(is_blocking, device);
    pthread_mutex_unlock(&lock);
    return s;
}

void fake_stream_destroy(rg__cu_stream stream)
{
    pthread_mutex_lock(&lock);
    rg__cu_stream s = find(stream);
    s->is_stopping = true;
    pthread_cond_broadcast(&changed);
    while (!s->is_gone)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

bool fake_stream_is_idle(rg__cu_stream stream)
{
    pthread_mutex_lock(&lock);
    const rg__cu_stream s = find(stream);
    const bool is = s->done == s->pushed;
    pthread_mutex_unlock(&lock);
    return is;
}

void fake_stream_wait(rg__cu_stream stream)
{
    pthread_mutex_lock(&lock);
    rg__cu_stream s = find(stream);
    wait_for(s, s->pushed);
    pthread_mutex_unlock(&lock);
}

void fake_streams_held(fake_holdings *held)
{
    pthread_mutex_lock(&lock);
    for (rg__cu_stream s = streams; s; s = s->next)
        held->streams += !s->is_gone && !s->is_legacy;
    pthread_mutex_unlock(&lock);
}
