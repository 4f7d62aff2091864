/* What `regroup doctor` finds: a verdict, and a sentence with the remedy.
 *
 * Threads:   any.
 * Ownership: texts are copied. */
#ifndef RG_ELASTIC_FINDING_H
#define RG_ELASTIC_FINDING_H

#include <stdbool.h>

typedef enum rg__verdict {
    RG__OK,
    RG__WEAK, /* a job runs, but something is weaker */
    RG__FAIL
} rg__verdict;

typedef struct rg__finding {
    rg__verdict verdict;
    char text[512];
} rg__finding;

rg__finding rg__find(rg__verdict verdict, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print a line of it; true: it is FAIL. */
bool rg__finding_print(const char *name, const rg__finding *finding);

#endif
