#include "sdk/transport/native/layout.h"

#define HUGE_BYTES ((uint64_t)2 << 20)

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

layout rg__native_layout(int local_size)
{
    const uint64_t n = (uint64_t)local_size, members = n * RG__SETS_MAX;
    layout l;
    l.verdicts = round_up(n * sizeof(bell_line), RG__PAGE_BYTES);
    l.lines = l.verdicts + members * sizeof(verdict);
    l.small =
        round_up(l.lines + members * sizeof(member_lines), RG__PAGE_BYTES);
    l.medium = l.small + members * 2 * SMALL_BYTES;
    l.staging = round_up(l.medium + members * 2 * MEDIUM_BYTES, HUGE_BYTES);
    l.bytes = l.staging + members * STAGES * STAGE_BYTES;
    return l;
}

uint64_t rg__native_control_bytes(int local_size)
{
    return rg__native_layout(local_size).bytes;
}
