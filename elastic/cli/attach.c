/* Attached to an agent that runs: what an agent's own supervisor does for its
 * launcher (remote_cmd.c), except for the output, which does not come here. */
#include "elastic/cli/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/agent/base/agent_params.h"
#include "elastic/cli/ask.h"
#include "elastic/cli/rundir.h"
#include "sdk/base/log.h"

#define AGAIN_MS 100 /* without an agent: a new one is there soon */

typedef struct attached {
    const rg__job_record *job;
    const char *host;
    int in, follower; /* -1: closed; no agent answers now */
    bool is_leaving, has_met, is_over;
    int code;
} attached;

/* The next agent is told what the previous one was told. */
static void meet(attached *a)
{
    a->follower = rg__ask_follow(a->job, a->host);
    if (a->follower < 0)
        return;
    if (!a->has_met)
        rg__say("the agent of this host is watched again; what its workers "
                "print is no longer shown (--output DIR keeps it)");
    a->has_met = true;
    if (a->is_leaving)
        rg__ask_leave(a->job, a->host, a->in < 0);
}

/* The launcher's messages, as `regroup remote` gets them: "leave", once or
 * twice. If its connection breaks without one, the agent goes on. */
static void hear(attached *a)
{
    char said[64];
    const ssize_t n = read(a->in, said, sizeof said);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        a->in = -1;
    if (n <= 0 && !a->is_leaving) {
        a->is_over = true;
        return;
    }
    if (a->follower >= 0 && (n <= 0 || !a->is_leaving))
        rg__ask_leave(a->job, a->host, n <= 0);
    a->is_leaving = true;
}

static void hear_agent(attached *a)
{
    rg__over over;
    char *last = NULL;
    const rg_status st = rg__ask_over(a->follower, 0, &over, &last);
    free(last);
    if (st == RG_IN_PROGRESS)
        return;
    close(a->follower);
    a->follower = -1;
    if (st != RG_OK)
        return; /* killed: is it started again? */
    a->code = over.code;
    a->is_over = true;
}

static void turn(attached *a)
{
    if (a->follower < 0)
        meet(a);
    if (a->follower < 0 && !rg__rundir_has_agent(a->job->path, a->host)) {
        a->is_over = true;
        return;
    }
    struct pollfd on[] = {{.fd = a->in, .events = POLLIN},
                          {.fd = a->follower, .events = POLLIN}};
    poll(on, 2, a->follower < 0 ? AGAIN_MS : -1);
    if (on[0].revents != 0)
        hear(a);
    if (!a->is_over && on[1].revents != 0)
        hear_agent(a);
}

static void watch(attached *a)
{
    int lock;
    while ((lock = rg__rundir_watch(a->job->path, a->host)) < 0 &&
           rg__rundir_has_agent(a->job->path, a->host))
        poll(NULL, 0, AGAIN_MS); /* it is leaving */
    while (lock >= 0 && !a->is_over)
        turn(a);
    if (a->follower >= 0)
        close(a->follower);
    if (lock >= 0)
        close(lock);
}

/* The job must have the same etcd, since another one may have its name. */
static bool find(const rg__letter *letter, const char *run_dir,
                 rg__job_record *job)
{
    char base[PATH_MAX];
    const char *etcd = rg__letter_find(letter, "etcd");
    const char *host = rg__letter_find(letter, "host");
    const char *name = rg__letter_find(letter, "job");
    return etcd != NULL && host != NULL && name != NULL &&
           rg__rundir_base(run_dir, base) == RG_OK &&
           rg__jobs_find(base, name, job) == RG_OK &&
           strcmp(job->endpoints, etcd) == 0 &&
           rg__rundir_has_agent(job->path, host);
}

bool rg__attach(const rg__letter *letter, const char *run_dir, int in,
                int *code_p)
{
    rg__job_record job;
    if (!find(letter, run_dir, &job))
        return false;
    attached a = {.job = &job,
                  .host = rg__letter_find(letter, "host"),
                  .in = in,
                  .follower = -1,
                  .code = RG__EXIT_STORE};
    watch(&a);
    *code_p = a.code;
    return a.has_met || a.is_leaving || a.in < 0;
}
