"""Every link in a page leads to a file, and its anchor to a heading there; every
path that a page names is there: of the source, whole or from the page's folder,
or the end of one; of a test, without its ending; a file of C or Python without
a folder is somewhere.

Covers: docs/README.md"""

import os
import re
import sys

SOURCE = os.environ["REGROUP_SOURCE"]
NOT_OURS = {".git", "build", "__pycache__", "dist", "node_modules"}
LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.S | re.M)
CODE = re.compile(r"`([^`\n]+)`")
TOPS = "sdk|process_sets|elastic|examples|tutorials|tests|ci|deploy|docs"
PATH = re.compile(rf"(?<![\w./-])(?:{TOPS})/[\w./@-]*\w")
NAME = re.compile(r"(?:[\w.-]+/)*[\w.-]+\.(?:[ch]|py|pml|mutants)")
faults = []


def tree():
    """Files and folders of the source, from its root."""
    found = set()
    for folder, folders, names in os.walk(SOURCE):
        folders[:] = [name for name in folders if name not in NOT_OURS]
        inside = os.path.relpath(folder, SOURCE)
        found.update(os.path.normpath(os.path.join(inside, name))
                     for name in names + folders)
    return found


def slugs(text):
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head)
                   ).lower().replace(" ", "-") for head in heads}


def look_at_links(page, text):
    for target in LINK.findall(FENCE.sub("", text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        there = os.path.normpath(os.path.join(os.path.dirname(page), path)) \
            if path else page
        if there not in everything:
            faults.append(f"{page} links {target}, which is not there")
        elif anchor and anchor not in slugs(read(there)):
            faults.append(f"{page} links {target}: {there} has no such heading")


def is_there(path, page):
    """From the root, from the page's folder, or as the end of a path."""
    inside = os.path.normpath(os.path.join(os.path.dirname(page), path))
    return path in everything or inside in everything or path in endings


def look_at_paths(page, text):
    for path in PATH.findall(text):
        tests = [f"tests/{path}_test.c", f"tests/{path}_test.py", f"{path}.c"]
        if not is_there(path, page) and not everything.intersection(tests):
            faults.append(f"{page} names {path}, which is not there")
    for word in CODE.findall(FENCE.sub("", text)):
        if NAME.fullmatch(word) and not is_there(word, page):
            faults.append(f"{page} names {word}, which is not there")


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


everything = tree()
endings = {"/".join(path.split("/")[i:]) for path in everything
           for i in range(path.count("/") + 1)}
pages = sorted(path for path in everything if path.endswith(".md"))
if len(pages) < 40 or "SECURITY.md" not in pages:
    faults.append(f"pages are {pages}")
for each in pages:
    look_at_links(each, read(each))
    if each != "CHANGELOG.md":
        look_at_paths(each, read(each))
print("\n".join(faults))
sys.exit(1 if faults else 0)
