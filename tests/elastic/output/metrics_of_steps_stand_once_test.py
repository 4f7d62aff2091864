"""What a program gives to rg_metric stands once for each step in the CSV and in
TensorBoard's file, which is read here by its definition: over all ranks, after
rank 0 died between a commit's agreement and the next step, after steps were
rolled back, after the agent was killed, and in a job that goes on from a
checkpoint. Prometheus is shown the newest. A disk that is full ends the files at
a whole step, and a file that can't be written begins no job.

Covers: metric.c csv.c scalars.c scalars_writer.c tensorboard.c file_writer.c
record.c _state.py _context.py"""
import csv
import glob
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import urllib.request

import pyjob
from house import UNTIL_FINISH, Failed, Job, claim, main_all, trainer, until

STEPS = 60
MOUNT = ("unshare", "--mount", "--propagation", "private", "sh", "-c",
         'mount -t tmpfs -o size=64k none "$0" && exec "$@"')


def rows_of(path):
    with open(path, encoding="ascii", newline="") as file:
        lines = list(csv.reader(file))
    claim(lines[0] == ["step", "generation", "time", "metric", "value"],
          str(lines[0]))
    return [(int(step), int(generation), float(time), name, float(value))
            for step, generation, time, name, value in lines[1:]]


def check_rows(rows, last=None, sizes=(3,)):
    """Steps 1, 2, 3 ... with four values each, of their own closed forms."""
    claim(len(rows) % 4 == 0 and (last is None or len(rows) == 4 * last),
          f"{len(rows)} rows")
    for i, (step, _, _, name, value) in enumerate(rows):
        want = {"step/3": [step / 3], "ranks": sizes, "least": [step],
                "most": [size - 1 - step for size in sizes]}
        claim(step == i // 4 + 1 and name == list(want)[i % 4],
              f"row {i} is {rows[i]}")
        claim(any(abs(value - w) <= 1e-12 * step for w in want[name]),
              f"row {i} is {rows[i]}")


# ------------------------------------------------- TensorBoard's event files

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        claim(struct.unpack_from("<I", data, at + 8)[0] ==
              masked(data[at:at + 8]), f"{path}: the length at {at}")
        body = data[at + 12:at + 12 + size]
        claim(struct.unpack_from("<I", data, at + 12 + size)[0] ==
              masked(body), f"{path}: the record at {at}")
        at += 16 + size
        yield body


