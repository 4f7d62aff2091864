/* Under --mpi: this host's part in launches. The leader says in all/mpirun
 * which slot has which rank; one agent runs mpirun, and on each host the
 * processes of the launch meet the agent: daemons of the MPI, which it starts
 * in place of ssh, and ranks, which become the processes of slots. */
#ifndef RG_AGENT_MPIRUN_H
#define RG_AGENT_MPIRUN_H

#include "elastic/agent/base/agent_state.h"

/* What mpirun and its daemons look for in a host, and ranks do not inherit. */
#define RG__ENV_HWLOC        "HWLOC_COMPONENTS"
#define RG__HWLOC_NO_DEVICES "-pci,-linuxio"

/* A directory and all in it, but no other file system. */
void rg__remove_tree(const char *path);

/* Remove the directories that launches of dead jobs have left on this machine,
 * or with is_dry only find them. fn, unless NULL, is told each. */
typedef void (*rg__scratch_fn)(void *arg, const char *path, bool has_gone);
void rg__scratch_sweep(bool is_dry, rg__scratch_fn fn, void *arg);

rg_status rg__mpirun_create(rg__agent *a);
void rg__mpirun_destroy(rg__agent *a);
/* What an earlier agent of this incarnation has left. */
void rg__mpirun_resume(rg__agent *a);
void rg__mpirun_on_ended(rg__agent *a, int32_t pid, int32_t status);

/* The keys of all/ have moved: begin, or end, what they say. */
void rg__mpirun_follow(rg__agent *a);
/* A rank here is dead, or its process has ended: its launch can't go on,
 * unless the job is done. */
void rg__mpirun_rank_ended(rg__slot *s);
/* It can't go on in place with the others: that takes another launch. */
void rg__mpirun_rank_gave_up(rg__slot *s, const char *why);
/* It has made its last commit, since a host leaves, and ends by itself. */
void rg__mpirun_rank_left(rg__slot *s);
/* A generation of the launch has ended: none of its ranks goes on. */
void rg__mpirun_generation_ended(rg__agent *a, uint64_t generation);
/* A generation begins: say which launch, where, and from which step. */
void rg__mpirun_tell(rg__agent *a, const rg__proposal *p, const rg__line *line);

/* Messages of a launch's processes; true: one, and it owns the socket. */
bool rg__mpirun_called(rg__agent *a, int sock, const void *bytes, size_t n,
                       pid_t pid);
/* Another agent's frame: start a daemon of the MPI. */
bool rg__mpirun_serve(rg__agent *a, rg__connection *c, const void *body,
                      size_t n);

/* At the agent's end: is a process of a launch left? It is ended, in a while
 * when the job is done; `settled` is said then. */
bool rg__mpirun_is_running(rg__agent *a);
/* Is it the code of an MPI that has broken, rather than a program's? */
bool rg__mpirun_may_have_said(const rg__agent *a, int code);
/* A program's code that only mpirun knows; 0: none. */
int rg__mpirun_code(const rg__agent *a);
void rg__mpirun_kill(void *agent_arg); /* a timer's, too */
/* The agent gives up processes that SIGKILL does not end. */
void rg__mpirun_leave_behind(rg__agent *a);
/* The job is done: its ranks have some time to end. */
void rg__mpirun_done(rg__agent *a);

#endif
