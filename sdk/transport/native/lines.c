/* Comparing what the members said, and the sentence about a difference. */
#include "sdk/transport/native/native.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sdk/base/fail.h"

#define RANKS_SHOWN 24

static const char *const kinds[] = {"?",         "allreduce", "broadcast",
                                    "allgather", "barrier",   "agreement"};
static const char *const types[] = {"u8", "i32", "i64", "f32", "f64"};
static const char *const ops[] = {"sum", "avg", "min", "max"};

#define COUNT(names) (sizeof(names) / sizeof *(names))

typedef enum field { KIND, TYPE, OP, ROOT, ELEMENTS, TAG, FIELDS } field;

static const char *const field_names[FIELDS] = {"operation", "type",  "op",
                                                "root",      "count", "tag"};

typedef struct lines {
    const char *first;
    size_t stride;
    int n;
} lines;

static uint64_t value_of(const lines *all, int m, field f)
{
    const said_line *s =
        (const said_line *)(const void *)(all->first + (size_t)m * all->stride);
    switch (f) {
    case KIND:
        return s->kind;
    case TYPE:
        return s->type;
    case OP:
        return s->op;
    case ROOT:
        return (uint64_t)(int64_t)s->root;
    case ELEMENTS:
        return s->count;
    case TAG:
        return s->tag;
    case FIELDS:
        break;
    }
    return 0;
}

static const char *name_in(const char *const *names, size_t n, uint64_t value)
{
    return value < n ? names[value] : "?";
}

static void show(char *text, size_t room, field f, uint64_t value)
{
    if (f == KIND)
        snprintf(text, room, "%s", name_in(kinds, COUNT(kinds), value));
    else if (f == TYPE)
        snprintf(text, room, "%s", name_in(types, COUNT(types), value));
    else if (f == OP)
        snprintf(text, room, "%s", name_in(ops, COUNT(ops), value));
    else
        snprintf(text, room, "%" PRId64, (int64_t)value);
}

/* "ranks 0,1,5" of those whose field has this value. */
static void list_ranks(char *text, size_t room, const lines *all, field f,
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

static rg_status differ(uint32_t id, const lines *all, field f, int m)
{
    const uint64_t first = value_of(all, 0, f);
    const uint64_t other = value_of(all, m, f);
    char value[2][32], ranks[2][160];
    show(value[0], sizeof value[0], f, first);
    show(value[1], sizeof value[1], f, other);
    list_ranks(ranks[0], sizeof ranks[0], all, f, first);
    list_ranks(ranks[1], sizeof ranks[1], all, f, other);
    const char *kind =
        f == KIND ? "different operations"
                  : name_in(kinds, COUNT(kinds), value_of(all, 0, KIND));
    return rg__fail(RG_ERR_MISMATCH,
                    "%s on set %u: %s %s on %s but %s on %s; start the same "
                    "operation on every member",
                    kind, id, field_names[f], value[0], ranks[0], value[1],
                    ranks[1]);
}

rg_status rg__native_compare(uint32_t id, const said_line *line, size_t stride,
                             int n)
{
    const lines all = {(const char *)line, stride, n};
    for (int f = 0; f < FIELDS; f++)
        for (int m = 1; m < n; m++)
            if (value_of(&all, m, (field)f) != value_of(&all, 0, (field)f))
                return differ(id, &all, (field)f, m);
    return RG_OK;
}
