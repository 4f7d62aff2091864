/* Proving that both ends of a connection, or the sender of a datagram, know
 * the job's key, without sending it: keyed hashes (HMAC-SHA512-256) over what
 * was sent. Functions without state; any thread. */
#ifndef RG_BASE_PROOF_H
#define RG_BASE_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "regroup/regroup.h"

#define RG__MAC_BYTES   32
#define RG__NONCE_BYTES 16

/* The MAC of label (with its '\0'), a and b in a row under the key of
 * RG__KEY_BYTES. The label says what is proved, so that a proof of one thing is
 * never valid for another; a contains its own length. */
void rg__mac_make(uint8_t mac[RG__MAC_BYTES], const uint8_t *key,
                  const char *label, const void *a, size_t a_bytes,
                  const void *b, size_t b_bytes);

/* Does the MAC match? Takes the same time for every wrong one. */
bool rg__mac_is(const uint8_t mac[RG__MAC_BYTES], const uint8_t *key,
                const char *label, const void *a, size_t a_bytes, const void *b,
                size_t b_bytes);

/* Bytes that can't be guessed. */
rg_status rg__random_bytes(void *to, size_t n);
/* The same as 32 hex digits; without random numbers they are zeros. */
rg_status rg__random_name(char text[33]);
/* 2 n digits and a NUL. */
void rg__hex(char *text, const void *bytes, size_t n);
/* Back again; false: these are not the digits of n bytes. */
bool rg__unhex(void *bytes, size_t n, const char *text);

#endif
