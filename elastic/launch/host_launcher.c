/* Which hosts have an agent, and when the next attempt is due. */
#include "elastic/launch/host_launcher.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "elastic/agent/base/reap.h"
#include "elastic/agent/supervisor/supervisor.h"
#include "elastic/launch/channel.h"
#include "elastic/launch/route.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define UNREACHED      255 /* as ssh says it */
#define NOT_EXECUTABLE 126 /* as shells say it */
#define NOT_FOUND      127
#define QUICK_NS       (10000 * RG__MS) /* one that lasts longer was well */
#define QUICK_MAX      5                /* in a row; then no more */
#define REST_NS        (1000 * RG__MS)  /* doubles */
#define REST_MAX_NS    (60000 * RG__MS)
#define FINISH_NS      (10000 * RG__MS)
#define LAST_NS        (35000 * RG__MS) /* more than a last checkpoint takes */
#define LEAVE_NS       (5000 * RG__MS)
#define SILENT_NS      (5000 * RG__MS)  /* then its silence is reported */
#define ANSWER_NS      (10000 * RG__MS) /* the least for a first answer */
#define UNREACHED_NS   (1000 * RG__MS)  /* to hear that it is over */
#define LOOK_NS        (1000 * RG__MS)  /* whether a host is still there */
#define ABSENT_NS      (10000 * RG__MS) /* then it is not waited for */

typedef enum host_state { IDLE, RUNNING, RESTING, LEAVING, OVER } host_state;

typedef struct host {
    struct host *next;
    rg__listed_host listed;
    bool is_listed, is_here;
    host_state state;
    int slots; /* that were asked of it */
    pid_t pid; /* of its channel; 0: none */
    rg__channel_note *note;
    bool has_answered;           /* it was reached once */
    bool has_record;             /* when the job was done, in etcd */
    bool has_run;                /* and lasted */
    bool is_silent;              /* as was said */
    char said[RG__CHANNEL_SAID]; /* by --rsh, when it was not reached */
    int rests;                   /* in a row */
    int quick_deaths;            /* of them, those of an agent */
    uint64_t first_ns;           /* when it was tried first; 0: never */
    uint64_t started_ns, due_ns, ended_ns;
    uint64_t absent_ns; /* etcd does not have it since; 0: it does */
    int code;           /* how its agent ended last */
} host;

struct rg__launcher {
    const rg__launcher_params *params;
    rg__discovery discovery;
    host *first; /* in the order of the list */
    int min, max;
    bool is_open;     /* the job is in etcd: others may join */
    bool has_world;   /* its first one was formed */
    uint64_t hold_ns; /* no agent is started before: an end that comes alone is
                         a host's, and many together are the job's */
    uint64_t deaf_ns; /* the job is done, and since then etcd is away; 0: no */
    char why[512];
};

/* --------------------------------------------------------------------- list */

static host *find_host(const rg__launcher *l, const char *name)
{
    for (host *h = l->first; h != NULL; h = h->next)
        if (strcmp(h->listed.name, name) == 0)
            return h;
    return NULL;
}

static host *add_host(rg__launcher *l, const rg__listed_host *listed)
{
    host **end = &l->first;
    host *h = calloc(1, sizeof *h);
    if (h != NULL)
        h->note = rg__channel_note_create();
    if (h == NULL || h->note == NULL) {
        free(h);
        return NULL;
    }
    h->listed = *listed;
    h->is_here = rg__route_is_here(listed->target);
    while (*end != NULL)
        end = &(*end)->next;
    *end = h;
    return h;
}

static void leave(host *h, const char *why)
{
    rg__log(RG__INFO, "launch", "host %s is to leave: %s", h->listed.name, why);
    h->state = LEAVING;
    kill(h->pid, SIGTERM);
}

