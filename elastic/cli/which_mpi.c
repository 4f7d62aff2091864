/* The MPI of a program is that of the libraries that the loader would give it.
 * Open MPI 4.1 and 5 have libraries of one name: what their mpirun prints as
 * its version tells them apart. */
#include "elastic/cli/which_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/cli/capture.h"
#include "elastic/cli/elf.h"
#include "elastic/cli/find_program.h"
#include "sdk/base/child.h"
#include "sdk/base/fail.h"

#define LIBRARIES_MAX ((size_t)256 << 10) /* bytes of their list */
#define VERSION_MAX   4096
#define WORDS_MAX     64

/* What a program is linked with: a bit for each flavour that it may be of, and
 * where its MPI library lies; "": not known. */
typedef struct linked {
    unsigned fits;
    char library[PATH_MAX];
} linked;

/* --------------------------------------------------------------- libraries */

/* "\tlibmpi.so.40 => /usr/lib/libmpi.so.40 (0x...)" */
static void see_line(linked *l, char *line)
{
    char *name = line + strspn(line, " \t");
    char *path = strstr(name, " => ");
    if (path == NULL)
        return;
    *path = '\0';
    path += strlen(" => ");
    path[strcspn(path, " ")] = '\0';
    const unsigned with = rg__flavours_with(name);
    if (with == 0)
        return;
    l->fits &= with;
    if (path[0] == '/')
        snprintf(l->library, sizeof l->library, "%s", path);
}

static void see_libraries(linked *l, const char *program)
{
    char loader[PATH_MAX], flag[] = "--list", path[PATH_MAX];
    char *const argv[] = {loader, flag, path, NULL};
    char *list = malloc(LIBRARIES_MAX), *rest = NULL;
    snprintf(path, sizeof path, "%s", program);
    if (list != NULL && rg__elf_loader(program, loader, sizeof loader) &&
        rg__capture(argv, list, LIBRARIES_MAX))
        for (char *line = strtok_r(list, "\n", &rest); line != NULL;
             line = strtok_r(NULL, "\n", &rest))
            see_line(l, line);
    free(list);
}

static bool is_mpi(const char *library)
{
    return rg__flavours_with(library) != 0;
}

bool rg__which_mpi_is_any(const char *program)
{
    return rg__elf_needs(program, is_mpi);
}

const char *rg__which_mpi_ours(const char *program)
{
    linked l = {.fits = RG__FLAVOURS_ALL};
    see_libraries(&l, program);
    if (strstr(l.library, "/libmpi_abi.so") != NULL)
        return "abi";
    for (int i = 0; i < RG__FLAVOURS && l.fits != RG__FLAVOURS_ALL; i++)
        if ((l.fits >> i & 1) != 0)
            return rg__flavour_at(i)->ours;
    return NULL;
}

/* ------------------------------------------------------------------ mpirun */

/* Its command line, which may begin with `env NAME=VALUE`. */
static const rg__flavour *flavour_of(const char *mpirun)
{
    char words[2 * PATH_MAX], text[VERSION_MAX], flag[] = "--version";
    char *argv[WORDS_MAX + 2], *rest = NULL;
    int n = 0;
    snprintf(words, sizeof words, "%s", mpirun);
    for (char *word = strtok_r(words, " ", &rest);
         word != NULL && n < WORDS_MAX; word = strtok_r(NULL, " ", &rest))
        argv[n++] = word;
    argv[n] = flag;
    argv[n + 1] = NULL;
    return n > 0 && rg__capture(argv, text, sizeof text)
               ? rg__flavour_that_says(text)
               : NULL;
}

static bool fits(const linked *l, const rg__flavour *flavour)
{
    for (int i = 0; i < RG__FLAVOURS; i++)
        if (rg__flavour_at(i) == flavour)
            return (l->fits >> i & 1) != 0;
    return false;
}

