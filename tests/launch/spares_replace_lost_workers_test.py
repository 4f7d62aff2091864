"""--spares N: N workers beyond --max are started and wait in rg_run. When one
of the world is killed, a spare is in the next generation, which has as many as
before; the slot that is started again waits in its turn. On other hosts the
launcher starts --max and --spares slots, in the order of its list.

Covers: host_launcher.c"""
from house import UNTIL_FINISH, Job, claim, main, need_etcd, trainer, until
from launching import LaunchedJob

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def waiting(job):
    """Pids of workers that live, at the door, outside of the world."""
    return {w["pid"] for h in (job.status() or {"hosts": []})["hosts"]
            for w in h["workers"] if w["state"] == "door"}


def on_one_host():
    with Job(["-n", "3", "--spares", "1"], trainer(*TRAIN)) as job:
        job.wait_world(3)
        spare = until(lambda: waiting(job), 20, "a spare waits")
        before = job.workers()
        claim(len(spare) == 1 and len(before) == 3, (spare, before))
        lost = job.kill(1)
        job.wait_world(3, above=1)
        claim(job.generation() == 2, "one change, with the spare")
        now = {w["pid"] for w in job.workers().values()}
        claim(now == {w["pid"] for w in before.values()} - {lost} | spare,
              (before, spare, now))
        again = until(lambda: waiting(job) - spare, 20,
                      "the slot has started again and waits")
        claim(len(again) == 1, again)
        change = job.answer()["changes"][-1]
        print(f"from the fault to the next step: "
              f"{change['fault_to_step_ms']:.1f} ms")
        job.finish()
        job.check(trained=TRAIN)


def on_others():
    flags = ["-H", "h1:2,h2:2,h3:2", "-n", "2", "--spares", "1"]
    with LaunchedJob(flags, trainer(*TRAIN)) as job:
        job.wait_world(2)
        until(lambda: len(waiting(job)) == 1, 20, "a spare waits")
        claim({h["id"]: h["slots"] for h in job.hosts().values()} ==
              {"h1": 2, "h2": 1}, job.hosts())
        job.finish()


def test():
    need_etcd()
    on_one_host()
    on_others()


main(test)
