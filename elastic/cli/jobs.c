/* What a run directory says about its job, and which jobs run here. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/cli/rundir.h"
#include "sdk/base/config.h"
#include "sdk/base/fail.h"

#define RECORD   "job.json"
#define JOBS_MAX 256

/* ------------------------------------------------------------------ record */

rg_status rg__rundir_write(const rg__rundir *dir, const char *name,
                           const char *text, char path[PATH_MAX])
{
    char fresh[PATH_MAX + 16];
    const int n = snprintf(path, PATH_MAX, "%s/%s", dir->path, name);
    /* agents of one job may share a machine: each has its own */
    snprintf(fresh, sizeof fresh, "%s/job-%d.new", dir->path, (int)getpid());
    const int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool ok = n < PATH_MAX && file != NULL && fputs(text, file) >= 0;
    if (file != NULL)
        ok = fclose(file) == 0 && ok;
    return ok && rename(fresh, path) == 0
               ? RG_OK
               : rg__fail(RG_ERR_SYSTEM, "%s can't be written: %s", path,
                          strerror(errno));
}

rg_status rg__rundir_record(const rg__rundir *dir, const rg__job_record *r)
{
    char path[PATH_MAX];
    json_t *json =
        json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}",
                  "job", dir->job, "host", dir->host, "pid", (int)r->pid,
                  "program", r->program, "started", r->started, "endpoints",
                  r->endpoints, "user", r->user, "password", r->password,
                  "cacert", r->cacert, "cert", r->cert, "key", r->key);
    char *text = json != NULL ? json_dumps(json, JSON_INDENT(2)) : NULL;
    json_decref(json);
    if (text == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "the job's record can't be written: a name in it is "
                        "not UTF-8");
    const rg_status st = rg__rundir_write(dir, RECORD, text, path);
    free(text);
    return st;
}

static void copy_text(const json_t *json, const char *key, char *to,
                      size_t bytes)
{
    const char *text = json_string_value(json_object_get(json, key));
    snprintf(to, bytes, "%s", text != NULL ? text : "");
}

/* A record that can't be read is of a starting job: only its name is known. */
static void read_record(rg__job_record *r)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/" RECORD, r->path);
    json_t *json = json_load_file(path, 0, NULL);
    copy_text(json, "host", r->host, sizeof r->host);
    copy_text(json, "program", r->program, sizeof r->program);
    copy_text(json, "started", r->started, sizeof r->started);
    copy_text(json, "endpoints", r->endpoints, sizeof r->endpoints);
    copy_text(json, "user", r->user, sizeof r->user);
    copy_text(json, "password", r->password, sizeof r->password);
    copy_text(json, "cacert", r->cacert, sizeof r->cacert);
    copy_text(json, "cert", r->cert, sizeof r->cert);
    copy_text(json, "key", r->key, sizeof r->key);
    r->pid = (pid_t)json_integer_value(json_object_get(json, "pid"));
    json_decref(json);
}

/* -------------------------------------------------------------------- list */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const rg__job_record *)a)->job,
                  ((const rg__job_record *)b)->job);
}

rg_status rg__jobs_list(const char *base, rg__job_record **records_p,
                        size_t *count_p)
{
    DIR *dir = opendir(base);
    rg__job_record *records = calloc(JOBS_MAX, sizeof *records);
    size_t n = 0;
    if (dir == NULL || records == NULL) {
        if (dir != NULL)
            closedir(dir);
        free(records);
        return rg__fail(RG_ERR_SYSTEM, "the run directory %s can't be read: %s",
                        base, strerror(errno));
    }
    for (struct dirent *d; n < JOBS_MAX && (d = readdir(dir)) != NULL;) {
        rg__job_record *r = &records[n];
        if (!rg__is_name(d->d_name) ||
            snprintf(r->path, sizeof r->path, "%s/%s", base, d->d_name) >=
                PATH_MAX ||
            !rg__rundir_is_alive(r->path))
            continue;
        strcpy(r->job, d->d_name);
        read_record(r);
        n++;
    }
    closedir(dir);
    qsort(records, n, sizeof *records, by_name);
    *records_p = records;
    *count_p = n;
    return RG_OK;
}

static rg_status fail_none(const char *base, const char *job,
                           const rg__job_record *records, size_t n)
{
    const char *names[JOBS_MAX];
    char *events = NULL;
    if (job == NULL)
        return rg__fail(RG_ERR_INVALID, "no job runs here");
    if (rg__is_name(job) && rg__rundir_event_log(base, job, &events) == RG_OK) {
        free(events);
        return rg__fail(RG_ERR_INVALID,
                        "job %s has ended here; `regroup events %s` says how",
                        job, job);
    }
    for (size_t i = 0; i < n; i++)
        names[i] = records[i].job;
    const char *nearest = rg__nearest(job, names, n);
    if (nearest == NULL)
        return rg__fail(
            RG_ERR_INVALID,
            "no job %s runs here; `regroup jobs` lists those that do", job);
    return rg__fail(RG_ERR_INVALID, "no job %s runs here; did you mean %s?",
                    job, nearest);
}

static rg_status fail_several(const rg__job_record *records, size_t n)
{
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < n && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                 i > 0 ? ", " : "", records[i].job);
    return rg__fail(RG_ERR_INVALID, "%zu jobs run here; name one of them: %s",
                    n, names);
}

rg_status rg__jobs_find(const char *base, const char *job,
                        rg__job_record *record_p)
{
    rg__job_record *records;
    size_t n;
    rg_status st = rg__jobs_list(base, &records, &n);
    if (st != RG_OK)
        return st;
    const rg__job_record *found = n == 1 && job == NULL ? &records[0] : NULL;
    for (size_t i = 0; i < n && job != NULL; i++)
        if (strcmp(records[i].job, job) == 0)
            found = &records[i];
    if (found != NULL)
        *record_p = *found;
    else if (n > 1 && job == NULL)
        st = fail_several(records, n);
    else
        st = fail_none(base, job, records, n);
    free(records);
    return st;
}
