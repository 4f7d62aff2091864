/* Mistakes of a program that its memory shows:
 *
 *   replicated memory that is not equal on all ranks: a commit is made of a
 *   slice of each rank of a host, so it would be a mixture of theirs. Hashes of
 *   whole buffers are compared before a commit is saved: at the first commits
 *   of a job and the first after each change of membership, or as
 *   REGROUP_CHECK_STATE of rank 0 says. A comparison of more than AT_ONCE goes
 *   on at the next commits, so that a large state delays none of them much; the
 *   first after a change, for which all have just waited, takes AFTER_CHANGE.
 *   Where a difference is an error, nothing is saved before all is compared;
 *
 *   a buffer in which no byte has changed over ten commits of a generation:
 *   perhaps a copy was registered instead of what is trained. The hashes that
 *   commits make of the slices anyway show that.
 *
 * Rank 0 warns of each once for each buffer. What is compared follows from what
 * all ranks know, so all compare at the same commit. */
#include "elastic/state/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process_sets/sets.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/least.h"
#include "sdk/base/log.h"

#define FIRST_COMMITS 3                  /* of a job are compared */
#define STILL_COMMITS 10                 /* without a change */
#define NAMED_RANKS   8                  /* the most in one sentence */
#define AT_ONCE       ((size_t)64 << 20) /* bytes compared at a commit, */
#define AFTER_CHANGE  ((size_t)8 << 20)  /* but first after a change */

static const char comparing[] = "rg_state_commit";

rg_status rg__state_check_read(const char *text, rg__state_check *check_p)
{
    char *end = NULL;
    *check_p = (rg__state_check){0};
    if (strcmp(text, "auto") == 0)
        return RG_OK;
    check_p->is_off = strcmp(text, "off") == 0;
    check_p->is_strict = strcmp(text, "strict") == 0;
    if (check_p->is_off || check_p->is_strict)
        return RG_OK;
    const unsigned long every = strtoul(text, &end, 10);
    check_p->every = (uint32_t)every;
    if (text[0] >= '1' && text[0] <= '9' && *end == '\0' && every <= UINT32_MAX)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "REGROUP_CHECK_STATE is \"%s\"; it can be auto, off, "
                    "strict or a number of commits such as 100",
                    text);
}

rg_status rg__state_check_agree(rg_state *state, bool is_first)
{
    state->commits = 0;
    state->is_first = is_first;
    state->is_comparing = false;
    for (int k = 0; k < state->buffers; k++)
        state->buffer[k].has_slice_hash = state->buffer[k].has_changed = false;
    state->world_check = state->check;
    return rg__world_broadcast(state->ctx, &state->world_check,
                               sizeof state->world_check, 0);
}

/* ----------------------------------------------------------- equal on ranks */

/* Does a comparison begin at the commit that comes next? Never at commit 0. */
static bool begins(const rg_state *state)
{
    const uint64_t before = state->commits - state->is_first;
    if (state->world_check.every > 0)
        return before % state->world_check.every == 0;
    return before < (state->is_first ? FIRST_COMMITS : 1);
}

static bool is_compared(const rg_state *state)
{
    return !state->world_check.is_off && (state->is_comparing || begins(state));
}

/* Hash what is compared now of each buffer. */
static void hash_next(rg_state *state, uint64_t *hash)
{
    size_t before = state->is_comparing ? state->compared : 0;
    const bool is_after_change = !state->is_first && state->commits == 0;
    size_t left = state->world_check.is_strict ? SIZE_MAX
                  : is_after_change            ? AFTER_CHANGE
                                               : AT_ONCE;
    state->compared = before;
    for (int k = 0; k < state->buffers; k++) {
        const rg__state_buffer *b = &state->buffer[k];
        const size_t bytes = b->is_sharded || b->may_differ ? 0 : b->bytes;
        const size_t begin = rg__least(before, bytes);
        const size_t n = rg__least(left, bytes - begin);
        rg__hash one;
        rg__hash_begin(&one);
        rg__state_hash_buffer(b, begin, begin + n, &one);
        hash[k] = rg__hash_value(&one);
        before -= begin;
        left -= n;
        state->compared += n;
    }
    state->is_comparing = left == 0;
}

static rg_status agree_on(rg_state *state, const uint64_t *hash,
                          bool *is_equal_p)
{
    const int64_t all =
        (int64_t)rg__hash_of(hash, sizeof *hash * (size_t)state->buffers);
    const int64_t in[4] = {all, ~all};
    int64_t out[4];
    const rg_status st = rg__world_agree(state->ctx, comparing,
                                         RG__STATE_AGREE_COMPARE, in, out);
    *is_equal_p = st != RG_OK || out[0] == ~out[1];
    return st;
}

/* "rank 2 has", "ranks 1, 3 and 2 more have" */
static void name_ranks(const uint8_t *differs, int size, size_t stride,
                       char *text, size_t room)
{
    int all = 0, named = 0;
    for (int r = 0; r < size; r++)
        all += differs[(size_t)r * stride];
    size_t n = (size_t)snprintf(text, room, all == 1 ? "rank" : "ranks");
    for (int r = 0; r < size && named < NAMED_RANKS; r++)
        if (differs[(size_t)r * stride])
            n += (size_t)snprintf(text + n, room - n, "%s %d",
                                  named++ > 0 ? "," : "", r);
    if (all > named)
        n += (size_t)snprintf(text + n, room - n, " and %d more", all - named);
    snprintf(text + n, room - n, all == 1 ? " has" : " have");
}

