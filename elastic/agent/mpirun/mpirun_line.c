/* The command line of mpirun, and its environment. */
#include "elastic/agent/mpirun/mpirun_parts.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/workers/workers.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void add_all(words *w, const char *const *list)
{
    for (int i = 0; list[i] != NULL; i++)
        add(w, list[i]);
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

/* By address, so that nothing has to be resolved; on this host alone there is
 * none. */
static const char *name_of(const rg__seat *seat)
{
    return seat->address.text[0] != '\0' ? seat->address.text : "localhost";
}

/* A program of its own for each run of ranks on one host, since an MPI gives
 * ranks to hosts in an order of its own otherwise: its own host first, say. */
static void add_run(words *w, const rg__agent *a, const char *self,
                    const rg__seat *seat, int n)
{
    char number[16], host[RG__ADDRESS_MAX + 16];
    snprintf(number, sizeof number, "%d", n);
    snprintf(host, sizeof host, "%s:%d", name_of(seat), n);
    const char *const list[] = {"-n", number,       "--host", host,
                                self, RG__CMD_RANK, NULL};
    add_all(w, list);
    for (char *const *word = a->params->argv; *word != NULL; word++)
        add(w, *word);
}

static void add_runs(words *w, const rg__agent *a, const char *self)
{
    const rg__mpirun *run = &a->view.mpirun;
    for (int r = 0, n; r < run->size; r += n) {
        n = 1;
        while (r + n < run->size && run->seat[r + n].host == run->seat[r].host)
            n++;
        if (r > 0)
            add(w, ":");
        add_run(w, a, self, &run->seat[r], n);
    }
}

/* Open MPI 4.1: its daemons stay below the process that started them, and none
 * starts another. */
static void add_agent(words *w, const char *self)
{
    char proxy[PATH_MAX + 16];
    snprintf(proxy, sizeof proxy, "%s %s", self, RG__CMD_PROXY);
    const char *const list[] = {"--mca",
                                "plm",
                                "rsh",
                                "--mca",
                                "plm_rsh_agent",
                                proxy,
                                "--mca",
                                "plm_rsh_no_tree_spawn",
                                "1",
                                "--leave-session-attached",
                                NULL};
    add_all(w, list);
}

char **rg__command_make(const rg__agent *a)
{
    words w = {NULL, 0, false};
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    split(&w, a->params->mpirun);
    add_agent(&w, self);
    add_runs(&w, a, self);
    if (!w.has_failed && n > 0)
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

/* What an outer launcher has told its own tasks would be taken for ours. A
 * person's own settings stay: OMPI_MCA_btl and the like. */
static bool is_of_launcher(const char *name)
{
    static const char *const of[] = {
        "OMPI_COMM_", "OMPI_UNIVERSE_", "OMPI_APP_",     "OMPI_FIRST_",
        "OMPI_NUM_",  "OMPI_MCA_orte_", "OMPI_MCA_ess",  "OMPI_FILE_",
        "OMPI_ARGV",  "OMPI_COMMAND",   "OMPI_MCA_pmix", "PMI_",
        "PMIX_",      "MPI_LOCAL",      "HYDI_",         "MPIR_"};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (strncmp(name, of[i], strlen(of[i])) == 0)
            return true;
    return false;
}

void rg__command_set_variables(const rg__agent *a)
{
    extern char **environ;
    char name[128], number[24];
    for (char **v = environ; *v != NULL;) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*v, "="), *v);
        if (is_of_launcher(name) && unsetenv(name) == 0)
            v = environ;
        else
            v++;
    }
    snprintf(number, sizeof number, "%llu",
             (unsigned long long)a->launches->number);
    setenv(RG__ENV_LAUNCH, number, 1);
    setenv(RG__ENV_SOCKET, rg__workers_socket(a), 1);
    setenv("REGROUP_JOB", a->params->job, 1);
    rg__scratch_set_variables(a);
}
