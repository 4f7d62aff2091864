/* What a tensor is in its bucket: itself, halves, or its largest elements.
 *
 * Halves are added up by the allreduce of their own type, in float32. With
 * TOP_K a bucket has a part for each rank, in which that rank's elements are
 * entries of an index and a value; the allreduce is an OR, because the parts of
 * other ranks are zeros, and each rank adds up the same entries in the order of
 * ranks. So a rank that has joined may be absent.
 *
 * What does not travel stays in the residual, which is added in the next step.
 * Infinity and NaN travel, and leave none. */
#include <stdlib.h>
#include <string.h>

#include "process_sets/reducer/reducer.h"
#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/transport/half.h"

#define TOP_K_PART 0.01
#define BLOCK      1024 /* elements converted at a time */

typedef struct entry {
    uint32_t index;
    float value;
} entry;

/* --------------------------------------------------------------- the choice */

rg_status rg__reducer_check(const rg_reducer_params *p)
{
    if ((unsigned)p->compression > RG_COMPRESS_TOP_K)
        return rg__fail(RG_ERR_INVALID,
                        "rg_reducer_params.compression is %d; give one of "
                        "RG_COMPRESS_NONE, _F16, _BF16 and _TOP_K",
                        (int)p->compression);
    if (!(p->top_k >= 0 && p->top_k <= 1))
        return rg__fail(RG_ERR_INVALID,
                        "rg_reducer_params.top_k is %g; give the part of a "
                        "tensor that travels, above 0 and up to 1",
                        p->top_k);
    if (p->adasum && p->compression != RG_COMPRESS_NONE)
        return rg__fail(RG_ERR_INVALID,
                        "rg_reducer_params asks for Adasum and for a "
                        "compression; ask for one of them");
    return RG_OK;
}

static uint64_t kept_of(const rg_reducer *r, uint64_t count)
{
    const double part = r->params.top_k > 0 ? r->params.top_k : TOP_K_PART;
    const uint64_t kept = (uint64_t)(part * (double)count);
    return kept < 1 ? 1 : kept > count ? count : kept;
}

/* An index has 32 bits. */
void rg__tensor_choose(const rg_reducer *r, rg__tensor *t,
                       rg_compression compression)
{
    const bool is_wide = t->type == RG_F32 || t->type == RG_F64;
    const bool is_long = t->count > UINT32_MAX;
    t->wire = !is_wide || r->params.adasum ||
                      (is_long && compression == RG_COMPRESS_TOP_K)
                  ? RG_COMPRESS_NONE
                  : compression;
    t->kept = t->wire == RG_COMPRESS_TOP_K ? kept_of(r, t->count) : 0;
}

rg_status rg__tensor_prepare(const rg_reducer *r, rg__tensor *t)
{
    const bool is_fed =
        t->wire == RG_COMPRESS_TOP_K ||
        (t->wire != RG_COMPRESS_NONE && r->params.error_feedback);
    const size_t size = rg_type_size(t->type);
    if (is_fed && t->residual == NULL)
        t->residual = calloc((size_t)t->count, size);
    if (t->wire != RG_COMPRESS_NONE && t->is_view && t->own == NULL)
        t->data = t->own = calloc((size_t)t->count, size);
    if ((is_fed && t->residual == NULL) || (!t->data && !t->is_view))
        return rg__fail(RG_ERR_MEMORY, "no memory to compress tensor \"%s\"",
                        t->name);
    return RG_OK;
}

void rg__tensor_free(rg__tensor *t)
{
    free(t->residual);
    free(t->own);
}

void rg__tensor_forget(rg__tensor *t)
{
    if (t->residual != NULL)
        memset(t->residual, 0, (size_t)t->count * rg_type_size(t->type));
}

uint64_t rg__tensor_bytes(const rg__tensor *t)
{
    switch (t->wire) {
    case RG_COMPRESS_F16:
    case RG_COMPRESS_BF16:
        return t->count * 2;
    case RG_COMPRESS_TOP_K:
        return t->kept * sizeof(entry);
    case RG_COMPRESS_NONE:
        break;
    }
    return t->count * rg_type_size(t->type);
}

static rg_type half_of(rg_compression wire)
{
    return wire == RG_COMPRESS_F16 ? RG_F16 : RG_BF16;
}

