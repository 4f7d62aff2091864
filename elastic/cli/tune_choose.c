/* What measured times of reading and staging say, and when nothing. */
#include "elastic/cli/tune.h"

#include <stdbool.h>

#define CLEAR 1.10

static bool reading_wins(const rg__tune_point *p)
{
    bool is_clear = true;
    for (int t = 0; t < RG__TUNE_TURNS; t++)
        is_clear &= p->gain[t] >= CLEAR;
    return is_clear;
}

static bool staging_wins(const rg__tune_point *p)
{
    bool is_clear = true;
    for (int t = 0; t < RG__TUNE_TURNS; t++)
        is_clear &= p->gain[t] > 0 && p->gain[t] <= 1 / CLEAR;
    return is_clear;
}

uint64_t rg__tune_choose(const rg__tune_point *point, size_t n, uint64_t usual)
{
    size_t at = 0;
    while (at < n && point[at].bytes < usual)
        at++;
    const size_t from = at;
    while (at > 0 && reading_wins(&point[at - 1]))
        at--;
    if (at == from)
        while (at < n && staging_wins(&point[at]))
            at++;
    return at < n ? point[at].bytes : UINT64_MAX;
}
