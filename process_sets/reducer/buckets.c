/* Which tensors are in which bucket, and where.
 *
 * A bucket holds tensors of one type that travel alike and follow each other.
 * Tensors that live in their buckets lie from the last one to the first, as
 * backward has them, and never move; the others are put together in the order
 * of the plan, in memory of their own. Buckets start in the order in which the
 * plan completes them. The last one of each kind is small, because nothing is
 * left to be computed while it is reduced. */
#include <stdlib.h>
#include <string.h>

#include "process_sets/reducer/reducer.h"
#include "sdk/base/fail.h"
#include "sdk/base/hash.h"

#define ALIGN     ((uint64_t)64)
#define OWN_LEAST ((uint64_t)1 << 20) /* unless the program says otherwise */
#define LAST_MOST ((uint64_t)1 << 20) /* at most in the last bucket */

static uint64_t bytes_of(const rg__tensor *t)
{
    return (rg__tensor_bytes(t) + ALIGN - 1) / ALIGN * ALIGN;
}

static bool lives_in_bucket(const rg__tensor *t)
{
    return t->is_view && t->wire == RG_COMPRESS_NONE;
}

/* Does it need no room in a bucket? */
static bool is_alone(const rg_reducer *r, const rg__tensor *t)
{
    const uint64_t asked = r->params.own_bytes;
    return !t->is_view && t->wire == RG_COMPRESS_NONE &&
           bytes_of(t) >= (asked != 0 ? asked : OWN_LEAST);
}

void rg__reducer_free_buckets(rg_reducer *r)
{
    free(r->bucket);
    free(r->placed);
    r->bucket = NULL;
    r->placed = NULL;
    r->buckets = 0;
}

static rg_status add_up(uint64_t *sum, uint64_t bytes)
{
    if (__builtin_add_overflow(*sum, bytes, sum))
        return rg__fail(RG_ERR_MEMORY, "the tensors of a reducer are more than "
                                       "memory holds");
    return RG_OK;
}

rg_status rg__reducer_place_views(rg_reducer *r)
{
    uint64_t bytes = 0;
    void *memory = NULL;
    rg_status st = RG_OK;
    if (r->is_laid_out)
        return RG_OK;
    for (int i = 0; i < r->n && st == RG_OK; i++)
        st = rg__tensor_prepare(r, &r->tensor[i]);
    for (int i = 0; i < r->n && st == RG_OK; i++)
        if (lives_in_bucket(&r->tensor[i]))
            st = add_up(&bytes, bytes_of(&r->tensor[i]));
    if (st == RG_OK && bytes > 0)
        st = rg_alloc(r->set->ctx, bytes, NULL, &memory);
    if (st != RG_OK)
        return st;
    char *at = r->views = memory;
    for (int i = r->n - 1; i >= 0; i--)
        if (lives_in_bucket(&r->tensor[i])) {
            r->tensor[i].data = r->tensor[i].slot = at;
            at += bytes_of(&r->tensor[i]);
        }
    r->is_laid_out = true;
    return RG_OK;
}

/* ------------------------------------------------------- which in which one */

/* Tensors dealt to buckets one after the other. */
typedef struct line {
    int *tensor;
    int n, tail; /* those from tail on are the last bucket */
} line;

static line make_line(const rg_reducer *r, const int *order, bool are_views,
                      int *at)
{
    line l = {.tensor = at};
    uint64_t bytes = 0;
    for (int k = 0; k < r->n; k++) {
        const int i = order == NULL ? r->n - 1 - k : order[k];
        if (lives_in_bucket(&r->tensor[i]) == are_views)
            l.tensor[l.n++] = i;
    }
    for (l.tail = l.n; l.tail > 0; l.tail--) {
        bytes += bytes_of(&r->tensor[l.tensor[l.tail - 1]]);
        if (bytes > LAST_MOST)
            break;
    }
    return l;
}

/* Does t go with the tensors of the last bucket? */
static bool goes_with(const rg_reducer *r, const rg__tensor *t)
{
    const rg__bucket *b = &r->bucket[r->buckets - 1];
    const rg__tensor *first = &r->tensor[b->tensor[0]];
    return !is_alone(r, t) && !is_alone(r, first) && first->type == t->type &&
           b->wire == t->wire && b->bytes + bytes_of(t) <= r->tuning.now;
}

