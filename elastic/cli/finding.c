#include "elastic/cli/finding.h"

#include <stdarg.h>
#include <stdio.h>

rg__finding rg__find(rg__verdict verdict, const char *format, ...)
{
    rg__finding f = {.verdict = verdict};
    va_list args;
    va_start(args, format);
    vsnprintf(f.text, sizeof f.text, format, args);
    va_end(args);
    return f;
}

bool rg__finding_print(const char *name, const rg__finding *finding)
{
    static const char *const words[] = {"ok", "warn", "fail"};
    printf("%-4s  %-18s  %s\n", words[finding->verdict], name, finding->text);
    fflush(stdout); /* the next look may fork, or take a while */
    return finding->verdict == RG__FAIL;
}
