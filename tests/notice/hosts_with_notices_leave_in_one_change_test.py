"""Two of three hosts with a notice at the same time leave in one change; when
the last one has one too the job is stopped, with the code of `regroup stop`, and
its newest commit is a checkpoint.

Covers: drain.c"""

import os

from checkpoints import directory, steps
from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until

TRAINING = (*UNTIL_FINISH, "--step-ms", "5")


def test():
    with Hosts(3, nets=False) as hosts, directory() as saved:
        paths = {h: os.path.join(hosts.folder, "leave-" + h)
                 for h in hosts.names}
        with HostsJob(hosts, ["--min", "1", "--max", "3", "--slots", "1",
                              "--checkpoint-dir", saved],
                      {h: ["--notice", "file:" + paths[h]] for h in paths},
                      trainer(*TRAINING)) as job:
            job.wait_world(3)
            before = job.status("h1")["generation"]
            job.drained.update(["h2", "h3"])
            for host in ("h2", "h3"):
                with open(paths[host], "x", encoding="ascii"):
                    pass
            job.wait_world(1, above=before)
            last = job.status("h1")["changes"][-1]
            claim((last["generation"], last["kind"], last["steps_lost"]) ==
                  (before + 1, "drain", 0), str(last))
            claim(last["cause"] == "host h2 and 1 more leave", str(last))
            for host in ("h2", "h3"):
                until(lambda: job.agents[host].poll() is not None, 20,
                      f"{host} ends")
                claim(job.agents[host].poll() == 0, job.text(host))

            job.lost.update(hosts.names)
            with open(paths["h1"], "x", encoding="ascii"):
                pass
            until(lambda: job.agents["h1"].poll() is not None, 20, "h1 ends")
            claim(job.agents["h1"].poll() == 143, job.text("h1"))
            claim("stopped: all hosts are to leave" in job.text("h1"),
                  job.text("h1"))
            newest = max(e["step"] for e in job.events("commit"))
            claim(steps(saved)[-1:] == [newest],
                  f"{steps(saved)} are there, {newest} is committed")
            job.check()


main(test)
