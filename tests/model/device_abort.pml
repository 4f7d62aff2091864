/* The end of a generation on the device (sdk/transport/nccl): who may call NCCL,
 * when a communicator is freed, and what rg_wait and a commit may believe. One
 * process, and one peer. A kernel ends when the peer took part; or with rubbish,
 * because this process has aborted its communicator, or because the peer has,
 * whose aborted kernel posts its steps all the same.
 *
 * Each MUT_ breaks one rule:
 *   FREE_FIRST   what is marked is freed at once, whoever is inside of NCCL
 *   LOCK_FIRST   the reclaimer takes the lock before it marks
 *   READ_EARLY   rg_wait looks at `closing` before the word
 *   LATE_CLOSE   `closing` is stored after the marks
 *   NO_RECHECK   a launch does not look at `closing` under the lock
 *   EARLY_NEXT   the next generation does not wait for words
 *   PEER_EARLY   a member enters the agreement before its device is done
 *   TRUST_OK     a commit counts by the OKs of this rank alone */
#define OPS 3
bool closing, flag, freed, quiet, lock, inside, dead, peer_aborted, peer_agreed;
bool peer_done;                      /* its kernels of the step have ended, and posted what is right */
byte launched, ended;
bool rubbish[OPS], word[OPS], peer_caused[OPS];
bool restored, done_u, committed, ring;

#define LOCK   atomic { !lock -> lock = true }
#define UNLOCK lock = false

active proctype gpu() {
    byte k;
end:do
    :: atomic { launched > ended && !flag && (peer_done || (!dead && !peer_aborted)) -> k = ended }
       word[k] = true; ended++
    :: atomic { launched > ended && !flag && peer_aborted && !peer_done -> k = ended;
                rubbish[k] = true; peer_caused[k] = true }
       word[k] = true; ended++
    :: atomic { launched > ended && flag -> k = ended; rubbish[k] = true }
       assert(!restored);            /* it stores into registered memory */
       word[k] = true; ended++
    od
}
active proctype peer() {             /* ends its part, agrees, hears of a death: or less of it */
    if
#ifdef MUT_PEER_EARLY
    :: peer_agreed = true            /* before its device is done */
#endif
    :: launched == OPS -> peer_done = true;
       if :: peer_agreed = true; if :: goto over :: skip fi :: skip fi
    :: skip
    fi;
    if :: peer_aborted = true :: dead = true fi;
over: skip
}
active proctype user() {
    byte i, n; bool c, w;
    do
    :: n == OPS || (n > i && n > 0 && i < n) -> /* wait for the oldest */
       if :: i == OPS -> break :: else fi;
#ifdef MUT_READ_EARLY
       do :: c = closing; w = word[i];
             if :: w -> break :: else -> if :: c -> break :: else fi fi od;
#else
       do :: w = word[i];
             if :: w -> c = closing; break
                :: else -> if :: closing -> c = true; break :: else fi fi od;
#endif
       assert(!(w && !c && rubbish[i] && !peer_caused[i]));
       if :: c -> goto out :: else i++ fi
    :: n < OPS ->                     /* launch one more, behind those */
       LOCK;
#ifndef MUT_NO_RECHECK
       if :: closing -> UNLOCK; goto out :: else fi;
#endif
       inside = true;
       assert(!freed);
       (launched - ended < 2);        /* the launch queue is full: it blocks */
       assert(!freed);
       launched++; n++;
       inside = false;
       UNLOCK
    :: i == OPS -> break
    od;
    /* the step's end: all OK here; the agreement needs every member */
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
    LOCK;
#endif
    flag = true;                      /* ncclGroupStart; ncclCommAbort x n */
#ifdef MUT_LATE_CLOSE
    closing = true;
#endif
#ifndef MUT_FREE_FIRST
#ifndef MUT_LOCK_FIRST
    LOCK;                             /* who is inside leaves, nobody enters */
#endif
    assert(!inside);
    UNLOCK;
#endif
#ifndef MUT_EARLY_NEXT
    (ended == launched);              /* streams idle */
#endif
    quiet = true;
    freed = true;                     /* ncclGroupEnd */
over: skip
}
active proctype next() {              /* rg_run's thread, generation g+1 */
end: (done_u && quiet);
    restored = true
}
