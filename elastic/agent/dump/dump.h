/* What the workers of a job have been doing: their last operations on each set,
 * and the stacks of their threads.
 *
 * Threads:   the loop's.
 * Ownership: a socket that is handed over is owned.
 * Units:     milliseconds before now in texts, nanoseconds in records. */
#ifndef RG_AGENT_DUMP_H
#define RG_AGENT_DUMP_H

#include <jansson.h>

#include "elastic/agent/base/agent_state.h"

/* Ask all hosts, and answer the command: as JSON, or as text for people. */
void rg__dump_ask(rg__agent *a, int sock, bool wants_json, bool wants_stacks);

/* The same into a file, since that generation has ended for this reason. */
void rg__dump_write(rg__agent *a, uint64_t generation, const char *why);

/* A file is not written yet. */
bool rg__dump_is_busy(const rg__agent *a);

/* Another agent asks; false: malformed. */
bool rg__dump_serve(rg__agent *a, rg__connection *c, const void *body,
                    size_t n);

void rg__dumps_drop(rg__agent *a); /* all that are under way */

#endif
