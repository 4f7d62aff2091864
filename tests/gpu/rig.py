"""Everything that only a machine with a GPU answers, in parts: what CUDA and
NCCL do by themselves, jobs of 2 to 4 ranks on its first device, and what
Regroup costs. A line for each claim, and a table behind them.

ci/gpu runs this; the parts and their order are PARTS below."""

import argparse
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import time

from device import DeviceJob, on_one_device, reducer
from house import BUILD, SOURCE, UNTIL_FINISH, Failed, claim, until

ON_STAND_IN = os.environ.get("REGROUP_TEST_GPU") != "1"
MIB = 1 << 20
ELASTIC = ("--min", "1", "--max")
COST = re.compile(r"cost (\w+) ([\d.]+)")


class Table:
    """Rows (part, what, verdict, value), said as they come."""

    def __init__(self, out):
        self.rows = []
        self.path = os.path.join(out, "table.txt")

    def add(self, part, what, verdict, value=""):
        row = f"{part:10} {verdict:4} {what:44} {value}".rstrip()
        self.rows.append((verdict, row))
        print(row, flush=True)

    def save(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.writelines(row + "\n" for _, row in self.rows)

    def count(self, verdict):
        return sum(v == verdict for v, _ in self.rows)


class Part:
    """What a part may use: its rows, and the time that it has left."""

    def __init__(self, table, name, seconds, out):
        self.table, self.name, self.out = table, name, out
        self.end = time.monotonic() + seconds

    def left(self):
        return max(1, self.end - time.monotonic())

    def passed(self, what, value=""):
        self.table.add(self.name, what, "ok", value)

    def told(self, what, value):
        self.table.add(self.name, what, "info", value)

    def goal(self, what, value, most, unit, means=False):
        """On the stand-in a number means nothing, but where it means that."""
        verdict = ("info" if ON_STAND_IN and not means else
                   "ok" if value <= most else "MISS")
        self.table.add(self.name, what, verdict,
                       f"{value:.2f}{unit}, goal {most}{unit}")

    @contextlib.contextmanager
    def job(self, flags, command, script="", env=None, **more):
        """A job on one device, whose log is kept."""
        command, script, variables = on_one_device(command, script)
        job = DeviceJob(flags, command, script, {**variables, **(env or {})},
                        **more)
        with job:
            try:
                yield job
            finally:
                with open(os.path.join(self.out, self.name + ".log"), "a",
                          encoding="utf-8") as file:
                    file.write(" ".join(job.command) + "\n" + job.text())

    def wait(self, condition, what):
        until(condition, self.left(), what)


# ------------------------------------------------------------ CUDA and NCCL

def fake_environment(folder):
    """For programs that are no jobs."""
    if not ON_STAND_IN:
        return {}
    tests = os.path.join(BUILD, "tests")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "script"), "w", encoding="ascii") as file:
        file.write("devices n=1\n")
    return {"FAKE_DEVICE": folder,
            "REGROUP_CUDA_LIB": os.path.join(tests, "libfakecuda.so"),
            "REGROUP_NCCL_LIB": os.path.join(tests, "libfakenccl.so")}


