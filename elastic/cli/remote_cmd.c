/* `regroup remote`: an agent of a launcher on another host. Its task comes on
 * standard input, which remains the launcher's way to tell it to leave, and
 * closes when the launcher is gone. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/cli/agent_cmd.h"
#include "elastic/cli/attach.h"
#include "elastic/launch/channel.h"
#include "elastic/launch/letter.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define LETTER_MS 30000
#define HURRY_NS  (5000 * RG__MS) /* then it must leave at once */
#define BACK_NS   (5000 * RG__MS) /* for the launcher to connect again */
#define LOOK_NS   (1000 * RG__MS) /* whether its new connection is there */

typedef struct remote {
    rg__letter letter;
    rg__supervisor_hooks hooks;
    int in;
    bool is_private; /* the launcher has the job's etcd */
    bool is_leaving, has_hurried;
    uint64_t hurry_ns; /* 0: not planned */
    uint64_t seen_ns;  /* the launcher's connection was there last; 0: it is */
    uint64_t look_ns;  /* the next look for another one */
    char path[PATH_MAX], host[RG__NAME_MAX]; /* of the run directory */
} remote;

/* ------------------------------------------------------------- the launcher */

/* Like a signal from outside: the supervisor passes it on. */
static void leave(remote *r)
{
    if (r->is_leaving)
        return;
    r->is_leaving = true;
    kill(getpid(), SIGTERM);
}

static void hurry(remote *r)
{
    if (r->has_hurried)
        return;
    r->has_hurried = true;
    kill(getpid(), SIGTERM);
}

/* The connection broke, or the launcher has ended. Without the launcher's etcd
 * no generation could follow this one. */
static void on_launcher_gone(remote *r)
{
    r->hooks.fd = 0;
    if (r->is_leaving) {
        hurry(r);
        return;
    }
    rg__log(RG__WARN, "launch",
            "the connection to the launcher is gone; %s, and what workers "
            "print here is lost",
            r->is_private ? "this host leaves unless there is another one "
                            "within 5 s"
                          : "the job goes on");
    if (r->is_private)
        r->seen_ns = rg__now_ns();
}

/* Another connection watches us (attach.c), or ours was the last. */
static void look_for_launcher(remote *r, uint64_t now)
{
    r->look_ns = now + LOOK_NS;
    if (rg__rundir_is_watched(r->path, r->host))
        r->seen_ns = now;
    if (now - r->seen_ns < BACK_NS || !rg__rundir_end_watch(r->path, r->host))
        return;
    r->seen_ns = 0;
    rg__say("the launcher is gone, and the job's etcd with it; this host "
            "leaves");
    leave(r);
    r->hurry_ns = rg__now_ns() + HURRY_NS;
}

static void on_readable(void *arg)
{
    remote *r = arg;
    char said[64];
    const ssize_t n = read(r->in, said, sizeof said);
    if (n > 0)
        leave(r); /* it has nothing else to say */
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        on_launcher_gone(r);
}

static int on_turn(void *arg)
{
    remote *r = arg;
    const uint64_t now = rg__now_ns();
    if (r->seen_ns != 0 && now >= r->look_ns)
        look_for_launcher(r, now);
    if (r->seen_ns != 0)
        return (int)((r->look_ns > now ? r->look_ns - now : 0) / RG__MS) + 1;
    if (r->hurry_ns == 0 || r->has_hurried)
        return -1;
    if (now >= r->hurry_ns) {
        hurry(r);
        return -1;
    }
    return (int)((r->hurry_ns - now) / RG__MS) + 1;
}

/* Workers inherit no standard input of ours. */
static rg_status take_input(remote *r)
{
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    r->in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (null < 0 || r->in < 0 || dup2(null, STDIN_FILENO) < 0)
        return rg__fail(RG_ERR_SYSTEM, "standard input can't be moved: %s",
                        strerror(errno));
    close(null);
    return RG_OK;
}

/* --------------------------------------------------------------- the letter */

