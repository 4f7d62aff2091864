/* What a command prints. */
#ifndef RG_ELASTIC_CAPTURE_H
#define RG_ELASTIC_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

/* Run a command, without input, and keep the beginning of its standard output;
 * its exit code does not matter. false: it can't be run, or was killed because
 * it had not ended after some seconds. */
bool rg__capture(char *const *argv, char *text, size_t bytes);

#endif
