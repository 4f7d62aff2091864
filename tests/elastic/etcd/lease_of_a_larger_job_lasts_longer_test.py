"""A lease lasts 10 s, and a second longer for each further 64 hosts that a job
may have, so that etcd has fewer keepalives of many hosts to answer; with
several slots on a host there are fewer hosts.

Covers: open_job.c lease.c"""
from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 10)


def granted_s(slots, most):
    with Etcd() as etcd, \
            Job(["--min", "1", "--max", str(most), "--slots", str(slots),
                 "--start-timeout", "1s", "--etcd", etcd.url],
                trainer(*TRAIN)) as job:
        job.wait_step(1)
        lease, = etcd.post("lease/leases")["leases"]
        ttl = etcd.post("lease/timetolive", ID=lease["ID"])
        job.finish()
    return int(ttl["grantedTTL"])


def test():
    for slots, most, seconds in ((1, 63, 10), (1, 1024, 26), (2, 1024, 18),
                                 (1, 16384, 60)):
        found = granted_s(slots, most)
        claim(found == seconds, f"{found} s with --slots {slots} --max {most}")


main(test)
