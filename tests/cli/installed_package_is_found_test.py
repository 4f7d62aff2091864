"""What `cmake --install` puts down is found by CMake and by pkg-config, also
after the tree has moved, and a program built against it runs at once; so do the
installed examples, that of MPI with each MPI's library, and the program of the
page about Fortran. The library of an MPI loads by its path alone.

Covers: regroup.h"""

import os
import re
import shutil
import subprocess
import tempfile

from command import BUILD, SOURCE, Claims, clean_environment, skip

PROGRAM = """#include <regroup/regroup.h>
#include <stdio.h>
int main(void)
{
    rg_ctx *ctx;
    if (rg_init(NULL, &ctx) != RG_OK)
        return 1;
    printf("regroup %s world %d\\n", rg_version(), rg_size(ctx));
    return rg_finalize(ctx) == RG_OK ? 0 : 1;
}
"""
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES C)
find_package(regroup 0.1 REQUIRED)
add_executable(user user.c)
target_link_libraries(user PRIVATE regroup::regroup)
"""


def run(*words, **environment):
    got = subprocess.run(words, text=True, capture_output=True, timeout=100,
                         env=clean_environment(**environment))
    claims.equal(got.returncode, 0, f"{' '.join(words)}: {got.stderr}")
    return got.stdout


def find(top, name):
    for folder, _, files in os.walk(top):
        if name in files:
            return folder
    return ""


with open(BUILD + "/CMakeCache.txt") as cache:
    if re.search(r"^REGROUP_SANITIZE:\w+=.", cache.read(), re.M):
        skip("a library with sanitizers is not for installing")

claims = Claims()
with tempfile.TemporaryDirectory(prefix="rg") as top:
    run("cmake", "--install", BUILD, "--prefix", top + "/first")
    prefix = top + "/moved"
    shutil.move(top + "/first", prefix)

    installed = sorted(os.path.relpath(os.path.join(folder, f), prefix)
                       for folder, _, files in os.walk(prefix) for f in files)
    headers = [f for f in installed if re.match(r"include/.*\.h$", f)]
    with_mpi = any("libregroup_mpi" in f for f in installed)
    claims.equal(headers, ["include/regroup/regroup.h",
                           "include/regroup/regroup_cuda.h"] +
                 ["include/regroup/regroup_mpi.h"] * with_mpi, "headers")
    for name in "bin/regroup", "libexec/regroup-rank":
        claims.hold(name in installed, f"{name} is installed")
    for path in installed:
        if not path.endswith((".cmake", ".pc")):
            continue
        with open(f"{prefix}/{path}") as file:
            text = file.read()
        claims.hold(SOURCE not in text and BUILD not in text,
                    f"{path} names the folder of its build")

    project = top + "/project"
    os.mkdir(project)
    for name, text in (("user.c", PROGRAM), ("CMakeLists.txt", PROJECT)):
        with open(f"{project}/{name}", "w") as file:
            file.write(text)

    run("cmake", "-G", "Ninja", "-S", project, "-B", project + "/build",
        "-DCMAKE_PREFIX_PATH=" + prefix)
    run("cmake", "--build", project + "/build")
    version = run(prefix + "/bin/regroup", "--version").split()[1]
    expected = f"regroup {version} world 1\n"
    claims.equal(run(project + "/build/user"), expected, "by find_package")

    pc = find(prefix, "regroup.pc")
    flags = run("pkg-config", "--cflags", "--libs", "regroup",
                PKG_CONFIG_PATH=pc).split()
    claims.equal(run("pkg-config", "--modversion", "regroup",
                     PKG_CONFIG_PATH=pc).strip(), version, "its version")
    run("gcc", project + "/user.c", "-o", top + "/user", *flags)
    claims.equal(run(top + "/user"), expected, "by pkg-config")
    examples = prefix + "/share/doc/regroup/examples"
    for name in "01_hello", "02_process_set", "03_elastic_digits":
        run("gcc", f"{examples}/{name}.c", "-o", f"{top}/{name}", *flags,
            "-lm")
    claims.hold("rank 0 of 1" in run(top + "/01_hello"), "the first example")
    for name in "06_elastic_cuda.cu", "07_gpt_cuda.cu", "gpt_net.cuh":
        claims.hold(os.path.exists(f"{examples}/{name}"), f"{name} is there")
    lib = find(prefix, "libregroup.so")
    claims.hold(not re.search("cuda|nccl", run(
        "ldd", os.path.join(lib, "libregroup.so"))),
        "neither CUDA nor NCCL is linked")
    for mpi in "openmpi", "mpich":
        if not find(prefix, f"regroup_mpi-{mpi}.pc") or \
                not shutil.which(f"mpicc.{mpi}"):
            continue
        flags = run("pkg-config", "--cflags", "--libs", f"regroup_mpi-{mpi}",
                    PKG_CONFIG_PATH=pc).split()
        run(f"mpicc.{mpi}", "-DWITH_REGROUP", examples + "/04_halo.c",
            "-o", top + "/halo", *flags, "-lm")
        needed = dict(re.findall(r"(\S+) => (\S+)", run("ldd",
                                                         top + "/halo")))
        for name in "libregroup.so.0", f"libregroup_mpi-{mpi}.so.0":
            claims.hold(os.path.samefile(needed[name], f"{lib}/{name}"),
                        f"halo takes {name} from {needed[name]}")
        beside = f"{lib}/libregroup_mpi-{mpi}.so.0"
        run("python3", "-c", f"import ctypes; ctypes.CDLL('{beside}')")
        claims.equal(run("ldd", "/bin/true", LD_PRELOAD=beside).count(
            "not found"), 0, f"what a preloaded {beside} lacks")
    if find(prefix, "regroup_fortran.pc"):
        with open(f"{prefix}/share/doc/regroup/docs/fortran.md") as page:
            text = page.read().split("```fortran\n")[1].split("```")[0]
        with open(top + "/hello.f90", "w") as file:
            file.write(text)
        flags = run("pkg-config", "--cflags", "--libs", "regroup_fortran",
                    PKG_CONFIG_PATH=pc).split()
        run("gfortran", top + "/hello.f90", "-o", top + "/hello", *flags)
        claims.hold("1 ranks:" in run(top + "/hello"), "in Fortran")
claims.end()
