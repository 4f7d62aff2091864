"""import regroup refuses a library of another version, one that is no
libregroup, and one that is not there, each with a sentence that names it.

Covers: _abi.py"""
import os
import subprocess
import tempfile

import pyjob

OTHER = """
const char *rg_version(void) { return "0.0.9"; }
"""


def test():
    from house import SOURCE, claim
    python = pyjob.python_with()
    names = set()
    for name in ("regroup.h", "regroup_cuda.h"):
        with open(os.path.join(SOURCE, "sdk/include/regroup", name),
                  encoding="utf-8") as header:
            names |= {word.split("(")[0].lstrip("*") for word in
                      header.read().replace("\n", " ").split()
                      if word.lstrip("*").startswith("rg_") and "(" in word}
    with tempfile.TemporaryDirectory(prefix="rg-other-") as folder:
        other, empty = (os.path.join(folder, name)
                        for name in ("libother.so", "libempty.so"))
        symbols = "".join(f"void {name}(void) {{}}\n" for name in sorted(names)
                          if name != "rg_version")
        for path, source in ((other, OTHER + symbols), (empty, "int none;")):
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o",
                            path], input=source, text=True, check=True)
        for path, words in (
                (other, f"{other} is libregroup 0.0.9, and this package is"),
                (empty, f"{empty} has no rg_"),
                (os.path.join(folder, "none.so"), "can't load its library")):
            output = pyjob.run([python, "-c", "import regroup"], 1,
                               REGROUP_LIBRARY=path)
            claim("ImportError" in output and words in output, output)


pyjob.main(None, test=test)
