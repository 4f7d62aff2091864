/* The segment of page and record: only the page is reserved, the record costs
 * the memory of what is written. */
#include "sdk/base/record.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/shm.h"

#define CLOSE_NS                                                               \
    10000 /* a shorter time between two waits is not worth an
                          event of its own */

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

static void put(rg__record *record, const rg__span *span)
{
    const uint64_t written =
        atomic_load_explicit(&record->written, memory_order_relaxed);
    if (written - atomic_load_explicit(&record->read, memory_order_acquire) >=
        RG__SPANS) {
        atomic_fetch_add(&record->dropped, 1);
        return;
    }
    record->span[written % RG__SPANS] = *span;
    atomic_store_explicit(&record->written, written + 1, memory_order_release);
}

static bool continues(const rg__span *wait, const rg__span *s)
{
    return s->span == RG__SPAN_WAIT && wait->begun_ns != 0 &&
           s->begun_ns >= wait->begun_ns && s->number == wait->number &&
           s->generation == wait->generation &&
           (s->begun_ns <= wait->ended_ns ||
            s->begun_ns - wait->ended_ns < CLOSE_NS);
}

/* A reader looks at begun_ns before and after. */
static void set_wait(rg__span *wait, const rg__span *s)
{
    rg__span next = *s;
    next.begun_ns = 0;
    *wait = next;
    __atomic_store_n(&wait->begun_ns, s->begun_ns, __ATOMIC_RELEASE);
}

static void put_program(rg__record *record, const rg__span *span)
{
    rg__span *wait = &record->wait;
    if (continues(wait, span)) {
        if (span->ended_ns > wait->ended_ns)
            wait->ended_ns = span->ended_ns;
        return;
    }
    if (wait->begun_ns != 0)
        put(record, wait);
    if (span->span == RG__SPAN_WAIT) {
        set_wait(wait, span);
    } else {
        wait->begun_ns = 0;
        put(record, span);
    }
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
    if (span->span == RG__SPAN_OP)
        put(record, span);
    else
        put_program(record, span);
    atomic_store_explicit(&record->writing, 0, memory_order_release);
}

bool rg__record_wait(const rg__record *record, rg__span *wait_p)
{
    const uint64_t begun =
        __atomic_load_n(&record->wait.begun_ns, __ATOMIC_ACQUIRE);
    *wait_p = record->wait;
    return begun != 0 && wait_p->begun_ns == begun &&
           __atomic_load_n(&record->wait.begun_ns, __ATOMIC_ACQUIRE) == begun;
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
