/* The first world: what rg_world_wait forms before rg_run, until its first
 * commit is on record (docs/first-world.md; the protocol that it is a part of
 * is in generation.pml). A process has its place there once for good: what it
 * sends and gets before rg_run is in no commit, so when that world ends before
 * its first commit all of its processes start again.
 *
 * Two hosts whose agents look at etcd when they like, and see all of one
 * moment; the leader is on host 1, the least rank on host 0 while w0 lives.
 * Every worker may be started late, and F of them die. Every action is one
 * guarded atomic step; every run ends with all workers in fn, hence "no bad end
 * state" is the progress claim. Claims:
 *   q   who enters fn has memory of the first world that is on record
 *   r   a process gets a place in one first world, and in no world before it
 *   s   rg_world_wait returns RG_OK only in a world without a commit
 *   f   it ends
 * Every MUT_ flag breaks one rule. Bounds: F deaths, NW workers of which HM0 are
 * those of host 0. */
#ifndef NW
#define NW 3
#endif
#ifndef HM0
#define HM0 3
#endif
#ifndef F
#define F 1
#endif
#define MAXG   (NW + 2 * F + 1)
#define ROWS   (MAXG + 1)
#define LEADER 1
#define bit_of(x)  (1 << (x))
#define has(m, x)  (((m) >> (x)) & 1)
#define host(w)    (1 - has(HM0, w))
#define top(a, b)  ((a) > (b) -> (a) : (b))

/* ------------------------------------------------------------------ in etcd */
byte cur;              /* the newest proposal; `decided` says its phase */
byte members[ROWS];    /* by generation */
byte awaited;          /* a bit per generation: a member waits in rg_world_wait */
byte announced;        /* newcomers are its only cause */
byte decided, ev;      /* a bit per generation; ev: a reason is published */
byte resume[ROWS];     /* first world whose commit it resumes from; 0: none */
byte begun;            /* the record; 0: none */
byte acks;             /* of `cur`, a bit per host; said to the leader */

/* ------------------------------------- what an agent has seen of it, and done */
byte v_cur[2], v_decided[2], v_ev[2], v_begun[2];
byte ab[2];            /* abort word: all up to it have ended here */
byte owes[2];          /* reasons that are still to be published */
byte vault[2];         /* a bit per first world whose commit 0 lies here */

/* ------------------------------------------------------------------ workers */
#define NEW     0  /* a process that has asked for nothing yet */
#define WAIT    1  /* in rg_world_wait */
#define DOOR    2  /* in rg_run, without a place */
#define BUILTW  3  /* as WAIT, has built `gen` */
#define BUILT   4  /* as DOOR, has built `gen` */
#define FETCH   5  /* rg_world_wait has returned RG_OK */
#define ZERO    6  /* has commit 0 in the vault, and will agree on it */
#define AGREED  7  /* waits for the record */
#define IN_FN   8
#define DEAD    9
byte st[NW], gen[NW];
byte once[NW];         /* the first world that it has had a place in */
byte mem[NW];          /* first world that its memory is of; 0: its own */
byte agreed;           /* a bit per generation: commit 0 is agreed on */
byte deaths;

#define newest(mask, below)                                                   \
    ((below) > 7 && has(mask, 7) -> 7 : ((below) > 6 && has(mask, 6) -> 6 :   \
    ((below) > 5 && has(mask, 5) -> 5 : ((below) > 4 && has(mask, 4) -> 4 :   \
    ((below) > 3 && has(mask, 3) -> 3 : ((below) > 2 && has(mask, 2) -> 2 :   \
    ((below) > 1 && has(mask, 1) -> 1 : 0)))))))
#define last(h)        newest(v_decided[h], 8)  /* decided that it has seen */
#define last_of_all    newest(decided, 8)
#define is_proposed(h) (v_cur[h] > last(h))
#define is_in(w)       (st[w] >= FETCH && st[w] <= IN_FN)
#define is_built(w)    (st[w] == BUILTW || st[w] == BUILT)
#define is_local(w, h) (host(w) == (h))
#define is_member(w, g) (has(members[g], w) && gen[w] == (g) && st[w] != DEAD)

