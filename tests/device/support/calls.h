/* Prototypes of what the stand-in exports under the names of CUDA and NCCL,
 * for tests that are linked to it. */
#ifndef TESTS_DEVICE_CALLS_H
#define TESTS_DEVICE_CALLS_H

#include "sdk/transport/nccl/api.h"

#define RG__X(need, type, member, symbol, arguments)                           \
    extern type symbol arguments;
RG__CUDA_CALLS(RG__X)
RG__NCCL_CALLS(RG__X)
#undef RG__X

#endif
