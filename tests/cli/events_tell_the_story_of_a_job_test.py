"""`regroup events`: each generation with its cause, size and resume commit,
the death that ended it, and how long its members took; --follow prints each of
them once, to the end, and ends with the job's code.

Covers: events_cmd.c event_log.c"""

import json
import subprocess

from house import REGROUP, UNTIL_FINISH, Job, claim, main, trainer

FIELDS = ["at", "generation", "event", "kind", "worker", "from_size",
          "to_size", "resume", "steps_lost", "recovery_ms", "code", "why"]


def start(job, *words):
    return subprocess.Popen([REGROUP, "events", *words], env=job.env,
                            stdout=subprocess.PIPE, text=True)


def seen(events):
    return [(e["generation"], e["event"]) for e in events]


def check_story(events, name):
    for event in events:
        claim(list(event) == FIELDS, f"{name}: {event}")
    kinds = seen(events)
    claim(len(set(kinds)) == len(kinds), f"{name} tells twice: {kinds}")
    claim([k for k in kinds if k[1] != "proposed"][:5] ==
          [(1, "decided"), (1, "stepping"), (1, "death"), (2, "decided"),
           (2, "stepping")], f"{name}: {kinds}")
    one = {k: e for k, e in zip(kinds, events)}
    claim(one[1, "decided"]["why"] == "first", str(one[1, "decided"]))
    claim((one[1, "decided"]["kind"], one[2, "decided"]["kind"]) ==
          ("first", "death"), str(events))
    claim((one[1, "decided"]["from_size"], one[1, "decided"]["to_size"]) ==
          (0, 3), str(one[1, "decided"]))
    claim(one[1, "decided"]["resume"] is None, str(one[1, "decided"]))
    death, after = one[1, "death"], one[2, "decided"]
    claim(death["worker"].endswith(".1.1"), str(death))
    claim(death["why"] == after["why"] and "died" in death["why"], str(death))
    claim(death["at"] <= after["at"] <= one[2, "stepping"]["at"], str(events))
    claim(after["to_size"] == 2 and after["resume"][0] == 1 and
          after["resume"][1] > 0 and after["steps_lost"] == 0, str(after))
    claim(0 < one[2, "stepping"]["recovery_ms"] < 30000, str(events))
    joined = [e for e in events if e["event"] == "decided"][-1]
    claim("joined" in joined["why"] and joined["to_size"] == 3, str(joined))


def test():
    with Job(["--min", "1", "--max", "3"],
             trainer(*UNTIL_FINISH, "--step-ms", "10")) as job:
        job.wait_step(5)
        lines = start(job, "--follow", "--json", "--interval", "50ms")
        table = start(job, "--follow", "--interval", "50ms")
        job.kill(rank=1)
        job.wait_world(3, above=1)
        shown = job.run("events", "--json", "test")
        claim(shown.returncode == 0, shown.stderr)
        check_story(json.loads(shown.stdout), "events --json")
        text = job.run("events").stdout.splitlines()
        claim(text[0].split() == ["time", "gen", "event", "world", "lost",
                                  "resume", "recovery", "why"], text[0])
        claim("first" in text[1] and "0 > 3" in text[1], text[1])
        job.finish()

        out, _ = lines.communicate(timeout=20)
        claim(lines.returncode == 0, f"--follow ended with {lines.returncode}")
        events = [json.loads(line) for line in out.splitlines()]
        # A reason is written beside its decision, and may be seen behind it.
        check_story(sorted(events, key=lambda e: e["generation"]),
                    "events --follow --json")
        claim(seen(events)[-1][1] == "done", str(events[-1]))
        out, _ = table.communicate(timeout=20)
        rows = [line for line in out.splitlines() if " decided " in line]
        claim(len(rows) == len([e for e in events if e["event"] ==
                                "decided"]), out)
        claim(out.count(" done ") == 1, out)

    with Job(["-n", "1"], trainer("--steps", "100000")) as job:
        job.wait_step(1)
        lines = start(job, "--follow", "--json")
        first = lines.stdout.readline()
        claim(json.loads(first)["why"] == "first", first)
        claim(job.run("stop").returncode == 0, "stop")
        job.finish(143)
        out, _ = lines.communicate(timeout=20)
        claim(lines.returncode == 143, f"--follow ended with "
              f"{lines.returncode}")
        last = json.loads(out.splitlines()[-1])
        claim((last["event"], last["code"]) == ("ended", 143) and
              "regroup stop" in last["why"], str(last))


main(test)
