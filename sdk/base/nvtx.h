/* Ranges in NVIDIA's tools (NVTX), beside the kernels: where the library was
 * built with NVTX's headers, and a tool has started the process. Without a tool
 * a range costs a look at a pointer, and without the headers nothing.
 *
 * Threads: any; a range may end on another thread than it began on. */
#ifndef RG_BASE_NVTX_H
#define RG_BASE_NVTX_H

#include <stdint.h>

#ifdef RG_NVTX
void rg__nvtx_open(void); /* before the first range */
/* Its name is both words. 0: there is none. */
uint64_t rg__nvtx_begin(const char *what, const char *where);
void rg__nvtx_end(uint64_t range); /* 0: nothing */
#else
static inline void rg__nvtx_open(void)
{
}
static inline uint64_t rg__nvtx_begin(const char *what, const char *where)
{
    (void)what, (void)where;
    return 0;
}
static inline void rg__nvtx_end(uint64_t range)
{
    (void)range;
}
#endif

#endif
