/* Settings. A room's table is the only place where its options exist; from it
 * come the variable (REGROUP_DETECT), the flag (--detect), the line in a file
 * (detect = lan), `regroup config` and the check of every value.
 *
 * Flag > environment > file > default, in whatever order they are read; the
 * file is the one that REGROUP_CONFIG names. Each value remembers where it
 * came from.
 *
 * Threads:   one rg__cfg belongs to one thread.
 * Ownership: tables and targets are borrowed until rg__cfg_destroy; texts in
 *            targets belong to the rg__cfg.
 * Units:     times in milliseconds, sizes in bytes; the texts carry units.
 */
#ifndef RG_BASE_CONFIG_H
#define RG_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "regroup/regroup.h"
#include "sdk/base/inner.h"

/* The types, with the form that a value must have, and the target. */
typedef enum rg__cfg_type {
    RG__CFG_TEXT,   /* const char *; NULL when unset */
    RG__CFG_COUNT,  /* int, 0 or more; -1 when unset */
    RG__CFG_SIZE,   /* int, 1 or more; 0 when unset */
    RG__CFG_TIME,   /* uint64_t ms: 500ms, 10s, 5m, 1h */
    RG__CFG_BYTES,  /* uint64_t: 4096, 64M, 2GiB; powers of 1024 */
    RG__CFG_DETECT, /* uint64_t ms: auto (0), lan, cloud or a time */
    RG__CFG_EVERY,  /* rg__every: 100, 10m; 0 is never */
    RG__CFG_YES     /* bool: yes, no; false when unset */
} rg__cfg_type;

/* How often: every so many steps, or every so many milliseconds. */
typedef struct rg__every {
    uint64_t steps, ms; /* at most one is above 0 */
} rg__every;

typedef struct rg__cfg_field {
    const char *name;  /* "AGENT_GRACE"; NULL ends a table */
    const char *value; /* the default, as text; NULL: unset */
    rg__cfg_type type;
    size_t offset;
    const char *doc;
} rg__cfg_field;

/* Type and offset of a member; a member of another C type draws a warning. */
#define RG__CFG_AT(type, c_type, s, member)                                    \
    type, offsetof(s, member) + 0 * sizeof((c_type *)0 == &((s *)0)->member)
#define RG__CFG_TEXT_AT(s, m)   RG__CFG_AT(RG__CFG_TEXT, const char *, s, m)
#define RG__CFG_COUNT_AT(s, m)  RG__CFG_AT(RG__CFG_COUNT, int, s, m)
#define RG__CFG_SIZE_AT(s, m)   RG__CFG_AT(RG__CFG_SIZE, int, s, m)
#define RG__CFG_TIME_AT(s, m)   RG__CFG_AT(RG__CFG_TIME, uint64_t, s, m)
#define RG__CFG_BYTES_AT(s, m)  RG__CFG_AT(RG__CFG_BYTES, uint64_t, s, m)
#define RG__CFG_DETECT_AT(s, m) RG__CFG_AT(RG__CFG_DETECT, uint64_t, s, m)
#define RG__CFG_EVERY_AT(s, m)  RG__CFG_AT(RG__CFG_EVERY, rg__every, s, m)
#define RG__CFG_YES_AT(s, m)    RG__CFG_AT(RG__CFG_YES, bool, s, m)

/* In rising order of precedence. */
typedef enum rg__cfg_origin {
    RG__CFG_DEFAULT,
    RG__CFG_FILE,
    RG__CFG_ENVIRONMENT,
    RG__CFG_FLAG
} rg__cfg_origin;

typedef struct rg__cfg_item {
    const rg__cfg_field *field;
    const char *text; /* the value as written; NULL: unset */
    rg__cfg_origin origin;
    const char *where; /* "default", "REGROUP_MIN", "--min", "file.conf:3" */
} rg__cfg_item;

typedef struct rg__cfg rg__cfg;

/* ERR_MEMORY. */
rg_status rg__cfg_create(rg__cfg **cfg_p);
void rg__cfg_destroy(rg__cfg *cfg); /* NULL allowed */

/* Add a room's table and fill the target with its defaults. */
rg_status rg__cfg_add(rg__cfg *cfg, const rg__cfg_field *table, void *target);

/* Give a setting a value; one of lower precedence than the present one is
 * checked and then dropped. ERR_INVALID: no such setting, or a bad value; the
 * sentence names it and the accepted form. */
rg_status rg__cfg_set(rg__cfg *cfg, const char *name, const char *text,
                      rg__cfg_origin origin, const char *where);

/* Take every REGROUP_* variable of an environment that has a value, and the
 * file that REGROUP_CONFIG names. knows_all: every table of the program was
 * added, so a name that is in none is a mistake: a warning for a variable,
 * ERR_INVALID in the file; else such names may belong to another program. */
rg_status rg__cfg_read(rg__cfg *cfg, char *const *environment, bool knows_all);

/* All settings, in the order of the tables. */
size_t rg__cfg_count(const rg__cfg *cfg);
rg__cfg_item rg__cfg_at(const rg__cfg *cfg, size_t i);

/* The setting of this name (as in the flag or in the variable), -1: none. */
int rg__cfg_find(const rg__cfg *cfg, const char *name);

/* The setting whose name is nearest to what was written; NULL: none is near. */
const char *rg__cfg_nearest(const rg__cfg *cfg, const char *name);

/* Apply the settings LOG and LOG_FORMAT of rg__library_table to the log.
 * ERR_INVALID: one is malformed. */
rg_status rg__cfg_apply_log(const rg__cfg *cfg);

/* The candidate with the least edit distance to the word; NULL when none is
 * near enough to be what was meant. */
const char *rg__nearest(const char *word, const char *const *candidates,
                        size_t n);

/* What the library itself reads from its environment. */
typedef struct rg__library_settings {
    const char *log;         /* levels, "warn" */
    const char *log_format;  /* "text" or "json" */
    const char *failpoint;   /* NULL: none */
    const char *library;     /* the Python package's; NULL: none is named */
    const char *python_fast; /* of the Python package */
    const char *socket;      /* of the agent; NULL: no agent */
    int slot;                /* that this process was started in, -1: none */
    int launch;              /* whose rank it is, under --mpi; -1: none */
    int restart, generation; /* of that launch, for the program */
    uint64_t stall_ms, op_timeout_ms; /* 0: never */
    const char *checkpoint_dir;       /* NULL: none */
    rg__every checkpoint_every;
    int checkpoint_keep;
    bool checkpoint_on_stop;
    const char *transports;   /* names, comma separated, tried in order */
    const char *check;        /* off, late or each */
    const char *interpose;    /* NULL: nothing */
    const char *check_state;  /* auto, off, strict or a number of commits */
    uint64_t read_min;        /* bytes; shm/read.c */
    bool autotune;            /* of reducers */
    const char *autotune_log; /* NULL: none */
    const char *interface;    /* name or network; NULL: none is named */
    const char *cuda_lib, *nccl_lib; /* NULL: by their usual names */
} rg__library_settings;

extern const rg__cfg_field rg__library_table[];

/* Read once per process, from any thread, and LOG applied; borrowed forever. */
RG_INNER rg_status
rg__library_settings_get(const rg__library_settings **settings_p);

#endif