/* What this host's login shell has set is not meant for this job. */
static void clear_settings(void)
{
    static const char *const names[] = {
        "REGROUP_NP",        "REGROUP_CONFIG",
        "REGROUP_ETCD",      "REGROUP_ETCD_USER",
        "REGROUP_ETCD_KEY",  "REGROUP_ETCD_PASSWORD_FILE",
        "REGROUP_ETCD_CERT", "REGROUP_ETCD_CACERT",
        "REGROUP_SPARES",    "REGROUP_ETCD_INVITATION",
        "REGROUP_HOST",      "REGROUP_ETCD_CA_HASH"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static rg_status set_variables(const rg__letter *letter)
{
    const char *at = NULL, *name, *value;
    clear_settings();
    while (rg__letter_next(letter, &at, &name, &value)) {
        if (strcmp(name, "variable") != 0)
            continue;
        char *line = strdup(value);
        char *equals = line != NULL ? strchr(line, '=') : NULL;
        if (equals != NULL)
            *equals = '\0';
        const bool is_set = equals != NULL && setenv(line, equals + 1, 1) == 0;
        free(line);
        if (!is_set)
            return rg__fail(RG_ERR_MEMORY, "no memory for variables");
    }
    const char *directory = rg__letter_find(letter, "directory");
    if (directory == NULL || chdir(directory) == 0)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "the working directory %s can't be entered on this host: "
                    "%s; workers on all hosts run in the directory where "
                    "`regroup run` was started",
                    directory, strerror(errno));
}

/* As a person would type it: flags, then the program. */
static char **make_line(const rg__letter *letter, int *argc_p)
{
    static const char *const flags[] = {"etcd",  "job", "host",
                                        "slots", "min", "max"};
    static char spelling[sizeof flags / sizeof *flags][16];
    static char command[] = "agent", end[] = "--";
    const char *at = NULL, *name, *value;
    int n = 0, words = 0;
    while (rg__letter_next(letter, &at, &name, &value))
        words += strcmp(name, "word") == 0;
    char **argv = calloc((size_t)words + 16, sizeof *argv);
    if (argv == NULL)
        return NULL;
    argv[n++] = command;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const char *given = rg__letter_find(letter, flags[i]);
        if (given == NULL)
            continue;
        snprintf(spelling[i], sizeof spelling[i], "--%s", flags[i]);
        argv[n++] = spelling[i];
        argv[n++] = (char *)(uintptr_t)given; /* getopt leaves it as it is */
    }
    argv[n++] = end;
    at = NULL;
    while (rg__letter_next(letter, &at, &name, &value))
        if (strcmp(name, "word") == 0)
            argv[n++] = (char *)(uintptr_t)value;
    *argc_p = n;
    return argv;
}

/* ------------------------------------------------------------------- etcd */

static rg_status log_in(void *arg, rg__launch *launch, const rg__rundir *dir)
{
    remote *r = arg;
    const struct {
        const char *what, *name;
        char *path;
    } files[] = {{"cacert", RG__REMOTE_CACERT, launch->cacert},
                 {"cert", RG__REMOTE_CERT, launch->cert},
                 {"key", RG__REMOTE_KEY, launch->key}};
    memcpy(r->path, dir->path, sizeof r->path);
    memcpy(r->host, dir->host, sizeof r->host);
    const char *user = rg__letter_find(&r->letter, "user");
    const char *password = rg__letter_find(&r->letter, "password");
    if (user != NULL)
        snprintf(launch->user, sizeof launch->user, "%s", user);
    if (password != NULL)
        snprintf(launch->password, sizeof launch->password, "%s", password);
    rg_status st = RG_OK;
    for (size_t i = 0; st == RG_OK && i < sizeof files / sizeof *files; i++) {
        const char *text = rg__letter_find(&r->letter, files[i].what);
        if (text != NULL)
            st = rg__rundir_write(dir, files[i].name, text, files[i].path);
    }
    return st;
}

/* ------------------------------------------------------------------ command */

static int run(remote *r)
{
    rg__cli cli;
    int argc = 0;
    const char *is_private = rg__letter_find(&r->letter, "is-private");
    char **argv = make_line(&r->letter, &argc);
    const rg__agent_start start = {
        .log_in = log_in, .hooks = &r->hooks, .is_launched = true, .arg = r};
    if (argv == NULL)
        return rg__cli_fail(
            rg__fail(RG_ERR_MEMORY, "no memory for a command line"));
    r->is_private = is_private != NULL && strcmp(is_private, "1") == 0;
    r->hooks = (rg__supervisor_hooks){
        .turn = on_turn, .fd = r->in, .readable = on_readable, .arg = r};
    const rg_status st = rg__cli_open(&cli, "agent", argc, argv);
    int code = 0;
    if (st != RG_OK)
        code = rg__cli_fail(st);
    else if (!rg__attach(&r->letter, cli.settings.run_dir, r->in, &code))
        code = rg__agent_here(&cli, &start);
    rg__cli_close(&cli);
    free(argv);
    return code;
}

int rg__cmd_remote(rg__cli *cli)
{
    remote r = {.in = -1};
    (void)cli;
    puts(RG__CHANNEL_HELLO);
    fflush(stdout);
    rg_status st = take_input(&r);
    if (st == RG_OK)
        st = rg__letter_receive(&r.letter, r.in, LETTER_MS);
    if (st == RG_OK)
        st = set_variables(&r.letter);
    const int code = st == RG_OK ? run(&r) : rg__cli_fail(st);
    rg__letter_free(&r.letter);
    return code;
}
