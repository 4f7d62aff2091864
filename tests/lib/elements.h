/* Elements of every type as numbers, what an op makes of them, and patterns of
 * them: the closed form that results are compared with. Threads: any. */
#ifndef TESTS_LIB_ELEMENTS_H
#define TESTS_LIB_ELEMENTS_H

#include <stdbool.h>

#include "regroup/regroup.h"

/* Elements of any type as numbers; F16 and BF16 are rounded to nearest even. */
void put(rg_type type, void *data, uint64_t i, double value);
double get(rg_type type, const void *data, uint64_t i);

/* The op over n numbers as the type computes it. */
double computed(rg_type type, rg_op op, const double *x, int n);

bool is_float(rg_type type);
bool is_signed(rg_type type);

/* A number times a scale, as in an op; 0: the number itself. */
double scaled(rg_type type, double value, double by);

/* Elements that come again after PATTERN_PERIOD, a prime: what is a slot, a
 * page or a part too far or too near is another one. */
#define PATTERN_PERIOD 251
typedef struct pattern {
    size_t element; /* bytes */
    char at[PATTERN_PERIOD * 8];
} pattern;

/* Make a pattern of values[PATTERN_PERIOD]. */
pattern pattern_of(rg_type type, const double *values);

/* Make the pattern of bytes of a seed. */
pattern pattern_of_bytes(uint64_t seed);

/* Write `count` elements of the pattern, from its element `first` on. */
void pattern_write(const pattern *p, void *at, uint64_t first, uint64_t count);

/* The first of `count` elements that differs from the pattern, compared from
 * its element `first` on; count: none does. */
uint64_t pattern_wrong(const pattern *p, const void *at, uint64_t first,
                       uint64_t count);

extern const char *const type_names[11];
extern const char *const op_names[11];

#endif
