"""Each command and each public name has a manual page, which man and mandoc
accept without a warning; it has every flag of --help, and refers to pages that
exist. A public name without a comment is a fault.

Covers: commands.py functions.py"""

import glob
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile

from command import BUILD, REGROUP, SOURCE, Claims, skip

MAN = BUILD + "/man"
SCRIPTS = SOURCE + "/deploy/reference"
HEADERS = SOURCE + "/sdk/include/regroup"
NAME = re.compile(r"(?:RG_API|static inline)\s[^;{]*?(rg_[a-z]\w*)\("
                  r"|^\} (rg_\w+);|\(\*(rg_\w+)\)\(", re.M)


def output(*words, **more):
    got = subprocess.run(words, text=True, capture_output=True, timeout=60,
                         check=False, env={**os.environ, "MANWIDTH": "80"},
                         **more)
    return got.stdout + got.stderr


def text_of(page):
    """As a reader sees it, without bold letters and line ends."""
    return " ".join(re.sub(".\x08", "", output("mandoc", page)).split())


def has_page(name, section):
    return os.path.exists(f"{MAN}/man{section}/{name}.{section}")


def look_at_commands():
    listed = re.findall(r"^  (\w+) ", output(REGROUP, "--help"), re.M)
    claims.hold(len(listed) > 10, f"commands are {listed}")
    for command in listed:
        claims.hold(has_page(f"regroup-{command}", 1), f"no page of {command}")
        text = text_of(f"{MAN}/man1/regroup-{command}.1")
        for flag in re.findall(r"^  (-.*)$", output(
                REGROUP, command, "--help"), re.M):
            claims.hold(flag in text, f"regroup-{command}.1 lacks {flag}")
    text = text_of(MAN + "/man1/regroup.1")
    claims.hold("128+n the job was stopped by signal n" in text,
                f"regroup.1 has no exit codes: {text}")


def look_at_names():
    for header in sorted(os.listdir(HEADERS)):
        if header.endswith(".hpp"):
            continue  # of C++: what it wraps is on the pages of regroup.h
        if header == "regroup_mpi.h" and not has_page("libregroup_mpi", 3):
            continue
        with open(f"{HEADERS}/{header}", encoding="utf-8") as file:
            names = {"".join(found) for found in NAME.findall(file.read())}
        claims.hold(len(names) > 2, f"{header} has {names}")
        for name in names:
            claims.hold(has_page(name, 3), f"no page of {name} in {header}")
        claims.hold(has_page("lib" + header[:-2], 3), f"no page of {header}")


def look_at_links(pages):
    for page in pages:
        with open(page, encoding="utf-8") as file:
            text = file.read().replace("\\-", "-")
        for name, section in re.findall(r"\\fB([\w-]+)\\fR\(([13])\)", text):
            claims.hold(has_page(name, section),
                        f"{page} leads to {name}({section})")


def refuses_silence():
    """A function that no comment explains."""
    with tempfile.TemporaryDirectory(prefix="rg-man-") as folder:
        header = folder + "/made.h"
        with open(header, "w", encoding="utf-8") as file:
            file.write("/* Made: up. */\n\nRG_API int rg_made(void);\n")
        said = output(sys.executable, "-B", SCRIPTS + "/functions.py", folder,
                      "Made 1", "2026-01-01", header)
        claims.equal(said, f"{header}: rg_made has no comment\n", "silence")


def packs():
    """As packages want them."""
    with tempfile.TemporaryDirectory(prefix="rg-man-") as folder:
        claims.equal(output(sys.executable, "-B", SCRIPTS + "/functions.py",
                            "--gzip", folder, "Made 1", "2026-01-01",
                            HEADERS + "/regroup.h"), "", "packing")
        with gzip.open(folder + "/man3/rg_size.3.gz") as file:
            claims.hold(b'"RG_RANK" "3"' in file.read(), "a packed link")


for program in "mandoc", "man", "groff":
    if shutil.which(program) is None:
        skip(f"{program} is not installed; ci/install tests installs it")
claims = Claims()
files = [path for path in sorted(glob.glob(MAN + "/man?/*"))
         if not os.path.islink(path)]
claims.equal(output("mandoc", "-T", "lint", *files), "", "mandoc -T lint")
claims.equal(output("groff", "-ww", "-mandoc", "-Tutf8", "-z", *files), "",
             "groff -ww")
for shown in "man1/regroup-run.1", "man3/libregroup.3":
    seen = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l",
                           f"{MAN}/{shown}"], text=True, capture_output=True,
                          check=False, env={**os.environ, "MANWIDTH": "80"})
    claims.equal((seen.returncode, seen.stderr), (0, ""), f"man -l {shown}")
look_at_commands()
look_at_names()
look_at_links(files)
refuses_silence()
packs()
claims.end()
