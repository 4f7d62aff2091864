/* Failpoints: REGROUP_FAILPOINT, read once, and what its entries do. */
#include "sdk/base/failpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/log.h"

#define MAX_ENTRIES 16
#define ANY         UINT64_MAX

typedef struct action {
    const char *word;
    bool has_number; /* a number follows the word */
    void (*strike)(uint64_t number);
} action;

typedef struct entry {
    const char *name; /* into the text's copy, which is kept forever */
    const action *action;
    uint64_t number; /* of the action */
    uint64_t rank, step, start, generation;
    _Atomic bool is_spent;
} entry;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static entry entries[MAX_ENTRIES]; /* written under once only */
static int entry_count;
static _Atomic uint32_t my_start;

/* ---------------------------------------------------------------- actions */

static void strike_kill(uint64_t unused)
{
    (void)unused;
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void strike_stop(uint64_t unused)
{
    (void)unused;
    kill(getpid(), SIGSTOP);
}

/* A real store, so that the kernel raises it as in a broken program. */
static void strike_segv(uint64_t unused)
{
    (void)unused;
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}

static void strike_abort(uint64_t unused)
{
    (void)unused;
    abort();
}

static void strike_exit(uint64_t code)
{
    _exit((int)(code & 0xff));
}

static void strike_sleep(uint64_t ms)
{
    struct timespec left = {(time_t)(ms / 1000),
                            (long)(ms % 1000) * 1000 * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static const action actions[] = {
    {"kill", false, strike_kill},
    {"stop", false, strike_stop},
    {"segv", false, strike_segv},
    {"abort", false, strike_abort},
    {"exit", true, strike_exit},
    {"sleep", true, strike_sleep},
    {NULL},
};

/* ---------------------------------------------------------------- reading */

/* The number after a word: of "rank3" after "rank". */
static bool number_behind(const char *text, const char *word, uint64_t *n_p)
{
    const size_t length = strlen(word);
    if (strncmp(text, word, length) != 0 || text[length] < '0' ||
        text[length] > '9')
        return false;
    char *end = NULL;
    errno = 0;
    const uint64_t n = strtoull(text + length, &end, 10);
    if (errno != 0 || *end != '\0' || n == ANY)
        return false;
    *n_p = n;
    return true;
}

static bool read_condition(const char *text, entry *e)
{
    return number_behind(text, "rank", &e->rank) ||
           number_behind(text, "step", &e->step) ||
           number_behind(text, "start", &e->start) ||
           number_behind(text, "gen", &e->generation);
}

static bool read_action(const char *text, entry *e)
{
    for (const action *a = actions; a->word != NULL; a++) {
        if (a->has_number ? number_behind(text, a->word, &e->number)
                          : strcmp(text, a->word) == 0) {
            e->action = a;
            return true;
        }
    }
    return false;
}

/* Cuts text at its colons. */
static bool read_entry(char *text, entry *e)
{
    e->rank = e->step = e->start = e->generation = ANY;
    char *save = NULL;
    e->name = strtok_r(text, ":", &save);
    char *part = e->name != NULL ? strtok_r(NULL, ":", &save) : NULL;
    while (part != NULL && read_condition(part, e))
        part = strtok_r(NULL, ":", &save);
    return part != NULL && read_action(part, e) &&
           strtok_r(NULL, ":", &save) == NULL;
}

/* Not through the table of settings, which lists the variable: a failpoint may
 * be passed before that is read. */
static void read_environment(void)
{
    const char *text = getenv("REGROUP_FAILPOINT");
    char *copy = text != NULL ? strdup(text) : NULL;
    char *save = NULL;
    for (char *part = copy != NULL ? strtok_r(copy, ",", &save) : NULL;
         part != NULL; part = strtok_r(NULL, ",", &save)) {
        char *whole = strdup(part);
        if (entry_count == MAX_ENTRIES)
            rg__log(RG__WARN, "failpoint",
                    "REGROUP_FAILPOINT: %s is entry %d and is skipped; %d is "
                    "the most",
                    part, MAX_ENTRIES + 1, MAX_ENTRIES);
        else if (read_entry(part, &entries[entry_count]))
            entry_count++;
        else
            rg__log(RG__WARN, "failpoint",
                    "REGROUP_FAILPOINT: %s is not NAME[:rankN|:stepN|:genN|"
                    ":startN...]:ACTION and is skipped",
                    whole != NULL ? whole : part);
        free(whole);
    }
}

/* ---------------------------------------------------------------- striking */

static bool is_met(const entry *e, const char *name, int rank, uint64_t step,
                   uint64_t generation)
{
    if (strcmp(e->name, name) != 0)
        return false;
    if (e->rank != ANY && (rank < 0 || e->rank != (uint64_t)rank))
        return false;
    if (e->start != ANY && e->start != atomic_load(&my_start))
        return false;
    return (e->step == ANY || e->step == step) &&
           (e->generation == ANY || e->generation == generation);
}

bool rg__failpoint_has_struck(void)
{
    for (int i = 0; i < entry_count; i++)
        if (atomic_load(&entries[i].is_spent))
            return true;
    return false;
}

void rg__failpoint_start(uint32_t start)
{
    atomic_store(&my_start, start);
}

void rg__failpoint_pass(const char *name, int rank, uint64_t step,
                        uint64_t generation)
{
    pthread_once(&once, read_environment);
    for (int i = 0; i < entry_count; i++) {
        entry *e = &entries[i];
        if (!is_met(e, name, rank, step, generation) ||
            atomic_exchange(&e->is_spent, true))
            continue;
        rg__log(RG__WARN, "failpoint",
                "%s strikes rank %d in step %" PRIu64 " of generation %" PRIu64
                ": %s",
                name, rank, step, generation, e->action->word);
        e->action->strike(e->number);
    }
}
