/* Lines of a stream. Bytes are kept until their newline has come, and looked
 * at once: a line of megabytes arrives in hundreds of chunks. */
#include "elastic/etcd/lines.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"

void rg__lines_open(rg__lines *lines, size_t max)
{
    *lines = (rg__lines){.max = max};
}

void rg__lines_close(rg__lines *lines)
{
    free(lines->bytes);
    *lines = (rg__lines){0};
}

static void drop_read_lines(rg__lines *lines)
{
    if (lines->start == 0)
        return;
    lines->n -= lines->start;
    lines->scanned -= lines->start;
    memmove(lines->bytes, lines->bytes + lines->start, lines->n);
    lines->start = 0;
}

static rg_status make_room(rg__lines *lines, size_t n)
{
    if (lines->n + n <= lines->capacity)
        return RG_OK;
    const size_t capacity = 2 * (lines->n + n);
    char *bytes = realloc(lines->bytes, capacity);
    if (bytes == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %zu bytes of a watch",
                        capacity);
    lines->bytes = bytes;
    lines->capacity = capacity;
    return RG_OK;
}

rg_status rg__lines_add(rg__lines *lines, const char *bytes, size_t n)
{
    drop_read_lines(lines);
    if (n == 0)
        return RG_OK;
    if (lines->n + n > lines->max && memchr(bytes, '\n', n) == NULL)
        return rg__fail(RG_ERR_STORE, "a watch sent a line of over %zu bytes",
                        lines->max);
    const rg_status st = make_room(lines, n);
    if (st != RG_OK)
        return st;
    memcpy(lines->bytes + lines->n, bytes, n);
    lines->n += n;
    return RG_OK;
}

bool rg__lines_next(rg__lines *lines, const char **line_p, size_t *n_p)
{
    if (lines->scanned == lines->n)
        return false;
    const char *from = lines->bytes + lines->scanned;
    const char *end = memchr(from, '\n', lines->n - lines->scanned);
    if (end == NULL) {
        lines->scanned = lines->n;
        return false;
    }
    *line_p = lines->bytes + lines->start;
    *n_p = (size_t)(end - *line_p);
    lines->start += *n_p + 1;
    lines->scanned = lines->start;
    return true;
}

bool rg__lines_rest(rg__lines *lines, const char **line_p, size_t *n_p)
{
    if (lines->start == lines->n)
        return false;
    *line_p = lines->bytes + lines->start;
    *n_p = lines->n - lines->start;
    lines->start = lines->scanned = lines->n;
    return true;
}
