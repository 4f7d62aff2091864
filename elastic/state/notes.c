/* What the steps of a state write to its worker's history. */
#include "elastic/state/state.h"

#include <stdlib.h>
#include <string.h>

#include "process_sets/sets.h"
#include "sdk/base/grow.h"

/* XXH3 of all replicated memory as 16 hex digits. */
static void hash_state(const rg_state *state, char hex[17])
{
    rg__hash hash;
    rg__hash_begin(&hash);
    for (int i = 0; i < state->buffers; i++) {
        if (state->buffer[i].is_sharded)
            continue;
        rg__state_hash_buffer(&state->buffer[i], 0, state->buffer[i].bytes,
                              &hash);
    }
    rg__hash_end(&hash, hex);
}

void rg__state_note(rg_state *state, const char *event, uint64_t step,
                    bool hashed)
{
    if (state->history == NULL)
        return;
    char hex[17];
    if (hashed)
        hash_state(state, hex);
    const rg__membership *now = &state->ctx->now;
    rg__history_event(state->history, event, now->generation, now->rank,
                      now->size, step, hashed ? hex : NULL);
}

void rg__state_note_load(const rg_state *state)
{
    char hex[17];
    if (state->history == NULL)
        return;
    hash_state(state, hex);
    rg__history_event(state->history, "load", 0, -1, 0, state->step, hex);
}

void rg__state_note_made(const rg_state *state, rg__live *live)
{
    if (state->history != NULL)
        hash_state(state, live->hash);
}

void rg__state_note_stored(const rg_state *state, rg__live *live)
{
    const rg__membership *now = &state->ctx->now;
    if (live->hash[0] != '\0')
        rg__history_event(state->history, "stored", now->generation, now->rank,
                          now->size, live->id.step, live->hash);
    live->hash[0] = '\0';
}

void rg__state_note_step(rg_state *state)
{
    const rg__history_samples samples = {
        state->sample_epoch, state->sample_first, state->sample_count};
    const rg__membership *now = &state->ctx->now;
    rg__history_step(state->history, now->generation, now->rank, now->size,
                     state->step, NULL, state->has_samples ? &samples : NULL);
    state->has_samples = false;
}

void rg__state_note_samples(rg_state *state, uint64_t epoch, uint64_t first,
                            uint64_t count)
{
    state->sample_epoch = epoch;
    state->sample_first = first;
    state->sample_count = count;
    state->has_samples = true;
}

typedef struct set_list {
    rg__history_set *item;
    int count;
} set_list;

static void add_set(void *arg, const rg__set_info *set)
{
    set_list *list = arg;
    rg__history_set *one =
        rg__grow(&list->item, (size_t)list->count, sizeof *one);
    if (one == NULL)
        return;
    const size_t bytes = sizeof *set->ranks * (size_t)set->n;
    char *name_copy = strdup(set->name);
    int *rank_copy = malloc(bytes + 1);
    if (name_copy == NULL || rank_copy == NULL) {
        free(name_copy);
        free(rank_copy);
        return;
    }
    memcpy(rank_copy, set->ranks, bytes);
    *one = (rg__history_set){name_copy, rank_copy, set->n};
    list->count++;
}

static void free_sets(set_list *list)
{
    for (int i = 0; i < list->count; i++) {
        free((void *)(uintptr_t)list->item[i].name);
        free((void *)(uintptr_t)list->item[i].ranks);
    }
    free(list->item);
}

void rg__state_note_join(rg_state *state, const rg__decided *decided)
{
    if (state->history == NULL)
        return;
    const rg__membership *now = &state->ctx->now;
    set_list sets = {0};
    rg__sets_each(state->ctx, add_set, &sets);
    rg__state_note(state, "join", state->step, false);
    rg__history_decide(state->history, state->ctx->job_id, now->generation,
                       now->rank, now->size, decided->resume, sets.item,
                       sets.count);
    free_sets(&sets);
}

void rg__state_note_leave(rg_state *state)
{
    rg__state_note(state, "leave", state->step, false);
}
