"""ci/install asks for every package of ci/packages on a machine that has none,
group by group; that of loads only when it is named."""

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
claims.equal(sorted(named), ["build", "load", "mpi", "product", "tests"],
             "groups")
claims.hold(named["build"] and named["mpi"], f"no packages: {named}")
for name, packages in named.items():
    claims.hold(packages <= missing(name), f"{name} lacks {packages}")
by_default = missing()
for name, packages in named.items():
    claims.hold(packages <= by_default, f"{name} is not installed")
claims.hold("stress-ng" in missing("load"), "load installs no stress-ng")
claims.hold("stress-ng" not in by_default, "stress-ng is installed unasked")
claims.end()
