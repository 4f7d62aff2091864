/* Opening the CUDA driver and NCCL: two tables of calls, or one sentence that
 * says what is missing.
 *
 * Threads:   any; a library that has been opened is never closed, since it has
 *            threads of its own.
 * Ownership: tables are the caller's, sentences are copied. */
#ifndef RG_NCCL_LOAD_H
#define RG_NCCL_LOAD_H

#include <stdbool.h>

#include "regroup/regroup.h"
#include "sdk/transport/nccl/api.h"

#define RG__NAME_BYTES 256

typedef struct rg__cuda_library {
    rg__cuda call;
    int version; /* the CUDA version of the driver: 13000 is 13.0 */
} rg__cuda_library;

typedef struct rg__nccl_library {
    rg__nccl call;
    int version; /* 22809 is 2.28.9 */
    char path[RG__NAME_BYTES];
} rg__nccl_library;

/* Open and start the driver; name NULL: libcuda.so.1. ERR_NOT_FOUND: it is not
 * here, or has no device; ERR_UNSUPPORTED: it lacks a call, or can't start. */
rg_status rg__cuda_open(const char *name, rg__cuda_library *cuda_p);

/* whose_memory.c: rg__device_owns asks this driver from now on.
 * rg__cuda_is_bound: does the memory belong to one device alone? Managed memory
 * moves between devices, and pinned memory belongs to all. */
void rg__cuda_note(const rg__cuda *call);
typedef int (*rg__cuda_ask)(void *value, int attribute, rg__cu_address at);
bool rg__cuda_is_bound(rg__cuda_ask ask, const void *p);

/* Open NCCL: the library of that name, else the one that the process has
 * loaded, else libnccl.so.2. ERR_NOT_FOUND: there is none; ERR_UNSUPPORTED: it
 * lacks a call or is too old. */
rg_status rg__nccl_open(const char *name, rg__nccl_library *nccl_p);

/* Refuse NCCL variables that no job can run with. ERR_INVALID names one. */
rg_status rg__nccl_check_environment(void);

/* Set the environment for NCCL and the driver, before either is opened. */
void rg__nccl_prepare_environment(void);

/* "2.28.9" */
void rg__nccl_version_text(int version, char text[16]);

/* "what: CUDA_ERROR_NO_DEVICE (100), no CUDA-capable device is detected" as the
 * sentence of a status. */
rg_status rg__cuda_fail(const rg__cuda *call, rg_status st, int result,
                        const char *what);

#endif
