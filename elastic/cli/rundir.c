/* Run directories, and the locks that say which of them are in use. */
#include "elastic/cli/rundir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "elastic/agent/agent.h"
#include "elastic/agent/mpirun/mpirun.h"
#include "elastic/cli/certs.h"
#include "sdk/base/fail.h"

#define JOB_LOCK    "job.lock"
#define EVENT_LOG_S (24 * 60 * 60)  /* that of a job which has ended stays */
#define LOCK_WAIT   (5000 * RG__MS) /* a directory comes or goes in far less */
#define DYING_WAIT  (1000 * RG__MS)

bool rg__is_name(const char *text)
{
    size_t n = 0;
    for (; text[n] != '\0'; n++)
        if (!isalnum((unsigned char)text[n]) &&
            (n == 0 || strchr("._-", text[n]) == NULL))
            return false;
    return n > 0 && n < RG__NAME_MAX;
}

/* ------------------------------------------------------------------- locks */

/* Locks of open files: fork shares them, and one can look without taking. */
static struct flock whole_file(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

static int open_lock(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static bool try_lock_as(int fd, short type)
{
    struct flock lock = whole_file(type);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static bool try_lock(int fd)
{
    return try_lock_as(fd, F_WRLCK);
}

static bool is_lock_held(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= PATH_MAX)
        return false;
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    struct flock lock = whole_file(F_WRLCK);
    const bool held =
        fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(fd);
    return held;
}

/* The base's lock keeps two processes from making and removing the same
 * directory at once. Held for a few system calls only. */
static rg_status lock_base(const char *base, int *fd_p)
{
    const uint64_t deadline = rg__now_ns() + LOCK_WAIT;
    const int fd = open_lock(base, ".lock");
    if (fd < 0)
        return rg__fail(RG_ERR_SYSTEM, "%s/.lock can't be opened: %s", base,
                        strerror(errno));
    while (!try_lock(fd)) {
        if (rg__now_ns() > deadline) {
            close(fd);
            return rg__fail(RG_ERR_SYSTEM,
                            "%s/.lock is held by another process; is a "
                            "`regroup` stopped there?",
                            base);
        }
        rg__sleep_ns(5 * RG__MS);
    }
    *fd_p = fd;
    return RG_OK;
}

/* ------------------------------------------------------------- directories */

static rg_status make_private_dir(const char *path)
{
    struct stat at;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return rg__fail(RG_ERR_SYSTEM,
                        "the run directory %s can't be made: %s "
                        "(REGROUP_RUN_DIR)",
                        path, strerror(errno));
    if (lstat(path, &at) != 0 || !S_ISDIR(at.st_mode))
        return rg__fail(RG_ERR_SYSTEM,
                        "the run directory %s is not a directory; remove it or "
                        "set REGROUP_RUN_DIR",
                        path);
    if (at.st_uid != geteuid())
        return rg__fail(RG_ERR_SYSTEM,
                        "the run directory %s belongs to user %u; set "
                        "REGROUP_RUN_DIR to one of yours",
                        path, (unsigned)at.st_uid);
    if ((at.st_mode & 077) != 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "the run directory %s is open to other users; run "
                        "chmod 700 on it or set REGROUP_RUN_DIR",
                        path);
    return RG_OK;
}

static bool is_dir(const char *path)
{
    struct stat at;
    return stat(path, &at) == 0 && S_ISDIR(at.st_mode);
}

rg_status rg__rundir_base(const char *setting, char base[PATH_MAX])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR"); /* not ours: no setting */
    int n;
    if (setting != NULL)
        n = snprintf(base, PATH_MAX, "%s", setting);
    else if (runtime != NULL && runtime[0] == '/' && is_dir(runtime))
        n = snprintf(base, PATH_MAX, "%s/regroup", runtime);
    else
        n = snprintf(base, PATH_MAX, "/tmp/regroup-%u", (unsigned)geteuid());
    if (n >= PATH_MAX)
        return rg__fail(RG_ERR_INVALID, "the run directory's name is too long; "
                                        "set REGROUP_RUN_DIR to a shorter one");
    rg_status st = make_private_dir(base);
    if (st != RG_OK)
        return st;
    char real[PATH_MAX];
    if (realpath(base, real) == NULL)
        return rg__fail(RG_ERR_SYSTEM, "the run directory %s can't be read: %s",
                        base, strerror(errno));
    memcpy(base, real, PATH_MAX);
    return RG_OK;
}

static bool has_form(const char *name, const char *start, const char *end)
{
    const size_t n = strlen(name), s = strlen(start), e = strlen(end);
    return n > s + e && strncmp(name, start, s) == 0 &&
           strcmp(name + n - e, end) == 0;
}

static bool is_agent_lock(const char *name)
{
    return has_form(name, "agent-", ".lock");
}

/* Whether a name in a job's directory is one of ours. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {
        JOB_LOCK,          "job.json",       "etcd.log",
        RG__CERTS_CA,      RG__CERTS_SERVER, RG__CERTS_INVITATION,
        RG__REMOTE_CACERT, RG__REMOTE_CERT,  RG__REMOTE_KEY};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return is_agent_lock(name) || has_form(name, "agent-", ".sock") ||
           has_form(name, "watch-", ".lock") || has_form(name, "job-", ".new");
}

/* Call fn with every name in a directory until it returns true. */
static bool any_name(const char *path, bool (*fn)(const char *, const char *))
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return false;
    bool found = false;
    for (struct dirent *d; !found && (d = readdir(dir)) != NULL;)
        found = fn(path, d->d_name);
    closedir(dir);
    return found;
}

