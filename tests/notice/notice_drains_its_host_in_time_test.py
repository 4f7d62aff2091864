"""A file that appears is a notice: its host leaves at a commit, with no step
rolled back, and ends with 0; the others go on. One that is withdrawn before
its host begins to leave is forgotten. A host that is started while a notice is
in force leaves again, and changes nothing.

Covers: noticed.c notice.c rounds.c"""

import json
import os

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until

TRAINING = (*UNTIL_FINISH, "--step-ms", "5")


def write(path, text):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.rename(path + ".new", path)


def shown(job, host):
    return (job.status(host) or {"notice": [{}]})["notice"][0]


def test():
    with Hosts(2, nets=False) as hosts:
        path = os.path.join(hosts.folder, "leave, h2")
        with HostsJob(hosts, ["--min", "1", "--max", "4"],
                      {"h1": ["--slots", "2", "--notice", "none"],
                       "h2": ["--slots", "2", "--notice", "file:" + path]},
                      trainer(*TRAINING)) as job:
            job.wait_world(4)
            until(lambda: shown(job, "h2")["state"] == "answers", 20, "it is")
            claim(job.status("h1")["notice"] == [], "h1 asks no source")

            write(path, json.dumps({"seconds": 3600, "reason": "rack 7"}))
            until(lambda: shown(job, "h2")["notice"] == "leave", 20, "seen")
            claim(shown(job, "h2")["what"] == "rack 7", "its reason")
            claim(3500 < shown(job, "h2")["goes_in_s"] <= 3600, "its time")
            claim("begins to leave in 34" in job.text("h2"), job.text("h2"))
            os.unlink(path)
            until(lambda: shown(job, "h2")["notice"] == "none", 20, "forgotten")
            claim("has withdrawn: rack 7" in job.text("h2"), job.text("h2"))
            claim(job.status("h1")["generation"] == 1, "no host has left")

            job.drained.add("h2")
            write(path, "the machine is sold\n")
            job.wait_world(2, above=1)
            until(lambda: job.agents["h2"].poll() is not None, 20, "h2 ends")
            claim(job.agents["h2"].poll() == 0, job.text("h2"))
            claim("notice of file: the machine is sold" in job.text("h2"),
                  job.text("h2"))
            last = job.status("h1")["changes"][-1]
            claim((last["kind"], last["cause"], last["steps_lost"]) ==
                  ("drain", "host h2 leaves", 0), str(last))

            generation = job.status("h1")["generation"]
            job.agent("h2")  # while the notice stands
            job.drained.add("h2")
            until(lambda: job.agents["h2"].poll() is not None, 20, "it leaves")
            claim(job.agents["h2"].poll() == 0, job.text("h2"))
            claim(job.status("h1")["generation"] == generation,
                  "the world has changed for it")
            job.finish()
            job.check(trained=TRAINING)


main(test)
