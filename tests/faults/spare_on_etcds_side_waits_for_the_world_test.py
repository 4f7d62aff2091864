"""The world is cut off from etcd and from a spare host. It trains on; the
spare, which leads now, decides nothing: it says for whom it waits, and after
--elastic-timeout it leaves with 75 and names them. When the cut heals, nothing
has changed for the hosts that trained, and the spare may come again.

Covers: plan.c leader.c"""
from house import UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob

TIMEOUT_S = 3


def waiting(job):
    status = job.status("h3") or {}
    return [w for w in status.get("waiting", []) if w["kind"] == "world"]


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2", "--elastic-timeout",
                             f"{TIMEOUT_S}s"], ["--slots", "1"],
                     trainer(*UNTIL_FINISH, "--step-ms", 5),
                     only=["h1", "h2"]) as job:
        job.wait_world(2)
        job.agent("h3")
        until(lambda: len((job.status() or {"hosts": []})["hosts"]) == 3, 20,
              "the spare is there")
        generation = job.generation()
        hosts.cut_between(["h1", "h2"], ["h3", "e1"])
        said = until(lambda: waiting(job), 30, "the spare says that it waits")
        claim("h1, h2" in said[0]["what"], f"it waits for {said}")
        code = job.agents["h3"].wait(30)
        job.lost.add("h3")
        claim(code == 75, f"the spare left with {code}")
        claim("the newest commits are on h1, h2" in job.text("h3"),
              "it does not say where the commits are")
        claim("with --replace-job, from a checkpoint, if they are gone for "
              "good" in job.text("h3"), "it does not name the remedy")
        claim(not any("all/end" in key for key in hosts.keys("/regroup/")),
              "it has ended the job")
        job.wait_step(job.step() + 20)
        hosts.heal()
        until(lambda: job.text().count("etcd answers again") >= 2, 30,
              "the world is back")
        job.wait_step(job.step() + 20)
        claim(job.generation() == generation, "a generation began")
        job.agent("h3")
        until(lambda: len((job.status() or {"hosts": []})["hosts"]) == 3, 20,
              "the spare comes again")
        job.finish()
        job.check()


main(test)
