/* Which bucket size: measured in the first steps, and kept.
 *
 * Each size is taken for a few steps. The verdict of a step adds up what all
 * ranks spent in the step before, so all of them see equal numbers and choose
 * the same size without asking again. A step without ranks that have joined
 * counts; others don't. In a new generation the most senior rank tells the
 * others what it has chosen. */
#include <stdio.h>

#include "process_sets/reducer/reducer.h"
#include "sdk/base/config.h"
#include "sdk/base/log.h"

#define MIB      ((uint64_t)1 << 20)
#define SIZES    5
#define DROPPED  2 /* the former size's, and one to warm up */
#define MEASURED 3
#define NEVER    INT64_MAX

static const uint64_t sizes[SIZES] = {4 * MIB, MIB, 2 * MIB, 8 * MIB, 16 * MIB};

static void begin(rg_reducer *r)
{
    rg__tuning *t = &r->tuning;
    t->nth = t->looks = 0;
    t->least_ns = t->best_ns = NEVER;
    t->best = t->now = r->params.bucket_bytes;
}

static bool is_asked_for(void)
{
    const rg__library_settings *settings = NULL;
    return rg__library_settings_get(&settings) == RG_OK && settings->autotune;
}

/* A size set by the program is kept, and so is the order of sums. */
void rg__tuning_create(rg_reducer *r)
{
    const rg_reducer_params *p = &r->params;
    r->tuning.is_over = p->bucket_bytes != 0 || p->deterministic || p->adasum ||
                        !is_asked_for();
    r->tuning.is_on = !r->tuning.is_over;
    if (r->params.bucket_bytes == 0)
        r->params.bucket_bytes = sizes[0];
    begin(r);
}

static void write_log(const rg_reducer *r, const char *what, int64_t ns)
{
    const rg__library_settings *settings = NULL;
    const rg__tuning *t = &r->tuning;
    const double ms = (double)ns / rg_set_size(r->set) / 1e6;
    rg__log(RG__DEBUG, "reducer", "%s: buckets of %llu bytes: %g ms", what,
            (unsigned long long)t->now, ms);
    if (rg_set_rank(r->set) != 0 ||
        rg__library_settings_get(&settings) != RG_OK ||
        settings->autotune_log == NULL)
        return;
    FILE *file = fopen(settings->autotune_log, "a");
    if (file == NULL) {
        rg__log(RG__WARN, "reducer", "the autotune log %s can't be opened",
                settings->autotune_log);
        return;
    }
    fprintf(file, "%s,%llu,%.3f\n", what, (unsigned long long)t->now, ms);
    fclose(file);
}

static void take_next(rg_reducer *r)
{
    rg__tuning *t = &r->tuning;
    write_log(r, "measured", t->least_ns);
    if (t->least_ns < t->best_ns) {
        t->best = t->now;
        t->best_ns = t->least_ns;
    }
    t->looks = 0;
    t->least_ns = NEVER;
    t->is_over = ++t->nth == SIZES;
    t->now = t->is_over ? t->best : sizes[t->nth];
    if (t->is_over)
        write_log(r, "chosen", t->best_ns);
}

bool rg__tuning_look(rg_reducer *r, int64_t ns)
{
    rg__tuning *t = &r->tuning;
    if (t->is_over)
        return false;
    if (t->looks++ >= DROPPED && ns < t->least_ns)
        t->least_ns = ns;
    if (t->looks < DROPPED + MEASURED)
        return false;
    take_next(r);
    return true;
}

rg_status rg__tuning_share(rg_reducer *r)
{
    rg__tuning *t = &r->tuning;
    uint64_t best = 0;
    if (!t->is_on)
        return RG_OK;
    if (rg_set_rank(r->set) == 0 && t->is_over)
        best = t->best;
    const rg_status st = rg_allreduce(r->set, &best, &best, 1, RG_U64, RG_SUM);
    if (st != RG_OK)
        return st;
    t->is_over = best != 0;
    if (t->is_over)
        t->now = t->best = best;
    else
        begin(r);
    return RG_OK;
}
