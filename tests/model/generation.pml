/* The generation protocol: how a generation ends and the next begins.
 *
 * What is in it, what every name stands for, the bounds and the numbers are in
 * README.md. Every action is one guarded atomic step and every process one
 * loop, so all state lies in the globals below; every run ends, hence "no bad
 * end state" is the progress claim.
 *
 * Bounds (all -D): NH hosts, NW workers by identity, HM0 and HM1 the masks of
 * workers per host, INIT the members of the first proposal, NEWC a worker that
 * comes to the door at any moment (NW: nobody), S steps, PLAIN the steps that
 * end without a commit, F deaths, B reports of "broken", LC leader changes,
 * AWAY absences of a host, of those in GOES, whose workers live on; POWER is 1
 * when an absent host may lose its power for good, and its vault with it. NO_ETCD
 * is 1 when it is etcd alone that an absent host does not hear, for good.
 * DRAIN is 1 when host 0 is asked to leave. CLEAN is 1 when restoring takes two steps and is left out for a worker whose
 * memory is the commit already. AK is how many agents are killed; the next one of the host takes over.
 * OFFERS is 1 when a leader may offer a proposal before it is on record. SOFT are reports of "broken" that an agent
 * acts on before they are published.
 * REPEATS is 1 when a step that no rank has reported is done again rather than fetched.
 * SPARE keeps newcomers out until a member is missing, MIN is --min (1 or 2).
 * Every MUT_ flag breaks one rule. */

#ifndef NH
#define NH 2
#endif
#ifndef NW
#define NW 3
#endif
#ifndef HM0
#define HM0 1
#endif
#ifndef HM1
#define HM1 6
#endif
#ifndef INIT
#define INIT 3
#endif
#ifndef NEWC
#define NEWC 2
#endif
#ifndef S
#define S 2
#endif
#ifndef PLAIN
#define PLAIN 0
#endif
#ifndef F
#define F 2
#endif
#ifndef B
#define B 0
#endif
#ifndef LC
#define LC 1
#endif
#ifndef AWAY
#define AWAY 0
#endif
#ifndef GOES
#define GOES 2
#endif
#ifndef POWER
#define POWER 0
#endif
#ifndef NO_ETCD
#define NO_ETCD 0
#endif
#ifndef DRAIN
#define DRAIN 0
#endif
#ifndef CLEAN
#define CLEAN 0
#endif
#ifndef AK
#define AK 0
#endif
#ifndef MIN
#define MIN 1
#endif
#ifndef REPEATS
#define REPEATS 0
#endif
#ifndef SPARE
#define SPARE 0
#endif
#ifndef OFFERS
#define OFFERS 0
#endif
#ifndef SOFT
#define SOFT 0
#endif
#define NP   3 /* pieces of a vault slot */
#define MAXG (1 + F + B + SOFT + NW * AWAY + POWER + AK + DRAIN + (NEWC < NW -> 1 : 0) +            \
              OFFERS * (F + LC + AK + AWAY))
#define ROWS 7

/* ------------------------------------------------------------- small words */
#define hostof(w)  ((HM1 >> (w)) & 1)
#define local(h)   ((h) == 0 -> HM0 : HM1)
#define has(m, w)  (((m) >> (w)) & 1)
#define bit_of(x)  (1 << (x))
#define top(a, b)  ((a) > (b) -> (a) : (b))

/* A commit's id is its generation and its step in one number, so that "newer"
 * is "greater"; 0 is none. */
#define newest(mask)                                                          \
    (has(mask, 6) -> 6 : (has(mask, 5) -> 5 : (has(mask, 4) -> 4 : (has(mask, 3) -> 3 :            \
    (has(mask, 2) -> 2 : (has(mask, 1) -> 1 : 0))))))
#define id_of(g, s) ((g) * 4 + (s))
#define gen_of(id)  ((id) / 4)
#define step_of(id) ((id) % 4)

/* --------------------------------------------------------------- in etcd */
#define PROPOSE 0
#define DECIDED 1
#define DONE    2
#define ENDED   3 /* the job ends: its commits are lost for good */
byte cur = 1;       /* `cur`: generation ... */
byte phase;         /* ... and phase; both only rise, so they are mod(cur) */
byte members[ROWS]; /* gen/<g>; row 0 stands for "who is at the door first" */
byte announced;     /* gen/<g>: the cause was announced, a bit per g */
byte decided;       /* line/<g> exists, a bit per g */
byte line[ROWS];    /* line/<g>: the resume commit */
byte ev;            /* ev/<g>/..: a reason is published, a bit per g */
byte alive = INIT;  /* host/<h>: living workers, at the door or inside */
byte door;          /* host/<h>: newcomers at the door */
byte ack[NH];       /* said by h: newest g, with its vault's commits:   */
byte ack_id[NH * 2];
byte fin[NH];       /* fin/<g>/<h>: newest g */
byte leader;        /* `leader`: who holds the key */
byte begun;         /* all/begun: the generation whose commit 0 was agreed on
                     * first; 0: none, so nobody has reported any */
byte away;          /* hosts that etcd does not hear; they live on, unless ... */
byte dark;          /* ... they have lost their power and their vault */
byte heir;          /* another incarnation bears the name of a dark host */
bit  waits;         /* the leader waits for hosts that may bring more */
byte lost;          /* absent hosts that the leader goes on without */
#define is_here(h) (!has(away, h))
#define of_lost    ((has(lost, 0) -> HM0 : 0) | (has(lost, 1) -> HM1 : 0))
#if OFFERS
byte knows;        /* dead workers that are not published, but the leader was told */
#ifdef MUT_ANY_START
#define counted    (alive & ~of_lost & ~knows & ~(has(knows, 1) -> 4 : 0))
#define shown(m)   (m)
#else
#define counted    (alive & ~of_lost & ~knows)
#define shown(m)   ((m) & alive)
#endif
#else
#define counted    (alive & ~of_lost)
#endif
#if DRAIN
bit  drain_left = 1;
bit  drains;        /* host 0 is to leave; its workers get no place */
#define of_drained (drains -> HM0 : 0)
#define placeable  (counted & ~of_drained)
#define leaving(g) (drains && (members[g] & HM0) != 0)
#else
#define of_drained 0
#define placeable  counted
#define leaving(g) 0
#endif

/* ------------------------------------------------------- in the agents */
byte seen[NH];  /* newest proposal that the agent has looked at */
byte abort[NH]; /* the abort word of its pages */
#if SOFT
byte said[NH];  /* a generation that has ended, which this agent alone knows */
byte softs = SOFT;
#define forget_said(h)   said[h] = 0
#define is_said(h, g)    (said[h] == (g))
#else
#define forget_said(h)   skip
#define is_said(h, g)    0
#endif
byte plan[NH];  /* what the leader is about to write: */
#define P_NONE    0
#define P_PROPOSE 1
#define P_DECIDE  2
#define P_DONE    3
#define P_END     4
#define P_GIVE_UP 5
#define P_OFFER   6 /* said to all hosts, and to be recorded at any moment */
#define P_BOTH    7 /* the offer and its decision, once all have acked */
byte plan_cur[NH], plan_phase[NH], plan_arg[NH];
bit plan_announced[NH];
#if OFFERS
byte plan_op[NH];   /* which offer, and what it resumes from */
byte plan_best[NH];
byte row_op[ROWS];  /* gen/<g>: which offer it was; 0: it was none */
byte took[NH];      /* generation of the offer that the host has taken up, ... */
byte took_op[NH];   /* ... which one, */
byte took_mem[NH];  /* and its members */
byte ack_op[NH];    /* the ack is of that offer; 0: of what is on record */
byte built_op[NW];  /* ghost: what the worker has built */
byte heard_op[NH];  /* the offer whose decision the leader has begun to write, */
byte heard[NH];     /* and what that resumes from, as the host was told */
bit expected[NW];   /* the worker has restored that before the decision */
#define UNKNOWN 7   /* the agent before took it, and its workers have it */
#define mem_of(h, g)  ((took[h] == (g) && (g) != 0) -> took_mem[h] : members[g])
#define has_taken(h)  (took[h] != 0)
/* The generation on record is what this host has taken up. */
#ifdef MUT_FORGETS_OFFER
#define is_taken(h)   1
#else
#define is_taken(h)                                                           \
    (took_op[h] == row_op[took[h]] ||                                         \
     (took_op[h] == UNKNOWN && has(decided, took[h]) &&                       \
      (members[took[h]] & local(h)) != 0))