inline again(w) { st[w] = NEW; gen[w] = 0; once[w] = 0; mem[w] = 0 }

/* generation.c, recall: the world has ended before its first commit. */
#ifdef MUT_NO_RECALL
#define is_recalled(w, h) false
#else
#define is_recalled(w, h) (has(awaited, gen[w]) &&                            \
                           !(v_begun[h] != 0 && v_begun[h] <= gen[w]))
#endif

inline leave(w, h) {
    if
    :: is_local(w, h) && is_in(w) && gen[w] <= ab[h] ->
       if
#ifdef MUT_KEEPS_PROCESS
       :: is_recalled(w, h) -> st[w] = (st[w] == FETCH -> WAIT : DOOR)
#else
       :: is_recalled(w, h) -> again(w)
#endif
       :: else -> st[w] = DOOR
       fi
    :: is_local(w, h) && is_built(w) && gen[w] <= ab[h] ->
       if :: st[w] == BUILTW -> st[w] = WAIT :: else -> st[w] = DOOR fi
    :: else
    fi
}

inline end_up_to(g, h) {
    ab[h] = top(ab[h], g);
    leave(0, h); leave(1, h);
#if NW > 2
    leave(2, h)
#endif
}

/* ------------------------------------------------------------------- worker */
#define may_die(w) (deaths < F && st[w] != DEAD && st[w] != NEW)

inline get_place(w, h) {  /* the decision of the generation that it has built */
    if
#ifndef MUT_DECISION_COMES_FIRST
    :: st[w] == BUILTW && v_begun[h] != 0 -> st[w] = BUILT  /* RG_JOINING */
    :: st[w] == BUILTW && v_begun[h] == 0 ->
#else
    :: st[w] == BUILTW ->
#endif
       assert(once[w] == 0);             /* r */
       assert(resume[gen[w]] == 0);      /* s */
       once[w] = gen[w];
       st[w] = FETCH
    :: st[w] == BUILT && resume[gen[w]] != 0 ->
       mem[w] = resume[gen[w]];
       assert(mem[w] == begun);          /* q */
       st[w] = IN_FN
    :: st[w] == BUILT && resume[gen[w]] == 0 ->
       assert(false)                     /* q: it has skipped what others do */
    fi
}

#define is_root_in(w) (is_in(root_of(gen[w])) && gen[root_of(gen[w])] == gen[w])
#define root_of(g)    (has(members[g], 0) -> 0 : (has(members[g], 1) -> 1 : 2))
#if NW > 2
#define has_zero(w, g) (!has(members[g], w) || (gen[w] == (g) && st[w] == ZERO))
#define all_zero(g)    (has_zero(0, g) && has_zero(1, g) && has_zero(2, g))
#else
#define has_zero(w, g) (!has(members[g], w) || (gen[w] == (g) && st[w] == ZERO))
#define all_zero(g)    (has_zero(0, g) && has_zero(1, g))
#endif

