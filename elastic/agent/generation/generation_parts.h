/* The state of this room. No other room looks into it. */
#ifndef RG_AGENT_GENERATION_PARTS_H
#define RG_AGENT_GENERATION_PARTS_H

#include "elastic/agent/base/agent_state.h"

struct rg__generation {
    uint64_t prepared; /* newest proposal that was taken up */
    uint64_t prepared_ns;
    rg__timer *prepare_timer; /* its PREPAREs could not go out yet */
    uint64_t finning;         /* generation whose fin is said */
    rg__etcd_req *beginning;  /* all/begun is on its way, guarded by */
    int64_t begins_at;        /* this mod_revision of cur */
    uint64_t unrecorded_ns;   /* workers here wait for that record, and etcd
                                 answers, since; 0: no such */
    rg__change *change;       /* the newest, in the order in which they began */
    int changes;
    rg__recoveries past; /* of changes that are not kept any more */
};

/* This host's record. */
struct rg__publication {
    uint64_t seq;
    int64_t host_revision; /* mod_revision of our record, 0: none */
    rg__etcd_req *publishing;
    bool is_dirty, has_published;
    bool was_away;      /* etcd was, since it has taken our newest record */
    bool is_counted;    /* an offer was made of what is not in etcd yet */
    bool is_held;       /* until the offer under way is on record */
    rg__timer *timer;   /* the leader looks first, then it goes out */
    rg__reason *reason; /* not yet in etcd, or on the way */
    int reasons, reasons_sent;
    int64_t namesake_revision;
};

/* A death on another host, which the mirror does not show yet. */
typedef struct rg__told_death {
    uint64_t host, generation;
    char *member;       /* owned; */
    const char *reason; /* behind it in the same memory */
} rg__told_death;

struct rg__leader {
    rg__mirror *whole;     /* of all keys of the job, while this agent leads */
    bool is_known_old;     /* the mirror has moved on */
    uint64_t read_next_ns; /* not before */
    rg__told_death *death;
    int deaths;
    rg__etcd_req *acting;
    int64_t acted_on; /* revision of `known` then */
    uint64_t away_ns; /* since when etcd is away, as we were told; 0: it is
                         not */
    rg__timer *look_timer;
    rg__timer *expect_timer;
    rg__commit_id expected; /* resumed from by what is under way, which members
                               may be told of before it is on record */
    rg__plan_clock clock;
    bool is_competing;
    bool has_offered; /* in the look that is under way */
    int forming_said; /* 1 + the workers that were there when it was said that
                         the first world waits; 0: it was not */
};

void rg__publish_now(void *agent_arg); /* that timer's */
/* Look when it is time: what the leader has read is old. */
void rg__leader_has_news(rg__agent *a);
/* That timer's: the decision of an offer is on its way to etcd. */
void rg__expect(void *agent_arg);
/* Over what the leader has read. */
void rg__deaths_lay(rg__agent *a);
void rg__deaths_forget(rg__agent *a);

struct rg__acks {
    char *ack;       /* ours, until the generation is decided; or NULL */
    uint64_t minded; /* generation whose acks we wait for as the leader */
};

#endif