/* A host that is listed again begins again, whatever it was. */
static rg_status take_list(rg__launcher *l, const rg__host_list *list)
{
    for (int i = 0; i < list->n; i++) {
        host *h = find_host(l, list->host[i].name);
        if (h == NULL && (h = add_host(l, &list->host[i])) == NULL)
            return rg__fail(RG_ERR_MEMORY, "no memory for a list of hosts");
        if (!h->is_listed && h->state == OVER)
            h->state = IDLE;
        h->is_listed = true;
        h->listed = list->host[i];
    }
    for (host *h = l->first; h != NULL; h = h->next) {
        if (!h->is_listed || rg__hosts_find(list, h->listed.name) != NULL)
            continue;
        h->is_listed = false;
        h->rests = h->quick_deaths = 0;
        h->has_run = false;
        if (h->state == RUNNING)
            leave(h, "the discovery script no longer names it");
        else if (h->state == RESTING)
            h->state = IDLE;
    }
    return RG_OK;
}

/* ----------------------------------------------------------------- starting */

static rg_status write_letter(const rg__launcher *l, const host *h,
                              rg__letter *letter)
{
    char slots[16];
    snprintf(slots, sizeof slots, "%d", h->slots);
    rg__letter_add(letter, "host", h->listed.name);
    rg__letter_add(letter, "slots", slots);
    rg__letter_add_all(letter, l->params->letter);
    return letter->has_failed
               ? rg__fail(RG_ERR_MEMORY, "no memory for a letter")
               : RG_OK;
}

static void rest(host *h)
{
    const int doublings = h->rests < 6 ? h->rests : 6;
    const uint64_t ns = REST_NS << doublings;
    h->state = RESTING;
    h->due_ns = rg__now_ns() + (ns < REST_MAX_NS ? ns : REST_MAX_NS);
    h->rests++;
}

static void start_host(rg__launcher *l, host *h, int slots)
{
    rg__letter letter = {0};
    if (h->state == RESTING && h->note->is_reached)
        rg__say(h->code > 128
                    ? "the agent of host %s has ended with code %d, or the "
                      "connection to it; both are taken up again"
                    : "the agent of host %s has ended with code %d; it is "
                      "started again",
                h->listed.name, h->code);
    h->slots = slots;
    h->started_ns = rg__now_ns();
    if (h->first_ns == 0)
        h->first_ns = h->started_ns;
    rg_status st = write_letter(l, h, &letter);
    const rg__channel_params params = {
        .host = h->listed.name,
        .target = h->is_here ? NULL : h->listed.target,
        .rsh = l->params->rsh,
        .program = h->is_here ? l->params->own_program : l->params->program,
        .letter = &letter,
        .note = h->note};
    if (st == RG_OK)
        st = rg__channel_start(&params, &h->pid);
    rg__letter_free(&letter);
    if (st == RG_OK) {
        h->state = RUNNING;
        return;
    }
    rg__log(RG__WARN, "launch", "host %s is not started yet: %s",
            h->listed.name, rg_last_error());
    rest(h);
}

static bool can_start(const host *h)
{
    return h->is_listed && (h->state == IDLE ||
                            (h->state == RESTING && rg__now_ns() >= h->due_ns));
}

/* A host that left in order is not replaced: its workers may be done. */
static int running_slots(const rg__launcher *l)
{
    int slots = 0;
    for (const host *h = l->first; h != NULL; h = h->next)
        if (h->state == RUNNING ||
            (h->state == OVER && h->code == 0 && h->is_listed))
            slots += h->slots;
    return slots;
}

/* Whole hosts beyond what is wanted, the last in the list first. */
static void let_go(rg__launcher *l, int wanted)
{
    int running = running_slots(l);
    while (running > wanted) {
        host *last = NULL;
        for (host *h = l->first; h != NULL; h = h->next)
            if (h->state == RUNNING && running - h->slots >= wanted)
                last = h;
        if (last == NULL)
            return;
        running -= last->slots;
        leave(last, "the job wants fewer slots");
    }
}

