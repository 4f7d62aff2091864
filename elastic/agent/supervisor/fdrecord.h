/* Records: what must outlive an agent. An agent hands each of them to its
 * supervisor, the process that started it; when the agent is killed, the
 * supervisor starts another, which inherits them by fork.
 *
 * A record has a name, some bytes, up to RG__FDRECORD_FDS descriptors, and
 * perhaps the process whose exit status belongs to it.
 *
 * Threads:   one.
 * Ownership: a list owns its records and their descriptors. */
#ifndef RG_AGENT_FDRECORD_H
#define RG_AGENT_FDRECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sdk/base/sock.h"

#define RG__FDRECORD_NAME_MAX 96
#define RG__FDRECORD_MAX      8192 /* bytes of a record */
#define RG__FDRECORD_FDS      RG__SOCK_FDS

typedef struct rg__fdrecord {
    struct rg__fdrecord *next;
    char name[RG__FDRECORD_NAME_MAX];
    int32_t pid;    /* 0: none */
    bool has_ended; /* status is how pid did, as wait says it */
    int32_t status;
    int fd[RG__FDRECORD_FDS]; /* -1: none */
    size_t n;
    _Alignas(16) char bytes[];
} rg__fdrecord;

typedef struct rg__fdrecord_name {
    char text[RG__FDRECORD_NAME_MAX];
} rg__fdrecord_name;
rg__fdrecord_name rg__fdrecord_name_as(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* In the order in which their names first came. */
typedef struct rg__fdrecord_list {
    rg__fdrecord *first;
} rg__fdrecord_list;

rg__fdrecord *rg__fdrecord_find(const rg__fdrecord_list *list,
                                const char *name);
/* The record behind `after` (NULL: the first) whose name starts so. */
rg__fdrecord *rg__fdrecord_next(const rg__fdrecord_list *list,
                                const char *start, const rg__fdrecord *after);
/* The record whose process that is. */
rg__fdrecord *rg__fdrecord_of(const rg__fdrecord_list *list, int32_t pid);

/* Set a record; the one of that name goes. The descriptors taken become -1.
 * ERR_MEMORY: nothing has changed. */
rg_status rg__fdrecord_set(rg__fdrecord_list *list, const char *name,
                           int32_t pid, const void *bytes, size_t n,
                           int fd[RG__FDRECORD_FDS]);
void rg__fdrecord_drop(rg__fdrecord_list *list, const char *name);
void rg__fdrecord_clear(rg__fdrecord_list *list);
/* Close all descriptors; the records stay. */
void rg__fdrecord_close(rg__fdrecord_list *list);

/* What travels between agent and supervisor, one packet each. */
typedef enum rg__fdrecord_what {
    RG__FDRECORD_PUT = 1, /* agent: name, pid, bytes, descriptors */
    RG__FDRECORD_DROP,    /* agent: name */
    RG__FDRECORD_ENDED,   /* supervisor: pid, status */
    RG__FDRECORD_FINISH /* supervisor: the exit code as status, and why as bytes
                         */
} rg__fdrecord_what;

/* The record from which the supervisor learns that the job is open, and that a
 * world of it has been formed. */
#define RG__FDRECORD_SIZES "sizes"
typedef struct rg__fdrecord_sizes {
    int32_t min, max, has_world;
} rg__fdrecord_sizes;

typedef struct rg__fdrecord_message {
    uint32_t what;
    int32_t pid, status;
    char name[RG__FDRECORD_NAME_MAX];
    _Alignas(16) char bytes[RG__FDRECORD_MAX]; /* as many as there are */
} rg__fdrecord_message;

#endif
