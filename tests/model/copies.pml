/* Shards and their copies: which commits are whole, whoever is lost, while
 * commits follow each other and copies come behind (elastic/state/state.c,
 * elastic/agent/vault/replication.c).
 *
 * One generation, N hosts in a circle with one worker and one shard each; a
 * host's shard is copied to the next REPLICAS hosts. Commits are 1 .. S (0 is
 * none), in vault slots in turn. A worker waits until the slot that comes next
 * is no live commit's, fills it, and enters an agreement, which carries up to
 * which commit its host's copies are stored; nobody leaves it before all have
 * entered. An agent copies what counts, one commit after the other, in two
 * steps: it marks the place, then it is complete.
 *
 * There are no faults in here: what is claimed of every state is that a loss in
 * it would do no harm. Every MUT_ flag breaks one rule. */

#ifndef N
#define N 3
#endif
#ifndef REPLICAS
#define REPLICAS 1
#endif
#ifndef S
#define S 5
#endif
#ifndef SLOTS
#define SLOTS 3
#endif

#define slot_of(c) ((c) % SLOTS)
#define at(h, c)   ((h) * SLOTS + slot_of(c))
#define copy_at(h, r, c) (((h) * REPLICAS + (r)) * SLOTS + slot_of(c))

/* ------------------------------------------------------------------ vaults */
byte own[N * SLOTS];            /* the host's shard: of which commit; 0: none,
                                   or being written */
byte copy[N * REPLICAS * SLOTS]; /* shard of h on its r-th next host */

/* ----------------------------------------------------------------- workers */
#define TOP    0 /* between commits */
#define WRITE  1 /* its shard is marked */
#define COMMIT 2 /* in the agreement of a commit */
#define ASK    3 /* in one about copies, for lack of a slot */
byte state[N];
byte newest[N];      /* agreed on, as this worker knows */
byte oldest[N];      /* live */
byte entered[N];     /* agreements */
byte carried[N * 2]; /* copies that a host said to be stored; two in turn */

/* ------------------------------------------------------------------ agents */
byte counts[N];              /* newest commit that its worker has shown it */
byte stored[N * REPLICAS];   /* newest one of which that host has a copy */
bit under_way[N * REPLICAS];

/* What a rank has told: all may rely on it. */
byte reported;      /* a commit counts */
byte reported_safe; /* its copies are stored */

hidden byte i, m;

