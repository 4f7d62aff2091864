/* The end of a generation on the device (sdk/transport/nccl): who may call NCCL,
 * when communicators are freed, and what rg_wait and a commit may believe. One
 * process with two lanes, each with a thread that launches and a lock of its
 * own, and one peer. A kernel ends when the peer took part; or with rubbish,
 * because this process has aborted its communicator, or because the peer has,
 * whose aborted kernel posts its steps all the same.
 *
 * Each MUT_ breaks one rule:
 *   FREE_FIRST   what is marked is freed at once, whoever is inside of NCCL
 *   LOCK_FIRST   the reclaimer takes the locks before it marks
 *   READ_EARLY   rg_wait looks at `closing` before the word
 *   LATE_CLOSE   `closing` is stored after the marks
 *   NO_LOOK      a launch comes in without a look at `closing`
 *   NO_COUNT     the reclaimer does not wait for those who have come in
 *   ONE_BY_ONE   a lane is marked when the one before it has been freed
 *   EARLY_NEXT   the next generation does not wait for words
 *   PEER_EARLY   a member enters the agreement before its device is done
 *   TRUST_OK     a commit counts by the OKs of this rank alone */
#define LANES   2
#define OPS(l)  (2 - (l))            /* the second lane has one */
#define K(l, i) ((l) * 2 + (i))
bool closing, freed, quiet, dead, peer_aborted, peer_agreed;
bool peer_done;                      /* its kernels of the step have ended, and posted what is right */
bool flag[LANES], lock[LANES], inside[LANES];
byte callers[LANES], launched[LANES], ended[LANES];
bool rubbish[3], word[3], peer_caused[3];
bool left[LANES], well[LANES];       /* a thread has ended, and all its waits were OK */
bool restored, done_u, committed, ring;

#define LOCK(l)   atomic { !lock[l] -> lock[l] = true }
#define UNLOCK(l) lock[l] = false
#define IDLE(l)   (ended[l] == launched[l])
#define EMPTY(l)  (callers[l] == 0)

active [LANES] proctype gpu() {      /* a stream of each lane */
    byte k;
end:do
    :: atomic { launched[_pid] > ended[_pid] && !flag[_pid] && (peer_done || (!dead && !peer_aborted)) ->
                word[K(_pid, ended[_pid])] = true; ended[_pid]++ }
    :: atomic { launched[_pid] > ended[_pid] && !flag[_pid] && peer_aborted && !peer_done ->
                k = K(_pid, ended[_pid]); rubbish[k] = true; peer_caused[k] = true;
                word[k] = true; ended[_pid]++ }
    :: atomic { launched[_pid] > ended[_pid] && flag[_pid] -> k = K(_pid, ended[_pid]); rubbish[k] = true }
       assert(!restored);            /* it stores into registered memory */
       atomic { word[k] = true; ended[_pid]++ }
    od
}
active proctype peer() {             /* ends its part, agrees, hears of a death: or less of it */
    if
#ifdef MUT_PEER_EARLY
    :: peer_agreed = true            /* before its device is done */
#endif
    :: launched[0] == OPS(0) && launched[1] == OPS(1) -> peer_done = true;
       if :: peer_agreed = true; if :: goto over :: skip fi :: skip fi
    :: skip
    fi;
    if :: peer_aborted = true :: dead = true fi;
over: skip
}
active [LANES] proctype user() {
    byte l = _pid - LANES - 1;
    byte i, n; bool c, w;
    do
    :: n > i ->                       /* wait for the oldest */
#ifdef MUT_READ_EARLY
       do :: c = closing; w = word[K(l, i)];
             if :: w -> break :: else -> if :: c -> break :: else fi fi od;
#else
       do :: w = word[K(l, i)];
             if :: w -> c = closing; break
                :: else -> if :: closing -> c = true; break :: else fi fi od;
#endif
       assert(!(w && !c && rubbish[K(l, i)] && !peer_caused[K(l, i)]));
       if :: c -> goto out :: else i++ fi
    :: n < OPS(l) ->                  /* launch one more, behind those */
#ifdef MUT_NO_LOOK
       callers[l]++;
#else
       atomic { if :: closing -> goto out :: else -> callers[l]++ fi }
#endif
       LOCK(l);
       inside[l] = true;
       assert(!freed);
       IDLE(l);                       /* the launch queue is full: it blocks */
       assert(!freed);
       launched[l]++; n++;
       inside[l] = false;
       atomic { UNLOCK(l); callers[l]-- }
    :: i == OPS(l) -> well[l] = true; break
    od;
out: left[l] = true
}
active proctype step() {              /* the step's end: all OK here; the agreement needs every member */
    (left[0] && left[1]);
    if :: !well[0] || !well[1] -> goto out :: else fi;
#ifndef MUT_TRUST_OK
    if :: peer_agreed :: closing -> goto out fi;
#endif
    committed = true;
    assert(!rubbish[0] && !rubbish[1] && !rubbish[2]);
out:
    done_u = true
}
active proctype regroup() {           /* abort word: shut, ring, go on at once */
end: (dead || peer_aborted);
#ifndef MUT_LATE_CLOSE
    closing = true;
#endif
    ring = true
}
active proctype reaper() {
    if :: ring :: timeout -> goto over fi;
#ifdef MUT_LOCK_FIRST
    LOCK(0); LOCK(1);
#endif
    flag[0] = true;                   /* ncclGroupStart; ncclCommAbort x n */
#ifdef MUT_ONE_BY_ONE
    (IDLE(0) && IDLE(1));             /* what frees memory waits for the whole device */
#endif
    flag[1] = true;
#ifdef MUT_LATE_CLOSE
    closing = true;
#endif
#ifdef MUT_FREE_FIRST
    freed = true;
#endif
#ifndef MUT_NO_COUNT
    (EMPTY(0) && EMPTY(1));           /* who is inside leaves, nobody comes in */
    assert(!inside[0] && !inside[1]);
#endif
#ifndef MUT_EARLY_NEXT
    (IDLE(0) && IDLE(1));             /* words are written */
#endif
    quiet = true;
    freed = true;                     /* ncclGroupEnd */
over: skip
}
active proctype next() {              /* rg_run's thread, generation g+1 */
end: (done_u && quiet);
    restored = true
}
