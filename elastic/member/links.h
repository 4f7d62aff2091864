/* Which hosts stay together when some do not hear each other: a pure function
 * of the accusations. */
#ifndef RG_MEMBER_LINKS_H
#define RG_MEMBER_LINKS_H

#include "elastic/member/plan.h"

/* Hosts to go on without, by incarnation, so that all hosts that stay hear each
 * other both ways. They are taken out one by one: first a host that is accused
 * and accuses no other, since a living host looks when it is asked to and sees
 * the same broken link; then the host with most missing links; among equals the
 * one that more others accuse, then one that accuses itself because it hears no
 * host, then the one with fewer workers, then the one whose lowest rank is
 * higher. Accusations from or against a host that is out no longer count, and a
 * host outside of the world never costs one inside its place. lost has room for
 * `room` ids; returns how many there are.
 *
 * Accusations count after whole rounds. Hosts of the world that they link are
 * judged together, one and a half rounds after the newest of them: a host that
 * was cut off itself has withdrawn its own by then. While one
 * of them has said nothing the wait is a budget (five rounds), and no
 * accusation waits longer than two; but a host that says nothing and that three
 * others, or most, have accused for one and a half rounds is not waited for.
 * *again_ns_p: in how long to look again; 0: all count. */
int rg__links_lost(const rg__snapshot *snap, uint64_t now_ns, uint64_t round_ns,
                   uint64_t *lost, int room, uint64_t *again_ns_p);

/* Accusations that stood before keep their beginning; one that was withdrawn
 * and made again meanwhile begins now. */
void rg__links_keep_times(rg__snapshot *snap, const rg__suspicion *before,
                          int n, uint64_t now_ns);

/* Take note of connections that broke although no worker died. The first report
 * of a pair of hosts is bad luck, and the same members go on. When the same
 * pair is reported in a second generation within a minute, the one of the two
 * that more hosts accuse is shut out; among equals the one with fewer workers,
 * then the one with higher ranks. */
void rg__links_note_broken(rg__plan_clock *clock, const rg__snapshot *snap,
                           uint64_t now_ns);

/* Give a host no place for 5 s, and each further time for twice as long, up to
 * eleven minutes; ten minutes without trouble reset that. */
void rg__shut_out_add(rg__plan_clock *clock, uint64_t host, uint64_t now_ns);
bool rg__shut_out_is(const rg__plan_clock *clock, uint64_t host,
                     uint64_t now_ns);

#endif
