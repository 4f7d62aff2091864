"""etcd writes a host's record and its answer is lost. What has changed on the
host meanwhile is written all the same, as soon as the loss is noticed.

Covers: publish.c txn.c"""
import os
import signal

from house import Etcd, Job, claim, fault_free, main, trainer
from proxy import Proxy


def test():
    with Etcd() as etcd:
        proxy = Proxy(etcd.port)
        until = os.path.join(etcd.data, "until")
        with Job(["--min", "1", "--max", "2", "--host", "h1", "--etcd",
                  proxy.url], trainer("--until", until, "--step-ms", 2)) as job:
            job.wait_step(20)
            proxy.lose_answer_about("/regroup/v1/test/lead/host/h1")
            os.kill(job.pid(1), signal.SIGKILL)
            job.wait_world(2, seconds=15, above=1)
            claim(proxy.has_lost.is_set(), "no answer was lost")
            with open(until, "w", encoding="utf-8"):
                pass
            job.finish()
            job.check(fault_free("--steps", job.final_state()[0]))


main(test)
