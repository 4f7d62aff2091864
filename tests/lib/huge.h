/* Is memory in huge pages, where this kernel gives any? */
#ifndef TESTS_HUGE_H
#define TESTS_HUGE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/check.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* How much of the mapping that begins there is in huge pages, in KiB. */
static long huge_kib(const void *at)
{
    char line[256];
    unsigned long begin = 0, of = 0;
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    while (kib < 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%lx-", &of) == 1 && strchr(line, '-') != NULL)
            begin = of;
        else if (begin == (unsigned long)at)
            (void)sscanf(line, "ShmemPmdMapped: %ld", &kib);
    fclose(file);
    return kib;
}

static void check_is_huge(void *at)
{
    CHECK_EQ((uintptr_t)at % HUGE_PAGE, 0);
    if (huge_kib(at) >= (long)(HUGE_PAGE >> 10))
        return;
    CHECK(madvise(at, HUGE_PAGE, 25 /* MADV_COLLAPSE */) != 0);
    printf("# this kernel gave no huge pages: %s\n", strerror(errno));
}

#endif
