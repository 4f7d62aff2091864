/* Elements of every type as numbers, and what an op makes of them: the closed
 * form that results are compared with. Threads: any. */
#ifndef TESTS_LIB_ELEMENTS_H
#define TESTS_LIB_ELEMENTS_H

#include "regroup/regroup.h"

/* Elements of any type as numbers; F16 and BF16 are rounded to nearest even. */
void put(rg_type type, void *data, uint64_t i, double value);
double get(rg_type type, const void *data, uint64_t i);

/* What element i of a rank is: small, so that sums and products are exact. */
double element_of(int rank, uint64_t i);

/* The op over n numbers as the type computes it. */
double computed(rg_type type, rg_op op, const double *x, int n);

extern const char *const type_names[11];
extern const char *const op_names[11];

#endif
