/* Settings: values and their units, names and the nearest one, precedence. */
#include "sdk/base/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"

#define NAME_MAX_     64
#define DETECT_LAN    500
#define DETECT_CLOUD  3000
#define COUNT_HIGHEST 1000000

typedef struct entry {
    const rg__cfg_field *field;
    void *target;
    char *text, *where;
    rg__cfg_origin origin;
} entry;

struct rg__cfg {
    entry *entries;
    size_t count;
};

/* ------------------------------------------------------------------ values */

typedef struct unit {
    const char *name;
    uint64_t factor;
} unit;

static const unit time_units[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {NULL, 0}};

static const unit byte_units[] = {{"", 1},
                                  {"K", UINT64_C(1) << 10},
                                  {"KiB", UINT64_C(1) << 10},
                                  {"M", UINT64_C(1) << 20},
                                  {"MiB", UINT64_C(1) << 20},
                                  {"G", UINT64_C(1) << 30},
                                  {"GiB", UINT64_C(1) << 30},
                                  {"T", UINT64_C(1) << 40},
                                  {"TiB", UINT64_C(1) << 40},
                                  {NULL, 0}};

static bool parse_digits(const char *text, const char **end_p, uint64_t *n_p)
{
    uint64_t n = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9'; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        if (n > (UINT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *end_p = c;
    *n_p = n;
    return c != text;
}

static bool parse_with_unit(const char *text, const unit *units, uint64_t *n_p)
{
    const char *end;
    uint64_t n;
    if (!parse_digits(text, &end, &n))
        return false;
    for (const unit *u = units; u->name != NULL; u++) {
        if (strcmp(u->name, end) != 0)
            continue;
        if (n > UINT64_MAX / u->factor)
            return false;
        *n_p = n * u->factor;
        return true;
    }
    return false;
}

static bool parse_detect(const char *text, uint64_t *ms_p)
{
    if (strcmp(text, "auto") == 0) {
        *ms_p = 0;
        return true;
    }
    if (strcmp(text, "lan") == 0) {
        *ms_p = DETECT_LAN;
        return true;
    }
    if (strcmp(text, "cloud") == 0) {
        *ms_p = DETECT_CLOUD;
        return true;
    }
    return parse_with_unit(text, time_units, ms_p) && *ms_p > 0;
}

/* A number of steps, or a time. */
static bool parse_every(const char *text, rg__every *every_p)
{
    const char *end;
    uint64_t n;
    *every_p = (rg__every){0, 0};
    if (!parse_digits(text, &end, &n))
        return false;
    if (*end != '\0')
        return parse_with_unit(text, time_units, &every_p->ms);
    every_p->steps = n;
    return true;
}

static bool parse_yes(const char *text, bool *yes_p)
{
    *yes_p = strcmp(text, "yes") == 0;
    return *yes_p || strcmp(text, "no") == 0;
}

static bool parse_count(const char *text, uint64_t lowest, int *n_p)
{
    const char *end;
    uint64_t n;
    if (!parse_digits(text, &end, &n) || *end != '\0')
        return false;
    if (n < lowest || n > COUNT_HIGHEST)
        return false;
    *n_p = (int)n;
    return true;
}

/* Parse text into the target; a target of NULL only checks. */
static bool parse(rg__cfg_type type, const char *text, void *target)
{
    union {
        int count;
        uint64_t number;
        rg__every every;
        bool yes;
        const char *text;
    } v = {.text = text};
    size_t bytes = sizeof v.number;
    bool ok = true;
    switch (type) {
    case RG__CFG_TEXT:
        ok = text[0] != '\0';
        bytes = sizeof v.text;
        break;
    case RG__CFG_COUNT:
    case RG__CFG_SIZE:
        ok = parse_count(text, type == RG__CFG_SIZE, &v.count);
        bytes = sizeof v.count;
        break;
    case RG__CFG_TIME:
        ok = parse_with_unit(text, time_units, &v.number);
        break;
    case RG__CFG_BYTES:
        ok = parse_with_unit(text, byte_units, &v.number);
        break;
    case RG__CFG_DETECT:
        ok = parse_detect(text, &v.number);
        break;
    case RG__CFG_EVERY:
        ok = parse_every(text, &v.every);
        bytes = sizeof v.every;
        break;
    case RG__CFG_YES:
        ok = parse_yes(text, &v.yes);
        bytes = sizeof v.yes;
        break;
    }
    if (ok && target != NULL)
        memcpy(target, &v, bytes);
    return ok;
}

