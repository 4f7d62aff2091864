/* The command line of mpirun, and its environment. */
#include "elastic/agent/mpirun/mpirun_parts.h"
#include "elastic/agent/mpirun/flavour.h"
#include "elastic/agent/workers/workers.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/child.h"
#include "sdk/base/fail.h"

typedef struct words {
    char **of;
    int n;
    bool has_failed;
} words;

static void add(words *w, const char *word)
{
    char **more = realloc(w->of, sizeof *more * (size_t)(w->n + 2));
    char *copy = strdup(word);
    if (more != NULL)
        w->of = more;
    if (more == NULL || copy == NULL) {
        free(copy);
        w->has_failed = true;
        return;
    }
    w->of[w->n++] = copy;
    w->of[w->n] = NULL;
}

static void split(words *w, const char *text)
{
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        char word[PATH_MAX];
        const size_t n = strcspn(text, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, text);
        add(w, word);
        text += n;
    }
}

/* An address, so that no name is resolved; a job on one host has none. */
const char *rg__seat_host(const rg__seat *seat)
{
    return seat->address.text[0] != '\0' ? seat->address.text : "localhost";
}

/* A run of ranks on one host. */
typedef struct host_run {
    int n;
    char name[RG__ADDRESS_MAX + 16]; /* "10.0.0.1:2" */
} host_run;

static host_run run_from(const rg__mpirun *all, int first)
{
    const rg__seat *seat = &all->seat[first];
    host_run run = {.n = 1};
    while (first + run.n < all->size && seat[run.n].host == seat->host)
        run.n++;
    snprintf(run.name, sizeof run.name, "%s:%d", rg__seat_host(seat), run.n);
    return run;
}

static void add_program(words *w, const rg__agent *a, const char *ours)
{
    add(w, ours);
    add(w, RG__CMD_RANK);
    for (char *const *word = a->params->argv; *word != NULL; word++)
        add(w, *word);
}

static void add_number(words *w, int n)
{
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    add(w, "-n");
    add(w, number);
}

/* For an MPI whose programs may each have a host, but which otherwise gives
 * ranks to hosts in an order of its own: its own host first, say. */
static void add_each_run(words *w, const rg__agent *a, const char *ours)
{
    const rg__mpirun *all = &a->view.mpirun;
    host_run run;
    for (int r = 0; r < all->size; r += run.n) {
        run = run_from(all, r);
        if (r > 0)
            add(w, ":");
        add_number(w, run.n);
        add(w, "--host");
        add(w, run.name);
        add_program(w, a, ours);
    }
}

/* It keeps to the order of its list, in which a host may stand twice. */
static void add_host_list(words *w, const rg__agent *a, const char *ours,
                          const char *flag)
{
    const rg__mpirun *all = &a->view.mpirun;
    char *list = calloc((size_t)all->size, sizeof((host_run *)0)->name);
    host_run run;
    size_t used = 0;
    if (list == NULL) {
        w->has_failed = true;
        return;
    }
    for (int r = 0; r < all->size; r += run.n) {
        run = run_from(all, r);
        used +=
            (size_t)sprintf(list + used, "%s%s", r > 0 ? "," : "", run.name);
    }
    add(w, flag);
    add(w, list);
    add_number(w, all->size);
    add_program(w, a, ours);
    free(list);
}

/* Such as those that make it start daemons through us, in place of ssh. */
static void add_flags(words *w, const char *const *flags, const char *ours)
{
    char word[PATH_MAX + 16];
    for (const char *const *flag = flags; *flag != NULL; flag++) {
        const bool is_ours = **flag == '@';
        snprintf(word, sizeof word, "%s%s", is_ours ? ours : "",
                 *flag + is_ours);
        add(w, word);
    }
}

rg_status rg__command_find_ours(struct rg__launches *l)
{
    static const char ours[] = "/libexec/" RG__RANK_PROGRAM;
    const ssize_t n = readlink("/proc/self/exe", l->ours, PATH_MAX);
    l->ours[n > 0 ? n : 0] = '\0';
    for (int i = 0; i < 2; i++) { /* from .../bin/regroup */
        char *end = strrchr(l->ours, '/');
        if (end != NULL)
            *end = '\0';
    }
    strcat(l->ours, ours);
    if (strchr(l->ours, ' ') != NULL)
        return rg__fail(RG_ERR_SYSTEM,
                        "mpirun has to start %s, and would cut that at the "
                        "blank; install Regroup where no directory has one",
                        l->ours);
    if (access(l->ours, X_OK) == 0)
        return RG_OK;
    return rg__fail(RG_ERR_SYSTEM,
                    "mpirun has to start %s, and that can't be run (%s); "
                    "install Regroup with all its files",
                    l->ours, strerror(errno));
}

char **rg__command_make(const rg__agent *a)
{
    const rg__flavour *mpi = a->params->flavour;
    words w = {NULL, 0, false};
    const char *ours = a->launches->ours;
    split(&w, a->params->mpirun);
    add_flags(&w, mpi->flags, ours);
    if (a->params->is_ulfm)
        add_flags(&w, mpi->ulfm, ours);
    if (mpi->hosts != NULL)
        add_host_list(&w, a, ours, mpi->hosts);
    else
        add_each_run(&w, a, ours);
    if (!w.has_failed)
        return w.of;
    rg__command_free(w.of);
    return NULL;
}

void rg__command_free(char **argv)
{
    for (int i = 0; argv != NULL && argv[i] != NULL; i++)
        free(argv[i]);
    free(argv);
}

void rg__command_set_all(const char *const *variables, bool replaces)
{
    for (const char *const *v = variables; *v != NULL; v++) {
        char name[128];
        const size_t n = strcspn(*v, "=");
        snprintf(name, sizeof name, "%.*s", (int)n, *v);
        setenv(name, *v + n + 1, replaces);
    }
}

void rg__command_set_variables(const rg__agent *a)
{
    char number[24];
    /* What an outer launcher told its own tasks would be taken for ours. */
    rg__child_unset(rg__flavours_have_set);
    rg__command_set_all(a->params->flavour->variables, true);
    snprintf(number, sizeof number, "%llu",
             (unsigned long long)a->launches->number);
    setenv(RG__ENV_LAUNCH, number, 1);
    setenv(RG__ENV_SOCKET, rg__workers_socket(a), 1);
    setenv("REGROUP_JOB", a->params->job, 1);
    setenv(RG__ENV_MPI, a->params->is_ulfm ? RG__ULFM : "yes", 1);
    rg__scratch_set_variables(a);
}