/* differs: a byte for each rank, so far apart. */
static rg_status tell(rg_state *state, rg__state_buffer *b,
                      const uint8_t *differs, uint64_t step)
{
    const rg__membership *now = &state->ctx->now;
    char ranks[160], text[512];
    name_ranks(differs, now->size, (size_t)state->buffers, ranks, sizeof ranks);
    snprintf(text, sizeof text,
             "buffer %s is not equal on all ranks in step %llu: %s other bytes "
             "than rank 0; is something that a step changes not registered? "
             "Register a buffer that may differ with "
             "rg_buffer_params.may_differ",
             b->name, (unsigned long long)step, ranks);
    if (now->rank == 0 && !b->has_differed)
        rg__log(RG__WARN, "state", "%s", text);
    b->has_differed = true;
    return rg__fail(RG_ERR_MISMATCH, "%s", text);
}

/* All ranks know that something differs: report what, and on which ranks. */
static rg_status find_differences(rg_state *state, const uint64_t *hash,
                                  uint64_t step)
{
    const rg__membership *now = &state->ctx->now;
    const size_t n = (size_t)state->buffers;
    uint64_t *first = malloc(n * sizeof *first);
    uint8_t *mine = malloc(n), *all = malloc(n * (size_t)now->size);
    rg_status st = first != NULL && mine != NULL && all != NULL
                       ? RG_OK
                       : rg__fail(RG_ERR_MEMORY, "no memory to compare state");
    if (st == RG_OK) {
        memcpy(first, hash, n * sizeof *first);
        st = rg__world_broadcast(state->ctx, first, n * sizeof *first, 0);
    }
    rg__failpoint("compare.differs", now->rank, step, now->generation);
    for (size_t k = 0; k < n && st == RG_OK; k++)
        mine[k] = hash[k] != first[k];
    if (st == RG_OK)
        st = rg__world_gather(state->ctx, comparing, mine, all, n, now->size);
    rg_status found = RG_OK;
    for (size_t k = n; k-- > 0 && st == RG_OK;) /* the first is reported last */
        for (int r = 0; r < now->size; r++)
            if (all[(size_t)r * n + k]) {
                found = tell(state, &state->buffer[k], all + k, step);
                break;
            }
    free(first);
    free(mine);
    free(all);
    return st == RG_OK && state->world_check.is_strict ? found : st;
}

/* A rank that knows all differences may return first, and end: those that lose
 * it know by then that there are some. */
static rg_status compare(rg_state *state, uint64_t step)
{
    uint64_t *hash = calloc((size_t)state->buffers + 1, sizeof *hash);
    if (hash == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to compare state");
    hash_next(state, hash);
    bool is_equal = true;
    rg_status st = agree_on(state, hash, &is_equal);
    if (st == RG_OK && !is_equal)
        st = find_differences(state, hash, step);
    if (st == RG_ERR_PEER_LOST && !is_equal && state->world_check.is_strict)
        st = rg__fail(RG_ERR_MISMATCH,
                      "replicated memory is not equal on all ranks in step "
                      "%llu; other ranks name the buffer",
                      (unsigned long long)step);
    free(hash);
    return st;
}

/* ------------------------------------------------------------------ changes */

void rg__state_note_slice(rg__state_buffer *b, uint64_t hash)
{
    if (b->has_slice_hash && b->slice_hash != hash)
        b->has_changed = true;
    b->slice_hash = hash;
    b->has_slice_hash = true;
}

static void tell_still(rg__state_buffer *b)
{
    if (b->is_constant || b->is_still)
        return;
    b->is_still = true;
    rg__log(RG__WARN, "state",
            "no byte of buffer %s has changed over %d commits; is it the "
            "memory that the program trains, and not a copy? Register a buffer "
            "that never changes with rg_buffer_params.constant",
            b->name, STILL_COMMITS);
}

static rg_status find_still(rg_state *state)
{
    const rg__membership *now = &state->ctx->now;
    const size_t n = (size_t)state->buffers;
    uint8_t *mine = calloc(n + 1, 1), *all = malloc(n * (size_t)now->size + 1);
    rg_status st = mine != NULL && all != NULL
                       ? RG_OK
                       : rg__fail(RG_ERR_MEMORY, "no memory to compare state");
    for (size_t k = 0; k < n && st == RG_OK; k++)
        mine[k] = state->buffer[k].has_changed;
    if (st == RG_OK)
        st = rg__world_gather(state->ctx, comparing, mine, all, n, now->size);
    for (size_t k = 0; k < n && st == RG_OK && now->rank == 0; k++) {
        bool has_changed = false;
        for (int r = 0; r < now->size; r++)
            has_changed = has_changed || all[(size_t)r * n + k];
        if (!has_changed)
            tell_still(&state->buffer[k]);
    }
    free(mine);
    free(all);
    return st;
}

static bool is_still_due(const rg_state *state)
{
    return state->commits == STILL_COMMITS + 1 && !state->world_check.is_off;
}

bool rg__state_looks(const rg_state *state)
{
    return state->buffers > 0 && state->is_in_fn &&
           (is_compared(state) || is_still_due(state));
}

rg_status rg__state_look(rg_state *state, uint64_t step)
{
    rg_status st = RG_OK;
    if (is_compared(state))
        st = compare(state, step);
    if (st == RG_OK && is_still_due(state))
        st = find_still(state);
    return st;
}