static void fill_up(rg__launcher *l, int wanted)
{
    int running = running_slots(l);
    for (host *h = l->first; h != NULL && running < wanted; h = h->next) {
        if (!can_start(h))
            continue;
        const int lacking = wanted - running;
        start_host(l, h, h->listed.slots < lacking ? h->listed.slots : lacking);
        running += h->state == RUNNING ? h->slots : 0;
    }
}

/* ------------------------------------------------------------------ silence */

static bool is_reached(const host *h)
{
    return h->pid != 0 && (h->note->is_reached || h->has_record);
}

static bool is_unheard(const host *h)
{
    return h->pid != 0 && !h->note->is_reached;
}

static bool has_answered(const host *h)
{
    return h->has_answered || is_reached(h);
}

static bool is_unanswered(const host *h)
{
    return h->state == RUNNING && !h->is_here && !h->note->is_reached;
}

static void say_silence(const rg__launcher *l, host *h)
{
    if (!is_unanswered(h) || h->is_silent ||
        rg__now_ns() < h->started_ns + SILENT_NS)
        return;
    h->is_silent = true;
    rg__say("host %s has not answered within %d s%s%s; waiting for --rsh (%s) "
            "to reach it or to fail",
            h->listed.name, (int)(SILENT_NS / (1000 * RG__MS)),
            h->note->said[0] != '\0' ? ": " : "", h->note->said,
            l->params->rsh);
}

/* For an answer: as long as a world may take to form. */
static uint64_t patience_ns(const rg__launcher *l)
{
    const uint64_t ns = l->params->start_timeout_ms * RG__MS;
    return ns > ANSWER_NS ? ns : ANSWER_NS;
}

static uint64_t last_try_ns(const rg__launcher *l, const host *h)
{
    return h->first_ns + patience_ns(l);
}

/* A script may name other hosts later. */
static bool is_missed(const rg__launcher *l, const host *h)
{
    return !l->has_world && l->discovery.command == NULL && h->first_ns != 0 &&
           !has_answered(h) && rg__now_ns() >= last_try_ns(l, h);
}

static bool is_any_idle(const rg__launcher *l)
{
    for (const host *h = l->first; h != NULL; h = h->next)
        if (can_start(h))
            return true;
    return false;
}

/* A host that waits for a place gets that of one that does not answer, which is
 * tried again later. */
static void make_room(const rg__launcher *l)
{
    const uint64_t now = rg__now_ns(), ns = patience_ns(l);
    if (!is_any_idle(l))
        return;
    for (const host *h = l->first; h != NULL; h = h->next) {
        if (!is_unanswered(h) || now < h->started_ns + ns)
            continue;
        snprintf(h->note->said, sizeof h->note->said,
                 "no answer within %llu s, and others are there",
                 (unsigned long long)(ns / (1000 * RG__MS)));
        kill(h->pid, SIGKILL);
    }
}

/* --------------------------------------------------------------------- turn */

static void note_due(int *ms_p, uint64_t at_ns)
{
    const uint64_t now = rg__now_ns();
    if (at_ns <= now)
        return;
    const int left = (int)((at_ns - now) / RG__MS) + 1;
    *ms_p = *ms_p < 0 || left < *ms_p ? left : *ms_p;
}

static int until_due(const rg__launcher *l)
{
    int ms = -1;
    note_due(&ms, l->hold_ns);
    for (const host *h = l->first; h != NULL; h = h->next) {
        if (h->state == RESTING) /* an idle host is started only when wanted */
            note_due(&ms, h->due_ns);
        if (is_unanswered(h)) {
            note_due(&ms, h->started_ns + SILENT_NS);
            note_due(&ms, h->started_ns + patience_ns(l));
        }
        if (!l->has_world && h->first_ns != 0)
            note_due(&ms, last_try_ns(l, h));
    }
    return ms;
}

