/* A launcher's connection to an agent that was started over another one, which
 * broke.
 *
 * Threads:   one.
 * Waiting:   until the agent ends, or the connection does. */
#ifndef RG_ELASTIC_ATTACH_H
#define RG_ELASTIC_ATTACH_H

#include <stdbool.h>

#include "elastic/launch/letter.h"

/* If the letter's agent runs here already, watch it until it ends, and pass on
 * what the launcher sends on `in`. Returns true and its exit code; false: no
 * such agent is here, or not any more. run_dir: RUN_DIR or NULL. */
bool rg__attach(const rg__letter *letter, const char *run_dir, int in,
                int *code_p);

#endif
