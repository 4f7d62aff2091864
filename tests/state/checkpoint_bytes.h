/* Opens and verifies a checkpoint that lies in memory as one whole file. */
#ifndef RG_TESTS_CHECKPOINT_BYTES_H
#define RG_TESTS_CHECKPOINT_BYTES_H

#include <inttypes.h>

#include "elastic/state/checkpoint.h"
#include "sdk/base/copy.h"
#include "sdk/base/fail.h"

static inline rg_status open_bytes(void *arg, uint32_t file, uint64_t bytes)
{
    (void)arg;
    (void)bytes;
    return rg__fail(RG_ERR_DAMAGED,
                    "a checkpoint in memory is damaged: its file %" PRIu32
                    " is not there; read it from its directory",
                    file);
}

static inline rg_status read_bytes(void *arg, uint32_t file, uint64_t at,
                                   void *to, size_t n)
{
    (void)file;
    rg__copy(to, (const unsigned char *)arg + at, n);
    return RG_OK;
}

static inline rg_status read_checkpoint(const void *bytes, size_t n,
                                        rg__checkpoint *c)
{
    const rg__checkpoint_source source = {.name = "in memory",
                                          .bytes = n,
                                          .open = open_bytes,
                                          .read = read_bytes,
                                          .arg = (void *)(uintptr_t)bytes};
    rg_status st = rg__checkpoint_open(c, &source);
    if (st != RG_OK)
        return st;
    st = rg__checkpoint_verify(c, &source);
    if (st != RG_OK)
        rg__checkpoint_close(c);
    return st;
}

#endif
