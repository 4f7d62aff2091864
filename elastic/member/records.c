/* Each record's value: a struct to JSON and back. */
#include "elastic/member/records_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/grow.h"
#include "sdk/base/proof.h"

#define NOTICE_MS_MAX 60000

bool rg__id_read(const json_t *j, uint64_t *id_p)
{
    return rg__hex_read(j, id_p) && *id_p != 0;
}

bool rg__name_read(char *to, size_t room, const json_t *j)
{
    const char *name = json_string_value(j);
    return name != NULL && rg__name_copy(to, room, name);
}

/* A number within bounds; 0 if it is absent. */
static bool read_int(const json_t *j, const char *name, int low, int high,
                     int *n_p)
{
    const json_int_t n = json_integer_value(json_object_get(j, name));
    *n_p = (int)n;
    return n >= low && n <= high;
}

/* -------------------------------------------------------------------- keys */

/* What stands behind a key's kind. */
typedef enum parts { ALONE, NUMBER, NAME, BOTH, TWO } parts;

static const struct {
    const char *text;
    parts parts;
} kinds[] = {
#define RG__KEY_TEXT(kind, text, parts) {text, parts},
    RG__KEYS(RG__KEY_TEXT)
#undef RG__KEY_TEXT
};

static void add_number(char *to, size_t room, uint64_t number)
{
    if (number != 0)
        snprintf(to, room, "/%016" PRIx64, number);
}

char *rg__record_key(const char *prefix, rg__key key)
{
    char number[18] = "", by[18] = "";
    char *text = NULL;
    add_number(number, sizeof number, key.number);
    add_number(by, sizeof by, key.by);
    if (asprintf(&text, "%s%s%s%s%s%s", prefix, kinds[key.kind].text, number,
                 key.name != NULL ? "/" : "", key.name != NULL ? key.name : "",
                 by) < 0)
        return NULL;
    return text;
}

char *rg__record_keys(const char *prefix, rg__key_kind kind)
{
    return rg__record_key(prefix, (rg__key){.kind = kind, .name = ""});
}

/* "/00..02" and what follows; no generation and no incarnation is 0. */
static bool read_number(const char **at, uint64_t *number_p)
{
    if (**at != '/' || !rg__hex_begins(*at + 1, number_p) || *number_p == 0)
        return false;
    *at += 17;
    return true;
}

static bool read_name(const char **at, const char **name_p)
{
    if (**at != '/')
        return false;
    *name_p = *at + 1;
    *at += strlen(*at);
    return true;
}

static bool read_parts(const char *at, parts which, rg__key *key)
{
    bool is_right = true;
    if (which == NUMBER || which == BOTH || which == TWO)
        is_right = read_number(&at, &key->number);
    if (is_right && (which == NAME || which == BOTH))
        is_right = read_name(&at, &key->name);
    if (is_right && which == TWO)
        is_right = read_number(&at, &key->by);
    return is_right && *at == '\0';
}

bool rg__record_key_read(const char *text, rg__key *key)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i].text);
        *key = (rg__key){.kind = (rg__key_kind)i};
        if (strncmp(text, kinds[i].text, n) == 0 &&
            (text[n] == '/' || text[n] == '\0'))
            return read_parts(text + n, kinds[i].parts, key);
    }
    return false;
}

/* -------------------------------------------------------------------- meta */

char *rg__meta_text(const rg__meta *meta)
{
    char key[2 * RG__KEY_BYTES + 1];
    rg__hex(key, meta->key, RG__KEY_BYTES);
    return rg__json_text(json_pack("{s:i,s:s,s:s,s:i,s:i,s:b}", "format",
                                   RG__META_FORMAT, "uuid", meta->uuid, "key",
                                   key, "min", meta->min, "max", meta->max,
                                   "one_host", meta->is_one_host));
}

