/* The text of a request while it is being written. Only fixed names, numbers
 * and base64 go in, so nothing needs quoting. Running out of memory is
 * remembered and reported by take. */
#ifndef RG_ELASTIC_ETCD_BODY_H
#define RG_ELASTIC_ETCD_BODY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rg__body {
    char *text;
    size_t n, capacity;
    bool has_failed;
} rg__body; /* zeroed: empty */

void rg__body_add(rg__body *body, const char *text);
void rg__body_addf(rg__body *body, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "name":"base64 of bytes" */
void rg__body_bytes(rg__body *body, const char *name, const void *bytes,
                    size_t n);
/* "key":…[,"range_end":…]; an empty range_end means "to the last key". */
void rg__body_range(rg__body *body, const char *key, const char *range_end);
bool rg__body_is_empty(const rg__body *body);
void rg__body_free(rg__body *body);
/* The text, malloc'd, the body empty again. NULL: there was no memory. */
char *rg__body_take(rg__body *body);

#endif
