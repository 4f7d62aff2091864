"""`regroup timeline start` on one host begins a timeline on each host of the
world, in a file with the host's name, and `stop` on another host ends them all
and counts the events of each. Where one host can't write its file, the command
says which and why, the others write theirs, and `stop` ends those.

Covers: timeline_ask.c timeline_cmd.c gather.c serve.c"""
import json
import os

from house import UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob


def commits(path):
    """How many a file has; it may be being written."""
    try:
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    except json.JSONDecodeError:
        return 0
    return sum(e["name"] == "commit" for e in events)


def test():
    with Hosts(3) as hosts:
        folder = hosts.folder
        with HostsJob(hosts, ["--min", "1", "--max", "3"], ["--slots", "1"],
                      trainer(*UNTIL_FINISH, "--step-ms", 2)) as job:
            job.wait_world(3)
            names = {host: f"{folder}/t.{host}.json"
                     for host in ("h1", "h2", "h3")}
            shown = job.run_on("h1", "timeline", "start", f"{folder}/t.json")
            claim(shown.returncode == 0 and shown.stderr == "" and
                  all(f"written to {path}\n" in shown.stdout
                      for path in names.values()), str(shown))
            for path in names.values():
                until(lambda: commits(path) > 5, 20, f"commits in {path}")
            shown = job.run_on("h1", "timeline", "start", f"{folder}/u.json")
            claim(shown.returncode == 64 and "already" in shown.stderr and
                  not os.path.exists(f"{folder}/u.h2.json"), str(shown))
            shown = job.run_on("h2", "timeline", "stop")
            claim(shown.returncode == 0 and shown.stdout.count("\n") == 3 and
                  all(f"{host}: the timeline has" in shown.stdout
                      for host in names), str(shown))
            for path in names.values():
                with open(path, encoding="utf-8") as file:
                    claim("end of the timeline" in file.read(), path)

            os.mkdir(f"{folder}/v.h2.json")
            shown = job.run_on("h1", "timeline", "start", f"{folder}/v.json")
            claim(shown.returncode == 64 and shown.stderr.count("\n") == 1 and
                  "1 of 3 hosts failed, the first is h2" in shown.stderr and
                  "v.h2.json can't be written" in shown.stderr and
                  shown.stdout.count("written to") == 2, str(shown))
            shown = job.run_on("h3", "timeline", "stop")
            claim(shown.returncode == 0 and shown.stderr == "" and
                  shown.stdout.count("\n") == 2, str(shown))
            shown = job.run_on("h3", "timeline", "stop")
            claim(shown.returncode == 64 and shown.stdout == "" and
                  shown.stderr.count("\n") == 1, str(shown))
            job.finish()


main(test)