rg_type rg__bucket_type(const rg__bucket *b)
{
    return b->wire == RG_COMPRESS_NONE    ? b->type
           : b->wire == RG_COMPRESS_TOP_K ? RG_U32
                                          : half_of(b->wire);
}

/* ------------------------------------------------------------------- halves */

static float rest_f32(float whole, float sent)
{
    const float rest = whole - sent;
    return rest - rest == 0 ? rest : 0;
}

static double rest_f64(double whole, double sent)
{
    const double rest = whole - sent;
    return rest - rest == 0 ? rest : 0;
}

static void put_f32(rg_type half, char *to, const float *x, float *residual,
                    size_t n)
{
    float sent[BLOCK];
    if (residual == NULL) {
        rg__half_narrow(half, to, x, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        residual[i] += x[i]; /* now all that is to be sent */
    rg__half_narrow(half, to, residual, n);
    rg__half_widen(half, sent, to, n);
    for (size_t i = 0; i < n; i++)
        residual[i] = rest_f32(residual[i], sent[i]);
}

static void put_f64(rg_type half, char *to, const double *x, double *residual,
                    size_t n)
{
    float single[BLOCK] = {0};
    for (size_t i = 0; residual != NULL && i < n; i++)
        residual[i] += x[i];
    for (size_t i = 0; i < n; i++)
        single[i] = (float)(residual == NULL ? x[i] : residual[i]);
    rg__half_narrow(half, to, single, n);
    if (residual == NULL)
        return;
    rg__half_widen(half, single, to, n);
    for (size_t i = 0; i < n; i++)
        residual[i] = rest_f64(residual[i], (double)single[i]);
}

static void put_halves(const rg__tensor *t)
{
    const rg_type half = half_of(t->wire);
    for (uint64_t i = 0; i < t->count; i += BLOCK) {
        const size_t n = (size_t)(t->count - i < BLOCK ? t->count - i : BLOCK);
        char *to = t->slot + 2 * i;
        void *residual = t->residual == NULL
                             ? NULL
                             : (char *)t->residual + i * rg_type_size(t->type);
        if (t->type == RG_F32)
            put_f32(half, to, (const float *)(void *)t->data + i, residual, n);
        else
            put_f64(half, to, (const double *)(void *)t->data + i, residual, n);
    }
}

static void get_halves(const rg__tensor *t)
{
    const rg_type half = half_of(t->wire);
    float wide[BLOCK];
    if (t->type == RG_F32) {
        rg__half_widen(half, (float *)(void *)t->data, t->slot,
                       (size_t)t->count);
        return;
    }
    double *to = (double *)(void *)t->data;
    for (uint64_t i = 0; i < t->count; i += BLOCK) {
        const size_t n = (size_t)(t->count - i < BLOCK ? t->count - i : BLOCK);
        rg__half_widen(half, wide, t->slot + 2 * i, n);
        for (size_t k = 0; k < n; k++)
            to[i + k] = (double)wide[k];
    }
}

/* -------------------------------------------------------------------- top k */

#define DIGITS 2048 /* of 11 bits; 3 make up the 31 of a magnitude */
#define SHIFTS 3

static uint32_t magnitude(const rg__tensor *t, uint64_t i)
{
    const float f = t->type == RG_F32 ? ((const float *)t->residual)[i]
                                      : (float)((const double *)t->residual)[i];
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits & 0x7fffffffu;
}

/* The magnitude of the last element to keep (t->kept of them), found digit by
 * digit; *above_p: how many are larger. NaN is larger than infinity. */
static uint32_t find_least(const rg__tensor *t, uint64_t *above_p)
{
    static const int shift[SHIFTS] = {20, 9, 0};
    static const uint32_t mask[SHIFTS] = {0x7ff, 0x7ff, 0x1ff};
    uint32_t found = 0, known = 0;
    uint64_t above = 0;
    for (int s = 0; s < SHIFTS; s++) {
        uint64_t count[DIGITS] = {0};
        for (uint64_t i = 0; i < t->count; i++) {
            const uint32_t m = magnitude(t, i);
            if ((m & known) == found)
                count[m >> shift[s] & mask[s]]++;
        }
        uint32_t digit = mask[s];
        while (above + count[digit] < t->kept)
            above += count[digit--];
        found |= digit << shift[s];
        known |= mask[s] << shift[s];
    }
    *above_p = above;
    return found;
}

static void add_to_residual(const rg__tensor *t)
{
    if (t->type == RG_F32)
        for (uint64_t i = 0; i < t->count; i++)
            ((float *)t->residual)[i] += ((const float *)(void *)t->data)[i];
    else
        for (uint64_t i = 0; i < t->count; i++)
            ((double *)t->residual)[i] += ((const double *)(void *)t->data)[i];
}

static float take(const rg__tensor *t, uint64_t i)
{
    if (t->type == RG_F32) {
        float *at = (float *)t->residual + i;
        const float sent = *at;
        *at = 0;
        return sent;
    }
    double *at = (double *)t->residual + i;
    const float sent = (float)*at;
    *at = rest_f64(*at, (double)sent);
    return sent;
}

/* Of equal elements, those with lower indices are sent. */
static void put_largest(const rg__tensor *t)
{
    uint64_t above = 0, n = 0;
    add_to_residual(t);
    const uint32_t least = find_least(t, &above);
    uint64_t equal = t->kept - above;
    entry *to = (entry *)(void *)t->slot;
    for (uint64_t i = 0; i < t->count && n < t->kept; i++) {
        const uint32_t m = magnitude(t, i);
        if (m < least || (m == least && equal == 0))
            continue;
        equal -= m == least;
        to[n++] = (entry){(uint32_t)i, take(t, i)};
    }
}

static rg_status add_entries(const rg__tensor *t, const entry *from, int rank)
{
    for (uint64_t k = 0; k < t->kept; k++) {
        const uint64_t i = from[k].index;
        if (i >= t->count)
            return rg__fail(RG_ERR_MISMATCH,
                            "rank %d sent element %llu of tensor \"%s\", which "
                            "has %llu",
                            rank, (unsigned long long)i, t->name,
                            (unsigned long long)t->count);
        if (t->type == RG_F32)
            ((float *)(void *)t->data)[i] += from[k].value;
        else
            ((double *)(void *)t->data)[i] += (double)from[k].value;
    }
    return RG_OK;
}

static void scale(const rg__tensor *t, double factor)
{
    if (factor == 1)
        return;
    if (t->type == RG_F32)
        for (uint64_t i = 0; i < t->count; i++) {
            float *at = (float *)(void *)t->data + i;
            *at = (float)((double)*at * factor);
        }
    else
        for (uint64_t i = 0; i < t->count; i++)
            ((double *)(void *)t->data)[i] *= factor;
}

static rg_status get_largest(const rg_reducer *r, const rg__bucket *b,
                             const rg__tensor *t)
{
    const int size = rg_set_size(r->set);
    const char *from = t->slot - (uint64_t)rg_set_rank(r->set) * b->bytes;
    rg_status st = RG_OK;
    memset(t->data, 0, (size_t)t->count * rg_type_size(t->type));
    for (int q = 0; q < size && st == RG_OK; q++, from += b->bytes)
        st = add_entries(t, (const entry *)(const void *)from, q);
    scale(t, (r->params.sum ? 1 : 1 / (double)size) *
                 (r->params.scale == 0 ? 1 : r->params.scale));
    return st;
}

/* ------------------------------------------------------------- in and out */

void rg__tensor_put(rg__tensor *t)
{
    if (t->wire == RG_COMPRESS_TOP_K)
        put_largest(t);
    else if (t->wire != RG_COMPRESS_NONE)
        put_halves(t);
    else if (t->slot != t->data)
        rg__copy(t->slot, t->data, (size_t)rg__tensor_bytes(t));
}

rg_status rg__tensor_get(const rg_reducer *r, const rg__bucket *b,
                         const rg__tensor *t)
{
    if (t->wire == RG_COMPRESS_TOP_K)
        return get_largest(r, b, t);
    if (t->wire != RG_COMPRESS_NONE)
        get_halves(t);
    else if (t->slot != t->data)
        rg__copy(t->data, t->slot, (size_t)rg__tensor_bytes(t));
    return RG_OK;
}
