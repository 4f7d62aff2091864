/* Parts of the commit from which all resume (elastic/member/resume.c, plan.c,
 * elastic/agent/generation/leader.c): hosts that hold one and are cut off lose
 * their lease, and with it their record, while the others go on without them.
 *
 * The commit is there from the beginning: part h lies on host h alone. A member
 * needs all parts, and begins when it has them; when all members have begun, the
 * run is over. Any host may be cut off, lose its lease then, come back, and
 * write its record some time later; or come back without its vault, as another
 * incarnation. The leader is no host.
 *
 *   u   a decision names a source for whatever a member lacks
 *   v   the job ends as lost only when a part lies in no vault any more
 *   f   every run ends with members that have begun, or as lost
 *
 * A mutant breaks one rule:
 *   NO_PLACE   a source is named only where it has a record
 *   FORGETS    waits for hosts with a record or a place in the newest world */

#ifndef CUTS
#define CUTS 3
#endif
#ifndef POWER
#define POWER 1 /* of them may lose the vault */
#endif
#define N    3
#define ALL  7
#define NONE 3
#define ONE(h)    (1 << (h))
#define IN(h, of) (((of) >> (h)) & 1)

bool up[N], record[N], anew[N]; /* by host */
byte has[N];                    /* parts, as bits */
byte source[N * N];             /* of member and part, in the decision */

/* Sets of hosts: the decided world, all since the commit was made, those that
 * are proposed, and acks. */
byte world = ALL, since = ALL, members, acks;
bool is_proposed, is_broken, is_done, is_lost;
byte cuts = CUTS, powers = POWER;
hidden byte i, k, whole, counted;

#define IS_OVER (is_done || is_lost)
#ifdef MUT_FORGETS
#define MAY_HOLD world
#else
#define MAY_HOLD since
#endif
#define IS_AWAITED(h)                                                          \
    (!IN(h, acks) && !anew[h] && (record[h] || IN(h, MAY_HOLD)))
#define HAS_ADDRESS(h) (record[h] || (!anew[h] && IN(h, since)))
#define MUST_ACK(h)    (IN(h, members) || (up[h] && record[h]))
#define HAVE_ACKED                                                             \
    ((!MUST_ACK(0) || IN(0, acks)) && (!MUST_ACK(1) || IN(1, acks)) &&         \
     (!MUST_ACK(2) || IN(2, acks)))
#define LIES(part) (((has[0] | has[1] | has[2]) >> (part)) & 1)

inline count_parts()
{
    whole = 0;
    counted = 0;
    i = 0;
    do
    :: i < N ->
        if
        :: IN(i, acks) && HAS_ADDRESS(i) -> counted = counted | ONE(i);
                                            whole = whole | has[i]
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

inline name_sources()
{
    i = 0;
    do
    :: i < N * N ->
        source[i] = NONE;
        k = 0;
        do
        :: k < N ->
            if
#ifdef MUT_NO_PLACE
            :: IN(k, counted) && IN(i % N, has[k]) && record[k] -> source[i] = k
#else
            :: IN(k, counted) && IN(i % N, has[k]) -> source[i] = k
#endif
            :: else
            fi;
            k++
        :: else -> break
        od;
        i++
    :: else -> break
    od;
    i = 0;
    k = 0
}

#define MAY_BE_MEMBER(h) (up[h] && (record[h] || (IN(h, world) && !anew[h])))

proctype leader()
{
end:
    do
    :: d_step {
        !IS_OVER && (is_broken || (is_proposed &&
            ((IN(0, members) && !up[0]) || (IN(1, members) && !up[1]) ||
             (IN(2, members) && !up[2])))) &&
            (MAY_BE_MEMBER(0) || MAY_BE_MEMBER(1) || MAY_BE_MEMBER(2)) ->
        members = (MAY_BE_MEMBER(0) -> 1 : 0) | (MAY_BE_MEMBER(1) -> 2 : 0) |
                  (MAY_BE_MEMBER(2) -> 4 : 0);
        acks = 0;
        is_broken = false;
        is_proposed = true
    }
    :: d_step {
        !IS_OVER && is_proposed && !is_broken && HAVE_ACKED ->
        count_parts();
        if
        :: whole == ALL ->
            name_sources();
            world = members;
            since = since | members;
            is_proposed = false
        :: whole != ALL && !IS_AWAITED(0) && !IS_AWAITED(1) &&
           !IS_AWAITED(2) ->
            is_lost = true;
            assert(!(LIES(0) && LIES(1) && LIES(2)))
        :: else
        fi
    }
    od
}

proctype host(byte h)
{
    byte part;
end:
    do
    :: d_step {
        !IS_OVER && is_proposed && up[h] && !IN(h, acks) &&
            (record[h] || (!anew[h] && IN(h, world | members))) ->
        acks = acks | ONE(h)
    }
    /* a member gets a part, or the generation breaks */
    :: d_step {
        !IS_OVER && !is_proposed && !is_broken && up[h] && IN(h, world) &&
            has[h] != ALL ->
        part = (IN(0, has[h]) -> (IN(1, has[h]) -> 2 : 1) : 0);
        assert(source[h * N + part] != NONE);
        if
        :: up[source[h * N + part]] &&
           IN(part, has[source[h * N + part]]) ->
            has[h] = has[h] | ONE(part)
        :: else -> is_broken = true
        fi;
        part = 0
    }
    :: d_step {
        !IS_OVER && !is_proposed && !is_broken && IN(h, world) && !up[h] ->
        is_broken = true
    }
    :: d_step {
        !IS_OVER && !is_proposed && !is_broken &&
            (!IN(0, world) || (up[0] && has[0] == ALL)) &&
            (!IN(1, world) || (up[1] && has[1] == ALL)) &&
            (!IN(2, world) || (up[2] && has[2] == ALL)) ->
        is_done = true
    }
    /* faults, and the way back */
    :: d_step { !IS_OVER && cuts > 0 && up[h] -> cuts--; up[h] = false }
    :: d_step { !IS_OVER && !up[h] && record[h] -> record[h] = false }
    :: d_step { !IS_OVER && !up[h] && powers > 0 ->
        powers--; has[h] = 0; anew[h] = true; record[h] = false }
    :: d_step { !IS_OVER && !up[h] -> up[h] = true }
    :: d_step { !IS_OVER && up[h] && !record[h] -> record[h] = true }
    od
}

init
{
    atomic {
        i = 0;
        do
        :: i < N ->
            up[i] = true;
            record[i] = true;
            has[i] = ONE(i);
            i++
        :: else -> break
        od;
        i = 0;
        is_broken = true;
        run leader();
        run host(0);
        run host(1);
        run host(2)
    }
}

active proctype the_end()
{
end:
    timeout -> assert(is_done || is_lost)
}
