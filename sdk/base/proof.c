#include "sdk/base/proof.h"

#include <sodium.h>
#include <string.h>
#include <sys/random.h>

#include "sdk/base/fail.h"
#include "sdk/base/wire.h"

_Static_assert(RG__MAC_BYTES == crypto_auth_hmacsha512256_BYTES, "HMAC");
_Static_assert(RG__KEY_BYTES == crypto_auth_hmacsha512256_KEYBYTES, "HMAC");

void rg__mac_make(uint8_t mac[RG__MAC_BYTES], const uint8_t *key,
                  const char *label, const void *a, size_t a_bytes,
                  const void *b, size_t b_bytes)
{
    crypto_auth_hmacsha512256_state s;
    const uint64_t n = a_bytes;
    crypto_auth_hmacsha512256_init(&s, key, RG__KEY_BYTES);
    crypto_auth_hmacsha512256_update(&s, (const unsigned char *)label,
                                     strlen(label) + 1);
    crypto_auth_hmacsha512256_update(&s, (const unsigned char *)&n, sizeof n);
    crypto_auth_hmacsha512256_update(&s, a, a_bytes);
    crypto_auth_hmacsha512256_update(&s, b, b_bytes);
    crypto_auth_hmacsha512256_final(&s, mac);
}

bool rg__mac_is(const uint8_t mac[RG__MAC_BYTES], const uint8_t *key,
                const char *label, const void *a, size_t a_bytes, const void *b,
                size_t b_bytes)
{
    uint8_t right[RG__MAC_BYTES];
    rg__mac_make(right, key, label, a, a_bytes, b, b_bytes);
    return sodium_memcmp(right, mac, RG__MAC_BYTES) == 0;
}

rg_status rg__random_bytes(void *to, size_t n)
{
    if (getrandom(to, n, 0) == (ssize_t)n)
        return RG_OK;
    return rg__fail(RG_ERR_SYSTEM, "the system gives no random numbers");
}

void rg__hex(char *text, const void *bytes, size_t n)
{
    sodium_bin2hex(text, 2 * n + 1, bytes, n);
}

bool rg__unhex(void *bytes, size_t n, const char *text)
{
    size_t found = 0;
    return sodium_hex2bin(bytes, n, text, strlen(text), NULL, &found, NULL) ==
               0 &&
           found == n;
}

rg_status rg__random_name(char text[33])
{
    uint8_t bytes[16] = {0};
    const rg_status st = rg__random_bytes(bytes, sizeof bytes);
    rg__hex(text, bytes, sizeof bytes);
    return st;
}
