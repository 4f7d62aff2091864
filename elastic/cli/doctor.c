/* `regroup doctor`: what this machine offers, one line for each: ok, warn (a
 * job runs, but something is weaker) or fail, with the remedy. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elastic/cli/capture.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/doctor_device.h"
#include "elastic/cli/doctor_etcd.h"
#include "elastic/cli/doctor_notice.h"
#include "elastic/cli/doctor_peer.h"
#include "elastic/cli/etcd_child.h"
#include "elastic/cli/finding.h"
#include "elastic/cli/rundir.h"
#include "sdk/base/fail.h"

#define FILES_LEAST   256  /* a worker's connections with other hosts */
#define FILES_EASY    1024 /* and what the program opens itself */
#define MEMLOCK_EASY  (UINT64_C(8) << 20)
#define VERSION_BYTES 64

/* -------------------------------------------------------------------- etcd */

/* "etcd Version: 3.4.23", the first line of `etcd --version`. */
static bool read_version(const char *program, char version[VERSION_BYTES])
{
    char *const argv[] = {(char *)(uintptr_t)program, "--version", NULL};
    char text[256];
    return rg__capture(argv, text, sizeof text) &&
           sscanf(text, "etcd Version: %63s", version) == 1;
}

/* Only where one is given. */
static bool look_at_given_etcd(const rg__settings *s)
{
    if (s->etcd == NULL)
        return false;
    const rg__finding f = rg__doctor_etcd(s);
    return rg__finding_print("etcd of --etcd", &f);
}

static rg__finding check_etcd(const rg__settings *s)
{
    char path[PATH_MAX], version[VERSION_BYTES];
    int major = 0, minor = 0;
    if (rg__find_etcd(s->etcd_bin, path) != RG_OK)
        return rg__find(RG__FAIL, "%s", rg_last_error());
    if (!read_version(path, version) ||
        sscanf(version, "%d.%d", &major, &minor) != 2)
        return rg__find(RG__FAIL,
                        "%s doesn't tell its version; is it etcd? (--etcd-bin)",
                        path);
    if (major < 3 || (major == 3 && minor < 4))
        return rg__find(RG__FAIL,
                        "%s is version %s, and Regroup speaks to 3.4 and "
                        "later; install a later one",
                        path, version);
    return rg__find(RG__OK, "%s is version %s", path, version);
}

/* ------------------------------------------------------------------ limits */

static rg__finding check_files(const rg__settings *s)
{
    struct rlimit limit;
    (void)s;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return rg__find(RG__WEAK, "the limit can't be read: %s",
                        strerror(errno));
    const unsigned long long n = limit.rlim_cur, most = limit.rlim_max;
    if (n < FILES_LEAST)
        return rg__find(
            RG__FAIL,
            "a process may open %llu files; raise it to %d with ulimit -n", n,
            FILES_EASY);
    if (n < FILES_EASY)
        return rg__find(RG__WEAK,
                        "a process may open %llu files; more than about 16 "
                        "workers may need %d (ulimit -n)",
                        n, FILES_EASY);
    return rg__find(RG__OK,
                    "a process may open %llu files, and a worker keeps that "
                    "limit; the agent takes up to %llu; registered buffers "
                    "need none",
                    n, most);
}

static rg__finding check_memlock(const rg__settings *s)
{
    struct rlimit limit;
    (void)s;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return rg__find(RG__WEAK, "the limit can't be read: %s",
                        strerror(errno));
    if (limit.rlim_cur == RLIM_INFINITY)
        return rg__find(RG__OK, "a process may lock all memory");
    const unsigned long long kib = limit.rlim_cur >> 10;
    if (limit.rlim_cur < MEMLOCK_EASY)
        return rg__find(RG__WEAK,
                        "a process may lock %llu KiB of memory; devices and "
                        "RDMA in a program want more (ulimit -l)",
                        kib);
    return rg__find(RG__OK, "a process may lock %llu KiB of memory", kib);
}

/* ------------------------------------------------------------------ kernel */

