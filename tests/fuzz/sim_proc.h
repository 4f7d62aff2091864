/* Processes that are only numbers: what code forks, kills, waits for and opens
 * by pidfd. PROC_WRAP in CMakeLists.txt names the calls that are wrapped. */
#ifndef TESTS_FUZZ_SIM_PROC_H
#define TESTS_FUZZ_SIM_PROC_H

#include <stdbool.h>
#include <sys/types.h>

void sim_proc_begin(void);
void sim_proc_end(void); /* all are forgotten */
/* The process under test was killed, and another takes its place: children are
 * no longer its own. told: each that ends from now on. */
void sim_proc_orphan(void (*told)(pid_t pid, int status));

/* The i-th child that lives, in a circle; 0: none does. */
pid_t sim_proc_child(unsigned i);
/* It ends with this status, as wait tells it; its pidfds become readable. A
 * SIGKILL ends a process at once, other signals do nothing. */
void sim_proc_exit(pid_t pid, int status);
/* Connections from now on come from this process. */
void sim_proc_be(pid_t pid);

#endif
