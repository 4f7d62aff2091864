/* Report the cause of a failure once, where it is known: the sentence becomes
 * the thread's rg_last_error() and the status goes up unchanged. */
#ifndef RG_BASE_FAIL_H
#define RG_BASE_FAIL_H

#include <stdbool.h>

#include "regroup/regroup.h"
#include "sdk/base/inner.h"

/* Store the sentence (object, action, cause, remedy), log it, return st. It may
 * quote rg_last_error(). */
RG_INNER rg_status rg__fail(rg_status st, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Is it one of RG_STATUS_MAP? */
RG_INNER bool rg__status_is_known(rg_status st);

#endif
