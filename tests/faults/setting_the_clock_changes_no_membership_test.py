"""The wall clock of a member is set three days back, then an hour ahead, and
its agent dies after each: the next agent's heartbeats count all the same, no
host is left out, and the next change takes no longer than usual.

Covers: beat.c suspect.c"""
import os
import time

from house import BUILD, PATIENCE, UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob

BUDGET_S = 1
CLOCK = os.path.join(BUILD, "tests", "libclock_shim.so")
DAYS_BACK, AHEAD = -3 * 86400, 3600


def set_clock(hosts, host, seconds):
    with open(os.path.join(hosts.folder, f"{host}.r.clock"), "w",
              encoding="utf-8") as file:
        file.write(str(seconds))


def test():
    with Hosts(2) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2"], ["--slots", "1"],
                     ["env", "-u", "LD_PRELOAD",
                      *trainer(*UNTIL_FINISH, "--step-ms", 5)],
                     detect=f"{BUDGET_S * PATIENCE}s",
                     env={"LD_PRELOAD": CLOCK}) as job:
        job.wait_world(2)
        job.wait_step(10)
        generation = job.generation()
        for offset in (DAYS_BACK, AHEAD):
            set_clock(hosts, "h2", offset)
            agent = job.agent_pid("h2")
            job.kill_agent("h2")
            until(lambda: job.agent_pid("h2") != agent, 10, "the next agent")
            time.sleep(2 * BUDGET_S * PATIENCE)  # silence would show by now
            claim(job.generation() == generation,
                  f"a clock {offset} s off has made a generation")
        step = job.step()
        job.kill(0)
        job.wait_world(2, above=generation)
        claim(job.step() >= step, "steps were lost")
        job.finish()
        job.check(trained=UNTIL_FINISH)


main(test)
