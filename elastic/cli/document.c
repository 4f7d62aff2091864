/* Documents of agents: which job is meant, and cells of tables. */
#include "elastic/cli/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sdk/base/fail.h"

rg_status rg__document_job(const rg__cli *cli, int at, rg__job_record *job_p)
{
    char base[PATH_MAX];
    if (cli->argc > at + 1)
        return rg__fail(RG_ERR_INVALID, "\"%s\" is one word too many",
                        cli->argv[at + 1]);
    const rg_status st = rg__rundir_base(cli->settings.run_dir, base);
    if (st != RG_OK)
        return st;
    return rg__jobs_find(base, cli->argc > at ? cli->argv[at] : NULL, job_p);
}

rg_status rg__document_read(char *text, json_t **json_p)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    free(text);
    if (json == NULL)
        return rg__fail(RG_ERR_SYSTEM,
                        "the agent's answer is not JSON: %s in line %d",
                        error.text, error.line);
    *json_p = json;
    return RG_OK;
}

void rg__document_print(const json_t *json, bool is_line)
{
    const size_t precision = JSON_REAL_PRECISION(13); /* the agent's, too */
    json_dumpf(json, stdout,
               precision | (is_line ? JSON_COMPACT : JSON_INDENT(1)));
    putchar('\n');
}

rg_status rg__document_accept(char *text, json_t **json_p)
{
    const rg_status st = rg__document_read(text, json_p);
    return st != RG_OK || rg__document_is(*json_p, "ok")
               ? st
               : rg__fail((rg_status)rg__document_number(*json_p, "status"),
                          "%s", rg__document_text(*json_p, "error"));
}

const char *rg__document_text(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text != NULL ? text : "-";
}

long long rg__document_number(const json_t *json, const char *key)
{
    return (long long)json_number_value(json_object_get(json, key));
}

bool rg__document_is(const json_t *json, const char *key)
{
    return json_is_true(json_object_get(json, key));
}

void rg__document_put_number(const json_t *json, const char *key,
                             char cell[RG__CELL])
{
    const json_t *value = json_object_get(json, key);
    if (json_is_number(value))
        snprintf(cell, RG__CELL, "%lld", (long long)json_number_value(value));
    else
        strcpy(cell, "-");
}

void rg__document_put_real(const json_t *json, const char *key, int digits,
                           const char *unit, char cell[RG__CELL])
{
    const json_t *n = json_object_get(json, key);
    if (json_is_number(n))
        snprintf(cell, RG__CELL, "%.*f %s", digits, json_number_value(n), unit);
    else
        strcpy(cell, "-");
}

void rg__document_put_lost(const json_t *change, char cell[RG__CELL])
{
    rg__document_put_number(change, "steps_lost", cell);
    if (cell[0] == '-' && json_is_number(json_object_get(change, "to_size")))
        strcpy(cell, "unknown");
}

/* In the largest unit that leaves a whole number before the point. */
void rg__document_put_bytes(const json_t *json, const char *key,
                            char cell[RG__CELL])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    const json_t *value = json_object_get(json, key);
    double n = json_number_value(value);
    int unit = 0;
    for (; n >= 1024 && unit < 4; unit++)
        n /= 1024;
    if (json_is_number(value))
        snprintf(cell, RG__CELL, unit == 0 ? "%.0f %s" : "%.1f %s", n,
                 units[unit]);
    else
        strcpy(cell, "-");
}

void rg__document_put_time(const json_t *json, const char *key,
                           char cell[RG__CELL])
{
    const json_t *value = json_object_get(json, key);
    const double at = json_number_value(value);
    const time_t whole = (time_t)at;
    struct tm local;
    if (!json_is_number(value) || localtime_r(&whole, &local) == NULL) {
        strcpy(cell, "-");
        return;
    }
    const size_t n = strftime(cell, RG__CELL, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(cell + n, RG__CELL - n, ".%03d",
             (int)((at - (double)whole) * 1000 + 0.5) % 1000);
}
