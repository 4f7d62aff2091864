"""Every page of the installed documentation leads to installed files: each link,
and each path of a file to read, unless its paragraph, or the first one of the
page, says that it is in the source.

Covers: docs/README.md"""

import os
import re
import subprocess
import tempfile

from command import BUILD, SOURCE, Claims

LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
FILE = re.compile(r"(?<![\w/.$-])[\w.-]+(?:/[\w.-]+)+\.(?:md|[ch]|py|yaml)\b")


def pages(top):
    for folder, _, names in os.walk(top):
        for name in names:
            if name.endswith(".md"):
                yield os.path.join(folder, name)


def look_at_links(page, text):
    for target, _ in LINK.findall(text):
        if "://" not in target:
            there = os.path.join(os.path.dirname(page), target)
            claims.hold(os.path.exists(there),
                        f"{os.path.relpath(page, docs)} links {target}, which "
                        "is not installed")


def look_at_files(page, text):
    """Files of the source, by their paths from its root or from the page."""
    inside = os.path.relpath(os.path.dirname(page), docs)
    start, *paragraphs = re.sub(r"^# .*\n\n", "", text).split("\n\n")
    if re.search(r"\bsource\b", start):
        return
    for paragraph in [start, *paragraphs]:
        if re.search(r"\bsource\b", paragraph):
            continue
        for path in FILE.findall(paragraph):
            for base in ("", inside):
                claims.hold(
                    not os.path.exists(os.path.join(SOURCE, base, path)) or
                    os.path.exists(os.path.join(docs, base, path)),
                    f"{os.path.relpath(page, docs)} leads to {path}, which is "
                    "not installed, and does not say that it is in the source")


claims = Claims()
with tempfile.TemporaryDirectory(prefix="rg-docs-") as top:
    subprocess.run(["cmake", "--install", BUILD, "--prefix", top],
                   check=True, capture_output=True)
    docs = top + "/share/doc/regroup"
    found = sorted(pages(docs))
    claims.hold(docs + "/docs/install.md" in found, f"pages are {found}")
    for page in found:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        look_at_links(page, text)
        look_at_files(page, text)
claims.end()
