/* Files that a killed launch leaves behind, since its MPI then removes none of
 * them. They are in directories of the launch's own, which have the same names
 * on all its hosts, since an MPI hands its settings on. The agent removes these
 * when nothing of the launch lives here any more. Its agent holds a lock of
 * each: a directory whose lock is free is a dead job's. */
#include "elastic/agent/mpirun/flavour.h"
#include "elastic/agent/mpirun/mpirun_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTORS 8
#define PREFIX_MAX  64

typedef struct place {
    char path[512];
} place;

static const rg__flavour_place no_places[] = {{NULL, NULL}};

/* An agent without slots has no MPI. */
static const rg__flavour_place *places_of(const rg__agent *a)
{
    const rg__flavour *mpi = a->params->flavour;
    return mpi != NULL ? mpi->places : no_places;
}

static void set_prefix(char prefix[PREFIX_MAX])
{
    snprintf(prefix, PREFIX_MAX, "regroup-mpi-u%u-", (unsigned)geteuid());
}

static place place_in(const rg__agent *a, const char *in)
{
    char prefix[PREFIX_MAX];
    place p;
    set_prefix(prefix);
    snprintf(p.path, sizeof p.path, "%s/%s%.8s-%llu", in, prefix, a->meta.uuid,
             (unsigned long long)a->launches->number);
    return p;
}

static bool is_our_directory(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

/* -1: another one holds it, or it is not there. */
static int lock(const char *path, int how)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, how | LOCK_NB) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void unlock_all(const rg__agent *a)
{
    for (int i = 0; i < RG__FLAVOUR_PLACES; i++) {
        if (a->launches->place_lock[i] > 0)
            close(a->launches->place_lock[i]);
        a->launches->place_lock[i] = 0;
    }
}

/* None: the MPI uses its own place. Agents on one machine share it. */
void rg__scratch_make(const rg__agent *a)
{
    const rg__flavour_place *places = places_of(a);
    unlock_all(a);
    for (int i = 0; places[i].in != NULL; i++) {
        const place p = place_in(a, places[i].in);
        mkdir(p.path, 0700);
        a->launches->place_lock[i] = lock(p.path, LOCK_SH);
        if (a->launches->place_lock[i] < 0)
            rmdir(p.path);
    }
}

void rg__scratch_set_variables(const rg__agent *a)
{
    for (const rg__flavour_place *at = places_of(a); at->in != NULL; at++) {
        const place p = place_in(a, at->in);
        if (is_our_directory(p.path))
            setenv(at->variable, p.path, 0);
    }
}

static int remove_entry(const char *path, const struct stat *at, int type,
                        struct FTW *where)
{
    (void)at, (void)type, (void)where;
    return remove(path) != 0 && errno != ENOENT;
}

void rg__remove_tree(const char *path)
{
    nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void remove_place(const char *path)
{
    if (is_our_directory(path))
        rg__remove_tree(path);
}

void rg__scratch_remove(const rg__agent *a)
{
    for (const rg__flavour_place *at = places_of(a); at->in != NULL; at++)
        remove_place(place_in(a, at->in).path);
    unlock_all(a);
}

static void sweep_in(const char *in, bool is_dry, rg__scratch_fn fn, void *arg)
{
    char prefix[PREFIX_MAX];
    place p;
    DIR *dir = opendir(in);
    set_prefix(prefix);
    for (const struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
        if (strncmp(d->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(p.path, sizeof p.path, "%s/%s", in, d->d_name);
        const int held = is_our_directory(p.path) ? lock(p.path, LOCK_EX) : -1;
        if (held < 0)
            continue;
        if (!is_dry)
            remove_place(p.path);
        close(held);
        if (fn != NULL)
            fn(arg, p.path, is_dry || !is_our_directory(p.path));
    }
    if (dir != NULL)
        closedir(dir);
}

void rg__scratch_sweep(bool is_dry, rg__scratch_fn fn, void *arg)
{
    sweep_in("/tmp", is_dry, fn, arg);
    sweep_in("/dev/shm", is_dry, fn, arg);
}
