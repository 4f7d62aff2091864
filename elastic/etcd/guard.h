/* What a mirror's two files share: mirror.c follows the store, guard.c finds
 * out when it doesn't. */
#ifndef RG_ELASTIC_ETCD_GUARD_H
#define RG_ELASTIC_ETCD_GUARD_H

#include "elastic/etcd/body.h"
#include "elastic/etcd/client.h"
#include "elastic/etcd/watch.h"

typedef enum rg__mirror_stage {
    RG__MIRROR_LISTING,
    RG__MIRROR_PAUSED,
    RG__MIRROR_CONNECTING,
    RG__MIRROR_WATCHING
} rg__mirror_stage;

/* What the guard asked for, and what it was told. */
typedef struct rg__guard {
    rg__etcd_req *req;
    rg__timer *timer;     /* the next question, or the end of the grace */
    uint64_t crowd;       /* clients like this one; 0: not known */
    bool is_expecting;    /* news; a question about it follows soon */
    int64_t asked_at;     /* the copy's revision then */
    uint64_t asked_watch; /* its number then */
    bool is_suspicious;   /* the grace runs */
    int kicks;            /* new watches since it was last content */
    int64_t revision;     /* the answer: of the store, ... */
    int64_t count;        /* ... keys in the range, ... */
    bool has_news;        /* ... one of them newer than the copy */
    rg__kvs meta;
} rg__guard;

struct rg__mirror {
    rg__mirror *next;
    rg__etcd *etcd;
    char *key, *range_end, *meta_key;
    rg__mirror_fn fn;
    void *arg;
    rg__kvs copy;
    rg__kvs meta; /* the store's identity: one key, or none yet */
    int64_t revision;
    bool is_listed;
    bool has_changed, is_wiped; /* to be told */

    rg__mirror_stage stage;
    bool must_list;   /* after PAUSED; else resume */
    int failures;     /* of watches and lists, in a row */
    rg__timer *pause; /* end of PAUSED */
    rg__etcd_req *list;
    rg__kvs listed, listed_meta; /* the list's answer */
    int64_t listed_revision;
    rg__watch *watch;
    uint64_t watch_number;
    int watch_endpoint;
    rg__guard guard;
};

/* The request for the meta key, behind that for the range; and its answer. */
void rg__mirror_add_meta(const rg__mirror *mirror, rg__body *body);
bool rg__mirror_read_meta(const rg__mirror *mirror, const json_t *reply,
                          rg__kvs *meta);
/* Is a store that holds this under the meta key another than the known one?
 * An unknown one becomes known by being listed. */
bool rg__mirror_is_other(const rg__mirror *mirror, const rg__kvs *meta);

/* A new watch through the endpoint now in use; a new list. */
void rg__mirror_resume(rg__mirror *mirror);
void rg__mirror_relist(rg__mirror *mirror);

/* Begin to look after a listed copy, unless that is so already. */
void rg__guard_start(rg__mirror *mirror);
/* A watch stands, on a member that knows the store up to revision. */
void rg__guard_watch(rg__mirror *mirror, int64_t revision);
void rg__guard_on_timer(void *mirror);
void rg__guard_heard(rg__mirror *mirror); /* its watch is not deaf */

#endif
