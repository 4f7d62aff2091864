/* A commit from one host's vault into another's.
 *
 * A decision that names this host among its copies waits here until the vault
 * holds the resume commit; only then do local workers hear of it. The sink
 * calls the source's agent and asks; the source streams
 *
 *   ROOM   each buffer's name and size
 *   PIECE  its number, of how many, the sum of its hashes
 *   BYTES  the piece's slices, buffer by buffer, in frames
 *   PIECE  ...
 *
 * The sink writes into a vault slot other than that of the newest whole commit
 * on the lineage, piece by piece as a committing rank does, and holds against
 * each piece's sum what has arrived. The source computes the sum of what it
 * sends: a piece that does not have its own is damaged, and its vault slot is
 * empty from then on, so that the next decision leaves it out.
 *
 * Whatever fails ends the generation, with a reason; the next decision finds
 * another source. No time limit but the connection's silence. */
#include "elastic/agent/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/hash.h"
#include "sdk/base/log.h"

typedef struct fetch_frame {
    uint64_t generation; /* whose decision asks for it */
    rg__commit_id id;
} fetch_frame;

typedef struct room_frame {
    uint64_t bytes;
    uint32_t count, unused; /* buffers in all */
    char name[RG__BUFFER_NAME_MAX];
} room_frame;

typedef struct piece_frame {
    uint32_t index, count;
    uint64_t sum;
} piece_frame;

/* ------------------------------------------------------ a walk over a piece */

/* The slices of one piece, in one order of buffers at both ends. */
typedef struct walk {
    const int *order; /* of the agent's buffers, as the source has them;
                         borrowed; NULL: as they are */
    uint32_t piece, count;
    int buffers;    /* as many as both ends had when the transfer began */
    int buffer;     /* in that order; -1: before the first */
    size_t at, end; /* left of its slice */
    rg__hash hash;  /* of the slice */
    uint64_t sum;   /* of the slices before */
} walk;

static const buffer *buffer_of(const agent *a, const walk *w)
{
    return &a->buffer[w->order != NULL ? w->order[w->buffer] : w->buffer];
}

/* To the next byte of the piece; false: it is over, and w->sum is its sum. */
static bool walk_on(walk *w, const agent *a)
{
    while (w->at == w->end) {
        if (w->end != 0)
            w->sum += rg__hash_value(&w->hash);
        w->at = w->end = 0;
        if (++w->buffer >= w->buffers)
            return false;
        const buffer *b = buffer_of(a, w);
        rg__vault_slice(b->bytes, w->piece, w->count, &w->at, &w->end);
        if (w->at == w->end)
            w->at = w->end = 0;
        rg__hash_begin_named(&w->hash, b->name);
    }
    return true;
}

static void walk_begin(walk *w, uint32_t piece, uint32_t count)
{
    w->piece = piece;
    w->count = count;
    w->buffer = -1;
    w->at = w->end = 0;
    w->sum = 0;
}

static off_t place_of(const buffer *b, int vault_slot, size_t at)
{
    return (off_t)(rg__vault_stride(b->bytes) * (size_t)vault_slot + at);
}

static bool read_vault(const buffer *b, int vault_slot, size_t at, void *to,
                       size_t n)
{
    return pread(b->fd, to, n, place_of(b, vault_slot, at)) == (ssize_t)n;
}

static bool write_vault(const buffer *b, int vault_slot, size_t at,
                        const void *from, size_t n)
{
    return pwrite(b->fd, from, n, place_of(b, vault_slot, at)) == (ssize_t)n;
}

/* ------------------------------------------------------------------ source */

typedef struct source {
    agent *a;
    connection *wire;
    uint64_t generation; /* whose decision asks for it */
    rg__commit_id id;
    int slot;      /* of the vault; -1: all is said */
    int rooms;     /* told so far */
    bool is_whole; /* all was sent */
    walk walk;
    uint64_t sent, total;
} source;

static void refuse(source *s, const char *why)
{
    char *text = rg__connection_space(s->wire);
    if (text == NULL)
        return;
    snprintf(text, RG__CAUSE_MAX, "%s", why);
    rg__connection_send(s->wire, RG__PEER_REFUSED, strlen(text) + 1);
    s->slot = -1;
}

static void tell_room(source *s)
{
    const buffer *b = &s->a->buffer[s->rooms++];
    room_frame m = {.bytes = b->bytes, .count = (uint32_t)s->walk.buffers};
    snprintf(m.name, sizeof m.name, "%s", b->name);
    memcpy(rg__connection_space(s->wire), &m, sizeof m);
    rg__connection_send(s->wire, RG__PEER_ROOM, sizeof m);
    s->total += b->bytes;
}

