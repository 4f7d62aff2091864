/* Comparing ranks, and the dump as text. What came from other hosts is JSON of
 * any shape: whatever is missing reads as 0 or "-". */
#include "elastic/agent/dump/dump_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/grow.h"

#define SHOWN       4  /* newest operations of a set, in text */
#define RANKS_SHOWN 32 /* in a sentence */

static long long number(const json_t *j, const char *key)
{
    return (long long)json_integer_value(json_object_get(j, key));
}

static const char *text(const json_t *j, const char *key)
{
    const char *value = json_string_value(json_object_get(j, key));
    return value != NULL ? value : "-";
}

/* ------------------------------------------------------------ sets of ranks */

/* A set as one worker has it; rank: in the world. */
typedef struct view {
    const json_t *worker, *set; /* NULL: it has started nothing there */
    const char *members;
    long long generation, id, rank, started, ended;
} view;

typedef struct compared {
    view *item;
    size_t n;
} compared;

static void add_view(compared *all, const json_t *worker, const json_t *set)
{
    view *one = rg__grow(&all->item, all->n, sizeof *one);
    if (one == NULL)
        return;
    all->n++;
    *one = (view){worker,
                  set,
                  text(set, "members"),
                  number(worker, "generation"),
                  number(set, "id"),
                  number(worker, "rank"),
                  number(set, "started"),
                  number(set, "ended")};
}

/* All members of the world are known; of other sets those that have used it. */
static void add_views(compared *all, const json_t *worker)
{
    size_t i;
    bool has_world = false;
    const json_t *set;
    if (number(worker, "rank") < 0)
        return;
    json_array_foreach(json_object_get(worker, "sets"), i, set)
    {
        add_view(all, worker, set);
        has_world |= number(set, "id") == 0;
    }
    if (!has_world)
        add_view(all, worker, NULL);
}

static int compare(long long a, long long b)
{
    return (a > b) - (a < b);
}

static int by_set(const view *a, const view *b)
{
    const int of = compare(a->generation, b->generation);
    const int id = of != 0 ? of : compare(a->id, b->id);
    return id != 0 || a->id == 0 ? id : strcmp(a->members, b->members);
}

/* Of a set, those of a worker follow each other. */
static int by_set_and_rank(const void *a_arg, const void *b_arg)
{
    const view *a = a_arg, *b = b_arg;
    const int set = by_set(a, b);
    const int rank = set != 0 ? set : compare(a->rank, b->rank);
    return rank != 0 ? rank : (a->worker > b->worker) - (a->worker < b->worker);
}

/* ------------------------------------------------------------- differences */

static const json_t *find_note(const view *v, long long at)
{
    size_t i;
    const json_t *note;
    json_array_foreach(json_object_get(v->set, "operations"), i,
                       note) if (number(note, "number") == at) return note;
    return NULL;
}

/* Kinds whose ranks bring different counts, or none. */
static bool has_one_count(const char *kind)
{
    static const char *const kinds[] = {
        "allreduce", "reduce",  "broadcast", "allgather",
        "gather",    "scatter", "alltoall",  "reduce_scatter"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i], kind) == 0)
            return true;
    return false;
}

static bool is_reduction(const char *kind)
{
    return strncmp(kind, "allreduce", 9) == 0 ||
           strncmp(kind, "reduce", 6) == 0;
}

/* "allreduce of 1024 f32, sum". */
static void words_of(const json_t *note, char *words, size_t room)
{
    const char *kind = text(note, "kind"), *what = text(note, "what");
    if (note == NULL)
        snprintf(words, room, "an operation that is not recorded any more");
    else if (strcmp(what, "-") != 0)
        snprintf(words, room, "%s", what);
    else if (strcmp(kind, "send") == 0 || strcmp(kind, "recv") == 0)
        snprintf(words, room, "%s of %lld %s %s rank %lld", kind,
                 number(note, "count"), text(note, "type"),
                 kind[0] == 's' ? "to" : "from", number(note, "peer"));
    else if (has_one_count(kind))
        snprintf(words, room, "%s of %lld %s%s%s", kind, number(note, "count"),
                 text(note, "type"), is_reduction(kind) ? ", " : "",
                 is_reduction(kind) ? text(note, "op") : "");
    else
        snprintf(words, room, "%s", kind);
}

static bool differs(const json_t *a, const json_t *b)
{
    char x[160], y[160];
    words_of(a, x, sizeof x);
    words_of(b, y, sizeof y);
    return strcmp(x, y) != 0;
}

