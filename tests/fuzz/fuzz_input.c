#include "tests/fuzz/fuzz.h"

#include <string.h>

#define STEP_END 0x1e

uint8_t fuzz_byte(fuzz_input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

uint64_t fuzz_number(fuzz_input *in, size_t bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n |= (uint64_t)fuzz_byte(in) << (8 * i);
    return n;
}

size_t fuzz_take(fuzz_input *in, size_t n, const uint8_t **bytes_p)
{
    const size_t got = n < in->left ? n : in->left;
    *bytes_p = in->at;
    in->at += got;
    in->left -= got;
    return got;
}

uint8_t fuzz_digit(fuzz_input *in)
{
    return (uint8_t)(fuzz_byte(in) - '0') % 10;
}

uint64_t fuzz_decimal(fuzz_input *in)
{
    uint64_t n = 0;
    if (in->left > 0 && *in->at == ' ')
        fuzz_byte(in);
    for (int i = 0; i < 19 && in->left > 0 && *in->at >= '0' && *in->at <= '9';
         i++)
        n = 10 * n + fuzz_byte(in) - '0';
    return n;
}

fuzz_input fuzz_step(fuzz_input *in)
{
    const uint8_t *end =
        in->left > 0 ? memchr(in->at, STEP_END, in->left) : NULL;
    fuzz_input step = *in;
    if (end != NULL)
        step.left = (size_t)(end - in->at);
    const size_t used = step.left + (end != NULL);
    in->at += used;
    in->left -= used;
    return step;
}

char *fuzz_line(fuzz_input *in)
{
    const uint8_t *line = in->at;
    const uint8_t *end = in->left > 0 ? memchr(line, '\n', in->left) : NULL;
    const size_t n = end != NULL ? (size_t)(end - line) : in->left;
    in->at += n + (end != NULL);
    in->left -= n + (end != NULL);
    char *copy = malloc(n + 1);
    FUZZ_CLAIM(copy != NULL);
    if (n > 0)
        memcpy(copy, line, n);
    copy[n] = '\0';
    return copy;
}
