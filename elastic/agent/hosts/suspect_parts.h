/* The state of this room. No other room looks into it. */
#ifndef RG_AGENT_SUSPECT_PARTS_H
#define RG_AGENT_SUSPECT_PARTS_H

#include "elastic/agent/base/agent_state.h"

struct rg__suspects {
    rg__timer *timer;      /* a round of looks is over */
    uint64_t no_etcd_mark; /* of the hosts without etcd that the last look stood
                              on */
    uint64_t round_ns;     /* all were asked to look at each other then */
    int64_t round;         /* revision of that asking */
    uint64_t spoken_for;   /* the newest generation ended for a host that etcd
                              does not answer */
    uint64_t told_generation, told_ns; /* a host has told of its abort; 0: no */
    rg__etcd_req *deposing;
    rg__timer *judge_timer;
    uint64_t asked_ns;      /* for all accusations, the last time */
    rg__suspicion *accused; /* as read last, while we lead or accuse the leader;
                               owned */
    int accusations;
};

#endif
