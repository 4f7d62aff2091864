/* Which tensors are in which bucket, and where.
 *
 * Buckets hold tensors of one type that follow each other in an order: at first
 * from the last one to the first, as backward has them. A plan groups them
 * again; only tensors that live in their buckets can't move, and then whole
 * buckets are put in order. */
#include <stdlib.h>
#include <string.h>

#include "process_sets/reducer/reducer.h"
#include "sdk/base/fail.h"
#include "sdk/base/hash.h"

#define ALIGN     ((uint64_t)64)
#define OWN_LEAST ((uint64_t)1 << 20) /* reduced where it is */

static uint64_t bytes_of(const rg__tensor *t)
{
    const uint64_t bytes = t->count * rg_type_size(t->type);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* It needs no room in a bucket. */
static bool is_alone(const rg__tensor *t)
{
    return !t->is_view && bytes_of(t) >= OWN_LEAST;
}

void rg__reducer_free_buckets(rg_reducer *r)
{
    for (int b = 0; b < r->buckets; b++)
        free(r->bucket[b].tensor);
    free(r->bucket);
    r->bucket = NULL;
    r->buckets = 0;
}

void rg__reducer_free_memory(rg_reducer *r)
{
    if (r->memory != NULL)
        rg_free(r->set->ctx, r->memory);
    r->memory = NULL;
}

/* The same for every order, but for what is left over at the end of one. */
static rg_status make_memory(rg_reducer *r)
{
    uint64_t bytes = 0;
    if (r->memory != NULL)
        return RG_OK;
    for (int i = 0; i < r->n; i++)
        if (!is_alone(&r->tensor[i]) &&
            __builtin_add_overflow(bytes, bytes_of(&r->tensor[i]), &bytes))
            return rg__fail(RG_ERR_MEMORY,
                            "the tensors of a reducer are more than memory "
                            "holds");
    void *at = NULL;
    const rg_status st =
        bytes == 0 ? RG_OK : rg_alloc(r->set->ctx, bytes, NULL, &at);
    r->memory = at;
    r->memory_bytes = bytes;
    return st;
}

static rg_status make_room(rg_reducer *r)
{
    r->bucket = calloc((size_t)r->n, sizeof *r->bucket);
    if (r->bucket == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d buckets", r->n);
    return RG_OK;
}

/* false: t does not go with what is in the last bucket. */
static bool goes_with(const rg_reducer *r, const rg__tensor *t)
{
    if (r->buckets == 0 || is_alone(t))
        return false;
    const rg__bucket *b = &r->bucket[r->buckets - 1];
    const uint64_t bytes = b->count * rg_type_size(b->type);
    return !is_alone(&r->tensor[b->tensor[0]]) && b->type == t->type &&
           bytes + bytes_of(t) <= r->params.bucket_bytes;
}

static rg__bucket *open_bucket(rg_reducer *r, const rg__tensor *t, char *at)
{
    rg__bucket *b = &r->bucket[r->buckets];
    *b = (rg__bucket){.at = at, .type = t->type};
    b->tensor = calloc((size_t)r->n, sizeof *b->tensor);
    if (b->tensor == NULL)
        return NULL;
    r->buckets++;
    return b;
}

/* *used_p: bytes of the memory that are taken. */
static rg_status place(rg_reducer *r, int i, uint64_t *used_p)
{
    rg__tensor *t = &r->tensor[i];
    char *at = is_alone(t) ? t->data : r->memory + *used_p;
    rg__bucket *b =
        goes_with(r, t) ? &r->bucket[r->buckets - 1] : open_bucket(r, t, at);
    if (b == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for buckets");
    t->slot = at;
    if (t->is_view)
        t->data = at;
    t->bucket = r->buckets - 1;
    b->tensor[b->n++] = i;
    b->tag = rg__mix(b->tag, rg__reducer_digest(t));
    if (is_alone(t)) {
        b->count = t->count;
        return RG_OK;
    }
    *used_p += bytes_of(t);
    b->count += bytes_of(t) / rg_type_size(t->type);
    return RG_OK;
}

static rg_status place_all(rg_reducer *r, const int *order)
{
    uint64_t used = 0;
    rg__reducer_free_buckets(r);
    rg_status st = make_memory(r);
    if (st == RG_OK)
        st = make_room(r);
    if (r->is_laid_out && r->memory != NULL) /* gaps are zeros */
        memset(r->memory, 0, (size_t)r->memory_bytes);
    for (int k = 0; k < r->n && st == RG_OK; k++)
        st = place(r, order[k], &used);
    return st;
}

/* The buckets stay, in the order in which they are complete. */
static rg_status reorder(rg_reducer *r, const int *order)
{
    int *place_of = calloc((size_t)r->n, 2 * sizeof *place_of);
    rg__bucket *was = malloc((size_t)r->n * sizeof *was);
    if (place_of == NULL || was == NULL) {
        free(place_of);
        free(was);
        return rg__fail(RG_ERR_MEMORY, "no memory for a plan");
    }
    int *left = place_of + r->n, k = 0;
    memcpy(was, r->bucket, (size_t)r->n * sizeof *was);
    for (int b = 0; b < r->buckets; b++)
        left[b] = was[b].n;
    for (int i = 0; i < r->n; i++) {
        const int b = r->tensor[order[i]].bucket;
        if (--left[b] == 0)
            place_of[b] = k++;
    }
    for (int b = 0; b < r->buckets; b++)
        r->bucket[place_of[b]] = was[b];
    for (int i = 0; i < r->n; i++)
        r->tensor[i].bucket = place_of[r->tensor[i].bucket];
    free(place_of);
    free(was);
    return RG_OK;
}

rg_status rg__reducer_lay_out(rg_reducer *r, const int *order)
{
    const bool is_fixed = r->is_laid_out && r->has_views;
    const rg_status st = is_fixed ? reorder(r, order) : place_all(r, order);
    r->is_laid_out = st == RG_OK || is_fixed;
    r->info.buckets = r->buckets;
    return st;
}
