/* Ranks on all hosts are to find the same variables, so all travel but those
 * that say something about this machine, this login, or the task as which
 * another launcher has started this command: they would be wrong elsewhere.
 * Settings of Regroup travel by themselves (remotes.c). */
#include "elastic/cli/exports.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/agent/mpirun/flavour.h"
#include "sdk/base/fail.h"

static const char *const stay[] = {
    /* the login, and what came with it */
    "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "PWD", "OLDPWD", "SHLVL", "_",
    "SSH_*", "SUDO_*", "XDG_*", "DBUS_*", "GPG_*", "KRB5CCNAME", "LS_COLORS",
    "DISPLAY", "XAUTHORITY", "WAYLAND_*", "WINDOWID", "TMUX*", "STY",
    /* the machine */
    "HOST", "HOSTNAME", "HOSTTYPE", "MACHTYPE", "TMPDIR", "TMP", "TEMP",
    "KUBERNETES_*",
    /* the service of systemd */
    "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "LISTEN_*",
    "MANAGERPID", "SYSTEMD_*", "CREDENTIALS_DIRECTORY", "WATCHDOG_*",
    /* the task of a batch system; the job's variables travel */
    "SLURMD_*", "SLURM_STEP*", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID",
    "SLURM_GTIDS", "SLURM_TASK_PID", "SLURM_SRUN_*", "SLURM_LAUNCH_*",
    "SLURM_CPU_BIND*", "SLURM_MEM_BIND*", "SLURM_EXPORT_ENV", "PBS_NODENUM",
    "PBS_TASKNUM", "PBS_VNODENUM", "PALS_*", "FLUX_*",
    /* the job that this is */
    "REGROUP_*", NULL};

/* Does the word of -x, or of the list, mean the name of n bytes? */
static bool is_meant(const char *word, const char *name, size_t n)
{
    const size_t length = strlen(word);
    return length > 0 && word[length - 1] == '*'
               ? n >= length - 1 && strncmp(word, name, length - 1) == 0
               : n == length && strncmp(word, name, n) == 0;
}

static bool stays_here(const char *variable, size_t n)
{
    for (const char *const *word = stay; *word != NULL; word++)
        if (is_meant(*word, variable, n))
            return true;
    return rg__flavours_have_set(variable);
}

static bool is_pattern(const char *word)
{
    return strchr(word, '=') == NULL && word[strlen(word) - 1] == '*';
}

/* A pattern never means a setting of Regroup. */
static bool is_exported(const char *word, const char *variable)
{
    const size_t n = strcspn(variable, "=");
    return n > 0 && variable[n] == '=' && is_meant(word, variable, n) &&
           !(is_pattern(word) && is_meant("REGROUP_*", variable, n));
}

static bool is_any_here(const char *word)
{
    char **v = environ;
    while (*v != NULL && !is_exported(word, *v))
        v++;
    return *v != NULL;
}

static rg_status take(char *word)
{
    char *equals = strchr(word, '=');
    if (equals == NULL)
        return is_any_here(word)
                   ? RG_OK
                   : rg__fail(RG_ERR_INVALID,
                              "-x %s: there is no such variable here; set it, "
                              "or write -x NAME=VALUE",
                              word);
    *equals = '\0';
    const int got = setenv(word, equals + 1, 1);
    *equals = '=';
    return got == 0 ? RG_OK : rg__fail(RG_ERR_MEMORY, "no memory for -x");
}

rg_status rg__exports_take(const rg__cli *cli)
{
    rg_status st = RG_OK;
    for (int i = 0; st == RG_OK && i < cli->exports; i++)
        st = take(cli->exported[i]);
    return st;
}

static void write_all(rg__letter *letter)
{
    for (char **v = environ; *v != NULL; v++) {
        const size_t n = strcspn(*v, "=");
        if (n > 0 && (*v)[n] == '=' && !stays_here(*v, n))
            rg__letter_add(letter, "variable", *v);
    }
}

static void write_meant(rg__letter *letter, const char *word)
{
    for (char **v = environ; *v != NULL; v++)
        if (is_exported(word, *v))
            rg__letter_add(letter, "variable", *v);
}

void rg__exports_write(rg__letter *letter, const rg__cli *cli, bool has_all)
{
    if (has_all)
        write_all(letter);
    for (int i = 0; i < cli->exports; i++)
        if (strchr(cli->exported[i], '=') != NULL)
            rg__letter_add(letter, "variable", cli->exported[i]);
        else
            write_meant(letter, cli->exported[i]);
}