bool rg__meta_read(const json_t *j, rg__meta *meta)
{
    int format = 0;
    const char *key = NULL;
    json_error_t error;
    meta->is_one_host = json_is_true(json_object_get(j, "one_host"));
    return json_unpack_ex((json_t *)(uintptr_t)j, &error, 0,
                          "{s:i,s:s,s:i,s:i}", "format", &format, "key", &key,
                          "min", &meta->min, "max", &meta->max) == 0 &&
           format == RG__META_FORMAT && meta->min >= 1 &&
           meta->max >= meta->min && rg__unhex(meta->key, RG__KEY_BYTES, key) &&
           rg__text_field(j, "uuid", meta->uuid, sizeof meta->uuid);
}

/* -------------------------------------------------------------------- host */

static json_t *slot_json(const rg__slot_record *s)
{
    return json_pack("[i,i,i,b,b,i,b,b]", (int)s->slot, (int)s->start,
                     (int)s->pid, s->is_alive, s->is_at_door, (int)s->port,
                     s->waits, s->is_free);
}

char *rg__host_text(const rg__host_record *host)
{
    json_t *slots = json_array();
    for (int i = 0; i < host->slot_count; i++)
        json_array_append_new(slots, slot_json(&host->slot[i]));
    return rg__json_text(json_pack(
        "{s:o,s:I,s:i,s:i,s:s,s:i,s:b,s:i,s:b,s:b,s:i,s:i,s:s,s:I,s:o,s:I,s:I,"
        "s:s,s:i,s:i}",
        "id", rg__hex_json(host->id), "seq", (json_int_t)host->seq, "slots",
        host->slots, "elastic", host->elastic, "address", host->address.text,
        "port", (int)host->port, "draining", host->is_draining, "notice_ms",
        host->notice_ms, "gone", host->is_gone, "etcd", host->has_etcd, "open",
        host->open, "failed_code", host->failed_code, "failed", host->failed,
        "vault", (json_int_t)host->vault_bytes, "workers", slots, "swept",
        (json_int_t)host->swept, "broke", (json_int_t)host->broke, "broke_why",
        host->broke_why, "broke_code", host->broke_code, "broke_by",
        (int)host->broke_by));
}

bool rg__is_port(json_int_t port)
{
    return port >= 0 && port <= 65535;
}

/* A host's address and its agent's port. */
bool rg__place_read(const json_t *address, const json_t *port,
                    rg__address *address_p, uint32_t *port_p)
{
    const json_int_t n = json_integer_value(port);
    *port_p = (uint32_t)n;
    return rg__is_port(n) &&
           rg__text_read(address_p->text, sizeof address_p->text, address);
}

static bool read_slot(const json_t *j, rg__slot_record *s)
{
    int slot, start, pid, alive, door, port;
    json_error_t error;
    if (json_unpack_ex((json_t *)(uintptr_t)j, &error, 0, "[i,i,i,b,b,i]",
                       &slot, &start, &pid, &alive, &door, &port) != 0 ||
        slot < 0 || slot >= RG__HOST_SLOTS_MAX || start < 0 ||
        !rg__is_port(port))
        return false;
    *s = (rg__slot_record){.slot = (uint32_t)slot,
                           .start = (uint32_t)start,
                           .pid = pid,
                           .port = (uint32_t)port,
                           .is_alive = alive,
                           .is_at_door = door,
                           .waits = json_is_true(json_array_get(j, 6)),
                           .is_free = json_is_true(json_array_get(j, 7))};
    return true;
}

