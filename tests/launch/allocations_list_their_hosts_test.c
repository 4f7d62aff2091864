/* The hosts of an allocation, as Slurm, PBS and LSF list them; what is wrong
 * with a list is said, and names its variable. A step of Slurm has none: it
 * runs once for each task, but for the shell of salloc. No long list is cut.
 *
 * Covers: allocation.c host_list.c */
#include "elastic/launch/allocation.h"
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct entry {
    const char *nodes, *tasks;
    const char *hosts; /* "!...": refused, with these words */
} entry;

static const entry slurm[] = {
    {"n1", "4", "n1:4"},
    {"n[1-3]", "2(x3)", "n1:2 n2:2 n3:2"},
    {"n[1-2,7],login", "1,2(x2),8", "n1:1 n2:2 n7:2 login:8"},
    {"gpu[08-11]", "1(x4)", "gpu08:1 gpu09:1 gpu10:1 gpu11:1"},
    {"n[0-1]-ib[01-02]", "3(x4)", "n0-ib01:3 n0-ib02:3 n1-ib01:3 n1-ib02:3"},
    {"a[1]b", NULL, "a1b:5"}, /* the number for hosts without one */
    {"a[1]b", "", "a1b:5"},
    {"n[1-3", "1(x3)", "!\"[1-3\" is not understood in SLURM_JOB_NODELIST"},
    {"n[3-1]", "1(x3)", "!\"3-1]\" is not understood"},
    {"n[]", "1", "!\"]\" is not understood"},
    {"n[1-]", "1", "!\"1-]\" is not understood"},
    {"n[1;2]", "1", "!\"1;2]\" is not understood"},
    {"n[1-99999]", "1", "!\"1-99999]\" is not understood"},
    {"n[1-20000000000000000000]", "1", "!is not understood"},
    {"n[0000000000000000000000000001-2]", "1(x2)",
     "n0000000000000000000000000001:1 n0000000000000000000000000002:1"},
    {"n1,,n2", "1(x3)", "!\"\" is not the name of a host"},
    {"n1]", "1", "!\"n1]\" is not understood"},
    {"-oProxyCommand=x", "1", "!is not the name of a host"},
    {"n[1-3]", "1(x2)", "!does not say how many tasks each host has"},
    {"n[1-2]", "1(y2)", "!does not say how many tasks each host has"},
    {"n[1-2]", "x", "!does not say how many tasks each host has"},
    {"n[1-2]", "0(x2)", "!gives a host 0 tasks; a host can have 1 to 64"},
    {"n[1-2]", "65(x2)", "!gives a host 65 tasks; a host can have 1 to 64"},
};

static void set(const char *name, const char *value)
{
    if (value != NULL)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void check_list(const char *want)
{
    char text[512] = "";
    rg__host_list list = {0};
    const rg_status st = rg__allocation_read(&list, 5);
    for (int i = 0; st == RG_OK && i < list.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s:%d",
                 i > 0 ? " " : "", list.host[i].name, list.host[i].slots);
    if (want[0] != '!')
        CHECK_OK(st);
    else if (st != RG_ERR_INVALID || strstr(rg_last_error(), want + 1) == NULL)
        CHECK_FAIL("not \"%s\", but \"%s\"", want + 1, rg_last_error());
    if (want[0] != '!' && strcmp(text, want) != 0)
        CHECK_FAIL("not \"%s\", but \"%s\"", want, text);
    rg__hosts_free(&list);
}

static void slurm_has_brackets(void)
{
    for (size_t i = 0; i < sizeof slurm / sizeof *slurm; i++) {
        set("SLURM_JOB_NODELIST", slurm[i].nodes);
        set("SLURM_TASKS_PER_NODE", slurm[i].tasks);
        check_list(slurm[i].hosts);
        CHECK(strstr(rg__allocation_shell(), "srun --overlap") != NULL);
    }
    set("SLURM_STEP_ID", "0");
    check_list("");
    CHECK(rg__allocation_shell() == NULL);
    set("SLURM_STEP_ID", "4294967290"); /* the shell of salloc */
    set("SLURM_JOB_NODELIST", "n[1-2]");
    set("SLURM_TASKS_PER_NODE", "2(x2)");
    check_list("n1:2 n2:2");
    CHECK(rg__allocation_shell() != NULL);
    set("SLURM_STEP_ID", NULL);
    set("SLURM_JOB_NODELIST", NULL);
}

static void pbs_has_a_file(void)
{
    char path[] = "/tmp/rg-nodefile-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(dprintf(fd, "n1\nn1\nn2\n") > 0);
    set("PBS_NODEFILE", path);
    check_list("n1:2 n2:1");
    CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    for (int i = 0; i < 1 << 14; i++)
        CHECK(dprintf(fd, "#%0100d\n", i) > 0);
    CHECK(dprintf(fd, "n3\n") > 0);
    check_list("n3:1");
    set("PBS_NODEFILE", NULL);
    set("LSB_DJOB_HOSTFILE", path); /* LSF has no words for a long list */
    check_list("n3:1");
    set("LSB_DJOB_HOSTFILE", NULL);
    set("PBS_NODEFILE", path);
    CHECK(ftruncate(fd, 32 << 20) == 0);
    check_list("!is not a text, or has 16 MiB or more");
    close(fd);
    unlink(path);
    check_list("!the hosts of this allocation (PBS_NODEFILE): the hostfile");
    set("PBS_NODEFILE", NULL);
}

static void lsf_has_words(void)
{
    set("LSB_HOSTS", "n1 n2 n1 ");
    check_list("n1:2 n2:1");
    set("LSB_HOSTS", "n1 -x");
    check_list("!\"-x\" is not the name of a host");
    set("LSB_HOSTS", NULL);
}

int main(void)
{
    set("SLURM_JOB_NODELIST", NULL);
    set("SLURM_STEP_ID", NULL);
    set("PBS_NODEFILE", NULL);
    set("LSB_HOSTS", NULL);
    set("LSB_DJOB_HOSTFILE", NULL);
    check_list("");
    slurm_has_brackets();
    pbs_has_a_file();
    lsf_has_words();
    return 0;
}
