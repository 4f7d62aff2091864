"""One slot is given up, and a host with two good ones is cut off from etcd
until its lease has ended. All go on training: fewer slots than --min have a
record, but that ends nothing.

Covers: lease.c outage.c"""
import os

from house import UNTIL_FINISH, claim, main, touch, trainer, until
from hosts import Hosts, HostsJob

# Slot 1 of h1 fails once the others train.
PROGRAM = ('if [ "$IS_H1$REGROUP_SLOT" = 11 ]; then until [ -e "$GO" ]; do '
           'sleep 0.1; done; exit 3; fi; exec "$@"')


def records(hosts):
    return [key for key in hosts.leased_keys("/regroup/")
            if "/lead/host/" in key]


def test():
    with Hosts(2) as hosts:
        fails = os.path.join(hosts.folder, "fails")
        with HostsJob(hosts, ["--min", "3", "--max", "4", "--max-restarts", "0",
                              "--start-timeout", "1s"], ["--slots", "2"],
                      ["sh", "-c", PROGRAM, "sh",
                       *trainer(*UNTIL_FINISH, "--step-ms", 5)],
                      env={"h1": {"IS_H1": "1", "GO": fails}}) as job:
            job.wait_world(3)
            touch(fails)
            until(lambda: "used up its --max-restarts" in job.text("h1"), 20,
                  "the slot is given up")
            generation = job.generation()
            hosts.cut_between(["h2"], ["e1"])
            until(lambda: len(records(hosts)) == 1 and job.alive(), 30,
                  "the lease of h2 ends")
            job.wait_step(job.step() + 50)
            hosts.heal()
            until(lambda: len(records(hosts)) == 2 and job.alive(), 30,
                  "h2 is back")
            claim(job.generation() == generation, "a generation began")
            job.finish()
            job.check()


main(test)
