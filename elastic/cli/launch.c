/* Settings become a launch, or one sentence that says why they can't. */
#include "elastic/cli/launch.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "elastic/agent/control/scrape.h"
#include "elastic/cli/find_program.h"
#include "elastic/cli/store.h"
#include "elastic/notice/notice.h"
#include "elastic/state/checkpoint_dir.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/page.h"
#include "sdk/base/wire.h"

#define CHECK_MS 5000 /* for an etcd that was given to answer */

/* What an agent opens: sockets, pipes, pidfds, pages and spools. */
#define AGENT_DESCRIPTORS 40
#define SLOT_DESCRIPTORS  8

/* ------------------------------------------------------------------- sizes */

static int processors(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0
                      ? CPU_COUNT(&set)
                      : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > RG__HOST_SLOTS_MAX ? RG__HOST_SLOTS_MAX : n;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static rg_status check_np(const rg__settings *s)
{
    if (s->np == 0)
        return RG_OK;
    if ((s->min == 0 || s->min == s->np) && (s->max == 0 || s->max == s->np))
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "-n %d means --min %d --max %d, but --m%s %d was given as "
                    "well; leave one of them out",
                    s->np, s->np, s->np,
                    s->min != 0 && s->min != s->np ? "in" : "ax",
                    s->min != 0 && s->min != s->np ? s->min : s->max);
}

/* Sizes that were not given follow from those that were; without any there is
 * a worker for each processor, or slot of other hosts. */
static void fill_sizes(rg__launch *l, const rg__settings *s, int remote_slots)
{
    l->min = s->np != 0 ? s->np : s->min;
    l->max = s->np != 0 ? s->np : s->max;
    const bool has_none = l->min == 0 && l->max == 0;
    if (l->max == 0)
        l->max = remote_slots > 0 ? larger(remote_slots - s->spares, 1)
                 : s->slots != 0
                     ? larger(s->slots - s->spares, larger(l->min, 1))
                     : larger(processors(), l->min);
    l->slots = remote_slots != RG__REMOTE_NONE ? 0
               : s->slots != 0                 ? s->slots
                                               : l->max + s->spares;
    if (l->min == 0)
        l->min = has_none ? l->max : 1;
}

static rg_status check_remote_sizes(const rg__launch *l, const rg__settings *s,
                                    int remote_slots)
{
    if (remote_slots == 0 && s->np == 0 && s->max == 0)
        return rg__fail(RG_ERR_INVALID,
                        "--host-discovery-script needs the largest size of the "
                        "world; give it with --max, or with -n");
    if (remote_slots == 0 || l->min <= remote_slots)
        return RG_OK;
    return rg__fail(
        RG_ERR_INVALID,
        "the world needs %d worker%s, but the hosts that are listed "
        "have %d slot%s; list more, or give a smaller %s",
        l->min, rg__plural(l->min), remote_slots, rg__plural(remote_slots),
        s->np != 0 ? "-n" : "--min");
}

static rg_status check_sizes(const rg__launch *l, const rg__settings *s,
                             bool is_only_host)
{
    if (l->min > l->max)
        return rg__fail(RG_ERR_INVALID,
                        "--min %d is above --max %d; the world can't have both "
                        "sizes",
                        l->min, l->max);
    if (l->max > RG__WORLD_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "--max %d is above the %d workers that a world can "
                        "have; give fewer",
                        l->max, RG__WORLD_MAX);
    if (l->slots > RG__HOST_SLOTS_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "%d slots are more than the %d that a host can have; "
                        "give fewer with --slots",
                        l->slots, RG__HOST_SLOTS_MAX);
    if (is_only_host && l->max > l->slots && s->max == 0 && s->np == 0)
        return rg__fail(RG_ERR_INVALID,
                        "--min %d is above --slots %d of this host, which is "
                        "the only one; give --slots %d, or --etcd or "
                        "--etcd-listen so that other hosts can join",
                        l->min, l->slots, l->min);
    if (is_only_host && l->max > l->slots)
        return rg__fail(
            RG_ERR_INVALID,
            "the world may have %d workers, but this host, which is the only "
            "one, has %d slot%s; give --slots %d, or --etcd or --etcd-listen "
            "so that other hosts can join",
            l->max, l->slots, rg__plural(l->slots), l->max);
    return RG_OK;
}

/* Checked for an agent with slots, before its workers register anything; the
 * agent raises its own limit as far as it may. */
