/* What a launcher tells the agent that it starts on another host: a list of
 * names and values, sent over the standard input of --rsh, so that neither
 * secrets nor quoting come near a command line. After it the launcher may send
 * one more message: that the host is to leave.
 *
 *   "regroup-letter <version> <bytes>\n"  name NUL value NUL ...  ["leave\n"]
 *
 * Threads:   any. Ownership: a letter owns its bytes. */
#ifndef RG_LAUNCH_LETTER_H
#define RG_LAUNCH_LETTER_H

#include <stdbool.h>
#include <stddef.h>

#include "regroup/regroup.h"

#define RG__LETTER_LEAVE "leave\n"

typedef struct rg__letter {
    char *bytes;
    size_t n;
    bool has_failed; /* no memory, or too long */
} rg__letter;

void rg__letter_add(rg__letter *letter, const char *name, const char *value);
void rg__letter_add_all(rg__letter *letter, const rg__letter *more);
/* The same with the contents of a file. ERR_INVALID: it can't be read. */
rg_status rg__letter_add_file(rg__letter *letter, const char *name,
                              const char *path);
void rg__letter_free(rg__letter *letter);

/* As it is sent, malloc'd; NULL: no memory. */
char *rg__letter_seal(const rg__letter *letter, size_t *bytes_p);
/* Read it from a descriptor, within the time. ERR_INVALID: no letter comes, or
 * one of another version. */
rg_status rg__letter_receive(rg__letter *letter, int fd, int timeout_ms);

/* Walk: start with *at NULL. false: there is no further one. */
bool rg__letter_next(const rg__letter *letter, const char **at,
                     const char **name_p, const char **value_p);
/* The first of that name; NULL: none. */
const char *rg__letter_find(const rg__letter *letter, const char *name);

#endif
