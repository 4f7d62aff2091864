/* The hosts of an allocation, from the variables of Slurm, PBS and LSF. The
 * first that is set counts. Slurm's lists are read here, as nodes may lack
 * `scontrol`. */
#include "elastic/launch/allocation.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/page.h"

#define HOSTS_MAX 16384

/* NULL: not set, or empty. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* ---------------------------------------------------------------- slurm */

/* "2(x3),1": tasks of the next host, then of the one after it. */
typedef struct tasks {
    const char *text; /* what is left; NULL: there is none */
    long each, left;
    int slots; /* where there is none */
} tasks;

static bool read_number(const char **text, long *number_p)
{
    char *end = NULL;
    if (!isdigit((unsigned char)**text))
        return false;
    *number_p = strtol(*text, &end, 10);
    *text = end;
    return *number_p >= 0 && *number_p <= INT32_MAX;
}

static bool next_entry(tasks *t)
{
    t->left = 1;
    if (!read_number(&t->text, &t->each))
        return false;
    if (strncmp(t->text, "(x", 2) == 0) {
        t->text += 2;
        if (!read_number(&t->text, &t->left) || *t->text++ != ')')
            return false;
    }
    return *t->text == '\0' || *t->text++ == ',';
}

static rg_status next_slots(tasks *t, int *slots_p)
{
    *slots_p = t->slots;
    if (t->text == NULL)
        return RG_OK;
    while (t->left == 0)
        if (*t->text == '\0' || !next_entry(t))
            return rg__fail(RG_ERR_INVALID,
                            "SLURM_TASKS_PER_NODE=\"%.80s\" does not say how "
                            "many tasks each host has",
                            getenv("SLURM_TASKS_PER_NODE"));
    t->left--;
    *slots_p = (int)t->each;
    if (t->each < 1 || t->each > RG__HOST_SLOTS_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "SLURM_TASKS_PER_NODE gives a host %ld tasks; a host "
                        "can have 1 to %d",
                        t->each, RG__HOST_SLOTS_MAX);
    return RG_OK;
}

typedef struct expansion {
    rg__host_list *list;
    tasks tasks;
} expansion;

static rg_status fail_list(const char *from)
{
    return rg__fail(RG_ERR_INVALID,
                    "\"%.60s\" is not understood in SLURM_JOB_NODELIST", from);
}

static rg_status add_name(expansion *x, const char *name)
{
    int slots = 0;
    const rg_status st = next_slots(&x->tasks, &slots);
    if (st != RG_OK)
        return st;
    if (x->list->n >= HOSTS_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "SLURM_JOB_NODELIST lists more than %d hosts",
                        HOSTS_MAX);
    return rg__hosts_add(x->list, name, slots);
}

static rg_status expand(expansion *x, const char *name, size_t used,
                        const char *from, const char *end);

/* Each number of "01-04,7", with as many digits as the first one; the rest of
 * the word follows it. */
static rg_status expand_numbers(expansion *x, const char *name, size_t used,
                                const char *from, const char *close,
                                const char *end)
{
    char longer[RG__LISTED_TARGET];
    rg_status st = RG_OK;
    for (bool is_more = true; st == RG_OK && is_more;) {
        long first = 0, last = 0;
        const char *digits = from;
        if (!read_number(&from, &first))
            return fail_list(digits);
        const int width = (int)(from - digits);
        last = first;
        if (*from == '-' && (++from, !read_number(&from, &last)))
            return fail_list(digits);
        if (last < first || last - first >= HOSTS_MAX)
            return fail_list(digits);
        for (long i = first; st == RG_OK && i <= last; i++) {
            const int n = snprintf(longer, sizeof longer, "%.*s%0*ld",
                                   (int)used, name, width, i);
            st = n < (int)sizeof longer
                     ? expand(x, longer, (size_t)n, close + 1, end)
                     : fail_list(digits);
        }
        is_more = from < close && *from++ == ',';
        if (st == RG_OK && !is_more && from != close)
            return fail_list(digits);
    }
    return st;
}

