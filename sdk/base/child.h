/* Between fork and exec: what every program that is started finds.
 *
 * Threads: a child has one. */
#ifndef RG_BASE_CHILD_H
#define RG_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A file that may be executed. */
bool rg__is_program(const char *path);

/* Where PATH has it. */
bool rg__find_in_path(const char *name, char *path, size_t bytes);

/* End with the parent, which the caller of fork is. */
void rg__child_follow(pid_t parent);

/* Take such variables out of the environment. */
void rg__child_unset(bool (*is_such)(const char *name));

/* These are its input, output and errors, -1: /dev/null; no signal is blocked,
 * SIGPIPE ends it, and no other descriptor of ours goes on to the program. */
void rg__child_ready(int in, int out, int err);

/* Become the program; a sentence on its standard error says why it can't. */
_Noreturn void rg__child_run(char *const *argv);

#endif
