"""A timeline is JSON that a tracing page opens, at any time and after a kill of
the whole job: operations by set, waits, computing, commits, and the stages of a
change after a worker's death, of each worker and of its replacement. It can be
begun and ended while the job runs, and mistakes are one sentence.

Covers: timeline.c timeline_events.c timeline_writer.c timeline_cmd.c timeline_ask.c"""
import json
import os
import signal
import time

from house import UNTIL_FINISH, Job, children, claim, trainer, until


def read(job, name):
    with open(os.path.join(job.folder, name), encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def read_beside(job, name):
    """While it is written: a reader that needs several reads may get the end of
    one state behind the beginning of another, and reads again."""
    def whole():
        try:
            return read(job, name)
        except json.JSONDecodeError:
            return None
    return until(whole, 10, f"{name} is whole")


def stop_waits_for_the_writer(job):
    """But not for long, where that is held up: another timeline then begins
    when the first has taken what is its own."""
    before = set(children(job.agent()))
    claim(job.run("timeline", "start", f"{job.folder}/w.json",
                  "test").returncode == 0, "start")
    writer, = set(children(job.agent())) - before
    os.kill(writer, signal.SIGSTOP)
    began = time.monotonic()
    claim(job.run("timeline", "stop", "test").returncode == 0, "stop")
    claim(time.monotonic() - began >= 0.1, "it was not waited for")
    refused = job.run("timeline", "start", f"{job.folder}/w.json", "test")
    claim(refused.returncode != 0 and
          f"is being written by another process ({writer})" in refused.stderr,
          refused)
    claim(job.run("timeline", "start", f"{job.folder}/v.json",
                  "test").returncode == 0, "start")
    job.wait_step(job.step() + 500)
    claim("commit" not in names(read(job, "v.json")), "two take the spans")
    os.kill(writer, signal.SIGCONT)
    until(lambda: "commit" in names(read_beside(job, "v.json")), 20, "commits")
    claim(job.run("timeline", "stop", "test").returncode == 0, "stop")
    check(read(job, "v.json"))
    until(lambda: "end of the timeline" in names(read_beside(job, "w.json"),
                                                 "i"), 20, "its end")


def names(events, phase="X"):
    return {e["name"] for e in events if e["ph"] == phase}


NUMBER = (int, float)
FIELDS = {"X": {"dur": NUMBER}, "M": {"args": dict}, "i": {"s": str},
          "C": {"args": dict}, "b": {"id": NUMBER, "cat": str},
          "e": {"id": NUMBER, "cat": str}}
NAMING = ("process_name", "thread_name", "regroup")  # the last one: the file


def check_fields(e):
    """What Chrome's trace format asks for in each kind of event."""
    claim(e.get("ph") in FIELDS and isinstance(e["name"], str) and
          isinstance(e["pid"], int), str(e))
    if e["ph"] == "M":
        claim(e["name"] in NAMING, str(e))
        claim(e["name"] == "regroup" or isinstance(e["args"]["name"], str),
              str(e))
        return
    claim(isinstance(e["ts"], NUMBER) and e["ts"] > 1e15 and
          isinstance(e["tid"], int), str(e))
    for field, kind in FIELDS[e["ph"]].items():
        claim(isinstance(e[field], kind), f"{field}: {e}")


def check(events):
    """Slices of one thread follow each other or are nested, each `b` has its
    `e`, and nothing is shown of which nobody would read."""
    threads, begun = {}, {}
    for e in events:
        check_fields(e)
        if e["ph"] == "X":
            claim(e["dur"] >= (10 if e["name"] == "compute" else 0), str(e))
            claim(e.get("args", {}).get("status") != "RG_OK", str(e))
            threads.setdefault((e["pid"], e["tid"]), []).append(e)
        elif e["ph"] == "b":
            key = e["pid"], e["cat"], e["id"]
            claim(key not in begun, str(e))
            begun[key] = e
        elif e["ph"] == "e":
            start = begun.pop((e["pid"], e["cat"], e["id"]))
            claim(start["name"] == e["name"] and start["ts"] <= e["ts"],
                  f"{start} {e}")
    claim(not begun, f"without an end: {begun}")
    for slices in threads.values():
        open_ends = []
        for e in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
            while open_ends and open_ends[-1] <= e["ts"] + 1:
                open_ends.pop()
            end = e["ts"] + e["dur"]
            claim(not open_ends or end <= open_ends[-1] + 1, f"overlap: {open_ends} {e}")
            open_ends.append(end)


with Job(["-n", "2", "--timeline", "t.json"], trainer(*UNTIL_FINISH)) as job:
    job.wait_step(20)
    before = job.generation()
    job.kill(rank=1)
    job.wait_world(2, above=before)
    job.wait_step(job.step() + 20)

    def has_all():
        found = read_beside(job, "t.json")
        return ({"allreduce", "wait", "compute", "commit", "build", "decide",
                 "first step"} <= names(found)) and found
    check(until(has_all, 20, "all kinds of events"))

    for words in (("timeline",), ("timeline", "begin"), ("timeline", "start"),
                  ("timeline", "start", "u.json", "test", "more"),
                  ("timeline", "stop", "no-such-job"),
                  ("timeline", "start", "u.json", "test")):
        shown = job.run(*words)
        claim(shown.returncode == 64 and shown.stderr.count("\n") == 1,
              f"{words}: {shown}")
    claim(job.run("timeline", "stop", "test").returncode == 0, "stop")
    claim("end of the timeline" in names(read(job, "t.json"), "i"), "its end")
    claim(job.run("timeline", "stop", "test").returncode == 64, "again")
    shown = job.run("timeline", "start", "/no/such/folder/t.json", "test")
    claim(shown.returncode == 64 and "/no/such/folder" in shown.stderr,
          str(shown))
    odd = os.fsdecode(b"\xff.json")  # JSON takes no such byte
    shown = job.run("timeline", "start", f"/no/such/folder/{odd}", "test")
    claim(shown.returncode == 64 and "folder/?.json" in shown.stderr, str(shown))
    shown = job.run("timeline", "start", f"{job.folder}/{odd}", "test")
    claim(shown.returncode == 0 and "/?.json" in shown.stdout, str(shown))
    claim(job.run("timeline", "stop", "test").returncode == 0, "stop")
    claim("end of the timeline" in names(read(job, odd), "i"), "odd name")
    stop_waits_for_the_writer(job)
    path = os.path.join(job.folder, "second.json")
    claim(job.run("timeline", "start", path, "test").returncode == 0, "start")
    until(lambda: "commit" in names(read_beside(job, "second.json")), 20,
          "commits")

    agent = job.agent()
    os.kill(agent, signal.SIGKILL)
    job.wait_step(job.step() + 20)
    check(read(job, "second.json"))
    job.finish()
    check(read(job, "second.json"))
    check(read(job, "t.json"))
