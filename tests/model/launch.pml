/* Launches, under --mpi (elastic/agent/mpirun, elastic/member/plan.c): who may
 * begin one, and when. Two agents may lead, one of them with an old snapshot;
 * each host has a rank, which a daemon of the MPI starts some time after the
 * launch began; ranks die at any moment, and one may not end when it is killed:
 * its host leaves then, and the others go on.
 *
 *   t   ranks of two launches never live at once
 *   f   every run ends with a launch that lives, or with a fault in it
 *
 * A mutant breaks one rule:
 *   NO_SWEEP    the next launch begins without the word of all hosts
 *   EARLY_WORD  a host says swept while its rank lives
 *   LATE_RANK   a host takes a rank of a launch that is over there
 *   NO_GUARD    a leader writes without comparing what it planned from
 *   DEAF        hosts do not hear that a launch is over
 *   STAYS       a host that can't be swept does not leave */

#ifndef F
#define F 2 /* deaths */
#endif
#define N    2
#define MOST 4 /* launches */

byte number, revision; /* all/mpirun */
bool over;
byte swept[N], broke[N]; /* in the hosts' records */
byte seen[N];            /* the newest launch that the host knows of */
bool ended[N];           /* and it is over there */
byte rank[N];            /* launch of the rank that lives there, 0: none */
byte coming[N];          /* launch whose daemon has not started it yet */
byte deaths = F;

/* Processes that SIGKILL does not end, at most one: none runs any more. */
bool stuck[N], gone[N];
bool has_stuck;
#define IS_SWEPT(h) (gone[h] || swept[h] >= number)

#ifdef MUT_NO_SWEEP
#define ALL_SWEPT true
#else
#define ALL_SWEPT (IS_SWEPT(0) && IS_SWEPT(1))
#endif

inline begin_launch()
{
    number++;
    over = false;
    coming[0] = (gone[0] -> 0 : number);
    coming[1] = (gone[1] -> 0 : number)
}

/* A look, and the write that follows it some time later. */
active [2] proctype leader()
{
    byte was;
    bool ends;
end:
    do
    :: atomic {
           (over && ALL_SWEPT && number < MOST) || number == 0 ||
               (!over && (broke[0] == number || broke[1] == number));
           was = revision;
           ends = number != 0 && !over
       };
       atomic {
           if
#ifndef MUT_NO_GUARD
           :: was != revision -> skip
           :: else ->
#else
           :: true ->
#endif
               revision++;
               if
               :: ends -> over = true
               :: else -> begin_launch()
               fi
           fi
       }
    od
}

proctype host(byte h)
{
end:
    do
    /* the watch */
    :: atomic { seen[h] < number -> seen[h] = number; ended[h] = false;
#ifndef MUT_DEAF
                rank[h] = (rank[h] == number -> rank[h] : 0)
#endif
       }
#ifndef MUT_DEAF
    :: atomic { over && seen[h] == number && !ended[h] ->
                ended[h] = true; rank[h] = 0 }
#endif
    /* a daemon starts the rank, or comes too late */
    :: atomic { coming[h] != 0 && coming[h] <= seen[h] ->
#ifndef MUT_LATE_RANK
                if
                :: coming[h] == seen[h] && !ended[h] ->
#else
                if
                :: true ->
#endif
                    rank[h] = coming[h];
                    assert(rank[1 - h] == 0 || rank[1 - h] == rank[h])
#ifndef MUT_LATE_RANK
                :: else -> skip
#endif
                fi;
                coming[h] = 0 }
    /* a death: the launch is over here, and the record says so */
    :: atomic { deaths > 0 && rank[h] != 0 && rank[h] == seen[h] ->
                deaths--; broke[h] = rank[h]; rank[h] = 0; ended[h] = true }
    /* it was killed, and does not end */
    :: atomic { !has_stuck && over && seen[h] == number && ended[h] &&
                swept[h] < number && !gone[h] ->
                has_stuck = true; stuck[h] = true }
#ifndef MUT_STAYS
    :: atomic { stuck[h] && !gone[h] -> gone[h] = true; coming[h] = 0 }
#endif
    /* nothing of it is left here */
    :: atomic { over && seen[h] == number && swept[h] < number && !stuck[h] &&
#ifdef MUT_EARLY_WORD
                true ->
#else
                ended[h] && rank[h] == 0 ->
#endif
                swept[h] = number }
    od
}

init { atomic { run host(0); run host(1) } }

/* At the end of a run the newest launch lives, unless it was to have no
 * successor. */
active proctype the_end()
{
end:
    timeout -> assert(!over || number == MOST);
    assert(number == MOST || ((gone[0] || rank[0] == number) &&
                              (gone[1] || rank[1] == number)))
}
