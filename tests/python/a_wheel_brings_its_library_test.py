"""A wheel that is built without network carries the library, and a program of
a job finds it there: with no source tree, no REGROUP_LIBRARY, and nothing in
the loader's path. One without a library says how to name one. README's own
commands make and install it, and a library that is not there is named."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import pyjob
from house import BUILD, SOURCE, claim

PROGRAM = """
import sys
import regroup
assert regroup._abi.LIBRARY.startswith(sys.argv[1]), regroup._abi.LIBRARY
with regroup.init() as ctx:
    assert ctx.world.allreduce(bytearray(b"abc"), op=regroup.MAX) == b"abc"
    print(f"{regroup.__version__} among {ctx.size}")
"""


def pip(python, *arguments, **more):
    """Without index, cache, configuration and the user's own packages."""
    done = subprocess.run(
        [python, "-m", "pip", "--isolated", "--no-cache-dir",
         "--disable-pip-version-check", *arguments], check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=dict(os.environ, PIP_NO_INDEX="1", **more))
    if done.returncode != 0:
        sys.exit(f"pip {arguments} failed:\n{done.stdout}")


def install(python, folder, library):
    """Where a wheel of a copy of the sources was installed."""
    package, wheels, target = (os.path.join(folder, name) for name in
                               ("package", "wheels", "target"))
    shutil.copytree(os.path.join(os.environ["REGROUP_SOURCE"], "sdk/python"),
                    package)
    pip(python, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels,
        package, REGROUP_LIBRARY=library)
    wheel, = glob.glob(os.path.join(wheels, "*.whl"))
    pip(python, "install", "--no-deps", "--target", target, wheel)
    return wheel, target


def follow_readme(python, folder):
    """As in a tree after ci/build release, with this python as python3."""
    shutil.copytree(os.path.join(SOURCE, "sdk/python"),
                    os.path.join(folder, "sdk/python"))
    os.makedirs(os.path.join(folder, "build/release"))
    os.symlink(os.path.join(BUILD, "lib"),
               os.path.join(folder, "build/release/lib"))
    shim, target = (os.path.join(folder, name) for name in ("python3", "to"))
    with open(shim, "w", encoding="utf-8") as script:
        script.write(f'#!/bin/sh\nexec {python} "$@"\n')
    os.chmod(shim, 0o755)
    with open(os.path.join(SOURCE, "sdk/python/README.md"),
              encoding="utf-8") as readme:
        commands = re.search(r"## Installing.*?```\n(.*?)```", readme.read(),
                             re.S).group(1)
    done = subprocess.run(
        ["sh", "-ec", commands], check=False, text=True, cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}",
                 PIP_NO_INDEX="1", PIP_TARGET=target))
    claim(done.returncode == 0, f"{commands} failed:\n{done.stdout}")
    output = pyjob.job(2, [python, "-c", PROGRAM, target], PYTHONPATH=target,
                       REGROUP_LIBRARY="")
    claim(output.count("0.1.0 among 2") == 2, output)
    lost = commands.replace("$PWD/build", "build")
    done = subprocess.run(["sh", "-ec", lost], check=False, cwd=folder,
                          text=True, capture_output=True, env=dict(
                              os.environ, PATH=f"{folder}:/usr/bin:/bin",
                              PIP_NO_INDEX="1"))
    claim(done.returncode != 0 and "name it from the root" in
          done.stdout + done.stderr, f"{lost} says:\n{done}")


def test():
    python = pyjob.python_with("setuptools", "wheel", "pip")
    with tempfile.TemporaryDirectory(prefix="rg-wheel-") as folder:
        os.mkdir(os.path.join(folder, "with"))
        wheel, target = install(
            python, os.path.join(folder, "with"),
            os.path.join(BUILD, "lib/libregroup.so"))
        claim("py3-none-linux" in wheel, f"{wheel} names no platform")
        names = zipfile.ZipFile(wheel).namelist()
        claim("regroup/lib/libregroup.so.0" in names and
              "regroup/py.typed" in names, f"something is missing: {names}")
        output = pyjob.job(2, [python, "-c", PROGRAM, target],
                           PYTHONPATH=target, REGROUP_LIBRARY="")
        claim(output.count("0.1.0 among 2") == 2, output)

        os.mkdir(os.path.join(folder, "without"))
        wheel, target = install(python, os.path.join(folder, "without"), "")
        claim("py3-none-any" in wheel, f"{wheel} is for one platform")
        output = pyjob.run([python, "-c", "import regroup"], 1,
                           PYTHONPATH=target, REGROUP_LIBRARY="")
        claim("ImportError" in output and "REGROUP_LIBRARY" in output, output)

        os.mkdir(os.path.join(folder, "tree"))
        follow_readme(python, os.path.join(folder, "tree"))


pyjob.main(None, test=test)
