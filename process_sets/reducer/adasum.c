/* Adasum: of two gradients a and b it is
 *
 *   (1 - a.b / 2 a.a) a + (1 - a.b / 2 b.b) b
 *
 * that is their sum where they are orthogonal and their average where they are
 * equal. Ranks are combined in pairs, then pairs of pairs; where they are no
 * power of two, the ranks beyond it are combined with the first ones before.
 *
 * The result is a sum of the ranks' vectors with a factor for each, and the
 * factors follow from the products of all pairs. So ranks deal their vectors
 * out for these products, each computes those of its part, and an allreduce of
 * the vectors times their factors is the result. With ranks that have joined
 * all ranks get all vectors instead, by allreduces; an absent one is zeros,
 * which change nothing. Products are made in double. */
#include <stdlib.h>
#include <string.h>

#include "process_sets/call.h"
#include "process_sets/reducer/reducer.h"
#include "sdk/base/fail.h"
#include "sdk/base/hash.h"
#include "sdk/transport/half.h"

#define CHUNK ((uint64_t)1 << 18) /* elements dealt out at a time */

/* The sum of some ranks' vectors, each times its factor. */
typedef struct tree {
    const double *product;
    int size;
    double *factor;
    int *group;
} tree;

typedef struct work {
    rg_set *set;
    int size, rank;
    const rg__vector *vector;
    int n;
    rg_type type;    /* F64, or F32 for all other types */
    bool are_all;    /* no rank has joined */
    uint64_t total;  /* elements of all vectors */
    double *product; /* size x size for each vector */
    char *mine;      /* a chunk, padded */
    char *all;       /* a row for each rank: a chunk, or a part of one */
    tree tree;
} work;

static size_t size_of(const work *w)
{
    return rg_type_size(w->type);
}

/* -------------------------------------------------- elements of all vectors */

typedef void (*piece_fn)(work *w, int i, void *data, char *at, uint64_t count);

/* Calls fn for each piece of a vector within elements [begin, begin + count) of
 * all vectors together; `at` is the piece's place in a chunk. */
static void each_piece(work *w, uint64_t begin, uint64_t count, char *at,
                       piece_fn fn)
{
    uint64_t first = 0;
    for (int i = 0; i < w->n; first += w->vector[i++].count) {
        const rg__vector *v = &w->vector[i];
        const uint64_t from = begin > first ? begin - first : 0;
        const uint64_t end = begin + count > first ? begin + count - first : 0;
        const uint64_t to = end < v->count ? end : v->count;
        if (from < to)
            fn(w, i, (char *)v->data + from * rg_type_size(v->type),
               at + (first + from - begin) * size_of(w), to - from);
    }
}

static void widen(work *w, int i, void *data, char *at, uint64_t count)
{
    const rg_type type = w->vector[i].type;
    if (type == w->type)
        memcpy(at, data, (size_t)count * size_of(w));
    else
        rg__half_widen(type, (float *)(void *)at, data, (size_t)count);
}

static void narrow(work *w, int i, void *data, char *at, uint64_t count)
{
    const rg_type type = w->vector[i].type;
    if (type == w->type)
        memcpy(data, at, (size_t)count * size_of(w));
    else
        rg__half_narrow(type, data, (const float *)(void *)at, (size_t)count);
}

/* ----------------------------------------------------------------- products */

static double dot(const work *w, const char *a, const char *b, uint64_t count)
{
    double sum = 0;
    if (w->type == RG_F64)
        for (uint64_t k = 0; k < count; k++)
            sum += ((const double *)(const void *)a)[k] *
                   ((const double *)(const void *)b)[k];
    else
        for (uint64_t k = 0; k < count; k++)
            sum += (double)((const float *)(const void *)a)[k] *
                   (double)((const float *)(const void *)b)[k];
    return sum;
}

/* The number of elements in a row of a chunk. */
static uint64_t row_count(const work *w)
{
    const uint64_t most = w->total < CHUNK ? w->total : CHUNK;
    return w->are_all ? most / (uint64_t)w->size + 1 : most;
}

