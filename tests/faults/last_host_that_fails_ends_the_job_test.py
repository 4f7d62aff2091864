"""A host that fails alone leaves; the job goes on without it. The last one that
fails ends the job, with its code and sentence, so that the name is free.

Covers: end.c exits.c summary.c"""
import json
import os
import resource
import signal

from house import UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob

END = "/regroup/v1/test/all/end"


def fail(job, host):
    """It can start no worker any more, and one dies."""
    status = until(lambda: job.status(host), 20, f"{host} answers")
    pid = next(w["pid"] for h in status["hosts"] if h["id"] == host
               for w in h["workers"])
    agent = job.agent_pid(host)
    most = len(os.listdir(f"/proc/{agent}/fd")) - 5
    resource.prlimit(agent, resource.RLIMIT_NOFILE, (most, most))
    job.lost.add(host)
    os.kill(pid, signal.SIGKILL)
    until(lambda: job.agents[host].poll() is not None, 30, f"{host} leaves")
    claim(job.agents[host].returncode == 71,
          f"{host} ended with {job.agents[host].returncode}, not 71")


def test():
    with Hosts(2, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2", "--start-timeout",
                             "1s"], ["--slots", "1"],
                     trainer(*UNTIL_FINISH, "--step-ms", "5")) as job:
        job.wait_world(2)
        fail(job, "h1")
        job.wait_world(1)
        job.wait_step(job.step() + 5)
        claim(END not in hosts.keys("/regroup/v1/test/"),
              "h1 has ended the job of h2")
        fail(job, "h2")
        end = json.loads(hosts.keys("/regroup/v1/test/").get(END, "{}"))
        claim(end.get("code") == 71 and "host h2 leaves" in end.get("why", ""),
              f"the job's end is {end}")


main(test)