bool rg__host_read(const json_t *j, rg__host_record *host)
{
    const json_t *workers = json_object_get(j, "workers");
    const size_t n = json_array_size(workers);
    int broke_by = 0;
    host->seq = (uint64_t)json_integer_value(json_object_get(j, "seq"));
    host->is_gone = json_is_true(json_object_get(j, "gone"));
    host->has_etcd = json_is_true(json_object_get(j, "etcd"));
    host->is_draining = json_is_true(json_object_get(j, "draining"));
    host->vault_bytes =
        (uint64_t)json_integer_value(json_object_get(j, "vault"));
    host->swept = (uint64_t)json_integer_value(json_object_get(j, "swept"));
    host->broke = (uint64_t)json_integer_value(json_object_get(j, "broke"));
    if (!rg__id_read(json_object_get(j, "id"), &host->id) ||
        !read_int(j, "notice_ms", 0, NOTICE_MS_MAX, &host->notice_ms) ||
        !read_int(j, "slots", 0, RG__HOST_SLOTS_MAX, &host->slots) ||
        !read_int(j, "elastic", -1, 1, &host->elastic) ||
        !read_int(j, "open", 0, RG__HOST_SLOTS_MAX, &host->open) ||
        !read_int(j, "failed_code", 0, 255, &host->failed_code) ||
        !read_int(j, "broke_code", 0, 255, &host->broke_code) ||
        !read_int(j, "broke_by", 0, RG__BROKE_BY_OTHERS, &broke_by) ||
        !rg__place_read(json_object_get(j, "address"),
                        json_object_get(j, "port"), &host->address,
                        &host->port) ||
        !rg__text_field(j, "failed", host->failed, sizeof host->failed) ||
        !rg__text_field(j, "broke_why", host->broke_why,
                        sizeof host->broke_why) ||
        n > RG__HOST_SLOTS_MAX)
        return false;
    host->broke_by = (rg__broke_by)broke_by;
    host->slot = calloc(n + 1, sizeof *host->slot);
    if (host->slot == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!read_slot(json_array_get(workers, i), &host->slot[i])) {
            free(host->slot);
            return false;
        }
    host->slot_count = (int)n;
    return true;
}

/* ------------------------------------------------------------------ mpirun */

char *rg__mpirun_text(const rg__mpirun *run)
{
    json_t *seats = json_array();
    for (int r = 0; r < run->size; r++)
        json_array_append_new(seats, json_pack("[s,o,i,s,i]", run->seat[r].name,
                                               rg__hex_json(run->seat[r].host),
                                               (int)run->seat[r].slot,
                                               run->seat[r].address.text,
                                               (int)run->seat[r].port));
    return rg__json_text(json_pack(
        "{s:I,s:o,s:b,s:s,s:I,s:o}", "number", (json_int_t)run->number, "by",
        rg__hex_json(run->by), "over", run->is_over, "why", run->why, "excused",
        (json_int_t)run->excused, "seats", seats));
}

static bool read_seat(const json_t *j, rg__seat *seat)
{
    const json_int_t slot = json_integer_value(json_array_get(j, 2));
    seat->slot = (uint32_t)slot;
    return rg__name_read(seat->name, sizeof seat->name, json_array_get(j, 0)) &&
           rg__id_read(json_array_get(j, 1), &seat->host) && slot >= 0 &&
           slot < RG__HOST_SLOTS_MAX &&
           rg__place_read(json_array_get(j, 3), json_array_get(j, 4),
                          &seat->address, &seat->port);
}

bool rg__mpirun_read(const json_t *j, rg__mpirun *run)
{
    const json_t *seats = json_object_get(j, "seats");
    const size_t n = json_array_size(seats);
    const json_int_t number = json_integer_value(json_object_get(j, "number"));
    run->number = (uint64_t)number;
    run->is_over = json_is_true(json_object_get(j, "over"));
    run->excused = (uint64_t)json_integer_value(json_object_get(j, "excused"));
    if (number < 1 || n < 1 || n > RG__WORLD_MAX ||
        !rg__id_read(json_object_get(j, "by"), &run->by) ||
        !rg__text_field(j, "why", run->why, sizeof run->why))
        return false;
    run->seat = calloc(n, sizeof *run->seat);
    bool is_right = run->seat != NULL;
    for (size_t i = 0; i < n && is_right; i++)
        is_right = read_seat(json_array_get(seats, i), &run->seat[i]);
    run->size = (int)n;
    if (!is_right)
        free(run->seat);
    return is_right;
}