static rg_status check_descriptors(const rg__launch *l)
{
    struct rlimit limit;
    const unsigned long long needed =
        AGENT_DESCRIPTORS + SLOT_DESCRIPTORS * (unsigned long long)l->slots;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= needed)
        return RG_OK;
    return rg__fail(RG_ERR_SYSTEM,
                    "%llu descriptors are too few for the agent of %d slots: "
                    "it needs %d and %d for each slot, %llu in all, and one "
                    "for each rg_alloc of a worker; raise the hard limit "
                    "(`ulimit -Hn`), or give fewer --slots",
                    (unsigned long long)limit.rlim_max, l->slots,
                    AGENT_DESCRIPTORS, SLOT_DESCRIPTORS, needed);
}

/* ------------------------------------------------------------------- names */

/* Letters that a name may not have become dashes; in front they are dropped. */
static void make_name(const char *text, char name[RG__NAME_MAX])
{
    size_t n = 0;
    for (; *text != '\0' && n < RG__NAME_MAX - 1; text++) {
        const char one[2] = {*text, '\0'};
        if (rg__is_name(one))
            name[n++] = *text;
        else if (n > 0)
            name[n++] = strchr("._", *text) != NULL ? *text : '-';
    }
    name[n] = '\0';
}

static void name_job(const char *setting, const char *program,
                     char job[RG__NAME_MAX])
{
    char name[RG__NAME_MAX];
    if (setting != NULL) {
        snprintf(job, RG__NAME_MAX, "%s", setting);
        return;
    }
    const char *slash = strrchr(program, '/');
    make_name(slash != NULL ? slash + 1 : program, name);
    snprintf(job, RG__NAME_MAX, "%.40s-%d", name[0] != '\0' ? name : "job",
             (int)getpid());
}

static void name_host(const char *setting, char host[RG__NAME_MAX])
{
    char machine[256] = "";
    if (setting != NULL) {
        snprintf(host, RG__NAME_MAX, "%s", setting);
        return;
    }
    gethostname(machine, sizeof machine - 1);
    machine[strcspn(machine, ".")] = '\0';
    make_name(machine, host);
    if (host[0] == '\0')
        strcpy(host, "host");
}

/* snprintf above would cut a name that is too long: say so instead. */
static rg_status check_name(const char *flag, const char *setting)
{
    if (setting == NULL || rg__is_name(setting))
        return RG_OK;
    if (strpbrk(setting, ":,") != NULL && strcmp(flag, "--host") == 0)
        return rg__fail(RG_ERR_INVALID,
                        "--host names this host, and \"%s\" is not a name; "
                        "hosts on which workers are started are listed with -H",
                        setting);
    return rg__fail(RG_ERR_INVALID,
                    "%s \"%s\" is not a name: that may have up to %d letters, "
                    "digits, dots, dashes and underscores, and begins with a "
                    "letter or digit",
                    flag, setting, RG__NAME_MAX - 1);
}

/* ------------------------------------------------------- files, directories */

static bool make_dirs(const char *path)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *c = part + 1; *c != '\0'; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        if (!rg__checkpoint_make_dir(part))
            return false;
        *c = '/';
    }
    return rg__checkpoint_make_dir(part);
}

/* Absolute, since a worker may change its directory before it writes. */
static rg_status make_dir(const char *flag, const char *setting, size_t most,
                          char path[PATH_MAX])
{
    struct stat at;
    path[0] = '\0';
    if (setting == NULL)
        return RG_OK;
    bool ok = make_dirs(setting) && realpath(setting, path) != NULL &&
              stat(path, &at) == 0;
    if (ok && !S_ISDIR(at.st_mode)) {
        errno = ENOTDIR;
        ok = false;
    }
    if (!ok || access(path, W_OK | X_OK) != 0)
        return rg__fail(RG_ERR_INVALID,
                        "the directory %s can't be used: %s (%s)", setting,
                        strerror(errno), flag);
    if (strlen(path) >= most)
        return rg__fail(RG_ERR_INVALID,
                        "the directory %s has a name of over %zu bytes; give a "
                        "shorter one (%s)",
                        path, most - 1, flag);
    return RG_OK;
}

/* ------------------------------------------------------------------ launch */

static rg_status check_program(rg__launch *l, const rg__cli *cli, bool is_here)
{
    if (cli->argc == 0)
        return rg__fail(RG_ERR_INVALID,
                        "no program was named; write it after the flags, as "
                        "in `regroup run -n 4 ./train`");
    return is_here
               ? rg__find_program(cli->argv[0], l->program, sizeof l->program)
               : RG_OK;
}

/* mpirun would take a ":" for the beginning of another program. */
static rg_status check_words(const rg__cli *cli)
{
    for (char *const *word = cli->argv; *word != NULL; word++)
        if (strcmp(*word, ":") == 0)
            return rg__fail(RG_ERR_INVALID,
                            "an argument of the program is \":\", after which "
                            "mpirun expects another program; pass it in a "
                            "file, or through a script that adds it");
    return RG_OK;
}

