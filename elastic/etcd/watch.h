/* One watch: one connection, from one revision on, until it ends. It reports
 * what came and why it ended; its owner decides how to go on. */
#ifndef RG_ELASTIC_ETCD_WATCH_H
#define RG_ELASTIC_ETCD_WATCH_H

#include "elastic/etcd/client.h"

typedef struct rg__watch rg__watch;

/* What to do about an end. */
typedef enum rg__watch_end {
    RG__WATCH_RESUME, /* nothing is wrong with what came so far */
    RG__WATCH_RELIST  /* compacted, or unreadable */
} rg__watch_end;

typedef struct rg__watch_fns {
    /* It stands; revision is the store's, as this member knows it. */
    void (*created)(void *arg, int64_t revision);
    /* All events of whole revisions, in order. false: they can't be read. */
    bool (*events)(void *arg, const json_t *events);
    /* All that had come has been reported; may close the watch. */
    void (*pause)(void *arg);
    /* It is over, and the watch is gone. */
    void (*end)(void *arg, rg__watch_end end, const char *why);
} rg__watch_fns;

/* Texts are copied. Only end and pause may close it. */
rg_status rg__watch_open(rg__etcd *etcd, int endpoint, const char *key,
                         const char *range_end, int64_t start_revision,
                         const rg__watch_fns *fns, void *arg,
                         rg__watch **watch_p);
void rg__watch_close(rg__watch *watch); /* NULL allowed */

#endif
