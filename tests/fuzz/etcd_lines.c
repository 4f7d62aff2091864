/* A stream cut into lines: whatever its chunks were, the lines are the same.
 * Bytes 0 and 1: the longest line; then chunks, a length before each. */
#include <string.h>

#include "elastic/etcd/lines.h"
#include "tests/fuzz/fuzz.h"

typedef struct stream {
    uint8_t *bytes; /* all chunks in a row */
    size_t n;
    size_t told; /* bytes of it that lines have accounted for */
} stream;

static void check_line(stream *s, const char *line, size_t n, size_t newline)
{
    FUZZ_CLAIM(s->told + n + newline <= s->n);
    FUZZ_CLAIM(n == 0 || memcmp(line, s->bytes + s->told, n) == 0);
    FUZZ_CLAIM(n == 0 || memchr(line, '\n', n) == NULL);
    FUZZ_CLAIM(newline == 0 || s->bytes[s->told + n] == '\n');
    s->told += n + newline;
}

static void take_lines(rg__lines *lines, stream *s)
{
    const char *line = NULL;
    size_t n = 0;
    while (rg__lines_next(lines, &line, &n))
        check_line(s, line, n, 1);
    FUZZ_CLAIM(s->told == s->n ||
               memchr(s->bytes + s->told, '\n', s->n - s->told) == NULL);
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    rg__lines lines;
    stream s = {.bytes = malloc(n + 1)};
    bool is_short = true;
    FUZZ_CLAIM(s.bytes != NULL);
    rg__lines_open(&lines, fuzz_number(&in, 2));
    while (in.left > 0 && is_short) {
        const uint8_t *chunk = NULL;
        const size_t got = fuzz_take(&in, fuzz_byte(&in), &chunk);
        is_short = rg__lines_add(&lines, (const char *)chunk, got) == RG_OK;
        if (!is_short)
            break;
        memcpy(s.bytes + s.n, chunk, got);
        s.n += got;
        take_lines(&lines, &s);
    }
    const char *line = NULL;
    size_t rest = 0;
    if (is_short && rg__lines_rest(&lines, &line, &rest))
        check_line(&s, line, rest, 0);
    FUZZ_CLAIM(!is_short || s.told == s.n);
    rg__lines_close(&lines);
    free(s.bytes);
}
