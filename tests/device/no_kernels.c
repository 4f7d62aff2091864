/* Regroup as it is built without a compiler for its kernels: this text is taken
 * instead of the library's. */
#include "sdk/transport/nccl/device.h"

const char rg__scale_ptx[] = "";
