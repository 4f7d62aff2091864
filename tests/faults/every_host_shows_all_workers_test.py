"""Whichever host is asked, also one outside the world: `regroup status` shows
how far the workers of all hosts are, their step times and the slowest of them,
and `regroup dump` their operations. A host that is cut off, or whose agent is
stopped, holds up neither for long: it is named in the dump, its workers are
shown without times, and the others are shown.

Covers: gather.c dump/serve.c step_times.c question.c dump_record.c"""
import json
import os
import signal
import re
import sys
import time


def work():
    import pyjob
    import regroup
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()

        def train():
            while pyjob.goes_on(ctx):
                time.sleep(0.05 if ctx.rank == 1 else 0.005)
                ctx.world.barrier()
                state.commit()
        state.run(train)


def test():
    import pyjob
    from hosts import Hosts, HostsJob
    from house import claim, skip, until

    def workers(status):
        return {f"{h['id']}.{w['slot']}": w for h in status["hosts"]
                for w in h["workers"] if w["state"] == "member"}

    def all_have_times(status, names=("h1.0", "h2.0", "h3.0")):
        shown = workers(status) if status else {}
        return status and set(names) <= set(shown) and status if all(
            shown[n]["step_ms"] and shown[n]["step"] for n in names
            if n in shown) else None

    with Hosts(4) as hosts:
        if not hosts.has_nets:
            skip("hosts can't be cut off without network namespaces")
        env = {k: v for k, v in pyjob.environment().items()
               if k in ("PYTHONPATH", "REGROUP_LIBRARY")}
        with HostsJob(hosts, ["--min", "3", "--max", "3"], ["--slots", "1"],
                      pyjob.command(pyjob.UNTIL_FINISH),
                      detect="20s", env=env,
                      only=["h1", "h2", "h3"]) as job:
            job.wait_world(3)
            job.agent("h4")  # a spare
            until(lambda: job.status("h4"), 20, "h4 answers")

            def slowest(host):
                status = all_have_times(job.status(host))
                return status and status["slowest"] and status
            for name in hosts.names:
                status = until(lambda: slowest(name), 20, f"{name} shows all")
                shown, one = workers(status), status["slowest"]
                rank1 = next(w for w in shown if shown[w]["rank"] == 1)
                claim(f"{one['host']}.{one['slot']}" == rank1,
                      f"{name}: {one}, rank 1 is {rank1}")
                claim(all(w["step_ms"] >= 45 for w in shown.values()) and
                      shown[rank1]["waiting"] < 0.5, f"{name}: {shown}")
                text = job.run_on(name, "status").stdout
                claim(f"slowest: {rank1} computes" in text, text)

            for name in ("h2", "h4"):
                shown = job.run_on(name, "dump", "--json", "test", timeout=30)
                claim(shown.returncode == 0, str(shown))
                found = json.loads(shown.stdout)["hosts"]
                claim(sorted((w["rank"], "stacks" in w) for h in found
                             for w in h["workers"]) ==
                      [(0, True), (1, True), (2, True)], f"{name}: {found}")

            def misses(host, name):
                """Status and dump of a host, while another is silent."""
                began = time.monotonic()
                status = job.status(host)
                took = time.monotonic() - began
                claim(took < 3, f"the status took {took} s")
                shown = workers(status)
                claim(shown[f"{name}.0"]["step_ms"] is None and
                      shown[f"{host}.0"]["step_ms"] > 0, str(shown))
                began = time.monotonic()
                text = job.run_on(host, "dump", "--no-stacks", "test",
                                  timeout=30).stdout
                took = time.monotonic() - began
                claim(took < 15, f"the dump took {took} s")
                claim(len(re.findall("^rank [012] ", text, re.M)) == 2 and
                      f"!! host {name}: its agent" in text, text)

            stopped = job.agent_pid("h3")
            os.kill(stopped, signal.SIGSTOP)
            misses("h1", "h3")
            os.kill(stopped, signal.SIGCONT)
            until(lambda: all_have_times(job.status("h1")), 20, "h3 is back")
            hosts.cut("h2")
            misses("h3", "h2")
            hosts.heal("h2")
            job.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work()
    else:
        sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"],
                                        "tests", "lib"))
        test()