static void tell_piece(source *s, uint32_t index)
{
    const rg__piece *piece = s->a->vault->slot[s->slot];
    const piece_frame m = {index, atomic_load(&piece->count),
                           atomic_load(&piece[index].sum)};
    if (m.count <= index || m.count > RG__HOST_SLOTS_MAX) {
        refuse(s, "its vault was scribbled over"); /* since it was looked at */
        return;
    }
    walk_begin(&s->walk, index, m.count);
    memcpy(rg__connection_space(s->wire), &m, sizeof m);
    rg__connection_send(s->wire, RG__PEER_PIECE, sizeof m);
}

static void send_bytes(source *s)
{
    walk *w = &s->walk;
    const buffer *b = buffer_of(s->a, w);
    const size_t left = w->end - w->at;
    const size_t n = left < RG__PEER_BODY_MAX ? left : RG__PEER_BODY_MAX;
    void *to = rg__connection_space(s->wire);
    if (s->sent * 2 >= s->total)
        rg__failpoint("transfer.source", -1, s->id.step, s->generation);
    if (!read_vault(b, s->slot, w->at, to, n)) {
        refuse(s, "its vault can't be read");
        return;
    }
    rg__hash_update(&w->hash, to, n);
    w->at += n;
    s->sent += n;
    rg__connection_send(s->wire, RG__PEER_BYTES, n);
}

/* The last piece sent was what the commit had? */
static bool is_piece_right(source *s)
{
    rg__vault *vault = s->a->vault;
    const uint32_t i = s->walk.piece;
    if (s->walk.sum == atomic_load(&vault->slot[s->slot][i].sum))
        return true;
    rg__log(RG__ERROR, "agent",
            "commit %" PRIu64 ".%" PRIu64 " in the vault of this host is "
            "damaged: piece %u does not have its checksum; it counts no more",
            s->id.generation, s->id.step, i);
    rg__vault_empty(vault, s->slot);
    return false;
}

static void send_next(void *arg)
{
    source *s = arg;
    if (s->slot < 0 || rg__connection_space(s->wire) == NULL)
        return;
    if (!rg__same_commit(rg__vault_id(s->a->vault, s->slot), s->id)) {
        refuse(s, "its vault does not hold the commit any more");
    } else if (s->rooms < s->walk.buffers) {
        tell_room(s);
    } else if (s->walk.count == 0) {
        tell_piece(s, 0);
    } else if (walk_on(&s->walk, s->a)) {
        send_bytes(s);
    } else if (!is_piece_right(s)) {
        refuse(s, "the commit is damaged there");
    } else if (s->walk.piece + 1 < s->walk.count) {
        tell_piece(s, s->walk.piece + 1);
    } else {
        s->slot = -1;
        s->is_whole = true;
    }
}

static bool source_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    (void)arg;
    (void)type;
    (void)body;
    (void)n;
    return false; /* the sink has nothing more to say */
}

static void source_gone(void *arg, const char *why)
{
    source *s = arg;
    if (s->slot >= 0)
        rg__log(RG__WARN, "agent",
                "commit %" PRIu64 ".%" PRIu64 " was sent in part: %s",
                s->id.generation, s->id.step, why);
    if (s->is_whole) { /* the sink closes when it has all */
        agent *a = s->a;
        a->served = a->served_generation == s->generation ? a->served + 1 : 1;
        a->served_generation = s->generation;
    }
    free(s);
}

static const connection_fns source_fns = {source_frame, send_next, source_gone};

bool rg__transfer_serve(agent *a, connection *c, const void *body, size_t n)
{
    fetch_frame m;
    source *s = calloc(1, sizeof *s);
    if (n != sizeof m || s == NULL) {
        free(s);
        return false;
    }
    memcpy(&m, body, sizeof m);
    *s = (source){.a = a, .wire = c, .generation = m.generation, .id = m.id};
    s->walk.buffers = a->buffers;
    rg__connection_take(c, &source_fns, s);
    s->slot = m.id.generation != 0 ? rg__vault_find(a->vault, m.id) : -1;
    if (s->slot < 0)
        refuse(s, "its vault does not hold the commit");
    else
        send_next(s);
    return true;
}

/* -------------------------------------------------------------------- sink */

struct transfer {
    agent *a;
    connection *wire;
    uint64_t generation;
    rg__commit_id id;
    char from[RG__NAME_MAX];
    int slot;   /* of the vault, -1: not chosen yet */
    int *order; /* the agent's buffers in the source's order; owned */
    int rooms;  /* told so far */
    bool is_asked;
    walk walk;
    uint64_t expected; /* sum of the piece under way */
    uint64_t bytes, total, begin_ns;
};

static void free_transfer(transfer *t)
{
    t->a->transfer = NULL;
    free(t->order);
    free(t);
}