int rg__launcher_turn(rg__launcher *l)
{
    const int look_ms = rg__discovery_turn(&l->discovery);
    if (l->discovery.is_new && take_list(l, &l->discovery.list) != RG_OK)
        rg__log(RG__WARN, "launch", "%s", rg_last_error());
    l->discovery.is_new = false;
    if (l->is_open && rg__now_ns() >= l->hold_ns) {
        const int wanted = l->max + l->params->spares;
        let_go(l, wanted);
        fill_up(l, wanted);
        make_room(l);
    }
    for (host *h = l->first; h != NULL; h = h->next)
        say_silence(l, h);
    const int due_ms = until_due(l);
    return look_ms < 0 || (due_ms >= 0 && due_ms < look_ms) ? due_ms : look_ms;
}

/* ------------------------------------------------------------------- ending */

static void give_up(host *h, int code, const char *why)
{
    h->state = OVER;
    h->code = code;
    rg__say("host %s is given up: %s", h->listed.name, why);
}

static void note_failure(const rg__launcher *l, host *h, int code)
{
    if (h->note->said[0] != '\0')
        snprintf(h->said, sizeof h->said, "%s", h->note->said);
    else
        snprintf(h->said, sizeof h->said,
                 "%.180s said nothing and ended with code %d", l->params->rsh,
                 code);
}

/* The end of an agent is reported when another one is started: by then it is
 * clear that the job has not ended. */
static void say_rest(const host *h)
{
    const unsigned long long s =
        (h->due_ns - rg__now_ns() + 999 * RG__MS) / (1000 * RG__MS);
    if (h->rests > 1)
        rg__log(RG__INFO, "launch", "host %s is tried again in %llu s",
                h->listed.name, s);
    else if (!h->note->is_reached)
        rg__say("host %s can't be reached: %s; it is tried again in %llu s, "
                "then with longer pauses",
                h->listed.name, h->said, s);
}

/* Another attempt would not help: wrong command line, or another program. */
static bool is_for_good(const host *h, int code)
{
    if (h->has_run)
        return false;
    return code == RG__EXIT_USAGE || code == RG__EXIT_DIFFERS ||
           (!h->note->is_reached &&
            (code == NOT_FOUND || code == NOT_EXECUTABLE));
}

static void give_up_for(const rg__launcher *l, host *h, int code)
{
    char why[RG__CHANNEL_SAID + 256];
    if (!h->note->is_reached && code != RG__EXIT_USAGE)
        snprintf(why, sizeof why,
                 "%s can't be run there (%s); install Regroup at the same "
                 "place on all hosts, or say where it is with --prefix or "
                 "--remote-path",
                 l->params->program, h->said);
    else
        snprintf(why, sizeof why,
                 "its agent ended with code %d, and would do so again", code);
    give_up(h, code, why);
}

static void host_ended(rg__launcher *l, host *h, int code)
{
    const bool was_well =
        h->note->is_reached && rg__now_ns() - h->started_ns > QUICK_NS;
    const bool was_leaving = h->state == LEAVING;
    h->pid = 0;
    h->ended_ns = rg__now_ns();
    if (h->note->is_reached && !was_leaving)
        l->hold_ns = h->ended_ns + REST_NS;
    h->has_answered = h->has_answered || h->note->is_reached;
    h->is_silent = h->is_silent && !h->note->is_reached;
    h->has_run = h->has_run || was_well;
    note_failure(l, h, code);
    if (was_well)
        h->rests = h->quick_deaths = 0;
    h->quick_deaths += h->note->is_reached && !was_well;
    if (was_leaving) {
        h->state = IDLE;
    } else if (code == 0) {
        h->state = OVER; /* it is done, was drained, or has left in order */
        h->code = 0;
    } else if (is_for_good(h, code)) {
        give_up_for(l, h, code);
    } else if (h->quick_deaths > QUICK_MAX) {
        give_up(h, code, "its agent has ended too often within 10 s");
    } else {
        h->code = code;
        rest(h);
        say_rest(h);
    }
}

static host *find_channel(const rg__launcher *l, pid_t pid)
{
    for (host *h = l->first; h != NULL; h = h->next)
        if (h->pid != 0 && h->pid == pid)
            return h;
    return NULL;
}