inline copied(h)
{
    m = S;
    i = 0;
    do
    :: i < REPLICAS ->
        if
        :: stored[h * REPLICAS + i] < m -> m = stored[h * REPLICAS + i]
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

inline enter(h)
{
    copied(h);
    entered[h]++;
    carried[h * 2 + entered[h] % 2] = m
}

#define is_in(h, n) (entered[h] >= (n))
#if N == 2
#define all_in(n) (is_in(0, n) && is_in(1, n))
#else
#define all_in(n) (is_in(0, n) && is_in(1, n) && is_in(2, n))
#endif

/* Everybody learns the least of what was carried. */
inline let_go(h)
{
#ifdef MUT_LET_GO_OWN
    copied(h);
#else
    m = S;
    i = 0;
    do
    :: i < N ->
        if
        :: carried[i * 2 + entered[h] % 2] < m ->
            m = carried[i * 2 + entered[h] % 2]
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0;
#endif
#ifdef MUT_LET_GO_AGREED
    m = newest[h];
#endif
    if
    :: m > oldest[h] -> oldest[h] = m
    :: else
    fi;
    if
    :: m > reported_safe -> reported_safe = m
    :: else
    fi
}

#define has_slot(h) (newest[h] + 1 < oldest[h] + SLOTS)

proctype worker(byte h)
{
end:
    do
    :: d_step {
        state[h] == TOP && newest[h] < S && has_slot(h) ->
        own[at(h, newest[h] + 1)] = 0;
        state[h] = WRITE
    }
    :: d_step {
        state[h] == WRITE ->
        own[at(h, newest[h] + 1)] = newest[h] + 1;
        enter(h);
        state[h] = COMMIT
    }
    :: d_step {
        state[h] == COMMIT && all_in(entered[h]) ->
        newest[h]++;
        if
        :: newest[h] == 1 -> oldest[h] = 1
        :: else -> let_go(h)
        fi;
        counts[h] = newest[h];
        if
        :: newest[h] > reported -> reported = newest[h]
        :: else
        fi;
        state[h] = TOP
    }
    /* no slot: until our copies of the oldest live commit but one are there */
    :: d_step {
        state[h] == TOP && newest[h] < S && !has_slot(h) ->
        copied(h);
        if
        :: m > oldest[h] -> enter(h); state[h] = ASK
        :: else
        fi
    }
    :: d_step {
        state[h] == ASK && all_in(entered[h]) -> let_go(h); state[h] = TOP
    }
    od
}

#ifdef MUT_SKIP
#define next_copy(p, h) counts[h]
#else
#define next_copy(p, h) (stored[p] + 1)
#endif
#ifdef MUT_EARLY
#define to_copy(h) (newest[h] + (state[h] == COMMIT))
#else
#define to_copy(h) counts[h]
#endif

/* One connection: the r-th next host keeps copies of h's shards. */
proctype partner(byte h; byte r)
{
    byte p = h * REPLICAS + r;
    byte supervisor = (h + 1 + r) % N;
    byte c;
end:
    do
    :: d_step {
        !under_way[p] && stored[p] < to_copy(h) ->
        c = next_copy(p, h);
        assert(own[at(h, c)] == c);
        assert(own[at(supervisor, c)] == c); /* it finds the slot by that */
        copy[copy_at(h, r, c)] = 0;
        under_way[p] = 1
    }
    :: d_step {
        under_way[p] ->
        assert(own[at(h, c)] == c); /* nobody saved over it meanwhile */
        copy[copy_at(h, r, c)] = c;
        stored[p] = c;
        under_way[p] = 0;
        c = 0
    }
    od
}

/* ------------------------------------------------------------------ claims */

#define is_lost(lost, h)   (((lost) >> ((h) % N)) & 1)
#define holds_own(h, c)    (own[at(h, c)] == (c))
#define has_copy(h, r, lost, c)                                               \
    (!is_lost(lost, (h) + 1 + (r)) && copy[copy_at(h, r, c)] == (c))
#if REPLICAS == 1
#define has_shard(h, lost, c)                                                 \
    (is_lost(lost, h) -> has_copy(h, 0, lost, c) : holds_own(h, c))
#else
#define has_shard(h, lost, c)                                                 \
    (is_lost(lost, h)                                                         \
         -> (has_copy(h, 0, lost, c) || has_copy(h, 1, lost, c))              \
         : holds_own(h, c))
#endif
#if N == 2
#define is_whole(lost, c) (has_shard(0, lost, c) && has_shard(1, lost, c))
#else
#define is_whole(lost, c)                                                     \
    (has_shard(0, lost, c) && has_shard(1, lost, c) && has_shard(2, lost, c))
#endif

/* The newest commit that is whole without those hosts is none older than what
 * was told. */
inline claim(lost, told)
{
    i = S;
    do
    :: i > 0 && !is_whole(lost, i) -> i--
    :: else -> break
    od;
    assert(i >= told);
    i = 0
}

proctype losses()
{
end:
    do
    :: d_step { reported > 0 -> claim(0, reported) }
    :: d_step { reported_safe > 0 -> claim(1, reported_safe) }
    :: d_step { reported_safe > 0 -> claim(2, reported_safe) }
#if N > 2
    :: d_step { reported_safe > 0 -> claim(4, reported_safe) }
#endif
#if REPLICAS > 1
    :: d_step { reported_safe > 0 -> claim(3, reported_safe) }
    :: d_step { reported_safe > 0 -> claim(5, reported_safe) }
    :: d_step { reported_safe > 0 -> claim(6, reported_safe) }
#endif
    od
}

/* Nothing can move any more: all commits were made, and all copies. */
proctype the_end()
{
    timeout ->
    i = 0;
    do
    :: i < N ->
        assert(newest[i] == S);
        copied(i);
        assert(m == S);
        i++
    :: else -> break
    od
}

init
{
    atomic {
        i = 0;
        do
        :: i < N ->
            run worker(i);
            run partner(i, 0);
#if REPLICAS > 1
            run partner(i, 1);
#endif
            i++
        :: else -> break
        od;
        run losses();
        run the_end()
    }
}
