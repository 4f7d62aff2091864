"""Each test says at its top which files it covers: each of them is there, and
each .c of the product has a test that says so. The README of its room names it.

Covers: tests/README.md"""
import os
import re
import sys

SOURCE = os.environ["REGROUP_SOURCE"]
PRODUCT = ("sdk", "process_sets", "elastic", "examples", "deploy")
FOLDERS = PRODUCT + ("ci", "docs", "tests")
C_ROOMS = ("sdk/", "process_sets/", "elastic/")
# Up to the end of the comment, or to an empty line of it.
LINE = re.compile(r"^\W*Covers:(.*?)(?:\"\"\"|\*/|\n[ *]*\n)", re.S | re.M)
faults = []


def files():
    for folder in FOLDERS:
        for at, inner, names in os.walk(os.path.join(SOURCE, folder)):
            inner[:] = [name for name in inner if name != "build"]
            for name in names:
                yield os.path.relpath(os.path.join(at, name), SOURCE)


def called(name, paths):
    """Those that end with it: a file moves, and keeps its name."""
    return [path for path in paths if ("/" + path).endswith("/" + name)]


def found(test, name):
    for paths in product, everything:
        places = called(name, paths)
        if len(places) == 1:
            return places
        if places:
            break
    faults.append(f"{test} covers {name}, which is "
                  + (f"any of {', '.join(places)}; name its folder, too"
                     if places else "not there"))
    return []


def readme_of(path):
    """That of the innermost folder that has one."""
    folder = os.path.dirname(path)
    while not os.path.exists(os.path.join(SOURCE, folder, "README.md")):
        folder = os.path.dirname(folder)
    return os.path.join(folder, "README.md")


def look_for_name(path):
    name, readme = os.path.basename(path)[:-2], readme_of(path)
    with open(os.path.join(SOURCE, readme), encoding="utf-8") as file:
        if not re.search(rf"\b{name}\b", file.read()):
            faults.append(f"{readme} does not name {path}")


everything = list(files())
product = [path for path in everything if path.startswith(PRODUCT)]
covered = set()
for test in sorted(everything):
    if not re.search(r"_test\.(cu?|py)$", test):
        continue
    with open(os.path.join(SOURCE, test), encoding="utf-8") as file:
        line = LINE.search(file.read(4000))
    names = re.findall(r"[\w./@-]+", line.group(1)) if line else ()
    if not names:
        faults.append(f"{test} does not say what it covers; write it at the "
                      "end of the comment at its top, Covers: FILE...")
    for name in names:
        covered.update(found(test, name))
faults += [f"no test says that it covers {path}" for path in sorted(product)
           if path.startswith(C_ROOMS) and path.endswith(".c")
           and path not in covered]
for path in sorted(product):
    if path.startswith(C_ROOMS) and path.endswith(".c"):
        look_for_name(path)
print("\n".join(faults))
sys.exit(1 if faults else 0)
