/* What the fuzzers share. A target is one C file with fuzz_one(); libFuzzer
 * calls it under the preset `fuzz`, replay.c in all other builds, there over
 * the seeds only.
 *
 * Threads:   one.
 * Ownership: the bytes are borrowed until fuzz_one returns, and lie in a block
 *            of exactly n of them, so that a sanitizer sees what reads beyond.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* One input. Must leave nothing behind: no memory, no descriptor, no state
 * that the next input could see. */
void fuzz_one(const uint8_t *bytes, size_t n);

/* What must hold whatever the input is; the fuzzer keeps one that breaks it. */
#define FUZZ_CLAIM(claim)                                                      \
    do {                                                                       \
        if (!(claim)) {                                                        \
            dprintf(2, "%s:%d: claim does not hold: %s\n", __FILE__, __LINE__, \
                    #claim);                                                   \
            abort();                                                           \
        }                                                                      \
    } while (0)

/* An input that is read from its front; zeros and nothing once it is over. */
typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;

uint8_t fuzz_byte(fuzz_input *in);
uint64_t fuzz_number(fuzz_input *in, size_t bytes); /* little-endian */
/* The next n bytes, or as many as there are; returns how many. */
size_t fuzz_take(fuzz_input *in, size_t n, const uint8_t **bytes_p);
uint8_t fuzz_digit(fuzz_input *in);    /* 0 to 9 of any byte */
uint64_t fuzz_decimal(fuzz_input *in); /* digits, behind a space or none */
/* Up to the next byte 0x1e, which is taken too. */
fuzz_input fuzz_step(fuzz_input *in);
/* Up to the next newline, which is taken too; malloc'd, with a NUL behind. */
char *fuzz_line(fuzz_input *in);

#endif