void rg__transfer_cancel(agent *a)
{
    transfer *t = a->transfer;
    if (t == NULL)
        return;
    rg__log(RG__DEBUG, "agent",
            "the copy for generation %" PRIu64 " is given "
            "up after %" PRIu64 " bytes",
            t->generation, t->bytes);
    rg__connection_close(t->wire);
    free_transfer(t);
}

/* The generation can't begin here. */
static void publish(agent *a, uint64_t generation, const char *from,
                    bool is_link, const char *why)
{
    char text[RG__CAUSE_MAX];
    snprintf(text, sizeof text, "%.24s got no copy from %.24s: %.55s",
             a->params->host, from, why);
    rg__log(RG__WARN, "agent", "generation %" PRIu64 " is broken: %s",
            generation, text);
    a->detected_ns = rg__now_ns();
    rg__generation_abort(a, generation);
    if (is_link)
        rg__publish_broken_link(a, generation, NULL, from, text);
    else
        rg__publish_reason(a, generation, NULL, false, text);
}

static void fail(transfer *t, bool is_link, const char *why)
{
    agent *a = t->a;
    const uint64_t generation = t->generation;
    char from[RG__NAME_MAX];
    snprintf(from, sizeof from, "%s", t->from);
    free_transfer(t);
    publish(a, generation, from, is_link, why);
    rg__generation_follow(a); /* what has waited behind the transfer */
}

static void complete(transfer *t)
{
    agent *a = t->a;
    const uint64_t us = (rg__now_ns() - t->begin_ns) / 1000;
    rg__log(RG__INFO, "agent",
            "commit %" PRIu64 ".%" PRIu64 " came from %s: %" PRIu64
            " bytes in %" PRIu64 ".%03" PRIu64 " ms",
            t->id.generation, t->id.step, t->from, t->bytes, us / 1000,
            us % 1000);
    rg__connection_close(t->wire);
    free_transfer(t);
    rg__generation_pass_on(a);
    rg__generation_follow(a);
}

/* A frame that can't be used: say why, once, instead of "malformed". */
static bool give_up(transfer *t, const char *why)
{
    rg__connection_close(t->wire);
    fail(t, false, why);
    return true;
}

static bool is_room_new(const transfer *t, int index)
{
    for (int i = 0; i < t->rooms; i++)
        if (t->order[i] == index)
            return false;
    return true;
}

static bool on_room(transfer *t, const void *body, size_t n)
{
    room_frame m;
    int index = 0;
    if (n != sizeof m || t->slot >= 0)
        return false;
    memcpy(&m, body, sizeof m);
    m.name[sizeof m.name - 1] = '\0';
    if (m.count > RG__BUFFERS_MAX || (uint32_t)t->rooms >= m.count ||
        (t->order != NULL && m.count != (uint32_t)t->walk.buffers))
        return false;
    if (t->order == NULL)
        t->order = calloc(m.count, sizeof *t->order);
    t->walk.buffers = (int)m.count;
    if (t->order == NULL)
        return give_up(t, "no memory for its buffers");
    if (rg__vault_room(t->a, m.name, m.bytes, &index) != RG_OK)
        return give_up(t, rg_last_error());
    if (!is_room_new(t, index))
        return false;
    t->order[t->rooms++] = index;
    t->total += m.bytes;
    return true;
}

/* Any but the one that holds the newest whole commit on the lineage, which may
 * be the last that is left when the source is lost. */
static int choose_slot(const agent *a)
{
    rg__commit_id newest = {0, 0};
    int kept = -1;
    for (int i = 0; i < RG__VAULT_SLOTS; i++) {
        const rg__commit_id id = rg__vault_id(a->vault, i);
        if (id.generation != 0 && rg__resume_is_on_lineage(&a->view, id) &&
            !rg__resume_is_later(newest, id)) {
            newest = id;
            kept = i;
        }
    }
    return kept == 0 ? 1 : 0;
}

static bool begin_slot(transfer *t)
{
    if (t->rooms != t->walk.buffers || t->rooms != t->a->buffers)
        return false;
    t->slot = choose_slot(t->a);
    rg__vault_empty(t->a->vault, t->slot);
    return true;
}

/* After each part; the piece or the whole may be over. */
static void look_at_piece(transfer *t)
{
    walk *w = &t->walk;
    if (walk_on(w, t->a))
        return;
    if (w->sum != t->expected) {
        give_up(t, "what came does not have its checksum");
        return;
    }
    rg__piece_end(&t->a->vault->slot[t->slot][w->piece], w->sum);
    if (w->piece + 1 == w->count)
        complete(t);
}

