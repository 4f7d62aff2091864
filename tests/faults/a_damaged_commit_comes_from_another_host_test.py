"""A bit flips in one host's vault: the commit is taken from another host, and
no step is lost."""

from hosts import Hosts, HostsJob
from house import claim, fault_free, main, trainer

TRAINING = ("--steps", 60, "--bytes", 3000000, "--step-ms", 5)


def test():
    with Hosts(2) as hosts, \
            HostsJob(hosts, ["--min", "3", "--max", "4", "--start-timeout",
                             "500ms"], {"h1": ["--slots", "1"],
                                        "h2": ["--slots", "2"]},
                     trainer(*TRAINING, "--damage-at", 20)) as job:
        job.finish()
        job.check(state=fault_free(*TRAINING))
        claim("in the vault of host h1 is damaged" in job.text(),
              "nobody says that it is damaged")
        claim("commit 1.19 came from h2" in job.text("h1"),
              "the commit did not come from the other host")


main(test)
