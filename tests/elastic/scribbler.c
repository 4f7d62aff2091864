/* Rank 0 waits in a barrier for rank 1, which writes into its own record (the
 * memory that its agent reads operations, spans and metrics from) for as long
 * as it lives: random bytes, positions of rings that are a little or far off,
 * and entries that could be true but for one number. It says so once it has
 * begun. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "regroup/regroup.h"
#include "sdk/base/clock.h"
#include "sdk/base/record.h"

static uint64_t state = 88172645463325252u;

static uint64_t any(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Where this process has it; NULL: nowhere. */
static rg__record *find_record(void)
{
    char line[512];
    unsigned long from = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && from == 0 && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "regroup-page") != NULL)
            sscanf(line, "%lx", &from);
    if (maps != NULL)
        fclose(maps);
    return from == 0 ? NULL
                     : rg__record_of((rg__page *)from); /* NOLINT: an address */
}

static void put_bytes(rg__record *r)
{
    for (int i = 0; i < 64; i++)
        ((char *)r)[any() % sizeof *r] = (char)any();
}

static void put_span(rg__record *r)
{
    const uint64_t now = rg__now_ns(), written = atomic_load(&r->written);
    rg__span *s = &r->span[written % RG__SPANS];
    *s = (rg__span){.queued_ns = now - any() % 4096,
                    .begun_ns = now - any() % 4096,
                    .ended_ns = now,
                    .count = any(),
                    .set = (uint32_t)(any() >> (any() % 64)),
                    .number = (uint32_t)any(),
                    .status = (int16_t)any(),
                    .span = (uint8_t)(any() % 6),
                    .kind = (uint8_t)any(),
                    .type = (uint8_t)any(),
                    .op = (uint8_t)any()};
    memset(s->what, (int)any(), sizeof s->what);
    atomic_store(&r->written, written + 1);
}

static void put_scalars(rg__record *r)
{
    const uint64_t written = atomic_load(&r->scalars_written);
    const uint32_t count = (uint32_t)(any() % 5), step = (uint32_t)any() % 9;
    for (uint32_t i = 0; i < count; i++) {
        rg__scalar *row = &r->scalar[(written + i) % RG__SCALARS];
        *row = (rg__scalar){.step = step, .value = 0.5, .count = count};
        memset(row->name, (int)('a' + any() % 3), any() % 65);
    }
    atomic_store(&r->scalars_written, written + count);
}

static void put_positions(rg__record *r)
{
    _Atomic uint64_t *const all[] = {&r->written, &r->read, &r->scalars_written,
                                     &r->scalars_read, &r->scalars_dropped};
    _Atomic uint64_t *one = all[any() % 5];
    atomic_store(one, any() % 2 == 0 ? any() : atomic_load(one) + any() % 9000);
    atomic_store(&r->half, (uint32_t)any());
    atomic_store(&r->generation[any() % 2].generation, any() % 2);
    atomic_store(&r->generation[any() % 2].lanes, (uint32_t)(any() % 70));
}

/* There is something, and in the next moment there is not. */
static void put_and_take(rg__record *r)
{
    const uint64_t at = any();
    for (int i = 0; i < 20000; i++) {
        atomic_store(&r->scalars_written, at + 1);
        atomic_store(&r->scalars_read, at);
        atomic_store(&r->scalars_read, at + 1);
    }
}

static void scribble(rg__record *r)
{
    static void (*const ways[])(rg__record *) = {
        put_bytes, put_span, put_scalars, put_positions, put_and_take};
    const struct timespec pause = {.tv_nsec = 100 * 1000};
    for (uint64_t i = 0;; i++) {
        ways[any() % 5](r);
        if (i % 256 == 0)
            nanosleep(&pause, NULL);
    }
}

int main(void)
{
    rg_ctx *ctx = NULL;
    if (rg_init(NULL, &ctx) != RG_OK || rg_barrier(rg_world(ctx)) != RG_OK)
        return 1;
    rg__record *record = find_record();
    if (record == NULL)
        return 1;
    if (rg_rank(ctx) == 1) {
        puts("it scribbles");
        fflush(stdout);
        scribble(record);
    }
    rg_barrier(rg_world(ctx));
    rg_finalize(ctx);
}