#endif
#define is_foreign(h, g) (took[h] == (g) && !is_taken(h))
#else
#define mem_of(h, g)     members[g]
#define has_taken(h)     0
#define is_foreign(h, g) 0
#endif
#if AK > 0
byte agents[NH];  /* that have been killed: each makes segments of its own */
bit  adopts[NH];  /* has not looked at etcd since it took over */
byte told[NW];    /* newest proposal that an agent handed to this worker ... */
byte made_by[NW]; /* ... and which one: members meet in that one's segment */
#define may_build(w, h) (told[w] == seen[h])
#define is_with(w, v)   (!has(members[gen[w]], v) || gen[v] != gen[w] ||       \
                         hostof(v) != hostof(w) || made_by[v] == made_by[w])
#if NW == 2
#define have_met(w) (is_with(w, 0) && is_with(w, 1))
#else
#define have_met(w) (is_with(w, 0) && is_with(w, 1) && is_with(w, 2))
#endif
#else
#define may_build(w, h) 1
#define have_met(w)     1
#endif
byte fetch[NH];   /* generation whose resume commit comes into the vault */
byte fetched[NH]; /* newest one that was passed on, or was to be then */

/* ------------------------------------------- vaults, as pieces of slots */
byte piece[NH * 2 * NP];   /* 0: empty or writing, else id * 4 + count */
byte content[NH * 2 * NP]; /* what was copied into it */
#define at(h, slot, i) (((h) * 2 + (slot)) * NP + (i))
#define count_in(p)    ((p) & 3)
#define agrees(h, slot, i)                                                    \
    (count_in(piece[at(h, slot, 0)]) <= (i) ||                                \
     piece[at(h, slot, i)] == piece[at(h, slot, 0)])
#define holds(h, slot)                                                        \
    (agrees(h, slot, 1) && agrees(h, slot, 2) -> piece[at(h, slot, 0)] / 4    \
                                               : 0)
#define in_vault(h, id) (holds(h, 0) == (id) || holds(h, 1) == (id))

/* ------------------------------------------------------------ workers */
#define NONE   0  /* not started */
#define DOOR   1  /* in rg_run, in no generation yet */
#define LEFT   2  /* left its generation */
#define BUILT  3  /* built `gen`, waits for its decision */
#define SYNC   4  /* its memory is being restored */
#define READY  5  /* at the top of a step */
#define COMMIT 6  /* will commit `step` */
#define COPY   7  /* a piece is marked `writing` */
#define AGREE  8  /* in the agreement of a commit */
#define SAGREE 9  /* in the agreement of a step's end that does not save */
#define FAGREE 10 /* in the last agreement */
#define FIN    11 /* fn returned OK everywhere */
#define END    12
#define DEAD   13
byte state[NW];
byte gen[NW];
byte step[NW];
bit  slot[NW];      /* the vault slot to fill next */
byte memory[NW];    /* content of the registered memory: an id, or FRESH + w */
#define FRESH 128
#define TORN  127
#if CLEAN
byte clean[NW];     /* the commit that it left by agreement with */
#endif
byte marked;        /* the life word says so; not yet confirmed dead */
byte entered[ROWS * NW]; /* newest agreement entered, by generation */
byte flags[ROWS];   /* "hosts changed" in an agreement, a bit per step */

#define inside(w)  (state[w] >= SYNC && state[w] <= FIN)
#define ended(w)   (state[w] == NONE || state[w] == END || state[w] == DEAD)

/* ---------------------------------------------------------------- ghosts */
byte reported;      /* newest commit that any rank reported */
byte had;           /* hosts that have held a whole commit, a bit per host */
byte deaths = F, breaks = B, changes = LC, absences = AWAY, powers = POWER;
byte kills = AK;
hidden byte i, j, k, x, id, best, least;

/* ------------------------------------------------------------ agreements */
#define of_commit(s) (2 * (s) + 2)
#define of_step(s)   (2 * (s) + 1)
#define of_fin       (2 * S + 3)
#define is_in(g, w, n) (!has(members[g], w) || entered[(g) * NW + (w)] >= (n))
#if NW == 2
#define all_in(g, n) (is_in(g, 0, n) && is_in(g, 1, n))
#elif NW == 3
#define all_in(g, n) (is_in(g, 0, n) && is_in(g, 1, n) && is_in(g, 2, n))
#else
#define all_in(g, n)                                                          \
    (is_in(g, 0, n) && is_in(g, 1, n) && is_in(g, 2, n) && is_in(g, 3, n))
#endif

inline enter(w, n)
{
    entered[gen[w] * NW + w] = n
}

inline carry_flag(w, h)
{
    if
    :: seen[h] > gen[w] && has(announced, seen[h]) && !has_taken(h) ->
        flags[gen[w]] = flags[gen[w]] | bit_of(step[w])
    :: else
    fi
}

/* -------------------------------------------------------------- lineage */

#ifdef MUT_MOST_STEPS
#define is_newer(a, b) ((a) != 0 && step_of(a) >= step_of(b))
#else
#define is_newer(a, b) ((a) > (b))
#endif

/* best = max(best, id), if id is on the lineage: made in a decided generation
 * and not later than the resume commit of any decided one after it. */
inline offer(the_id)
{
    id = the_id;
    x = gen_of(id);
    if
    :: id == 0 || !has(decided, x) -> id = 0
    :: else ->
#ifndef MUT_MOST_STEPS
        x++;
        do
        :: x <= MAXG ->
            if
            :: has(decided, x) && id > line[x] -> id = 0
            :: else
            fi;
            x++
        :: else -> break
        od
#else
        skip
#endif
    fi;
    if
    :: is_newer(id, best) -> best = id
    :: else
    fi
}

/* Claim: commit `old` is `from` or an ancestor of it. */
inline claim_ancestor(from, old)
{
    id = from;
    do
    :: gen_of(id) > gen_of(old) -> id = line[gen_of(id)]
    :: else -> break
    od;
    assert(old == 0 || (gen_of(id) == gen_of(old) && id >= old))
}

/* ---------------------------------------------------------------- agents */

/* x = the generation that the death of w ends, as its agent knows it; 0 when w
 * is a newcomer whose generation nobody has entered. */
inline ended_by(w, h)
{
    x = seen[h];
    if
    :: x > 0 && has(mem_of(h, x), w) &&
       (!has(announced, x) || ack[h] == x || has_taken(h))
    :: else ->
        x = top(x, 1) - 1;
        do
        :: x > 0 && !has(decided, x) -> x--
        :: else -> break
        od;
        if
        :: !has(members[x], w) -> x = 0
        :: else
        fi
    fi
}

/* What an agent learns when it looks: proposals, reasons. */
#define over                                                                  \
    (phase == PROPOSE && has(announced, cur) -> 0 : cur - 1)
/* What befalls a proposal that is only announced is no reason to leave the whole
 * generation in which its members go on. */
#define only_announced (announced & ~decided)
/* A host that was left out hears it by the decision. */
#define left_out       (top(newest(decided), 1) - 1)
#define abort_now(h)                                                          \
    top(top(abort[h], left_out), top(newest(ev & ~only_announced), over))

#ifdef MUT_NO_FENCE
#define fenced(p, w) (has(members[p], w) || 1)
#else
#define fenced(p, w)                                                          \
    (ended(w) || state[w] == DOOR || state[w] == LEFT ||                      \
     (state[w] == BUILT && gen[w] == (p)))
#endif
#ifdef MUT_ACK_EARLY
#define built(p, w) (!has(marked, w))
#else
#define built(p, w)                                                           \
    (state[w] == BUILT && gen[w] == (p) && !has(marked, w) && have_met(w))
#endif
#define acks(h, p, w)                                                         \
    (!has(local(h), w) || (has(mem_of(h, p), w) -> built(p, w) : fenced(p, w)))
#define fins(h, g, w)                                                         \
    (!has(local(h), w) || !has(members[g], w) ||                              \
     (state[w] == FIN && gen[w] == (g) && !has(marked, w)))
