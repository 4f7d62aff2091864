/* The records of this host's workers, copied, and as JSON. A worker can
 * scribble on its record, at any time: it is copied first, and each number of
 * the copy is checked or printed as a number. */
#include "elastic/agent/dump/dump_parts.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/agent/base/view.h"
#include "sdk/base/clock.h"
#include "sdk/transport/names.h"

#define OPS_MAX   256 /* of one worker in a dump */
#define OPS_LEAST 2   /* of one set */

static const char *state_text(const rg__op_note *note)
{
    return note->state == RG__OP_ENDED   ? "ended"
           : note->state == RG__OP_BEGUN ? "runs"
                                         : "queued";
}

static double ms_before(uint64_t now_ns, uint64_t at_ns)
{
    return at_ns < now_ns ? (double)((now_ns - at_ns) / RG__MS) : 0;
}

/* What no terminal should get, and half a letter at the end, becomes a '?'. */
static json_t *name_json(const char *name, size_t room)
{
    char shown[RG__LANE_NAME + 1] = ""; /* as gcc asks under ASan */
    size_t n = 0;
    for (; n < room && n < RG__LANE_NAME && name[n] != '\0'; n++)
        shown[n] = iscntrl((unsigned char)name[n]) ? '?' : name[n];
    json_t *j = json_stringn(shown, n);
    for (size_t i = 0; j == NULL && i < n; i++)
        shown[i] = (unsigned char)shown[i] < 0x80 ? shown[i] : '?';
    return j != NULL ? j : json_stringn(shown, n);
}

static json_t *note_json(const rg__op_note *note, uint64_t now_ns)
{
    json_t *j = json_pack(
        "{s:I,s:s,s:s,s:s,s:s,s:I,s:i,s:I}", "number", (json_int_t)note->number,
        "state", state_text(note), "kind", rg__kind_name(note->kind), "type",
        rg__type_name(note->type), "op", rg__op_name(note->op), "count",
        (json_int_t)note->count, "peer", (int)note->peer, "started_ms",
        (json_int_t)ms_before(now_ns, note->started_ns));
    if (j == NULL)
        return json_null();
    if (note->state == RG__OP_ENDED) {
        json_object_set_new(
            j, "ended_ms",
            json_integer((json_int_t)ms_before(now_ns, note->ended_ns)));
        json_object_set_new(
            j, "status", json_string(rg_status_name((rg_status)note->status)));
    }
    if (note->what[0] != '\0')
        json_object_set_new(j, "what", name_json(note->what, RG__WHAT_MAX));
    return j;
}

/* Oldest first, at most `most` of them. */
static json_t *notes_json(const rg__lane *lane, uint32_t most, uint64_t now_ns)
{
    json_t *notes = json_array();
    const uint32_t last = atomic_load(&lane->notes);
    const uint32_t first = last > most ? last - most : 0;
    for (uint32_t i = first; i != last; i++) {
        const rg__op_note *note = &lane->note[i % RG__LANE_OPS];
        if (note->serial == i + 1)
            json_array_append_new(notes, note_json(note, now_ns));
    }
    return notes;
}

static json_t *lane_json(const rg__lane *lane, uint32_t most, uint64_t now_ns)
{
    char members[20];
    snprintf(members, sizeof members, "%016" PRIx64, lane->members);
    return json_pack(
        "{s:I,s:o,s:I,s:i,s:s,s:I,s:I,s:b,s:o}", "id", (json_int_t)lane->set,
        "name", name_json(lane->name, sizeof lane->name), "size",
        (json_int_t)lane->size, "rank", (int)lane->rank, "members", members,
        "started", (json_int_t)atomic_load(&lane->started), "ended",
        (json_int_t)atomic_load(&lane->ended), "closed", lane->is_free != 0,
        "operations", notes_json(lane, most, now_ns));
}

static json_t *lanes_json(const rg__half *h, uint64_t now_ns)
{
    json_t *sets = json_array();
    const uint32_t lanes = atomic_load(&h->lanes);
    uint32_t most = lanes > 0 ? OPS_MAX / lanes : 0;
    most = most < OPS_LEAST ? OPS_LEAST : most;
    most = most < RG__LANE_OPS ? most : RG__LANE_OPS;
    for (uint32_t i = 0; i < lanes; i++)
        if (atomic_load(&h->lane[i].notes) > 0)
            json_array_append_new(sets, lane_json(&h->lane[i], most, now_ns));
    return sets;
}

static const rg__half *half_of(const rg__record *record, uint64_t generation)
{
    const uint32_t now = atomic_load(&record->half) % 2;
    const rg__half *h = &record->generation[now];
    if (generation != 0 && atomic_load(&h->generation) != generation)
        h = &record->generation[1 - now];
    const uint64_t found = atomic_load(&h->generation);
    return found != 0 && (generation == 0 || found == generation) ? h : NULL;
}

