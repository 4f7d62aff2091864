/* What members tell each other, and what follows from it (check.h). */
#include "sdk/transport/mpi/check.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/least.h"
#include "sdk/transport/mpi/lost.h"
#include "sdk/transport/mpi/peer_watch.h"

#define HISTORY   64 /* descriptors kept; digests: until all have passed */
#define EACH      16 /* the first ones are sent, then every so many-th */
#define LOOKS     64 /* without success, before the clock is read */
#define STALL_NS  (50 * RG__MS)
#define GIVE_UP   (2000 * RG__MS)
#define WORDS_NS  (100 * RG__MS)
#define COMING_NS (10 * RG__MS) /* words of members that leave, too */
#define SLOTS     64            /* words that may be on their way at once */
#define WORD      1             /* tag */

typedef struct word {
    uint32_t set;
    bool is_alarm, is_routine, is_pair, is_goodbye;
    bool has_descriptor;    /* false: it is too old to be known */
    int32_t from;           /* set rank */
    uint64_t op;            /* counts the set's operations from 1 */
    uint64_t digest;        /* a digest of the descriptors up to that one */
    uint64_t least, passed; /* routine: see checked */
    rg__descriptor descriptor;
    rg__pair pair;
} word;

typedef struct started {
    uint64_t op, digest;
    rg__descriptor descriptor;
} started;

struct rg__checked {
    rg__mpi *c;
    rg__checked *next;
    int *ranks;  /* the members' world ranks; owned */
    uint64_t op; /* the newest */
    uint64_t digest;
    started history[HISTORY]; /* at op % HISTORY */
    uint64_t *digests;        /* at op % room; owned */
    uint64_t room;
    uint64_t least;  /* what rank 0 to the left neighbour have ended */
    uint64_t passed; /* what all have ended, by the last word */
    word *early;     /* by set rank: oldest about an unstarted one */
    uint64_t *left;  /* by set rank: 1 + its last one; 0: it stays */
    rg__descriptor *descriptor; /* by set rank: those of operation alarm */
    bool *is_told;      /* whose descriptor is here, or which has none */
    int ahead;          /* the lowest rank that has lost its own; n: none */
    uint64_t alarm;     /* 0: none */
    char *verdict;      /* owned */
    uint64_t owed;      /* routine words that the left one sends */
    uint64_t collected; /* and how many have come */
    uint32_t looks;
    uint64_t since_ns; /* since when the operation has waited; 0: it does not */
    bool has_stalled;  /* and all were told */
};

static struct words {
    MPI_Comm comm;
    bool is_open;
    word in;
    MPI_Request receive;
    word out[SLOTS];
    MPI_Request send[SLOTS];
    int next;
    rg__checked *first;
    uint64_t missing; /* routine words about sets that are gone here */
    int staying;      /* members of the world that have not left yet */
    bool has_left;    /* and all were told */
} words;

/* ----------------------------------------------------------- open and close */

static rg_status post_receive(void)
{
    return rg__mpi_status("MPI_Irecv",
                          MPI_Irecv(&words.in, (int)sizeof words.in, MPI_BYTE,
                                    MPI_ANY_SOURCE, WORD, words.comm,
                                    &words.receive));
}

rg_status rg__check_open(void)
{
    if (rg__mpi_check() != CHECK_LATE)
        return RG_OK;
    rg__wait wait = {.call = "MPI_Comm_dup"};
    rg__watch_enter(&wait);
    const rg_status st =
        rg__mpi_status(wait.call, MPI_Comm_dup(rg__mpi_world(), &words.comm));
    rg__watch_leave(&wait);
    if (st != RG_OK)
        return st;
    words.is_open = true;
    words.has_left = false;
    MPI_Comm_size(words.comm, &words.staying);
    words.staying--;
    for (int i = 0; i < SLOTS; i++)
        words.send[i] = MPI_REQUEST_NULL;
    return post_receive();
}

