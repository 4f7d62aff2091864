#include "tests/agent/agents.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/hash.h"
#include "sdk/base/shm.h"

#define PATIENCE_NS (20000 * RG__MS)

rg__agent *agent_make(rg__loop *loop, uint64_t id)
{
    rg__agent *a = calloc(1, sizeof *a);
    char *host = malloc(16);
    CHECK(a != NULL && host != NULL);
    snprintf(host, 16, "h%llu", (unsigned long long)id);
    *a = (rg__agent){.on = &rg__agent_events,
                     .own = {.host = host, .detect_ms = DETECT_MS},
                     .loop = loop,
                     .id = id,
                     .address = {"127.0.0.1"},
                     .lease = (rg__lease *)host, /* never looked into */
                     .sockets = {.peer_listener = -1}};
    a->params = &a->own;
    memset(a->key, 7, sizeof a->key);
    CHECK_OK(rg__suspect_create(a));
    CHECK_OK(rg__generation_create(a));
    CHECK_OK(rg__store_create(a));
    CHECK_OK(rg__crew_create(a));
    CHECK_OK(rg__printer_create(a));
    CHECK_OK(rg__leaving_create(a));
    CHECK_OK(rg__vault_create(a));
    CHECK_OK(rg__peers_listen(a));
    CHECK_OK(rg__replication_create(a));
    return a;
}

rg__agent *agent_make_patient(rg__loop *loop, uint64_t id)
{
    rg__agent *a = agent_make(loop, id);
    a->own.detect_ms = PATIENCE_NS / RG__MS;
    return a;
}

void agent_free(rg__agent *a)
{
    rg__fetch_cancel(a);
    rg__replication_destroy(a);
    rg__peers_close(a);
    rg__vault_destroy(a);
    rg__waits_drop(a);
    for (int i = 0; i < a->view.lines; i++)
        rg__line_free(&a->view.line[i]);
    free(a->view.line);
    rg__generation_destroy(a);
    rg__suspect_destroy(a);
    rg__crew_destroy(a);
    rg__printer_destroy(a);
    rg__leaving_destroy(a);
    free((char *)(uintptr_t)a->own.host);
    free(a);
}

/* ---------------------------------------------------------------- the loop */

typedef struct waiting {
    rg__loop *loop;
    bool (*done)(void *arg);
    void *arg;
    rg__timer *timer;
    uint64_t until_ns;
} waiting;

static void look(void *arg)
{
    waiting *w = arg;
    CHECK(rg__now_ns() < w->until_ns);
    if (w->done(w->arg))
        rg__loop_stop(w->loop);
    else
        rg__timer_set(w->timer, RG__MS);
}

void loop_until(rg__loop *loop, bool (*done)(void *arg), void *arg)
{
    waiting w = {loop, done, arg, NULL, rg__now_ns() + PATIENCE_NS};
    w.timer = rg__timer_create(loop, look, &w);
    CHECK(w.timer != NULL);
    rg__timer_set(w.timer, 0);
    rg__loop_run(loop);
    rg__timer_destroy(w.timer);
}

/* --------------------------------------------------------------- the vault */

static const rg__vault_buffer *find(const rg__agent *a, const char *name)
{
    for (int i = 0; i < a->store->buffers; i++)
        if (strcmp(a->store->buffer[i].name, name) == 0)
            return &a->store->buffer[i];
    CHECK(false);
    return NULL;
}

char *vault_bytes(rg__agent *a, const char *name, int vault_slot)
{
    const rg__vault_buffer *b = find(a, name);
    const size_t stride = rg__vault_stride(b->bytes);
    void *at = NULL;
    CHECK_OK(rg__shm_map_at(a->store->fd, b->place, stride * b->slots, &at));
    return (char *)at + stride * (size_t)vault_slot;
}

void vault_add(rg__agent *a, const char *name, uint64_t bytes)
{
    int index = -1;
    rg__register what = {.bytes = bytes, .slots = 2};
    snprintf(what.name, sizeof what.name, "%s", name);
    CHECK_OK(rg__vault_room(a, &what, &index));
}

static char byte_of(const char *name, rg__commit_id id, size_t at)
{
    return (char)((at * 131) ^ (at >> 9) ^ (id.generation * 17 + id.step * 3) ^
                  (size_t)name[0]);
}

static uint64_t commit_slice(rg__agent *a, const rg__vault_buffer *b,
                             int vault_slot, rg__commit_id id, uint32_t i,
                             uint32_t count)
{
    size_t begin, end;
    rg__sum sum;
    char *to = vault_bytes(a, b->name, vault_slot);
    rg__vault_slice(b->bytes, i, count, &begin, &end);
    for (size_t at = begin; at < end; at++)
        to[at] = byte_of(b->name, id, at);
    rg__sum_begin(&sum, b->name, 0, NULL);
    rg__sum_update(&sum, to + begin, end - begin);
    return rg__sum_end(&sum);
}

void vault_commit(rg__agent *a, int vault_slot, rg__commit_id id,
                  uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        rg__piece *piece = &a->store->vault->slot[vault_slot][i];
        const rg__part part = {.id = id, .index = i, .count = count};
        uint64_t sum = rg__part_hash(&part);
        rg__piece_begin(piece, &part);
        for (int k = a->store->buffers - 1; k >= 0; k--) /* any order */
            sum +=
                commit_slice(a, &a->store->buffer[k], vault_slot, id, i, count);
        rg__piece_end(piece, sum);
    }
}

bool vault_has(rg__agent *a, int vault_slot, rg__commit_id id)
{
    if (!rg__same_commit(rg__vault_id(a->store->vault, vault_slot), id))
        return false;
    for (int k = 0; k < a->store->buffers; k++) {
        const rg__vault_buffer *b = &a->store->buffer[k];
        const char *bytes = vault_bytes(a, b->name, vault_slot);
        for (size_t at = 0; at < b->bytes; at++)
            if (bytes[at] != byte_of(b->name, id, at))
                return false;
    }
    return true;
}

/* --------------------------------------------------------------- decisions */

static rg__line *add_line(rg__agent *a, uint64_t generation,
                          rg__commit_id resume)
{
    rg__line *more =
        realloc(a->view.line, sizeof *more * (size_t)(a->view.lines + 1));
    CHECK(more != NULL);
    a->view.line = more;
    more[a->view.lines] = (rg__line){.generation = generation,
                                     .prev = generation - 1,
                                     .resume = resume,
                                     .source = -1};
    return &more[a->view.lines++];
}

void decide_before(rg__agent *a, uint64_t generation, rg__commit_id resume)
{
    add_line(a, generation, resume);
    a->delivered = generation;
}

void decide(rg__agent *to, const rg__agent *from, uint64_t generation,
            rg__commit_id resume)
{
    rg__line *line = add_line(to, generation, resume);
    line->copy = calloc(1, sizeof *line->copy);
    CHECK(line->copy != NULL);
    line->copies = 1;
    line->copy[0] = (rg__fetch_plan){.to = to->id,
                                     .from = from->id,
                                     .address = from->address,
                                     .port = from->port,
                                     .is_whole = true};
    to->delivered = generation;
    CHECK(rg__fetch_begin(to, line));
}

bool is_copied(void *agent_arg)
{
    const rg__agent *a = agent_arg;
    return a->fetch == NULL;
}

const rg__reason *newest_reason(const rg__agent *a)
{
    static const rg__reason none;
    return a->publication->reasons > 0
               ? &a->publication->reason[a->publication->reasons - 1]
               : &none;
}
