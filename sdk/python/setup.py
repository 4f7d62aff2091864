"""The wheel of regroup: the package, and the libraries that REGROUP_LIBRARY
names if it is set: libregroup.so, and beside it those of libregroup_mpi and the
compiled part.

With libraries the wheel is for this platform, and for any Python: one that the
compiled part does not fit does without. Without, it is for any platform.
"""

import os
import pathlib
import re
import shutil
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


def libraries():
    """Each library, and its name behind the soname."""
    library = pathlib.Path(LIBRARY)
    if not library.is_file():
        sys.exit(f"REGROUP_LIBRARY names {LIBRARY}, and there is no such file "
                 f"(seen from {os.getcwd()}); name it from the root, as in "
                 '"$PWD/build/release/lib/libregroup.so"')
    major = "so." + version().split(".", maxsplit=1)[0]
    yield library, f"libregroup.{major}"
    for path in library.parent.glob(f"libregroup_mpi-*.{major}"):
        yield path, path.name
    for path in library.parent.glob("regroup_fast.abi3.so"):
        yield path, path.name


class BuildPy(build_py):
    """Adds the libraries."""

    def run(self):
        super().run()
        if LIBRARY:
            folder = pathlib.Path(self.build_lib, "regroup", "lib")
            folder.mkdir(parents=True, exist_ok=True)
            for path, name in libraries():
                shutil.copyfile(path, folder / name)


class Wheel(bdist_wheel):
    """One for any Python."""

    def get_tag(self):
        *_, platform = super().get_tag()
        return "py3", "none", platform


class WithLibraries(Distribution):
    """For this platform where there are libraries."""

    def has_ext_modules(self):
        return bool(LIBRARY)


setup(version=version(), distclass=WithLibraries,
      cmdclass={"build_py": BuildPy, "bdist_wheel": Wheel})
