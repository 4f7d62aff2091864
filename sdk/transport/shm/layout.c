#include "sdk/transport/shm/layout.h"

#define HUGE_BYTES ((uint64_t)2 << 20)

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

rg__layout rg__shm_layout(int local_size, uint32_t sets)
{
    const uint64_t n = (uint64_t)local_size;
    const uint64_t lanes = sets > 1 ? n * n : 0;
    rg__layout l;
    l.left = round_up(n * sizeof(rg__bell_line), RG__PAGE_BYTES);
    l.lanes = round_up(l.left + sets * n * sizeof(uint32_t), RG__PAGE_BYTES);
    l.verdicts = round_up(l.lanes + lanes * sizeof(rg__byte_ring), HUGE_BYTES);
    l.mailboxes = l.verdicts + n * sizeof(rg__exchange_verdict);
    l.small = round_up(l.mailboxes + n * sizeof(rg__mailbox), RG__PAGE_BYTES);
    l.medium = l.small + n * 2 * SMALL_BYTES;
    l.staging = round_up(l.medium + n * 2 * MEDIUM_BYTES, HUGE_BYTES);
    l.area =
        round_up(l.staging + n * STAGES * STAGE_BYTES, HUGE_BYTES) - l.verdicts;
    l.bytes = l.verdicts + l.area * sets;
    return l;
}

uint64_t rg__shm_control_bytes(int local_size, uint32_t sets)
{
    return rg__shm_layout(local_size, sets).bytes;
}
