"""A host that has no descriptor left for a worker's process tries again, and
stays when one becomes free. When none does for --start-timeout, that host
leaves with 71 and says why; the others go on training, and the job ends as
asked.

Covers: slots.c end.c"""
import os
import resource
import signal

from house import UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob

FLAGS = (*UNTIL_FINISH, "--step-ms", "5")


def set_limit(pid, most):
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most or hard, hard))


def second_worker(job):
    status = job.status("h3") or {"hosts": []}
    return next((w["pid"] for h in status["hosts"] if h["id"] == "h3"
                 for w in h["workers"] if w["slot"] == 1), None)


def starve(job, agent):
    """A worker dies, and no descriptor is left for its successor."""
    unable = job.text("h3").count("h3.1 is not started")
    pid = until(lambda: second_worker(job), 20, "h3 shows its second worker")
    set_limit(agent, 10)  # these are taken for as long as the agent lives
    os.kill(pid, signal.SIGKILL)
    until(lambda: job.text("h3").count("h3.1 is not started") > unable, 20,
          "h3 says that it can't start a worker")


def test():
    with Hosts(3, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "6", "--start-timeout",
                             "3s"], ["--slots", "2"], trainer(*FLAGS)) as job:
        job.wait_world(6)
        agent = job.agent_pid("h3")
        starve(job, agent)
        set_limit(agent, None)
        generation = job.generation()
        job.wait_world(6, above=generation - 1)
        starve(job, agent)
        job.lost.add("h3")
        until(lambda: job.agents["h3"].poll() is not None, 30, "h3 leaves")
        claim(job.agents["h3"].returncode == 71,
              f"h3 ended with {job.agents['h3'].returncode}, not 71")
        claim("host h3 leaves: " in job.text("h3") and
              "Too many open files" in job.text("h3"),
              "h3 does not say why it leaves")
        job.wait_world(4)
        claim("/regroup/v1/test/all/end" not in hosts.keys("/regroup/v1/test/"),
              "h3 has written the job's end")
        job.finish()
        job.check(trained=FLAGS)


main(test)
