/* In place of ssh, mpirun starts `regroup-rank proxy` once for each host, and
 * hydra does not look at how that ends: a client that has failed leaves its
 * host without a daemon, and mpirun waits. Such a child stays a zombie of
 * mpirun's, with its exit code, so it is looked for until the launch has a
 * world. */
#include "elastic/agent/mpirun/mpirun_parts.h"
#include "elastic/agent/base/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"

#define LOOK_NS   (100 * RG__MS)
#define STAT_MAX  1024
#define EXIT_CODE 49 /* fields of /proc/PID/stat behind the state */

/* A zombie that was ended by a signal or exited with another code than 0. */
static bool has_failed(pid_t pid)
{
    char path[48], text[STAT_MAX + 1];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    const size_t n = file != NULL ? fread(text, 1, STAT_MAX, file) : 0;
    if (file != NULL)
        fclose(file);
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* after the name */
    if (at == NULL || strncmp(at, ") Z", 3) != 0)
        return false;
    at += 2;
    for (int i = 0; i < EXIT_CODE && at != NULL; i++)
        at = strchr(at + 1, ' ');
    return at != NULL && strtol(at, NULL, 10) != 0;
}

/* 0: none. */
static pid_t failed_child(pid_t parent)
{
    char path[64];
    int pid, failed = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent,
             (int)parent);
    FILE *file = fopen(path, "re");
    while (file != NULL && failed == 0 && fscanf(file, "%d", &pid) == 1)
        if (has_failed(pid))
            failed = pid;
    if (file != NULL)
        fclose(file);
    return failed;
}

static const rg__helper *find_mpirun(const rg__agent *a)
{
    const rg__helper *h = a->launches->helpers;
    while (h != NULL && !h->is_mpirun)
        h = h->next;
    return h;
}

void rg__clients_look(void *agent_arg)
{
    rg__agent *a = agent_arg;
    struct rg__launches *l = a->launches;
    const rg__helper *h = find_mpirun(a);
    const rg__proposal *decided = rg__view_decided(a);
    if (!a->params->flavour->leaves_clients || h == NULL || l->is_over ||
        (decided != NULL && decided->launch == l->number))
        return;
    const pid_t failed = failed_child(h->pid);
    if (failed != 0)
        rg__launch_broke(a, RG__BROKE_BY_OTHERS, 0,
                         "process %d, by which mpirun on host %.63s asks for a "
                         "daemon of the MPI, was ended or has failed",
                         (int)failed, a->params->host);
    else
        rg__timer_set(l->clients, LOOK_NS);
}
