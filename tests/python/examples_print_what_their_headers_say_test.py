"""The headers of the examples are right about how they are run and what they
print, but for numbers that go by the rounding of numpy and torch.

Covers: 01_hello.py 02_process_set.py"""
import ast
import os
import re
import shlex
import sys

import pyjob

MODULES = {"04_mpi4py.py": "mpi4py.MPI", "06_halo.py": "mpi4py.MPI",
           "05_torch.py": "torch", "07_horovod.py": "torch",
           "08_gpt.py": "torch"}


def header(path):
    """The command that the header names, and the lines that it prints."""
    with open(path, encoding="utf-8") as source:
        text = ast.get_docstring(ast.parse(source.read()))
    command, *output = re.findall(r"^    (.*)$", text, re.M)
    return shlex.split(command), [line.split(" | ")[-1] for line in output]


def printed(command, path):
    flag = "-n" if "-n" in command else "--max"
    size = int(command[command.index(flag) + 1])
    workers = [pyjob.python_with(
        MODULES.get(os.path.basename(path), "numpy")), path]
    if command[0] == "mpirun":
        return pyjob.mpirun("openmpi", size, workers)
    return pyjob.job(size, workers)


def test():
    from house import SOURCE, claim
    folder = os.path.join(SOURCE, "examples/python")
    for name in sys.argv[1:]:
        path = os.path.join(folder, name)
        command, lines = header(path)
        claim(f"examples/python/{name}" in command, f"{command} runs another")
        output = printed(command, path)
        claim(lines, f"{name} promises nothing")
        for line in lines:
            line = line.replace("host h1, slot 0", "host .*, slot 0")
            line = re.sub("(loss|accuracy|state) [0-9a-f.]+", r"\1 .*", line)
            claim(re.search(re.escape(line).replace(r"\.\*", ".*"), output),
                  f"{name} does not print {line!r} but\n{output}")
    output = pyjob.run([pyjob.python_with("numpy"),
                        os.path.join(folder, "02_process_set.py")], 1)
    claim("run it with -n 4" in output, output)


pyjob.main(None, test=test)