/* `at` is the piece's place in rank 0's row. */
static void add_products(work *w, int i, void *data, char *at, uint64_t count)
{
    const uint64_t row = row_count(w) * size_of(w);
    double *product = w->product + (size_t)i * (size_t)(w->size * w->size);
    (void)data;
    for (int a = 0; a < w->size; a++)
        for (int b = a; b < w->size; b++)
            product[a * w->size + b] +=
                dot(w, at + (uint64_t)a * row, at + (uint64_t)b * row, count);
}

/* Sends part r of the chunk to rank r. */
static rg_status deal(work *w, uint64_t begin, uint64_t count)
{
    const uint64_t part = row_count(w);
    const uint64_t from = part * (uint64_t)w->rank;
    const rg_status st = rg_alltoall(w->set, w->mine, w->all, part, w->type);
    if (st == RG_OK && from < count)
        each_piece(w, begin + from, count - from < part ? count - from : part,
                   w->all, add_products);
    return st;
}

static rg_status bring_together(work *w, uint64_t begin, uint64_t count)
{
    const uint64_t row = row_count(w) * size_of(w);
    const uint64_t bytes = row * (uint64_t)w->size; /* a multiple of 4 */
    memset(w->all, 0, (size_t)bytes);
    memcpy(w->all + row * (uint64_t)w->rank, w->mine,
           (size_t)count * size_of(w));
    const rg_status st =
        rg_allreduce(w->set, w->all, w->all, bytes / 4, RG_U32, RG_BOR);
    if (st == RG_OK)
        each_piece(w, begin, count, w->all, add_products);
    return st;
}

static uint64_t chunk_at(const work *w, uint64_t begin)
{
    return w->total - begin < CHUNK ? w->total - begin : CHUNK;
}

static rg_status make_products(work *w)
{
    const uint64_t products = (uint64_t)(w->n * w->size) * (uint64_t)w->size;
    rg_status st = RG_OK;
    for (uint64_t at = 0; at < w->total && st == RG_OK; at += CHUNK) {
        const uint64_t count = chunk_at(w, at);
        each_piece(w, at, count, w->mine, widen);
        st = w->are_all ? deal(w, at, count) : bring_together(w, at, count);
    }
    if (st != RG_OK || !w->are_all)
        return st;
    return rg_allreduce(w->set, w->product, w->product, products, RG_F64,
                        RG_SUM);
}

/* ------------------------------------------------------------------ factors */

static double product_of(const tree *t, int a, int b)
{
    double sum = 0;
    for (int i = 0; i < t->size; i++)
        for (int j = 0; j < t->size && t->group[i] == a; j++)
            if (t->group[j] == b)
                sum += t->factor[i] * t->factor[j] *
                       t->product[(i < j ? i : j) * t->size + (i < j ? j : i)];
    return sum;
}

static double factor_of(double ab, double aa)
{
    return aa <= 0 ? 1 : 1 - ab / (2 * aa);
}

static void combine(tree *t, int a, int b)
{
    const double ab = product_of(t, a, b);
    const double of_a = factor_of(ab, product_of(t, a, a));
    const double of_b = factor_of(ab, product_of(t, b, b));
    for (int i = 0; i < t->size; i++)
        if (t->group[i] == a || t->group[i] == b) {
            t->factor[i] *= t->group[i] == a ? of_a : of_b;
            t->group[i] = a;
        }
}

static void make_factors(tree *t)
{
    int power = 1;
    while (2 * power <= t->size)
        power *= 2;
    for (int i = 0; i < t->size; i++) {
        t->factor[i] = 1;
        t->group[i] = i;
    }
    for (int i = power; i < t->size; i++)
        combine(t, i - power, i);
    for (int apart = 1; apart < power; apart *= 2)
        for (int i = 0; i < power; i += 2 * apart)
            combine(t, i, i + apart);
}

/* Puts this rank's factor of each vector into the first of its products. */
static void choose_factors(work *w)
{
    const size_t n = (size_t)w->size;
    for (int i = 0; i < w->n; i++) {
        double *product = w->product + (size_t)i * n * n;
        w->tree.product = product;
        make_factors(&w->tree);
        product[0] = w->tree.factor[w->rank];
    }
}

