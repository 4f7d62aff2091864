/* Base64, both ways (RFC 4648, section 4). The decoder also refuses bits that
 * would be lost ("AB==" for one byte): one sequence of bytes has one text. */
#include "elastic/etcd/base64.h"

#include <stdint.h>

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t rg__base64_chars(size_t n)
{
    return (n + 2) / 3 * 4;
}

size_t rg__base64_bytes(size_t n)
{
    return n / 4 * 3;
}

static void encode_group(const unsigned char *in, size_t n, char *out)
{
    const uint32_t bits = (uint32_t)in[0] << 16 |
                          (n > 1 ? (uint32_t)in[1] << 8 : 0) |
                          (n > 2 ? (uint32_t)in[2] : 0);
    out[0] = alphabet[bits >> 18];
    out[1] = alphabet[bits >> 12 & 63];
    out[2] = n > 1 ? alphabet[bits >> 6 & 63] : '=';
    out[3] = n > 2 ? alphabet[bits & 63] : '=';
}

void rg__base64_encode(const void *bytes, size_t n, char *text)
{
    const unsigned char *in = bytes;
    for (size_t at = 0; at < n; at += 3, text += 4)
        encode_group(in + at, n - at, text);
}

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

/* How many bytes the last group holds: 3 less its padding. */
static size_t last_bytes(const char *group)
{
    if (group[3] != '=')
        return 3;
    return group[2] != '=' ? 2 : 1;
}

static bool decode_group(const char *in, size_t bytes, unsigned char *out)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        const int d = i <= bytes ? digit(in[i]) : 0;
        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
    }
    const uint32_t lost = bits & ((UINT32_C(1) << (24 - 8 * bytes)) - 1);
    if (lost != 0)
        return false;
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(bits >> (16 - 8 * i));
    return true;
}

bool rg__base64_decode(const char *text, size_t n, void *bytes, size_t *n_p)
{
    if (n % 4 != 0)
        return false;
    unsigned char *out = bytes;
    size_t made = 0;
    for (size_t at = 0; at < n; at += 4) {
        const size_t in_group = at + 4 == n ? last_bytes(text + at) : 3;
        if (!decode_group(text + at, in_group, out + made))
            return false;
        made += in_group;
    }
    *n_p = made;
    return true;
}
