/* The segment of page and record: only the page is reserved, the record costs
 * the memory of what is written. */
#include "sdk/base/record.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/shm.h"

rg_status rg__area_create(int *fd_p)
{
    int fd = -1;
    rg_status st = rg__shm_create("regroup-page", RG__AREA_BYTES, false, &fd);
    if (st != RG_OK)
        return st;
    st = rg__shm_reserve(fd, "regroup-page", 0, RG__PAGE_BYTES);
    if (st != RG_OK)
        close(fd);
    else
        *fd_p = fd;
    return st;
}

rg_status rg__area_map(int fd, rg__page **page_p, rg__record **record_p)
{
    void *at = NULL;
    const rg_status st = rg__shm_map(fd, RG__AREA_BYTES, &at);
    if (st != RG_OK)
        return st;
    *page_p = at;
    *record_p = rg__record_of(at);
    return RG_OK;
}

void rg__record_span(rg__record *record, const rg__span *span)
{
    uint32_t nobody = 0;
    while (!atomic_compare_exchange_weak_explicit(&record->writing, &nobody, 1,
                                                  memory_order_acquire,
                                                  memory_order_relaxed)) {
        nobody = 0;
        sched_yield();
    }
    const uint64_t written =
        atomic_load_explicit(&record->written, memory_order_relaxed);
    if (written - atomic_load_explicit(&record->read, memory_order_acquire) >=
        RG__SPANS) {
        atomic_fetch_add(&record->dropped, 1);
    } else {
        record->span[written % RG__SPANS] = *span;
        atomic_store_explicit(&record->written, written + 1,
                              memory_order_release);
    }
    atomic_store_explicit(&record->writing, 0, memory_order_release);
}

bool rg__is_scalar_name(const char *name)
{
    const size_t n = strnlen(name, RG__SCALAR_NAME);
    return n > 0 && n < RG__SCALAR_NAME &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                        "0123456789_.-/") == n;
}

void rg__record_scalars(rg__record *record, const rg__scalar *of_step, int n)
{
    const uint64_t written = atomic_load(&record->scalars_written);
    const uint64_t read = atomic_load(&record->scalars_read);
    if (written - read + (uint64_t)n > RG__SCALARS) {
        atomic_fetch_add(&record->scalars_dropped, (uint64_t)n);
        return;
    }
    for (int i = 0; i < n; i++)
        record->scalar[(written + (uint64_t)i) % RG__SCALARS] = of_step[i];
    atomic_store(&record->scalars_written, written + (uint64_t)n);
}

void rg__area_unmap(rg__page *page)
{
    rg__shm_unmap(page, RG__AREA_BYTES);
}