#if NW == 2
#define all_ack(h, p) (acks(h, p, 0) && acks(h, p, 1))
#define all_fin(h, g) (fins(h, g, 0) && fins(h, g, 1))
#elif NW == 3
#define all_ack(h, p) (acks(h, p, 0) && acks(h, p, 1) && acks(h, p, 2))
#define all_fin(h, g) (fins(h, g, 0) && fins(h, g, 1) && fins(h, g, 2))
#else
#define all_ack(h, p)                                                         \
    (acks(h, p, 0) && acks(h, p, 1) && acks(h, p, 2) && acks(h, p, 3))
#define all_fin(h, g)                                                         \
    (fins(h, g, 0) && fins(h, g, 1) && fins(h, g, 2) && fins(h, g, 3))
#endif

/* Whose acks a decision needs. */
#ifdef MUT_ONLY_HOSTS_WITH_MEMBERS
#define asked(p, h) ((members[p] & local(h)) != 0)
#else
#define asked(p, h)                                                           \
    ((members[p] & local(h)) != 0 || (is_here(h) && local(h) != 0))
#endif
/* Of what is on record: an ack of an offer is one only of that offer. */
#if !OFFERS
#define has_acked(p, h) (ack[h] == (p))
#elif defined(MUT_ACK_OF_ANY)
#define has_acked(p, h) (ack[h] == (p))
#else
#define has_acked(p, h)                                                       \
    (ack[h] == (p) && (ack_op[h] == 0 || ack_op[h] == row_op[p]))
#endif
#define answered(p, h) (!asked(p, h) || has_acked(p, h))
#define finned(g, h)   ((members[g] & local(h)) == 0 || fin[h] == (g))
#if NH == 1
#define all_answered(p) answered(p, 0)
#define all_finned(g)   finned(g, 0)
#else
#define all_answered(p) (answered(p, 0) && answered(p, 1))
#define all_finned(g)   (finned(g, 0) && finned(g, 1))
#endif

#ifdef MUT_DONE_ONLY_IF_DECIDED
#define can_end(d)                                                            \
    (phase == DECIDED && !broken(d) && all_finned(d))
#else
#define can_end(d) ((d) > 0 && !broken(d) && all_finned(d))
#endif
#define broken(g) (has(ev, g) || (members[g] & ~counted) != 0)

/* A host of the world that was decided last has acked: that world ends no more
 * steps, for a step needs all of its ranks. What this host has not completed,
 * no rank has reported. */
#ifdef MUT_ANY_WITNESS
#define of_world(h) ((h) < NH)
#else
#define of_world(h) ((members[newest(decided)] & local(h)) != 0)
#endif
#ifdef MUT_ANY_INCARNATION
#define witness(p, h) (of_world(h) && has_acked(p, h))
#else
#define witness(p, h) (of_world(h) && has_acked(p, h) && !has(heir, h))
#endif
#if NH == 1
#define has_witness(p) witness(p, 0)
#define is_all(p)      has_acked(p, 0)
#else
#define has_witness(p) (witness(p, 0) || witness(p, 1))
#define is_all(p)      (has_acked(p, 0) && has_acked(p, 1))
#endif
/* What a decision resumes from is as new as any commit that the world before
 * has had, or nobody is left who could bring a newer one. */
#ifdef MUT_NO_WITNESS
#define may_decide(p, best) 1
#else
#define may_decide(p, best)                                                   \
    (!begun || (has_witness(p) && (best) >= line[newest(decided)]) ||         \
     (is_all(p) && (best) != 0))
#endif
#define may_end(p, best) (!may_decide(p, best) && is_all(p))

/* What a host of the world before has not whole, no rank has reported: a leader
 * to which a step is dearer to fetch than to do again goes back to what all of
 * them have. `known` is a bit for each host that has acked. */
#ifdef MUT_REPEATS_BY_ANY
#define is_of_world(h) (has(known, h) && local(h) != 0)
#else
#define is_of_world(h) (has(known, h) && of_world(h) && !has(heir, h))
#endif
#if REPEATS
inline repeat_step(known)
{
    k = best;
    least = 255;
    i = 0;
    do
    :: i < NH ->
        if
        :: is_of_world(i) ->
            best = 0;
            offer(ack_id[i * 2]);
            offer(ack_id[i * 2 + 1]);
            if
            :: best < least -> least = best
            :: else
            fi
        :: else
        fi;
        i++
    :: else -> break
    od;
    least = top(least, line[newest(decided)]);
    best = (least != 0 && least < k -> least : k)
}
#endif

/* Fewer workers than --min, for longer than --elastic-timeout, which is at any
 * moment here. A leader that has no word of the world before waits for it. */
#if MIN == 1
#define is_few(m) ((m) == 0)
#else
#define is_few(m) (((m) & ((m) - 1)) == 0)
#endif
#define is_known(h) (of_world(h) && is_here(h))
#if NH == 1
#define is_world_known is_known(0)
#else
#define is_world_known (is_known(0) || is_known(1))
#endif
#define may_give_up(h)                                                        \
    (MIN > 1 && phase < DONE && plan[h] == P_NONE && leader == (h) &&         \
     broken(cur) && is_few((members[newest(decided)] | door) & placeable) &&    \
     (newest(decided) == 0 || is_world_known))

inline give_up(h)
{
    plan[h] = P_GIVE_UP;
    plan_cur[h] = cur;
    plan_phase[h] = phase
}

/* plan() from one snapshot. */
inline make_plan(h)
{
    k = newest(decided);
    best = (members[k] | door) & placeable;
#if SPARE
    if
    :: k == 0 || broken(k) -> skip
    :: else -> best = members[k]
    fi;
#endif
    plan_cur[h] = cur;
    plan_phase[h] = phase;
    if
    :: can_end(k) -> plan[h] = P_DONE
    :: else ->
        if
        :: !is_few(best) &&
           (broken(cur) ||
            (phase == DECIDED && ((best & ~members[cur]) != 0 || leaving(cur)))) ->
            plan[h] = P_PROPOSE;
            plan_arg[h] = best;
            plan_announced[h] = (k > 0 && !broken(k))
        :: else ->
            if
            :: phase == PROPOSE && !broken(cur) && all_answered(cur) ->
                best = 0;
                i = 0;
                do
                :: i < NH ->
                    if
                    :: has_acked(cur, i) ->
                        offer(ack_id[i * 2]);
                        offer(ack_id[i * 2 + 1])
                    :: else
                    fi;
                    i++
                :: else -> break
                od;
#if REPEATS
                repeat_step((has_acked(cur, 0) -> 1 : 0) |
                            (has_acked(cur, NH - 1) -> 1 << (NH - 1) : 0));
#endif
                if
                :: may_decide(cur, best) ->
                    plan[h] = P_DECIDE;
                    plan_arg[h] = best
                :: may_end(cur, best) -> plan[h] = P_END
                :: else -> waits = 1
                fi
            :: else
            fi
        fi
    fi;
    if
    :: plan[h] == P_NONE ->
        plan_cur[h] = 0;
        plan_phase[h] = 0
    :: else
    fi
}

#if OFFERS
/* A leader knows of deaths that no host has published yet: of its own host, and
 * of those that told it; they stay true, and whoever it knows them from will
 * publish them. So it says what it will propose before it is on record, and
 * hosts take it up. */
#define can_hear(h)                                                           \
    (phase < DONE && begun && is_here(h) && is_here(leader) &&                \
     (marked & alive & local(h) & ~knows) != 0)
#define is_ending(g) (broken(g) || is_said(leader, g))
#define offered      ((members[cur] | door) & placeable)
#define is_any_fin(g) (fin[0] == (g) || fin[NH - 1] == (g))
#define can_offer(h)                                                          \
    (plan[h] == P_NONE && leader == (h) && is_here(h) && phase == DECIDED &&  \
     begun && is_ending(cur) && !is_few(offered) && !is_any_fin(cur))
#define is_used(op)                                                           \
    (took_op[0] == (op) || took_op[NH - 1] == (op) || plan_op[0] == (op) ||   \
     plan_op[NH - 1] == (op) || ack_op[0] == (op) || ack_op[NH - 1] == (op))