static bool is_held_here(const char *path, const char *name)
{
    return (strcmp(name, JOB_LOCK) == 0 || is_agent_lock(name)) &&
           is_lock_held(path, name);
}

bool rg__rundir_is_alive(const char *path)
{
    return any_name(path, is_held_here);
}

bool rg__rundir_has_agent(const char *path, const char *host)
{
    char name[RG__NAME_MAX + 16];
    snprintf(name, sizeof name, "agent-%s.lock", host);
    return is_lock_held(path, name);
}

static void name_watch(const char *host, char name[RG__NAME_MAX + 16])
{
    snprintf(name, RG__NAME_MAX + 16, "watch-%s.lock", host);
}

static int take_watch(const char *path, const char *host, short type)
{
    char name[RG__NAME_MAX + 16];
    name_watch(host, name);
    const int fd = open_lock(path, name);
    if (fd < 0 || try_lock_as(fd, type))
        return fd;
    close(fd);
    return -1;
}

int rg__rundir_watch(const char *path, const char *host)
{
    return take_watch(path, host, F_RDLCK);
}

bool rg__rundir_is_watched(const char *path, const char *host)
{
    char name[RG__NAME_MAX + 16];
    name_watch(host, name);
    return is_lock_held(path, name);
}

/* The lock stays until this process ends. */
bool rg__rundir_end_watch(const char *path, const char *host)
{
    return take_watch(path, host, F_WRLCK) >= 0;
}

static bool is_lock_here(const char *path, const char *name)
{
    (void)path;
    return strcmp(name, JOB_LOCK) == 0 || is_agent_lock(name);
}

static bool remove_here(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= PATH_MAX)
        return false;
    if (strcmp(name, "etcd") == 0)
        rg__remove_tree(path);
    else if (is_ours(name))
        unlink(path);
    return false; /* go on */
}

/* Remove what is ours in a directory, then the directory, which stays where
 * anything else lies in it. */
static void remove_run_dir(const char *path)
{
    any_name(path, remove_here);
    rmdir(path);
}

/* A run directory none of whose locks is held. */
static bool is_dead_dir(const char *base, const char *name, char path[PATH_MAX])
{
    return rg__is_name(name) &&
           snprintf(path, PATH_MAX, "%s/%s", base, name) < PATH_MAX &&
           is_dir(path) && any_name(path, is_lock_here) &&
           !rg__rundir_is_alive(path);
}

/* --------------------------------------------------------------- event logs */

