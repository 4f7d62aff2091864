/* Allocators that fail when they are told to. The linker puts them before the
 * real ones (--wrap), which a test names in its CMakeLists.txt. */
#ifndef TESTS_NO_MEMORY_H
#define TESTS_NO_MEMORY_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static long allowed = -1; /* allocations until one fails; -1: none does */
static bool is_memory_out;

static bool must_fail(void)
{
    return is_memory_out || (allowed >= 0 && allowed-- == 0);
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t n);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t n)
{
    return must_fail() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return must_fail() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t n)
{
    return must_fail() ? NULL : __real_realloc(old, n);
}

char *__wrap_strdup(const char *text)
{
    return must_fail() ? NULL : __real_strdup(text);
}

#endif