inline make_offer(h)
{
    plan[h] = P_OFFER;
    plan_cur[h] = cur;
    plan_phase[h] = phase;
    plan_arg[h] = offered;
    x = 1;
    do
    :: is_used(x) -> x++
    :: else -> break
    od;
    plan_op[h] = x;
    printf("host %d offers g%d members %d as %d\n", h, cur + 1, plan_arg[h], x)
}

#define can_take(h, l)                                                        \
    (!has_taken(h) && is_here(h) && phase < DONE &&                           \
     (plan[l] == P_OFFER || plan[l] == P_BOTH) && seen[h] == plan_cur[l] && \
     has(decided, plan_cur[l]) && fin[h] != plan_cur[l])

inline take(h, l)
{
    took[h] = plan_cur[l] + 1;
    took_op[h] = plan_op[l];
    took_mem[h] = plan_arg[l];
    abort[h] = top(abort[h], plan_cur[l]);
    seen[h] = took[h];
    printf("host %d takes offer %d of g%d\n", h, took_op[h], took[h])
}

#define acked_offer(h, l)                                                     \
    (ack[h] == plan_cur[l] + 1 && ack_op[h] == plan_op[l])
#define answered_offer(h, l)                                                  \
    (acked_offer(h, l) ||                                                     \
     !((plan_arg[l] & local(h)) != 0 || (is_here(h) && local(h) != 0)))
#define is_witness(h, l) (of_world(h) && acked_offer(h, l) && !has(heir, h))
#define may_decide_offer(l, best)                                             \
    ((is_witness(0, l) || is_witness(NH - 1, l)) &&                           \
     (best) >= line[newest(decided)])
#define can_settle(l)                                                         \
    (plan[l] == P_OFFER && leader == (l) && plan_cur[l] == cur &&             \
     plan_phase[l] == phase && answered_offer(0, l) &&                        \
     answered_offer(NH - 1, l))

/* A datagram: workers may get it later, or never. */
inline tell_expected(to, by)
{
    if
    :: took_op[to] == plan_op[by] ->
        heard_op[to] = plan_op[by];
        heard[to] = plan_best[by]
    :: else
    fi
}

/* All have built what was offered: it goes on record as it is decided. */
inline settle(l)
{
    best = 0;
    i = 0;
    do
    :: i < NH ->
        if
        :: acked_offer(i, l) ->
            offer(ack_id[i * 2]);
            offer(ack_id[i * 2 + 1])
        :: else
        fi;
        i++
    :: else -> break
    od;
#if REPEATS
    repeat_step((acked_offer(0, l) -> 1 : 0) |
                (acked_offer(NH - 1, l) -> 1 << (NH - 1) : 0));
#endif
    if
    :: may_decide_offer(l, best) ->
        plan[l] = P_BOTH;
        plan_best[l] = best;
        tell_expected(0, l);
#if NH > 1
        tell_expected(1, l)
#endif
    :: else
    fi
}
#endif

#ifdef MUT_CHANGE_AFTER_DONE
#define is_over    (phase >= DONE && !broken(newest(decided)))
#define is_settled (phase != PROPOSE)
#else
#define is_over    (phase >= DONE)
#define is_settled (phase == DECIDED)
#endif
#define is_due(g)                                                             \
    ((!SPARE && (door & placeable & ~members[g]) != 0) ||                     \
     (leaving(g) && !is_few((members[g] | door) & placeable)))
#define work_for_leader(h)                                                    \
    (!is_over && plan[h] == P_NONE && leader == (h) &&                        \
     (can_end(newest(decided)) ||                                             \
      (is_settled &&                                                          \
       (broken(cur) || is_due(cur))) ||                                       \
      (phase == PROPOSE &&                                                    \
       (broken(cur) ||                                                        \
        (all_answered(cur) && !waits)))) &&                                   \
     !(broken(cur) && is_few((members[newest(decided)] | door) & placeable)))

/* The newest commit that was reported lies in no vault any more. */
#if NH == 1
#define no_host_holds(id) ((id) == 0 || !in_vault(0, id))
#else
#define no_host_holds(id)                                                      \
    ((id) == 0 || (!in_vault(0, id) && !in_vault(1, id)))
#endif

/* The txn's comparisons: who leads, and what `cur` was. */
#ifdef MUT_NO_CAS
#define is_planned(h) 1
#else
#define is_planned(h)                                                         \
    (leader == (h) && plan_cur[h] == cur && plan_phase[h] == phase)
#endif
#ifdef MUT_UNGUARDED_END
#define may_write(h)                                                          \
    (plan[h] == P_END || plan[h] == P_GIVE_UP || is_planned(h))
#else
#define may_write(h) is_planned(h)
#endif

inline forget_known()
{
#if OFFERS
    knows = 0
#else
    skip
#endif
}

inline forget_plan(h)
{
    plan[h] = P_NONE;
    plan_cur[h] = 0;
    plan_phase[h] = 0;
    plan_arg[h] = 0;
#if OFFERS
    plan_op[h] = 0;
    plan_best[h] = 0;
#endif
    plan_announced[h] = 0
}

/* Rows of generations that nobody is in any more say nothing: forget them. */
inline forget_old()
{
    j = 1;
    do
    :: j < cur ->
        x = 0;
        i = 0;
        do
        :: i < NW ->
            if
            :: gen[i] == j && inside(i) -> x = 1
            :: else
            fi;
            i++
        :: else -> break
        od;
        if
        :: x == 0 ->
            i = 0;
            do
            :: i < NW -> entered[j * NW + i] = 0; i++
            :: else -> break
            od;
            flags[j] = 0
        :: else
        fi;
        j++
    :: else -> break
    od
}

/* What hosts did in the generations before a decision is asked of nobody. */
inline forget_outcomes()
{
    i = 0;
    do
    :: i < NH -> fin[i] = 0; fetched[i] = 0; i++
    :: else -> break
    od
}

/* A proposal goes on record. */
inline record(h)
{
    assert(plan_cur[h] == cur);
    cur++;
    assert(cur <= MAXG && members[cur] == 0);
    phase = PROPOSE;
    waits = 0;
    members[cur] = plan_arg[h];
#if OFFERS
    row_op[cur] = plan_op[h];
#endif
    printf("host %d proposes g%d members %d announced %d\n", h, cur,
           members[cur], plan_announced[h]);
    if
    :: plan_announced[h] -> announced = announced | bit_of(cur)
    :: else
    fi
}

inline settle_on(h, resume)
{
    assert(phase == PROPOSE && !has(decided, cur));
    printf("host %d decides g%d: resume %d.%d, reported %d.%d\n", h,
           cur, gen_of(resume), step_of(resume),
           gen_of(reported), step_of(reported));
    assert(reported == 0 || resume != 0);
    if
    :: no_host_holds(reported)
    :: else -> claim_ancestor(resume, reported)
    fi;
    phase = DECIDED;
    decided = decided | bit_of(cur);
    line[cur] = resume;
    forget_outcomes();
    if
    :: resume == 0 -> had = 0 /* none of it is on the lineage */
    :: else
    fi;
#ifndef MUT_RESUME_WITHOUT_RECORD
    if
    :: begun == 0 -> begun = gen_of(resume)
    :: else
    fi;
#endif
    i = 0;
    do
    :: i < NH * 2 -> ack_id[i] = 0; i++
    :: else -> break
    od;
#if OFFERS
    ack_op[0] = 0;
    ack_op[NH - 1] = 0;
#endif
    forget_old()
}

inline write_plan(h)
{
    if
    :: may_write(h) ->
        assert(phase < DONE);
        if
#if OFFERS
        :: plan[h] == P_OFFER -> record(h)
        :: plan[h] == P_BOTH ->
            record(h);
            settle_on(h, plan_best[h])
#endif
        :: plan[h] == P_PROPOSE -> record(h)
        :: plan[h] == P_DECIDE -> settle_on(h, plan_arg[h])
        :: plan[h] == P_DONE ->
            phase = DONE;
            printf("host %d records g%d done\n", h, cur)
        :: plan[h] == P_GIVE_UP ->
            assert(plan_cur[h] == cur && plan_phase[h] == phase);
            phase = ENDED;
            printf("host %d gives up in g%d\n", h, cur)
        :: plan[h] == P_END ->
            assert((had & ~heir) == 0);
            assert(no_host_holds(reported));
            phase = ENDED;
            printf("host %d records the end in g%d\n", h, cur)
        fi
    :: else
    fi;
    forget_plan(h)
}

