"""ci/docs writes a page for each section of the API, and every name that a
comment leads to is there; a name without a comment ends it with 1.

Covers: doxygen.py header.py"""

import os
import shutil
import subprocess
import tempfile

from command import SOURCE, Claims, skip

NEEDED = ["ci/docs", "ci/install", "ci/packages", "deploy/reference",
          "sdk/include"]


def write(source, folder):
    return subprocess.run([source + "/ci/docs", "--no-install", folder],
                          text=True, capture_output=True, timeout=60,
                          check=False)


def silent(top):
    """A source whose header does not say what rg_version does."""
    for path in NEEDED:
        copy = shutil.copytree if os.path.isdir(f"{SOURCE}/{path}") else \
            shutil.copy
        os.makedirs(os.path.dirname(f"{top}/{path}"), exist_ok=True)
        copy(f"{SOURCE}/{path}", f"{top}/{path}")
    header = top + "/sdk/include/regroup/regroup.h"
    with open(header, encoding="utf-8") as file:
        text = file.read()
    with open(header, "w", encoding="utf-8") as file:
        file.write(text.split("*/", 1)[0] + "*/\n\nRG_API int rg_made(void);\n")
    return top


if shutil.which("doxygen") is None:
    skip("doxygen is not installed; ci/install docs installs it")
claims = Claims()
with tempfile.TemporaryDirectory(prefix="rg-docs-") as folder:
    got = write(SOURCE, folder)
    claims.equal((got.returncode, got.stderr), (0, ""), "ci/docs")
    page = folder + "/html/group__libregroup__collectives.html"
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for word in "rg_allreduce_start", "Deadlines", "rg_barrier":
        claims.hold(word in text, f"the page of collectives lacks {word}")
    got = write(silent(folder + "/source"), folder)
    claims.equal((got.returncode, got.stderr.strip().rsplit(": ", 1)[-1]),
                 (1, "rg_made has no comment"), "a name without a comment")
claims.end()