static bool try(const linked *l, rg__which_mpi *which, const char *mpirun)
{
    which->flavour = flavour_of(mpirun);
    snprintf(which->mpirun, sizeof which->mpirun, "%s", mpirun);
    return fits(l, which->flavour);
}

/* .../lib/libmpi.so.40: .../bin/mpirun */
static bool try_beside(const linked *l, rg__which_mpi *which)
{
    char path[PATH_MAX + 16], *slash = NULL;
    snprintf(path, PATH_MAX, "%s", l->library);
    for (int i = 0; i < 2; i++) {
        slash = strrchr(path, '/');
        if (slash == NULL)
            return false;
        *slash = '\0';
    }
    strcat(path, "/bin/mpirun");
    return rg__is_program(path) && try(l, which, path);
}

static bool try_in_path(const linked *l, rg__which_mpi *which, const char *name)
{
    char path[PATH_MAX];
    return rg__find_program(name, path, sizeof path) == RG_OK &&
           try(l, which, name);
}

static bool search(const linked *l, rg__which_mpi *which)
{
    if (l->fits == RG__FLAVOURS_ALL)
        return try_in_path(l, which, "mpirun");
    if (try_beside(l, which))
        return true;
    for (int i = 0; i < RG__FLAVOURS; i++) {
        const char *const *name = rg__flavour_at(i)->commands;
        for (; (l->fits >> i & 1) != 0 && *name != NULL; name++)
            if (try_in_path(l, which, *name))
                return true;
    }
    return false;
}

/* --------------------------------------------------------------- sentences */

/* "Open MPI 4.1, Open MPI 5, MPICH" */
static void name_fits(const linked *l, char *text, size_t bytes)
{
    text[0] = '\0';
    for (int i = 0; i < RG__FLAVOURS; i++)
        if ((l->fits >> i & 1) != 0)
            snprintf(text + strlen(text), bytes - strlen(text), "%s%s",
                     text[0] != '\0' ? " or " : "", rg__flavour_at(i)->name);
}

/* Of a command line; its error says so. */
static rg_status find_first(const char *mpirun)
{
    char word[PATH_MAX], path[PATH_MAX];
    mpirun += strspn(mpirun, " ");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(mpirun, " "), mpirun);
    return rg__find_program(word, path, sizeof path);
}

static rg_status refuse(const linked *l, const rg__which_mpi *which,
                        const char *program, const char *mpirun)
{
    char names[128];
    name_fits(l, names, sizeof names);
    if (mpirun == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "no mpirun of %s was found for %s; install it, put it "
                        "into PATH, or name it with --mpirun",
                        names, program);
    if (which->flavour == NULL && find_first(mpirun) != RG_OK)
        return rg__fail(RG_ERR_INVALID, "--mpirun \"%s\" can't be used: %.200s",
                        mpirun, rg_last_error());
    if (which->flavour == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "--mpirun \"%s\" can't be used: what it says to "
                        "--version is of no MPI that --mpi launches; name the "
                        "mpirun of %s",
                        mpirun, names);
    return rg__fail(RG_ERR_INVALID,
                    "--mpirun \"%s\" is of %s, and %s is linked with %s; name "
                    "the mpirun of that MPI, or leave --mpirun out",
                    mpirun, which->flavour->name, program, names);
}

rg_status rg__which_mpi_find(const char *program, const char *mpirun,
                             rg__which_mpi *which)
{
    linked l = {.fits = RG__FLAVOURS_ALL};
    memset(which, 0, sizeof *which);
    see_libraries(&l, program);
    if (l.fits == 0)
        return rg__fail(RG_ERR_INVALID,
                        "%s is linked with two MPIs; build it, and the "
                        "libraries that it uses, with the compiler of one of "
                        "them",
                        program);
    if (mpirun != NULL ? try(&l, which, mpirun) : search(&l, which))
        return RG_OK;
    return refuse(&l, which, program, mpirun);
}
