"""`regroup status` and metrics show each worker's step time and its share of
waiting; the worker that the others wait for is named, and stays.

Covers: step_times.c"""
import os
import sys
import time
import urllib.request


def work(folder):
    import regroup
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()

        def train():
            while not os.path.exists(os.path.join(folder, "end")):
                slow = (ctx.rank == 1
                        and not os.path.exists(os.path.join(folder, "even")))
                time.sleep(0.03 if slow else 0.005)
                ctx.world.barrier()
                state.commit()
            raise SystemExit(0)
        state.run(train)


def test():
    import pyjob
    from house import Job, claim, until
    with Job(["-n", "3", "--metrics", "0"], pyjob.command("."),
             env=pyjob.environment(), job="uneven") as job:
        def slowest():
            status = job.status()
            one = status and status.get("slowest")
            return one and (one, job.workers())
        one, workers = until(slowest, 20, "a slowest worker")
        claim(one["slot"] == workers[1]["slot"], f"{one}, not rank 1")
        claim(one["busy_ms"] > 1.2 * one["median_ms"], str(one))
        claim(workers[1]["waiting"] < workers[0]["waiting"] <= 1, str(workers))
        claim(all(w["step_ms"] >= 5 for w in workers.values()), str(workers))
        pids = {w["pid"] for w in workers.values()}
        text = job.run("status", "uneven").stdout
        claim("slowest: " in text and f".{one['slot']} computes" in text, text)
        at = f"http://{job.answer()['metrics']}/metrics"
        with urllib.request.urlopen(at, timeout=5) as answer:
            metrics = answer.read().decode()
        claim("regroup_worker_step_seconds{slot=\"1\"} 0." in metrics, metrics)

        with open(os.path.join(job.folder, "even"), "w", encoding="ascii"):
            pass
        until(lambda: job.answer().get("slowest") is None, 20, "an even job")
        claim({w["pid"] for w in job.workers().values()} == pids, "ejected")
        with open(os.path.join(job.folder, "end"), "w", encoding="ascii"):
            pass


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2])
    else:
        sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"],
                                        "tests", "lib"))
        test()
