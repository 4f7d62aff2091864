"""A host that joins gets the commit from another host's vault: whole, also when
the source's agent or its own is killed half way, and from a second source where
the first can't give it.

Covers: fetch.c"""

import re

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until

TRAINING = ("--bytes", 6000000, "--step-ms", 10)
CAME = re.compile(r"commit (\d+)\.(\d+) came from (\w+): (\d+) bytes")


def join(hosts, name, env=None):
    """h1 and h2 train, h3 joins. What its agent says about copies."""
    with HostsJob(hosts, ["--min", "2", "--max", "3",
                          "--start-timeout", "500ms"], ["--slots", "1"],
                  trainer(*UNTIL_FINISH, *TRAINING), env=env, only=["h1", "h2"], job=name) as job:
        job.wait_step(20)
        job.agent("h3")
        until(lambda: job.alive() and CAME.search(job.text("h3")), 40,
              "the commit has come to h3")
        job.finish()
        job.check(trained=TRAINING)
        rolled = [e for e in job.events("restore") if e["host"] != "h3"]
        return CAME.findall(job.text("h3")), job.text(), rolled


def test():
    with Hosts(3) as hosts:
        came, _, rolled = join(hosts, "calm")
        claim(len(came) == 1 and int(came[0][3]) >= 6000000,
              f"one copy of everything, not {came}")
        claim(not rolled, f"the others were rolled back: {rolled}")

        kill = {"REGROUP_FAILPOINT": "transfer.source:start1:kill"}
        came, text, _ = join(hosts, "source", {"h1": kill, "h2": kill})
        claim("got no copy from" in text, "no source died half way")
        claim(len(came) == 1, f"one copy after the source was lost: {came}")

        kill = {"REGROUP_FAILPOINT": "transfer.sink:start1:kill"}
        came, text, _ = join(hosts, "sink", {"h3": kill})
        claim("transfer.sink strikes" in text, "the sink did not die")


main(test)
