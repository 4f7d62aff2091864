/* Which hosts stay together when some do not hear each other: a pure function
 * of the accusations. */
#ifndef RG_MEMBER_LINKS_H
#define RG_MEMBER_LINKS_H

#include "elastic/member/plan.h"

/* Hosts to go on without, by incarnation, so that those who stay all hear each
 * other both ways: again and again the host with most missing links goes; among
 * equals the one more others accuse, then the one with fewer workers, then the
 * one whose lowest rank is higher. Accusations from or against who has gone
 * count no more, and
 * a host outside of the world never costs one inside its place. lost has room
 * for `room` ids; returns how many there are. */
int rg__links_lost(const rg__snapshot *snap, uint64_t *lost, int room);

/* The same of accusations that have stood for the time of a round: others have
 * joined them by then, and who was cut off itself has withdrawn its own. Else
 * *again_ns_p says in how long the next one has; 0: all have. */
int rg__links_lost_by_now(const rg__snapshot *snap, uint64_t now_ns,
                          uint64_t round_ns, uint64_t *lost, int room,
                          uint64_t *again_ns_p);

/* Accusations that stood before, too, keep the time since when. */
void rg__links_keep_times(rg__snapshot *snap, const rg__suspicion *before,
                          int n, uint64_t now_ns);

/* Take note of connections that broke with nobody dead. The first report of a
 * pair of hosts is bad luck, and the same members go on. When the same pair is
 * reported in a second generation within a minute, the one of the two that more
 * hosts accuse is shut out for a minute; among equals the one with fewer
 * workers, then the one with higher ranks. */
void rg__links_note_broken(rg__plan_clock *clock, const rg__snapshot *snap,
                           uint64_t now_ns);

/* Give a host no place for the next minute. */
void rg__shut_out_add(rg__plan_clock *clock, uint64_t host, uint64_t now_ns);
bool rg__shut_out_is(const rg__plan_clock *clock, uint64_t host,
                     uint64_t now_ns);

#endif