void rg__launcher_ended(rg__launcher *l, pid_t pid, int status)
{
    if (rg__discovery_ended(&l->discovery, pid, status))
        return;
    host *h = find_channel(l, pid);
    if (h != NULL)
        host_ended(l, h, rg__code_of(status));
}

static void name_missed(rg__launcher *l, const host *missed, int n)
{
    char more[32] = "";
    if (n > 1)
        snprintf(more, sizeof more, " and %d more", n - 1);
    snprintf(l->why, sizeof l->why,
             "host %s (%.100s)%s can't be reached, and the rest has fewer "
             "slots than the job needs (%d); see that `%.*s %.63s true` works "
             "and asks nothing (--rsh), or raise --start-timeout",
             missed->listed.name,
             missed->said[0] != '\0' ? missed->said : "no answer", more, l->min,
             (int)strcspn(l->params->rsh, " "), l->params->rsh,
             missed->listed.target);
}

/* Hosts that are given up, or are missed when the job is to begin, leave too
 * few slots for --min; or all have ended. */
bool rg__launcher_is_over(rg__launcher *l, int *code_p, const char **why_p)
{
    int slots = 0, living = 0, over = 0, code = 0, missing = 0;
    const host *missed = NULL;
    if (!l->is_open || l->discovery.command != NULL)
        return false;
    for (const host *h = l->first; h != NULL; h = h->next) {
        const bool is_over = h->state == OVER;
        const bool is_none = is_over ? h->code != 0 : is_missed(l, h);
        slots += is_none ? 0 : h->listed.slots;
        missing += is_none && !is_over;
        missed = is_none && !is_over && missed == NULL ? h : missed;
        living += !is_over && h->state != IDLE;
        over += is_over;
        code = is_over && h->code != 0 ? h->code : code;
    }
    *code_p = code;
    if (code == 0 && missing > 0 && slots < l->min) {
        name_missed(l, missed, missing);
        *why_p = l->why;
        *code_p = RG__EXIT_BELOW_MIN;
        return true;
    }
    *why_p = code == 0 ? "the agents of all hosts have ended"
                       : "the hosts that are left have fewer slots than the "
                         "job needs";
    return (over > 0 && living == 0 && code == 0) ||
           (code != 0 && slots < l->min);
}

/* ------------------------------------------------------------ begin, finish */

