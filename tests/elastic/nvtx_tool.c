/* A stand-in for NVIDIA's tools: NVTX loads it by NVTX_INJECTION64_PATH, and it
 * writes each range's beginning and end into a file per process, below the
 * directory NVTX_TOOL_OUT. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int out = -1;
static _Atomic uint64_t ranges;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (write(out, line, (size_t)n) != n)
        abort();
}

static nvtxDomainHandle_t create(const char *name)
{
    say("domain %s\n", name);
    return (nvtxDomainHandle_t)&out;
}

static nvtxRangeId_t start(nvtxDomainHandle_t domain,
                           const nvtxEventAttributes_t *range)
{
    (void)domain;
    const uint64_t id = ++ranges;
    say("begin %llu %s\n", (unsigned long long)id, range->message.ascii);
    return id;
}

static void end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
    (void)domain;
    say("end %llu\n", (unsigned long long)id);
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table)
{
    char path[512];
    unsigned n = 0;
    NvtxFunctionTable to = NULL;
    const NvtxExportTableCallbacks *callbacks = table(NVTX_ETID_CALLBACKS);
    snprintf(path, sizeof path, "%s/%d", getenv("NVTX_TOOL_OUT"), getpid());
    out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (callbacks == NULL || out < 0 ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &to, &n) ||
        n <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *to[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *to[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)start;
    *to[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)end;
    return 1;
}
