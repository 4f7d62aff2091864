/* `regroup doctor`: which sources of notices answer.
 *
 * Threads:   the caller's; a file of --notice is read by another.
 * Waiting:   some seconds at most. */
#ifndef RG_ELASTIC_DOCTOR_NOTICE_H
#define RG_ELASTIC_DOCTOR_NOTICE_H

#include <stdbool.h>

#include "elastic/cli/cli.h"

/* Ask each of --notice once and print a line for each; true: one fails. */
bool rg__doctor_notice(const rg__settings *settings);

#endif