proctype worker(byte w) {
    byte h = host(w);
end:do
    :: atomic { st[w] == NEW -> st[w] = WAIT }
#ifdef MUT_JOINS_EARLY
    :: atomic { st[w] == WAIT && last(h) != 0 &&
                !has(members[last(h)], w) -> st[w] = DOOR }
#elif !defined(MUT_NOBODY_IS_TOLD)
    :: atomic { st[w] == WAIT && v_begun[h] != 0 -> st[w] = DOOR } /* RG_JOINING */
#endif
    :: atomic { is_proposed(h) && has(members[v_cur[h]], w) &&
                ab[h] < v_cur[h] && gen[w] < v_cur[h] &&
                !has(owes[h] | ev, v_cur[h]) &&
                (st[w] == WAIT || st[w] == DOOR) ->
                st[w] = (st[w] == WAIT -> BUILTW : BUILT); gen[w] = v_cur[h] }
    :: atomic { is_built(w) && has(v_decided[h], gen[w]) && ab[h] < gen[w] ->
                get_place(w, h) }
    /* rank 0 has fetched, and all have got it */
    :: atomic { st[w] == FETCH && is_root_in(w) -> mem[w] = gen[w];
                vault[h] = vault[h] | bit_of(gen[w]); st[w] = ZERO }
    :: atomic { st[w] == ZERO && !has(agreed, gen[w]) && all_zero(gen[w]) ->
                agreed = agreed | bit_of(gen[w]) }
    :: atomic { st[w] == ZERO && has(agreed, gen[w]) -> st[w] = AGREED }
    :: atomic { st[w] == AGREED && v_begun[h] != 0 && v_begun[h] <= gen[w] ->
                assert(mem[w] == begun); /* q */
                st[w] = IN_FN }
    /* steps have ended, and somebody else is at the door */
    :: atomic { st[w] == IN_FN && is_proposed(h) && has(announced, v_cur[h]) ->
                st[w] = DOOR }
    :: atomic { may_die(w) -> deaths++; st[w] = DEAD }
    od
}

/* -------------------------------------------------------------------- agent */
#define acks_now(w, h) (!is_local(w, h) || (st[w] != DEAD &&                  \
                        (has(members[v_cur[h]], w) ->                         \
                         is_built(w) && gen[w] == v_cur[h] : !is_in(w))))
#if NW > 2
#define may_ack(h) (acks_now(0, h) && acks_now(1, h) && acks_now(2, h))
#else
#define may_ack(h) (acks_now(0, h) && acks_now(1, h))
#endif
#define is_new(h)  (v_cur[h] != cur || v_decided[h] != decided ||             \
                    v_ev[h] != ev || v_begun[h] != begun)

inline reap(w, h) {  /* generation.c, publish.c: here first, then in etcd */
    if
    :: is_local(w, h) && st[w] == DEAD ->
       if
       :: gen[w] > ab[h] && has(members[gen[w]], w) ->
          owes[h] = owes[h] | bit_of(gen[w]);
          if :: has(v_decided[h], gen[w]) -> end_up_to(gen[w], h) :: else fi
       :: else
       fi;
       if /* by its record: another process is no member */
       :: cur > last_of_all && has(members[cur], w) ->
          owes[h] = owes[h] | bit_of(cur)
       :: else
       fi;
       again(w)
    :: else
    fi
}

proctype agent(byte h) {
    byte g;
end:do
    :: atomic { is_new(h) ->  /* all of one moment, but for the records */
       v_cur[h] = cur; v_decided[h] = decided; v_ev[h] = ev; v_begun[h] = begun;
       g = newest(v_ev[h], 8);
       if :: g > ab[h] -> end_up_to(g, h) :: else fi;
       if :: is_proposed(h) && !has(announced, v_cur[h]) && last(h) > ab[h] ->
             end_up_to(last(h), h) :: else fi;
       g = last(h);
       if :: g != 0 && g - 1 > ab[h] -> end_up_to(g - 1, h) :: else fi;
       g = 0 }
    :: atomic { st[0] == DEAD && is_local(0, h) -> reap(0, h) }
    :: atomic { st[1] == DEAD && is_local(1, h) -> reap(1, h) }
#if NW > 2
    :: atomic { st[2] == DEAD && is_local(2, h) -> reap(2, h) }
#endif
    :: atomic { owes[h] != 0 -> ev = ev | owes[h]; owes[h] = 0 }
    :: atomic { is_proposed(h) && v_cur[h] == cur && ab[h] < cur &&
                !has(acks, h) && may_ack(h) -> acks = acks | bit_of(h) }
    /* rank 0's agent; written only if `cur` is what it has seen */
    :: atomic { v_begun[h] == 0 && last(h) != 0 && begun == 0 &&
                is_local(root_of(last(h)), h) &&
                st[root_of(last(h))] == AGREED &&
                gen[root_of(last(h))] == last(h) &&
                (!is_proposed(h) || has(announced, v_cur[h])) &&
#ifndef MUT_LATE_RECORD
                v_cur[h] == cur &&
#endif
                true -> begun = last(h) }
    od
}

