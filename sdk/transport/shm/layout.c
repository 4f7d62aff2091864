#include "sdk/transport/shm/layout.h"

#define HUGE_BYTES ((uint64_t)2 << 20)

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

rg__layout rg__shm_layout(int local_size)
{
    const uint64_t n = (uint64_t)local_size, members = n * RG__SETS_MAX;
    rg__layout l;
    l.verdicts = round_up(n * sizeof(rg__bell_line), RG__PAGE_BYTES);
    l.mailboxes = l.verdicts + members * sizeof(rg__exchange_verdict);
    l.small =
        round_up(l.mailboxes + members * sizeof(rg__mailbox), RG__PAGE_BYTES);
    l.medium = l.small + members * 2 * SMALL_BYTES;
    l.staging = round_up(l.medium + members * 2 * MEDIUM_BYTES, HUGE_BYTES);
    l.lanes = l.staging + members * STAGES * STAGE_BYTES;
    l.bytes = round_up(l.lanes + n * n * sizeof(rg__byte_ring), HUGE_BYTES);
    return l;
}

uint64_t rg__shm_control_bytes(int local_size)
{
    return rg__shm_layout(local_size).bytes;
}
