"""A host of the world that leaves records that for good, also beyond its
lease: when all have, the name is free, whichever host begins the next job.

Covers: open_job.c publish.c"""
from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until


def drop_leases(hosts):
    """As if their time were up."""
    for lease in hosts.ask("lease/leases").get("leases", []):
        hosts.ask("lease/revoke", ID=lease["ID"])


def leave(job, host):
    until(lambda: job.step() > 20, 20, "it trains")
    job.drain(host)
    until(lambda: job.agents[host].poll() is not None, 20, f"{host} leaves")
    claim(job.agents[host].poll() == 0, "it left with a code")


def test():
    with Hosts(2) as hosts:
        for following in ("h1", "h2"):
            job = HostsJob(hosts, ["--min", "1", "--max", "2"], [],
                           trainer(*UNTIL_FINISH, "--step-ms", 5),
                           job=f"then-{following}", only=["h1"])
            with job:
                leave(job, "h1")
                drop_leases(hosts)
                steps = len(job.events("step"))
                job.agent(following)
                until(lambda: job.alive() and len(job.events("step")) > steps,
                      20, "the next job trains")
                job.finish()


main(test)
