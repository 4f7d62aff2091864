#include "sdk/base/nvtx.h"

#ifdef RG_NVTX
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

static nvtxDomainHandle_t domain; /* NULL: no tool is there */

void rg__nvtx_open(void)
{
    if (domain == NULL)
        domain = nvtxDomainCreateA("regroup");
}

uint64_t rg__nvtx_begin(const char *what, const char *where)
{
    char name[80];
    if (domain == NULL)
        return 0;
    snprintf(name, sizeof name, "%s%s%s", what, where[0] != '\0' ? " " : "",
             where);
    const nvtxEventAttributes_t range = {.version = NVTX_VERSION,
                                         .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                         .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                         .message.ascii = name};
    return nvtxDomainRangeStartEx(domain, &range);
}

void rg__nvtx_end(uint64_t range)
{
    if (range != 0)
        nvtxDomainRangeEnd(domain, range);
}
#endif
