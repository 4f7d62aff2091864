/* Programs by name. */
#ifndef RG_ELASTIC_FIND_PROGRAM_H
#define RG_ELASTIC_FIND_PROGRAM_H

#include <stddef.h>

#include "regroup/regroup.h"

/* Find a program as a shell would, in PATH when its name has no slash.
 * ERR_INVALID: there is none, or it can't be executed. */
rg_status rg__find_program(const char *name, char *path, size_t bytes);

#endif
