/* A worker without an agent has no process that could keep a vault beyond its
 * end: registering takes no memory, and commits copy nothing. A mistake in a
 * buffer is reported with its name.
 *
 * Covers: save.c state.c */
#include <stdlib.h>
#include <string.h>

#include "regroup/regroup.h"
#include "tests/check.h"

#define BYTES ((size_t)64 << 20)

static rg_ctx *ctx;

static long resident_kib(void)
{
    long kib = -1;
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    fclose(file);
    return kib;
}

static rg_status train(rg_state *st, void *arg)
{
    uint64_t *step = arg;
    while (*step < 5) {
        ++*step;
        CHECK_OK(rg_state_commit(st));
    }
    return RG_OK;
}

static void check_refused(rg_state *st, const char *name, void *data,
                          size_t bytes, const rg_buffer_params *params)
{
    CHECK_STATUS(rg_state_add(st, name, data, bytes, params), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), name) != NULL);
}

int main(void)
{
    rg_state *st;
    uint64_t step = 0;
    const rg_params params = {.size = sizeof params, .elastic = 1};
    const rg_buffer_params odd = {.size = 1},
                           kind = {.size = sizeof kind, .kind = 7};
    char *large = malloc(BYTES);
    CHECK(large != NULL);
    memset(large, 1, BYTES);
    CHECK_OK(rg_init(&params, &ctx));
    CHECK_OK(rg_state_create(ctx, NULL, &st));
    CHECK_OK(rg_state_add(st, "step", &step, sizeof step, NULL));
    const long before = resident_kib();
    CHECK_OK(rg_state_add(st, "large", large, BYTES, NULL));
    check_refused(st, "nothing", NULL, 8, NULL);
    check_refused(st, "empty", &step, 0, NULL);
    check_refused(st, "of another library", &step, 8, &odd);
    check_refused(st, "of another kind", &step, 8, &kind);
    check_refused(st, "large", &step, 8, NULL);
    CHECK_OK(rg_run(st, train, &step));
    CHECK_EQ(step, 5);
    CHECK(resident_kib() - before < (long)(BYTES >> 10) / 4);
    rg_state_destroy(st);
    CHECK_OK(rg_finalize(ctx));
    free(large);
    return 0;
}
