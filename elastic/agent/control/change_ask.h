/* A person's request for a change of the whole job, on its way into etcd. Each
 * function that answers also ends the request. */
#ifndef RG_AGENT_CHANGE_ASK_H
#define RG_AGENT_CHANGE_ASK_H

#include <jansson.h>

#include "elastic/agent/base/agent_state.h"
#include "elastic/agent/base/txn.h"

typedef struct rg__change_ask rg__change_ask;

/* One for each command. */
typedef struct rg__change_kind {
    const char *verb, *noun, *done; /* "drain", "host", "asked to leave" */
    const char *record;             /* that may change meanwhile */
    /* What is read besides the records of all hosts. */
    void (*read)(const rg__change_ask *c, rg__txn_draft *t);
    /* Refuse, accept or write. */
    void (*judge)(rg__change_ask *c, const rg__snapshot *snap,
                  const rg__txn_reply *reply);
    void (*accept)(rg__change_ask *c); /* it is written */
} rg__change_kind;

struct rg__change_ask {
    rg__change_ask *next;
    rg__agent *a;
    const rg__change_kind *kind;
    int sock, attempts;
    char name[RG__NAME_MAX]; /* of the host, or of the job */
    rg__drain drain;         /* drain: as written */
    rg__size asked, size;    /* scale: as asked; as written */
    rg__etcd_req *talking;
    rg__timer *patience;
};

/* Owns the socket from then on. NULL: no memory, and the socket is closed. */
rg__change_ask *rg__change_begin(rg__agent *a, const rg__change_kind *kind,
                                 const char *name, int sock);
void rg__change_look(rg__change_ask *c);
void rg__change_write(rg__change_ask *c, rg__txn_draft *t);
void rg__change_answer(rg__change_ask *c, json_t *j);
/* st: the kind of failure, for the exit code of the command. */
void rg__change_refuse(rg__change_ask *c, rg_status st, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