static bool read_line(const char *path, char *line, int bytes)
{
    FILE *file = fopen(path, "re");
    const bool ok = file != NULL && fgets(line, bytes, file) != NULL;
    if (ok)
        line[strcspn(line, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
    return ok;
}

/* "always within_size [advise] never": the word in brackets. */
static rg__finding check_huge_pages(const rg__settings *s)
{
    static const char *const path =
        "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    char line[256];
    (void)s;
    if (!read_line(path, line, sizeof line))
        return rg__find(RG__WEAK, "this kernel has none for shared memory: "
                                  "collectives work, but slower above 1 MiB");
    char *chosen = strchr(line, '[');
    if (chosen == NULL)
        return rg__find(RG__WEAK, "%s says \"%s\"", path, line);
    chosen[strcspn(chosen, "]")] = '\0';
    chosen++;
    if (strcmp(chosen, "never") == 0 || strcmp(chosen, "deny") == 0)
        return rg__find(RG__WEAK,
                        "off for shared memory, where they make collectives "
                        "above 1 MiB faster: echo advise > %s",
                        path);
    return rg__find(RG__OK, "\"%s\" for shared memory", chosen);
}

static rg__finding check_core_pattern(const rg__settings *s)
{
    char line[256];
    (void)s;
    if (!read_line("/proc/sys/kernel/core_pattern", line, sizeof line))
        return rg__find(RG__WEAK,
                        "/proc/sys/kernel/core_pattern can't be read");
    if (line[0] == '|')
        return rg__find(RG__WEAK,
                        "crashes are piped to %.200s: a crashed worker's slot "
                        "stays taken until that has read all of its memory; "
                        "sysctl kernel.core_pattern=core avoids it",
                        line + 1);
    return rg__find(RG__OK, "core dumps go to files called \"%s\"", line);
}

static rg__finding check_futex_waitv(const rg__settings *s)
{
    struct utsname kernel;
    (void)s;
    uname(&kernel);
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == ENOSYS)
        return rg__find(RG__WEAK,
                        "not in kernel %s: the agent watches each worker from "
                        "a thread; Linux 5.16 has it",
                        kernel.release);
    return rg__find(RG__OK, "in kernel %s", kernel.release);
}

static rg__finding check_memfd(const rg__settings *s)
{
    (void)s;
    const int fd = memfd_create("doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return rg__find(
            RG__FAIL,
            "sealed memory can't be made: %s; pages and vaults need it",
            strerror(errno));
    close(fd);
    return rg__find(RG__OK, "sealed memory can be made; /dev/shm may be small, "
                            "since nothing lies there");
}

/* In a child, since there is no way back out of a namespace. */
static int try_namespace(void)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWNET) != 0 &&
              unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static rg__finding check_namespaces(const rg__settings *s)
{
    (void)s;
    if (try_namespace() != 0)
        return rg__find(RG__WEAK,
                        "can't be made, so tests with several hosts on this "
                        "machine are skipped; run them as root");
    return rg__find(RG__OK, "can be made: several hosts can be played here");
}

static rg__finding check_run_dir(const rg__settings *s)
{
    char base[PATH_MAX];
    if (rg__rundir_base(s->run_dir, base) != RG_OK)
        return rg__find(RG__FAIL, "%s", rg_last_error());
    return rg__find(RG__OK, "%.400s", base);
}

/* ----------------------------------------------------------------- command */

typedef struct check {
    const char *name;
    rg__finding (*look)(const rg__settings *s);
} check;

static const check checks[] = {
    {"etcd", check_etcd},
    {"run directory", check_run_dir},
    {"open files", check_files},
    {"locked memory", check_memlock},
    {"memfd", check_memfd},
    {"huge pages", check_huge_pages},
    {"core pattern", check_core_pattern},
    {"futex_waitv", check_futex_waitv},
    {"network namespaces", check_namespaces},
    {"cuda", rg__doctor_cuda},
    {"nccl", rg__doctor_nccl},
};

int rg__cmd_doctor(rg__cli *cli)
{
    int code = 0;
    if (cli->argc > 0)
        return rg__cli_fail(rg__fail(RG_ERR_INVALID,
                                     "`regroup doctor` takes flags only, not "
                                     "%s; a host is named with --peer",
                                     cli->argv[0]));
    if (cli->settings.peer != NULL)
        return rg__doctor_peer(cli);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        fflush(stdout);
        const rg__finding f = checks[i].look(&cli->settings);
        if (rg__finding_print(checks[i].name, &f))
            code = 1;
    }
    if (look_at_given_etcd(&cli->settings))
        code = 1;
    if (rg__doctor_notice(&cli->settings))
        code = 1;
    return code;
}
