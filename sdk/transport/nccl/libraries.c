/* Opening the CUDA driver and NCCL. api.h lists the calls that they must have;
 * this file handles a library that is missing, too old or unable to start. */
#include "sdk/transport/nccl/load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"

#define CUDA_NAME  "libcuda.so.1"
#define NCCL_NAME  "libnccl.so.2"
#define CUDA_LEAST 12000 /* the first driver that has all calls of api.h */
#define NCCL_LEAST "2.22"

/* ----------------------------------------------------------------- symbols */

typedef enum need { REQUIRED, OPTIONAL } need;

typedef struct entry {
    const char *symbol;
    need need;
    size_t offset; /* of the call's pointer in the table */
} entry;

static const entry cuda_calls[] = {
#define RG__X(need, type, member, symbol, arguments)                           \
    {#symbol, need, offsetof(rg__cuda, member)},
    RG__CUDA_CALLS(RG__X)
#undef RG__X
};

static const entry nccl_calls[] = {
#define RG__X(need, type, member, symbol, arguments)                           \
    {#symbol, need, offsetof(rg__nccl, member)},
    RG__NCCL_CALLS(RG__X)
#undef RG__X
};

/* A pointer to a function has the bits that dlsym returns (POSIX). */
static rg_status find_all(void *library, const char *name, const entry *calls,
                          size_t n, void *table)
{
    for (size_t i = 0; i < n; i++) {
        void *at = dlsym(library, calls[i].symbol);
        if (at == NULL && calls[i].need == REQUIRED)
            return rg__fail(RG_ERR_UNSUPPORTED,
                            "%s has no %s: it is too old, or another library; "
                            "device memory can't be used",
                            name, calls[i].symbol);
        memcpy((char *)table + calls[i].offset, &at, sizeof at);
    }
    return RG_OK;
}

/* -------------------------------------------------------------------- CUDA */

rg_status rg__cuda_fail(const rg__cuda *call, rg_status st, int result,
                        const char *what)
{
    const char *name = NULL, *text = NULL;
    call->error_name(result, &name);
    call->error_string(result, &text);
    return rg__fail(st, "%s: %s (%d)%s%s", what,
                    name != NULL ? name : "an unknown error", result,
                    text != NULL ? ", " : "", text != NULL ? text : "");
}

/* cuInit reports most of what can be wrong with a machine. */
static rg_status begin_driver(const rg__cuda *call, const char *name)
{
    const int rc = call->init(0);
    switch (rc) {
    case RG__CU_SUCCESS:
        return RG_OK;
    case RG__CU_ERROR_STUB_LIBRARY:
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "%s is the stub that programs are linked with, and no "
                        "driver; take it out of LD_LIBRARY_PATH",
                        name);
    case RG__CU_ERROR_NO_DEVICE:
        return rg__fail(RG_ERR_NOT_FOUND,
                        "the driver finds no device; look at nvidia-smi, and "
                        "at CUDA_VISIBLE_DEVICES");
    case RG__CU_ERROR_SYSTEM_NOT_READY:
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "the driver is not ready (802): the fabric manager is "
                        "not running; start nvidia-fabricmanager");
    case RG__CU_ERROR_SYSTEM_DRIVER_MISMATCH:
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "%s and the kernel's driver are of different versions "
                        "(803); restart the machine after an update, or fix "
                        "the container's driver files",
                        name);
    default:
        return rg__cuda_fail(call, RG_ERR_UNSUPPORTED, rc,
                             "the driver can't begin");
    }
}

static rg_status check_driver(const rg__cuda *call, int *version_p)
{
    const int rc = call->driver_version(version_p);
    if (rc != RG__CU_SUCCESS)
        return rg__cuda_fail(call, RG_ERR_UNSUPPORTED, rc,
                             "the driver does not tell its version");
    if (*version_p < CUDA_LEAST)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "the driver is for CUDA %d.%d, and Regroup needs one "
                        "for %d.0 or later",
                        *version_p / 1000, *version_p % 1000 / 10,
                        CUDA_LEAST / 1000);
    return RG_OK;
}

