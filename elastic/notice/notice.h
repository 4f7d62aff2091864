/* Notices: a cloud, Kubernetes or a site says that it will take this host away.
 * Sources are polled; this room has the present state of each, and calls the
 * owner when that changes. The owner acts on a notice.
 *
 * Threads:   the loop's; a file is read by a thread of its own, inside.
 * Ownership: texts of params are copied; what is returned is borrowed until the
 *            next turn of the loop.
 * Units:     milliseconds; at_ms is Unix time. */
#ifndef RG_ELASTIC_NOTICE_H
#define RG_ELASTIC_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

#include "regroup/regroup.h"
#include "sdk/base/loop.h"

#define RG__NOTICE_TEXT 160

typedef enum rg__notice_kind {
    RG__NOTICE_NONE,
    RG__NOTICE_ADVICE, /* the host may go, or freezes for a moment */
    RG__NOTICE_LEAVE   /* it goes */
} rg__notice_kind;

typedef struct rg__notice {
    rg__notice_kind kind;
    uint64_t at_ms; /* when the host goes; 0: not said */
    uint64_t in_ms; /* or so long after the notice was first seen; 0: not said
                     */
    bool is_wanted; /* the machine's owner waits for it */
    char what[RG__NOTICE_TEXT]; /* as "the instance will be terminated" */
    char id[64];                /* by which it is acknowledged; "": not at all
                                 */
} rg__notice;

typedef enum rg__source_state {
    RG__SOURCE_ASKED, /* it has not answered yet */
    RG__SOURCE_ANSWERS,
    RG__SOURCE_FAILS
} rg__source_state;

typedef struct rg__source_view {
    const char *name; /* "aws" */
    const char *asks; /* a path of the cloud, or what the list names */
    rg__source_state state;
    const char *why; /* it fails */
    const rg__notice *notice;
    uint64_t seen_ns; /* of the monotonic clock: the notice was first seen */
} rg__source_view;

typedef struct rg__notices rg__notices;

typedef struct rg__notices_params {
    const char *list;  /* as --notice has it: "aws,file:/run/leave" */
    const char *base;  /* where clouds are asked; NULL: at their own address */
    const char *dmi;   /* folder that names the cloud; NULL: the kernel's */
    uint64_t every_ms; /* how often */
    void (*changed)(void *arg); /* what a source says, or its state */
    void *arg;
} rg__notices_params;

/* Are these a list of sources and a place to ask? Else ERR_INVALID. */
rg_status rg__notices_check(const char *list, const char *base);

/* Begin to poll. Does not wait. */
rg_status rg__notices_create(rg__loop *loop, const rg__notices_params *params,
                             rg__notices **notices_p);
void rg__notices_destroy(rg__notices *notices); /* NULL allowed */

int rg__notices_count(const rg__notices *notices);
rg__source_view rg__notices_at(const rg__notices *notices, int i);
bool rg__notices_have(const rg__notices *notices, const char *name);

/* The host has left: tell the sources that want to know. True: one is being
 * told; `changed` is called once it has answered. */
bool rg__notices_acknowledge(rg__notices *notices);

#endif
