/* The agent's part of a timeline: on a timer it reads the spans that workers
 * have put into their records, makes events of them, and sends those to the
 * process that writes. It does a bounded amount each time; what finds no room
 * in a record or in the socket is counted, and the count is an event, too.
 *
 *   worker: span ring ──> agent: events ──> writer: the file
 *
 * Tracks: a process for each worker, with the program (waiting, computing,
 * committing) and each set as threads; and one for the world's changes. */
#include "elastic/agent/timeline/timeline_parts.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/base/reap.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/file_writer.h"
#include "elastic/agent/generation/generation.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/transport/names.h"

#define TICK_NS    (20 * RG__MS)
#define TICK_SPANS 2048 /* at once, of all workers */
#define MUCH       256  /* the socket holds few messages: sooner again */
#define EVENT_MAX  512
#define BRIEF_NS   10000 /* what takes less is not worth an event of its own */
#define SETS_NAMED 64
#define WRITER_MS  100 /* it takes one, unless the disk is stuck */
#define PROGRAM    0   /* the thread of that name; set i is i + 1 */

#define OPENING_MAX 256

/* How events of operations begin; successive ones often begin alike. */
typedef struct opening {
    unsigned pid, thread;
    uint32_t generation;
    uint8_t kind, type, op;
    bool has_data;
    size_t n; /* 0: none yet */
    char text[OPENING_MAX];
} opening;

typedef struct track {
    uint32_t start; /* of the worker that it is named after */
    int rank;       /* as it was named */
    bool is_in_commit;
    uint64_t program_ns; /* the end of what the program did last */
    rg__span wait;       /* not an event yet; begun_ns is 0: there is none */
    uint32_t named[SETS_NAMED]; /* set + 1 */
    opening opening;
} track;

typedef struct rg__timeline {
    int sock;
    pid_t writer;
    rg__timer *tick;
    int64_t to_wall_ns; /* from CLOCK_MONOTONIC */
    unsigned base;      /* number of this host's first track */
    uint64_t events, dropped, flows;
    uint64_t told_dropped;
    uint64_t told[RG__CHANGES_MAX]; /* generations whose change is written */
    char *buffer;                   /* RG__WIRE_MAX bytes */
    size_t n, held;                 /* bytes in it, and events */
    track slot[RG__HOST_SLOTS_MAX];
} rg__timeline;

/* ------------------------------------------------------------------- events */