static void add_rank(char *list, size_t room, long long rank, int *n)
{
    const size_t used = strlen(list);
    if (*n == RANKS_SHOWN)
        snprintf(list + used, room - used, ",..");
    else if (*n < RANKS_SHOWN)
        snprintf(list + used, room - used, "%s%lld", *n > 0 ? "," : "", rank);
    (*n)++;
}

static const char *name_of(const compared *c)
{
    size_t i = 0;
    while (i + 1 < c->n && c->item[i].set == NULL)
        i++;
    return text(c->item[i].set, "name");
}

__attribute__((format(printf, 4, 5))) static void
say(json_t *all, const compared *c, long long at, const char *format, ...)
{
    char sentence[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    json_array_append_new(all, json_pack("{s:I,s:s,s:I,s:s}", "id",
                                         (json_int_t)c->item->id, "set",
                                         name_of(c), "number", (json_int_t)at,
                                         "text", sentence));
}

/* The first operation that some have started and others have not. */
static void find_missing(const compared *c, json_t *all)
{
    char here[300] = "", missing[300] = "", words[160];
    long long most = 0, least = c->item[0].started;
    const json_t *note = NULL;
    int n = 0, m = 0;
    for (size_t i = 0; i < c->n; i++) {
        most = c->item[i].started > most ? c->item[i].started : most;
        least = c->item[i].started < least ? c->item[i].started : least;
    }
    if (least == most)
        return;
    for (size_t i = 0; i < c->n; i++) {
        const view *v = &c->item[i];
        if (v->started > least) {
            add_rank(here, sizeof here, v->rank, &n);
            note = note != NULL ? note : find_note(v, least + 1);
        } else {
            add_rank(missing, sizeof missing, v->rank, &m);
        }
    }
    words_of(note, words, sizeof words);
    say(all, c, least + 1,
        "operation %lld, %s: started by rank%s %s, NOT by rank%s %s", least + 1,
        words, n > 1 ? "s" : "", here, m > 1 ? "s" : "", missing);
}

/* The first operation that ranks have started as different things. */
static void find_mismatch(const compared *c, json_t *all)
{
    for (long long at = 1; at <= c->item[0].started; at++) {
        const json_t *first = find_note(&c->item[0], at);
        for (size_t i = 1; i < c->n && first != NULL; i++) {
            char x[160], y[160];
            const json_t *other = find_note(&c->item[i], at);
            if (other == NULL || !differs(first, other))
                continue;
            words_of(first, x, sizeof x);
            words_of(other, y, sizeof y);
            say(all, c, at,
                "operation %lld DIFFERS: rank %lld has started %s, rank %lld "
                "%s",
                at, c->item[0].rank, x, c->item[i].rank, y);
            return;
        }
        if (first == NULL && at + 64 < c->item[0].started)
            at = c->item[0].started - 64; /* no ring goes further back */
    }
}

/* All have it in flight: the operation itself does not end. */
static void find_running(const compared *c, json_t *all)
{
    char ranks[300] = "", words[160];
    int n = 0;
    const json_t *note = NULL;
    long long least = c->item[0].started, ended = c->item[0].ended;
    for (size_t i = 0; i < c->n; i++) {
        least = c->item[i].started < least ? c->item[i].started : least;
        ended = c->item[i].ended < ended ? c->item[i].ended : ended;
    }
    if (ended >= least)
        return;
    for (size_t i = 0; i < c->n; i++)
        if (c->item[i].ended == ended) {
            add_rank(ranks, sizeof ranks, c->item[i].rank, &n);
            note = note != NULL ? note : find_note(&c->item[i], ended + 1);
        }
    words_of(note, words, sizeof words);
    say(all, c, ended + 1,
        "operation %lld, %s: started by all, and not ended on rank%s %s",
        ended + 1, words, n > 1 ? "s" : "", ranks);
}

/* The views of the first set; those of a worker that come again are dropped.
 * Returns how many there were. */
static size_t compare_first(compared left, json_t *all)
{
    size_t n = 0, of = 0;
    for (; n < left.n && by_set(&left.item[n], left.item) == 0; n++)
        if (n == 0 || left.item[n].worker != left.item[of - 1].worker)
            left.item[of++] = left.item[n];
    const compared c = {left.item, of};
    if (of > 1) {
        find_missing(&c, all);
        find_mismatch(&c, all);
        find_running(&c, all);
    }
    return n;
}

/* Sorted, since there may be thousands of sets. */
void rg__dump_compare(json_t *document)
{
    size_t h, w;
    compared views = {0};
    const json_t *host, *worker;
    json_t *all = json_array();
    json_array_foreach(json_object_get(document, "hosts"), h, host)
        json_array_foreach(json_object_get(host, "workers"), w, worker)
            add_views(&views, worker);
    if (views.n > 0)
        qsort(views.item, views.n, sizeof *views.item, by_set_and_rank);
    for (size_t at = 0; at < views.n;)
        at += compare_first((compared){views.item + at, views.n - at}, all);
    free(views.item);
    json_object_set_new(document, "differences", all);
}

/* --------------------------------------------------------------------- text */

static void put_note(FILE *out, const json_t *note)
{
    char words[160];
    words_of(note, words, sizeof words);
    if (number(note, "number") > 0)
        fprintf(out, "    %6lld  ", number(note, "number"));
    else
        fprintf(out, "         -  ");
    fprintf(out, "%-36s %-6s", words, text(note, "state"));
    fprintf(out, " started %lld ms ago", number(note, "started_ms"));
    if (json_object_get(note, "ended_ms") != NULL)
        fprintf(out, ", ended %lld ms ago", number(note, "ended_ms"));
    if (json_object_get(note, "status") != NULL &&
        strcmp(text(note, "status"), "OK") != 0 &&
        strcmp(text(note, "status"), "RG_OK") != 0)
        fprintf(out, ", %s", text(note, "status"));
    fputc('\n', out);
}

static void put_set(FILE *out, const json_t *set)
{
    size_t i;
    const json_t *note, *notes = json_object_get(set, "operations");
    const size_t n = json_array_size(notes);
    fprintf(out,
            "  set %s (id %lld, rank %lld of %lld): %lld started, %lld "
            "ended%s\n",
            text(set, "name")[0] != '\0' ? text(set, "name") : "-",
            number(set, "id"), number(set, "rank"), number(set, "size"),
            number(set, "started"), number(set, "ended"),
            json_is_true(json_object_get(set, "closed")) ? ", closed" : "");
    json_array_foreach(notes, i, note) if (i + SHOWN >= n) put_note(out, note);
}

static void put_lines(FILE *out, const char *lines)
{
    while (*lines != '\0') {
        const size_t n = strcspn(lines, "\n");
        fprintf(out, "    %.*s\n", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

static void put_stacks(FILE *out, const json_t *stacks)
{
    const char *python = json_string_value(json_object_get(stacks, "python"));
    const char *c = json_string_value(json_object_get(stacks, "c"));
    if (python != NULL) {
        fprintf(out, "  Python stacks:\n");
        put_lines(out, python);
    }
    if (c == NULL)
        return;
    fprintf(out, strcmp(text(stacks, "from"), "tool") == 0
                     ? "  C stacks:\n"
                     : "  what the kernel says of its threads (for C stacks "
                       "install eu-stack or gdb,\n  and allow ptrace):\n");
    put_lines(out, c);
}

static void put_worker(FILE *out, const json_t *host, const json_t *worker)
{
    size_t i;
    const json_t *set;
    fprintf(out, "\nrank %lld  %s.%lld  process %lld%s, generation %lld\n",
            number(worker, "rank"), text(host, "host"), number(worker, "slot"),
            number(worker, "pid"),
            json_is_true(json_object_get(worker, "alive")) ? ""
                                                           : ", which has died",
            number(worker, "generation"));
    json_array_foreach(json_object_get(worker, "sets"), i, set)
        put_set(out, set);
    put_stacks(out, json_object_get(worker, "stacks"));
}

static void put_differences(FILE *out, const json_t *document)
{
    size_t i;
    const json_t *one, *all = json_object_get(document, "differences");
    json_array_foreach(all, i, one)
        fprintf(out, ">> set %s: %s\n", text(one, "set"), text(one, "text"));
    if (json_array_size(all) == 0)
        fprintf(out, "all ranks have started and ended the same operations\n");
}

char *rg__dump_text(const json_t *document)
{
    char *all = NULL;
    size_t bytes = 0, h, w;
    const json_t *host, *worker;
    FILE *out = open_memstream(&all, &bytes);
    if (out == NULL)
        return NULL;
    fprintf(out, "job %s, generation %lld", text(document, "job"),
            number(document, "generation"));
    if (json_object_get(document, "why") != NULL)
        fprintf(out, ", which has ended: %s", text(document, "why"));
    fputc('\n', out);
    put_differences(out, document);
    json_array_foreach(json_object_get(document, "hosts"), h, host)
    {
        if (json_object_get(host, "error") != NULL)
            fprintf(out, "!! host %s: %s\n", text(host, "host"),
                    text(host, "error"));
        json_array_foreach(json_object_get(host, "workers"), w, worker)
            put_worker(out, host, worker);
    }
    fclose(out);
    return all;
}
