/* How many descriptors this process has open, and one for the count itself. */
#ifndef TESTS_DESCRIPTORS_H
#define TESTS_DESCRIPTORS_H

#include <dirent.h>

#include "tests/check.h"

static inline int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    int n = 0;
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

#endif
