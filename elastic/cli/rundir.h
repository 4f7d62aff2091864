/* Run directories: where the jobs of this machine's user are found.
 *
 *   <base>/                 0700; REGROUP_RUN_DIR, else regroup in
 *                           XDG_RUNTIME_DIR, else /tmp/regroup-<uid>
 *     .lock                 held while a job's directory comes or goes
 *     <job>/                0700
 *       job.lock            held by `regroup run` and its agent
 *       agent-<host>.lock   held by that host's agent
 *       agent-<host>.sock   the agent's socket
 *       watch-<host>.lock   shared by connections of a launcher to that agent,
 *                           which was started over another one
 *       job.json            0600: endpoints and what belongs to them, host,
 *                           pid, program
 *       etcd/, etcd.log     of a private etcd
 *       etcd.invitation     0600: all that other hosts need to use it
 *       etcd.ca, .server    0600: its certificates
 *       login.*             0600: files for etcd that a launcher has sent
 *
 * A job runs here while one of its locks is held; the kernel lets go of them
 * with the processes, so a directory without a held lock is a dead job's and is
 * removed by the next one that enters. Only names of this list are removed.
 *
 * Threads: one. The locks are inherited by fork and closed by exec. */
#ifndef RG_ELASTIC_RUNDIR_H
#define RG_ELASTIC_RUNDIR_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "elastic/member/records.h"
#include "regroup/regroup.h"

#define RG__REMOTE_CACERT "login.cacert"
#define RG__REMOTE_CERT   "login.cert"
#define RG__REMOTE_KEY    "login.key"

typedef struct rg__rundir {
    char base[PATH_MAX], path[PATH_MAX];
    char job[RG__NAME_MAX], host[RG__NAME_MAX];
    int job_lock, host_lock; /* -1: not held */
} rg__rundir;

/* What job.json says. */
typedef struct rg__job_record {
    char job[RG__NAME_MAX], host[RG__NAME_MAX];
    char path[PATH_MAX]; /* of the run directory; not in the file */
    char program[256], endpoints[1024], user[128], password[256], started[32];
    char cacert[PATH_MAX], cert[PATH_MAX], key[PATH_MAX]; /* "": none */
    pid_t pid;
} rg__job_record;

/* A letter or digit, then letters, digits, dots, dashes and underscores. */
bool rg__is_name(const char *text);

/* Make the base directory and see that it is ours alone. setting: RUN_DIR or
 * NULL. ERR_INVALID, ERR_SYSTEM. */
rg_status rg__rundir_base(const char *setting, char base[PATH_MAX]);

/* Make the run directory of a job and take its locks. owns_job: for `regroup
 * run`, which refuses when anything of that job runs here; else only an agent
 * of the same host is in the way. ERR_INVALID: refused, or a name too long for
 * a socket. Leave it in any case. */
rg_status rg__rundir_enter(rg__rundir *dir, const char *base, const char *job,
                           const char *host, bool owns_job);
/* Write a file of ours at once, since other agents of the job on this machine
 * may be reading it; its path is told. */
rg_status rg__rundir_write(const rg__rundir *dir, const char *name,
                           const char *text, char path[PATH_MAX]);
rg_status rg__rundir_record(const rg__rundir *dir,
                            const rg__job_record *record);
/* Release it; the last one removes the directory. */
void rg__rundir_leave(rg__rundir *dir);

/* Remove the run directories of dead jobs, or with is_dry only find them; fn
 * hears of each: one that stays has files that are not ours. ERR_SYSTEM. */
typedef void (*rg__sweep_fn)(void *arg, const char *path, bool has_gone);
rg_status rg__rundir_sweep(const char *base, bool is_dry, rg__sweep_fn fn,
                           void *arg);

/* Events of a job that ended here within a day, JSON, malloc'd. */
rg_status rg__rundir_event_log(const char *base, const char *job,
                               char **text_p);

/* A lock in the directory of that path is held. */
bool rg__rundir_is_alive(const char *path);
/* The lock of this host's agent is held. */
bool rg__rundir_has_agent(const char *path, const char *host);

/* Watch the agent of a host, as others may too; -1: it is leaving, because no
 * process watched it. The caller closes it. */
int rg__rundir_watch(const char *path, const char *host);
bool rg__rundir_is_watched(const char *path, const char *host);
/* No process watches it, and none can from now on. */
bool rg__rundir_end_watch(const char *path, const char *host);

/* The jobs that run here, by name; *records_p is the caller's to free. */
rg_status rg__jobs_list(const char *base, rg__job_record **records_p,
                        size_t *count_p);

/* The job of that name, or with NULL the only one. ERR_INVALID: none, or
 * several; the sentence lists them. */
rg_status rg__jobs_find(const char *base, const char *job,
                        rg__job_record *record_p);

#endif