/* Of a job that has ended, and no older than most_s. */
static bool is_event_log(const char *base, const char *name, long most_s,
                         char path[PATH_MAX])
{
    struct stat at;
    return strncmp(name, RG__EVENT_LOG_FILE, strlen(RG__EVENT_LOG_FILE)) == 0 &&
           snprintf(path, PATH_MAX, "%s/%s", base, name) < PATH_MAX &&
           lstat(path, &at) == 0 && S_ISREG(at.st_mode) &&
           time(NULL) - at.st_mtime <= most_s;
}

static bool remove_old_event_log(const char *base, const char *name)
{
    char path[PATH_MAX];
    if (!is_event_log(base, name, EVENT_LOG_S, path) &&
        is_event_log(base, name, LONG_MAX, path))
        unlink(path);
    return false; /* go on */
}

rg_status rg__rundir_event_log(const char *base, const char *job, char **text_p)
{
    char path[PATH_MAX], name[RG__NAME_MAX + sizeof RG__EVENT_LOG_FILE];
    size_t room = 0;
    snprintf(name, sizeof name, RG__EVENT_LOG_FILE "%s", job);
    *text_p = NULL;
    FILE *file =
        is_event_log(base, name, EVENT_LOG_S, path) ? fopen(path, "re") : NULL;
    if (file == NULL || getdelim(text_p, &room, '\0', file) <= 0) {
        free(*text_p);
        *text_p = NULL;
    }
    if (file != NULL)
        fclose(file);
    return *text_p != NULL ? RG_OK : RG_ERR_NOT_FOUND;
}

static bool remove_if_dead(const char *base, const char *name)
{
    char path[PATH_MAX];
    remove_old_event_log(base, name);
    if (is_dead_dir(base, name, path))
        remove_run_dir(path);
    return false; /* go on */
}

rg_status rg__rundir_sweep(const char *base, bool is_dry, rg__sweep_fn fn,
                           void *arg)
{
    int lock;
    const rg_status st = lock_base(base, &lock);
    if (st != RG_OK)
        return st;
    DIR *dir = opendir(base);
    char path[PATH_MAX];
    for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
        const bool is_old = is_event_log(base, d->d_name, LONG_MAX, path);
        if (!is_old && !is_dead_dir(base, d->d_name, path))
            continue;
        if (!is_dry && is_old)
            unlink(path);
        else if (!is_dry)
            remove_run_dir(path);
        fn(arg, path, is_dry || !is_dir(path));
    }
    if (dir != NULL)
        closedir(dir);
    close(lock);
    return dir != NULL ? RG_OK
                       : rg__fail(RG_ERR_SYSTEM, "%s can't be read: %s", base,
                                  strerror(errno));
}

/* ---------------------------------------------------------- enter and leave */

static rg_status check_socket_path(const rg__rundir *dir)
{
    const struct sockaddr_un *const address = NULL;
    const size_t most = sizeof address->sun_path - 1;
    const size_t n =
        strlen(dir->path) + strlen("/agent-.sock") + strlen(dir->host);
    if (n <= most)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "the socket %s/agent-%s.sock has a name of %zu bytes, and "
                    "a socket's may have %zu; set REGROUP_RUN_DIR to a shorter "
                    "directory or give a shorter --job",
                    dir->path, dir->host, n, most);
}

static rg_status check_names(const char *job, const char *host)
{
    static const char *const form =
        "a name has up to 63 letters, digits, dots, dashes and underscores, "
        "and begins with a letter or digit";
    if (!rg__is_name(job))
        return rg__fail(RG_ERR_INVALID, "the job can't be called \"%s\": %s",
                        job, form);
    if (!rg__is_name(host))
        return rg__fail(RG_ERR_INVALID, "the host can't be called \"%s\": %s",
                        host, form);
    return RG_OK;
}

static rg_status refuse_second(const rg__rundir *dir)
{
    return rg__fail(RG_ERR_INVALID,
                    "job %s runs here already; stop it with `regroup stop %s` "
                    "or give this one another --job",
                    dir->job, dir->job);
}

static rg_status fail_lock(const rg__rundir *dir)
{
    return rg__fail(RG_ERR_SYSTEM, "the locks in %s can't be made: %s",
                    dir->path, strerror(errno));
}

