/* How long steps take, and which worker the others wait for. A step is over on
 * all ranks at the same time, so its own time says little: the slow one is the
 * one that waits least. It is named, and nothing follows from that. */
#include "elastic/agent/control/step_times.h"

#include <stdlib.h>

#include "elastic/agent/base/view.h"

#define FACTOR   1.2 /* so much more than the median is slow, */
#define LEAST_MS 0.1 /* and so much */

/* false: none is known yet, or the numbers are scribbled. */
static bool read_times(const rg__slot *s, double *took_ms, double *waited_ms)
{
    const rg__page *page = s->w.page;
    if (page == NULL || !rg__slot_is_alive(s))
        return false;
    const uint64_t took = atomic_load(&page->step_took_ns);
    const uint64_t waited = atomic_load(&page->step_waited_ns);
    *took_ms = (double)took / 1e6;
    *waited_ms = (double)(waited < took ? waited : took) / 1e6;
    return took > 0;
}

void rg__step_times_add(const rg__slot *s, json_t *worker)
{
    double took = 0, waited = 0;
    const bool is_known = s != NULL && read_times(s, &took, &waited);
    json_object_set_new(worker, "step_ms",
                        is_known ? json_real(took) : json_null());
    json_object_set_new(worker, "waiting",
                        is_known ? json_real(waited / took) : json_null());
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

json_t *rg__step_times_slowest(const rg__agent *a)
{
    double busy[RG__HOST_SLOTS_MAX], most = 0, took, waited;
    int n = 0;
    uint32_t slot = 0;
    for (int i = 0; i < a->params->slots && n < RG__HOST_SLOTS_MAX; i++) {
        if (!read_times(&a->slot[i], &took, &waited))
            continue;
        busy[n] = took - waited;
        if (busy[n] > most) {
            most = busy[n];
            slot = a->slot[i].index;
        }
        n++;
    }
    if (n < 2)
        return json_null();
    qsort(busy, (size_t)n, sizeof *busy, by_size);
    const double median = busy[(n - 1) / 2];
    if (most < FACTOR * median || most < median + LEAST_MS)
        return json_null();
    return json_pack("{s:s,s:i,s:f,s:f}", "host", a->params->host, "slot",
                     (int)slot, "busy_ms", most, "median_ms", median);
}