static rg_status read_mpi(rg__launch *l, const char *mpi)
{
    l->is_ulfm = strcmp(mpi, RG__ULFM) == 0;
    l->is_mpi = l->is_ulfm || strcmp(mpi, "yes") == 0;
    if (l->is_mpi || strcmp(mpi, "no") == 0)
        return RG_OK;
    return rg__fail(
        RG_ERR_INVALID,
        "--mpi is \"%s\"; it can be yes, no or ulfm, as in --mpi=ulfm", mpi);
}

static rg_status check_ulfm(const rg__launch *l)
{
    if (!l->is_ulfm)
        return RG_OK;
    if (l->mpi.flavour->ulfm == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "--mpi=ulfm needs Open MPI 5, and %s is launched by "
                        "%s; give --mpi, which launches again after a loss",
                        l->program, l->mpi.flavour->name);
    if (l->min == l->max)
        rg__say("--mpi=ulfm goes on in place while at least --min ranks are "
                "left, and --min is --max here: each loss is another launch");
    return RG_OK;
}

/* Without --mpi each process of an MPI program would be an MPI_COMM_WORLD of
 * its own, unless it uses MPI for nothing but Regroup's library. */
static rg_status check_mpi(rg__launch *l, const rg__settings *s)
{
    if (l->is_mpi) {
        const rg_status st = rg__which_mpi_find(l->program, s->mpirun, &l->mpi);
        return st == RG_OK ? check_ulfm(l) : st;
    }
    if (s->user.hang_ms != 0)
        return rg__fail(RG_ERR_INVALID,
                        "--hang-timeout needs --mpi; in other jobs "
                        "REGROUP_OP_TIMEOUT is the deadline of operations");
    if (l->max > 1 && rg__which_mpi_is_any(l->program))
        rg__say("%s is linked with an MPI, and each of its processes will be "
                "an MPI_COMM_WORLD of its own; give --mpi if it is an MPI "
                "program",
                l->program);
    return RG_OK;
}

static rg_status check_metrics(const rg__settings *s)
{
    rg__inet at;
    return s->user.metrics != NULL ? rg__scrape_address(s->user.metrics, &at)
                                   : RG_OK;
}

static bool heeds_advice(const rg__settings *s)
{
    return strcmp(s->notice_advice, "leave") == 0;
}

static rg_status check_notice(const rg__settings *s)
{
    if (!heeds_advice(s) && strcmp(s->notice_advice, "show") != 0)
        return rg__fail(RG_ERR_INVALID,
                        "--notice-advice is \"%s\"; it is show or leave",
                        s->notice_advice);
    if (s->user.notice_every_ms == 0)
        return rg__fail(RG_ERR_INVALID,
                        "--notice-every is 0; give a time, as 2s");
    return rg__notices_check(s->user.notice, s->user.notice_base);
}

/* A flag that workers obey, too; variables and the file reach them anyway. */
static void hand_on(const rg__cfg *cfg, const char *name)
{
    const rg__cfg_item item = rg__cfg_at(cfg, (size_t)rg__cfg_find(cfg, name));
    char variable[64];
    if (item.origin != RG__CFG_FLAG)
        return;
    snprintf(variable, sizeof variable, "REGROUP_%s", name);
    setenv(variable, item.text, 1);
}

/* They lie where workers are. */
static rg_status make_dirs_of(rg__launch *l, const rg__settings *s)
{
    rg_status st = make_dir("--history", s->history, RG__TEXT_MAX, l->history);
    if (st == RG_OK)
        st = make_dir("--checkpoint-dir", s->library.checkpoint_dir,
                      RG__TEXT_MAX, l->checkpoint);
    if (st == RG_OK)
        st = make_dir("--output", s->output, PATH_MAX, l->output);
    return st;
}

