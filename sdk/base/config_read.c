/* Where settings are read from: a file, the environment; and what the library
 * itself reads there. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/config.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define PREFIX    "REGROUP_"
#define LINE_MAX_ 1024
#define NAME_MAX_ 64

/* -------------------------------------------------------------------- file */

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    text[n] = '\0';
    return text;
}

static rg_status take_line(rg__cfg *cfg, char *line, const char *where,
                           bool knows_all)
{
    line[strcspn(line, "#")] = '\0';
    char *name = trim(line);
    if (*name == '\0')
        return RG_OK;
    char *eq = strchr(name, '=');
    if (eq == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "%s: \"%s\" is not a setting; write name = value",
                        where, name);
    *eq = '\0';
    name = trim(name);
    if (strncmp(name, PREFIX, strlen(PREFIX)) == 0)
        name += strlen(PREFIX);
    if (!knows_all && rg__cfg_find(cfg, name) < 0)
        return RG_OK;
    return rg__cfg_set(cfg, name, trim(eq + 1), RG__CFG_FILE, where);
}

/* Lines `name = value`; # begins a comment; names of flags or variables. */
static rg_status read_file(rg__cfg *cfg, const char *path, bool knows_all)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "the settings file %s can't be read: %s "
                        "(REGROUP_CONFIG)",
                        path, strerror(errno));
    char line[LINE_MAX_], where[PATH_MAX];
    rg_status st = RG_OK;
    for (int n = 1; st == RG_OK && fgets(line, sizeof line, file); n++) {
        snprintf(where, sizeof where, "%s:%d", path, n);
        if (strchr(line, '\n') == NULL && !feof(file))
            st = rg__fail(RG_ERR_INVALID, "%s: a line of over %d bytes", where,
                          LINE_MAX_ - 2);
        else
            st = take_line(cfg, line, where, knows_all);
    }
    fclose(file);
    return st;
}

/* ------------------------------------------------------------- environment */

static void warn_unknown(const rg__cfg *cfg, const char *name)
{
    const char *nearest = rg__cfg_nearest(cfg, name);
    if (nearest != NULL)
        rg__log(RG__WARN, "config",
                "ignored the variable " PREFIX "%s, which means nothing; did "
                "you mean " PREFIX "%s?",
                name, nearest);
    else
        rg__log(RG__WARN, "config",
                "ignored the variable " PREFIX "%s, which means nothing; "
                "`regroup config` lists those that do",
                name);
}

/* variable is "REGROUP_NAME=value". */
static rg_status take_variable(rg__cfg *cfg, const char *variable,
                               bool knows_all)
{
    const char *eq = strchr(variable, '=');
    char where[NAME_MAX_ + sizeof PREFIX];
    const size_t n = (size_t)(eq - variable);
    if (n >= sizeof where)
        return RG_OK; /* longer than any name of ours */
    memcpy(where, variable, n);
    where[n] = '\0';
    const char *name = where + strlen(PREFIX);
    if (rg__cfg_find(cfg, name) >= 0)
        return rg__cfg_set(cfg, name, eq + 1, RG__CFG_ENVIRONMENT, where);
    if (knows_all)
        warn_unknown(cfg, name);
    return RG_OK;
}

rg_status rg__cfg_read(rg__cfg *cfg, char *const *environment, bool knows_all)
{
    static const char file_variable[] = PREFIX "CONFIG=";
    for (char *const *v = environment; *v != NULL; v++) {
        const char *eq = strchr(*v, '=');
        if (eq == NULL || eq[1] == '\0' ||
            strncmp(*v, PREFIX, strlen(PREFIX)) != 0)
            continue;
        const char *value = *v + strlen(file_variable);
        rg_status st = RG_OK;
        if (strncmp(*v, file_variable, strlen(file_variable)) != 0)
            st = take_variable(cfg, *v, knows_all);
        else
            st = read_file(cfg, value, knows_all);
        if (st != RG_OK)
            return st;
    }
    return RG_OK;
}

/* ----------------------------------------------------------------- library */

