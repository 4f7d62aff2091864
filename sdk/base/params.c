#include "sdk/base/params.h"

#include <string.h>

#include "sdk/base/fail.h"

rg_status rg__params_read(const char *name, const void *params, size_t least,
                          void *to, size_t room)
{
    size_t size = 0;
    if (params == NULL)
        return RG_OK;
    memcpy(&size, params, sizeof size);
    if (size < least || size > room)
        return rg__fail(RG_ERR_INVALID,
                        "%s.size is %zu; set it to sizeof(%s), %zu with the "
                        "library %s",
                        name, size, name, room, RG_VERSION);
    memcpy(to, params, size);
    return RG_OK;
}
