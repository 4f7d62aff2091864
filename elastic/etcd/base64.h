/* Standard base64 with padding, and nothing else: etcd refuses the rest, and a
 * lenient decoder would hide a broken stream. */
#ifndef RG_ELASTIC_ETCD_BASE64_H
#define RG_ELASTIC_ETCD_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Characters that n bytes become; without a NUL. */
size_t rg__base64_chars(size_t n);
/* Write exactly rg__base64_chars(n) characters, no NUL. */
void rg__base64_encode(const void *bytes, size_t n, char *text);

/* Bytes that a text of n characters becomes at most. */
size_t rg__base64_bytes(size_t n);
/* false: not base64, and what lies in bytes means nothing. */
bool rg__base64_decode(const char *text, size_t n, void *bytes, size_t *n_p);

#endif