const rg__cfg_field rg__library_table[] = {
    {"LOG", "warn", RG__CFG_TEXT_AT(rg__library_settings, log),
     "what is logged: error, warn, info, debug or trace; per room as in "
     "info,etcd=debug"},
    {"LOG_FORMAT", "text", RG__CFG_TEXT_AT(rg__library_settings, log_format),
     "how it is logged: text, or json: an object on each line"},
    {"FAILPOINT", NULL, RG__CFG_TEXT_AT(rg__library_settings, failpoint),
     "where a test build fails on purpose"},
    {"LIBRARY", NULL, RG__CFG_TEXT_AT(rg__library_settings, library),
     "the libregroup.so that the Python package loads; none: its own, or the "
     "system's"},
    {"PYTHON_FAST", "on", RG__CFG_TEXT_AT(rg__library_settings, python_fast),
     "whether the Python package uses its compiled part: on or off"},
    {"SOCKET", NULL, RG__CFG_TEXT_AT(rg__library_settings, socket),
     "set by the agent: its socket, where its workers connect"},
    {"SLOT", NULL, RG__CFG_COUNT_AT(rg__library_settings, slot),
     "set by the agent: the slot that a worker was started in"},
    {"LAUNCH", NULL, RG__CFG_COUNT_AT(rg__library_settings, launch),
     "set by the agent: the launch whose rank this process is, under --mpi"},
    {"RESTART", NULL, RG__CFG_COUNT_AT(rg__library_settings, restart),
     "set by the agent under --mpi: how many launches there were before"},
    {"GENERATION", NULL, RG__CFG_COUNT_AT(rg__library_settings, generation),
     "set by the agent under --mpi: the generation that the launch is for"},
    {"STALL", "60s", RG__CFG_TIME_AT(rg__library_settings, stall_ms),
     "an operation on a set that has waited this long causes a warning, with "
     "the ranks that are missing; 0s: never"},
    {"OP_TIMEOUT", "0s", RG__CFG_TIME_AT(rg__library_settings, op_timeout_ms),
     "deadline of operations that have none of their own; 0s: none"},
    {"CHECKPOINT_DIR", NULL,
     RG__CFG_TEXT_AT(rg__library_settings, checkpoint_dir),
     "directory of checkpoints, the same for all hosts, and of this job alone; "
     "none: commits are in memory only"},
    {"CHECKPOINT_EVERY", "5m",
     RG__CFG_EVERY_AT(rg__library_settings, checkpoint_every),
     "how often a commit becomes a checkpoint by itself: a number of steps, or "
     "a time; 0: when the program asks"},
    {"CHECKPOINT_KEEP", "2",
     RG__CFG_SIZE_AT(rg__library_settings, checkpoint_keep),
     "newest checkpoints that stay in the directory"},
    {"CHECKPOINT_ON_STOP", "yes",
     RG__CFG_YES_AT(rg__library_settings, checkpoint_on_stop),
     "whether the newest commit becomes a checkpoint before the job ends: yes "
     "or no"},
    {"TRANSPORTS", "self,native,mpi",
     RG__CFG_TEXT_AT(rg__library_settings, transports),
     "what may carry a world that mpirun has started, tried in this order"},
    {"CHECK", "late", RG__CFG_TEXT_AT(rg__library_settings, check),
     "when the mpi transport compares what members start: each (before each "
     "operation), late (after them) or off"},
    {"INTERPOSE", NULL, RG__CFG_TEXT_AT(rg__library_settings, interpose),
     "collectives of an MPI program that the interposer carries over native "
     "shared memory where that is faster: all, or names such as "
     "allreduce,bcast; NAME:always for any size"},
    {"CHECK_STATE", "auto", RG__CFG_TEXT_AT(rg__library_settings, check_state),
     "which commits compare the replicated buffers of all ranks: auto (the "
     "first three of a job, and the first after each change; 64 MiB at a "
     "commit, the rest at the next ones), every so many commits (a number), "
     "strict (as auto, all at once, and a difference is an error), off; rank "
     "0's counts"},
    {"READ_MIN", "32K", RG__CFG_BYTES_AT(rg__library_settings, read_min),
     "the smallest part of ordinary memory that ranks of one host read from "
     "each other through the kernel, where data are moved and not added up; "
     "smaller parts are staged, and with 1T all are"},
    {"AUTOTUNE", "yes", RG__CFG_YES_AT(rg__library_settings, autotune),
     "whether reducers measure bucket sizes in their first steps and keep the "
     "best one: yes or no"},
    {"AUTOTUNE_LOG", NULL, RG__CFG_TEXT_AT(rg__library_settings, autotune_log),
     "file to which rank 0 appends what reducers measure and choose"},
    {"INTERFACE", NULL, RG__CFG_TEXT_AT(rg__library_settings, interface),
     "name of the interface, or network such as 10.0.0.0/8, whose address "
     "other hosts use"},
    {"CUDA_LIB", NULL, RG__CFG_TEXT_AT(rg__library_settings, cuda_lib),
     "the CUDA driver's library, for device memory; libcuda.so.1 otherwise"},
    {"NCCL_LIB", NULL, RG__CFG_TEXT_AT(rg__library_settings, nccl_lib),
     "the NCCL library, for device memory; otherwise one that the process has "
     "loaded, or libnccl.so.2"},
    {NULL}};

static rg__cfg_item item_of(const rg__cfg *cfg, const char *name)
{
    return rg__cfg_at(cfg, (size_t)rg__cfg_find(cfg, name));
}

rg_status rg__cfg_apply_log(const rg__cfg *cfg)
{
    const rg__cfg_item log = item_of(cfg, "LOG");
    const rg__cfg_item format = item_of(cfg, "LOG_FORMAT");
    if (!rg__log_format(format.text))
        return rg__fail(RG_ERR_INVALID, "%s is \"%s\"; it must be text or json",
                        format.where, format.text);
    if (rg__log_levels(log.text))
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "%s is \"%s\"; it must be error, warn, info, debug or "
                    "trace, also per room, such as info,etcd=debug",
                    log.where, log.text);
}

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static rg__cfg *library_cfg; /* kept: the texts belong to it */
static rg__library_settings library_settings;
static rg_status library_status;
static char library_error[512]; /* rg_last_error() is each thread's own */

static void read_library_settings(void)
{
    rg_status st = rg__cfg_create(&library_cfg);
    if (st == RG_OK)
        st = rg__cfg_add(library_cfg, rg__library_table, &library_settings);
    if (st == RG_OK)
        st = rg__cfg_read(library_cfg, environ, false);
    if (st == RG_OK)
        st = rg__cfg_apply_log(library_cfg);
    library_status = st;
    if (st != RG_OK)
        snprintf(library_error, sizeof library_error, "%s", rg_last_error());
}

rg_status rg__library_settings_get(const rg__library_settings **settings_p)
{
    pthread_once(&library_once, read_library_settings);
    if (library_status != RG_OK)
        return rg__fail(library_status, "%s", library_error);
    *settings_p = &library_settings;
    return RG_OK;
}