static const char *form_of(rg__cfg_type type)
{
    switch (type) {
    case RG__CFG_TEXT:
        return "a text that is not empty";
    case RG__CFG_COUNT:
        return "a whole number from 0 on, such as 3";
    case RG__CFG_SIZE:
        return "a whole number from 1 on, such as 4";
    case RG__CFG_TIME:
        return "a whole number with ms, s, m or h, such as 10s or 500ms";
    case RG__CFG_BYTES:
        return "a whole number of bytes, or with K, M, G or T in powers of "
               "1024, such as 64M or 2GiB";
    case RG__CFG_DETECT:
        return "auto, lan (500ms), cloud (3s) or a time above 0 such as 800ms";
    case RG__CFG_EVERY:
        return "a number of steps such as 100, or a time such as 10m; 0 is "
               "never";
    case RG__CFG_YES:
        return "yes or no";
    }
    return "a value";
}

static void clear_target(const entry *e)
{
    const int count = e->field->type == RG__CFG_COUNT ? -1 : 0;
    const char *const text = NULL;
    const uint64_t number = 0;
    const rg__every never = {0, 0};
    const bool no = false;
    switch (e->field->type) {
    case RG__CFG_TEXT:
        memcpy(e->target, &text, sizeof text);
        break;
    case RG__CFG_COUNT:
    case RG__CFG_SIZE:
        memcpy(e->target, &count, sizeof count);
        break;
    case RG__CFG_TIME:
    case RG__CFG_BYTES:
    case RG__CFG_DETECT:
        memcpy(e->target, &number, sizeof number);
        break;
    case RG__CFG_EVERY:
        memcpy(e->target, &never, sizeof never);
        break;
    case RG__CFG_YES:
        memcpy(e->target, &no, sizeof no);
        break;
    }
}

/* ------------------------------------------------------------------- names */

/* One spelling for `agent-grace`, `AGENT_GRACE` and `agent_grace`. */
static char fold(char c)
{
    return c == '-' ? '_' : (char)toupper((unsigned char)c);
}

static bool same_name(const char *a, const char *b)
{
    for (; *a != '\0' && fold(*a) == fold(*b); a++)
        b++;
    return *a == '\0' && *b == '\0';
}

/* Edits (put in, left out, changed, two swapped) that turn a into b; at most
 * NAME_MAX_ letters of each count. */
static size_t edit_distance(const char *a, const char *b)
{
    const size_t n = strnlen(a, NAME_MAX_), m = strnlen(b, NAME_MAX_);
    size_t row[3][NAME_MAX_ + 1]; /* i - 2, i - 1, i; in turn */
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3];
        const size_t *up = row[(i + 2) % 3], *upper = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const bool same = fold(a[i - 1]) == fold(b[j - 1]);
            size_t best = up[j - 1] + !same;
            best = up[j] + 1 < best ? up[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
                fold(a[i - 2]) == fold(b[j - 1]) && upper[j - 2] + 1 < best)
                best = upper[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *rg__nearest(const char *word, const char *const *candidates,
                        size_t n)
{
    const size_t letters = strnlen(word, NAME_MAX_);
    size_t least = letters < 4 ? 1 : letters / 2; /* the limit of near */
    const char *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        const size_t distance = edit_distance(word, candidates[i]);
        if (distance > least || (distance == least && nearest != NULL))
            continue;
        least = distance;
        nearest = candidates[i];
    }
    return nearest;
}

