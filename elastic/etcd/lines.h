/* Cut a stream of bytes into lines, wherever its chunks were cut. */
#ifndef RG_ELASTIC_ETCD_LINES_H
#define RG_ELASTIC_ETCD_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "regroup/regroup.h"

typedef struct rg__lines {
    char *bytes;
    size_t n, capacity;
    size_t start;   /* of the line that is next */
    size_t scanned; /* no newline in [start, scanned) */
    size_t max;     /* bytes of a line */
} rg__lines;

void rg__lines_open(rg__lines *lines, size_t max);
void rg__lines_close(rg__lines *lines);

/* ERR_MEMORY; ERR_STORE: a line is longer than max. */
rg_status rg__lines_add(rg__lines *lines, const char *bytes, size_t n);
/* The next whole line without its newline, borrowed until the next add. */
bool rg__lines_next(rg__lines *lines, const char **line_p, size_t *n_p);
/* At the end of the stream: what follows the last newline. etcd's last error
 * comes without one. */
bool rg__lines_rest(rg__lines *lines, const char **line_p, size_t *n_p);

#endif