static void flush(rg__timeline *t)
{
    if (t->n == 0)
        return;
    if (send(t->sock, t->buffer, t->n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        t->dropped += t->held;
    else
        t->events += t->held;
    t->n = t->held = 0;
}

static char *begin_event(rg__timeline *t)
{
    if (t->n + EVENT_MAX > RG__WIRE_MAX)
        flush(t);
    return t->buffer + t->n;
}

static void end_event(rg__timeline *t, const char *at)
{
    t->n = (size_t)(at - t->buffer);
    t->held++;
}

/* Events that come by the thousand in a second are put together by hand: printf
 * takes several times as long, on the processors of the ranks. */
static inline char *put(char *at, const char *text)
{
    const size_t n = strlen(text);
    memcpy(at, text, n);
    return at + n;
}

static char *put_pair(char *at, unsigned number)
{
    static const char pairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334"
        "3536373839404142434445464748495051525354555657585960616263646566676869"
        "707172737475767778798081828384858687888990919293949596979899";
    memcpy(at, pairs + 2 * (size_t)number, 2);
    return at + 2;
}

static char *put_number(char *at, uint64_t number)
{
    char digits[20], *begin = digits + sizeof digits;
    while (number >= 100) {
        begin -= 2;
        put_pair(begin, (unsigned)(number % 100));
        number /= 100;
    }
    if (number >= 10)
        put_pair(begin -= 2, (unsigned)number);
    else
        *--begin = (char)('0' + number);
    const size_t n = (size_t)(digits + sizeof digits - begin);
    memcpy(at, begin, n);
    return at + n;
}

static char *put_us(char *at, uint64_t ns)
{
    const unsigned rest = (unsigned)(ns % 1000);
    at = put_number(at, ns / 1000);
    *at++ = '.';
    *at++ = (char)('0' + rest / 100);
    return put_pair(at, rest % 100);
}

__attribute__((format(printf, 2, 3))) static void add(rg__timeline *t,
                                                      const char *format, ...)
{
    va_list args;
    char *at = put(begin_event(t), ",\n");
    va_start(args, format);
    const int n = vsnprintf(at, EVENT_MAX - 2, format, args);
    va_end(args);
    if (n > 0 && n < EVENT_MAX - 2)
        end_event(t, at + n);
    else
        t->dropped++;
}

static uint64_t wall_ns(const rg__timeline *t, uint64_t ns)
{
    return ns + (uint64_t)t->to_wall_ns;
}

static double wall_us(const rg__timeline *t, uint64_t ns)
{
    return (double)wall_ns(t, ns) / 1e3;
}

static uint64_t between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* Into a JSON string: what may not stand there becomes a blank. */
static void clean(char *to, size_t room, const char *from, size_t most)
{
    size_t n = 0;
    for (; n + 1 < room && n < most && from[n] != '\0'; n++) {
        const unsigned char c = (unsigned char)from[n];
        to[n] = c < 0x20 || c > 0x7e || c == '"' || c == '\\' ? ' ' : from[n];
    }
    to[n] = '\0';
}

static void name_track(rg__timeline *t, unsigned pid, const char *what,
                       unsigned thread, const char *name)
{
    add(t,
        "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"args\":{"
        "\"name\":\"%s\"}}",
        pid, thread, what, name);
}

/* ------------------------------------------------------------------- spans */

static unsigned thread_of(rg__timeline *t, track *k, unsigned pid,
                          const rg__span *s)
{
    char name[40] = "set ";
    const uint32_t thread = s->set % 4096 + 1;
    uint32_t *named = &k->named[s->set % SETS_NAMED];
    if (*named != s->set + 1) {
        *named = s->set + 1;
        clean(name + 4, sizeof name - 4, s->what, RG__SPAN_WHAT);
        name_track(t, pid, "thread_name", thread, name);
    }
    return thread;
}

static char *put_place(char *at, unsigned pid, unsigned thread)
{
    at = put_number(put(at, ",\"pid\":"), pid);
    return put_number(put(at, ",\"tid\":"), thread);
}

static char *put_times(const rg__timeline *t, char *at, uint64_t from,
                       uint64_t to)
{
    at = put_us(put(at, ",\"ts\":"), wall_ns(t, from));
    return put_us(put(at, ",\"dur\":"), between(from, to));
}

/* From one time to another. */
static char *put_slice(const rg__timeline *t, char *at, unsigned pid,
                       unsigned thread, const char *name, uint64_t from,
                       uint64_t to)
{
    at = put_place(put(at, ",\n{\"ph\":\"X\""), pid, thread);
    at = put_times(t, at, from, to);
    at = put(put(at, ",\"name\":\""), name);
    return put(at, "\",\"args\":{");
}

static void add_end_of(rg__timeline *t, const char *phase, unsigned pid,
                       unsigned thread, const char *kind, const char *name,
                       uint64_t ns)
{
    char *at = put(put(begin_event(t), ",\n{\"ph\":\""), phase);
    at = put(put(at, "\",\"cat\":\""), kind);
    at = put_number(put(at, "\",\"id\":"), t->flows);
    at = put_place(at, pid, thread);
    at = put_us(put(at, ",\"ts\":"), wall_ns(t, ns));
    end_event(t, put(put(put(at, ",\"name\":\""), name), "\"}"));
}

static void add_overlapping(rg__timeline *t, unsigned pid, unsigned thread,
                            const char *kind, const char *name, uint64_t from,
                            uint64_t to)
{
    t->flows++;
    add_end_of(t, "b", pid, thread, kind, name, from);
    add_end_of(t, "e", pid, thread, kind, name, to);
}

static bool has_opening(const opening *o, const rg__span *s, unsigned pid,
                        unsigned thread)
{
    return o->n != 0 && o->pid == pid && o->thread == thread &&
           o->generation == s->generation && o->kind == s->kind &&
           o->type == s->type && o->op == s->op &&
           o->has_data == (s->count != 0);
}

static void write_opening(opening *o, const rg__span *s, unsigned pid,
                          unsigned thread)
{
    *o = (opening){.pid = pid,
                   .thread = thread,
                   .generation = s->generation,
                   .kind = s->kind,
                   .type = s->type,
                   .op = s->op,
                   .has_data = s->count != 0};
    char *at = put(put(o->text, ",\n{\"ph\":\"X\",\"name\":\""),
                   rg__kind_name(s->kind));
    at = put_place(put(at, "\""), pid, thread);
    at = put_number(put(at, ",\"args\":{\"generation\":"), s->generation);
    if (o->has_data) {
        at = put(put(at, ",\"type\":\""), rg__type_name(s->type));
        at = put(put(put(at, "\",\"op\":\""), rg__op_name(s->op)), "\"");
    }
    o->n = (size_t)(at - o->text);
}

/* A set runs one collective; those that wait overlap, and so do messages. */
static void add_operation(rg__timeline *t, track *k, unsigned pid,
                          const rg__span *s)
{
    const unsigned thread = thread_of(t, k, pid, s);
    const char *name = rg__kind_name(s->kind);
    const uint64_t begun = s->begun_ns != 0 ? s->begun_ns : s->queued_ns;
    if (s->kind == RG__OP_SEND || s->kind == RG__OP_RECV) {
        add_overlapping(t, pid, thread, "message", name, s->queued_ns,
                        s->ended_ns);
        return;
    }
    if (between(s->queued_ns, begun) > BRIEF_NS)
        add_overlapping(t, pid, thread, "queued", name, s->queued_ns, begun);
    if (!has_opening(&k->opening, s, pid, thread))
        write_opening(&k->opening, s, pid, thread);
    char *at = begin_event(t);
    memcpy(at, k->opening.text, k->opening.n);
    at = put_number(put(at + k->opening.n, ",\"number\":"), s->number);
    if (s->count != 0)
        at = put_number(put(at, ",\"count\":"), s->count);
    if (s->status != RG_OK)
        at = put(put(put(at, ",\"status\":\""),
                     rg_status_name((rg_status)s->status)),
                 "\"");
    at = put_times(t, put(at, "}"), begun, s->ended_ns);
    end_event(t, put(at, "}"));
}

static void add_slice(rg__timeline *t, unsigned pid, const char *name,
                      uint64_t from, uint64_t to, const rg__span *s)
{
    char *at = put_slice(t, begin_event(t), pid, PROGRAM, name, from, to);
    at = put_number(put(at, "\"step\":"), s->number);
    at = put_number(put(at, ",\"generation\":"), s->generation);
    end_event(t, put(at, "}}"));
}

static void add_wait(rg__timeline *t, track *k, unsigned pid)
{
    if (k->wait.begun_ns != 0)
        add_slice(t, pid, "wait", k->wait.begun_ns, k->wait.ended_ns, &k->wait);
    k->wait.begun_ns = 0;
}

/* Waits that follow each other closely are one. */
static bool continues(const track *k, const rg__span *s)
{
    return s->span == RG__SPAN_WAIT && k->wait.begun_ns != 0 &&
           s->begun_ns >= k->wait.begun_ns && s->number == k->wait.number &&
           s->generation == k->wait.generation &&
           between(k->wait.ended_ns, s->begun_ns) < BRIEF_NS;
}

/* Between what it did in Regroup the program computes; the waits of a commit
 * precede the commit itself. */
static void add_program(rg__timeline *t, track *k, unsigned pid,
                        const rg__span *s)
{
    if (continues(k, s)) {
        if (s->ended_ns > k->wait.ended_ns)
            k->wait.ended_ns = s->ended_ns;
    } else {
        add_wait(t, k, pid);
        if (s->span != RG__SPAN_COMMIT && !k->is_in_commit &&
            k->program_ns != 0 &&
            between(k->program_ns, s->begun_ns) >= BRIEF_NS)
            add_slice(t, pid, "compute", k->program_ns, s->begun_ns, s);
        if (s->span == RG__SPAN_WAIT)
            k->wait = *s;
        else if (s->span == RG__SPAN_COMMIT)
            add_slice(t, pid, "commit", s->begun_ns, s->ended_ns, s);
    }
    k->is_in_commit = s->span == RG__SPAN_BEGINS ||
                      (k->is_in_commit && s->span != RG__SPAN_COMMIT);
    if (s->ended_ns > k->program_ns)
        k->program_ns = s->ended_ns;
}

/* A worker may have written anything. */
static bool is_sound(const rg__span *s, uint64_t now)
{
    return s->span > 0 && s->span < RG__SPAN_KINDS && s->ended_ns != 0 &&
           s->queued_ns <= s->ended_ns && s->begun_ns <= s->ended_ns &&
           s->ended_ns <= now;
}

static unsigned track_of(const rg__timeline *t, int slot)
{
    return t->base + (unsigned)slot + 1;
}

static void name_worker(rg__timeline *t, const rg__agent *a, track *k,
                        unsigned pid, int slot, int rank)
{
    char name[RG__NAME_MAX + 40], host[RG__NAME_MAX];
    clean(host, sizeof host, a->params->host, sizeof host);
    snprintf(name, sizeof name, "%s.%d rank %d", host, slot, rank);
    name_track(t, pid, "process_name", 0, name);
    name_track(t, pid, "thread_name", PROGRAM, "program");
    k->rank = rank;
}

static unsigned drain(rg__timeline *t, const rg__agent *a, int slot,
                      rg__record *record, uint32_t start, unsigned most)
{
    track *k = &t->slot[slot];
    const unsigned pid = track_of(t, slot);
    const int rank = record->generation[atomic_load(&record->half) % 2].rank;
    atomic_store(&record->traces, 1);
    const uint64_t written = atomic_load(&record->written);
    const uint64_t now = rg__now_ns();
    uint64_t at = atomic_load(&record->read);
    if (written - at > RG__SPANS) /* scribbled */
        at = written;
    if (at != written && (k->start != start || k->rank != rank)) {
        if (k->start != start) {
            add_wait(t, k, pid);
            *k = (track){.start = start};
        }
        name_worker(t, a, k, pid, slot, rank);
    }
    unsigned n = 0;
    for (; at != written && n < most; at++, n++) {
        const rg__span s = record->span[at % RG__SPANS];
        if (!is_sound(&s, now))
            continue;
        if (s.span == RG__SPAN_OP)
            add_operation(t, k, pid, &s);
        else
            add_program(t, k, pid, &s);
    }
    atomic_store(&record->read, at);
    t->dropped += atomic_exchange(&record->dropped, 0);
    return n;
}

/* ------------------------------------------------------------------ changes */

static void add_stage(rg__timeline *t, uint64_t generation, const char *name,
                      uint64_t from, uint64_t to)
{
    if (from == 0 || to <= from)
        return;
    char *at = put_slice(t, begin_event(t), t->base, 1, name, from, to);
    at = put_number(put(at, "\"generation\":"), generation);
    end_event(t, put(at, "}}"));
}

static void add_change(rg__timeline *t, const rg__agent *a, const rg__change *c)
{
    char cause[RG__CAUSE_MAX] = "", name[RG__CAUSE_MAX + 32];
    const rg__proposal *p = rg__snapshot_gen(&a->view, c->generation);
    if (p != NULL)
        clean(cause, sizeof cause, p->cause, sizeof cause);
    snprintf(name, sizeof name, "generation %" PRIu64 ": %.200s", c->generation,
             cause);
    add_stage(t, c->generation, name, c->detected, c->stepped);
    add_stage(t, c->generation, "detected to proposed", c->detected,
              c->proposed);
    add_stage(t, c->generation, "build", c->proposed, c->built);
    add_stage(t, c->generation, "decide", c->built, c->decided);
    add_stage(t, c->generation, "sync", c->decided, c->synced);
    add_stage(t, c->generation, "first step", c->synced, c->stepped);
}

static void add_changes(rg__timeline *t, rg__agent *a)
{
    const rg__proposal *decided = rg__view_decided(a);
    if (decided != NULL)
        rg__change_note_steps(a, decided->generation);
    for (int i = 0; i < rg__changes(a); i++) {
        const rg__change *c = rg__change_at(a, i);
        uint64_t *told = &t->told[c->generation % RG__CHANGES_MAX];
        if (c->stepped == 0 || *told >= c->generation)
            continue;
        *told = c->generation;
        add_change(t, a, c);
    }
}

/* --------------------------------------------------------------------- tick */

/* What found no room, as soon as something does: a graph in the trace. */
static void add_dropped(rg__timeline *t)
{
    if (t->dropped == t->told_dropped)
        return;
    t->told_dropped = t->dropped;
    add(t,
        "{\"ph\":\"C\",\"pid\":%u,\"tid\":1,\"ts\":%.3f,\"name\":"
        "\"events without room\",\"args\":{\"dropped\":%" PRIu64 "}}",
        t->base, wall_us(t, rg__now_ns()), t->dropped);
}

static unsigned drain_all(rg__timeline *t, rg__agent *a)
{
    unsigned n = 0;
    for (int i = 0; i < a->params->slots && n < TICK_SPANS; i++) {
        const rg__slot *s = &a->slot[i];
        if (s->fallen.record != NULL)
            n += drain(t, a, i, s->fallen.record, s->saved.start,
                       TICK_SPANS - n);
        if (s->w.record != NULL)
            n += drain(t, a, i, s->w.record, s->saved.start, TICK_SPANS - n);
    }
    add_changes(t, a);
    add_dropped(t);
    flush(t);
    return n;
}

static void on_tick(void *arg)
{
    rg__agent *a = arg;
    const bool is_much = drain_all(a->timeline, a) > MUCH;
    rg__timer_set(a->timeline->tick, is_much ? TICK_NS / 4 : TICK_NS);
}

/* -------------------------------------------------------------------- life */

static void drop(rg__agent *a)
{
    rg__timeline *t = a->timeline;
    for (int i = 0; a->slot != NULL && i < a->params->slots; i++)
        if (a->slot[i].w.record != NULL)
            atomic_store(&a->slot[i].w.record->traces, 0);
    if (t->sock >= 0)
        close(t->sock);
    if (t->writer > 0)
        rg__reap(t->writer);
    rg__timer_destroy(t->tick);
    free(t->buffer);
    free(t);
    a->timeline = NULL;
}

static rg_status start_writer(rg__timeline *t, int file, const char *path)
{
    const rg__timeline_out out = {file, path};
    return rg__writer_start("a timeline", rg__timeline_write, &out, &file, 1,
                            &t->sock, &t->writer);
}

/* Earlier spans do not belong to this timeline. */
static void skip_old(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++) {
        rg__record *record = a->slot[i].w.record;
        if (record == NULL)
            continue;
        atomic_store(&record->read, atomic_load(&record->written));
        atomic_store(&record->dropped, 0);
    }
}

static int64_t wall_offset_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - (int64_t)rg__now_ns();
}

