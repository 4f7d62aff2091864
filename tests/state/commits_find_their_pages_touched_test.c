/* The vault's pages of replicated memory are there, and mapped, once a buffer
 * is registered: none of the first commits waits for the kernel.
 *
 * Covers: register.c shm.c */
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "elastic/state/state.h"
#include "tests/check.h"
#include "tests/state/room.h"

#define BYTES ((size_t)16 << 20)
#define FEW   256 /* of the 4096 pages that a commit writes */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static char memory[BYTES];

static long faults(void)
{
    struct rusage used;
    CHECK_EQ(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_minflt;
}

static void skip_on_an_old_kernel(void)
{
    char *page = mmap(NULL, RG__PAGE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    if (madvise(page, RG__PAGE_BYTES, MADV_POPULATE_READ) != 0)
        SKIP("this kernel has no MADV_POPULATE_READ");
    munmap(page, RG__PAGE_BYTES);
}

static rg_status train(rg_state *st, void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) { /* into every vault slot */
        const long before = faults();
        CHECK_OK(rg_state_commit(st));
        CHECK(faults() - before < FEW);
    }
    return RG_OK;
}

int main(void)
{
    rg_ctx *ctx;
    skip_on_an_old_kernel();
    memset(memory, 'm', BYTES);
    rg_state *st = room_begin(&ctx);
    CHECK_OK(rg_state_add(st, "memory", memory, BYTES, NULL));
    CHECK_OK(rg_run(st, train, NULL));
    room_end(ctx, st);
    return 0;
}
