/* A session, its set and its communicator. */
#include "sdk/transport/mpi/session.h"

#include <stdio.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/transport/mpi/lost.h"
#include "sdk/transport/mpi/peer_watch.h"

#if MPI_VERSION >= 4
typedef MPI_Session handle;
#else
typedef void *handle; /* Open MPI 5's, which 4.1's header does not name */
#endif

#define TAG        "regroup.world"
#define LEVEL      "thread_level"
#define NAMES_MAX  256
#define TEXT_MAX   64
#define NAME_BYTES 128

static struct session {
    int (*init)(MPI_Info, MPI_Errhandler, handle *);
    int (*finalize)(handle *);
    int (*get_info)(handle, MPI_Info *);
    int (*num_psets)(handle, MPI_Info, int *);
    int (*nth_pset)(handle, MPI_Info, int, int *, char *);
    int (*group)(handle, const char *, MPI_Group *);
    int (*create)(MPI_Group, const char *, MPI_Info, MPI_Errhandler,
                  MPI_Comm *);
    handle at;
    bool is_open, is_over, has_world;
} session;

static rg_status look_up_all(void)
{
    char name[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int bytes = 0;
    if (rg__mpi_look_up("MPI_Session_init", &session.init) &&
        rg__mpi_look_up("MPI_Session_finalize", &session.finalize) &&
        rg__mpi_look_up("MPI_Session_get_info", &session.get_info) &&
        rg__mpi_look_up("MPI_Session_get_num_psets", &session.num_psets) &&
        rg__mpi_look_up("MPI_Session_get_nth_pset", &session.nth_pset) &&
        rg__mpi_look_up("MPI_Group_from_session_pset", &session.group) &&
        rg__mpi_look_up("MPI_Comm_create_from_group", &session.create))
        return RG_OK;
    MPI_Get_library_version(name, &bytes);
    return rg__fail(RG_ERR_UNSUPPORTED,
                    "this MPI (%.*s) has no sessions; run the program on Open "
                    "MPI 5 or MPICH 4, or call rg_init_mpi",
                    (int)strcspn(name, ",\n\t"), name);
}

/* ------------------------------------------------------------------ opening */

static rg_status begin(void)
{
    MPI_Info info;
    rg_status st = rg__mpi_status("MPI_Info_create", MPI_Info_create(&info));
    if (st != RG_OK)
        return st;
    MPI_Info_set(info, LEVEL, "MPI_THREAD_MULTIPLE");
    st = rg__mpi_status("MPI_Session_init",
                        session.init(info, MPI_ERRORS_RETURN, &session.at));
    MPI_Info_free(&info);
    session.is_open = st == RG_OK;
    return st;
}

/* MPI may provide another level than was asked for. */
static int level_of_session(void)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE},
                  {"MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED},
                  {"MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED}};
    char text[TEXT_MAX] = "";
    int is_there = 0;
    MPI_Info info;
    if (session.get_info(session.at, &info) != MPI_SUCCESS)
        return MPI_THREAD_SINGLE;
    MPI_Info_get(info, LEVEL, TEXT_MAX - 1, text, &is_there);
    MPI_Info_free(&info);
    for (size_t i = 0; is_there && i < sizeof levels / sizeof *levels; i++)
        if (strcmp(text, levels[i].name) == 0)
            return levels[i].level;
    return MPI_THREAD_SINGLE;
}

/* List the sets ("mpi://WORLD, mpi://SELF") and look for this one: MPICH 4.0
 * ends a process that asks for an unknown set. */
static bool find_pset(const char *pset, char names[NAMES_MAX])
{
    size_t used = 0;
    int n = 0;
    bool is_found = false;
    names[0] = '\0';
    session.num_psets(session.at, MPI_INFO_NULL, &n);
    for (int i = 0; i < n; i++) {
        char name[NAME_BYTES] = "";
        int bytes = NAME_BYTES;
        session.nth_pset(session.at, MPI_INFO_NULL, i, &bytes, name);
        is_found = is_found || strcmp(name, pset) == 0;
        if (used < NAMES_MAX - 1)
            used += (size_t)snprintf(names + used, NAMES_MAX - used, "%s%s",
                                     i > 0 ? ", " : "", name);
    }
    return is_found;
}

/* Open MPI 5.0 crashes in a session that follows another one: so a process has
 * only one, even if a set is not found. */
rg_status rg__session_open(const char *pset)
{
    char names[NAMES_MAX];
    if (session.is_over)
        return rg__fail(RG_ERR_INVALID,
                        "rg_init_session was called before; call it once per "
                        "process");
    rg_status st = session.is_open ? RG_OK : look_up_all();
    if (st == RG_OK && !session.is_open)
        st = begin();
    if (st != RG_OK || find_pset(pset, names))
        return st;
    return rg__fail(RG_ERR_INVALID,
                    "rg_init_session: MPI knows no process set %.100s; it "
                    "knows %s",
                    pset, names);
}

rg_status rg__session_meet(const char *pset, MPI_Comm *comm_p, int *level_p)
{
    MPI_Group group;
    rg_status st = rg__mpi_status("MPI_Group_from_session_pset",
                                  session.group(session.at, pset, &group));
    if (st != RG_OK)
        return st;
    rg__wait wait = {.call = "MPI_Comm_create_from_group"};
    rg__watch_enter(&wait);
    st =
        rg__mpi_status(wait.call, session.create(group, TAG, MPI_INFO_NULL,
                                                 MPI_ERRORS_ARE_FATAL, comm_p));
    rg__watch_leave(&wait);
    MPI_Group_free(&group);
    session.has_world = st == RG_OK;
    *level_p = level_of_session();
    return st;
}

bool rg__session_has_world(void)
{
    return session.has_world;
}

void rg__session_close(void)
{
    session.has_world = false;
    if (!session.is_open)
        return;
    rg__wait wait = {.call = "MPI_Session_finalize"};
    rg__watch_enter(&wait);
    session.finalize(&session.at);
    rg__watch_leave(&wait);
    session.is_open = false;
    session.is_over = true;
}