/* --------------------------------------------------------------------- cur */

static const char *const phase_names[] = {"none", "propose", "decided", "done"};

char *rg__cur_text(const rg__cur *cur)
{
    return rg__json_text(json_pack("{s:I,s:s}", "g",
                                   (json_int_t)cur->generation, "phase",
                                   phase_names[cur->phase]));
}

bool rg__cur_read(const json_t *j, rg__cur *cur)
{
    const char *phase = json_string_value(json_object_get(j, "phase"));
    const json_int_t g = json_integer_value(json_object_get(j, "g"));
    if (phase == NULL || g < 1)
        return false;
    cur->generation = (uint64_t)g;
    for (int i = RG__GEN_PROPOSED; i <= RG__GEN_DONE; i++)
        if (strcmp(phase, phase_names[i]) == 0) {
            cur->phase = (rg__gen_phase)i;
            return true;
        }
    return false;
}

/* -------------------------------------------------------------------- kinds */

static const char *const kind_names[RG__KINDS] = {
    "first", "death", "broken", "host", "drain", "join", "same"};

const char *rg__cause_kind_name(rg__cause_kind kind)
{
    return kind_names[kind];
}

/* For counters only; no decision depends on it. */
rg__cause_kind rg__kind_read(const json_t *j)
{
    const char *name = json_string_value(json_object_get(j, "kind"));
    for (int i = 0; name != NULL && i < RG__KINDS; i++)
        if (strcmp(name, kind_names[i]) == 0)
            return (rg__cause_kind)i;
    return RG__KIND_SAME;
}

/* ----------------------------------------------------- reason */

char *rg__reason_text(const rg__reason *r)
{
    return rg__json_text(json_pack(
        "{s:s,s:s,s:I,s:s,s:s}", "kind", r->is_death ? "dead" : "broken", "why",
        r->text, "at_ms", (json_int_t)r->at_ms, "by", r->by, "link", r->link));
}

bool rg__reason_read(const json_t *j, rg__reason *r)
{
    const char *kind = json_string_value(json_object_get(j, "kind"));
    r->is_death = kind != NULL && strcmp(kind, "dead") == 0;
    r->at_ms = json_integer_value(json_object_get(j, "at_ms"));
    return kind != NULL && rg__text_field(j, "why", r->text, sizeof r->text) &&
           rg__text_field(j, "by", r->by, sizeof r->by) &&
           rg__text_field(j, "link", r->link, sizeof r->link);
}

/* ------------------------------------------------------ shards and holdings */

bool rg__shards_add(rg__shards *shards, uint32_t index)
{
    uint32_t *one =
        rg__grow(&shards->index, (size_t)shards->count, sizeof *one);
    if (one == NULL)
        return false;
    *one = index;
    shards->count++;
    return true;
}

bool rg__shards_have(const rg__shards *shards, uint32_t index)
{
    for (int i = 0; i < shards->count; i++)
        if (shards->index[i] == index)
            return true;
    return false;
}

void rg__shards_free(rg__shards *shards)
{
    free(shards->index);
    *shards = (rg__shards){0};
}

#define RUN_MIN 3 /* shorter than its numbers one by one */

static int end_of_run(const rg__shards *shards, int i)
{
    while (i + 1 < shards->count &&
           shards->index[i + 1] == shards->index[i] + 1)
        i++;
    return i;
}

/* [0,[4,67],70]: a run is its first and its last number. */
static json_t *shards_json(const rg__shards *shards)
{
    json_t *j = json_array();
    for (int i = 0; i < shards->count; i++) {
        const int end = end_of_run(shards, i);
        if (end - i + 1 < RUN_MIN) {
            json_array_append_new(j, json_integer(shards->index[i]));
            continue;
        }
        json_array_append_new(j,
                              json_pack("[I,I]", (json_int_t)shards->index[i],
                                        (json_int_t)shards->index[end]));
        i = end;
    }
    return j;
}