/* name: the word as expanded so far; [from, end): the rest of it. */
static rg_status expand(expansion *x, const char *name, size_t used,
                        const char *from, const char *end)
{
    char longer[RG__LISTED_TARGET];
    const char *open = memchr(from, '[', (size_t)(end - from));
    const size_t plain = (size_t)((open != NULL ? open : end) - from);
    if (used + plain >= sizeof longer || memchr(from, ']', plain) != NULL)
        return fail_list(from);
    memcpy(longer, name, used);
    memcpy(longer + used, from, plain);
    used += plain;
    longer[used] = '\0';
    if (open == NULL)
        return add_name(x, longer);
    const char *close = memchr(open, ']', (size_t)(end - open));
    if (close == NULL)
        return fail_list(open);
    return expand_numbers(x, longer, used, open + 1, close, end);
}

/* A comma inside brackets does not end a word. */
static const char *end_of_word(const char *from)
{
    for (bool is_inside = false; *from != '\0'; from++) {
        if (*from == ',' && !is_inside)
            break;
        is_inside = *from == '[' || (is_inside && *from != ']');
    }
    return from;
}

static rg_status add_slurm(rg__host_list *list, const char *nodes, int slots)
{
    expansion x = {list, {variable("SLURM_TASKS_PER_NODE"), 0, 0, slots}};
    rg_status st = RG_OK;
    for (bool is_more = true; st == RG_OK && is_more;) {
        const char *end = end_of_word(nodes);
        st = expand(&x, "", 0, nodes, end);
        is_more = *end == ',';
        nodes = end + 1;
    }
    return st;
}

/* ---------------------------------------------------------------- PBS, LSF */

static rg_status add_lsf(rg__host_list *list, const char *words)
{
    char *copy = strdup(words), *rest = NULL;
    rg_status st = RG_OK;
    if (copy == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a list of hosts");
    for (char *word = strtok_r(copy, " \t\n", &rest);
         st == RG_OK && word != NULL; word = strtok_r(NULL, " \t\n", &rest))
        st = rg__hosts_add(list, word, 1);
    free(copy);
    return st;
}

/* ------------------------------------------------------------------- which */

/* A step runs once for each task, except the step in which Slurm may run the
 * shell of salloc (use_interactive_step). */
static bool is_in_step(void)
{
    const char *step = variable("SLURM_STEP_ID");
    return step != NULL && strcmp(step, "4294967290") != 0;
}

static bool is_slurm(void)
{
    return variable("SLURM_JOB_NODELIST") != NULL && !is_in_step();
}

/* As with `srun --mpi=pmix`, which starts other MPI programs. */
static void say_tasks(void)
{
    const char *n = variable("SLURM_STEP_NUM_TASKS");
    const char *task = variable("SLURM_PROCID");
    if (n == NULL || strcmp(n, "1") == 0 || task == NULL ||
        strcmp(task, "0") != 0)
        return;
    rg__say("srun has started `regroup run` %.16s times, and each starts a "
            "whole job on its own node; call it once without srun, in the "
            "script of sbatch or by salloc: it starts an agent on each node",
            n);
}

rg_status rg__allocation_read(rg__host_list *list, int slots)
{
    const char *pbs = variable("PBS_NODEFILE"), *lsf = variable("LSB_HOSTS");
    const char *large = variable("LSB_DJOB_HOSTFILE");
    const char *name = is_slurm()    ? "SLURM_JOB_NODELIST"
                       : pbs != NULL ? "PBS_NODEFILE"
                       : lsf != NULL ? "LSB_HOSTS"
                                     : "LSB_DJOB_HOSTFILE";
    rg_status st = RG_OK;
    if (is_slurm())
        st = add_slurm(list, variable(name), slots);
    else if (variable("SLURM_JOB_NODELIST") != NULL)
        say_tasks();
    else if (pbs != NULL)
        st = rg__hosts_add_file(list, pbs, 1);
    else if (lsf != NULL)
        st = add_lsf(list, lsf);
    else if (large != NULL)
        st = rg__hosts_add_file(list, large, 1);
    if (st != RG_ERR_INVALID)
        return st;
    return rg__fail(st,
                    "the hosts of this allocation (%s): %s; list them with -H",
                    name, rg_last_error());
}

/* --rsh is given a host and a command line, and runs in a shell. */
const char *rg__allocation_shell(void)
{
    static const char shell[] =
        "sh -c 'exec srun --overlap --nodes=1 --ntasks=1 --input=0 "
        "--nodelist=\"$0\" sh -c \"$1\"'";
    return is_slurm() ? shell : NULL;
}
