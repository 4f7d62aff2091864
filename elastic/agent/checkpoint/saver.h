/* What the files about checkpoints in the agent share:
 *
 *   saver.c  requests, and the process that writes
 *   shares.c      the shards of other hosts
 *   claim.c       the right to seal a checkpoint, and its publishing
 *   last.c        the newest commit, before the job ends
 *
 *   rank 0's host   idle -> writing -> written -> claiming -> sealing ->
 *                   publishing -> idle
 *   another host    idle -> holding -> sharing -> idle */
#ifndef RG_AGENT_SAVER_H
#define RG_AGENT_SAVER_H

#include "elastic/agent/checkpoint/writer.h"

typedef enum rg__saver_phase {
    SAVER_IDLE,
    SAVER_WRITING,
    SAVER_WRITTEN, /* waits for a decided generation */
    SAVER_CLAIMING,
    SAVER_SEALING, /* or the writer ends for another reason */
    SAVER_PUBLISHING,
    SAVER_HOLDING, /* a copy of our shards, until a file is made */
    SAVER_SHARING
} rg__saver_phase;

struct rg__saver {
    rg__agent *a;
    rg__saver_phase phase;
    bool has_next;
    bool next_waits, has_waited; /* behind another one: next; now */
    rg__save now, next; /* requests: of this writing, and the one that waits */
    pid_t pid;          /* of the writer, 0: none */
    int pidfd, sock;
    uint64_t where;         /* hash of the directory's name */
    int64_t claim_revision; /* of its claim when it began */
    int64_t cur_revision;   /* of all/cur when it claimed */
    rg__writer_word word;   /* what was begun or written */
    uint64_t followed;      /* the newest decision known to be on its lineage */
    bool is_off;            /* the job went back behind its commit */
    rg__etcd_req *req;      /* on its way: a claim or a publishing */
    rg__timer *late;        /* the job ends, and so does this */
    char error[RG__ERROR_MAX], said[RG__ERROR_MAX];

    /* shards */
    bool is_ordered; /* of others, since then */
    bool must_order; /* again: etcd refused it */
    uint64_t ordered_ns;
    rg__share share;         /* our answer to the last order */
    rg__etcd_req *answering; /* on its way */
    rg__timer *patience;

    /* the end */
    bool is_last;         /* the newest commit is to become a checkpoint */
    bool says_last;       /* the message on its way is the last one */
    bool tells_end;       /* of a job that is done, to its launcher */
    rg__commit_id tried;  /* the newest one that is left, {0, 0}: any */
    rg__commit_id copied; /* by itself, as another host had ordered it */
    rg__timer *calm;      /* looks whether workers still commit */
    uint64_t loaded;      /* serial of the newest checkpoint that a worker here
                             has loaded */
    uint64_t loaded_step; /* 1 + its step, 0: none */
};

/* saver.c */
const char *rg__saver_dir(const rg__saver *v);
void rg__saver_hang_up(rg__saver *v);
void rg__saver_fail(rg__saver *v, const char *why); /* say it, once */
/* It can't be written. The host of rank 0 reports that for all. */
void rg__saver_lose(rg__saver *v, const char *why);
/* What was written does not become a checkpoint. */
void rg__saver_give_up(rg__saver *v, const char *why);
void rg__saver_rest(rg__saver *v); /* if all is over */
void rg__saver_start_next(rg__saver *v);
/* Why there is no checkpoint; is_last: nor will there be one. */
void rg__saver_publish_error(rg__saver *v, bool is_last);
/* That commit is the newest checkpoint of the job's directory already. */
bool rg__saver_is_durable(const rg__saver *v, const rg__save *m);
bool rg__saver_order(rg__saver *v, const rg__writer_order *order);

/* claim.c */
void rg__claim_begin(rg__saver *v);  /* its commit is known */
void rg__claim_follow(rg__saver *v); /* the view has changed since */
int64_t rg__claim_revision(const rg__saver *v);
void rg__claim_if_decided(rg__saver *v);
void rg__claim_sealed(rg__saver *v);
void rg__claim_publish(rg__agent *a); /* what is sealed */

/* last.c */
void rg__last_look(void *saver_arg);  /* at what to write next, if anything */
void rg__last_is_made(rg__saver *v);  /* what was written is durable */
void rg__last_tell_end(rg__saver *v); /* once nothing is written any more */

/* shares.c */
void rg__shares_begun(rg__saver *v);  /* the file is there: order the others */
void rg__shares_cancel(rg__saver *v); /* there will be none */
void rg__shares_asked(rg__saver *v);  /* another request waits */
void rg__shares_follow(rg__saver *v); /* the view has changed */
void rg__shares_held(rg__saver *v);   /* our copy is there */
void rg__shares_done(rg__saver *v);
void rg__shares_failed(rg__saver *v, const char *why);
void rg__shares_late(void *saver_arg);

#endif
