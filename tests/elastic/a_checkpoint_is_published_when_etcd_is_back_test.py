"""etcd away while a checkpoint is written: the file is whole, counts for nothing
and waits; training goes on; when etcd is back it is published, and the newest
request that came meanwhile is next."""

from checkpoints import directory, names, shown, steps
from house import Etcd, Job, claim, fault_free, main, trainer, until

FLAGS = ("--steps", "200", "--save-every", "10")


def test():
    with Etcd() as etcd, directory() as path, \
            Job(["-n", "2", "--etcd", etcd.url, "--checkpoint-dir", path],
                trainer(*FLAGS, "--step-ms", "10")) as job:
        until(lambda: steps(path), 30, "a checkpoint")
        etcd.kill()
        until(lambda: names(path, ".part"), 30, "one that waits")
        waiting, published = steps(path, ".part")[0], steps(path)
        job.wait_step(waiting + 40)
        claim(steps(path) == published, "one was published without etcd")
        claim(steps(path, ".part") == [waiting], "another was begun meanwhile")
        before = job.step()
        etcd.start()
        until(lambda: waiting in steps(path), 30, "the one that waited")
        later = until(lambda: [s for s in steps(path) if s > waiting], 30,
                      "the next")
        claim(later[0] >= before // 10 * 10,
              f"step {later[0]} was next, but {before} had ended by then")
        job.finish()
        claim(steps(path)[-1] == 200, f"{steps(path)} are there at the end")
        claim(not names(path, ".part"), "a .part file was left")
        claim(job.generation() == 1, "the outage changed the membership")
        job.check(state=fault_free(*FLAGS))


main(test)
