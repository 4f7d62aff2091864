"""A bit flips in one host's vault: what is damaged is taken from another host,
the replicated state and a shard alike, and no step that counts is lost.

Covers: fetch.c"""

from hosts import Hosts, HostsJob
from house import claim, fault_free, main, trainer

TRAINING = ("--steps", 60, "--bytes", 3000000, "--step-ms", 5)
SHARDED = (*TRAINING, "--shard-bytes", 3000000)


def damage(hosts, name, training, *flags):
    with HostsJob(hosts, ["--min", "3", "--max", "4", "--start-timeout",
                          "500ms"], {"h1": ["--slots", "1"],
                                     "h2": ["--slots", "2"]},
                  trainer(*training, *flags, "--damage-at", 20),
                  job=name) as job:
        job.finish()
        job.check(state=fault_free(*training))
        return job.text("h1")


def test():
    with Hosts(2) as hosts:
        text = damage(hosts, "replicated", TRAINING)
        claim("in the vault of host h1 is damaged" in text,
              "no line says that it is damaged")
        claim("commit 1.19 came from h2" in text,
              "the commit did not come from the other host")
        text = damage(hosts, "sharded", SHARDED, "--replicas", 1)
        claim("damaged: shard 0" in text,
              "the shard was not found to be damaged")


main(test)
