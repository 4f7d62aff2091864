/* Where a generation resumes: a pure function of the acks. */
#ifndef RG_MEMBER_RESUME_H
#define RG_MEMBER_RESUME_H

#include "elastic/member/records.h"

/* The newest commit on the lineage of which the acks of p's generation report
 * every part, {0, 0} if there is none, and which host gets which part of it
 * from where: line->resume and line->copy. repeats: choose a commit that is
 * older by at most so many steps, but not older than what any rank has
 * reported, if fewer hosts have to fetch it. ERR_MEMORY. */
rg_status rg__resume_choose(const rg__snapshot *snap, const rg__proposal *p,
                            uint64_t repeats, rg__line *line);

/* Made in a decided generation, and not later than what any generation decided
 * after that one resumed from. Exact for whatever the last RG__LINES_KEPT
 * generations may resume from; an older commit counts as off. */
bool rg__resume_is_on_lineage(const rg__snapshot *snap, rg__commit_id id);
/* The same of a commit that was on it when `since` was the newest decision,
 * however old it is; false also where a later decision is gone already. */
bool rg__resume_stays_on_lineage(const rg__snapshot *snap, rg__commit_id id,
                                 uint64_t since);
bool rg__resume_is_later(rg__commit_id a, rg__commit_id b);

#define RG__LINES_KEPT 64
/* Is that record still needed once the next generation is decided? */
bool rg__resume_needs_line(const rg__snapshot *snap, const rg__line *line);

/* Would that decision go back behind the resume commit of the previous one? */
bool rg__resume_goes_back(const rg__snapshot *snap, const rg__line *line);

/* The world that made that decision's resume commit; without one its own. */
uint64_t rg__resume_first_world(const rg__line *line);
/* May hosts of that world hold parts of what the next decision resumes from?
 * Those of the first world of the newest decision, and of all since. */
bool rg__resume_may_lie_in(const rg__snapshot *snap, const rg__proposal *p);

/* Has a host of the world that was decided last acked, in the incarnation that
 * was in it, whose vault holds a commit on the lineage, or parts of one, that
 * is no older than what that world resumed from? */
bool rg__resume_has_holder(const rg__snapshot *snap, uint64_t generation);

#endif
