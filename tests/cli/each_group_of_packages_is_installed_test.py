"""ci/install asks for every package of ci/packages on a machine that has none,
group by group; those of loads and packages only when they are named.

Covers: ci/install ci/packages"""

import os
import re
import shutil
import subprocess
import tempfile

from command import Claims

SOURCE = os.environ["REGROUP_SOURCE"]


def groups_of_packages():
    """{group: names of its packages that no file shows to be here}"""
    found, group = {}, None
    with open(SOURCE + "/ci/packages", encoding="ascii") as packages:
        for line in packages:
            begin = re.match(r"# ([a-z]+):", line)
            if begin:
                group = found.setdefault(begin.group(1), set())
            elif line.strip() and line[0] != "#" and " pkg:" in line:
                group.add(line.split()[0])
    return found


def missing(*groups):
    """What it would install where PATH has next to nothing."""
    with tempfile.TemporaryDirectory(prefix="rg-path-") as path:
        for program in ("bash", "dirname"):
            os.symlink(shutil.which(program), f"{path}/{program}")
        got = subprocess.run([SOURCE + "/ci/install", "--check", *groups],
                             env={"PATH": path}, capture_output=True,
                             text=True, check=False)
    claims.equal(got.returncode, 1, f"--check {groups}: {got.stderr}")
    return set(got.stdout.split())


claims = Claims()
named = groups_of_packages()
claims.equal(sorted(named), ["build", "docs", "load", "mpi", "package",
                              "product", "tests"], "groups")
claims.hold(named["build"] and named["mpi"], f"no packages: {named}")
for name, packages in named.items():
    claims.hold(packages <= missing(name), f"{name} lacks {packages}")
by_default = missing()
for name, packages in named.items():
    claims.hold(packages <= by_default, f"{name} is not installed")
for name, package in ("load", "stress-ng"), ("package", "dpkg-dev"), \
        ("docs", "doxygen"):
    claims.hold(package in missing(name), f"{name} installs no {package}")
    claims.hold(package not in by_default, f"{package} is installed unasked")
claims.end()