def fields(message):
    """{number: [value]} of a message of protobuf."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}[key & 7] if key & 7 != 2 else varint()
            value, at = message[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def board(folder):
    """[(step, name, value)] as TensorBoard has it: a session that starts at a
    step drops that step and later ones."""
    kept = []
    for path in sorted(glob.glob(os.path.join(folder, "*tfevents*"))):
        events = [fields(body) for body in records(path)]
        claim(events[0][3] == [b"brain.Event:2"], str(events[0]))
        for event in events[1:]:
            step = event[2][0]
            if 7 in event:
                claim(fields(event[7][0]) == {1: [1]}, str(event))
                kept = [row for row in kept if row[0] < step]
            for value in fields(event.get(5, [b""])[0]).get(1, []):
                value = fields(value)
                kept.append((step, value[1][0].decode(),
                             struct.unpack("<f", value[2][0])[0]))
            claim(struct.unpack("<d", event[1][0])[0] > 1.7e9, str(event))
    return kept


def check_board(folder, rows):
    claim([(step, name) for step, name, _ in board(folder)] ==
          [(row[0], row[3]) for row in rows], f"{folder} has other steps")
    for (_, _, value), row in zip(board(folder), rows):
        claim(value == struct.unpack("<f", struct.pack("<f", row[4]))[0],
              f"{folder} has {value} for {row}")


# --------------------------------------------------------------------- tests

def test_death_between_agreement_and_row():
    """Rank 0 is killed where the commit counts and nobody has been told; and
    before it counts."""
    for place in ("commit.after_agree", "commit.before_agree", "step_end"):
        env = {"REGROUP_FAILPOINT": f"{place}:rank0:step31:gen1:kill"}
        flags = ["-n", "3", "--metrics-csv", "m.csv",
                 "--metrics-tensorboard", "board"]
        with Job(flags, trainer("--steps", STEPS, "--step-ms", 1, "--metrics",
                                1, "--commit-every",
                                7 if place == "step_end" else 1),
                 env=env) as job:
            job.finish()
            claim(job.generation() > 1, f"{place}: nobody was killed")
            rows = rows_of(os.path.join(job.folder, "m.csv"))
            check_rows(rows, STEPS)
            check_board(os.path.join(job.folder, "board"), rows)
            stamps = [row[1:3] for row in rows]
            claim(stamps == sorted(stamps), "an older row behind a newer one")


def test_steps_that_are_rolled_back():
    """They go when the next generation is decided, before any is done again:
    here it waits in its first step."""
    env = {"REGROUP_FAILPOINT": "step_end:rank0:step31:gen1:kill,"
                                "idle:rank1:step29:gen2:sleep2000"}
    with Job(["-n", "3", "--metrics-csv", "m.csv", "--metrics-tensorboard",
              "board"], trainer("--steps", STEPS, "--step-ms", 1, "--metrics",
                                1, "--commit-every", 7), env=env) as job:
        path = os.path.join(job.folder, "m.csv")

        def end_at_28():
            """A reader beside the writer may see a half row."""
            try:
                steps = {row[0] for row in rows_of(path)}
                others = {row[0] for row in board(os.path.join(job.folder,
                                                               "board"))}
            except (OSError, ValueError, IndexError, struct.error, Failed):
                return False
            return steps == others == set(range(1, 29))
        until(end_at_28, 20, "steps behind 28 are gone")
        job.finish()
        check_rows(rows_of(path), STEPS)


def shown(job):
    """{name: value} that Prometheus is shown, once there are any."""
    status = job.status()
    at = status and status["metrics"]
    if not at:
        return None
    with urllib.request.urlopen(f"http://{at}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return dict(re.findall(r'^regroup_metric\{name="(.*)"\} (.*)$', text,
                           re.M)) or None


def test_death_of_the_agent_and_a_scrape():
    flags = ["-n", "2", "--metrics-csv", "m.csv", "--metrics-tensorboard",
             "board", "--metrics", "0"]
    with Job(flags, trainer(*UNTIL_FINISH, "--metrics", 1)) as job:
        job.wait_step(20)
        found = until(lambda: shown(job), 20, "metrics")
        claim(found["ranks"] == "2" and float(found["least"]) > 1, str(found))
        os.kill(job.agent(), signal.SIGKILL)
        job.wait_step(job.step() + 20)
        job.kill(rank=0)
        job.wait_world(2, above=1)
        job.wait_step(job.step() + 5)
        job.finish()
        rows = rows_of(os.path.join(job.folder, "m.csv"))
        check_rows(rows, int(job.final_state()[0]), sizes=(2,))
        check_board(os.path.join(job.folder, "board"), rows)


def test_job_that_goes_on_from_a_checkpoint():
    """The first job's rows behind the checkpoint are done again by the second,
    and a half line is of no harm."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["-n", "2", "--metrics-csv", f"{folder}/m.csv",
                 "--metrics-tensorboard", f"{folder}/board",
                 "--checkpoint-dir", folder, "--checkpoint-on-stop", "no"]
        train = ["--metrics", 1, "--step-ms", 1, "--load"]
        with Job(flags, trainer(*train, "--steps", 30, "--save-every",
                                20)) as job:
            job.finish()
        check_rows(rows_of(f"{folder}/m.csv"), 30, sizes=(2,))
        with open(f"{folder}/m.csv", "ab") as file:
            file.write(b"31,1,17")
        with Job(flags, trainer(*train, "--steps", STEPS)) as job:
            job.finish()
            # A save takes the newest commit, of step 20 or one behind it.
            loaded = re.search(r"loaded step (\d+)", job.text())
            claim(loaded and 20 <= int(loaded[1]) <= 30, "no checkpoint")
        rows = rows_of(f"{folder}/m.csv")
        check_rows(rows, STEPS, sizes=(2,))
        check_board(f"{folder}/board", rows)


PROGRAM = """
import array
import regroup
with regroup.init(elastic=True) as ctx:
    state, step = ctx.state(), array.array("q", [0])
    state.add("step", step)
    def train():
        for name, op in (("a b", regroup.SUM), ("", regroup.SUM),
                         ("x" * 64, regroup.SUM), ("x", regroup.PROD)):
            try:
                state.metric(name, 1, op)
                raise AssertionError(name)
            except regroup.Invalid as error:
                assert "metric needs a name" in str(error), error
        while step[0] < 5:
            step[0] += 1
            if step[0] % 2:
                state.metric("loss", ctx.rank + step[0] / 4)
                regroup.metric("most", ctx.rank, regroup.MAX)
            if step[0] == 4:
                for i in range(64):
                    state.metric(f"m{i}", i, regroup.SUM)
            state.commit() if step[0] > 2 else state.step_end()
    state.run(train)
    try:
        state.metric("late", 1)
        raise AssertionError("late")
    except regroup.Invalid:
        pass
"""


def test_python():
    """Averages in Python; a step may have none, or 64."""
    with Job(["-n", "2", "--metrics-csv", "m.csv", "--metrics-tensorboard",
              "board"], [sys.executable, "-c", PROGRAM],
             env=pyjob.environment()) as job:
        job.finish()
        rows = rows_of(os.path.join(job.folder, "m.csv"))
        want = {1: [("loss", .75), ("most", 1)], 3: [("loss", 1.25),
                                                     ("most", 1)],
                4: [(f"m{i}", 2 * i) for i in range(64)],
                5: [("loss", 1.75), ("most", 1)]}
        claim([(step, *more) for step, _, _, *more in rows] ==
              [(step, *row) for step, all_of in want.items()
               for row in all_of], str(rows))
        check_board(os.path.join(job.folder, "board"), rows)


