"""On a host that joins, the program ends before it calls rg_init, as it
would if a library were missing: that host leaves with the program's code,
and the job goes on. Before the first world such a program ends the job.

Covers: slots.c end.c"""
from house import UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob

FLAGS = (*UNTIL_FINISH, "--step-ms", "5")
COMMAND = ["sh", "-c", '[ -z "$BROKEN" ] || exit 5; exec "$0" "$@"',
           *trainer(*FLAGS)]
SIZES = ["--min", "1", "--max", "2", "--start-timeout", "300ms"]


def ends_with(job, host, code):
    job.lost.add(host)
    until(lambda: job.agents[host].poll() is not None, 20, f"{host} ends")
    claim(job.agents[host].returncode == code,
          f"{host} ended with {job.agents[host].returncode}, not {code}")


def goes_on(hosts):
    with HostsJob(hosts, SIZES, ["--slots", "1"], COMMAND, only=["h1"],
                  env={"h2": {"BROKEN": "1"}}, job="joined") as job:
        job.wait_world(1)
        job.agent("h2")
        ends_with(job, "h2", 5)
        job.wait_step(job.step() + 5)
        job.finish()
        job.check(trained=FLAGS)


def ends(hosts):
    with HostsJob(hosts, ["-n", "2"], ["--slots", "1"], COMMAND,
                  only=["h1"], env={"BROKEN": "1"}, job="first") as job:
        ends_with(job, "h1", 5)
        claim("/regroup/v1/first/all/end" in hosts.keys("/regroup/v1/first/"),
              "the job has no end")


def test():
    with Hosts(2, nets=False) as hosts:
        goes_on(hosts)
        ends(hosts)


main(test)
