/* Pure questions about what this agent sees: the parsed keys of all/ and its
 * slots. Nothing here changes anything or waits. */
#ifndef RG_AGENT_VIEW_H
#define RG_AGENT_VIEW_H

#include "elastic/agent/base/agent_state.h"

/* The world that was decided last, and the newest proposal, decided or not;
 * NULL: there is none. */
const rg__proposal *rg__view_decided(const rg__agent *a);
const rg__proposal *rg__view_newest(const rg__agent *a);
/* The newest proposal while it is not decided, else NULL. */
const rg__proposal *rg__view_proposed(const rg__agent *a);
/* The newest decision, else NULL. */
const rg__line *rg__view_line(const rg__agent *a);

/* The host of that rank of a generation, NULL: there is no such rank. */
const rg__proposal_host *rg__view_host_of(const rg__agent *a,
                                          uint64_t generation, int rank);
/* How many members the proposal has on this host; p may be NULL. */
int rg__view_count_local(const rg__agent *a, const rg__proposal *p);
/* Has the proposal a place for the worker of this slot? p may be NULL. */
bool rg__view_has_place(const rg__proposal *p, const rg__slot *s);

bool rg__view_has_members(const rg__agent *a); /* this host, in the world */
/* Has that host members in the world, or in the newest proposal? */
bool rg__view_has_host(const rg__agent *a, uint64_t host);
/* A proposal that members of a whole generation are to go to at their next
 * step end: what happens to it is no reason to leave that generation now. */
bool rg__view_is_only_announced(const rg__agent *a, uint64_t generation);
bool rg__view_i_lead(const rg__agent *a);
bool rg__view_is_static(const rg__agent *a); /* also while nothing is known */

/* The slot of that member, NULL: it is not of this host, or an older start. */
rg__slot *rg__slot_of(const rg__agent *a, rg__member_id id);
bool rg__slot_is_alive(const rg__slot *s);  /* has met us and is not dead */
bool rg__slot_is_ready(const rg__slot *s);  /* and its Regroup thread runs */
bool rg__slot_can_store(const rg__slot *s); /* its worker is not fenced */

/* The newest proposal in the snapshot is an offer that is not on record. */
bool rg__view_is_offered(const rg__agent *a, const rg__snapshot *snap);

/* Parse a mirror's keys into a snapshot, which is freed first; with the offer
 * that was taken up, while that holds. */
rg_status rg__view_read(const rg__agent *a, const rg__mirror *mirror,
                        rg__snapshot *snap);

#endif
