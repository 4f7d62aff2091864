/* The state of this room. No other room looks into it. */
#ifndef RG_AGENT_MPIRUN_PARTS_H
#define RG_AGENT_MPIRUN_PARTS_H

#include <limits.h>

#include "elastic/agent/mpirun/flavour.h"
#include "elastic/agent/mpirun/mpirun.h"

/* mpirun, or a daemon of the MPI: a child of ours, or of the supervisor if an
 * agent before us has started it. */
typedef struct rg__helper {
    struct rg__helper *next;
    rg__agent *a;
    pid_t pid;
    int pidfd; /* -1: the supervisor says how it ends */
    bool is_mpirun;
} rg__helper;

/* How the MPI of the newest launch has ended here. */
typedef struct rg__mpi_end {
    bool is_broken; /* mpirun or a daemon has ended badly */
    int code;       /* mpirun's, where it may be a rank's; 0: none */
} rg__mpi_end;

struct rg__launches {
    uint64_t number;      /* the newest launch that was seen here */
    bool is_over;         /* and nothing of it is to live */
    uint64_t begun_ns;    /* here */
    uint64_t over_ns;     /* since when it is over */
    uint64_t detected_ns; /* of the fault that has ended it, 0: none */
    int seen;             /* launches, by this agent */
    bool has_rank;        /* one of the newest has been started here */
    rg__mpi_end end;      /* which outlives this agent, as helpers do */
    bool has_told_of_stdin, has_told_of_steps;
    rg__helper *helpers;
    struct rg__served *served_here; /* proxies.c */
    rg__timer *sweep;
    rg__timer *patience; /* with mpirun, once the job is done */
    rg__timer *ending;   /* for ranks to end, once the job is done */
    bool has_missed;     /* a rank or a helper of it died */
    bool ends_soon, is_killed, is_all_killed;
    int place_lock[RG__FLAVOUR_PLACES]; /* of its directories; 0, -1: none */
    rg__timer *left;                    /* for ranks to end by themselves */
    rg__timer *clients;                 /* the next look at mpirun's */
    rg__timer *hang;                    /* the next look at steps */
    uint64_t world_ns;                  /* when the newest world began */
    char ours[PATH_MAX + 32];           /* the path of regroup-rank */
};

/* mpirun.c: the launch can't go on; the first reason counts. code: of the rank
 * that has failed, 0: none is known. */
void rg__launch_broke(rg__agent *a, rg__broke_by by, int code,
                      const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Start a helper in a process group of its own, with the launch's mark. */
rg_status rg__helper_start(rg__agent *a, char *const *argv, bool is_mpirun);

/* mpirun_line.c: what mpirun calls the host of that seat. */
const char *rg__seat_host(const rg__seat *seat);
/* Once: where the program is that mpirun starts. ERR_SYSTEM: nowhere, or where
 * mpirun does not find it. */
rg_status rg__command_find_ours(struct rg__launches *l);
/* mpirun's command line, and the variables for it. NULL: no memory. Freed by
 * rg__command_free. */
char **rg__command_make(const rg__agent *a);
void rg__command_free(char **argv);
/* In a child: no variable of an outer launcher, and ours. */
void rg__command_set_variables(const rg__agent *a);
/* "NAME=VALUE", NULL at the end. */
void rg__command_set_all(const char *const *variables, bool replaces);

/* sweep.c: kill the processes of launches here, but one that is spared (0:
 * none) and maybe shims; how many there were, and one of them. */
int rg__sweep_kill(const rg__agent *a, bool spares_shims, pid_t spared,
                   pid_t *left_p);

/* scratch.c: directories for the files of the newest launch here. In a child:
 * the variables that say so to the MPI. */
void rg__scratch_make(const rg__agent *a);
void rg__scratch_set_variables(const rg__agent *a);
void rg__scratch_remove(const rg__agent *a);

/* fabric.c: in a child, the variables by which the MPI looks for no fabric and
 * no device that is not there. */
void rg__fabric_set_variables(const rg__agent *a);

/* clients.c: a timer's, from mpirun's start on until there is a world. */
void rg__clients_look(void *agent_arg);

/* hang.c: a world of the newest launch begins. */
void rg__hang_begin(rg__agent *a);
bool rg__hang_create(rg__agent *a); /* false: no memory */

/* proxies.c */
void rg__proxy_ask(rg__agent *a, int sock, const rg__proxy *m, size_t n);
void rg__proxies_destroy(rg__agent *a);

#endif
