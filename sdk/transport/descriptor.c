/* Comparing what the members said, and the sentence about a difference. */
#include "sdk/transport/descriptor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"

#define RANKS_SHOWN 24

typedef enum field {
    KIND,
    TYPE,
    OP,
    ROOT,
    ELEMENTS,
    PRESCALE,
    POSTSCALE,
    TAG,
    FIELDS
} field;

static const char *const field_names[FIELDS] = {
    "operation", "type", "op", "root", "count", "prescale", "postscale", "tag"};

typedef struct descriptors {
    const char *first;
    size_t stride;
    int n;
} descriptors;

rg__words rg__set_words(uint32_t id)
{
    rg__words words;
    if (id == 0)
        snprintf(words.text, sizeof words.text, "the world");
    else
        snprintf(words.text, sizeof words.text, "set %u", id);
    return words;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static const rg__descriptor *descriptor_of(const descriptors *all, int m)
{
    return (const rg__descriptor *)(const void *)(all->first +
                                                  (size_t)m * all->stride);
}

static bool is_same(const rg__descriptor *a, const rg__descriptor *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool is_refusal(const rg__descriptor *s)
{
    return s->kind == RG__BARRIER && s->tag - RG__REFUSED_TAG < 256;
}

/* A refused call is a kind of its own, one for each status. */
static uint64_t value_of(const descriptors *all, int m, field f)
{
    const rg__descriptor *s = descriptor_of(all, m);
    switch (f) {
    case KIND:
        return is_refusal(s) ? RG__COLL_KINDS + s->tag - RG__REFUSED_TAG
                             : s->kind;
    case TYPE:
        return s->type;
    case OP:
        return s->op;
    case ROOT:
        return (uint64_t)(int64_t)s->root;
    case ELEMENTS:
        return s->count;
    case PRESCALE:
        return bits_of(s->prescale);
    case POSTSCALE:
        return bits_of(s->postscale);
    case TAG:
        return s->tag;
    case FIELDS:
        break;
    }
    return 0;
}

static void show(char *text, size_t room, field f, uint64_t value)
{
    if (f == KIND)
        snprintf(text, room, "%s", rg__kind_name(value));
    else if (f == TYPE)
        snprintf(text, room, "%s", rg__type_name(value));
    else if (f == OP)
        snprintf(text, room, "%s", rg__op_name(value));
    else if (f == PRESCALE || f == POSTSCALE) {
        double scale;
        memcpy(&scale, &value, sizeof scale);
        snprintf(text, room, "%g", scale == 0 ? 1.0 : scale);
    } else {
        snprintf(text, room, "%" PRId64, (int64_t)value);
    }
}

/* Write what a member has started. */
static void show_kind(char *text, size_t room, const descriptors *all, int m)
{
    const uint64_t kind = value_of(all, m, KIND);
    if (kind == RG__AGREE && value_of(all, m, TAG) == RG__STEP_TAG)
        snprintf(text, room, "the end of a step, or of fn,");
    else if (kind > RG__COLL_KINDS)
        snprintf(text, room, "a call that was refused (%s)",
                 rg_status_name((rg_status)((int)RG__COLL_KINDS - (int)kind)));
    else
        show(text, room, KIND, kind);
}

/* Write "ranks 0,1,5": the ranks whose field has this value. */
static void list_ranks(char *text, size_t room, const descriptors *all, field f,
                       uint64_t value)
{
    int n = 0;
    size_t used = 0;
    for (int m = 0; m < all->n; m++)
        n += value_of(all, m, f) == value;
    used += (size_t)snprintf(text, room, n == 1 ? "rank " : "ranks ");
    for (int m = 0, shown = 0; m < all->n && used + 16 < room; m++) {
        if (value_of(all, m, f) != value)
            continue;
        if (shown == RANKS_SHOWN) {
            snprintf(text + used, room - used, ",...");
            return;
        }
        used += (size_t)snprintf(text + used, room - used, "%s%d",
                                 shown > 0 ? "," : "", m);
        shown++;
    }
}

/* Is a tag a number that the program gave? Otherwise it is a digest. */
static bool is_number(const descriptors *all, uint64_t tag)
{
    return value_of(all, 0, KIND) != RG__AGREE && tag < (UINT64_C(1) << 32);
}

static rg_status differ_in_own_tag(uint32_t id, const descriptors *all, int m,
                                   const char *ranks, const char *others)
{
    return rg__fail(RG_ERR_MISMATCH,
                    "%s on %s: tag %" PRIu64 " on %s but %" PRIu64 " on "
                    "%s; start the same operation on every member",
                    rg__kind_name(value_of(all, 0, KIND)),
                    rg__set_words(id).text, value_of(all, 0, TAG), ranks,
                    value_of(all, m, TAG), others);
}

/* One of the two calls ends a step. */
static rg_status differ_in_call(uint32_t id, const char *ends_step,
                                const char *others)
{
    return rg__fail(RG_ERR_MISMATCH,
                    "different calls on %s: the end of a step, or of fn, on %s "
                    "but another one, such as the making of a set, on %s; "
                    "start the same operation on every member",
                    rg__set_words(id).text, ends_step, others);
}

static rg_status differ_in_tag(uint32_t id, const descriptors *all, int m,
                               const char *ranks, const char *others)
{
    const uint64_t kind = value_of(all, 0, KIND);
    if (kind == RG__AGREE && value_of(all, 0, TAG) == RG__STEP_TAG)
        return differ_in_call(id, ranks, others);
    if (kind == RG__AGREE && value_of(all, m, TAG) == RG__STEP_TAG)
        return differ_in_call(id, others, ranks);
    return rg__fail(RG_ERR_MISMATCH,
                    "%s on %s: %s of %s are not those of %s; start the "
                    "same operation on every member",
                    rg__kind_name(kind), rg__set_words(id).text,
                    kind == RG__AGREE
                        ? "the arguments"
                        : "the tag, its counts, or what is grouped with it,",
                    ranks, others);
}

static rg_status differ(uint32_t id, const descriptors *all, field f, int m)
{
    const uint64_t first = value_of(all, 0, f);
    const uint64_t other = value_of(all, m, f);
    char value[2][80], ranks[2][160];
    show(value[0], sizeof value[0], f, first);
    show(value[1], sizeof value[1], f, other);
    if (f == KIND) {
        show_kind(value[0], sizeof value[0], all, 0);
        show_kind(value[1], sizeof value[1], all, m);
    }
    list_ranks(ranks[0], sizeof ranks[0], all, f, first);
    list_ranks(ranks[1], sizeof ranks[1], all, f, other);
    if (f == TAG && is_number(all, first) && is_number(all, other))
        return differ_in_own_tag(id, all, m, ranks[0], ranks[1]);
    if (f == TAG)
        return differ_in_tag(id, all, m, ranks[0], ranks[1]);
    const char *kind = f == KIND ? "different operations"
                                 : rg__kind_name(value_of(all, 0, KIND));
    return rg__fail(RG_ERR_MISMATCH,
                    "%s on %s: %s %s on %s but %s on %s; start the same "
                    "operation on every member",
                    kind, rg__set_words(id).text, field_names[f], value[0],
                    ranks[0], value[1], ranks[1]);
}

/* ------------------------------------------------------------------- joins */

static bool has_joined(const descriptors *all, int m)
{
    return descriptor_of(all, m)->kind == RG__JOIN;
}

/* The allreduce that all others have started; NULL: they differ. */
static const rg__descriptor *common_allreduce(const descriptors *all)
{
    const rg__descriptor *first = NULL;
    for (int m = 0; m < all->n; m++) {
        const rg__descriptor *s = descriptor_of(all, m);
        if (s->kind == RG__JOIN)
            continue;
        if (first == NULL)
            first = s;
        if (s->kind != RG__ALLREDUCE || !is_same(s, first))
            return NULL;
    }
    return first;
}

static rg_status refuse_beside_join(uint32_t id, const descriptors *all)
{
    char ranks[160];
    list_ranks(ranks, sizeof ranks, all, KIND, RG__JOIN);
    for (int m = 0; m < all->n; m++)
        if (!has_joined(all, m))
            return rg__fail(RG_ERR_MISMATCH,
                            "%s on %s: %s joined, and until all have joined "
                            "the others may only start the same allreduce",
                            rg__kind_name(value_of(all, m, KIND)),
                            rg__set_words(id).text, ranks);
    return RG_OK;
}

/* Can it be an allreduce's? A joined rank makes neutral elements from it. */
static bool can_be(const rg__descriptor *s)
{
    const size_t bytes = rg_type_size((rg_type)s->type);
    return bytes > 0 && rg_op_has((rg_op)s->op, (rg_type)s->type) &&
           s->count <= PTRDIFF_MAX / bytes;
}

static rg_status refuse_what_can_not_be(uint32_t id, const rg__descriptor *s)
{
    return rg__fail(
        RG_ERR_MISMATCH,
        "allreduce on %s: during a join its descriptor says type %u, op %u and "
        "count %" PRIu64 ", which no allreduce has; some "
        "worker writes over shared memory",
        rg__set_words(id).text, s->type, s->op, s->count);
}

static rg_status compare_joins(uint32_t id, const descriptors *all, int joins,
                               rg__coll *joined)
{
    *joined = (rg__coll){.kind = RG__JOIN};
    for (int m = 0; m < all->n && joins == all->n; m++)
        if (descriptor_of(all, m)->count != 0)
            joined->root = m;
    if (joins == all->n)
        return RG_OK;
    const rg__descriptor *s = common_allreduce(all);
    if (s == NULL)
        return refuse_beside_join(id, all);
    if (!can_be(s))
        return refuse_what_can_not_be(id, s);
    *joined = (rg__coll){.kind = RG__ALLREDUCE,
                         .type = (rg_type)s->type,
                         .op = (rg_op)s->op,
                         .count = s->count,
                         .prescale = s->prescale,
                         .postscale = s->postscale};
    return RG__COLL_AGAIN;
}

/* --------------------------------------------------------------- in whole */

static bool are_equal(const descriptors *all)
{
    for (int m = 1; m < all->n; m++)
        if (!is_same(descriptor_of(all, m), descriptor_of(all, 0)))
            return false;
    return true;
}

rg_status rg__descriptor_compare(uint32_t id, const rg__descriptor *descriptor,
                                 size_t stride, int n, rg__coll *joined)
{
    const descriptors all = {(const char *)descriptor, stride, n};
    if (descriptor->kind != RG__JOIN && are_equal(&all))
        return RG_OK;
    int joins = 0;
    for (int m = 0; m < n; m++)
        joins += has_joined(&all, m);
    if (joins > 0)
        return compare_joins(id, &all, joins, joined);
    for (int f = 0; f < FIELDS; f++)
        for (int m = 1; m < n; m++)
            if (value_of(&all, m, (field)f) != value_of(&all, 0, (field)f))
                return differ(id, &all, (field)f, m);
    return RG_OK;
}

/* ------------------------------------------------------------- out of step */

/* A member, if all but d have posted the same, now and before; or -1. */
static int find_others(const rg__slip *slip, const descriptors *all, int d)
{
    const int one = d == 0 ? 1 : 0;
    for (int m = 0; m < all->n; m++)
        if (m != d &&
            (!is_same(descriptor_of(all, m), descriptor_of(all, one)) ||
             !is_same(&slip->before[m], &slip->before[one])))
            return -1;
    return one;
}

/* 1: member d starts now what the others started before; -1: it started before
 * what they start now; 0: neither. */
static int is_behind(const rg__slip *slip, const descriptors *all, int d)
{
    const int one = find_others(slip, all, d);
    if (one < 0)
        return 0;
    if (is_same(descriptor_of(all, d), &slip->before[one]))
        return 1;
    return is_same(&slip->before[d], descriptor_of(all, one)) ? -1 : 0;
}

/* Of two members the second is named, though the first may be wrong. */
static rg_status name_slip(const rg__slip *slip, uint32_t id,
                           const descriptors *all)
{
    int behind = 0, d = all->n;
    while (behind == 0 && d > 0)
        behind = is_behind(slip, all, --d);
    if (behind == 0)
        return RG_ERR_MISMATCH;
    return rg__fail(RG_ERR_MISMATCH,
                    "rank %d of %s is one operation %s since operation "
                    "%" PRIu64 " there: it starts the %s that the others %s; "
                    "start the same operations on every member",
                    d, rg__set_words(id).text, behind > 0 ? "behind" : "ahead",
                    slip->since, rg__kind_name(value_of(all, d, KIND)),
                    behind > 0 ? "have started before" : "come to next");
}

static void note_descriptors(rg__slip *slip, uint64_t number,
                             const descriptors *all)
{
    if (slip->before == NULL) {
        slip->since = number;
        slip->before = calloc((size_t)all->n, sizeof *slip->before);
    }
    for (int m = 0; m < all->n && slip->before != NULL; m++)
        slip->before[m] = *descriptor_of(all, m);
}

void rg__slip_clear(rg__slip *slip)
{
    if (slip->before == NULL)
        return;
    free(slip->before);
    *slip = (rg__slip){0};
}

rg_status rg__slip_compare(rg__slip *slip, uint64_t number, uint32_t id,
                           const rg__descriptor *descriptor, size_t stride,
                           int n, rg__coll *joined)
{
    const descriptors all = {(const char *)descriptor, stride, n};
    rg_status st = rg__descriptor_compare(id, descriptor, stride, n, joined);
    if (st != RG_ERR_MISMATCH) {
        rg__slip_clear(slip);
        return st;
    }
    if (slip->before != NULL)
        st = name_slip(slip, id, &all);
    note_descriptors(slip, number, &all);
    return st;
}