rg_status rg__launcher_create(const rg__launcher_params *params,
                              rg__launcher **launcher_p)
{
    rg__launcher *l = calloc(1, sizeof *l);
    if (l == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a launcher");
    l->params = params;
    l->discovery = (rg__discovery){.command = params->discovery,
                                   .interval_ms = params->interval_ms,
                                   .slots = params->slots,
                                   .out = -1,
                                   .err = -1};
    *launcher_p = l;
    return take_list(l, params->hosts);
}

void rg__launcher_sizes(rg__launcher *l, int min, int max, bool has_world)
{
    l->min = min;
    l->max = max;
    l->has_world = has_world;
    l->is_open = true;
}

static bool is_there(const host *h)
{
    return h->pid != 0;
}

static bool is_any(const rg__launcher *l, bool (*is_one)(const host *))
{
    for (const host *h = l->first; h != NULL; h = h->next)
        if (is_one(h))
            return true;
    return false;
}

/* A program may fail after rg_run; the first failure decides. */
static void take_code(const host *h, int code, int *code_p)
{
    if (*code_p != 0 || code == 0 || h->state == LEAVING)
        return;
    *code_p = code;
    rg__say(code > 128
                ? "the agent of host %s has ended with code %d, or the "
                  "connection to it has, after the job was done; this command "
                  "ends with that code, and the program may still run there"
                : "the agent of host %s has ended with code %d after the job "
                  "was done; this command ends with that code",
            h->listed.name, code);
}

/* News of the job's end reaches some hosts before our own agent. */
static void take_early_codes(const rg__launcher *l, int *code_p)
{
    const uint64_t now = rg__now_ns();
    for (const host *h = l->first; h != NULL; h = h->next)
        if (h->pid == 0 && h->state == RESTING && h->note->is_reached &&
            h->code <= 128 && now - h->ended_ns < REST_NS)
            take_code(h, h->code, code_p);
}

static void reap(rg__launcher *l, int *code_p)
{
    int status;
    for (host *h = l->first; h != NULL; h = h->next) {
        if (h->pid == 0 || waitpid(h->pid, &status, WNOHANG) != h->pid)
            continue;
        h->pid = 0;
        take_code(h, rg__code_of(status), code_p);
    }
}

static void signal_all(const rg__launcher *l, int signum)
{
    for (const host *h = l->first; h != NULL; h = h->next)
        if (h->pid != 0)
            kill(h->pid, signum);
}

#define GONE     0
#define TOO_LATE (-1)

/* Wait until no such host is left; most_ns 0: without limit. Returns GONE,
 * TOO_LATE or the signal that came. */
static int wait_all(rg__launcher *l, bool (*is_one)(const host *),
                    uint64_t most_ns, int *code_p)
{
    sigset_t set;
    const uint64_t deadline =
        most_ns != 0 ? rg__now_ns() + most_ns : UINT64_MAX;
    rg__supervisor_signals(&set);
    sigdelset(&set, SIGTSTP);
    sigdelset(&set, SIGCONT);
    while (reap(l, code_p), is_any(l, is_one)) {
        const int turn_ms = l->params->wait.turn(l->params->wait.arg);
        const uint64_t now = rg__now_ns();
        uint64_t left = now < deadline ? deadline - now : 0;
        if (turn_ms >= 0 && left > (uint64_t)turn_ms * RG__MS)
            left = (uint64_t)turn_ms * RG__MS;
        const struct timespec most = rg__timespec(left);
        const int got = sigtimedwait(&set, NULL, &most);
        if (got > 0 && got != SIGCHLD)
            return got;
        if (got < 0 && rg__now_ns() >= deadline)
            return TOO_LATE;
    }
    return GONE;
}

static void name_remaining_hosts(const rg__launcher *l)
{
    for (const host *h = l->first; h != NULL; h = h->next)
        if (h->pid != 0)
            rg__log(RG__WARN, "launch",
                    "the agent of host %s has not ended; it is asked to leave",
                    h->listed.name);
}

static void name_working_hosts(const rg__launcher *l)
{
    for (const host *h = l->first; h != NULL; h = h->next)
        if (is_reached(h) && h->absent_ns == 0)
            rg__say("the job is done; waiting for what its program still does "
                    "on host %s (a signal ends it)",
                    h->listed.name);
}

/* Its report is unknown, as after a broken connection. */
static void stop_waiting(host *h, rg__host_place place, int *code_p)
{
    if (place == RG__PLACE_UNKNOWN)
        rg__say("etcd has been away for longer than --etcd-timeout, so nothing "
                "tells whether host %s is still there, and it is not waited "
                "for; its program may still run, so this command ends with "
                "code %d",
                h->listed.name, UNREACHED);
    else if (place == RG__PLACE_LOST)
        rg__say("host %s has been cut off, or has died, since the job is done, "
                "and is not waited for; what its program still did is not "
                "known, so this command ends with code %d",
                h->listed.name, UNREACHED);
    else
        rg__say("host %s has been lost before the job was done, and is not "
                "waited for",
                h->listed.name);
    if (place != RG__PLACE_LEFT_OUT && *code_p == 0)
        *code_p = UNREACHED;
    h->state = LEAVING;
    kill(h->pid, SIGKILL);
}

/* A connection can outlive its host without carrying anything. */
static void look_for_hosts(rg__launcher *l, int *code_p)
{
    const rg__launcher_wait *wait = &l->params->wait;
    const bool is_known = wait->look(wait->arg);
    const uint64_t now = rg__now_ns();
    if (is_known || l->deaf_ns == 0)
        l->deaf_ns = is_known ? 0 : now;
    const bool is_over =
        !is_known && now - l->deaf_ns >= l->params->etcd_timeout_ms * RG__MS;
    for (host *h = l->first; h != NULL; h = h->next) {
        if (!is_reached(h) || h->state == LEAVING)
            continue;
        const rg__host_place place =
            is_known                 ? wait->place(wait->arg, h->listed.name)
            : is_over && !h->is_here ? RG__PLACE_UNKNOWN
                                     : RG__PLACE_HERE;
        if (place == RG__PLACE_HERE)
            h->absent_ns = 0;
        else if (h->absent_ns == 0 && is_known)
            h->absent_ns = now;
        else if (!is_known || now - h->absent_ns >= ABSENT_NS)
            stop_waiting(h, place, code_p);
    }
}

/* The job is done: what programs do after rg_run may take any time. */
static int wait_for_programs(rg__launcher *l, int *code_p)
{
    const uint64_t begin_ns = rg__now_ns();
    bool is_said = false;
    int how;
    take_early_codes(l, code_p);
    while ((how = wait_all(l, is_reached, LOOK_NS, code_p)) == TOO_LATE) {
        look_for_hosts(l, code_p);
        if (is_said || rg__now_ns() - begin_ns < FINISH_NS)
            continue;
        is_said = true;
        name_working_hosts(l);
    }
    return how;
}

static void drive_out(rg__launcher *l)
{
    int ignored = 1; /* an agent that is asked to leave has no code */
    for (int i = 0; i < 2 && is_any(l, is_there); i++) {
        signal_all(l, SIGTERM);
        if (wait_all(l, is_there, LEAVE_NS, &ignored) == GONE)
            return;
    }
    signal_all(l, SIGKILL);
    wait_all(l, is_there, LEAVE_NS, &ignored);
}

/* Hosts that were never reached, and won't be. */
static void cut_off(rg__launcher *l, int *code_p)
{
    if (wait_all(l, is_there, UNREACHED_NS, code_p) == GONE)
        return;
    for (host *h = l->first; h != NULL; h = h->next)
        if (h->pid != 0)
            rg__log(RG__WARN, "launch",
                    "host %s has not answered yet, and no longer needs to",
                    h->listed.name);
    signal_all(l, SIGKILL);
    wait_all(l, is_there, LEAVE_NS, code_p);
}

/* It may have come to the job before its channel has read that it has. */
static void find_unheard(const rg__launcher *l)
{
    const rg__launcher_wait *wait = &l->params->wait;
    if (!is_any(l, is_unheard) || !wait->look(wait->arg))
        return;
    for (host *h = l->first; h != NULL; h = h->next)
        h->has_record =
            wait->place(wait->arg, h->listed.name) == RG__PLACE_HERE;
}

int rg__launcher_finish(rg__launcher *l, int code)
{
    const uint64_t most_ns =
        l->params->has_last_checkpoint ? LAST_NS : FINISH_NS;
    int how = GONE;
    rg__discovery_end(&l->discovery);
    if (code == 0)
        find_unheard(l);
    for (host *h = l->first; h != NULL; h = h->next) {
        if (h->pid == 0 || is_reached(h))
            continue;
        h->state = LEAVING;
        kill(h->pid, SIGTERM); /* it is told to leave once it is up */
    }
    if (code == 0)
        how = wait_for_programs(l, &code);
    if (how <= 0)
        how = wait_all(l, is_reached, most_ns, &code);
    if (how == GONE) {
        cut_off(l, &code);
        return code;
    }
    name_remaining_hosts(l);
    drive_out(l);
    return code == 0 && how > 0 ? 128 + how : code;
}

void rg__launcher_destroy(rg__launcher *l)
{
    if (l == NULL)
        return;
    while (l->first != NULL) {
        host *h = l->first;
        l->first = h->next;
        rg__channel_note_destroy(h->note);
        free(h);
    }
    rg__discovery_end(&l->discovery);
    free(l);
}
