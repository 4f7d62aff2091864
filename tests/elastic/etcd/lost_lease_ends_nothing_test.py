"""The agent's lease is revoked under a running job, and a worker killed at
once: the lease is granted again, the change comes late, and nothing is lost.

Covers: lease.c publish.c"""
from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 10)


def test():
    with Etcd() as etcd, \
            Job(["--min", "1", "--max", "3", "--etcd", etcd.url],
                trainer(*TRAIN)) as job:
        job.wait_step(30)
        before = job.workers()
        for lease in etcd.post("lease/leases")["leases"]:
            etcd.post("lease/revoke", ID=lease["ID"])
        lost = job.kill(1)
        # The replacement may be at the door by then: one change, or two.
        job.wait_world(3, above=1)
        job.finish()
        claim("was lost; taking it again" in job.text(),
              "the lost lease is not named")
        job.survivors(before, {lost})
        job.check(trained=TRAIN)


main(test)
