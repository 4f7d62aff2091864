/* Values of options. What is wrong is said in a sentence on standard error, and
 * false returned; outputs are written on success only.
 *
 * Threads: one. Ownership: nothing is kept. */
#ifndef TESTS_BENCH_COLLECTIVES_VALUES_H
#define TESTS_BENCH_COLLECTIVES_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Say what is wrong, and where to look; false. */
bool value_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The place of a name, n bytes long, or -1. */
int value_find(const char *const *names, int count, const char *name, size_t n);

bool value_name(const char *const *names, int count, const char *option,
                const char *text, int *at_p);

/* One size of a list, such as 64K: up to a comma or the end. */
bool value_size(const char *text, const char **end_p, uint64_t *size_p);
bool value_one_size(const char *option, const char *text, uint64_t *size_p);

/* first, second or both. */
bool value_pair(const char *option, const char *first, const char *second,
                const char *text, bool *pair);

bool value_number(const char *option, const char *text, double least,
                  double most, double *number_p);
bool value_count(const char *option, const char *text, int least, int *count_p);

#endif