OF_NAN = """
import math
import regroup
with regroup.init(elastic=True) as ctx:
    state = ctx.state()
    def train():
        while True:
            for op in ("SUM", "AVG", "MIN", "MAX"):
                for rank in range(2):
                    state.metric(f"{op}{rank}", 1. if ctx.rank != rank else
                                 -math.nan, getattr(regroup, op))
            state.metric("least", -math.inf, regroup.MIN)
            state.metric("most", math.inf, regroup.MAX)
            state.step_end()
    state.run(train)
"""


def test_nan():
    """A NaN of any rank is the result of each op, and is written as Prometheus
    and readers of CSV know it, whatever its sign."""
    nan = [f"{op}{rank}" for op in ("SUM", "AVG", "MIN", "MAX")
           for rank in range(2)]
    with Job(["-n", "2", "--metrics-csv", "m.csv", "--metrics", "0"],
             [sys.executable, "-c", OF_NAN], env=pyjob.environment()) as job:
        found = until(lambda: shown(job), 20, "metrics")
        claim(found == {"least": "-Inf", "most": "+Inf",
                        **{name: "NaN" for name in nan}}, str(found))
        with open(os.path.join(job.folder, "m.csv"), encoding="ascii") as file:
            rows = [line.split(",") for line in file.read().split("\n")[1:-1]]
        claim({(name, value) for *_, name, value in rows} ==
              {("least", "-inf"), ("most", "inf"),
               *((name, "nan") for name in nan)}, str(rows[:10]))


def test_full_disk():
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run([*MOUNT, folder, "true"], capture_output=True,
                          check=False).returncode != 0:
            print("skipped: a disk of its own takes the right to mount")
            return
    job = Job(["-n", "2", "--metrics-csv", "disk/m.csv",
               "--metrics-tensorboard", "disk/board"],
              trainer(*UNTIL_FINISH, "--metrics", 1, "--step-ms", 1))
    disk = os.path.join(job.folder, "disk")
    os.mkdir(disk)
    job.command = [*MOUNT, disk, *job.command]
    with job:
        ends = "end before the job: the file can't be written"
        until(lambda: job.text().count(ends) == 2, 30, "a full disk")
        job.wait_step(job.step() + 20)
        claim(job.text().count(ends) == 2, "once for each")
        inside = f"/proc/{job.agent()}/root{disk}"
        rows = rows_of(f"{inside}/m.csv")
        check_rows(rows, sizes=(2,))
        whole = {step for step, _, _ in board(f"{inside}/board")}
        claim(whole == set(range(1, len(whole) + 1)), "half a step")
        job.finish()


def test_files_that_can_not_be_written():
    with tempfile.TemporaryDirectory() as folder:
        other = os.path.join(folder, "notes")
        with open(other, "w", encoding="ascii") as file:
            file.write("something else that is longer than a head\n")
        for flag, name, why in (
                ("csv", "/no/such/folder/m.csv", "No such file"),
                ("csv", folder, "Is a directory"),
                ("csv", other, "it is not a CSV file of metrics"),
                ("tensorboard", other, "Not a directory"),
                ("tensorboard", "/no/such/folder/b", "No such file")):
            with Job(["-n", "1", f"--metrics-{flag}", name],
                     trainer("--steps", 1)) as job:
                job.finish(code=64)
                claim(name in job.text() and why in job.text(), job.text())
        with open(other, encoding="ascii") as file:
            claim(file.read().startswith("something"), "it was written over")
        flags = ["-n", "1", "--metrics-csv", f"{folder}/m.csv"]
        with Job(flags, trainer(*UNTIL_FINISH, "--metrics", 1)) as job:
            job.wait_step(5)
            with Job(flags, trainer("--steps", 1), job="second") as second:
                second.finish(code=64)
                claim("another job writes" in second.text(), second.text())
            job.finish()


def test_ranks_that_differ():
    """One sentence says so, on a rank that gave metrics, unless the other one,
    whose step ends while that reduces them, has ended the job before."""
    texts = []
    while len(texts) < 5 and not any("from step/3 on" in t for t in texts):
        with Job(["-n", "2", "--max-restarts", "0"],
                 ["sh", "-c", 'exec "$0" --steps 5 --metrics '
                  '$((REGROUP_SLOT == 0))', *trainer()]) as job:
            job.finish(code=3)
            texts.append(job.text())
        claim("of a step" in texts[-1], texts[-1])
    claim("ranks differ in the metrics of step 1, of which this one has "
          "4, from step/3 on; give the same ones" in texts[-1], texts[-1])


main_all(globals())
