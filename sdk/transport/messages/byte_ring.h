/* A lane in memory: bytes from one writer to one reader.
 *
 * Threads: one writes and one reads, in one process or in two. The other side
 * may have overwritten anything; then the ring looks full to its writer and
 * empty to its reader, or its bytes are wrong. */
#ifndef RG_TRANSPORT_BYTE_RING_H
#define RG_TRANSPORT_BYTE_RING_H

#include <stdatomic.h>

#include "sdk/base/copy.h"
#include "sdk/base/least.h"
#include "sdk/transport/messages/messages.h"

typedef struct rg__byte_ring {
    _Alignas(128) _Atomic uint64_t written; /* bytes, ever */
    _Alignas(128) _Atomic uint64_t read;
    _Alignas(128) char data[RG__LANE_BYTES];
} rg__byte_ring;

static inline size_t rg__byte_ring_put(rg__byte_ring *ring, const char *from,
                                       size_t n)
{
    const uint64_t at =
        atomic_load_explicit(&ring->written, memory_order_relaxed);
    const uint64_t used =
        at - atomic_load_explicit(&ring->read, memory_order_acquire);
    if (used >= RG__LANE_BYTES)
        return 0;
    const uint64_t place = at % RG__LANE_BYTES;
    n = rg__least(n, RG__LANE_BYTES - used);
    const size_t first = rg__least(n, RG__LANE_BYTES - place);
    rg__copy(ring->data + place, from, first);
    rg__copy(ring->data, from + first, n - first);
    atomic_store_explicit(&ring->written, at + n, memory_order_release);
    return n;
}

static inline size_t rg__byte_ring_get(rg__byte_ring *ring, char *to, size_t n)
{
    const uint64_t at = atomic_load_explicit(&ring->read, memory_order_relaxed);
    const uint64_t here =
        atomic_load_explicit(&ring->written, memory_order_acquire) - at;
    if (here == 0 || here > RG__LANE_BYTES)
        return 0;
    const uint64_t place = at % RG__LANE_BYTES;
    n = rg__least(n, here);
    const size_t first = rg__least(n, RG__LANE_BYTES - place);
    rg__copy(to, ring->data + place, first);
    rg__copy(to + first, ring->data, n - first);
    atomic_store_explicit(&ring->read, at + n, memory_order_release);
    return n;
}

#endif
