"""etcd writes the claim of a checkpoint and its answer is lost. Sent again it
finds the first one, which is its own, and the checkpoint becomes durable.

Covers: claim.c"""
from checkpoints import directory, shown, steps
from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer, until
from proxy import Proxy

TRAIN = (*UNTIL_FINISH, "--commit-every", "10", "--save-every", "10",
         "--step-ms", "10")


def test():
    with Etcd() as etcd, directory() as path:
        proxy = Proxy(etcd.port)
        proxy.lose_answer_about("/regroup/v1/test/all/claim/")
        with Job(["-n", "1", "--etcd", proxy.url, "--checkpoint-dir", path,
                  "--checkpoint-keep", "100"],
                 trainer(*TRAIN)) as job:
            until(lambda: shown(job, "file"), 20, "a durable checkpoint")
            claim(proxy.has_lost.is_set(), "no answer was lost")
            claim(10 in steps(path), f"step 10 is not among {steps(path)}")
            job.finish()


main(test)
