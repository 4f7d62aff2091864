/* Standard base64 with padding, and nothing else: etcd refuses the rest, and a
 * lenient decoder would hide a broken stream. Bits that would be lost are
 * refused, too ("AB==" for one byte): one sequence of bytes has one text. */
#ifndef RG_ELASTIC_ETCD_BASE64_H
#define RG_ELASTIC_ETCD_BASE64_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>

/* Characters that n bytes become; without a NUL. */
static inline size_t rg__base64_chars(size_t n)
{
    return (n + 2) / 3 * 4;
}

/* Write rg__base64_chars(n) characters and a NUL. */
static inline void rg__base64_encode(const void *bytes, size_t n, char *text)
{
    sodium_bin2base64(text, rg__base64_chars(n) + 1, bytes, n,
                      sodium_base64_VARIANT_ORIGINAL);
}

/* Bytes that a text of n characters becomes at most. */
static inline size_t rg__base64_bytes(size_t n)
{
    return n / 4 * 3;
}

/* false: not base64, and what lies in bytes means nothing. */
static inline bool rg__base64_decode(const char *text, size_t n, void *bytes,
                                     size_t *n_p)
{
    return sodium_base642bin(bytes, rg__base64_bytes(n), text, n, NULL, n_p,
                             NULL, sodium_base64_VARIANT_ORIGINAL) == 0;
}

#endif
