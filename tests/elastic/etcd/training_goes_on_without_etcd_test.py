"""etcd gone for 30 s: no step waits for it, and membership does not change.

Covers: outage.c"""
import time

from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer, until

AWAY_S = 30
MOST_MS = 5000  # a busy machine takes long, an etcd that is away longer


def test():
    with Etcd() as etcd, \
            Job(["-n", "2", "--etcd", etcd.url],
                trainer(*UNTIL_FINISH, "--step-ms", 20)) as job:
        job.wait_step(50)
        begin = time.monotonic_ns()
        etcd.kill()
        time.sleep(AWAY_S)  # the outage is the fault
        end = time.monotonic_ns()
        claim(job.answer()["etcd"]["state"] == "away",
              "status does not say that etcd is away")
        etcd.start()
        until(lambda: job.answer()["etcd"]["state"] == "up", 30,
              "etcd up in status")
        times = [e["t_ns"] for e in job.events("step") if e["rank"] == 0]
        gaps = [(b - a) / 1e6 for a, b in zip(times, times[1:])
                if begin <= b <= end]
        claim(max(gaps) < MOST_MS,
              f"a step took {max(gaps)} ms while etcd was away")
        job.finish(seconds=90)
        claim(job.generation() == 1, "the outage changed the membership")
        job.check(trained=())


main(test)