static void free_checked(rg__checked *k)
{
    free(k->ranks);
    free(k->digests);
    free(k->early);
    free(k->left);
    free(k->descriptor);
    free(k->is_told);
    free(k->verdict);
    free(k);
}

rg_status rg__check_join(rg__mpi *c, const int *ranks)
{
    if (!words.is_open || c->n == 1)
        return RG_OK;
    const size_t n = (size_t)c->n;
    rg__checked *k = calloc(1, sizeof *k);
    if (k == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    k->c = c;
    k->ranks = malloc(n * sizeof *k->ranks);
    k->room = HISTORY;
    k->digests = calloc(k->room, sizeof *k->digests);
    k->early = calloc(n, sizeof *k->early);
    k->left = calloc(n, sizeof *k->left);
    k->descriptor = calloc(n, sizeof *k->descriptor);
    k->is_told = calloc(n, sizeof *k->is_told);
    if (k->ranks == NULL || k->digests == NULL || k->early == NULL ||
        k->left == NULL || k->descriptor == NULL || k->is_told == NULL) {
        free_checked(k);
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    }
    for (int m = 0; m < c->n; m++)
        k->ranks[m] = ranks == NULL ? m : ranks[m];
    k->next = words.first;
    words.first = k;
    c->checked = k;
    return RG_OK;
}

/* ----------------------------------------------------------------- telling */

/* A slot whose word has been sent, or NULL. The next slot is the oldest: if its
 * word has not been sent, a routine word is not worth a longer search. */
static word *free_slot(int looks, int *slot_p)
{
    for (int i = 0; i < looks; i++) {
        const int s = (words.next + i) % SLOTS;
        int is_gone = words.send[s] == MPI_REQUEST_NULL;
        if (!is_gone)
            MPI_Test(&words.send[s], &is_gone, MPI_STATUS_IGNORE);
        if (is_gone) {
            words.next = (s + 1) % SLOTS;
            *slot_p = s;
            return &words.out[s];
        }
    }
    return NULL;
}

static void tell(const rg__checked *k, int to, const word *what, bool is_alarm)
{
    int slot = 0;
    word *out = free_slot(what->is_routine ? 2 : SLOTS, &slot);
    if (out == NULL)
        return;
    *out = *what;
    out->is_alarm = is_alarm;
    MPI_Isend(out, (int)sizeof *out, MPI_BYTE, k->ranks[to], WORD, words.comm,
              &words.send[slot]);
}

static void tell_all(const rg__checked *k, const word *what, bool is_alarm)
{
    for (int i = 1; i < k->c->n; i++)
        tell(k, (k->c->rank + i) % k->c->n, what, is_alarm);
}

/* My word about that operation, without a descriptor if the operation was not
 * started, or too long ago. */
static word word_of(const rg__checked *k, uint64_t op)
{
    const started *s = &k->history[op % HISTORY];
    word w = {.set = k->c->id, .from = k->c->rank, .op = op};
    if (s->op == op && op != 0) {
        w.has_descriptor = true;
        w.digest = s->digest;
        w.descriptor = s->descriptor;
    }
    return w;
}

/* ----------------------------------------------------------------- digests
 * A member that waits for long asks all about the operation that it is in, and
 * others may be far ahead of it. So each keeps its digests back to what all
 * have ended: routine words say what the left neighbour has, and by way of it
 * the least that those from member 0 on have; once that has gone around, it is
 * what all have, and goes around in turn. */

/* Without memory the oldest are lost, and a difference there is not named. */
static void make_room(rg__checked *k)
{
    const uint64_t room = 2 * k->room;
    uint64_t *more = calloc(room, sizeof *more);
    if (more == NULL)
        return;
    for (uint64_t i = 1; i <= k->room && i < k->op; i++)
        more[(k->op - i) % room] = k->digests[(k->op - i) % k->room];
    free(k->digests);
    k->digests = more;
    k->room = room;
}

static void note_digest(rg__checked *k)
{
    if (k->op - k->passed > k->room)
        make_room(k);
    k->digests[k->op % k->room] = k->digest;
}

/* Was it started, and is its digest still here? */
static bool has_digest(const rg__checked *k, uint64_t op)
{
    return op <= k->op && k->op - op < k->room;
}

static uint64_t digest_of(const rg__checked *k, uint64_t op)
{
    return k->digests[op % k->room];
}

static void say_passed(const rg__checked *k, word *routine)
{
    routine->least = k->c->rank == 0 ? k->op : rg__least(k->op, k->least);
    routine->passed = k->passed;
}

static void collect_passed(rg__checked *k, const word *routine)
{
    k->least = routine->least;
    k->passed = k->c->rank == 0 ? routine->least : routine->passed;
}

/* ------------------------------------------------------------------ verdict */

static rg_status name_difference(const rg__checked *k)
{
    rg__coll joined;
    if (k->ahead < k->c->n)
        return rg__fail(RG_ERR_MISMATCH,
                        "members of %s have started different operations, at "
                        "number %llu at the latest, and rank %d can no longer "
                        "say which: it is more than %d ahead by now, or has "
                        "left; start the same on every member",
                        rg__set_words(k->c->id).text,
                        (unsigned long long)k->alarm, k->ahead, HISTORY);
    const rg_status st = rg__descriptor_compare(
        k->c->id, k->descriptor, sizeof *k->descriptor, k->c->n, &joined);
    if (st != RG_OK)
        return st;
    return rg__fail(RG_ERR_MISMATCH,
                    "members of %s have started different operations, "
                    "before number %llu; start the same on every member",
                    rg__set_words(k->c->id).text, (unsigned long long)k->alarm);
}

static void give_verdict(rg__checked *k)
{
    name_difference(k);
    k->verdict = strdup(rg_last_error());
}

/* Members that have left send nothing more. */
static void conclude(rg__checked *k)
{
    for (int m = k->c->n - 1; m >= 0; m--) {
        if (k->is_told[m])
            continue;
        if (k->left[m] == 0)
            return;
        if (m < k->ahead)
            k->ahead = m;
    }
    if (k->verdict == NULL)
        give_verdict(k);
}

static void note_descriptor(rg__checked *k, int from, const word *told)
{
    k->descriptor[from] = told->descriptor;
    k->is_told[from] = true;
    if (!told->has_descriptor && from < k->ahead)
        k->ahead = from;
    conclude(k);
}

static void tell_mine(rg__checked *k, uint64_t op)
{
    const word mine = word_of(k, op);
    tell_all(k, &mine, true);
    note_descriptor(k, k->c->rank, &mine);
}

/* An alarm about an earlier operation replaces a later one. */
static void raise_alarm(rg__checked *k, uint64_t op)
{
    if (k->verdict != NULL || (k->alarm != 0 && k->alarm <= op))
        return;
    memset(k->is_told, 0, sizeof *k->is_told * (size_t)k->c->n);
    k->alarm = op;
    k->ahead = k->c->n;
    if (op <= k->op)
        tell_mine(k, op); /* false: when it starts */
}

static void compare(rg__checked *k, const word *w)
{
    word *early = &k->early[w->from];
    if (w->op > k->op && early->op <= k->op)
        *early = *w;
    else if (w->op <= k->op && has_digest(k, w->op) &&
             digest_of(k, w->op) != w->digest)
        raise_alarm(k, w->op);
}

static void take_pair(rg__checked *k, const word *w)
{
    if (k->verdict != NULL)
        return;
    rg__elements_differ(k->c, (rg__kind)w->descriptor.kind, &w->pair);
    k->verdict = strdup(rg_last_error());
}

static int left_of(const rg__checked *k)
{
    return (k->c->rank + k->c->n - 1) % k->c->n;
}

static void take_goodbye(rg__checked *k, const word *w)
{
    k->left[w->from] = w->op + 1;
    compare(k, w);
    if (k->alarm != 0)
        conclude(k);
}

static void collect(const word *w)
{
    rg__checked *k = words.first;
    while (k != NULL && k->c->id != w->set)
        k = k->next;
    if (k == NULL && w->is_routine && words.missing > 0)
        words.missing--;
    if (w->is_goodbye && w->set == 0)
        words.staying--;
    if (k == NULL || w->from < 0 || w->from >= k->c->n ||
        (w->op == 0 && !w->is_goodbye))
        return;
    if (w->is_pair) {
        take_pair(k, w);
        return;
    }
    if (w->is_goodbye) {
        take_goodbye(k, w);
        return;
    }
    if (!w->is_alarm) {
        if (w->is_routine && w->from == left_of(k)) {
            k->collected++;
            collect_passed(k, w);
        }
        compare(k, w);
        return;
    }
    raise_alarm(k, w->op);
    if (k->alarm == w->op)
        note_descriptor(k, w->from, w);
}

static void listen(void)
{
    for (;;) {
        int is_here = 0;
        if (MPI_Test(&words.receive, &is_here, MPI_STATUS_IGNORE) !=
            MPI_SUCCESS) {
            rg__lost_note(words.comm);
            return;
        }
        if (!is_here)
            return;
        collect(&words.in);
        if (post_receive() != RG_OK)
            return;
    }
}

static bool may_be_coming(uint64_t since_ns)
{
    return words.has_left && words.staying > 0 &&
           rg__now_ns() < since_ns + COMING_NS;
}

/* A message on its way would be left over in MPI: wait for it, briefly. */
static void collect_the_rest(void)
{
    const uint64_t begun = rg__now_ns();
    while ((words.missing > 0 && rg__now_ns() < begun + WORDS_NS) ||
           may_be_coming(begun)) {
        listen();
        sched_yield();
    }
}

void rg__check_close(void)
{
    if (!words.is_open)
        return;
    collect_the_rest();
    words.is_open = false;
    MPI_Cancel(&words.receive);
    MPI_Request_free(&words.receive);
    for (int i = 0; i < SLOTS; i++)
        if (words.send[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&words.send[i]);
    if (!rg__lost_any())
        rg__mpi_free(&words.comm, NULL, 0);
}

/* --------------------------------------------------------- the comm's hooks */

_Static_assert(sizeof(rg__descriptor) % sizeof(uint64_t) == 0,
               "all of it is mixed");

uint64_t rg__check_hash(const rg__descriptor *descriptor)
{
    uint64_t hash = 0, part;
    for (size_t i = 0; i < sizeof *descriptor; i += sizeof part) {
        memcpy(&part, (const char *)descriptor + i, sizeof part);
        hash = rg__tag_mix(hash, part);
    }
    return hash;
}

static bool is_told(uint64_t op)
{
    return op <= EACH || op % EACH == 0;
}

void rg__check_started(rg__mpi *c)
{
    rg__checked *k = c->checked;
    if (k == NULL)
        return;
    k->op++;
    k->digest = rg__tag_mix(k->digest, c->hash);
    started *mine = &k->history[k->op % HISTORY];
    *mine = (started){k->op, k->digest, c->mine.descriptor};
    if (mine->descriptor.kind == RG__AGREE)
        mine->descriptor.tag = 0; /* as in the hash */
    note_digest(k);
    k->since_ns = 0;
    k->looks = 0;
    k->has_stalled = false;
    for (int m = 0; m < c->n; m++)
        if (k->early[m].op == k->op)
            compare(k, &k->early[m]);
    if (k->alarm == k->op && !k->is_told[c->rank])
        tell_mine(k, k->op);
}

void rg__check_ended(rg__mpi *c)
{
    rg__checked *k = c->checked;
    if (k == NULL || !is_told(k->op))
        return;
    word routine = word_of(k, k->op);
    routine.is_routine = true;
    say_passed(k, &routine);
    k->owed++;
    tell(k, (c->rank + 1) % c->n, &routine, false);
    listen();
}

void rg__check_part(rg__mpi *c)
{
    const rg__checked *k = c->checked;
    if (k == NULL)
        return;
    if (k->collected < k->owed && k->verdict == NULL && c->requests == 0)
        words.missing += k->owed - k->collected;
    rg__checked **at = &words.first;
    while (*at != c->checked)
        at = &(*at)->next;
    *at = c->checked->next;
    free_checked(c->checked);
    c->checked = NULL;
}

/* Members that have left are sent nothing more. */
static void tell_left(rg__checked *k)
{
    word last = {.set = k->c->id,
                 .from = k->c->rank,
                 .is_goodbye = true,
                 .op = k->op,
                 .digest = k->digest};
    for (int i = 1; i < k->c->n; i++) {
        const int m = (k->c->rank + i) % k->c->n;
        if (k->left[m] == 0)
            tell(k, m, &last, false);
    }
}

/* The world joined first and so comes last: a member whose word about it has
 * come has sent all its words. */
void rg__check_goodbye(void)
{
    if (!words.is_open)
        return;
    listen();
    for (rg__checked *k = words.first; k != NULL; k = k->next)
        tell_left(k);
    words.has_left = true;
}

int rg__check_left(const rg__mpi *c, int *ranks, int room)
{
    const rg__checked *k = c->checked;
    int n = 0;
    for (int m = 0; k != NULL && m < c->n && n < room; m++)
        if (k->left[m] != 0 && k->left[m] <= k->op)
            ranks[n++] = m;
    return n;
}

bool rg__check_has_left(const rg__mpi *c, int m)
{
    return c->checked != NULL && c->checked->left[m] != 0;
}

rg_status rg__check_differs(rg__mpi *c, const rg__pair *p)
{
    rg__checked *k = c->checked;
    if (k == NULL)
        return rg__elements_differ(c, c->coll.kind, p);
    word found = word_of(k, k->op);
    found.is_pair = true;
    found.pair = *p;
    tell_all(k, &found, false);
    take_pair(k, &found);
    const rg_status st = rg__check_verdict(c);
    return st != RG_OK ? st : rg__elements_differ(c, c->coll.kind, p);
}

rg_status rg__check_verdict(const rg__mpi *c)
{
    if (c->checked == NULL || c->checked->verdict == NULL)
        return RG_OK;
    return rg__fail(RG_ERR_MISMATCH, "%s", c->checked->verdict);
}

rg_status rg__check_waits(rg__mpi *c)
{
    rg__checked *k = c->checked;
    if (k == NULL || ++k->looks % LOOKS != 0)
        return RG_OK;
    const uint64_t now = rg__now_ns();
    if (k->since_ns == 0)
        k->since_ns = now;
    if (!k->has_stalled && now - k->since_ns >= STALL_NS) {
        k->has_stalled = true;
        const word mine = word_of(k, k->op);
        tell_all(k, &mine, false);
    }
    listen();
    return rg__check_verdict(c);
}

rg_status rg__check_failed(rg__mpi *c, rg_status st, const char *why)
{
    rg__checked *k = c->checked;
    if (k == NULL)
        return st;
    const uint64_t now = rg__now_ns();
    if (c->failed == NULL) {
        c->failed = strdup(why);
        c->failed_st = st;
        k->since_ns = now;
        raise_alarm(k, k->op);
    }
    listen();
    if (rg__check_verdict(c) != RG_OK)
        return RG_ERR_MISMATCH;
    if (now - k->since_ns < GIVE_UP && c->failed != NULL)
        return RG_IN_PROGRESS;
    return rg__fail(c->failed_st, "%s", c->failed == NULL ? why : c->failed);
}