/* With the base locked. */
static rg_status take_locks(rg__rundir *dir, bool owns_job)
{
    char name[RG__NAME_MAX + 16];
    snprintf(name, sizeof name, "agent-%s.lock", dir->host);
    const bool alive = rg__rundir_is_alive(dir->path);
    if (!alive && !any_name(dir->path, is_lock_here) && rmdir(dir->path) != 0)
        return rg__fail(RG_ERR_INVALID,
                        "%s is in the way: it is not the run directory of a "
                        "job; remove it or give another --job",
                        dir->path);
    if (alive && owns_job)
        return refuse_second(dir);
    if (alive && rg__rundir_has_agent(dir->path, dir->host))
        return rg__fail(RG_ERR_INVALID,
                        "an agent of job %s for host %s runs here already; "
                        "give this one another --host",
                        dir->job, dir->host);
    if (!alive)
        remove_run_dir(dir->path);
    rg_status st = make_private_dir(dir->path);
    if (st != RG_OK)
        return st;
    if (owns_job) {
        dir->job_lock = open_lock(dir->path, JOB_LOCK);
        if (dir->job_lock < 0 || !try_lock(dir->job_lock))
            return fail_lock(dir);
    }
    dir->host_lock = open_lock(dir->path, name);
    return dir->host_lock >= 0 && try_lock(dir->host_lock) ? RG_OK
                                                           : fail_lock(dir);
}

static bool is_in_use(const rg__rundir *dir, bool owns_job)
{
    return owns_job ? rg__rundir_is_alive(dir->path)
                    : rg__rundir_has_agent(dir->path, dir->host);
}

/* An agent that was killed holds its locks until the kernel has cleaned up
 * after it, and a new one may be started at once. */
static void await_dying(const rg__rundir *dir, bool owns_job)
{
    const uint64_t deadline = rg__now_ns() + DYING_WAIT;
    while (is_in_use(dir, owns_job) && rg__now_ns() < deadline)
        rg__sleep_ns(5 * RG__MS);
}

rg_status rg__rundir_enter(rg__rundir *dir, const char *base, const char *job,
                           const char *host, bool owns_job)
{
    memset(dir, 0, sizeof *dir);
    dir->job_lock = dir->host_lock = -1;
    rg_status st = check_names(job, host);
    if (st != RG_OK)
        return st;
    strcpy(dir->job, job);
    strcpy(dir->host, host);
    snprintf(dir->base, sizeof dir->base, "%s", base);
    if (snprintf(dir->path, sizeof dir->path, "%s/%s", base, job) >= PATH_MAX)
        return rg__fail(RG_ERR_INVALID, "the run directory's name is too long");
    st = check_socket_path(dir);
    if (st != RG_OK)
        return st;
    int lock;
    await_dying(dir, owns_job);
    st = lock_base(base, &lock);
    if (st != RG_OK)
        return st;
    any_name(base, remove_if_dead);
    st = make_private_dir(dir->path);
    if (st == RG_OK)
        st = take_locks(dir, owns_job);
    close(lock);
    return st;
}

static void remove_own_files(const rg__rundir *dir)
{
    static const char *const ends[] = {"lock", "sock"};
    char path[PATH_MAX];
    for (int i = 0; i < 2; i++)
        if (snprintf(path, sizeof path, "%s/agent-%s.%s", dir->path, dir->host,
                     ends[i]) < PATH_MAX)
            unlink(path);
}

void rg__rundir_leave(rg__rundir *dir)
{
    int lock = -1;
    const bool entered = dir->host_lock >= 0;
    const bool locked = entered && lock_base(dir->base, &lock) == RG_OK;
    if (locked)
        remove_own_files(dir);
    if (dir->job_lock >= 0)
        close(dir->job_lock);
    if (dir->host_lock >= 0)
        close(dir->host_lock);
    dir->job_lock = dir->host_lock = -1;
    if (locked && !rg__rundir_is_alive(dir->path))
        remove_run_dir(dir->path);
    if (locked)
        close(lock);
}
