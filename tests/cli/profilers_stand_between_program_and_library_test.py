"""Each function of the headers has a second name, prg_ for rg_: a profiler that is
linked before Regroup, or preloaded, takes the place of rg_x and calls prg_x. It
sees a call of the program once, also where Regroup calls that function itself.

Covers: regroup.h"""

import os
import re
import subprocess
import tempfile

from command import BUILD, SOURCE, Claims, clean_environment, skip

PROGRAM = """#include <regroup/regroup.h>
#include <stdio.h>
int main(void)
{
    rg_ctx *ctx;
    int one = 1, sum = 0;
    if (rg_init(NULL, &ctx) != RG_OK)
        return 1;
    for (int i = 0; i < 3; i++)
        if (rg_allreduce(rg_world(ctx), &one, &sum, 1, RG_I32, RG_SUM) != RG_OK)
            return 2;
    printf("sum %d\\n", sum);
    return rg_finalize(ctx) == RG_OK ? 0 : 3;
}
"""
PROFILER = """#include <regroup/regroup.h>
#include <stdio.h>
extern __typeof__(rg_allreduce) prg_allreduce;
extern __typeof__(rg_allreduce_start) prg_allreduce_start;
extern __typeof__(rg_finalize) prg_finalize;
static int calls, starts;
rg_status rg_allreduce(rg_set *set, const void *send, void *recv,
                       uint64_t count, rg_type type, rg_op op)
{
    calls++;
    return prg_allreduce(set, send, recv, count, type, op);
}
rg_status rg_allreduce_start(rg_set *set, const void *send, void *recv,
                             uint64_t count, rg_type type, rg_op op,
                             const rg_op_params *params, rg_req **req_p)
{
    starts++;
    return prg_allreduce_start(set, send, recv, count, type, op, params, req_p);
}
rg_status rg_finalize(rg_ctx *ctx)
{
    const rg_status st = prg_finalize(ctx);
    printf("calls %d starts %d\\n", calls, starts);
    return st;
}
"""
LIB = BUILD + "/lib"


def run(*words, **environment):
    got = subprocess.run(words, text=True, capture_output=True, timeout=100,
                         env=clean_environment(**environment))
    claims.equal(got.returncode, 0, f"{' '.join(words)}: {got.stderr}")
    return got.stdout


def every_function_has_a_second_name(library):
    at = {name: place for place, name in re.findall(
        r"^(\w+) \w (\w+)$", run("nm", "-D", f"{LIB}/{library}"), re.M)}
    names = [name for name in at if re.match(r"rg_[a-z]", name)]
    claims.hold(len(names) > 3, f"{library} has {names}")
    claims.equal([name for name in names if at.get("p" + name) != at[name]],
                 [], f"functions of {library} without a second name")


with open(BUILD + "/CMakeCache.txt") as cache:
    if re.search(r"^REGROUP_SANITIZE:\w+=.", cache.read(), re.M):
        skip("a library with sanitizers also calls itself by its first names")

claims = Claims()
for library in sorted(os.listdir(LIB)):
    if re.fullmatch(r"libregroup(_mpi-\w+)?\.so", library):
        every_function_has_a_second_name(library)
with tempfile.TemporaryDirectory(prefix="rg") as top:
    for name, text in ("program", PROGRAM), ("profiler", PROFILER):
        with open(f"{top}/{name}.c", "w") as file:
            file.write(text)
    flags = ["-I" + SOURCE + "/sdk/include", "-L" + LIB, "-lregroup",
             "-Wl,-rpath," + LIB]
    run("gcc", top + "/program.c", top + "/profiler.c", "-o", top + "/linked",
        *flags)
    run("gcc", top + "/program.c", "-o", top + "/plain", *flags)
    run("gcc", "-shared", "-fPIC", top + "/profiler.c", "-o",
        top + "/profiler.so", *flags)
    seen = "sum 1\ncalls 3 starts 0\n"
    claims.equal(run(top + "/plain"), "sum 1\n", "without a profiler")
    claims.equal(run(top + "/linked"), seen, "with one that is linked")
    claims.equal(run(top + "/plain", LD_PRELOAD=top + "/profiler.so"), seen,
                 "with one that is preloaded")
claims.end()
