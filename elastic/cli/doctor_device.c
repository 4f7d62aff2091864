/* `regroup doctor`: the lines of the CUDA driver and of NCCL. */
#include "elastic/cli/doctor_device.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/config.h"
#include "sdk/transport/nccl/load.h"

#define LIMIT_MS 10000

typedef rg__finding (*look)(const rg__library_settings *s);

/* --------------------------------------------------------------- in a child */

static rg__finding read_finding(int fd, pid_t child)
{
    rg__finding f;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, LIMIT_MS) > 0 && read(fd, &f, sizeof f) == sizeof f)
        return f;
    const bool is_over = kill(child, SIGKILL) == 0 && p.revents != 0;
    return is_over ? rg__find(RG__FAIL, "the check crashed; the library or the "
                                        "driver is broken: install it again")
                   : rg__find(RG__FAIL,
                              "no answer within %d s; the driver hangs: look "
                              "at dmesg, and restart the machine",
                              LIMIT_MS / 1000);
}

static rg__finding look_in_child(look fn)
{
    const rg__library_settings *s = NULL;
    int ends[2];
    if (rg__library_settings_get(&s) != RG_OK)
        return rg__find(RG__FAIL, "%s", rg_last_error());
    if (pipe2(ends, O_CLOEXEC) != 0)
        return rg__find(RG__FAIL, "no pipe for the check");
    const pid_t pid = fork();
    if (pid == 0) {
        const rg__finding f = fn(s);
        _exit(write(ends[1], &f, sizeof f) == sizeof f ? 0 : 1);
    }
    close(ends[1]);
    const rg__finding f = pid > 0
                              ? read_finding(ends[0], pid)
                              : rg__find(RG__FAIL, "no process for the check");
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return f;
}

/* A missing library is no fault, unless a setting names it. */
static rg__finding cannot_open(rg_status st, const char *name)
{
    const bool is_absent = st == RG_ERR_NOT_FOUND && name == NULL;
    return rg__find(is_absent ? RG__WEAK : RG__FAIL, "%s", rg_last_error());
}

/* --------------------------------------------------------------------- CUDA */

static rg__finding of_first_device(const rg__cuda_library *cuda, int n)
{
    char name[64] = "a device";
    int device = 0, mode = RG__CU_COMPUTEMODE_DEFAULT;
    const int major = cuda->version / 1000, minor = cuda->version % 1000 / 10;
    if (cuda->call.device_get(&device, 0) == RG__CU_SUCCESS) {
        cuda->call.device_name(name, sizeof name, device);
        cuda->call.device_attribute(&mode, RG__CU_DEVICE_ATTRIBUTE_COMPUTE_MODE,
                                    device);
    }
    if (mode == RG__CU_COMPUTEMODE_PROHIBITED)
        return rg__find(RG__FAIL,
                        "%s may not be used (compute mode PROHIBITED); "
                        "nvidia-smi -c DEFAULT changes that",
                        name);
    if (mode == RG__CU_COMPUTEMODE_EXCLUSIVE_PROCESS)
        return rg__find(RG__WEAK,
                        "driver for CUDA %d.%d, %d x %s in compute mode "
                        "EXCLUSIVE_PROCESS: a slot starts again only when the "
                        "dead worker's context is gone",
                        major, minor, n, name);
    return rg__find(RG__OK, "driver for CUDA %d.%d, %d x %s", major, minor, n,
                    name);
}

static rg__finding look_at_cuda(const rg__library_settings *s)
{
    rg__cuda_library cuda;
    int n = 0;
    const rg_status st = rg__cuda_open(s->cuda_lib, &cuda);
    if (st != RG_OK)
        return cannot_open(st, s->cuda_lib);
    if (cuda.call.device_count(&n) != RG__CU_SUCCESS || n == 0)
        return rg__find(RG__WEAK,
                        "the driver is here but finds no device; look "
                        "at nvidia-smi, and at CUDA_VISIBLE_DEVICES");
    return of_first_device(&cuda, n);
}

rg__finding rg__doctor_cuda(const rg__settings *s)
{
    (void)s;
    return look_in_child(look_at_cuda);
}

/* --------------------------------------------------------------------- NCCL */