/* One number is a run of itself. */
static bool read_run(const json_t *j, rg__shards *shards)
{
    const bool is_run = json_is_array(j);
    const json_t *low = is_run ? json_array_get(j, 0) : j;
    const json_t *high = is_run ? json_array_get(j, 1) : j;
    const json_int_t first = json_integer_value(low);
    const json_int_t last = json_integer_value(high);
    const int n = shards->count;
    if (!json_is_integer(low) || !json_is_integer(high) || first < 0 ||
        last < first || last >= RG__WORLD_MAX ||
        (n > 0 && first <= (json_int_t)shards->index[n - 1]))
        return false;
    for (json_int_t i = first; i <= last; i++)
        if (!rg__shards_add(shards, (uint32_t)i))
            return false;
    return true;
}

static bool read_shards(const json_t *j, rg__shards *shards)
{
    const size_t n = json_array_size(j);
    for (size_t i = 0; i < n; i++)
        if (!read_run(json_array_get(j, i), shards))
            return false;
    return true;
}

static json_t *held_json(const rg__held *held)
{
    return json_pack("[I,I,b,i,o,b]", (json_int_t)held->id.generation,
                     (json_int_t)held->id.step, held->is_whole,
                     (int)held->shards, shards_json(&held->here),
                     held->is_local);
}

static bool read_held(const json_t *j, rg__held *held)
{
    const json_int_t g = json_integer_value(json_array_get(j, 0));
    const json_int_t s = json_integer_value(json_array_get(j, 1));
    const json_int_t shards = json_integer_value(json_array_get(j, 3));
    if (g < 1 || s < 0 || shards < 0 || shards > INT32_MAX)
        return false;
    held->id = (rg__commit_id){(uint64_t)g, (uint64_t)s};
    held->is_whole = json_is_true(json_array_get(j, 2));
    held->shards = (uint32_t)shards;
    held->is_local = json_is_true(json_array_get(j, 5));
    return read_shards(json_array_get(j, 4), &held->here);
}

char *rg__ack_text(const rg__ack *ack)
{
    json_t *held = json_array();
    for (int i = 0; i < ack->count; i++)
        json_array_append_new(held, held_json(&ack->held[i]));
    return rg__json_text(
        json_pack("{s:o,s:s,s:o,s:I,s:o,s:i}", "id", rg__hex_json(ack->id),
                  "op", ack->op, "held", held, "step", (json_int_t)ack->step,
                  "loaded", rg__hex_json(ack->loaded), "source", ack->source));
}

static bool read_ack(const json_t *j, rg__ack *ack)
{
    const json_t *held = json_object_get(j, "held");
    const size_t n = json_array_size(held);
    ack->step = (uint64_t)json_integer_value(json_object_get(j, "step"));
    ack->source = (int)json_integer_value(json_object_get(j, "source"));
    if (n > RG__VAULT_SLOTS ||
        !rg__id_read(json_object_get(j, "id"), &ack->id) ||
        !rg__text_field(j, "op", ack->op, sizeof ack->op) ||
        !rg__hex_read(json_object_get(j, "loaded"), &ack->loaded))
        return false;
    bool is_good = true;
    for (size_t i = 0; i < n && is_good; i++, ack->count++)
        is_good = read_held(json_array_get(held, i), &ack->held[i]);
    return is_good;
}

bool rg__ack_parse(const char *text, size_t bytes, rg__ack *ack)
{
    json_error_t error;
    json_t *j = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    *ack = (rg__ack){0};
    const bool is_right = j != NULL && read_ack(j, ack);
    if (!is_right)
        rg__ack_free(ack);
    json_decref(j);
    return is_right;
}

void rg__ack_free(rg__ack *ack)
{
    for (int i = 0; i < ack->count; i++)
        rg__shards_free(&ack->held[i].here);
    ack->count = 0;
}

/* -------------------------------------------------------------------- line */

