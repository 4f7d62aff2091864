"""A local buffer with one copy of each part: the host that is lost is replaced,
and its ranks get their parts from the copies, each of its own length. Each host
writes its parts of a checkpoint, from which a job of another size goes on. Room that a copy
has in the vault already is not asked for again at each commit.

Covers: state/local.c chunk.c replication.c resume.c image.c"""

import os

from checkpoints import directory, names, steps
from hosts import Hosts, HostsJob
from house import BUILD, UNTIL_FINISH, Job, claim, main

RODS = [os.path.join(BUILD, "tests", "rods"), UNTIL_FINISH[1], "redistribute",
        "1"]


def a_vault_holds_copies_and_no_more(hosts):
    """4 cells of 80 KiB in 3 vault slots, and 12 KiB of another buffer."""
    with HostsJob(hosts, ["-n", "2", "--vault-max", "1000K"], ["--slots", "1"],
                  [os.path.join(BUILD, "tests", "swarm"), os.devnull, "still",
                   "1"], job="full", only=["h1", "h2"]) as job:
        job.finish()
        claim(job.text().count("ended with right numbers") == 2, job.text())


def a_host_is_lost(path):
    with Hosts(3) as hosts:
        a_vault_holds_copies_and_no_more(hosts)
        with HostsJob(hosts, ["--min", "4", "--max", "6", "--agent-grace", "2s",
                              "--elastic-timeout", "20s", "--checkpoint-dir",
                              path, "--checkpoint-every", "10"],
                      ["--slots", "2"], RODS) as job:
            job.wait_world(6)
            job.wait_step(20)
            before = job.generation()
            job.fail_power("h2")
            job.wait_world(4, above=before)
            job.wait_step(job.step() + 10)
            job.finish()
            claim("wrong cells" not in job.text("h1"), job.text("h1"))
            claim(job.text().count("ended with right cells") == 4, job.text())
            claim("dealt 6 parts to 4" in job.text(), job.text())


def another_job_goes_on(path):
    newest = names(path, ".rgck")[-1]
    claim(os.path.exists(os.path.join(path, newest + ".1")),
          f"no other host has written a file: {os.listdir(path)}")
    with Job(["-n", "3", "--checkpoint-dir", path], [*RODS, "--load"]) as job:
        whole = job.run("checkpoint", "verify", os.path.join(path, newest))
        claim(whole.returncode == 0, whole.stdout + whole.stderr)
        step = steps(path)[-1]
        job.wait_step(step + 5)
        job.finish()
        claim(f"loaded step {step}\n" in job.text() and
              "dealt 4 parts to 3" in job.text(), job.text())
        claim(job.text().count("ended with right cells") == 3, job.text())


def test():
    with directory() as path:
        a_host_is_lost(path)
        another_job_goes_on(path)


main(test)
