"""`regroup timeline merge` makes one trace of those of several hosts: a track
for each worker and set of each host, and although the clock of one of them is
seven seconds ahead, no operation of all ranks ends on a rank before each has
begun it. What was merged can be merged again. Mistakes are one sentence, and
leave nothing on standard output, wherever they are.

Covers: timeline_merge.c timeline_cmd.c"""
import json
import os

from house import BUILD, UNTIL_FINISH, claim, main, trainer
from hosts import Hosts, HostsJob

CLOCK = os.path.join(BUILD, "tests", "libclock_shim.so")
AHEAD_S = 7
MEETINGS = ("agreement", "barrier", "allreduce")


def names(events, what):
    return {e["args"]["name"]: (e["pid"], e["tid"]) for e in events
            if e["ph"] == "M" and e["name"] == what}


def worst_us(events):
    """By how much an operation seems to end on a rank before another one has
    begun it."""
    first_end, last_begin = {}, {}
    for e in events:
        if e["ph"] == "X" and e["tid"] == 1 and e["name"] in MEETINGS:
            key = e["args"]["generation"], e["args"]["number"]
            end = e["ts"] + e["dur"]
            first_end[key] = min(end, first_end.get(key, end))
            last_begin[key] = max(e["ts"], last_begin.get(key, 0))
    claim(len(first_end) > 100, f"{len(first_end)} operations")
    return max(last_begin[key] - first_end[key] for key in first_end)


def test():
    with Hosts(2) as hosts:
        with open(os.path.join(hosts.folder, "h2.r.clock"), "w",
                  encoding="ascii") as file:
            file.write(str(AHEAD_S))
        folder = hosts.folder
        with HostsJob(hosts, ["--min", "1", "--max", "4"],
                      ["--slots", "2", "--timeline", f"{folder}/t.json"],
                      ["env", "-u", "LD_PRELOAD",
                       *trainer(*UNTIL_FINISH, "--step-ms", 5)],
                      env={"LD_PRELOAD": CLOCK}) as job:
            job.wait_world(4)
            job.wait_step(50)
            before = job.generation()
            job.kill(rank=1)
            job.wait_world(4, above=before)
            job.wait_step(job.step() + 50)
            job.finish()

            def merge(*files):
                return job.run_on("h1", "timeline", "merge", *files)
            files = [f"{folder}/t.h1.json", f"{folder}/t.h2.json"]
            parts = []
            for path in files:
                with open(path, encoding="utf-8") as file:
                    parts += json.load(file)["traceEvents"]
            shown = merge(*files)
            claim(shown.returncode == 0 and shown.stderr == "", str(shown)[-500:])
            events = json.loads(shown.stdout)["traceEvents"]
            claim(len(events) == len(parts), "events are missing")
            claim(worst_us(parts) > 6e6, "the clocks do not differ")
            claim(worst_us(events) < 5000, f"{worst_us(events)} us")
            tracks = names(events, "process_name")
            claim({"world, seen from h1", "world, seen from h2"} < set(tracks)
                  and len({pid for pid, _ in tracks.values()}) == 6
                  and {pid for pid, _ in tracks.values()} ==
                  {e["pid"] for e in events if e["name"] != "regroup"},
                  str(tracks))
            merged = f"{folder}/merged.json"
            with open(merged, "w", encoding="utf-8") as file:
                file.write(shown.stdout)
            again = json.loads(merge(merged, files[1]).stdout)["traceEvents"]
            claim(len({e["pid"] for e in again
                       if e["name"] == "process_name"}) == 9,
                  "tracks of what was merged before are one")
            shown = merge(files[1])
            claim(len(json.loads(shown.stdout)["traceEvents"]) < len(parts) and
                  shown.returncode == 0, "one file")

            bad = f"{folder}/bad.json"
            with open(files[0], encoding="utf-8") as file:
                lines = file.readlines()
            with open(bad, "w", encoding="utf-8") as file:
                file.writelines(lines[:20] + ["{\"ph\":\n"] + lines[20:])
            late, short = f"{folder}/late.json", f"{folder}/short.json"
            with open(late, "w", encoding="utf-8") as file:
                file.writelines(lines[:-1] + ["no event\n"])
            with open(short, "w", encoding="utf-8") as file:
                file.writelines([*lines[:20], "]}\n"])
            pipe = f"{folder}/pipe"
            os.mkfifo(pipe)
            for words, said in (((), "FILE"), ((files[0], "/none"), "/none"),
                                (("/none",), "/none"),
                                ((files[0], "/dev/null"), "/dev/null"),
                                ((files[0], folder), folder),
                                ((files[0], pipe), pipe),
                                ((bad,), "line 21 of"),
                                ((short, late), f"of {late} is not an event"),
                                ((files[0], bad), "line 21 of")):
                shown = merge(*words)
                claim(shown.returncode == 64 and shown.stdout == "" and
                      shown.stderr.count("\n") == 1 and said in shown.stderr,
                      f"{words}: {str(shown)[-500:]}")
            alone = f"{folder}/alone.json"
            with open(alone, "w", encoding="utf-8") as file:
                file.writelines([*lines[:2], "]}\n"])
            shown = merge(files[0], alone)
            claim(shown.returncode == 0 and "in common" in shown.stderr and
                  json.loads(shown.stdout), str(shown)[-500:])


main(test)
