/* The table of MPIs. */
#include "elastic/agent/mpirun/flavour.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/wire.h"

#define LIST(...)   ((const char *const[]){__VA_ARGS__, NULL})
#define PLACES(...) ((const rg__flavour_place[]){__VA_ARGS__, {NULL, NULL}})

/* Daemons stay below the process that has started them, and none starts
 * another. What a person sets stays: OMPI_MCA_btl, PMIX_MCA_gds,
 * MPIR_CVAR_ASYNC_PROGRESS and the like. */
#define PMIX_OWN                                                               \
    "PMIX_RANK", "PMIX_NAMESPACE", "PMIX_ID", "PMIX_HOSTNAME", "PMIX_VERSION", \
        "PMIX_SERVER_", "PMIX_SYSTEM_", "PMIX_SECURITY_", "PMIX_BFROP_",       \
        "PMIX_GDS_", "PMIX_PTL_", "PMIX_DSTORE_", "PMIX_PARAM_"
#define OMPI_OWN                                                               \
    "OMPI_COMM_", "OMPI_UNIVERSE_", "OMPI_APP_", "OMPI_FIRST_", "OMPI_NUM_",   \
        "OMPI_FILE_", "OMPI_ARGV", "OMPI_COMMAND", "OMPI_MCA_initial_wdir"
#define OMPI_LIBRARIES LIST("libmpi.so.40", "libmpi_mpifh.so.40")
#define OMPI_COMMANDS  LIST("mpirun.openmpi", "mpirun")
#define OMPI_NO_FABRIC "OMPI_MCA_pml=^cm,ucx"
#define OMPI_FILE      ".openmpi/mca-params.conf"
#define OMPI_PREFIX    "OMPI_MCA_"
/* Otherwise it would take its hosts from the allocation that it runs in (Slurm,
 * PBS and the like), and know none of ours. */
#define ALLOCATIONS "slurm,tm,pbs,gridengine,lsf,flux,alps,loadleveler"

