"""`regroup status` lists the sets of the job with id, kind, size and ranks, as
workers have them at that moment: after a kill one that ended is gone, one to
keep has shrunk, and a rule has been made again. A stopped worker does not keep
it from answering. The table has a bounded number of rows.

Covers: set_list.c send_sets.c status_cmd.c"""
import os
import signal

from house import UNTIL_FINISH, Job, claim, main, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 5, "--live-sets", 30)


def shown(job):
    """{(name, ranks): (kind, keep, size)}, the nameless lists left out."""
    return {(s["name"], s["ranks"]): (s["kind"], s["keep"], s["size"])
            for s in job.answer()["sets"] if not s["name"].startswith("set")}


def wait_shown(job, expected):
    seen = []

    def is_shown():
        seen[:] = [shown(job)]
        return seen[0] == expected
    try:
        until(is_shown, 20, f"the sets {expected}")
    finally:
        if seen[0] != expected:
            print(f"the last that was shown: {seen[0]}")


def check_first(job):
    def all_ids():
        ids = [s["id"] for s in job.answer()["sets"]]
        return len(ids) == 35 and ids
    wait_shown(job, {("world", "0-3"): ("world", False, 4),
                     ("pairs", "0,1"): ("rule", False, 2),
                     ("pairs", "2,3"): ("rule", False, 2),
                     ("kept", "3-0"): ("list", True, 4),
                     ("stage", "0,2"): ("list", False, 2)})
    ids = until(all_ids, 20, "35 sets are shown")
    claim(ids == sorted(ids) and ids[0] == 0 and len(set(ids)) == 34,
          f"the ids are {ids}")


def check_table(job):
    text = job.run("status", job.name).stdout
    rows = "".join(table for table in text.split("\n\n")
                   if table.startswith("set "))
    lines = rows.strip().splitlines()
    claim(lines[0].split() == ["set", "id", "size", "kind", "ranks"] and
          lines[3].split() == ["kept", "2", "4", "list,", "keep", "3-0"] and
          len(lines) == 22 and lines[-1] ==
          "and 14 more: regroup status --json shows all",
          f"the table of sets is\n{rows}")


def check_after_a_kill(job):
    job.kill(2)
    job.wait_world(3, above=1)
    job.wait_world(4, above=2)
    wait_shown(job, {("world", "0-3"): ("world", False, 4),
                     ("pairs", "0,1"): ("rule", False, 2),
                     ("pairs", "2,3"): ("rule", False, 2),
                     ("kept", "2-0"): ("list", True, 3)})


def check_stopped(job):
    pid = job.pid(0)
    os.kill(pid, signal.SIGSTOP)
    try:
        sets = shown(job)
    finally:
        os.kill(pid, signal.SIGCONT)
    claim(("kept", "2-0") in sets, f"beside a stopped worker {sets} is shown")


def test():
    with Job(["--min", "1", "--max", "4"], trainer(*TRAIN),
             detect="5s") as job:
        job.wait_step(3)
        check_first(job)
        check_table(job)
        check_after_a_kill(job)
        check_stopped(job)
        job.finish()
        job.check()


main(test)