/* ------------------------------------------------------------------- leader */
#ifdef MUT_FIRST_WHILE_IT_LIVES
#define is_first    (v_begun[LEADER] == 0)
#else
#define is_first    (v_begun[LEADER] == 0 &&                                  \
                     (last(LEADER) == 0 || is_broken(last(LEADER))))
#endif
#define is_spent(w) (is_first && has(awaited, last(LEADER)) &&                \
                     gen[w] == last(LEADER) && once[w] != 0)
#ifdef MUT_WAITERS_JOIN
#define wants(w)    (st[w] == WAIT || st[w] == DOOR)
#else
#define wants(w)    ((st[w] == WAIT && is_first) || st[w] == DOOR)
#endif
#define takes(w)    (((wants(w) || is_in(w) || is_built(w)) && !is_spent(w))   \
                     -> bit_of(w) : 0)
#define waits(w)    ((st[w] == WAIT || st[w] == BUILTW) && is_first &&          \
                     has(set, w))
#if NW > 2
#define all_takes   (takes(0) | takes(1) | takes(2))
#define any_waits   (waits(0) || waits(1) || waits(2))
#define any_new     ((all_takes & ~members[last(LEADER)]) != 0)
#else
#define all_takes   (takes(0) | takes(1))
#define any_waits   (waits(0) || waits(1))
#define any_new     ((all_takes & ~members[last(LEADER)]) != 0)
#endif
#define is_broken(g)   ((g) != 0 && has(v_ev[LEADER], g))
#define sees_cur       (v_cur[LEADER] == cur && v_decided[LEADER] == decided)
#define has_commit(g)  ((g) != 0 && (has(vault[0], g) || has(vault[1], g)))
#ifdef MUT_FIRST_FOR_EVER
#define may_resume  (!has(awaited, cur))
#else
#define may_resume  (!has(awaited, cur) || v_begun[LEADER] != 0)
#endif

inline propose(is_announced) {
    set = all_takes;
    members[cur + 1] = set;
    if :: any_waits -> awaited = awaited | bit_of(cur + 1) :: else fi;
    if :: is_announced -> announced = announced | bit_of(cur + 1) :: else fi;
    cur++;
    assert(cur <= MAXG);
    acks = 0;
    set = 0
}

proctype leader() {
    byte set;
end:do
    /* --start-timeout may pass at any moment */
    :: atomic { sees_cur && cur == 0 && all_takes != 0 -> propose(false) }
    :: atomic { sees_cur && cur != 0 && all_takes != 0 &&
                is_broken(cur) -> propose(false) }
    :: atomic { sees_cur && cur != 0 && cur == last(LEADER) &&
                !is_broken(cur) && any_new -> propose(true) }
    :: atomic { sees_cur && cur > last(LEADER) && acks == 3 &&
                !is_broken(cur) ->
                resume[cur] = (may_resume && has_commit(v_begun[LEADER]) ->
                               v_begun[LEADER] : 0);
                decided = decided | bit_of(cur) }
    od
}

#define is_done(w) (st[w] == IN_FN && gen[w] == cur)
#if NW > 2
#define all_done   (is_done(0) && is_done(1) && is_done(2))
#else
#define all_done   (is_done(0) && is_done(1))
#endif

init {
    atomic {
        run worker(0); run worker(1);
#if NW > 2
        run worker(2);
#endif
        run agent(0); run agent(1); run leader()
    }
    timeout;
    assert(all_done)  /* f */
}
