"""etcd falls silent to rank 0's host while the first commit is made: no worker
may enter fn before that host has recorded it. Every host says that it waits;
then the others go on without that host, and it joins when etcd answers it.

Covers: generation.c"""
from house import PATIENCE, UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob

FIRST = "commit.before_agree:rank0:step0:sleep2000"


def waits(job, host):
    return [w["what"] for w in (job.status(host) or {}).get("waiting", [])
            if w["kind"] == "begun"]


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "3"], ["--slots", "1"],
                     trainer(*UNTIL_FINISH, "--step-ms", 2),
                     detect=f"{2 * PATIENCE}s", only=["h2", "h1", "h3"],
                     env={"REGROUP_FAILPOINT": FIRST}) as job:
        hosts.need_nets()
        until(lambda: "strikes rank 0" in job.text("h1"), 20,
              "h1's worker makes the first commit")
        hosts.cut_between(["h1"], ["e1"])
        said = until(lambda: waits(job, "h2"), 20, "h2 waits")
        claim("host h1" in said[0], f"h2 waits for {said[0]}")
        for host in ("h2", "h3"):
            until(lambda: f"host {host} waits for host h1" in job.text(host),
                  20, f"{host} says that it waits")
        until(lambda: job.events("step"), 20, "the others train")
        claim(job.leader() == "h2", "h2 leads no more")
        claim({e["host"] for e in job.events("step")} == {"h2", "h3"},
              "h1 trains, and no world has it")
        claim("host h1 has not had etcd record the first commit"
              in job.text("h2"), "no line says why")
        hosts.heal()
        job.wait_world(3, above=job.generation())
        job.finish()
        job.check(trained=UNTIL_FINISH)


main(test)
