"""ci/format is skipped, with its reason, where the clang-format that the tree is
laid out by is missing: another version would lay it out differently.

Covers: ci/format"""

import os
import shutil
import subprocess
import tempfile

from command import SOURCE, Claims

OTHER = """#!/bin/sh
[ "$1" = --version ] && echo "clang-format version 19.1.7" && exit
echo "it was run" && exit 1
"""


def path_without(folder, program):
    """A folder with what ci/format needs, and the program, if it is given."""
    os.mkdir(folder)
    for name in "bash", "dirname", "find":
        os.symlink(shutil.which(name), f"{folder}/{name}")
    if program is not None:
        with open(folder + "/clang-format", "w", encoding="ascii") as file:
            file.write(program)
        os.chmod(folder + "/clang-format", 0o755)
    return folder


claims = Claims()
with tempfile.TemporaryDirectory(prefix="rg-format-") as top:
    for what, program in ("none", None), ("another", OTHER):
        path = path_without(f"{top}/{what}", program)
        for words in [], ["--check"]:
            got = subprocess.run([SOURCE + "/ci/format", *words],
                                 env={"PATH": path}, capture_output=True,
                                 text=True, check=False)
            claims.equal(got.returncode, 77,
                         f"{what}, {words}: {got.stdout}{got.stderr}")
            claims.hold("skipped: the tree is laid out by clang-format 14, "
                        "which is not installed" in got.stdout, got.stdout)
claims.end()