/* Variables with which jobs work, but at a price. */
static const struct trap {
    const char *name, *value; /* NULL: any */
    const char *why;
} traps[] = {
    {"NCCL_HOSTID", NULL,
     "is set, so workers of one host may not know that they share it"},
    {"NCCL_COMM_BLOCKING", NULL,
     "is set, and changes nothing: Regroup chooses for each communicator"},
    {"CUDA_LAUNCH_BLOCKING", "1",
     "is 1: a launch waits for all ranks, and ranks that start operations of "
     "two sets in other orders wait forever; set it only to debug"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", "1",
     "is 1: operations of two sets may wait for each other; unset it where a "
     "program has more than one set"}};

static const struct trap *find_trap(void)
{
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        const char *value = getenv(traps[i].name);
        if (value != NULL &&
            (traps[i].value == NULL || strcmp(value, traps[i].value) == 0))
            return &traps[i];
    }
    return NULL;
}

static bool fits(const char *one, size_t n, bool is_exact, const char *name)
{
    return strncmp(one, name, n) == 0 && (!is_exact || name[n] == '\0');
}

/* "eth,ib", "=eth0", "^docker": beginnings or whole names; ^ excludes. */
static bool is_chosen(const char *list, const char *name)
{
    const bool excludes = *list == '^';
    list += excludes;
    const bool is_exact = *list == '=';
    list += is_exact;
    bool is_in_list = false;
    for (size_t n; *list != '\0'; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        is_in_list = is_in_list || fits(list, n, is_exact, name);
    }
    return is_in_list != excludes;
}

/* NCCL looks for an interface late, and says little if there is none. */
static bool has_interface(const char *list)
{
    struct ifaddrs *all = NULL;
    bool has = getifaddrs(&all) != 0;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next)
        has = has || ((i->ifa_flags & IFF_UP) != 0 && i->ifa_addr != NULL &&
                      is_chosen(list, i->ifa_name));
    freeifaddrs(all);
    return has;
}

static rg__finding of_version(const rg__nccl_library *nccl)
{
    const struct trap *trap = find_trap();
    const char *interfaces = getenv("NCCL_SOCKET_IFNAME");
    char text[16];
    rg__nccl_version_text(nccl->version, text);
    if (nccl->version < RG__NCCL_QUICK)
        return rg__find(RG__WEAK,
                        "%s, %s: before 2.26.2 an abort takes up to 0.2 s for "
                        "each operation under way; install a later one",
                        text, nccl->path);
    if (interfaces != NULL && *interfaces != '\0' && !has_interface(interfaces))
        return rg__find(RG__FAIL,
                        "NCCL_SOCKET_IFNAME is %s, and no interface that is up "
                        "here fits it, so ranks can't meet; ip -br link lists "
                        "them",
                        interfaces);
    if (trap != NULL)
        return rg__find(RG__WEAK, "%s, %s; %s %s", text, nccl->path, trap->name,
                        trap->why);
    return rg__find(RG__OK, "%s, %s%s%s", text, nccl->path,
                    nccl->call.comm_shrink != NULL ? "; shrink" : "",
                    nccl->call.comm_revoke != NULL ? "; revoke" : "");
}

/* A machine with AMD GPUs has RCCL in its place. */
static rg__finding without_nccl(void)
{
    rg__nccl_library rccl;
    const rg__finding none = rg__find(RG__WEAK, "%s", rg_last_error());
    return rg__nccl_open("librccl.so.1", &rccl) == RG_ERR_UNSUPPORTED
               ? rg__find(RG__WEAK, "%s", rg_last_error())
               : none;
}

static rg__finding look_at_nccl(const rg__library_settings *s)
{
    rg__nccl_library nccl;
    rg_status st = rg__nccl_check_environment();
    if (st != RG_OK)
        return rg__find(RG__FAIL, "%s", rg_last_error());
    st = rg__nccl_open(s->nccl_lib, &nccl);
    if (st == RG_OK)
        return of_version(&nccl);
    return st == RG_ERR_NOT_FOUND && s->nccl_lib == NULL
               ? without_nccl()
               : cannot_open(st, s->nccl_lib);
}

rg__finding rg__doctor_nccl(const rg__settings *s)
{
    (void)s;
    return look_in_child(look_at_nccl);
}
