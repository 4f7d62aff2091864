#include "tests/fuzz/fuzz.h"

#include "sdk/base/log.h"

/* libFuzzer's own names. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
const char *__ubsan_default_options(void);

/* What UBSan finds counts like a crash. */
const char *__ubsan_default_options(void)
{
    return "halt_on_error=1:print_stacktrace=1";
}

/* Bad input draws warnings by the thousand. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    rg__log_levels("error");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    fuzz_one(bytes, n);
    return 0;
}
