/* What this process writes to standard error while a function runs. */
#ifndef TESTS_BASE_STDERR_H
#define TESTS_BASE_STDERR_H

#include <unistd.h>

#include "tests/check.h"

static inline char *stderr_of(void (*fn)(void))
{
    static char text[8192];
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    const int saved = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    fn();
    dup2(saved, STDERR_FILENO);
    close(saved);
    const ssize_t n = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

#endif