inline note_had(h, s)
{
    if
    :: holds(h, s) != 0 && (line[newest(decided)] != 0 ||
                            gen_of(holds(h, s)) == newest(decided)) ->
        had = had | bit_of(h)
    :: else
    fi
}

/* The resume commit comes from another host's vault, before the decision is
 * passed on, into the slot that does not hold the newest commit on the lineage
 * that is whole here: the host that sends may be lost before all of it has come.
 * k = that slot. */
inline choose_slot(h)
{
#ifdef MUT_RECEIVER_OVERWRITES
    k = 0
#elif defined(MUT_RECEIVER_KEEPS_NEWEST)
    k = (holds(h, 0) > holds(h, 1))
#else
    j = holds(h, 0);
    best = 0;
    offer(j);
    k = best;
    j = holds(h, 1);
    best = 0;
    offer(j);
    k = (k > best);
    j = 0
#endif
}
#define is_emptied(h, s) (piece[at(h, s, 0)] == 0)

#define can_fetch(h, g)                                                       \
    (phase < DONE && (g) == newest(decided) && (g) > 0 && abort[h] < (g) &&  \
     line[g] != 0 && (members[g] & local(h)) != 0 &&                          \
     !in_vault(h, line[g]) && is_here(NH - 1 - (h)) &&                        \
     in_vault(NH - 1 - (h), line[g]))

inline begin_fetch(h)
{
    fetch[h] = newest(decided);
    fetched[h] = fetch[h];
    assert(ack[h] <= fetch[h]);
    choose_slot(h);
    i = 0;
    do
    :: i < NP ->
        piece[at(h, k, i)] = 0;
        content[at(h, k, i)] = 0;
        i++
    :: else -> break
    od;
    i = 0;
    printf("host %d fetches %d.%d into slot %d\n", h, gen_of(line[fetch[h]]),
           step_of(line[fetch[h]]), k)
}

/* As one piece. */
inline end_fetch(h)
{
    k = (is_emptied(h, 0) -> 0 : 1);
    assert(ack[h] <= fetch[h] && is_emptied(h, k));
    piece[at(h, k, 0)] = line[fetch[h]] * 4 + 1;
    content[at(h, k, 0)] = line[fetch[h]];
    note_had(h, k);
    fetch[h] = 0;
    printf("host %d has it\n", h)
}

#define rank0(g)                                                              \
    (has(members[g], 0) -> 0 : (has(members[g], 1) -> 1 :                     \
    (has(members[g], 2) -> 2 : 3)))

#ifdef MUT_UNGUARDED_RECORD
#define is_unchanged(g) 1
#else
#define is_unchanged(g) (phase == DECIDED || has(announced, g))
#endif

#if OFFERS
inline let_go(h)
{
    took[h] = 0;
    took_op[h] = 0;
    took_mem[h] = 0;
    heard_op[h] = 0;
    heard[h] = 0
}

/* What is on record by now is not what this host has taken up. */
#define is_refused(h) (took[h] == cur && !is_taken(h))
#define has_to_refuse(h)                                                      \
    (is_refused(h) &&                                                         \
     (abort[h] < cur || (phase == PROPOSE && !has(ev, cur))))

inline refuse(h)
{
    printf("host %d refuses g%d\n", h, cur);
    abort[h] = top(abort[h], cur);
    seen[h] = cur;
    if
    :: phase == PROPOSE -> ev = ev | bit_of(cur)
    :: else
    fi
}

/* The record has come as far as what was taken up, or beyond. */
inline catch_up(h)
{
    if
    :: is_taken(h) -> x = 0
    :: else -> x = took[h]
    fi;
    let_go(h);
    abort[h] = top(x, abort_now(h));
    seen[h] = cur;
    printf("host %d catches up: g%d, aborted up to g%d\n", h, seen[h],
           abort[h])
}
#endif

#if AK > 0
/* Pages say that workers were told to leave, and etcd knows no reason: the agent
 * before had one. */
#ifdef MUT_FORGETS_REASON
#define was_left(h) 0
#else
#define was_left(h)                                                           \
    (adopts[h] && phase < DONE && newest(decided) > 0 &&                      \
     (members[newest(decided)] & local(h)) != 0 &&                            \
     abort[h] >= newest(decided) && cur >= newest(decided) &&                 \
     (phase == DECIDED || has(announced, cur)) &&                             \
     !has(ev, newest(decided)))
#endif
inline end_left(h)
{
    if
    :: was_left(h) ->
        ev = ev | bit_of(newest(decided));
        printf("host %d ends g%d, which its workers have left\n", h,
               newest(decided))
    :: else
    fi
}

/* Workers have told the next agent what was handed to them. What only some of
 * the members have is given up: they would wait in a segment of the dead one. */
inline take_up(h)
{
    end_left(h);
    x = 0;
    k = 0;
    i = 0;
    do
    :: i < NW ->
        if
        :: has(members[cur] & local(h) & ~marked, i) && told[i] == cur -> x++
        :: has(members[cur] & local(h) & ~marked, i) && told[i] != cur -> k++
        :: else
        fi;
        i++
    :: else -> break
    od;
    if
#ifndef MUT_TAKES_UP_HALF
    :: adopts[h] && phase == PROPOSE && x > 0 && k > 0 ->
        ev = ev | bit_of(cur);
        printf("host %d gives up g%d, which only some have\n", h, cur)
#endif
    :: else
    fi;
    adopts[h] = 0;
    i = 0
}

/* The next agent has the vault, the pages and the workers from the supervisor. A
 * commit on its way comes again, one that is here does not. */
inline kill_agent(h)
{
    kills--;
    forget_said(h);
    if
    :: leader == h -> forget_known()
    :: else
    fi;
    agents[h]++;
    adopts[h] = 1;
    seen[h] = 0;
#if OFFERS
    if
    :: took[h] != 0 ->
        took_op[h] = UNKNOWN;
        took_mem[h] = 0
    :: else
    fi;
#endif
    if
    :: fetch[h] != 0 -> fetch[h] = 0; fetched[h] = 0
#ifdef MUT_FETCHES_AGAIN
    :: fetch[h] == 0 -> fetched[h] = 0
#endif
    :: else
    fi;
    printf("agent %d is killed\n", h)
}
#else
#define take_up(h) skip
#endif

#define not_offered(h, w)                                                     \
    (has_taken(h) && took_op[h] != UNKNOWN && seen[h] == took[h] &&           \
     has(took_mem[h] & local(h), w) && told[w] < took[h])
#define not_told(w) (has(members[cur] & local(h), w) && told[w] < cur)
#define tell(w, h)  told[w] = cur; made_by[w] = agents[h]

#if OFFERS
#define has_left(h) (took[h] == newest(decided) + 1)
#else
#define has_left(h) 0
#endif