def ask(part, name):
    env = dict(os.environ, **on_one_device([])[2],
               **fake_environment(os.path.join(part.out, "device")))
    program = os.path.join(BUILD, "tests", "gpu_questions")
    begin = time.monotonic()
    with subprocess.Popen([program, name], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as process:
        try:
            text = process.communicate(timeout=part.left())[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text = process.communicate()[0] + (
                f"@ not done within {time.monotonic() - begin:.0f} s\n")
        code = process.returncode
    with open(os.path.join(part.out, "questions.log"), "a",
              encoding="utf-8") as file:
        file.write(f"--- {name}: {code}\n{text}")
    answers = [line[2:] for line in text.splitlines()
               if line.startswith("@ ")] or [f"ended with {code}, no answer"]
    for answer in answers:
        part.table.add(part.name, name, "info" if code == 0 else "FAIL",
                       answer)


def questions(part):
    for name in ("machine", "split", "alone", "word", "abort", "orders",
                 "ping", "memory", "staging"):
        if part.left() < 5:
            part.table.add(part.name, name, "SKIP", "no time is left")
            continue
        mine = Part(part.table, part.name, min(60, part.left()), part.out)
        ask(mine, name)


# ---------------------------------------------------------------- the rig

def kinds(part):
    for size in ("1", "2", "4"):
        with part.job(["-n", size],
                      [os.path.join(BUILD, "tests", "kinds")]) as job:
            job.finish(seconds=part.left())
            claim(job.text().count("all are right") == int(size),
                  "a rank has not come to its end")
            part.passed(f"kinds and types as of host memory, {size} ranks")


def next_step_ms(job, since_ns, pids):
    """ms until all of them have stepped in a later generation; None yet."""
    before = job.generation_before
    first = {}
    for event in job.events("step"):
        if event["t_ns"] > since_ns and event["generation"] > before:
            first.setdefault(event["pid"], event["t_ns"])
    if not set(pids) <= set(first):
        return None
    return (max(first[pid] for pid in pids) - since_ns) / 1e6


def hurt(part, job, rank, signum=signal.SIGKILL):
    """ms until the survivors step again."""
    workers = job.workers()
    pids = [w["pid"] for r, w in workers.items() if r != rank]
    job.generation_before = job.generation()
    since_ns = time.monotonic_ns()
    os.kill(workers[rank]["pid"], signum)
    found = []

    def stepped():
        found[:] = [next_step_ms(job, since_ns, pids)]
        return found[0] is not None or not job.alive()
    part.wait(stepped, "the survivors' next step")
    return found[0]


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def wait_all(part, job, size):
    """All are there, know their pids, and have stepped together."""
    part.wait(lambda: (len(job.workers()) == size and all(
        w["pid"] for w in job.workers().values()) and any(
            e["size"] == size for e in job.events("step")[-1:]))
        or not job.alive(), f"a world of {size}")
    job.wait_step(job.step() + 2)


def end(job, left=1):
    job.finish()
    job.check()
    job.check_device(left=left)


def kills(part):
    """In mid-allreduce: a step is little else."""
    rounds = 2 if ON_STAND_IN else 20
    for size in (2,) if ON_STAND_IN else (2, 4):
        times = []
        with part.job([*ELASTIC, str(size)], reducer(
                *UNTIL_FINISH, "--step-ms", 0, "--device-state",
                "--elements", MIB // 8)) as job:
            for k in range(rounds):
                wait_all(part, job, size)
                times.append(hurt(part, job, k % size))
                if part.left() < 20:
                    break
            end(job, left=rounds)
        what = f"kill of 1 of {size} to the next step"
        part.goal(f"{what}, p50 of {len(times)}", percentile(times, 50), 400,
                  " ms")
        part.goal(f"{what}, p99", percentile(times, 99), 600, " ms")


def stops(part):
    """A process that is stopped in mid-allreduce is silent, and given up."""
    with part.job([*ELASTIC, "3"], reducer(
            *UNTIL_FINISH, "--step-ms", 0, "--elements", MIB // 8),
            detect="1s") as job:
        wait_all(part, job, 3)
        part.passed("a stopped rank is given up after 1 s of silence",
                    f"{hurt(part, job, 1, signal.SIGSTOP):.0f} ms")
        end(job)


def beginnings(part):
    """Kills while communicators meet, split and warm up."""
    point = ("device.boot:rank1:gen1:start1:kill,"
             "device.split:rank2:gen2:start1:kill,"
             "device.warm:rank0:gen3:start1:kill")
    with part.job(["-n", "3"], reducer(
            *UNTIL_FINISH, "--step-ms", 2, "--limit-ms", 20000),
            env={"REGROUP_FAILPOINT": point}) as job:
        part.wait(lambda: job.text().count("strikes") >= 3 or not job.alive(),
                  "three kills")
        job.wait_step(job.step() + 5, part.left())
        end(job, left=3)
    part.passed("kills in meeting, splitting and warming up")


def scales(part):
    with part.job([*ELASTIC, "4"], reducer(
            *UNTIL_FINISH, "--step-ms", 2, "--device-state")) as job:
        for size in (4, 2, 3):
            if size != 4:
                done = job.run("scale", "--min", "1", "--max", str(size),
                               job.name)
                claim(done.returncode == 0, done.stderr)
            wait_all(part, job, size)
        end(job)
    part.passed("a world of 4 shrinks to 2 and grows to 3")


def sets(part):
    with part.job(["-n", "3"], reducer(
            "--steps", 20 if ON_STAND_IN else 200, "--cross", "--step-ms",
            0)) as job:
        job.finish(seconds=part.left())
        job.check_device()
    part.passed("two sets, started in opposite orders by the ranks")


EXAMPLES = {
    "elastic_cuda": ("--data", "digits.csv", "--epochs", "10"),
    "gpt_cuda": ("--text", "harbour.txt", "--steps", "100", "--commit-every",
                 "1", *("--layers 1 --channels 16 --heads 2 --positions 16 "
                        "--batch 8".split() if ON_STAND_IN else ()))}


def examples(part):
    """Each ends with the state of a worker that is alone and lives."""
    folder = os.path.join(BUILD, "tests" if ON_STAND_IN else "bin")
    for name, (flag, file, *more) in EXAMPLES.items():
        program = os.path.join(folder, name)
        if not os.path.exists(program):
            part.table.add(part.name, name, "SKIP", "nvcc has not built it")
            continue
        data = os.path.join(SOURCE, "examples", "data", file)
        ends = []
        for flags, point in (
                (("-n", "1"), ""),
                ((*ELASTIC, "3"), "commit.copy:rank1:step30:start1:kill,"
                 "commit.before_agree:rank0:step60:start1:kill")):
            with part.job(flags, [program, flag, data, *more],
                          env={"REGROUP_FAILPOINT": point}) as job:
                job.finish(seconds=part.left())
                job.check_disciplined()
                job.check()
                ends += re.findall(r"final .* state \w{16}", job.text())
                kills = job.text().count("strikes")
        claim(kills >= 2, f"{kills} of 2 kills have struck {name}")
        claim(len(ends) == 2 and ends[0] == ends[1], f"{name} ends with {ends}")
        part.passed(f"{name} ends the same after kills", ends[0])


def has_torch():
    return subprocess.run(
        ["python3", "-c", "import sys, torch; "
         "sys.exit(not torch.cuda.is_available())"], check=False,
        capture_output=True, timeout=60).returncode == 0


def tensors(part):
    """torch's: collectives, gradients, and a model that outlives kills."""
    if ON_STAND_IN or not has_torch():
        part.table.add(part.name, "tensors of torch", "SKIP",
                       "no python3 whose torch has a GPU")
        return
    program = ["python3", os.path.join(SOURCE, "tests", "gpu", "tensors.py")]
    env = {"PYTHONPATH": os.path.join(SOURCE, "sdk", "python"),
           "REGROUP_LIBRARY": os.path.join(BUILD, "lib", "libregroup.so.0")}

    def ask(what, size, point=""):
        with part.job(("-n", size), [*program, what],
                      env={**env, "REGROUP_FAILPOINT": point}) as job:
            job.finish(seconds=part.left())
            claim(f"right: {what}" in job.text(), f"{what} is not right")
            claim(job.text().count("strikes") == point.count(":kill"),
                  "not each kill has struck")
            return re.findall(r"final state \w{16}", job.text())

    for what in ("collectives", "optimizer"):
        for size in ("1", "2", "3"):
            ask(what, size)
        part.passed(f"{what} of torch, 1, 2 and 3 ranks")
    expected = ask("elastic", "2")
    found = ask("elastic", "2", "commit.copy:rank1:step20:start1:kill,"
                "commit.before_agree:rank0:step40:start1:kill")
    claim(len(found) == 1 and found == expected,
          f"after kills {found}, without {expected}")
    part.passed("DDP, batch norm and Adam end the same after kills", found[0])


def held(pid):
    return {"threads": len(os.listdir(f"/proc/{pid}/task")),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "device MiB": device_memory(pid)}


def device_memory(pid):
    """As nvidia-smi knows it; 0 where it does not."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["nvidia-smi", "--query-compute-apps=pid,used_memory",
             "--format=csv,noheader,nounits"], capture_output=True, text=True,
            timeout=20, check=True)
        for line in done.stdout.splitlines():
            words = line.split(", ")
            if words[0] == str(pid) and words[-1].isdigit():
                return int(words[-1])
    return 0


def leftovers(part):
    """Each kill is two changes: one that shrinks, one that grows."""
    changes = 4 if ON_STAND_IN else 20
    with part.job([*ELASTIC, "3"], reducer(
            *UNTIL_FINISH, "--step-ms", 2, "--set")) as job:
        wait_all(part, job, 3)
        hurt(part, job, 2)  # what is made once has been made
        wait_all(part, job, 3)
        pids = [job.workers()[rank]["pid"] for rank in (0, 1)]
        first = {pid: held(pid) for pid in pids}
        start = job.generation()
        while job.generation() < start + changes:
            hurt(part, job, 2)
            wait_all(part, job, 3)
        for pid in pids:
            part.wait(lambda pid=pid: held(pid) == first[pid],
                      f"process {pid} held {first[pid]}, now {held(pid)}")
        end(job, left=changes)
    part.passed(f"{changes} changes leave nothing", str(first[pids[0]]))


# ---------------------------------------------------------------- the goals

def gone(part):
    """From the device's own log: what a generation's end took."""
    with part.job([*ELASTIC, "3"], reducer(
            *UNTIL_FINISH, "--step-ms", 0, "--elements", MIB // 8),
            env={"REGROUP_LOG": "info,device=debug"}) as job:
        for k in range(2 if ON_STAND_IN else 10):
            wait_all(part, job, 3)
            hurt(part, job, k % 3)
        end(job, left=10)
        quiet = [float(ms) for ms in re.findall(
            r"was quiet ([\d.]+) ms after its mark", job.text())]
    claim(quiet, "no generation's end was logged")
    part.goal(f"kernels gone after the mark, worst of {len(quiet)}",
              max(quiet), 20, " ms")


def costs(part):
    with part.job(["-n", "2"], [os.path.join(BUILD, "tests", "gpu_costs"),
                                "launch"]) as job:
        job.finish(seconds=part.left())
        cost = {name: float(value) for name, value in COST.findall(job.text())}
    bare = cost["launch_bare_us"]
    part.told("a bare launch", f"{bare:.2f} us")
    part.goal("a launch over the bare one", cost["launch_us"] - bare, 1.3,
              " us")
    part.goal("the same with a request",
              cost["launch_with_request_us"] - bare, 2, " us")
    for name, value in cost.items():
        if name.endswith("ratio"):
            part.goal(name.replace("_ratio", " over bare").replace("_", " "),
                      value, 1.02, "x")


def own(part):
    """With a driver and an NCCL that take no time: what is left is Regroup's
    own, wherever it is measured."""
    idle = os.path.join(BUILD, "tests", "libidle.so")
    env = {"REGROUP_CUDA_LIB": idle, "REGROUP_NCCL_LIB": idle}

    def ask(*words):
        with part.job(["-n", "2"], [os.path.join(BUILD, "tests", "gpu_costs"),
                                    *words], env=env) as job:
            job.finish(seconds=part.left())
            return {name: float(value)
                    for name, value in COST.findall(job.text())}

    cost = ask("launch")
    bare = cost["launch_bare_us"]
    part.goal("Regroup's own share of a launch", cost["launch_us"] - bare,
              1.3, " us", means=True)
    part.goal("the same with a request",
              cost["launch_with_request_us"] - bare, 2, " us", means=True)
    cost = ask("wait")
    part.goal("rg_wait behind an operation's end, awake",
              cost["wait_awake_us"], 5, " us")
    part.goal("rg_wait behind an operation's end, asleep",
              cost["wait_asleep_us"], 100, " us")
    part.goal("CPU of a process whose device is idle",
              cost["idle_cpu_percent"], 0.5, " %", means=True)
    host, device = (min(ask("commit", where, "64", "20")
                        [f"commit_{where}_ms"] for _ in range(2))
                    for where in ("host", "device"))
    part.goal("commit of 64 MiB over the host's, but for the copies",
              device / host, 1.15, "x", means=True)


def commits(part):
    for mib in (16,) if ON_STAND_IN else (64, 512):
        ms = {}
        for turn in range(2):
            for where in ("host", "device"):
                with part.job(["-n", "1"], [
                        os.path.join(BUILD, "tests", "gpu_costs"), "commit",
                        where, str(mib), "20"]) as job:
                    job.finish(seconds=part.left())
                    found = dict(COST.findall(job.text()))
                ms.setdefault(where, []).append(
                    float(found[f"commit_{where}_ms"]))
        host, device = (statistics.median(ms[w]) for w in ("host", "device"))
        part.goal(f"commit of {mib} MiB of the device over the host's",
                  device / host, 1.15, "x")
        part.told(f"commit of {mib} MiB", f"host {host:.1f} ms, "
                  f"device {device:.1f} ms")


# name: (function, seconds)
PARTS = {"questions": (questions, 240), "kinds": (kinds, 60),
         "sets": (sets, 60), "kills": (kills, 240), "stops": (stops, 40),
         "beginnings": (beginnings, 60), "scales": (scales, 60),
         "examples": (examples, 60), "tensors": (tensors, 240),
         "leftovers": (leftovers, 120), "gone": (gone, 100),
         "own": (own, 60), "costs": (costs, 60), "commits": (commits, 90)}


def run(table, name, limit, out):
    function, seconds = PARTS[name]
    part = Part(table, name, min(seconds, limit), out)
    begin = time.monotonic()
    try:
        function(part)
    except (Failed, KeyError, OSError, subprocess.SubprocessError) as error:
        table.add(name, "the part", "FAIL", f"{error or repr(error)}")
    return time.monotonic() - begin


def read_arguments():
    parser = argparse.ArgumentParser(prog="ci/gpu", add_help=False)
    parser.add_argument("--out", required=True)
    parser.add_argument("--total", type=float, default=560)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("part", nargs="*")
    arguments = parser.parse_args()
    for name in arguments.part:
        if name not in PARTS:
            parser.error(f"there is no part {name}; see ci/gpu --list")
    return arguments


def main():
    arguments = read_arguments()
    if arguments.list:
        for name, (_, seconds) in PARTS.items():
            print(f"{name:10} at most {seconds} s")
        return 0
    os.makedirs(arguments.out, exist_ok=True)
    out = os.path.abspath(arguments.out)
    table = Table(out)
    finish = time.monotonic() + arguments.total
    for name in arguments.part or PARTS:
        left = finish - time.monotonic()
        if left < 10:
            table.add(name, "the part", "SKIP", "no time is left")
            continue
        run(table, name, left, out)
    table.save()
    print(f"{table.count('ok')} ok, {table.count('MISS')} beside their goal, "
          f"{table.count('FAIL')} failed, {table.count('SKIP')} skipped; "
          f"{out}/table.txt and logs")
    return 1 if table.count("FAIL") else 0


sys.exit(main())
