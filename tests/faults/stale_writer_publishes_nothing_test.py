"""Checkpoints of a job on several hosts, which share a directory: the host of
rank 0 is cut off while its writer holds a whole file that no other host knows
of. The others go on, another host writes, and when the first one is back its
file is neither published nor left behind. All workers learn what is durable.

Covers: claim.c writer.c"""

import os
import re
import signal
import tempfile

from checkpoints import names, steps, stopped
from hosts import Hosts, HostsJob
from house import claim, fault_free, main, trainer, until

# A writer takes a later commit where there is one: there is none for 20 steps.
TRAINING = ("--bytes", 2000000, "--commit-every", 20, "--save-every", 20)
STOP = {"REGROUP_FAILPOINT": "checkpoint.written:step20:stop"}


def cut_off(hosts, directory, until_file):
    with HostsJob(hosts, ["--min", "2", "--max", "3", "--checkpoint-dir",
                          directory], ["--slots", "1"],
                  trainer(*TRAINING, "--step-ms", 10, "--until", until_file),
                  env={"h1": STOP}) as job:
        writer = until(lambda: stopped(hosts.pids("h1")), 40,
                       "the writer of h1 stops")
        claim(job.host_of(0) == "h1", "rank 0 is elsewhere")
        part = names(directory, ".part")
        claim(len(part) == 1 and not steps(directory),
              f"{os.listdir(directory)} is there")
        hosts.cut("h1")
        until(lambda: steps(directory), 40, "another host writes")
        until(lambda: names(directory, ".part") != part, 20,
              "the next writer removes what h1 left")
        newest = steps(directory)[-1]
        claim(newest > 20, f"step {newest} was published")
        hosts.heal("h1")
        for pid in writer:
            os.kill(pid, signal.SIGCONT)
        until(lambda: not set(writer) & set(hosts.pids("h1")), 20,
              "the writer of h1 ends")
        claim("of step 20 is not published" in job.text("h1"),
              "h1 does not say that it gives up")
        job.wait_world(3, above=1)
        until(lambda: steps(directory)[-1] > newest, 20, "a later one")
        claim(20 not in steps(directory), "the stale file was published")
        with open(until_file, "w", encoding="utf-8"):
            pass
        job.finish()
        claim(not names(directory, ".part"), "a .part file was left")
        claim(steps(directory) == sorted(steps(directory)),
              f"an earlier step follows a later one: {steps(directory)}")
        for host in hosts.names:
            known = map(int, re.findall(r"saved step (\d+)", job.text(host)))
            claim(max(known, default=0) >= newest,
                  f"workers of {host} don't know what is durable")
        end = job.final_state()[0]
        job.check(state=fault_free("--steps", end, *TRAINING))


def test():
    with Hosts(3) as hosts:
        hosts.need_nets()
        directory = tempfile.mkdtemp(prefix="ckpt-", dir=hosts.folder)
        cut_off(hosts, directory, os.path.join(hosts.folder, "over"))


main(test)
