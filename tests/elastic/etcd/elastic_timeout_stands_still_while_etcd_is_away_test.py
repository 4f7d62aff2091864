"""A worker dies, and its replacement is on the way; then etcd is away for
longer than --elastic-timeout. That ends nothing: when etcd answers again the
replacement joins.

Covers: outage.c waits.c"""
import signal
import time

from house import PATIENCE, Etcd, Job, claim, main, trainer, until

TIMEOUT_S = 3 * PATIENCE


def test():
    with Etcd() as etcd, \
            Job(["--etcd", etcd.url, "-n", "2", "--elastic-timeout",
                 f"{TIMEOUT_S}s"],
                trainer("--until", "file-that-finish-makes", "--step-ms", 5),
                env={"REGROUP_FAILPOINT": "door:start2:sleep1500"}) as job:
        job.wait_step(20)
        generation = job.generation()
        job.kill(1)
        until(lambda: (job.status() or {}).get("phase") == "broken", 10,
              "etcd holds that it is dead")
        etcd.process.send_signal(signal.SIGSTOP)
        try:
            until(lambda: "etcd does not answer" in job.text() or
                  not job.alive(), 10, "the agent knows it")
            end = time.monotonic() + 1.5 * TIMEOUT_S
            until(lambda: time.monotonic() > end or not job.alive(), 30, "")
        finally:
            etcd.process.send_signal(signal.SIGCONT)
        job.wait_world(2, above=generation)
        job.finish()
        job.check()
        claim("--elastic-timeout" not in job.text(), "a host gave up")


main(test)
