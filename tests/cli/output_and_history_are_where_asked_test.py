"""--output and --history create their directories, relative to where
`regroup` was called; without --output each line begins with its worker's name.

Covers: output.c history.c"""

import json
import os
import re

from command import BUILD, Claims, RunDir

HELLO = BUILD + "/bin/hello"
DIGITS = [BUILD + "/bin/elastic_digits", "--epochs", "1"]

claims = Claims()
with RunDir() as d:
    os.mkdir(d.path + "/cwd")
    got = d.run("run", "-n", "2", "--host", "h1", "--output", "a/b",
                "sh", "-c", f"echo to err >&2; exec {HELLO}",
                cwd=d.path + "/cwd")
    claims.equal(got.returncode, 0, f"--output: {got.stderr}")
    claims.equal(got.stdout, "", "what is printed beside the files")
    files = sorted(os.listdir(d.path + "/cwd/a/b"))
    claims.equal(files, ["h1.0.1.err", "h1.0.1.out", "h1.1.1.err",
                         "h1.1.1.out"], "files")
    for name in files:
        with open(f"{d.path}/cwd/a/b/{name}") as file:
            text = file.read()
        if name.endswith("err"):
            claims.equal(text, "to err\n", name)
        else:
            claims.hold(re.match("rank [01] of 2 on host h1", text), text)

    got = d.run("run", "-n", "2", "--host", "h1", HELLO)
    lines = sorted(got.stdout.splitlines())
    claims.equal(len(lines), 2, "lines")
    for i, line in enumerate(lines):
        claims.hold(line.startswith(f"h1.{i} r{i} | rank {i} of 2"), line)

    got = d.run("run", "-n", "2", "--host", "h1", "--history", "h", *DIGITS,
                cwd=d.path + "/cwd")
    claims.equal(got.returncode, 0, f"--history: {got.stderr}")
    files = sorted(os.listdir(d.path + "/cwd/h"))
    claims.equal(files, ["h1.0.1.jsonl", "h1.1.1.jsonl"], "histories")
    for name in files:
        with open(f"{d.path}/cwd/h/{name}") as file:
            events = [json.loads(line) for line in file]
        claims.equal({e["worker"] for e in events}, {name[:4]}, name)
        claims.equal({"join", "decide", "sync", "step", "commit", "leave"} -
                     {e["event"] for e in events}, set(), "kinds of " + name)
        for field in ("t_ns", "host", "worker", "pid", "generation", "rank",
                      "size", "event", "step", "hash"):
            claims.hold(all(field in e for e in events), f"{field} of {name}")
claims.end()
