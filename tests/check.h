/* Claims of a test. The first that fails prints where and what, and ends the
 * process with 1; SKIP ends it with 77, which CTest counts as skipped. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "regroup/regroup.h"

#define CHECK_FAIL(...)                                                        \
    do {                                                                       \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                        \
        fprintf(stderr, __VA_ARGS__);                                          \
        fputc('\n', stderr);                                                   \
        exit(1);                                                               \
    } while (0)

#define CHECK(claim)                                                           \
    do {                                                                       \
        if (!(claim))                                                          \
            CHECK_FAIL("claim does not hold: %s", #claim);                     \
    } while (0)

#define CHECK_EQ(a, b)                                                         \
    do {                                                                       \
        const long long check_a = (long long)(a), check_b = (long long)(b);    \
        if (check_a != check_b)                                                \
            CHECK_FAIL("%s is %lld, but %s is %lld", #a, check_a, #b,          \
                       check_b);                                               \
    } while (0)

#define CHECK_STR(a, b)                                                        \
    do {                                                                       \
        const char *check_a = (a), *check_b = (b);                             \
        if (strcmp(check_a, check_b) != 0)                                     \
            CHECK_FAIL("%s is \"%s\", but %s is \"%s\"", #a, check_a, #b,      \
                       check_b);                                               \
    } while (0)

#define CHECK_STATUS(call, expected)                                           \
    do {                                                                       \
        const rg_status check_st = (call);                                     \
        if (check_st != (expected))                                            \
            CHECK_FAIL("%s returned %s, not %s: %s", #call,                    \
                       rg_status_name(check_st), rg_status_name(expected),     \
                       rg_last_error());                                       \
    } while (0)

#define CHECK_OK(call) CHECK_STATUS(call, RG_OK)

/* n bytes have that value: in two calls, which sanitizers look at as a whole.
 */
#define CHECK_BYTES(at, value, n)                                              \
    CHECK((n) == 0 ||                                                          \
          (((const char *)(at))[0] == (char)(value) &&                         \
           memcmp((at), (const char *)(at) + 1, (n) - (size_t)1) == 0))

#define SKIP(reason)                                                           \
    do {                                                                       \
        printf("skipped: %s\n", reason);                                       \
        exit(77);                                                              \
    } while (0)

#endif