rg_status rg__timeline_start(rg__agent *a, const char *path, bool goes_on)
{
    char name[RG__NAME_MAX + 32];
    if (a->timeline != NULL)
        return rg__fail(RG_ERR_INVALID, "a timeline is being written already; "
                                        "end it with `regroup timeline stop`");
    const int file = rg__timeline_file(path, goes_on);
    if (file < 0)
        return RG_ERR_INVALID;
    rg__timeline *t = calloc(1, sizeof *t);
    if (t == NULL) {
        close(file);
        return rg__fail(RG_ERR_MEMORY, "no memory for a timeline");
    }
    a->timeline = t;
    t->sock = -1;
    t->buffer = malloc(RG__WIRE_MAX);
    t->tick = rg__timer_create(a->loop, on_tick, a);
    t->to_wall_ns = wall_offset_ns();
    t->base = (unsigned)(a->id % 10000) * 100;
    rg_status st = t->buffer != NULL && t->tick != NULL
                       ? start_writer(t, file, path)
                       : rg__fail(RG_ERR_MEMORY, "no memory for a timeline");
    close(file);
    if (st != RG_OK) {
        drop(a);
        return st;
    }
    if (!goes_on)
        skip_old(a);
    snprintf(name, sizeof name, "world, seen from ");
    clean(name + strlen(name), sizeof name - strlen(name), a->params->host,
          RG__NAME_MAX);
    name_track(t, t->base, "process_name", 1, name);
    name_track(t, t->base, "thread_name", 1, "changes");
    rg__timer_set(t->tick, 0);
    return RG_OK;
}