static const rg__flavour flavours[RG__FLAVOURS] = {
    {.name = "Open MPI 4.1",
     .ours = "openmpi",
     .libraries = OMPI_LIBRARIES,
     .commands = OMPI_COMMANDS,
     .versions = LIST("(Open MPI) 4.1", "(OpenRTE) 4.1"),
     .flags = LIST("--mca", "plm", "rsh", "--mca", "plm_rsh_agent",
                   "@ " RG__CMD_PROXY, "--mca", "plm_rsh_no_tree_spawn", "1",
                   "--mca", "ras", "^" ALLOCATIONS, "--leave-session-attached"),
     .variables = LIST(NULL),
     .rank = "OMPI_COMM_WORLD_RANK",
     .own = LIST(OMPI_OWN, PMIX_OWN, "OMPI_MCA_orte_", "OMPI_MCA_ess",
                 "OMPI_MCA_pmix", "OMPI_MCA_mpi_oversubscribe"),
     .no_fabric = LIST(OMPI_NO_FABRIC),
     .no_device = LIST(NULL),
     .file = OMPI_FILE,
     .prefix = OMPI_PREFIX,
     .places = PLACES({"/tmp", "OMPI_MCA_orte_tmpdir_base"},
                      {"/dev/shm", "OMPI_MCA_btl_vader_backing_directory"},
                      {"/dev/shm", "OMPI_MCA_osc_sm_backing_directory"},
                      {"/dev/shm", "OMPI_MCA_osc_rdma_backing_directory"})},
    {.name = "Open MPI 5",
     .ours = "openmpi",
     .libraries = OMPI_LIBRARIES,
     .commands = OMPI_COMMANDS,
     .versions = LIST("(Open MPI) 5."),
     .flags =
         LIST("--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent",
              "@ " RG__CMD_PROXY, "--prtemca", "plm_ssh_no_tree_spawn", "1",
              "--prtemca", "ras", "^" ALLOCATIONS, "--leave-session-attached"),
     .variables = LIST(NULL),
     /* Of its ways to carry messages only ob1 tells of failures. Between hosts
      * han is its collectives' first choice, and ignores failures: a sum was
      * wrong, and the call's result MPI_SUCCESS. Its own list for ULFM leaves
      * out the last two. Endpoints are made in MPI_Init: a revoke that first
      * asks for the address of a dead rank waits for that forever. */
     .ulfm = LIST("--with-ft", "ulfm", "--mca", "pml", "ob1", "--mca", "coll",
                  "^han,adapt,hcoll,portals4", "--mca", "mpi_add_procs_cutoff",
                  "1000000"),
     .rank = "PMIX_RANK",
     .own =
         LIST(OMPI_OWN, PMIX_OWN, "OMPI_WORLD_", "OMPI_LIBDIR_", "OMPI_TOOL_",
              "OMPI_VERSION", "OMPI_MCA_PREFIXES", "OMPI_MCA_num_",
              "OMPI_MCA_cpu_type", "PRTE_LAUNCHED", "PRTE_SHARED_FS"),
     /* Where libfabric finds no network, btl/ofi sleeps for a second. */
     .no_fabric = LIST(OMPI_NO_FABRIC, "OMPI_MCA_btl=^ofi"),
     .no_device = LIST(NULL),
     .file = OMPI_FILE,
     .prefix = OMPI_PREFIX,
     .places = PLACES({"/tmp", "PRTE_MCA_prte_tmpdir_base"},
                      {"/dev/shm", "OMPI_MCA_btl_sm_backing_directory"},
                      {"/dev/shm", "OMPI_MCA_osc_sm_backing_directory"},
                      {"/dev/shm", "OMPI_MCA_osc_rdma_backing_directory"})},
    /* Ranks on other hosts have their agent's variables, as with the others. */
    {.name = "MPICH",
     .ours = "mpich",
     .libraries = LIST("libmpich.so", "libmpichfort.so", "libmpichcxx.so",
                       "libmpi.so.12", "libmpifort.so.12", "libmpi_abi.so"),
     .commands = LIST("mpirun.mpich", "mpiexec.hydra", "mpirun"),
     .versions = LIST("HYDRA build details"),
     .flags = LIST("-genvnone", "-launcher", "rsh", "-launcher-exec", "@"),
     /* On its own host too: no agent knows what it starts there itself, and it
      * does not notice that such a daemon ends while a rank lives. */
     .variables = LIST("HYDRA_LAUNCHER_EXTRA_ARGS=" RG__CMD_PROXY,
                       "HYDRA_LAUNCHER_AUTOFORK=0"),
     .hosts = "-hosts",
     .awaits_daemons = true, /* since 4.2 */
     .aborts_by_kill = true,
     .broken_code = 15, /* MPI_ERR_OTHER */
     .leaves_clients = true,
     .rank = "PMI_RANK",
     .own =
         LIST("PMI_", "HYDI_", "MPI_LOCAL", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME"),
     .no_fabric = LIST(NULL),
     /* Each rank lists the devices, and has UCX look for ways to carry data:
      * TCP is left, for between hosts, as MPICH itself carries them inside. */
     .no_device =
         LIST("HWLOC_COMPONENTS=-pci,-linuxio,-gl,-opencl", "UCX_TLS=tcp,self"),
     .places = PLACES({"/dev/shm", "UCX_POSIX_DIR"})},
};

const rg__flavour *rg__flavour_at(int i)
{
    return &flavours[i];
}

static bool begins(const char *const *list, const char *text)
{
    for (; *list != NULL; list++)
        if (strncmp(text, *list, strlen(*list)) == 0)
            return true;
    return false;
}

unsigned rg__flavours_with(const char *library)
{
    unsigned with = 0;
    for (int i = 0; i < RG__FLAVOURS; i++)
        with |= (unsigned)begins(flavours[i].libraries, library) << i;
    return with;
}

const rg__flavour *rg__flavour_that_says(const char *text)
{
    for (int i = 0; i < RG__FLAVOURS; i++)
        for (const char *const *v = flavours[i].versions; *v != NULL; v++)
            if (strstr(text, *v) != NULL)
                return &flavours[i];
    return NULL;
}

const rg__flavour *rg__flavour_here(void)
{
    for (int i = 0; i < RG__FLAVOURS; i++)
        if (getenv(flavours[i].rank) != NULL)
            return &flavours[i];
    return NULL;
}

int rg__flavour_rank(void)
{
    const rg__flavour *here = rg__flavour_here();
    return here == NULL ? -1 : (int)strtol(getenv(here->rank), NULL, 10);
}

bool rg__flavours_have_set(const char *variable)
{
    for (int i = 0; i < RG__FLAVOURS; i++)
        if (begins(flavours[i].own, variable))
            return true;
    return false;
}
