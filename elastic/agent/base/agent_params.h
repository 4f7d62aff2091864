/* What an agent is started with, and its exit codes. */
#ifndef RG_AGENT_AGENT_PARAMS_H
#define RG_AGENT_AGENT_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "elastic/etcd/etcd.h"
#include "sdk/base/clock.h"

/* Exit codes of `regroup run` and `regroup agent`. */
#define RG__EXIT_USAGE     64 /* wrong flags, no such program */
#define RG__EXIT_STORE     69 /* etcd not reachable, refused, or wiped */
#define RG__EXIT_SYSTEM    71 /* the machine refused: no memory, no socket */
#define RG__EXIT_STATE     74 /* no commit is whole any more */
#define RG__EXIT_BELOW_MIN 75 /* fewer workers than --min for too long */
#define RG__EXIT_DIFFERS   78 /* not the job's program, version or buffers */

/* Beside the run directory: the events of an ended job, whose name follows. */
#define RG__EVENT_LOG_FILE ".story-"

#define RG__DETECT_FIRST_MS 500 /* of a budget that follows */

/* What it takes from the user's flags and variables as it is. */
typedef struct rg__user_settings {
    const char *advertise; /* NULL: the interface, or the route to etcd says */
    uint64_t launch_timeout_ms;
    uint64_t hang_ms; /* without a step, then the launch is over; 0: never */
    int max_restarts;
    uint64_t start_timeout_ms, elastic_timeout_ms, etcd_timeout_ms, grace_ms;
    uint64_t vault_max_bytes; /* 0: what the machine has */
    uint64_t deadline_ms;     /* for a host that is asked to leave */
    const char *notice, *notice_base, *notice_dmi; /* as elastic/notice has
                                                      them; NULL: none */
    uint64_t notice_every_ms, notice_lead_ms;
    const char *metrics;       /* where they are shown (scrape.h); NULL: not */
    const char *metrics_csv;   /* a file, */
    const char *metrics_board; /* a directory (scalars.h); NULL: none */
    const char *timeline;      /* a file (timeline.h); NULL: none */
} rg__user_settings;

typedef struct rg__agent_params {
    rg__user_settings user;
    const char *job, *host;
    int slots;           /* workers that this host starts; 0: it starts none and
                            only takes part */
    int min, max;        /* size of the world; equal for -n */
    char *const *argv;   /* the program and its arguments, NULL at the end */
    const char *run_dir; /* the job's run directory, 0700, exists: the agent's
                            socket is <run_dir>/agent-<host>.sock */
    const char *interface; /* NULL: the route to etcd says */
    rg__etcd_params etcd;  /* without on_state, which is the agent's */
    bool creates_job;      /* refuse a running job of that name, and start over;
                          false: join the job, or create it if there is none */
    bool replaces_job; /* one that has not ended is dead, says the operator */
    bool is_one_host;  /* no other host can join: it listens at no port */
    bool has_etcd; /* the job's private one, which ends with what started us */
    bool is_launched; /* by another host, which prints what is printed once for
                         all */
    bool has_remotes; /* the process that started us has started agents on other
                         hosts; they go on without it, unless it has the job's
                         etcd */
    bool is_mpi;      /* workers are the ranks of one mpirun: */
    bool is_ulfm;     /* which outlive the loss of others */
    const char *mpirun;                /* its words, split at blanks */
    const struct rg__flavour *flavour; /* and what it is (mpirun/flavour.h);
                                          NULL without slots */
    bool is_tagged;      /* lines of output bear the worker's name and rank */
    uint64_t stall_ms;   /* without a step, then that is reported; 0: never */
    uint64_t detect_ms;  /* the budget, or the one to begin with if it */
    bool detect_follows; /* what is observed (hosts/delays.h): */
    uint64_t budget_ns;  /* what the leader has chosen, 0: nothing yet */
    bool heeds_advice;   /* as it does notices */
    const char *history_dir;    /* NULL: none; exists */
    const char *output_dir;     /* NULL: prefixed to our own output; exists */
    const char *checkpoint_dir; /* NULL: none; exists; all hosts' */
    uint64_t checkpoint_steps, checkpoint_ms; /* a commit becomes one by itself
                                                 so often; 0: never */
    int checkpoint_keep;
    bool checkpoint_on_stop; /* the newest commit, before the job ends */
} rg__agent_params;

/* The budget: a host that is silent for so long is lost (--detect). */
static inline uint64_t rg__budget_ns(const rg__agent_params *params)
{
    return params->budget_ns != 0 ? params->budget_ns
                                  : params->detect_ms * RG__MS;
}

/* What all other waits are multiples of: a calm network shortens none. */
static inline uint64_t rg__patience_ns(const rg__agent_params *params)
{
    const uint64_t first_ns = params->detect_ms * RG__MS;
    const uint64_t budget_ns = rg__budget_ns(params);
    return budget_ns > first_ns ? budget_ns : first_ns;
}

#endif
