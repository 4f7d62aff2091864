/* A dump waits until ranks are compared: sixteen times as many sets take a few
 * times sixteen as long, since they fit into no cache, and not 256 times. What
 * differs is found in each set, one that a worker uses alone is not compared,
 * and a set that a worker names twice counts once.
 *
 * Covers: dump_text.c */
#include <string.h>
#include <time.h>

#include "elastic/agent/dump/dump_parts.h"
#include "tests/check.h"

#define FEW     250
#define MANY    (16 * FEW)
#define WORKERS 4

static json_t *set_of(int id, int started)
{
    json_t *set = json_pack(
        "{s:i,s:s,s:i,s:s,s:i,s:i,s:[{s:i,s:s,s:s}]}", "id", id, "name", "s",
        "size", WORKERS, "members", "00ff00ff", "started", started, "ended", 1,
        "operations", "number", 1, "state", "ended", "kind", "barrier");
    CHECK(set != NULL);
    return set;
}

/* Rank 1 is late on set 7. */
static json_t *worker_of(int rank, int sets)
{
    json_t *all = json_array();
    for (int id = 1; id <= sets; id++)
        json_array_append_new(all, set_of(id, id == 7 && rank != 1 ? 2 : 1));
    json_array_append_new(all, set_of(7, 1)); /* again */
    json_array_append_new(all, set_of(sets + 1 + rank, 9));
    return json_pack("{s:i,s:i,s:o}", "rank", rank, "generation", 3, "sets",
                     all);
}

static double seconds(void)
{
    struct timespec t;
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check_sentence(const json_t *document)
{
    const json_t *all = json_object_get(document, "differences");
    CHECK_EQ(json_array_size(all), 1);
    const char *text =
        json_string_value(json_object_get(json_array_get(all, 0), "text"));
    CHECK(strstr(text, "operation 2, an operation that is not recorded any "
                       "more: started by ranks 0,2,3, NOT by rank 1") != NULL);
}

static double compare(int sets)
{
    json_t *workers = json_array();
    for (int rank = 0; rank < WORKERS; rank++)
        json_array_append_new(workers, worker_of(rank, sets));
    json_t *document =
        json_pack("{s:[{s:s,s:o}]}", "hosts", "host", "h", "workers", workers);
    CHECK(document != NULL);
    const double begin = seconds();
    rg__dump_compare(document);
    const double took = seconds() - begin;
    check_sentence(document);
    json_decref(document);
    return took;
}

static double least(int sets)
{
    double best = compare(sets);
    for (int i = 0; i < 4; i++) {
        const double took = compare(sets);
        best = took < best ? took : best;
    }
    return best;
}

int main(void)
{
    const double few = least(FEW), many = least(MANY);
    if (many > 160 * few)
        CHECK_FAIL("%d sets take %.1f ms, and %d %.1f ms", FEW, few * 1e3, MANY,
                   many * 1e3);
    return 0;
}