static void deal(rg_reducer *r, const line *l)
{
    for (int k = 0; k < l->n; k++) {
        rg__tensor *t = &r->tensor[l->tensor[k]];
        if (k == 0 || k == l->tail || !goes_with(r, t))
            r->bucket[r->buckets++] = (rg__bucket){
                .tensor = &l->tensor[k], .type = t->type, .wire = t->wire};
        rg__bucket *b = &r->bucket[r->buckets - 1];
        b->n++;
        b->tag = rg__mix(b->tag, rg__reducer_digest(t));
        b->bytes += is_alone(r, t) ? rg__tensor_bytes(t) : bytes_of(t);
    }
}

/* Sorts them by the order in which they become complete. */
static rg_status sort(rg_reducer *r, const int *order)
{
    rg__bucket *sorted = calloc((size_t)r->n, sizeof *sorted);
    int n = 0;
    if (sorted == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d buckets", r->n);
    for (int b = 0; b < r->buckets; b++) {
        r->bucket[b].missing = r->bucket[b].n;
        for (int k = 0; k < r->bucket[b].n; k++)
            r->tensor[r->bucket[b].tensor[k]].bucket = b;
    }
    for (int k = 0; k < r->n; k++) {
        rg__bucket *b = &r->bucket[r->tensor[order[k]].bucket];
        if (--b->missing == 0)
            sorted[n++] = *b;
    }
    free(r->bucket);
    r->bucket = sorted;
    return RG_OK;
}

/* -------------------------------------------------------------------- where */

/* How much of the memory for copies a bucket takes. */
static uint64_t room_of(const rg_reducer *r, const rg__bucket *b)
{
    const rg__tensor *first = &r->tensor[b->tensor[0]];
    const uint64_t ranks = (uint64_t)rg_set_size(r->set);
    return is_alone(r, first) || lives_in_bucket(first) ? 0
           : b->wire == RG_COMPRESS_TOP_K               ? ranks * b->bytes
                                                        : b->bytes;
}

static rg_status make_copies(rg_reducer *r)
{
    uint64_t bytes = 0;
    void *memory = NULL;
    rg_status st = RG_OK;
    for (int b = 0; b < r->buckets && st == RG_OK; b++)
        st = add_up(&bytes, room_of(r, &r->bucket[b]));
    if (st != RG_OK || bytes == r->copies_bytes)
        return st;
    rg_free(r->set->ctx, r->copies);
    r->copies = NULL;
    r->copies_bytes = 0;
    if (bytes > 0)
        st = rg_alloc(r->set->ctx, bytes, NULL, &memory);
    if (st != RG_OK)
        return st;
    r->copies = memory;
    r->copies_bytes = bytes;
    return RG_OK;
}

/* In a bucket of TOP_K each rank has its own part. */
static void put_in_place(rg_reducer *r, rg__bucket *b, char *at)
{
    const rg__tensor *first = &r->tensor[b->tensor[0]];
    const bool is_copy = room_of(r, b) > 0;
    b->at = is_copy ? at : first->data;
    b->count =
        (is_copy ? room_of(r, b) : b->bytes) / rg_type_size(rg__bucket_type(b));
    if (b->wire == RG_COMPRESS_TOP_K)
        at += b->bytes * (uint64_t)rg_set_rank(r->set);
    for (int k = 0; k < b->n; k++) {
        rg__tensor *t = &r->tensor[b->tensor[k]];
        t->bucket = (int)(b - r->bucket);
        t->slot = is_copy ? at : t->data;
        at += is_copy ? bytes_of(t) : 0;
    }
}

rg_status rg__reducer_lay_out(rg_reducer *r, const int *order)
{
    rg_status st = rg__reducer_place_views(r);
    if (st != RG_OK)
        return st;
    rg__reducer_free_buckets(r);
    r->bucket = calloc((size_t)r->n, sizeof *r->bucket);
    r->placed = calloc((size_t)r->n, sizeof *r->placed);
    if (r->bucket == NULL || r->placed == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d buckets", r->n);
    const line views = make_line(r, NULL, true, r->placed);
    const line others = make_line(r, order, false, r->placed + views.n);
    deal(r, &views);
    deal(r, &others);
    st = sort(r, order);
    if (st == RG_OK)
        st = make_copies(r);
    if (st != RG_OK)
        return st;
    char *at = r->copies;
    if (at != NULL) /* gaps are zeros */
        memset(at, 0, (size_t)r->copies_bytes);
    for (int b = 0; b < r->buckets; b++) {
        put_in_place(r, &r->bucket[b], at);
        at += room_of(r, &r->bucket[b]);
    }
    r->info.buckets = r->buckets;
    return RG_OK;
}
