/* How long steps take, and which worker the others wait for. A step is over on
 * all ranks at the same time, so its own time says little: the slow one is the
 * one that waits least. It is named, and nothing follows from that. */
#include "elastic/agent/control/step_times.h"

#include <stdlib.h>

#include "elastic/agent/dump/dump.h"

#define FACTOR   1.2 /* slow is what takes so much longer than the median, */
#define LEAST_MS 0.1 /* and so much */

static void add_part(json_t *by_host, const json_t *part)
{
    const char *host = json_string_value(json_object_get(part, "host"));
    json_t *workers = json_object_get(part, "workers");
    if (host != NULL && json_is_array(workers))
        json_object_set(by_host, host, workers);
}

json_t *rg__step_times_by_host(const rg__agent *a, const json_t *parts)
{
    size_t i;
    const json_t *part;
    json_t *by_host = json_object(), *mine = rg__dump_times(a);
    json_array_foreach(parts, i, part) add_part(by_host, part);
    add_part(by_host, mine);
    json_decref(mine);
    return by_host;
}

static const json_t *find(const json_t *workers, const rg__slot_record *r)
{
    size_t i;
    const json_t *one;
    json_array_foreach(
        workers, i,
        one) if (json_integer_value(json_object_get(one, "slot")) == r->slot &&
                 json_integer_value(json_object_get(one, "start")) ==
                     r->start) return one;
    return NULL;
}

void rg__step_times_add(const json_t *by_host, const char *host,
                        const rg__slot_record *r, json_t *worker)
{
    static const char *const names[] = {"step", "step_ms", "waiting"};
    const json_t *one = find(json_object_get(by_host, host), r);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(one, names[i]);
        json_object_set(worker, names[i],
                        json_is_number(value) ? value : json_null());
    }
}

/* ------------------------------------------------------------ the slowest */

typedef struct busy {
    double ms;
    const char *host;
    int slot;
} busy;

/* false: it has ended no step yet. */
static bool read_busy(const json_t *host, const json_t *worker, busy *b)
{
    const json_t *took = json_object_get(worker, "step_ms");
    const json_t *waiting = json_object_get(worker, "waiting");
    *b = (busy){json_number_value(took) * (1 - json_number_value(waiting)),
                json_string_value(json_object_get(host, "id")),
                (int)json_integer_value(json_object_get(worker, "slot"))};
    return json_is_number(took) && b->host != NULL;
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const busy *)a)->ms, y = ((const busy *)b)->ms;
    return (x > y) - (x < y);
}

static int list_busy(const json_t *hosts, busy **all_p)
{
    size_t h, w, room = 0;
    int n = 0;
    const json_t *host, *worker;
    json_array_foreach(hosts, h, host) room +=
        json_array_size(json_object_get(host, "workers"));
    *all_p = calloc(room + 1, sizeof **all_p);
    json_array_foreach(hosts, h, host)
        json_array_foreach(json_object_get(host, "workers"), w, worker) n +=
        *all_p != NULL && read_busy(host, worker, &(*all_p)[n]);
    return n;
}

json_t *rg__step_times_slowest(const json_t *hosts)
{
    busy *all = NULL;
    json_t *slowest = NULL;
    const int n = list_busy(hosts, &all);
    if (n >= 2) {
        qsort(all, (size_t)n, sizeof *all, by_time);
        const busy last = all[n - 1];
        const double median = all[(n - 1) / 2].ms;
        if (last.ms >= FACTOR * median && last.ms >= median + LEAST_MS)
            slowest =
                json_pack("{s:s,s:i,s:f,s:f}", "host", last.host, "slot",
                          last.slot, "busy_ms", last.ms, "median_ms", median);
    }
    free(all);
    return slowest != NULL ? slowest : json_null();
}