const char *rg__cfg_nearest(const rg__cfg *cfg, const char *name)
{
    const char **names = calloc(cfg->count + 1, sizeof *names);
    if (names == NULL)
        return NULL;
    for (size_t i = 0; i < cfg->count; i++)
        names[i] = cfg->entries[i].field->name;
    const char *nearest = rg__nearest(name, names, cfg->count);
    free(names);
    return nearest;
}

/* ------------------------------------------------------------------ object */

rg_status rg__cfg_create(rg__cfg **cfg_p)
{
    rg__cfg *cfg = calloc(1, sizeof *cfg);
    if (cfg == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the settings");
    *cfg_p = cfg;
    return RG_OK;
}

void rg__cfg_destroy(rg__cfg *cfg)
{
    if (cfg == NULL)
        return;
    for (size_t i = 0; i < cfg->count; i++) {
        free(cfg->entries[i].text);
        free(cfg->entries[i].where);
    }
    free(cfg->entries);
    free(cfg);
}

/* Store a value that parse() has accepted. */
static rg_status store(entry *e, const char *text, rg__cfg_origin origin,
                       const char *where)
{
    char *const text_copy = strdup(text), *const where_copy = strdup(where);
    if (text_copy == NULL || where_copy == NULL) {
        free(text_copy);
        free(where_copy);
        return rg__fail(RG_ERR_MEMORY, "no memory for the settings");
    }
    free(e->text);
    free(e->where);
    e->text = text_copy;
    e->where = where_copy;
    e->origin = origin;
    parse(e->field->type, e->text, e->target);
    return RG_OK;
}

rg_status rg__cfg_add(rg__cfg *cfg, const rg__cfg_field *table, void *target)
{
    size_t more = 0;
    while (table[more].name != NULL)
        more++;
    entry *grown = realloc(cfg->entries, (cfg->count + more) * sizeof *grown);
    if (grown == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the settings");
    cfg->entries = grown;
    for (size_t i = 0; i < more; i++) {
        entry *e = &cfg->entries[cfg->count++];
        *e = (entry){.field = &table[i],
                     .target = (char *)target + table[i].offset};
        clear_target(e);
        if (table[i].value == NULL)
            continue;
        rg_status st = store(e, table[i].value, RG__CFG_DEFAULT, "default");
        if (st != RG_OK)
            return st;
    }
    return RG_OK;
}

int rg__cfg_find(const rg__cfg *cfg, const char *name)
{
    for (size_t i = 0; i < cfg->count; i++)
        if (same_name(cfg->entries[i].field->name, name))
            return (int)i;
    return -1;
}

static rg_status fail_unknown(const rg__cfg *cfg, const char *name,
                              const char *where)
{
    const char *nearest = rg__cfg_nearest(cfg, name);
    if (nearest == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "%s: there is no setting %s; `regroup config` lists "
                        "them",
                        where, name);
    return rg__fail(RG_ERR_INVALID,
                    "%s: there is no setting %s; did you mean %s?", where, name,
                    nearest);
}

rg_status rg__cfg_set(rg__cfg *cfg, const char *name, const char *text,
                      rg__cfg_origin origin, const char *where)
{
    const int i = rg__cfg_find(cfg, name);
    if (i < 0)
        return fail_unknown(cfg, name, where);
    entry *e = &cfg->entries[i];
    if (!parse(e->field->type, text, NULL))
        return rg__fail(RG_ERR_INVALID, "%s is \"%s\"; it must be %s", where,
                        text, form_of(e->field->type));
    return origin < e->origin ? RG_OK : store(e, text, origin, where);
}

size_t rg__cfg_count(const rg__cfg *cfg)
{
    return cfg->count;
}

rg__cfg_item rg__cfg_at(const rg__cfg *cfg, size_t i)
{
    const entry *e = &cfg->entries[i];
    return (rg__cfg_item){.field = e->field,
                          .text = e->text,
                          .origin = e->origin,
                          .where = e->where != NULL ? e->where : "default"};
}
