#include "tests/bench/collectives/values.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool value_wrong(const char *format, ...)
{
    va_list args;
    fprintf(stderr, "bench_collectives: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "; see bench_collectives --help\n");
    return false;
}

int value_find(const char *const *names, int count, const char *name, size_t n)
{
    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == n && strncmp(names[i], name, n) == 0)
            return i;
    return -1;
}

bool value_name(const char *const *names, int count, const char *option,
                const char *text, int *at_p)
{
    const int at = value_find(names, count, text, strlen(text));
    if (at < 0)
        return value_wrong("--%s knows no \"%s\"", option, text);
    *at_p = at;
    return true;
}

bool value_size(const char *text, const char **end_p, uint64_t *size_p)
{
    static const char units[] = "KMG";
    char *end = NULL;
    uint64_t size = strtoull(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    if (end == text || *text == '-')
        return value_wrong("\"%s\" is no size, such as 8, 64K or 16M", text);
    for (long i = 0; unit != NULL && i <= unit - units; i++)
        size <<= 10;
    end += unit != NULL;
    if ((*end != '\0' && *end != ',') || size == 0)
        return value_wrong("\"%s\" is no size, such as 8, 64K or 16M", text);
    *end_p = end;
    *size_p = size;
    return true;
}

bool value_one_size(const char *option, const char *text, uint64_t *size_p)
{
    const char *end = "";
    if (!value_size(text, &end, size_p))
        return false;
    return *end == '\0' || value_wrong("--%s takes one size", option);
}

bool value_pair(const char *option, const char *first, const char *second,
                const char *text, bool *pair)
{
    const char *const names[] = {first, second, "both"};
    int at = 0;
    if (!value_name(names, 3, option, text, &at))
        return false;
    pair[0] = at != 1;
    pair[1] = at != 0;
    return true;
}

bool value_number(const char *option, const char *text, double least,
                  double most, double *number_p)
{
    char *end = NULL;
    const double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= least) || number > most)
        return value_wrong("--%s takes a number from %g to %g, not \"%s\"",
                           option, least, most, text);
    *number_p = number;
    return true;
}

bool value_count(const char *option, const char *text, int least, int *count_p)
{
    double number = 0;
    if (!value_number(option, text, least, 1e6, &number))
        return false;
    *count_p = (int)number;
    return true;
}