void rg__line_free(rg__line *line)
{
    for (int i = 0; i < line->copies; i++)
        rg__shards_free(&line->copy[i].shards);
    free(line->copy);
    line->copy = NULL;
    line->copies = 0;
}

static json_t *copies_json(const rg__line *line)
{
    json_t *copies = json_array();
    for (int i = 0; i < line->copies; i++) {
        const rg__fetch_plan *c = &line->copy[i];
        json_array_append_new(copies,
                              json_pack("[o,o,s,i,b,o]", rg__hex_json(c->to),
                                        rg__hex_json(c->from), c->address.text,
                                        (int)c->port, c->is_whole,
                                        shards_json(&c->shards)));
    }
    return copies;
}

static bool read_copies(const json_t *j, rg__line *line)
{
    const size_t n = json_array_size(j);
    line->copy = calloc(n + 1, sizeof *line->copy);
    if (line->copy == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(j, i);
        rg__fetch_plan *c = &line->copy[i];
        line->copies = (int)i + 1;
        c->is_whole = json_is_true(json_array_get(one, 4));
        if (!rg__id_read(json_array_get(one, 0), &c->to) ||
            !rg__id_read(json_array_get(one, 1), &c->from) ||
            !rg__place_read(json_array_get(one, 2), json_array_get(one, 3),
                            &c->address, &c->port) ||
            !read_shards(json_array_get(one, 5), &c->shards))
            return false;
    }
    return true;
}

/* Kinds that never occurred are left out. */
static json_t *total_json(const rg__total *total)
{
    json_t *j =
        json_pack("{s:I,s:I}", "steps_lost", (json_int_t)total->steps_lost,
                  "lost_unknown", (json_int_t)total->lost_unknown);
    for (int i = 0; i < RG__KINDS; i++)
        if (total->changes[i] > 0)
            json_object_set_new(j, kind_names[i],
                                json_integer((json_int_t)total->changes[i]));
    return j;
}

static uint64_t count_read(const json_t *j, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(j, name));
}

static bool read_total(const json_t *j, rg__total *total)
{
    total->steps_lost = count_read(j, "steps_lost");
    total->lost_unknown = count_read(j, "lost_unknown");
    for (int i = 0; i < RG__KINDS; i++)
        total->changes[i] = count_read(j, kind_names[i]);
    return json_is_object(j);
}

void rg__line_count(rg__line *line, const rg__snapshot *snap)
{
    line->total = rg__snapshot_total(snap);
    if (line->steps_lost < 0)
        line->total.lost_unknown++;
    else
        line->total.steps_lost += (uint64_t)line->steps_lost;
    line->total.changes[line->kind]++;
}

rg__total rg__snapshot_total(const rg__snapshot *snap)
{
    return snap->lines > 0 ? snap->line[snap->lines - 1].total : (rg__total){0};
}

uint64_t rg__total_changes(const rg__total *total)
{
    uint64_t sum = 0;
    for (int i = 0; i < RG__KINDS; i++)
        sum += total->changes[i];
    return sum;
}

static json_t *lost_json(const rg__line *line)
{
    return line->steps_lost < 0 ? json_null() : json_integer(line->steps_lost);
}

static int64_t read_lost(const json_t *j)
{
    return json_is_integer(j) ? json_integer_value(j) : -1;
}

char *rg__line_text(const rg__line *line)
{
    return rg__json_text(json_pack(
        "{s:I,s:o,s:i,s:o,s:o,s:i,s:i,s:I,s:s,s:s,s:o}", "prev",
        (json_int_t)line->prev, "resume", rg__commit_json(line->resume),
        "source", line->source, "copies", copies_json(line), "steps_lost",
        lost_json(line), "from_size", line->from_size, "to_size", line->to_size,
        "at_ms", (json_int_t)line->at_ms, "cause", line->cause, "kind",
        kind_names[line->kind], "total", total_json(&line->total)));
}

