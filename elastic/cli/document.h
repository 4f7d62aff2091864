/* What agents answer, as JSON, and how it is shown to people.
 *
 * Threads:   one.
 * Ownership: texts that are returned belong to the JSON. */
#ifndef RG_ELASTIC_DOCUMENT_H
#define RG_ELASTIC_DOCUMENT_H

#include <jansson.h>

#include "elastic/cli/cli.h"
#include "elastic/cli/rundir.h"

#define RG__CELL 32 /* bytes of a text that is put into a table */

/* The job that the command line means: the word at this place, or the only one
 * that runs here. ERR_INVALID: none, several, or words follow. */
rg_status rg__document_job(const rg__cli *cli, int at, rg__job_record *job_p);

/* ERR_SYSTEM: the answer is not JSON. Takes the text. */
rg_status rg__document_read(char *text, json_t **json_p);

/* The same for an agent that was asked to do something: a refusal is an error,
 * with the agent's status and sentence. */
rg_status rg__document_accept(char *text, json_t **json_p);

/* The JSON as it came: on one line, or over several. */
void rg__document_print(const json_t *json, bool is_line);

const char *rg__document_text(const json_t *json, const char *key); /* or "-" */
long long rg__document_number(const json_t *json, const char *key); /* or 0 */
bool rg__document_is(const json_t *json, const char *key);

/* As text; null becomes "-". */
void rg__document_put_number(const json_t *json, const char *key,
                             char cell[RG__CELL]);
/* With so many digits behind the point, and its unit behind that. */
void rg__document_put_real(const json_t *json, const char *key, int digits,
                           const char *unit, char cell[RG__CELL]);
/* Steps that a change has rolled back, if it is one. */
void rg__document_put_lost(const json_t *change, char cell[RG__CELL]);
void rg__document_put_bytes(const json_t *json, const char *key,
                            char cell[RG__CELL]);
/* Seconds since 1970 as local date and time. */
void rg__document_put_time(const json_t *json, const char *key,
                           char cell[RG__CELL]);

#endif
