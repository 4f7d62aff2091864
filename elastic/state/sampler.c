/* The sampler: a pure function of (seed, epoch, step). An epoch is a
 * permutation of the samples, made by a keyed bijection: a Feistel network over
 * the smallest even number of bits that holds `count`, walked along its cycle
 * until it lands below count (at most four times the room, so two or three
 * rounds on average). So there is no table, no state and nothing to commit: a
 * step has the same samples however often it is done, and by however many
 * workers. */
#include <inttypes.h>
#include <stdlib.h>

#include "elastic/state/state.h"
#include "sdk/base/fail.h"
#include "sdk/base/params.h"

#define ROUNDS    6
#define MAX_COUNT UINT32_MAX

struct rg_sampler {
    rg_state *state; /* borrowed; NULL: what is taken is not noted */
    rg_sampler_params params;
    unsigned half_bits; /* the network works on twice as many */
    uint64_t *indices;  /* what rg_sampler_take hands out; owned */
    uint64_t room;
};

/* ------------------------------------------------------------- permutation */

/* The finaliser of splitmix64. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t encrypt(uint64_t x, uint64_t key, unsigned half_bits)
{
    const uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t next = left ^ (mix(key + (round << 32) + right) & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

static uint64_t index_at(const rg_sampler *s, uint64_t key, uint64_t position)
{
    if (s->params.in_order)
        return position;
    uint64_t x = position;
    do {
        x = encrypt(x, key, s->half_bits);
    } while (x >= s->params.count);
    return x;
}

static unsigned half_bits_for(uint64_t count)
{
    unsigned half = 1;
    while ((UINT64_C(1) << 2 * half) < count)
        half++;
    return half;
}

/* --------------------------------------------------------------- lifecycle */

static rg_status read_params(const rg_sampler_params *params,
                             rg_sampler_params *copy)
{
    *copy = (rg_sampler_params){0};
    if (params == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "a sampler needs params with size, count and batch");
    const rg_status st = rg__params_read(
        "rg_sampler_params", params, RG__PARAMS_UP_TO(rg_sampler_params, batch),
        copy, sizeof *copy);
    if (st != RG_OK)
        return st;
    if (copy->count < 1 || copy->count > MAX_COUNT)
        return rg__fail(RG_ERR_INVALID,
                        "a sampler's count is 1 to %" PRIu32 ", not %" PRIu64,
                        MAX_COUNT, copy->count);
    if (copy->batch < 1 || copy->batch > copy->count)
        return rg__fail(RG_ERR_INVALID,
                        "a sampler's batch is 1 to its count, %" PRIu64
                        ", not %" PRIu64,
                        copy->count, copy->batch);
    return RG_OK;
}

rg_status rg_sampler_create(rg_state *state, const rg_sampler_params *params,
                            rg_sampler **sampler_p)
{
    rg_sampler_params copy;
    rg_status st = read_params(params, &copy);
    if (st != RG_OK)
        return st;
    if (sampler_p == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_sampler_create: sampler_p is NULL");
    rg_sampler *s = calloc(1, sizeof *s);
    if (s == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a sampler");
    s->state = state;
    s->params = copy;
    s->half_bits = half_bits_for(copy.count);
    *sampler_p = s;
    return RG_OK;
}

void rg_sampler_destroy(rg_sampler *s)
{
    if (s == NULL)
        return;
    free(s->indices);
    free(s);
}

/* ------------------------------------------------------------------ taking */

uint64_t rg_sampler_steps(const rg_sampler *s)
{
    return (s->params.count + s->params.batch - 1) / s->params.batch;
}

uint64_t rg_sampler_batch_size(const rg_sampler *s, uint64_t step)
{
    if (step >= rg_sampler_steps(s))
        return 0;
    const uint64_t left = s->params.count - step * s->params.batch;
    return left < s->params.batch ? left : s->params.batch;
}

static rg_status make_room(rg_sampler *s, uint64_t n)
{
    if (n <= s->room)
        return RG_OK;
    uint64_t *more = realloc(s->indices, n * sizeof *more);
    if (more == NULL)
        return rg__fail(RG_ERR_MEMORY,
                        "no memory for %" PRIu64 " sample indices", n);
    s->indices = more;
    s->room = n;
    return RG_OK;
}

rg_status rg_sampler_take(rg_sampler *s, uint64_t epoch, uint64_t step,
                          int rank, int size, const uint64_t **indices_p,
                          uint64_t *n_p)
{
    if (step >= rg_sampler_steps(s))
        return rg__fail(RG_ERR_INVALID,
                        "an epoch has %" PRIu64 " steps, from 0; there is no "
                        "step %" PRIu64,
                        rg_sampler_steps(s), step);
    if (size < 1 || rank < 0 || rank >= size)
        return rg__fail(RG_ERR_INVALID,
                        "there is no rank %d of %d to take samples", rank,
                        size);
    const uint64_t total = rg_sampler_batch_size(s, step);
    const uint64_t r = (uint64_t)rank, share = total / (uint64_t)size,
                   more = total % (uint64_t)size;
    const uint64_t first =
        step * s->params.batch + r * share + (r < more ? r : more);
    const uint64_t n = share + (r < more ? 1 : 0);
    rg_status st = make_room(s, n);
    if (st != RG_OK)
        return st;
    const uint64_t key = mix(mix(s->params.seed) ^ epoch);
    for (uint64_t i = 0; i < n; i++)
        s->indices[i] = index_at(s, key, first + i);
    if (s->state != NULL)
        rg__state_note_samples(s->state, epoch, first, n);
    *indices_p = s->indices;
    *n_p = n;
    return RG_OK;
}
