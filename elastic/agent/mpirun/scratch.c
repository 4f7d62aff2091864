/* Files that a killed launch leaves behind: its MPI removes none of them then.
 * They are in directories of the launch's own, which bear the same names on all
 * its hosts, since an MPI hands its settings on, and which are removed when
 * nothing of the launch lives here any more. */
#include "elastic/agent/mpirun/flavour.h"
#include "elastic/agent/mpirun/mpirun_parts.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTORS 8
typedef struct place {
    char path[128];
} place;

static const rg__flavour_place no_places[] = {{NULL, NULL}};

/* An agent without slots has no MPI. */
static const rg__flavour_place *places_of(const rg__agent *a)
{
    const rg__flavour *mpi = a->params->flavour;
    return mpi != NULL ? mpi->places : no_places;
}

static place place_in(const rg__agent *a, const char *in)
{
    place p;
    snprintf(p.path, sizeof p.path, "%s/regroup-mpi-%u-%.8s-%llu", in,
             (unsigned)geteuid(), a->meta.uuid,
             (unsigned long long)a->launches->number);
    return p;
}

static bool is_our_directory(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

void rg__scratch_make(const rg__agent *a)
{
    for (const rg__flavour_place *at = places_of(a); at->in != NULL; at++)
        mkdir(place_in(a, at->in).path,
              0700); /* without it: the MPI's own place */
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

void rg__scratch_remove(const rg__agent *a)
{
    for (const rg__flavour_place *at = places_of(a); at->in != NULL; at++) {
        const place p = place_in(a, at->in);
        if (is_our_directory(p.path))
            nftw(p.path, remove_entry, DESCRIPTORS,
                 FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
}
