"""`regroup doctor` has one sentence for each state of the driver and of NCCL.

Covers: doctor_device.c libraries.c"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"], "tests/cli"))

from command import REGROUP, SOURCE, Claims, RunDir  # noqa: E402

# Every call of both libraries, answering 0; a test says what some do instead.
ALL = """
#include "sdk/transport/nccl/api.h"
#define X(need, type, member, symbol, arguments) \\
    __attribute__((weak)) type symbol arguments { return 0; }
RG__CUDA_CALLS(X)
RG__NCCL_CALLS(X)
"""
DRIVER = """
#include <stdio.h>
int cuDriverGetVersion(int *p) { *p = 12040; return 0; }
int cuDeviceGetCount(int *p) { *p = 2; return 0; }
int cuDeviceGetName(char *t, int n, int d)
{ (void)d; return !snprintf(t, (size_t)n, "Test Device"); }
"""
NCCL = "int ncclGetVersion(int *p) { *p = %d; return 0; }"
RCCL = "int hipInit(unsigned f) { (void)f; return 0; }"
INIT = DRIVER + "int cuInit(unsigned f) { (void)f; return %d; }"
HANG = DRIVER + """
#include <unistd.h>
int cuInit(unsigned f) { (void)f; for (;;) pause(); }
"""
EXCLUSIVE = DRIVER + """
int cuDeviceGetAttribute(int *p, int a, int d) { (void)d; return (*p = a == 20
? 3 : 0) < 0; }
"""

CUDA_CASES = [
    ("two devices", DRIVER, [], "ok", "driver for CUDA 12.4, 2 x Test Device"),
    ("a stub", INIT % 34, [], "fail", "is the stub that programs are linked"),
    ("no device", INIT % 100, [], "fail", "the driver finds no device"),
    ("no fabric manager", INIT % 802, [], "fail", "the fabric manager"),
    ("another code", INIT % 46, [], "fail", "can't begin: an unknown error (46)"),
    ("a call is missing", DRIVER, ["-DcuMemAlloc_v2=other"], "fail",
     "has no cuMemAlloc_v2"),
    ("old", DRIVER.replace("12040", "11080"), [], "fail",
     "for CUDA 11.8, and Regroup needs one for 12.0"),
    ("one process per device", EXCLUSIVE, [], "weak", "EXCLUSIVE_PROCESS"),
    ("a crash", INIT % 0 + "int __attribute__((constructor)) f(void)"
     "{ __builtin_trap(); }", [], "fail", "crashed"),
    ("a hang", HANG, [], "fail", "no answer within 10 s"),
]
NCCL_CASES = [
    ("new", NCCL % 22809, [], {}, "ok", "2.28.9, "),
    ("slow to abort", NCCL % 22403, [], {}, "weak", "before 2.26.2"),
    ("too old", NCCL % 22105, [], {}, "fail",
     "before 2.22 several communicators"),
    ("a call is missing", NCCL % 22809, ["-DncclCommSplit=other"], {}, "fail",
     "has no ncclCommSplit"),
    ("of AMD's", NCCL % 22707 + RCCL, [], {}, "fail", "is RCCL, for AMD's"),
    ("a fixed meeting place", NCCL % 22809, [],
     {"NCCL_COMM_ID": "10.0.0.1:99"}, "fail", "NCCL_COMM_ID is set"),
    ("names of hosts", NCCL % 22809, [], {"NCCL_HOSTID": "a"}, "weak",
     "NCCL_HOSTID is set"),
    ("a mode for all", NCCL % 22809, [], {"NCCL_COMM_BLOCKING": "0"}, "weak",
     "NCCL_COMM_BLOCKING is set, and changes nothing"),
    ("launches that wait", NCCL % 22809, [], {"CUDA_LAUNCH_BLOCKING": "1"},
     "weak", "CUDA_LAUNCH_BLOCKING is 1: a launch waits"),
    ("one connection", NCCL % 22809, [],
     {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, "weak",
     "CUDA_DEVICE_MAX_CONNECTIONS is 1"),
    ("many connections", NCCL % 22809, [],
     {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "CUDA_LAUNCH_BLOCKING": "0"}, "ok",
     "2.28.9, "),
    ("no such interface", NCCL % 22809, [],
     {"NCCL_SOCKET_IFNAME": "=lo2,nowhere"}, "fail",
     "NCCL_SOCKET_IFNAME is =lo2,nowhere, and no interface"),
    ("all but one", NCCL % 22809, [], {"NCCL_SOCKET_IFNAME": "^nowhere"},
     "ok", "2.28.9, "),
    ("an interface", NCCL % 22809, [], {"NCCL_SOCKET_IFNAME": "nowhere,lo"},
     "ok", "2.28.9, "),
]
claims = Claims()


def make(folder, name, text, flags):
    """A library of this text and all that it leaves out."""
    library, sources = f"{folder}/{name}.so", []
    for source, content in (("all.c", ALL), ("own.c", text)):
        sources.append(os.path.join(folder, source))
        with open(sources[-1], "w") as file:
            file.write(content)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-I", SOURCE, *flags,
                    *sources, "-o", library], check=True)
    return library


def line_of(run_dir, name, **environment):
    """(verdict, sentence) of that line."""
    got = subprocess.run([REGROUP, "doctor"], text=True, capture_output=True,
                         env=run_dir.environment(**environment), timeout=60,
                         check=False)
    for line in got.stdout.splitlines():
        if line[6:24].strip() == name:
            return line[:4].strip(), line[6:]
    return None, got.stdout + got.stderr


def hold(case, found, verdict, text):
    claims.equal(found[0], {"weak": "warn"}.get(verdict, verdict), case)
    claims.hold(text in found[1], f"{case}: {found[1]}")


with RunDir() as d:
    for case, text, flags, verdict, says in CUDA_CASES:
        library = make(d.path, "cuda", text, flags)
        hold(case, line_of(d, "cuda", REGROUP_CUDA_LIB=library), verdict, says)
    for case, text, flags, env, verdict, says in NCCL_CASES:
        library = make(d.path, "nccl", text, flags)
        hold(case, line_of(d, "nccl", REGROUP_NCCL_LIB=library, **env),
             verdict, says)
    make(d.path, "librccl.so", NCCL % 22707 + RCCL, [])
    os.rename(d.path + "/librccl.so.so", d.path + "/librccl.so.1")
    with open(d.path + "/libnccl.so.2", "w") as none:
        none.write("where there is none")
    hold("AMD's in place of NVIDIA's", line_of(
        d, "nccl", LD_LIBRARY_PATH=d.path), "weak",
        "librccl.so.1 is RCCL, for AMD's")
    nowhere = d.path + "/none.so"
    hold("named and absent", line_of(d, "cuda", REGROUP_CUDA_LIB=nowhere),
         "fail", "can't be opened")
    hold("named and absent", line_of(d, "nccl", REGROUP_NCCL_LIB=nowhere),
         "fail", "can't be opened")
claims.end()
