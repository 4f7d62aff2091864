"""A lease lasts 10 s, and a second longer for each further 64 hosts that there
are, or that must come before a job begins, so that etcd has fewer keepalives of
many hosts to answer. With several slots on a host fewer must come, and a large
--max alone says nothing of how many will.

Covers: open_job.c lease.c"""
from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 10)


def granted_s(etcd, flags):
    with Job([*flags, "--etcd", etcd.url], trainer(*TRAIN)) as job:
        until(lambda: "leases" in etcd.post("lease/leases"), 20,
              "the agent has a lease")
        lease, = etcd.post("lease/leases")["leases"]
        ttl = etcd.post("lease/timetolive", ID=lease["ID"])
        job.process.terminate()
        job.process.wait(30)
    return int(ttl["grantedTTL"])


def test():
    for slots, least, most, seconds in ((1, 1, 16384, 10), (1, 63, 63, 10),
                                        (1, 1024, 1024, 26),
                                        (2, 1024, 1024, 18),
                                        (1, 16384, 16384, 60)):
        with Etcd() as etcd:
            found = granted_s(etcd, ["--slots", str(slots), "--min",
                                     str(least), "--max", str(most)])
        claim(found == seconds, f"{found} s with --slots {slots} --min {least} "
              f"--max {most}")


main(test)
