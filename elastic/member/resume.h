/* Where a generation resumes: a pure function of the acks. */
#ifndef RG_MEMBER_RESUME_H
#define RG_MEMBER_RESUME_H

#include "elastic/member/records.h"

/* The newest commit on the lineage of which the acks of p's generation report
 * every part, {0, 0} where there is none, and which host gets what of it from
 * where: line->resume and line->copy. ERR_MEMORY. */
rg_status rg__resume_choose(const rg__snapshot *snap, const rg__proposal *p,
                            rg__line *line);

/* Made in a decided generation, and not later than what any generation decided
 * after that one resumed from. */
bool rg__resume_is_on_lineage(const rg__snapshot *snap, rg__commit_id id);
bool rg__resume_is_later(rg__commit_id a, rg__commit_id b);

/* Would that decision go back behind what was committed, as far as those who
 * acked can know: behind the resume commit of the generation before, or with
 * nobody there who was in that generation and so has what was committed in it?
 */
bool rg__resume_goes_back(const rg__snapshot *snap, const rg__proposal *p,
                          const rg__line *line);

#endif
