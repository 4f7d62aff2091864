/* Entries of REGROUP_FAILPOINT. They are read once per process, so the reader
 * is taken in here as it stands, and no entry ever strikes. */
#include "sdk/base/failpoint.c"

#include "tests/fuzz/fuzz.h"

static void check_entry(char *text)
{
    entry e = {0};
    if (!read_entry(text, &e))
        return;
    FUZZ_CLAIM(e.name != NULL && e.name[0] != '\0' && e.action != NULL);
    FUZZ_CLAIM(e.action->has_number || e.number == 0);
    FUZZ_CLAIM(is_met(&e, e.name, e.rank == ANY ? -1 : (int)e.rank, e.step,
                      e.generation) ||
               e.rank > INT32_MAX || e.start != ANY);
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    char *text = fuzz_line(&in), *save = NULL;
    for (char *part = strtok_r(text, ",", &save); part != NULL;
         part = strtok_r(NULL, ",", &save))
        check_entry(part);
    free(text);
}