/* Without its timeline a job does not begin, but it does not end for one. */
rg_status rg__timeline_open(rg__agent *a)
{
    if (a->params->user.timeline == NULL)
        return RG_OK;
    char *path = rg__writer_path(a->params, a->params->user.timeline);
    if (path == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a name");
    const bool goes_on = a->life.agents > 1;
    const rg_status st = rg__timeline_start(a, path, goes_on);
    free(path);
    if (st != RG_OK && goes_on)
        rg__log(RG__WARN, "agent", "%s", rg_last_error());
    return goes_on ? RG_OK : st;
}

/* The writer hangs up when it has written all. */
static void await_writer(const rg__timeline *t)
{
    struct pollfd end = {.fd = t->sock};
    if (shutdown(t->sock, SHUT_WR) == 0)
        poll(&end, 1, WRITER_MS);
}

rg_status rg__timeline_stop(rg__agent *a, uint64_t *events_p,
                            uint64_t *dropped_p)
{
    rg__timeline *t = a->timeline;
    if (t == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "no timeline is being written; begin one with "
                        "`regroup timeline start FILE`");
    const uint64_t rounds = (uint64_t)a->params->slots * RG__SPANS / TICK_SPANS;
    for (uint64_t i = 0; i <= rounds && drain_all(t, a) > 0; i++)
        continue;
    for (int i = 0; i < a->params->slots; i++)
        add_wait(t, &t->slot[i], track_of(t, i));
    add(t,
        "{\"ph\":\"i\",\"s\":\"g\",\"pid\":%u,\"tid\":1,\"ts\":%.3f,\"name\":"
        "\"end of the timeline\",\"args\":{\"dropped\":%" PRIu64 "}}",
        t->base, wall_us(t, rg__now_ns()), t->dropped);
    flush(t);
    *events_p = t->events;
    *dropped_p = t->dropped;
    await_writer(t);
    drop(a);
    return RG_OK;
}