proctype agent(byte h)
{
end:
    do
    /* look again */
    :: d_step {
        is_here(h) && phase < DONE && !has_taken(h) &&
        (seen[h] != cur || abort[h] != abort_now(h)) ->
        abort[h] = abort_now(h);
        seen[h] = cur;
        take_up(h);
        printf("host %d looks: g%d, aborted up to g%d\n", h, seen[h], abort[h])
    }
#if OFFERS
    /* an offer, and what has become of it */
    :: d_step { can_take(h, 0) -> take(h, 0) }
#if NH > 1
    :: d_step { can_take(h, 1) -> take(h, 1) }
#endif
    :: d_step {
        is_here(h) && phase < DONE && has_taken(h) && cur >= took[h] &&
        !is_refused(h) ->
        catch_up(h);
        take_up(h)
    }
    :: d_step {
        is_here(h) && phase < DONE && has_taken(h) && has_to_refuse(h) ->
        refuse(h)
    }
    :: d_step {
        has_taken(h) && is_here(h) && phase < DONE && ack[h] != took[h] &&
        took_op[h] != UNKNOWN && cur < took[h] && all_ack(h, took[h]) ->
        ack[h] = took[h];
        ack_op[h] = took_op[h];
        ack_id[h * 2] = holds(h, 0);
        ack_id[h * 2 + 1] = holds(h, 1);
        printf("host %d acks offer %d of g%d with commits %d and %d\n", h,
               took_op[h], took[h], ack_id[h * 2], ack_id[h * 2 + 1])
    }
    /* the leader's own host, or a datagram to it */
    :: d_step { can_hear(h) -> knows = knows | (marked & alive & local(h)) }
    :: d_step { can_offer(h) -> make_offer(h) }
    :: d_step { can_settle(h) -> settle(h) }
#if AK > 0
    :: d_step { not_offered(h, 0) -> told[0] = took[h]; made_by[0] = agents[h] }
    :: d_step { not_offered(h, 1) -> told[1] = took[h]; made_by[1] = agents[h] }
#if NW > 2
    :: d_step { not_offered(h, 2) -> told[2] = took[h]; made_by[2] = agents[h] }
#endif
    /* the next agent finds workers with a proposal that is not on record */
    :: d_step {
        is_here(h) && phase < DONE && has_taken(h) && adopts[h] &&
        cur < took[h] ->
        end_left(h);
        seen[h] = took[h];
        adopts[h] = 0;
        abort[h] = top(abort_now(h), took[h] - 1)
    }
#endif
#endif
#if AK > 0
    /* hand a proposal to its members, one by one */
    :: d_step {
        seen[h] == cur && phase == PROPOSE && not_told(0) -> tell(0, h)
    }
    :: d_step {
        seen[h] == cur && phase == PROPOSE && not_told(1) -> tell(1, h)
    }
#if NW > 2
    :: d_step {
        seen[h] == cur && phase == PROPOSE && not_told(2) -> tell(2, h)
    }
#endif
#endif
    /* publish a death: reason and host record in one txn */
    :: d_step {
        is_here(h) && phase < DONE && (marked & alive & local(h)) != 0 ->
        i = 0;
        do
        :: i < NW ->
            if
            :: has(marked & alive & local(h), i) ->
                ended_by(i, h);
                if
                :: x > 0 -> ev = ev | bit_of(x)
                :: else
                fi;
                alive = alive & ~bit_of(i);
#if OFFERS
                knows = shown(knows);
#endif
                door = door & ~bit_of(i);
                printf("host %d publishes: worker %d dead, reason in g%d\n",
                       h, i, x)
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
#if SOFT
    /* publish a reason */
    :: d_step {
        is_here(h) && phase < DONE && said[h] != 0 ->
        ev = ev | bit_of(said[h]);
        said[h] = 0
    }
#endif
    /* ack */
    :: d_step {
        phase == PROPOSE && seen[h] == cur && !has_acked(cur, h) &&
        !has_taken(h) && asked(cur, h) && all_ack(h, cur) ->
        ack[h] = cur;
#if OFFERS
        ack_op[h] = 0;
#endif
        waits = 0;
        ack_id[h * 2] = holds(h, 0);
        ack_id[h * 2 + 1] = holds(h, 1);
        printf("host %d acks g%d with commits %d.%d and %d.%d\n", h, cur,
               gen_of(ack_id[h * 2]), step_of(ack_id[h * 2]),
               gen_of(ack_id[h * 2 + 1]), step_of(ack_id[h * 2 + 1]))
    }
    /* fin */
    :: d_step {
        is_here(h) && phase < DONE && decided &&
        fin[h] != newest(decided) && !has_left(h) &&
        (members[newest(decided)] & local(h)) != 0 &&
        all_fin(h, newest(decided)) ->
        fin[h] = newest(decided);
        printf("host %d: fin g%d\n", h, fin[h])
    }
    /* all have agreed on commit 0: compared with `cur`, it is recorded */
    :: d_step {
        !begun && is_here(h) && !has(heir, h) && phase < DONE &&
        newest(decided) > 0 && is_unchanged(cur) &&
        line[newest(decided)] == 0 &&
        has(local(h), rank0(newest(decided))) &&
        all_in(newest(decided), of_commit(0)) ->
        begun = newest(decided);
        printf("host %d records that g%d begins\n", h, newest(decided))
    }
    /* the resume commit of another host; what ends the generation ends that */
    :: d_step {
        fetched[h] < newest(decided) && can_fetch(h, newest(decided)) ->
        begin_fetch(h)
    }
    :: d_step { fetch[h] != 0 && can_fetch(h, fetch[h]) -> end_fetch(h) }
    :: d_step {
        fetch[h] != 0 &&
        (abort[h] >= fetch[h] || fetch[h] != newest(decided)) ->
        fetch[h] = 0
    }
#if POWER > 0
    /* the host that was to send it has come back without it: a reason */
    :: d_step {
        is_here(h) && phase < DONE && !has(ev, newest(decided)) &&
        line[newest(decided)] != 0 &&
        (members[newest(decided)] & local(h)) != 0 &&
        !in_vault(h, line[newest(decided)]) && has(heir, NH - 1 - (h)) ->
        ev = ev | bit_of(newest(decided))
    }
#endif
    /* as leader: take a snapshot and plan; later: write */
    :: d_step { work_for_leader(h) -> make_plan(h) }
#if MIN > 1
    :: d_step { may_give_up(h) -> give_up(h) }
#endif
    :: d_step { plan[h] != P_NONE -> write_plan(h) }
    od
}

/* --------------------------------------------------------------- workers */

/* Local rank and number of local members of w's generation: i and k. */
inline local_rank(w, h)
{
    i = 0;
    k = 0;
    j = 0;
    do
    :: j < NW ->
        if
        :: has(members[gen[w]] & local(h), j) ->
            k++;
            if
            :: j < w -> i++
            :: else
            fi
        :: else
        fi;
        j++
    :: else -> break
    od
}

/* Claims of every step that can store for w's generation. */
inline claim_may_store(w, h)
{
    assert(has(decided, gen[w]));
    assert(ack[h] <= gen[w]);
    assert(phase != DONE || has(marked, w) || gen[w] < newest(decided));
    j = 0;
    do
    :: j < NW ->
        assert(!(has(local(h), j) && inside(j) && gen[j] < gen[w]));
        j++
    :: else -> break
    od;
    j = 0
}

inline mark_writing(w, h)
{
    claim_may_store(w, h);
    local_rank(w, h);
    piece[at(h, slot[w], i)] = 0;
    content[at(h, slot[w], i)] = 0;
    state[w] = COPY;
    printf("worker %d begins commit %d.%d in slot %d\n", w, gen[w], step[w],
           slot[w])
}

inline mark_complete(w, h)
{
    claim_may_store(w, h);
    local_rank(w, h);
    assert(piece[at(h, slot[w], i)] == 0);
    piece[at(h, slot[w], i)] = id_of(gen[w], step[w]) * 4 + k;
    content[at(h, slot[w], i)] = memory[w];
    note_had(h, slot[w]);
    carry_flag(w, h);
    enter(w, of_commit(step[w]));
    state[w] = AGREE;
    printf("worker %d completes %d.%d and enters the agreement\n", w, gen[w],
           step[w])
}

inline report(w)
{
    printf("worker %d reports commit %d.%d\n", w, gen[w], step[w]);
    id = id_of(gen[w], step[w]);
    k = newest(decided);
    if
    :: k > gen[w] ->
        x = id;
        claim_ancestor(line[k], x)
    :: else ->
        if
        :: id > reported -> reported = id
        :: else
        fi
    fi
}

/* Nobody reads a memory again that the next decision restores. */
inline forget_memory(w)
{
#if !CLEAN
    memory[w] = 0
#else
    skip
#endif
}

/* The worker does not enter the generation: that waits for the decision. */
#if OFFERS
#define can_expect(w, h)                                                      \
    (state[w] == BUILT && has_taken(h) && gen[w] == took[h] && heard[h] != 0 && \
     heard_op[h] == built_op[w] && in_vault(h, heard[h]) && !expected[w] &&   \
     abort[h] < gen[w] && !has(marked, w))

inline expect(w, h)
{
    printf("worker %d restores %d, which g%d is expected to resume from\n", w,
           heard[h], gen[w]);
    restore(w, h, heard[h]);
    expected[w] = 1;
#ifdef MUT_STEPS_WHEN_EXPECTED
    step[w] = step_of(heard[h]);
    slot[w] = (holds(h, 0) == heard[h]);
    state[w] = READY
#endif
}

inline forget_expected(w)
{
    expected[w] = 0;
    forget_memory(w)
}

#define resume(w, h, id)                                                      \
    if                                                                        \
    :: expected[w] -> expected[w] = 0                                         \
    :: else -> restore(w, h, id)                                              \
    fi
#else
#define forget_expected(w)  forget_memory(w)
#define resume(w, h, id)    restore(w, h, id)
#endif

inline leave(w)
{
    printf("worker %d leaves g%d\n", w, gen[w]);
#ifdef MUT_EARLY_REUSE
    if
    :: state[w] == AGREE ->
        local_rank(w, hostof(w));
        piece[at(hostof(w), slot[w], i)] = 0
    :: else
    fi;
#endif
    state[w] = LEFT;
    forget_expected(w);
    step[w] = 0;
    slot[w] = 0
}

#if CLEAN && !defined(MUT_STAYS_CLEAN)
#define not_clean(w) clean[w] = 0
#else
#define not_clean(w) skip
#endif

inline leave_clean(w)
{
#if CLEAN
    clean[w] = id_of(gen[w], step[w]);
#endif
    leave(w)
}

inline go_on(w)
{
    if
    :: step[w] == S ->
        enter(w, of_fin);
        state[w] = FAGREE;
        forget_memory(w)
    :: else -> state[w] = READY
    fi
}

#define can_sync(w, h, g)                                                     \
    (line[g] == 0                                                             \
         -> (rank0(g) == (w) || (inside(rank0(g)) && gen[rank0(g)] == (g)))   \
         : in_vault(h, line[g]))

inline restore(w, h, the_id)
{
#ifndef MUT_EARLY_RESTORE
    memory[w] = content[at(h, (holds(h, 1) == the_id), 0)]
#else
    skip
#endif
}

/* The newest commit that lies in the vault as the worker leaves. */
inline restore_early(w, h)
{
#ifdef MUT_EARLY_RESTORE
    best = (holds(h, 1) > holds(h, 0));
    if
    :: holds(h, best) != 0 -> memory[w] = content[at(h, best, 0)]
    :: else
    fi
#else
    skip
#endif
}

inline end_sync(w)
{
    assert(memory[w] == line[gen[w]] || step[w] == 0);
    go_on(w)
}

#if CLEAN
inline begin_restore(w)
{
    clean[w] = 0;
    memory[w] = TORN;
    state[w] = SYNC
}

inline end_restore(w, h)
{
    printf("worker %d has restored\n", w);
    restore(w, h, line[gen[w]]);
    clean[w] = 0;
    end_sync(w)
}
#endif

/* The content of a commit: its own id, since computing a step again in another
 * generation gives other bits; commit 0 is the memory of some rank 0. */
inline sync(w, h)
{
    printf("worker %d syncs in g%d\n", w, gen[w]);
    fetched[h] = top(fetched[h], gen[w]);
    assert(phase != DONE);
    id = line[gen[w]];
    if
    :: id == 0 ->
        step[w] = 0;
        slot[w] = 0;
        memory[w] = FRESH + rank0(gen[w]);
        state[w] = COMMIT
    :: else ->
        step[w] = step_of(id);
        slot[w] = (holds(h, 0) == id);
#if CLEAN
        if
        :: clean[w] == id -> end_sync(w)
        :: clean[w] != id -> begin_restore(w)
        fi
#else
        resume(w, h, id);
        end_sync(w)
#endif
    fi
}

/* A generation that was decided is entered, also when the next one is already
 * announced: its other members wait in it for the step end. */
#ifdef MUT_SKIP_DECISION
#define owes_entry(w, h) 0
#else
#define owes_entry(w, h)                                                      \
    (state[w] == BUILT && gen[w] == newest(decided) && abort[h] < gen[w] &&   \
     !is_foreign(h, gen[w]))
#endif

/* Commit 0 counts once it is on record that commits may exist, from its own
 * generation or an earlier one. */
#ifdef MUT_NO_RECORD
#define may_report(w) 1
#elif defined(MUT_ANY_RECORD)
#define may_report(w) (begun || step[w] != 0)
#else
#define may_report(w) (step[w] != 0 || (begun != 0 && begun <= gen[w]))
#endif

#if OFFERS
#define note_built(w, h)                                                      \
    built_op[w] = (has_taken(h) -> took_op[h] : row_op[seen[h]])
#define claim_built(w) assert(built_op[w] == row_op[gen[w]])
#else
#define note_built(w, h) skip
#define claim_built(w)   skip
#endif

proctype worker(byte w; byte h)
{
end:
    do
    /* the Regroup thread builds what its agent prepares */
    :: d_step {
        (state[w] == DOOR || state[w] == LEFT || state[w] == BUILT) &&
        seen[h] > gen[w] && has(mem_of(h, seen[h]), w) && !has(marked, w) &&
        may_build(w, h) &&
        !owes_entry(w, h) ->
#if OFFERS
        if
        :: expected[w] -> forget_expected(w)
        :: else
        fi;
#endif
        state[w] = BUILT;
        gen[w] = seen[h];
        note_built(w, h);
        restore_early(w, h);
        printf("worker %d built g%d\n", w, gen[w])
    }
    /* its decision arrives: restore, or receive */
    :: d_step {
        state[w] == BUILT && is_here(h) && gen[w] == newest(decided) &&
        abort[h] < gen[w] && !has(marked, w) && can_sync(w, h, gen[w]) &&
        !is_foreign(h, gen[w]) ->
        claim_built(w);
        sync(w, h)
    }
#if OFFERS
    :: d_step { can_expect(w, h) -> expect(w, h) }
#endif
#if CLEAN
    :: d_step {
        state[w] == SYNC && in_vault(h, line[gen[w]]) -> end_restore(w, h)
    }
#endif
    /* a step */
    :: d_step {
        state[w] == READY ->
        claim_may_store(w, h);
        not_clean(w);
        step[w] = step[w] + 1;
        memory[w] = id_of(gen[w], step[w]);
        if
        :: has(PLAIN, step[w]) ->
            carry_flag(w, h);
            enter(w, of_step(step[w]));
            state[w] = SAGREE
        :: else -> mark_writing(w, h)
        fi
    }
    :: d_step {
        state[w] == SAGREE && all_in(gen[w], of_step(step[w])) ->
        if
        :: has(flags[gen[w]], step[w]) -> state[w] = COMMIT
        :: else -> go_on(w)
        fi
    }
    /* a commit */
    :: d_step { state[w] == COMMIT -> mark_writing(w, h) }
    :: d_step { state[w] == COPY -> mark_complete(w, h) }
    :: d_step {
        state[w] == AGREE && all_in(gen[w], of_commit(step[w])) &&
        may_report(w) ->
        report(w);
        slot[w] = 1 - slot[w];
        if
        :: has(flags[gen[w]], step[w]) -> leave_clean(w)
        :: else -> go_on(w)
        fi
    }
    /* fn has returned */
    :: d_step {
        state[w] == FAGREE && all_in(gen[w], of_fin) ->
        state[w] = FIN;
        printf("worker %d fin g%d\n", w, gen[w])
    }
    /* what it has built was given up, and it has no place in the next one */
    :: d_step {
        state[w] == BUILT && !owes_entry(w, h) && seen[h] > gen[w] &&
        phase < DONE && !has(mem_of(h, seen[h]), w) -> leave(w)
    }
    /* a broken generation is left at once */
    :: d_step {
        inside(w) && abort[h] >= gen[w] && phase < DONE -> leave(w)
    }
    :: d_step {
        phase >= DONE && !inside(w) && !ended(w) -> state[w] = END
    }
    :: d_step { phase >= DONE && state[w] == FIN -> state[w] = END }
    /* a worker whose host was left out comes to the door again */
    :: d_step {
        (state[w] == LEFT || state[w] == DOOR) && is_here(h) &&
        phase < DONE && !has(door, w) &&
        !has(marked, w) && newest(decided) > gen[w] &&
        !has(members[newest(decided)], w) ->
        door = door | bit_of(w)
    }
    /* the agent confirms a death */
    :: d_step {
        has(marked, w) && !ended(w) ->
        state[w] = DEAD;
        printf("worker %d confirmed dead\n", w);
        gen[w] = 0;
        step[w] = 0;
        slot[w] = 0;
        memory[w] = 0
    }
    od
}

/* ---------------------------------------------------------------- faults */

inline kill(w)
{
    printf("worker %d is killed in g%d\n", w, gen[w]);
    deaths--;
    marked = marked | bit_of(w);
    ended_by(w, hostof(w));
    abort[hostof(w)] = top(abort[hostof(w)], x)
}

#define can_die(w)                                                            \
    (deaths > 0 && phase < DONE && !ended(w) && !has(marked, w))
#define can_break(w)                                                          \
    (breaks > 0 && phase < DONE && state[w] >= BUILT && state[w] <= FIN &&   \
     !has(marked, w) && !has(ev, gen[w]))

/* A host is cut off from etcd, and from the other one; its workers train on,
 * if they can. It comes back as it went, or, having lost its power, as another
 * incarnation without workers and with an empty vault, or never. */
#define can_go_away(h)                                                        \
    (absences > 0 && phase < DONE && away == 0 && has(GOES, h))
#if NO_ETCD
/* Its heartbeats pass: the others go on without it only where they wait for
 * what it owes them: its ack, the entry of its workers, the record that commit 0
 * was agreed on. */
#define owes_ack(h)                                                           \
    (phase == PROPOSE && ack[h] != cur && (members[cur] & local(h)) != 0)
#define is_outside(w, h)                                                      \
    (has(members[cur] & local(h), w) && state[w] == BUILT && gen[w] == cur)
#define owes_start(h)                                                         \
    (phase == DECIDED && (is_outside(0, h) || is_outside(1, h)))
#ifdef MUT_RECORD_IS_AWAITED
#define owes_record(h) 0
#else
#define owes_record(h)                                                        \
    (phase == DECIDED && !begun && line[cur] == 0 &&                          \
     has(local(h), rank0(cur)) && all_in(cur, of_commit(0)))
#endif
#define can_be_lost(h)                                                        \
    (phase < DONE && has(away, h) && !has(lost, h) &&                         \
     (owes_ack(h) || owes_start(h) || owes_record(h)))
#define can_return(h) 0
#else
#define can_be_lost(h) (phase < DONE && has(away, h) && !has(lost, h))
#define can_return(h)  (has(away, h) && !has(dark & ~heir, h))
#endif
#define can_go_dark(h) (powers > 0 && has(away, h) && phase < DONE)

#if SOFT
#define can_say(w)                                                            \
    (softs > 0 && phase < DONE && inside(w) && is_here(hostof(w)) &&          \
     !has(marked, w) && !has(ev, gen[w]) && said[hostof(w)] == 0)

inline say(w)
{
    printf("worker %d calls g%d broken\n", w, gen[w]);
    softs--;
    said[hostof(w)] = gen[w];
    abort[hostof(w)] = top(abort[hostof(w)], gen[w])
}
#endif

inline go_away(h)
{
    printf("host %d goes away\n", h);
    absences--;
    away = bit_of(h);
    leader = 1 - h;
    forget_known();
    forget_plan(h)
}

inline come_back(h)
{
    away = 0;
    lost = 0;
    printf("host %d is back\n", h)
}

inline go_dark_now(h)
{
    dark = dark | bit_of(h);
    away = away | bit_of(h);
    i = 0;
    do
    :: i < NW ->
        if
        :: has(local(h), i) ->
            state[i] = DEAD;
            marked = marked | bit_of(i);
            gen[i] = 0;
            step[i] = 0;
            slot[i] = 0;
            memory[i] = 0
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < 2 * NP ->
        piece[at(h, 0, i)] = 0;
        content[at(h, 0, i)] = 0;
        i++
    :: else -> break
    od;
    i = 0;
#if OFFERS
    let_go(h);
#endif
    fetch[h] = 0
}

inline go_dark(h)
{
    printf("host %d loses its power\n", h);
    powers--;
    go_dark_now(h)
}

inline start_again(h)
{
    heir = dark;
    alive = alive & ~local(h);
    door = door & ~local(h);
    come_back(h)
}

#if DRAIN
/* The world goes on without this host, and who lacks the commit has it. */
#ifdef MUT_LEAVES_EARLY
#define is_served 1
#else
#define is_served                                                             \
    (line[newest(decided)] == 0 || holds(1, 0) >= line[newest(decided)] ||    \
     holds(1, 1) >= line[newest(decided)])
#endif
#define may_leave                                                             \
    (drains && is_here(0) && phase == DECIDED &&                              \
     (members[cur] & HM0) == 0 && seen[0] == cur && fetch[1] == 0 && is_served)

/* Its record says that it is gone: nobody waits for it. */
inline leave_host()
{
    printf("host 0 has left\n");
    drains = 0;
    go_dark_now(0);
    heir = 1;
    alive = alive & ~HM0;
    door = door & ~HM0;
    leader = 1;
    forget_known();
    forget_plan(0);
    assert(top(holds(1, 0), holds(1, 1)) >= reported)
}
#endif

#define can_kill_agent (kills > 0 && phase < DONE)

proctype faults()
{
end:
    do
    :: d_step { can_die(0) -> kill(0) }
    :: d_step { can_die(1) -> kill(1) }
#if NW > 2
    :: d_step { can_die(2) -> kill(2) }
#endif
#if NW > 3
    :: d_step { can_die(3) -> kill(3) }
#endif
    :: d_step { can_break(0) -> breaks--; ev = ev | bit_of(gen[0]) }
    :: d_step { can_break(1) -> breaks--; ev = ev | bit_of(gen[1]) }
#if SOFT
    :: d_step { can_say(0) -> say(0) }
    :: d_step { can_say(1) -> say(1) }
#endif
    :: d_step {
        changes > 0 && phase < DONE && is_here(1 - leader) ->
        changes--;
        leader = 1 - leader;
        forget_known();
        printf("leader: host %d\n", leader)
    }
#if DRAIN
    :: d_step { !drains && drain_left && phase < DONE -> drains = 1; drain_left = 0 }
    :: d_step { may_leave -> leave_host() }
#endif
#if AK > 0
    /* what it was about to write is lost, or still on its way */
    :: d_step { can_kill_agent -> forget_plan(0); kill_agent(0) }
    :: d_step { can_kill_agent && plan[0] != P_NONE -> kill_agent(0) }
#if NH > 1
    :: d_step { can_kill_agent -> forget_plan(1); kill_agent(1) }
    :: d_step { can_kill_agent && plan[1] != P_NONE -> kill_agent(1) }
#endif
#endif
#if AWAY > 0
    :: d_step { can_go_away(0) -> go_away(0) }
    :: d_step { can_go_away(1) -> go_away(1) }
    :: d_step { can_be_lost(0) -> lost = 1 }
    :: d_step { can_be_lost(1) -> lost = 2 }
    :: d_step { can_return(0) -> come_back(0) }
    :: d_step { can_return(1) -> come_back(1) }
#if POWER > 0
    :: d_step { can_go_dark(0) -> go_dark(0) }
    :: d_step { can_go_dark(1) -> go_dark(1) }
    :: d_step { has(dark, 0) && !has(heir, 0) -> start_again(0) }
    :: d_step { has(dark, 1) && !has(heir, 1) -> start_again(1) }
#endif
#endif
#if NEWC < NW
    :: d_step {
        state[NEWC] == NONE && phase < DONE && is_here(hostof(NEWC)) ->
        state[NEWC] = DOOR;
        printf("worker %d comes to the door\n", NEWC);
        alive = alive | bit_of(NEWC);
        door = door | bit_of(NEWC)
    }
#endif
    od
}

#define everybody (INIT | (NEWC < NW -> bit_of(NEWC) : 0))

/* Nothing can move any more: the job is done, or nobody is left to do it. */
proctype the_end()
{
    timeout ->
    assert(phase >= DONE || (everybody & ~marked & ~of_drained) == 0 ||
           (dark & ~heir) != 0 || (NO_ETCD && away != 0 && begun))
}

init
{
    atomic {
        members[0] = INIT;
        members[1] = INIT;
        i = 0;
        do
        :: i < NW ->
            if
            :: has(INIT, i) -> state[i] = DOOR
            :: else
            fi;
            run worker(i, hostof(i));
            i++
        :: else -> break
        od;
        run agent(0);
#if NH > 1
        run agent(1);
#endif
        run faults();
        run the_end()
    }
}
