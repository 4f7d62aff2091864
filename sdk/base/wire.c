#include "sdk/base/wire.h"

#include <stdbool.h>

static const struct {
    size_t bytes;
    bool has_more;
} messages[RG__WIRE_TYPES] = {
#define X(type, body, has_more) [RG__##type] = {sizeof(body), has_more},
    RG__WIRE(X)
#undef X
};

rg__wire_type rg__wire_read(const void *bytes, size_t n)
{
    const rg__wire_head *head = bytes;
    if (n < sizeof *head || head->version != RG__WIRE_VERSION ||
        head->type >= RG__WIRE_TYPES)
        return RG__WIRE_NONE;
    const size_t least = messages[head->type].bytes;
    const bool is_whole =
        messages[head->type].has_more ? n >= least : n == least;
    return is_whole ? (rg__wire_type)head->type : RG__WIRE_NONE;
}