static bool is_piece_next(const transfer *t, const piece_frame *m)
{
    const walk *w = &t->walk;
    if (m->count == 0 || m->count > RG__HOST_SLOTS_MAX || m->index >= m->count)
        return false;
    if (w->count == 0)
        return m->index == 0;
    return w->buffer >= w->buffers && m->count == w->count &&
           m->index == w->piece + 1;
}

static bool on_piece(transfer *t, const void *body, size_t n)
{
    piece_frame m;
    if (n != sizeof m)
        return false;
    memcpy(&m, body, sizeof m);
    if (!is_piece_next(t, &m))
        return false;
    if (t->slot < 0 && !begin_slot(t))
        return give_up(t, "it has other buffers than this host");
    t->walk.order = t->order;
    walk_begin(&t->walk, m.index, m.count);
    t->expected = m.sum;
    rg__piece_begin(&t->a->vault->slot[t->slot][m.index], t->id, m.count);
    look_at_piece(t);
    return true;
}

static bool on_bytes(transfer *t, const void *body, size_t n)
{
    walk *w = &t->walk;
    if (t->slot < 0 || n == 0 || n > w->end - w->at)
        return false;
    if (t->bytes * 2 >= t->total)
        rg__failpoint("transfer.sink", -1, t->id.step, t->generation);
    if (!write_vault(buffer_of(t->a, w), t->slot, w->at, body, n))
        return give_up(t, "this host's vault can't be written");
    rg__hash_update(&w->hash, body, n);
    w->at += n;
    t->bytes += n;
    look_at_piece(t);
    return true;
}

static bool on_refused(transfer *t, const void *body, size_t n)
{
    char why[RG__CAUSE_MAX];
    snprintf(why, sizeof why, "%.*s", (int)(n < sizeof why ? n : sizeof why),
             (const char *)body);
    return give_up(t, why);
}

static bool sink_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    transfer *t = arg;
    switch (type) {
    case RG__PEER_ROOM:
        return on_room(t, body, n);
    case RG__PEER_PIECE:
        return on_piece(t, body, n);
    case RG__PEER_BYTES:
        return on_bytes(t, body, n);
    case RG__PEER_REFUSED:
        return on_refused(t, body, n);
    default:
        return false;
    }
}

static void ask(void *arg)
{
    transfer *t = arg;
    const fetch_frame m = {t->generation, t->id};
    void *to = rg__connection_space(t->wire);
    if (to == NULL || t->is_asked)
        return;
    t->is_asked = true;
    memcpy(to, &m, sizeof m);
    rg__connection_send(t->wire, RG__PEER_FETCH, sizeof m);
}

static void sink_gone(void *arg, const char *why)
{
    fail(arg, true, why);
}

static const connection_fns sink_fns = {sink_frame, ask, sink_gone};

/* ------------------------------------------------------------------- begin */

static const rg__copy *find_copy(const agent *a, const rg__line *line)
{
    for (int i = 0; i < line->copies; i++)
        if (line->copy[i].to == a->id)
            return &line->copy[i];
    return NULL;
}

static void name_source(const agent *a, uint64_t host, char name[RG__NAME_MAX])
{
    snprintf(name, RG__NAME_MAX, "%016" PRIx64, host);
    for (int i = 0; i < a->view.gens; i++)
        for (int k = 0; k < a->view.gen[i].host_count; k++)
            if (a->view.gen[i].host[k].id == host)
                snprintf(name, RG__NAME_MAX, "%s", a->view.gen[i].host[k].name);
}

static void begin(agent *a, const rg__line *line, const rg__copy *copy)
{
    transfer *t = calloc(1, sizeof *t);
    char from[RG__NAME_MAX];
    name_source(a, copy->from, from);
    if (t == NULL) {
        publish(a, line->generation, from, false, "no memory");
        return;
    }
    *t = (transfer){.a = a,
                    .generation = line->generation,
                    .id = line->resume,
                    .slot = -1,
                    .begin_ns = rg__now_ns()};
    memcpy(t->from, from, sizeof t->from);
    a->transfer = t;
    if (rg__connection_call(a, &copy->address, copy->port, copy->from,
                            &sink_fns, t, &t->wire) == RG_OK)
        return;
    free_transfer(t);
    publish(a, line->generation, from, true, rg_last_error());
}

bool rg__transfer_begin(agent *a, const rg__line *line)
{
    rg__transfer_cancel(a);
    if (line->resume.generation == 0 ||
        rg__vault_find(a->vault, line->resume) >= 0)
        return false;
    const rg__copy *copy = find_copy(a, line);
    if (copy != NULL)
        begin(a, line, copy);
    return copy != NULL;
}

bool rg__transfer_holds(const agent *a, const rg__proposal *next)
{
    return a->transfer != NULL && next->is_announced &&
           a->aborted < a->transfer->generation;
}