static void multiply(work *w, int i, void *data, char *at, uint64_t count)
{
    const double factor = w->product[(size_t)i * (size_t)(w->size * w->size)];
    widen(w, i, data, at, count);
    if (w->type == RG_F64)
        for (uint64_t k = 0; k < count; k++)
            ((double *)(void *)at)[k] *= factor;
    else
        for (uint64_t k = 0; k < count; k++) {
            float *x = (float *)(void *)at + k;
            *x = (float)((double)*x * factor);
        }
}

static rg_status add_up(work *w, double scale)
{
    const rg_op_params params = {.size = sizeof params, .postscale = scale};
    rg_status st = RG_OK;
    for (uint64_t at = 0; at < w->total && st == RG_OK; at += CHUNK) {
        const uint64_t count = chunk_at(w, at);
        rg_req *req = NULL;
        each_piece(w, at, count, w->mine, multiply);
        st = rg_allreduce_start(w->set, w->mine, w->mine, count, w->type,
                                RG_SUM, &params, &req);
        if (st == RG_OK)
            st = rg_wait(&req, -1);
        if (st == RG_OK)
            each_piece(w, at, count, w->mine, narrow);
    }
    return st;
}

/* -------------------------------------------------------------------- whole */

/* Allocates everything at once, enough for any number of joined ranks: if a
 * rank ran out of memory later, the others would wait for it. Memory that is
 * not touched costs nothing. */
static rg_status make_memory(work *w)
{
    const size_t n = (size_t)w->size;
    const size_t row = ((size_t)row_count(w) + 1) * size_of(w);
    w->product = calloc((size_t)w->n * n * n, sizeof *w->product);
    w->mine = calloc(CHUNK + n, size_of(w));
    w->all = malloc(n * row);
    w->tree = (tree){.size = w->size,
                     .factor = calloc(n, sizeof *w->tree.factor),
                     .group = calloc(n, sizeof *w->tree.group)};
    return w->product == NULL || w->mine == NULL || w->all == NULL ||
                   w->tree.factor == NULL || w->tree.group == NULL
               ? rg__fail(RG_ERR_MEMORY, "no memory for Adasum")
               : RG_OK;
}

/* Adds vectors that share one type of work. */
static rg_status add(rg_set *set, const rg__vector *vector, int n, rg_type type,
                     double scale)
{
    int there = 0;
    uint64_t tag = RG__MIX_BEGIN;
    work w = {.set = set, .vector = vector, .n = n, .type = type};
    w.size = rg_set_size(set);
    w.rank = rg_set_rank(set);
    for (int i = 0; i < n; i++) {
        w.total += vector[i].count;
        tag = rg__mix(rg__mix(tag, vector[i].count), vector[i].type);
    }
    rg_status st = rg__agree_made(set, make_memory(&w), "Adasum", tag, &there);
    w.are_all = there == w.size;
    if (st == RG_OK)
        st = make_products(&w);
    if (st == RG_OK) {
        choose_factors(&w);
        st = add_up(&w, scale);
    }
    free(w.product);
    free(w.mine);
    free(w.all);
    free(w.tree.factor);
    free(w.tree.group);
    return st;
}

/* Moves the vectors of F64 to the end. */
static int part(rg__vector *vector, int n)
{
    int of_f32 = 0;
    for (int i = 0; i < n; i++)
        if (vector[i].type != RG_F64) {
            const rg__vector v = vector[of_f32];
            vector[of_f32++] = vector[i];
            vector[i] = v;
        }
    return of_f32;
}

rg_status rg__adasum(rg_set *set, rg__vector *vector, int n, double scale)
{
    const int of_f32 = part(vector, n);
    rg_status st = RG_OK;
    if (of_f32 > 0)
        st = add(set, vector, of_f32, RG_F32, scale);
    if (st == RG_OK && of_f32 < n)
        st = add(set, vector + of_f32, n - of_f32, RG_F64, scale);
    return st;
}

rg_status rg_adasum(rg_set *set, void *data, uint64_t count, rg_type type)
{
    rg__vector v = {data, count, type};
    if (set == NULL || (data == NULL && count > 0) || !rg__type_is_float(type))
        return rg__fail(RG_ERR_INVALID,
                        "rg_adasum needs a set, data, and a type of floats");
    const rg_status st = rg__call_check_host("adasum", data);
    return st == RG_OK ? rg__adasum(set, &v, 1, 0) : st;
}