/* What a worker did last before it died may belong to the generation before: it
 * had built the next one, and started nothing in it. */
static const rg__half *last_half(const rg__record *record)
{
    const rg__half *now = half_of(record, 0);
    const uint32_t other = 1 - atomic_load(&record->half) % 2;
    const rg__half *before = &record->generation[other];
    const bool has_before = atomic_load(&before->generation) != 0;
    return now != NULL && atomic_load(&now->lanes) == 0 && has_before ? before
                                                                      : now;
}

/* The worker may overwrite notes while they are copied. Those are left out:
 * each would be halves of two operations. */
static rg__half *copy_of(const rg__half *from)
{
    const uint32_t lanes = rg__record_lanes(from);
    rg__half *copy = malloc(sizeof *copy);
    if (copy == NULL)
        return NULL;
    memcpy(copy, from, offsetof(rg__half, lane) + lanes * sizeof *from->lane);
    atomic_store(&copy->lanes, lanes);
    atomic_thread_fence(memory_order_acquire);
    for (uint32_t i = 0; i < lanes; i++) {
        const uint32_t next = atomic_load(&from->lane[i].notes) + 1;
        for (int k = 0; k < RG__LANE_OPS; k++) {
            rg__op_note *note = &copy->lane[i].note[k];
            if (next - note->serial >= RG__LANE_OPS)
                note->serial = 0;
        }
    }
    return copy;
}

/* How far it is: null while that is not known. */
static json_t *times_json(const rg__slot *s)
{
    const rg__page *page = s->w.page;
    const uint64_t took = atomic_load(&page->step_took_ns);
    const uint64_t waited = atomic_load(&page->step_waited_ns);
    const bool is_known = took > 0;
    return json_pack(
        "{s:i,s:i,s:I,s:o,s:o}", "slot", (int)s->index, "start",
        (int)s->saved.start, "step", (json_int_t)atomic_load(&page->step),
        "step_ms", is_known ? json_real((double)took / 1e6) : json_null(),
        "waiting",
        is_known ? json_real(waited < took ? (double)waited / (double)took : 1)
                 : json_null());
}

static json_t *worker_json(const rg__dump_copy *c)
{
    const rg__half *h = c->half;
    return json_pack("{s:i,s:i,s:b,s:i,s:i,s:I,s:o}", "slot", c->slot, "pid",
                     (int)c->pid, "alive", c->is_alive, "rank", (int)h->rank,
                     "size", (int)h->size, "generation",
                     (json_int_t)atomic_load(&h->generation), "sets",
                     lanes_json(h, c->at_ns));
}

static void copy_record(rg__dump_copies *all, const rg__slot *s,
                        const rg__record *record, pid_t pid, bool is_alive,
                        uint64_t generation)
{
    const rg__half *from = record == NULL ? NULL
                           : is_alive || generation != 0
                               ? half_of(record, generation)
                               : last_half(record);
    rg__half *half = from != NULL ? copy_of(from) : NULL;
    if (half != NULL)
        all->copy[all->n++] =
            (rg__dump_copy){half, (int)s->index, pid, is_alive, rg__now_ns()};
}

rg__dump_copies *rg__dump_copy_records(const rg__agent *a, uint64_t generation)
{
    rg__dump_copies *all = calloc(1, sizeof *all);
    for (int i = 0; all != NULL && i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        copy_record(all, s, s->w.record, s->w.pid, rg__slot_is_alive(s),
                    generation);
        copy_record(all, s, s->fallen.record, s->fallen.pid, false, generation);
    }
    return all;
}

void rg__dump_free_copies(rg__dump_copies *all)
{
    for (int i = 0; all != NULL && i < all->n; i++)
        free(all->copy[i].half);
    free(all);
}

static json_t *host_json(const rg__agent *a, json_t *workers)
{
    return json_pack("{s:s,s:o}", "host", a->params->host, "workers", workers);
}

json_t *rg__dump_records(const rg__agent *a, const rg__dump_copies *all)
{
    json_t *workers = json_array();
    for (int i = 0; i < all->n; i++)
        json_array_append_new(workers, worker_json(&all->copy[i]));
    return host_json(a, workers);
}

json_t *rg__dump_times(const rg__agent *a)
{
    json_t *workers = json_array();
    for (int i = 0; i < a->params->slots; i++)
        if (a->slot[i].w.page != NULL && rg__slot_is_alive(&a->slot[i]))
            json_array_append_new(workers, times_json(&a->slot[i]));
    return host_json(a, workers);
}