rg_status rg__cuda_open(const char *name, rg__cuda_library *cuda_p)
{
    rg__cuda_library cuda = {0};
    if (name == NULL)
        name = CUDA_NAME;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return rg__fail(RG_ERR_NOT_FOUND,
                        "%s can't be opened, so there is no NVIDIA driver and "
                        "device memory can't be used (REGROUP_CUDA_LIB): %s",
                        name, dlerror());
    rg_status st = find_all(library, name, cuda_calls,
                            sizeof cuda_calls / sizeof *cuda_calls, &cuda.call);
    if (st == RG_OK)
        st = begin_driver(&cuda.call, name);
    if (st == RG_OK)
        st = check_driver(&cuda.call, &cuda.version);
    if (st != RG_OK)
        return st;
    rg__cuda_note(&cuda.call);
    *cuda_p = cuda;
    return RG_OK;
}

/* -------------------------------------------------------------------- NCCL */

void rg__nccl_version_text(int version, char text[16])
{
    snprintf(text, 16, "%d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
}

static rg_status check_nccl(const rg__nccl *call, const char *name,
                            int *version_p)
{
    char text[16];
    const int rc = call->version(version_p);
    if (rc != RG__NCCL_Success)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "%s does not tell its version (%d): %s", name, rc,
                        call->error_string(rc));
    rg__nccl_version_text(*version_p, text);
    if (*version_p < RG__NCCL_MINIMUM)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "%s is NCCL %s: before " NCCL_LEAST
                        " several communicators can't be aborted together, "
                        "which a change of membership needs; install a later "
                        "one (REGROUP_NCCL_LIB)",
                        name, text);
    return RG_OK;
}

/* A library that the process has loaded is used: two copies of NCCL would each
 * have their own idea of the device. */
static void *open_nccl(const char *name, const char **as_p)
{
    *as_p = name != NULL ? name : NCCL_NAME;
    if (name == NULL && dlsym(RTLD_DEFAULT, "ncclGetVersion") != NULL)
        return dlopen(NULL, RTLD_NOW);
    return dlopen(*as_p, RTLD_NOW | RTLD_LOCAL);
}

/* RCCL has NCCL's calls, but is built on HIP, which lacks some of CUDA's. */
static rg_status check_is_nccl(void *library, const char *name)
{
    if (dlsym(library, "hipInit") != NULL)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "%s is RCCL, for AMD's GPUs, and Regroup uses NVIDIA's "
                        "only (REGROUP_NCCL_LIB); reduce in host memory there",
                        name);
    return RG_OK;
}

static void note_path(rg__nccl_library *nccl, const char *name)
{
    Dl_info where = {0};
    void *at = NULL;
    memcpy(&at, &nccl->call.version, sizeof at);
    const bool is_known = dladdr(at, &where) != 0 && where.dli_fname != NULL;
    snprintf(nccl->path, sizeof nccl->path, "%s",
             is_known ? where.dli_fname : name);
}

rg_status rg__nccl_open(const char *name, rg__nccl_library *nccl_p)
{
    rg__nccl_library nccl = {0};
    void *library = open_nccl(name, &name);
    if (library == NULL)
        return rg__fail(RG_ERR_NOT_FOUND,
                        "%s can't be opened, so there is no NCCL and device "
                        "memory can't be used (REGROUP_NCCL_LIB): %s",
                        name, dlerror());
    rg_status st = check_is_nccl(library, name);
    if (st == RG_OK)
        st = find_all(library, name, nccl_calls,
                      sizeof nccl_calls / sizeof *nccl_calls, &nccl.call);
    if (st == RG_OK)
        note_path(&nccl, name);
    if (st == RG_OK)
        st = check_nccl(&nccl.call, nccl.path, &nccl.version);
    if (st == RG_OK)
        *nccl_p = nccl;
    return st;
}

/* ------------------------------------------------------------- environment */

/* NCCL reads these for the whole process. COMM_ID gives all communicators one
 * fixed rendezvous, which would mix those of two generations. */
rg_status rg__nccl_check_environment(void)
{
    const char *id = getenv("NCCL_COMM_ID");
    if (id != NULL)
        return rg__fail(RG_ERR_INVALID,
                        "NCCL_COMM_ID is set (%s): communicators of different "
                        "generations would mix; unset it, also in nccl.conf",
                        id);
    return RG_OK;
}

/* COMM_BLOCKING would override what Regroup chooses for each communicator; -1
 * is neither. A failing rendezvous is retried for 3 s and not for a minute; a
 * value that the user has set stays. */
void rg__nccl_prepare_environment(void)
{
    setenv("NCCL_COMM_BLOCKING", "-1", 1);
    setenv("NCCL_SOCKET_RETRY_CNT", "10", 0);
    setenv("NCCL_SOCKET_RETRY_SLEEP_MSEC", "50", 0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}
