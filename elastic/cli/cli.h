/* What the files of the `regroup` command share: the settings, one parsed
 * command line, and how a command ends. */
#ifndef RG_ELASTIC_CLI_H
#define RG_ELASTIC_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "elastic/agent/agent.h"
#include "sdk/base/config.h"

typedef struct rg__settings {
    rg__user_settings user; /* of the agent */
    int np, min, max, slots, spares;
    const char *etcd, *etcd_bin, *etcd_listen, *etcd_user, *etcd_password_file;
    const char *etcd_cacert, *etcd_cert, *etcd_key;
    const char *etcd_invitation, *etcd_ca_hash;
    const char *job, *host, *history, *output, *run_dir, *peer, *notice_advice;
    const char *hosts, *hostfile, *discovery;
    const char *rsh, *prefix, *remote_path;
    const char *mpi, *mpirun, *tag;
    bool export_all;
    uint64_t discovery_ms, detect_ms, timeout_ms, interval_ms, older_than_ms;
    rg__library_settings library;
} rg__settings;

/* One command line, read. Everything is borrowed until rg__cli_close. */
typedef struct rg__cli {
    rg__settings settings;
    rg__cfg *cfg;
    bool json, watch, follow, dry_run, replace_job, no_stacks;
    bool wants_help; /* nothing else was read */
    char **exported; /* of -x, in order; owned, its words are borrowed */
    int exports;
    int argc; /* what stands behind the flags */
    char **argv;
} rg__cli;

typedef struct rg__command {
    const char *name;
    const char *synopsis; /* what follows the name */
    const char *summary;  /* lowercase, no full stop */
    const char *details;  /* more lines of help, or NULL */
    int (*run)(rg__cli *cli);
} rg__command;

/* At the start of a program: if the process that starts us has closed 0, 1 or
 * 2, the next file would get that number, and output would end up in it. */
void rg__cli_open_what_is_closed(void);

/* Read settings from the environment, the file and the flags; where a program
 * may follow, flags end at the first word that is not a flag. argv[0] is the
 * command's name. ERR_INVALID: unknown flag or bad value. Always close it. */
rg_status rg__cli_open(rg__cli *cli, const char *command, int argc,
                       char **argv);
void rg__cli_close(rg__cli *cli);

void rg__cli_print_flags(const char *command);

/* Say rg_last_error() on standard error; returns the status's exit code. */
int rg__cli_fail(rg_status st);

int rg__cmd_run(rg__cli *cli);
int rg__cmd_agent(rg__cli *cli);
int rg__cmd_remote(rg__cli *cli);
int rg__cmd_preload(rg__cli *cli);
int rg__cmd_status(rg__cli *cli);
int rg__cmd_jobs(rg__cli *cli);
int rg__cmd_stop(rg__cli *cli);
int rg__cmd_events(rg__cli *cli);
int rg__cmd_tune(rg__cli *cli);
int rg__cmd_dump(rg__cli *cli);
int rg__cmd_timeline(rg__cli *cli);
int rg__cmd_drain(rg__cli *cli);
int rg__cmd_scale(rg__cli *cli);
int rg__cmd_gc(rg__cli *cli);
int rg__cmd_checkpoint(rg__cli *cli);
int rg__cmd_doctor(rg__cli *cli);
int rg__cmd_config(rg__cli *cli);

#endif
