"""The wheel of regroup: the package, and what the build has whose libregroup.so
REGROUP_LIBRARY names, if it is set: the libraries and the compiled part beside
it, the program `regroup`, and copies of what they need of the system beyond
glibc, so that a machine needs nothing else. MPI is the machine's own.

With libraries the wheel is for machines with this one's glibc or a newer one,
and for any Python: one that the compiled part does not fit does without.
Without, it is for any platform.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).parent
LIBRARY = os.environ.get("REGROUP_LIBRARY")


def version():
    """As the package says, which is compared with the library's on import."""
    text = (HERE / "regroup" / "_abi.py").read_text(encoding="utf-8")
    return re.search(r'^VERSION = "(.*)"$', text, re.M).group(1)


# What every manylinux machine has; of another copy there would be two.
OF_THE_SYSTEM = re.compile(
    r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|gcc_s))\.so.*")


def run(*command, may_fail=False):
    """What a tool prints."""
    try:
        return subprocess.run(
            command, check=not may_fail, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if may_fail else None).stdout
    except FileNotFoundError:
        sys.exit(f"a wheel with libraries is made with {command[0]}, which is "
                 f"not installed; apt-get install {command[0]}")


def built():
    """The path of each file of the build, and where the package has it."""
    library = pathlib.Path(LIBRARY)
    if not library.is_file():
        sys.exit(f"REGROUP_LIBRARY names {LIBRARY}, and there is no such file "
                 f"(seen from {os.getcwd()}); name it from the root, as in "
                 '"$PWD/build/release/lib/libregroup.so"')
    major = "so." + version().split(".", maxsplit=1)[0]
    yield library, f"lib/libregroup.{major}"
    for name in "bin/regroup", "libexec/regroup-rank":
        program = library.parent.parent / name
        if not program.is_file():
            sys.exit(f"there is no {program}; `ci/build release` makes all")
        yield program, name
    for pattern in (f"libregroup_mpi-*.{major}", "libregroup_interpose-*.so",
                    "regroup_fast.abi3.so"):
        for path in library.parent.glob(pattern):
            yield path, f"lib/{path.name}"


def needed(path):
    """The paths of the libraries that a file needs of the system."""
    for line in run("ldd", str(path)).splitlines():
        name, _, found = line.strip().partition(" => ")
        if found and not OF_THE_SYSTEM.fullmatch(name) and \
                not name.startswith("libregroup"):
            yield pathlib.Path(found.split()[0])


def terms(libraries):
    """The files that say under which terms Debian has them; it knows a library
    by its path with /usr or by that without."""
    paths = [str(path.resolve()) for path in libraries]
    found = run("dpkg", "-S", *paths, *(path.removeprefix("/usr")
                                        for path in paths), may_fail=True)
    for line in found.splitlines():
        yield pathlib.Path("/usr/share/doc", line.split(":")[0], "copyright")


class BuildPy(build_py):
    """Adds the build's files, and what they need."""

    def run(self):
        super().run()
        if LIBRARY:
            self.add(pathlib.Path(self.build_lib, "regroup"))

    @staticmethod
    def add(folder):
        """Each finds the others from where it lies."""
        for name in ("lib", "bin", "libexec", "terms"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        libraries = set()
        for path, place in built():
            shutil.copy(path, folder / place)
            run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib",
                str(folder / place))
            if "_mpi-" not in place and "_interpose-" not in place:
                libraries.update(needed(path))
        for path in libraries:
            shutil.copy(path, folder / "lib")
        for path in terms(libraries):
            shutil.copy(path, folder / "terms" / path.parent.name)


class Wheel(bdist_wheel):
    """One for any Python, and for the glibc that it was built with."""

    def get_tag(self):
        *_, platform = super().get_tag()
        if LIBRARY:
            glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
            platform = platform.replace(
                "linux", "manylinux_" + glibc.replace(".", "_"), 1)
        return "py3", "none", platform


class WithLibraries(Distribution):
    """For this platform where there are libraries."""

    def has_ext_modules(self):
        return bool(LIBRARY)


setup(version=version(), distclass=WithLibraries,
      cmdclass={"build_py": BuildPy, "bdist_wheel": Wheel})
