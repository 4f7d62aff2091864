/* How much memory this process may still take: what the machine has available,
 * and what its control group (v2) leaves. Reserving shared memory beyond it
 * does not fail, it calls the kernel's out-of-memory killer. */
#ifndef RG_BASE_MEMORY_H
#define RG_BASE_MEMORY_H

#include <stdint.h>

/* Bytes; UINT64_MAX where nobody says. */
uint64_t rg__memory_available(void);

#endif
