/* Spans of workers and changes of the world as events of Chrome's trace format.
 *
 * Tracks: a process for each worker, with the program (waiting, computing,
 * committing) and each set as threads; and one for the world's changes. */
#include "elastic/agent/timeline/timeline_parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/transport/names.h"

#define EVENT_MAX 512
#define BRIEF_NS  10000 /* what takes less is not worth an event of its own */
#define PROGRAM   0     /* the thread of that name; set i is i + 1 */

typedef rg__timeline_opening opening;
typedef rg__timeline_track track;

/* ------------------------------------------------------------------- events */

static char *begin_event(rg__trace *t)
{
    if (t->n + EVENT_MAX > RG__TRACE_BUFFER)
        rg__trace_flush(t);
    return t->buffer + t->n;
}

static void end_event(rg__trace *t, const char *at)
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

__attribute__((format(printf, 2, 3))) static void add(rg__trace *t,
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

static uint64_t wall_ns(const rg__trace *t, uint64_t ns)
{
    return ns + (uint64_t)t->out->to_wall_ns;
}

static double wall_us(const rg__trace *t, uint64_t ns)
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

static void name_track(rg__trace *t, unsigned pid, const char *what,
                       unsigned thread, const char *name)
{
    add(t,
        "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"args\":{"
        "\"name\":\"%s\"}}",
        pid, thread, what, name);
}

/* ------------------------------------------------------------------- spans */

static unsigned thread_of(rg__trace *t, track *k, unsigned pid,
                          const rg__span *s)
{
    char name[40] = "set ";
    const uint32_t thread = s->set % 4096 + 1;
    uint32_t *named = &k->named[s->set % RG__TRACE_SETS];
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

static char *put_times(const rg__trace *t, char *at, uint64_t from, uint64_t to)
{
    at = put_us(put(at, ",\"ts\":"), wall_ns(t, from));
    return put_us(put(at, ",\"dur\":"), between(from, to));
}

/* From one time to another. */
static char *put_slice(const rg__trace *t, char *at, unsigned pid,
                       unsigned thread, const char *name, uint64_t from,
                       uint64_t to)
{
    at = put_place(put(at, ",\n{\"ph\":\"X\""), pid, thread);
    at = put_times(t, at, from, to);
    at = put(put(at, ",\"name\":\""), name);
    return put(at, "\",\"args\":{");
}

static void add_end_of(rg__trace *t, const char *phase, unsigned pid,
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

static void add_overlapping(rg__trace *t, unsigned pid, unsigned thread,
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
static void add_operation(rg__trace *t, track *k, unsigned pid,
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

static void add_slice(rg__trace *t, unsigned pid, const char *name,
                      uint64_t from, uint64_t to, const rg__span *s)
{
    char *at = put_slice(t, begin_event(t), pid, PROGRAM, name, from, to);
    at = put_number(put(at, "\"step\":"), s->number);
    at = put_number(put(at, ",\"generation\":"), s->generation);
    end_event(t, put(at, "}}"));
}

/* Between what it did in Regroup the program computes; the waits of a commit
 * precede the commit itself. */
static void add_program(rg__trace *t, track *k, unsigned pid, const rg__span *s)
{
    if (s->span != RG__SPAN_COMMIT && !k->is_in_commit && k->program_ns != 0 &&
        between(k->program_ns, s->begun_ns) >= BRIEF_NS)
        add_slice(t, pid, "compute", k->program_ns, s->begun_ns, s);
    if (s->span == RG__SPAN_WAIT)
        add_slice(t, pid, "wait", s->begun_ns, s->ended_ns, s);
    else if (s->span == RG__SPAN_COMMIT)
        add_slice(t, pid, "commit", s->begun_ns, s->ended_ns, s);
    k->is_in_commit = s->span == RG__SPAN_BEGINS ||
                      (k->is_in_commit && s->span != RG__SPAN_COMMIT);
    if (s->ended_ns > k->program_ns)
        k->program_ns = s->ended_ns;
}

/* A worker may have written anything. */
static bool is_sound(const rg__span *s, uint64_t since, uint64_t now)
{
    return s->span > 0 && s->span < RG__SPAN_KINDS && s->ended_ns != 0 &&
           s->queued_ns <= s->ended_ns && s->begun_ns <= s->ended_ns &&
           s->ended_ns >= since && s->ended_ns <= now;
}

static unsigned track_of(const rg__trace *t, int slot)
{
    return t->out->base + (unsigned)slot + 1;
}

static void name_worker(rg__trace *t, track *k, unsigned pid, int slot,
                        int rank)
{
    char name[RG__NAME_MAX + 40], host[RG__NAME_MAX];
    clean(host, sizeof host, t->out->host, sizeof host);
    snprintf(name, sizeof name, "%s.%d rank %d", host, slot, rank);
    name_track(t, pid, "process_name", 0, name);
    name_track(t, pid, "thread_name", PROGRAM, "program");
    k->rank = rank;
}

static void add_span(rg__trace *t, track *k, unsigned pid, const rg__span *s,
                     uint64_t now)
{
    if (!is_sound(s, t->out->since_ns, now))
        return;
    if (s->span == RG__SPAN_OP)
        add_operation(t, k, pid, s);
    else
        add_program(t, k, pid, s);
}

uint64_t rg__trace_drain(rg__trace *t, track *k, int slot)
{
    rg__record *record = k->record;
    const unsigned pid = track_of(t, slot);
    const int rank = record->generation[atomic_load(&record->half) % 2].rank;
    const uint64_t written = atomic_load(&record->written);
    const uint64_t now = rg__now_ns();
    uint64_t at = atomic_load(&record->read);
    if (written - at > RG__SPANS) /* scribbled */
        at = written;
    const uint64_t n = written - at;
    if (n != 0 && k->rank != rank)
        name_worker(t, k, pid, slot, rank);
    for (; at != written; at++) {
        const rg__span s = record->span[at % RG__SPANS];
        add_span(t, k, pid, &s, now);
    }
    atomic_store(&record->read, at);
    t->dropped += atomic_exchange(&record->dropped, 0);
    return n;
}

void rg__trace_last_wait(rg__trace *t, track *k, int slot)
{
    rg__span wait;
    if (rg__record_wait(k->record, &wait))
        add_span(t, k, track_of(t, slot), &wait, rg__now_ns());
}

/* ------------------------------------------------------------------ changes */

static void add_stage(rg__trace *t, uint64_t generation, const char *name,
                      uint64_t from, uint64_t to)
{
    if (from == 0 || to <= from)
        return;
    char *at = put_slice(t, begin_event(t), t->out->base, 1, name, from, to);
    at = put_number(put(at, "\"generation\":"), generation);
    end_event(t, put(at, "}}"));
}

void rg__trace_change(rg__trace *t, const rg__change *c, const char *why)
{
    char cause[RG__CAUSE_MAX], name[RG__CAUSE_MAX + 32];
    clean(cause, sizeof cause, why, sizeof cause);
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

/* ---------------------------------------------------------- the file's own */

void rg__trace_name_world(rg__trace *t)
{
    char name[RG__NAME_MAX + 32] = "world, seen from ";
    const size_t n = strlen(name);
    clean(name + n, sizeof name - n, t->out->host, RG__NAME_MAX);
    name_track(t, t->out->base, "process_name", 1, name);
    name_track(t, t->out->base, "thread_name", 1, "changes");
}

/* What found no room, as soon as something does: a graph in the trace. */
void rg__trace_dropped(rg__trace *t)
{
    if (t->dropped == t->told_dropped)
        return;
    t->told_dropped = t->dropped;
    add(t,
        "{\"ph\":\"C\",\"pid\":%u,\"tid\":1,\"ts\":%.3f,\"name\":"
        "\"events without room\",\"args\":{\"dropped\":%" PRIu64 "}}",
        t->out->base, wall_us(t, rg__now_ns()), t->dropped);
}

void rg__trace_end(rg__trace *t)
{
    add(t,
        "{\"ph\":\"i\",\"s\":\"g\",\"pid\":%u,\"tid\":1,\"ts\":%.3f,\"name\":"
        "\"end of the timeline\",\"args\":{\"dropped\":%" PRIu64 "}}",
        t->out->base, wall_us(t, rg__now_ns()), t->dropped);
}