rg_status rg__launch_prepare(rg__launch *l, const rg__cli *cli,
                             int remote_slots)
{
    const rg__settings *s = &cli->settings;
    const bool is_here = remote_slots == RG__REMOTE_NONE;
    memset(l, 0, sizeof *l);
    rg_status st = check_np(s);
    if (st == RG_OK)
        st = read_mpi(l, s->mpi);
    if (st == RG_OK)
        fill_sizes(l, s, remote_slots);
    if (st == RG_OK && !is_here)
        st = check_remote_sizes(l, s, remote_slots);
    if (st == RG_OK)
        st = check_sizes(l, s,
                         is_here && s->etcd == NULL && s->etcd_listen == NULL);
    if (st == RG_OK)
        st = check_descriptors(l);
    if (st == RG_OK)
        st = check_program(l, cli, is_here);
    if (st == RG_OK)
        st = check_name("--job", s->job);
    if (st == RG_OK)
        st = check_name("--host", s->host);
    if (st == RG_OK)
        st = rg__launch_reach(l, s);
    if (st == RG_OK && is_here)
        st = check_mpi(l, s);
    if (st == RG_OK && l->is_mpi)
        st = check_words(cli);
    if (st == RG_OK)
        st = check_metrics(s);
    if (st == RG_OK)
        st = check_notice(s);
    if (st == RG_OK && is_here)
        st = make_dirs_of(l, s);
    if (st != RG_OK)
        return st;
    name_job(s->job, cli->argv[0], l->job);
    name_host(s->host != NULL || is_here ? s->host : "launcher", l->host);
    hand_on(cli->cfg, "LOG_FORMAT");
    hand_on(cli->cfg, "AUTOTUNE");
    hand_on(cli->cfg, "AUTOTUNE_LOG");
    return RG_OK;
}

const char *rg__or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

rg__etcd_params rg__launch_etcd(const rg__launch *l, const rg__settings *s)
{
    return (rg__etcd_params){.endpoints = s->etcd,
                             .user = rg__or_null(l->user),
                             .password = rg__or_null(l->password),
                             .cacert = rg__or_null(l->cacert),
                             .cert = rg__or_null(l->cert),
                             .key = rg__or_null(l->key)};
}

rg_status rg__launch_check_store(const rg__launch *l, const rg__settings *s,
                                 uint64_t late_ms)
{
    const rg__etcd_params params = rg__launch_etcd(l, s);
    return rg__store_check(&params, l->job, CHECK_MS, late_ms);
}

static bool is_tagged(const rg__launch *l, const rg__settings *s)
{
    return strcmp(s->tag, "yes") == 0 ||
           (strcmp(s->tag, "no") != 0 && !l->is_mpi);
}

rg__agent_params rg__launch_params(const rg__launch *l, const rg__cli *cli,
                                   const rg__rundir *dir)
{
    const rg__settings *s = &cli->settings;
    return (rg__agent_params){
        .job = l->job,
        .host = l->host,
        .slots = l->slots,
        .min = l->min,
        .max = l->max,
        .argv = cli->argv,
        .run_dir = dir->path,
        .user = s->user,
        .interface = s->library.interface,
        .etcd = rg__launch_etcd(l, s),
        .replaces_job = cli->replace_job,
        .is_mpi = l->is_mpi,
        .is_ulfm = l->is_ulfm,
        .mpirun = l->mpi.mpirun,
        .flavour = l->mpi.flavour,
        .is_tagged = is_tagged(l, s),
        .stall_ms = s->library.stall_ms,
        .detect_ms = s->detect_ms != 0 ? s->detect_ms : RG__DETECT_FIRST_MS,
        .detect_follows = s->detect_ms == 0,
        .heeds_advice = heeds_advice(s),
        .history_dir = rg__or_null(l->history),
        .checkpoint_dir = rg__or_null(l->checkpoint),
        .checkpoint_steps = s->library.checkpoint_every.steps,
        .checkpoint_ms = s->library.checkpoint_every.ms,
        .checkpoint_keep = s->library.checkpoint_keep,
        .checkpoint_on_stop = s->library.checkpoint_on_stop,
        .output_dir = rg__or_null(l->output),
    };
}

static void copy_text(char *to, size_t room, const char *text)
{
    snprintf(to, room, "%s", text != NULL ? text : "");
}

void rg__launch_record(const rg__agent_params *params, rg__job_record *r)
{
    const rg__etcd_params *etcd = &params->etcd;
    const time_t now = time(NULL);
    struct tm utc;
    memset(r, 0, sizeof *r);
    snprintf(r->job, sizeof r->job, "%s", params->job);
    snprintf(r->host, sizeof r->host, "%s", params->host);
    snprintf(r->program, sizeof r->program, "%s", params->argv[0]);
    copy_text(r->endpoints, sizeof r->endpoints, etcd->endpoints);
    copy_text(r->user, sizeof r->user, etcd->user);
    copy_text(r->password, sizeof r->password, etcd->password);
    copy_text(r->cacert, sizeof r->cacert, etcd->cacert);
    copy_text(r->cert, sizeof r->cert, etcd->cert);
    copy_text(r->key, sizeof r->key, etcd->key);
    strftime(r->started, sizeof r->started, "%Y-%m-%dT%H:%M:%SZ",
             gmtime_r(&now, &utc));
    r->pid = getpid();
}
