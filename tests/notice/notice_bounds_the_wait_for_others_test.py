"""A host with a notice, without which --min can't be met, goes on training
until its time is nearly over, and then leaves all the same. The others wait,
and go on once another host has come.

Covers: noticed.c notice.c"""

import json
import os
import time

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until

TRAINING = (*UNTIL_FINISH, "--step-ms", "5")
SECONDS = 3


def test():
    with Hosts(3, nets=False) as hosts:
        path = os.path.join(hosts.folder, "leave")
        with HostsJob(hosts, ["--min", "2", "--max", "2", "--slots", "1"],
                      {"h2": ["--notice", "file:" + path]},
                      trainer(*TRAINING), only=["h1", "h2"]) as job:
            job.wait_world(2)
            job.drained.add("h2")
            with open(path + ".new", "w", encoding="ascii") as file:
                json.dump({"seconds": SECONDS}, file)
            os.rename(path + ".new", path)
            until(lambda: "h2 drains" in job.text("h2"), 20, "it is seen")
            seen, step = time.monotonic(), job.step()
            until(lambda: job.agents["h2"].poll() is not None, 20, "h2 ends")
            took = time.monotonic() - seen
            claim(job.agents["h2"].poll() == 0, job.text("h2"))
            claim("leaves at once" in job.text("h2"), job.text("h2"))
            claim(took > 0.7 * SECONDS, f"it has left after {took} s")
            claim(job.step() > step, "it has not trained on")

            job.agent("h3")
            job.wait_world(2, above=1)
            last = job.status("h1")["changes"][-1]
            claim(last["steps_lost"] in (0, 1), str(last))
            job.finish()
            job.check(trained=TRAINING)


main(test)