bool rg__line_read(const json_t *j, rg__line *line)
{
    line->prev = (uint64_t)json_integer_value(json_object_get(j, "prev"));
    line->source = (int)json_integer_value(json_object_get(j, "source"));
    line->steps_lost = read_lost(json_object_get(j, "steps_lost"));
    line->from_size = (int)json_integer_value(json_object_get(j, "from_size"));
    line->to_size = (int)json_integer_value(json_object_get(j, "to_size"));
    line->at_ms = json_integer_value(json_object_get(j, "at_ms"));
    line->kind = rg__kind_read(j);
    return rg__commit_read(json_object_get(j, "resume"), &line->resume) &&
           rg__text_field(j, "cause", line->cause, sizeof line->cause) &&
           read_total(json_object_get(j, "total"), &line->total) &&
           read_copies(json_object_get(j, "copies"), line);
}

char *rg__end_text(const rg__end *end)
{
    return rg__json_text(json_pack("{s:i,s:s,s:b}", "code", end->code, "why",
                                   end->why, "asked", end->is_asked));
}

/* A job that went well is done, and has no end: none has code 0. */
bool rg__end_read(const json_t *j, rg__end *end)
{
    const json_int_t code = json_integer_value(json_object_get(j, "code"));
    if (code < 1 || code > 255)
        return false;
    end->is_set = true;
    end->is_asked = json_is_true(json_object_get(j, "asked"));
    end->code = (int)code;
    return rg__text_field(j, "why", end->why, sizeof end->why);
}

char *rg__begun_text(uint64_t generation)
{
    return rg__json_text(
        json_pack("{s:o}", "generation", rg__hex_json(generation)));
}

bool rg__begun_read(const json_t *j, uint64_t *generation_p)
{
    return rg__hex_read(json_object_get(j, "generation"), generation_p) &&
           *generation_p != 0;
}

char *rg__leader_text(const rg__proposal_host *leader)
{
    return rg__json_text(json_pack("{s:s,s:o,s:s,s:i}", "host", leader->name,
                                   "id", rg__hex_json(leader->id), "address",
                                   leader->address.text, "port",
                                   (int)leader->port));
}

bool rg__leader_read(const json_t *j, rg__proposal_host *leader)
{
    return rg__id_read(json_object_get(j, "id"), &leader->id) &&
           rg__name_read(leader->name, sizeof leader->name,
                         json_object_get(j, "host")) &&
           rg__place_read(json_object_get(j, "address"),
                          json_object_get(j, "port"), &leader->address,
                          &leader->port);
}

char *rg__suspicion_text(bool is_withdrawn)
{
    return strdup(is_withdrawn ? "{\"withdrawn\":true}" : "{}");
}

char *rg__drain_text(const rg__drain *drain)
{
    json_t *j =
        json_pack("{s:I}", "deadline_ms", (json_int_t)drain->deadline_ms);
    if (drain->code != 0) {
        json_object_set_new(j, "code", json_integer(drain->code));
        json_object_set_new(j, "why", json_string(drain->why));
    }
    return rg__json_text(j);
}

char *rg__size_text(const rg__size *size)
{
    return rg__json_text(
        json_pack("{s:i,s:i}", "min", size->min, "max", size->max));
}

bool rg__size_read(const json_t *j, rg__size *size)
{
    return read_int(j, "min", 1, RG__WORLD_MAX, &size->min) &&
           read_int(j, "max", size->min, RG__WORLD_MAX, &size->max);
}

bool rg__drain_read(const json_t *j, rg__drain *drain)
{
    const json_int_t ms = json_integer_value(json_object_get(j, "deadline_ms"));
    const json_t *why = json_object_get(j, "why");
    drain->deadline_ms = (uint64_t)ms;
    drain->code = (int)json_integer_value(json_object_get(j, "code"));
    return ms >= 0 &&
           (why == NULL || rg__text_read(drain->why, sizeof drain->why, why));
}
