"""`regroup checkpoint show` says what lies in a directory and in a file, verify
whether it is whole; both for people and as JSON, with a code that says so.

Covers: checkpoint_cmd.c checkpoint_data.c"""

import json
import os
import re
import shutil
import subprocess

from command import BUILD, Claims, RunDir, clean_environment

TRAINER = os.path.join(BUILD, "tests", "trainer")

claims = Claims()


def damage(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


with RunDir() as d:
    folder = os.path.join(d.path, "checkpoints")
    os.mkdir(folder)
    for words in (["show", folder], ["verify", folder]):
        got = d.run("checkpoint", *words)
        claims.equal(got.returncode, words[0] == "verify",
                     f"{words[0]} of an empty directory ends with")

    subprocess.run([TRAINER, "--steps", "30", "--step-ms", "0", "--bytes",
                    "5000", "--save-every", "10"], check=True,
                   stdout=subprocess.DEVNULL,
                   env=clean_environment(REGROUP_CHECKPOINT_DIR=folder,
                                         REGROUP_CHECKPOINT_KEEP="3"))
    names = sorted(os.listdir(folder))
    claims.equal(len(names), 3, f"three are there: {names}")
    paths = [os.path.join(folder, name) for name in names]
    part = os.path.join(folder, "checkpoint-00000004-step40-0123abcd.rgck.part")
    shutil.copy(paths[0], part)
    with open(os.path.join(folder, "checkpoint-9-step1-x.rgck"), "w") as file:
        file.write("no checkpoint's name")

    got = d.run("checkpoint", "show", folder)
    rows = [line.split() for line in got.stdout.splitlines()[1:]]
    claims.equal((got.returncode, got.stderr), (0, ""), "show ends")
    claims.equal([row[1] for row in rows], ["-", "30", "20", "10"],
                 "the newest is first, the one on its way before")
    claims.hold("not published" in got.stdout, "a .part is not published")
    got = d.run("checkpoint", "show", env={"REGROUP_CHECKPOINT_DIR": folder})
    claims.hold(names[2] in got.stdout, "the directory may be a setting")

    for words in (["--json", "show", folder], ["show", folder, "--json"]):
        got = d.run("checkpoint", *words)
        found = json.loads(got.stdout)
        claims.equal([(c["published"], c.get("step")) for c in found],
                     [(False, None), (True, 30), (True, 20), (True, 10)],
                     f"{words} as JSON")
    last = found[1]
    claims.equal(last["buffers"],
                 [{"name": "state", "bytes": 5000, "kind": "replicated"},
                  {"name": "over", "bytes": 8, "kind": "replicated"}],
                 "its buffers")
    claims.equal((last["serial"], last["workers"], last["error"]),
                 (3, 1, None), "serial, workers, error")
    claims.equal(last["bytes"], os.path.getsize(paths[2]), "its length")

    got = d.run("checkpoint", "show", paths[2])
    claims.equal(got.returncode, 0, "show of a file ends")
    claims.hold(re.search(r"step 30 of job alone, .*\n\n.*\n"
                          r"state +5000  replicated\nover +8  replicated\n$",
                          got.stdout), got.stdout)
    got = d.run("checkpoint", "verify", paths[2])
    claims.equal((got.returncode, got.stderr), (0, ""), "verify ends")
    claims.hold(f"{paths[2]} is whole: step 30, 2 buffers" in got.stdout,
                got.stdout)
    got = d.run("checkpoint", "verify", folder)
    claims.equal(got.returncode, 0, "verify of all ends")
    claims.equal(got.stdout.count("is whole"), 3, "three are whole")

    damage(paths[1], 4096 + 77)
    got = d.run("checkpoint", "show", paths[1])
    claims.equal(got.returncode, 0, "show reads no data")
    got = d.run("checkpoint", "verify", folder)
    claims.equal(got.returncode, 1, "verify finds a damaged one among others")
    claims.equal(got.stdout.count("is whole"), 2, "two are whole")
    claims.hold(re.fullmatch(f"regroup: checkpoint {paths[1]} is damaged: .* "
                             "of buffer state .*\n", got.stderr), got.stderr)
    got = d.run("checkpoint", "verify", "--json", paths[1])
    claims.equal(got.returncode, 1, "verify as JSON ends")
    claims.hold("damaged" in json.loads(got.stdout)["error"], got.stdout)

    os.truncate(paths[0], 5000)
    got = d.run("checkpoint", "show", paths[0])
    claims.equal((got.returncode, got.stdout), (1, ""), "show of a cut file")
    claims.hold("is cut: it has 5000 of its" in got.stderr, got.stderr)
    got = d.run("checkpoint", "show", folder)
    claims.equal(got.returncode, 0, "show of a directory with a cut one")
    claims.hold("damaged" in got.stdout and names[2] in got.stdout, got.stdout)

    for words, code, sentence in (
            ([], 64, "show or verify"),
            (["shew", folder], 64, 'not by "shew"'),
            (["show"], 64, "no file or directory"),
            (["show", folder, paths[0]], 64, "one word too many"),
            (["verify", "/does/not/exist"], 64, "/does/not/exist.*No such"),
            (["verify", "/dev/null"], 1, "not a regular file"),
            (["verify", __file__], 1, "not a checkpoint")):
        got = d.run("checkpoint", *words)
        claims.equal((got.returncode, got.stdout), (code, ""), f"{words} ends")
        claims.hold(re.fullmatch(f"regroup: .*{sentence}.*\n", got.stderr),
                    f"{words} says {got.stderr!r}")
claims.end()
