"""The leader is a host whose worker never comes to the door. A newcomer that
can't connect to it, but can connect to the world, joins.

Covers: paths.c"""
from house import UNTIL_FINISH, claim, main, trainer
from hosts import Hosts, HostsJob


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2", "--start-timeout",
                             "300ms"], ["--slots", "1"],
                     trainer(*UNTIL_FINISH, "--step-ms", 5),
                     env={"h3": {"REGROUP_FAILPOINT": "door:sleep300000"}},
                     only=["h3", "h1"]) as job:
        hosts.need_nets()
        job.wait_world(1)
        job.wait_step(10)
        hosts.block_tcp("h3", job.agent_port("h3"), sender="h2")
        job.agent("h2")
        job.wait_world(2, above=job.generation())
        claim({job.host_of(0), job.host_of(1)} == {"h1", "h2"}, "h3 is in")
        claim(job.leader() == "h3", "h3 leads no more")
        job.finish()
        job.check(trained=UNTIL_FINISH)


main(test)
