/* Rows of a table, other ones on each rank, added up: sparse gradients.
 *
 * Ranks tell each other how many rows they have, and then all rows come
 * together by allreduces in which each rank has a part of its own, so that a
 * rank that has joined may be absent. All ranks add up the same rows in the
 * same order, and get equal bits. */
#include <stdlib.h>
#include <string.h>

#include "process_sets/call.h"
#include "process_sets/reducer/reducer.h"
#include "sdk/base/fail.h"
#include "sdk/base/hash.h"
#include "sdk/transport/half.h"

typedef struct place {
    uint64_t row, nth;
} place;

/* What all ranks gave. */
typedef struct gathered {
    uint64_t n, first; /* rows; this rank's first one */
    uint64_t width;
    rg_type type;
    uint64_t *at;
    char *rows;
    place *order;
} gathered;

static size_t row_bytes(const gathered *g)
{
    return (size_t)g->width * rg_type_size(g->type);
}

static rg_status count_rows(rg_set *set, gathered *g, rg_op op, uint64_t n)
{
    const int size = rg_set_size(set), rank = rg_set_rank(set);
    const uint64_t kind[] = {g->width, (uint64_t)g->type, (uint64_t)op};
    uint64_t *counts = calloc((size_t)size, sizeof *counts);
    rg_status st = counts != NULL
                       ? RG_OK
                       : rg__fail(RG_ERR_MEMORY, "no memory to count rows");
    st = rg__agree_made(set, st, "rows",
                        rg__mix_bytes(RG__MIX_BEGIN, kind, sizeof kind), NULL);
    if (st != RG_OK) {
        free(counts);
        return st;
    }
    counts[rank] = n;
    st = rg_allreduce(set, counts, counts, (uint64_t)size, RG_U64, RG_SUM);
    for (int r = 0; r < size; r++) {
        g->first += r < rank ? counts[r] : 0;
        g->n += counts[r];
    }
    free(counts);
    return st;
}

static rg_status make_room(gathered *g)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(g->n, row_bytes(g), &bytes) ||
        bytes > PTRDIFF_MAX)
        return rg__fail(RG_ERR_MEMORY, "the rows of all ranks are more than "
                                       "memory holds");
    g->at = calloc((size_t)g->n, sizeof *g->at);
    g->rows = calloc((size_t)g->n, row_bytes(g));
    g->order = calloc((size_t)g->n, sizeof *g->order);
    return g->at == NULL || g->rows == NULL || g->order == NULL
               ? rg__fail(RG_ERR_MEMORY, "no memory for %llu rows",
                          (unsigned long long)g->n)
               : RG_OK;
}

static rg_status bring_together(rg_set *set, const gathered *g)
{
    const rg_status st = rg_allreduce(set, g->at, g->at, g->n, RG_U64, RG_BOR);
    return st == RG_OK ? rg_allreduce(set, g->rows, g->rows,
                                      g->n * row_bytes(g), RG_U8, RG_BOR)
                       : st;
}

static int by_row(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->row != y->row ? (x->row > y->row) - (x->row < y->row)
                            : (x->nth > y->nth) - (x->nth < y->nth);
}

/* ------------------------------------------------------------------- result */

static void add_row(const gathered *g, const char *row, double *sum,
                    float *wide)
{
    if (g->type == RG_F16 || g->type == RG_BF16)
        rg__half_widen(g->type, wide, row, (size_t)g->width);
    else if (g->type == RG_F32)
        memcpy(wide, row, row_bytes(g));
    for (uint64_t k = 0; k < g->width; k++)
        sum[k] += g->type == RG_F64 ? ((const double *)(const void *)row)[k]
                                    : (double)wide[k];
}

static void put_row(const gathered *g, char *row, const double *sum,
                    float *wide, double factor)
{
    for (uint64_t k = 0; k < g->width; k++)
        if (g->type == RG_F64)
            ((double *)(void *)row)[k] = sum[k] * factor;
        else
            wide[k] = (float)(sum[k] * factor);
    if (g->type == RG_F32)
        memcpy(row, wide, row_bytes(g));
    else if (g->type != RG_F64)
        rg__half_narrow(g->type, row, wide, (size_t)g->width);
}

static void add_up(const gathered *g, rg_rows *to, double *sum, float *wide,
                   double factor)
{
    for (uint64_t k = 0; k < g->n;) {
        const uint64_t row = g->order[k].row;
        memset(sum, 0, (size_t)g->width * sizeof *sum);
        for (; k < g->n && g->order[k].row == row; k++)
            add_row(g, g->rows + g->order[k].nth * row_bytes(g), sum, wide);
        put_row(g, (char *)to->rows + to->n * row_bytes(g), sum, wide, factor);
        to->at[to->n++] = row;
    }
}

static rg_status make_result(const gathered *g, double factor, rg_rows **rows_p)
{
    rg_rows *to = calloc(1, sizeof *to);
    double *sum = calloc((size_t)g->width, sizeof *sum);
    float *wide = calloc((size_t)g->width, sizeof *wide);
    if (to != NULL) {
        to->at = calloc((size_t)g->n + 1, sizeof *to->at);
        to->rows = calloc((size_t)g->n + 1, row_bytes(g));
    }
    const bool is_made = to != NULL && to->at != NULL && to->rows != NULL &&
                         sum != NULL && wide != NULL;
    if (is_made) {
        to->size = sizeof *to;
        add_up(g, to, sum, wide, factor);
        *rows_p = to;
    } else {
        rg_rows_free(to);
    }
    free(sum);
    free(wide);
    return is_made ? RG_OK : rg__fail(RG_ERR_MEMORY, "no memory for rows");
}

rg_status rg_allreduce_rows(rg_set *set, const uint64_t *at, const void *rows,
                            uint64_t n, uint64_t width, rg_type type, rg_op op,
                            rg_rows **rows_p)
{
    gathered g = {.width = width, .type = type};
    if (set == NULL || rows_p == NULL || (n > 0 && (!at || !rows)) ||
        width == 0 || width > PTRDIFF_MAX / 16 || !rg__type_is_float(type) ||
        (op != RG_SUM && op != RG_AVG))
        return rg__fail(RG_ERR_INVALID,
                        "rg_allreduce_rows needs a set, rows of at least one "
                        "float, their places, RG_SUM or RG_AVG, and a place "
                        "for the result");
    rg_status st = rg__call_check_host("allreduce_rows", at);
    if (st == RG_OK)
        st = rg__call_check_host("allreduce_rows", rows);
    if (st != RG_OK)
        return st;
    st = count_rows(set, &g, op, n);
    if (st == RG_OK && g.n > 0)
        st = rg__agree_made(set, make_room(&g), "rows", 0, NULL);
    if (st == RG_OK && n > 0) {
        memcpy(g.at + g.first, at, (size_t)n * sizeof *at);
        memcpy(g.rows + g.first * row_bytes(&g), rows,
               (size_t)n * row_bytes(&g));
    }
    if (st == RG_OK && g.n > 0)
        st = bring_together(set, &g);
    for (uint64_t k = 0; k < g.n && st == RG_OK; k++)
        g.order[k] = (place){g.at[k], k};
    if (st == RG_OK) {
        if (g.n > 0)
            qsort(g.order, (size_t)g.n, sizeof *g.order, by_row);
        st = make_result(&g, op == RG_AVG ? 1 / (double)rg_set_size(set) : 1,
                         rows_p);
    }
    free(g.at);
    free(g.rows);
    free(g.order);
    return st;
}

void rg_rows_free(rg_rows *rows)
{
    if (rows == NULL)
        return;
    free(rows->at);
    free(rows->rows);
    free(rows);
}
