"""What others send to h2 is lost, and what h2 sends arrives; etcd answers it.
Only h2 loses its place, and it does not come back before it hears again.

Covers: suspect.c links.c"""
import os

from house import claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob


def worlds(job, above):
    """[{host, ...}] of each later generation, in their order."""
    found = {}
    for event in job.events("step"):
        if event["generation"] > above:
            found.setdefault(event["generation"], set()).add(event["host"])
    return [found[g] for g in sorted(found)]


def test():
    with Hosts(4) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "8"], ["--slots", "2"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 5)) as job:
        job.wait_world(8)
        job.wait_step(20)
        generation = job.generation()
        for other in ("h1", "h3", "h4"):
            hosts.cut_one_way(other, "h2")
        job.wait_world(6, above=generation)
        job.wait_step(job.step() + 200)
        for world in worlds(job, generation):
            claim(world == {"h1", "h3", "h4"},
                  f"h2 was deaf, and {sorted(world)} stayed")
        claim(job.generation() == generation + 1,
              "a deaf host came back to the door")
        hosts.heal()
        job.wait_world(8, above=generation + 1)
        until(lambda: "h2" in worlds(job, generation)[-1], 20, "h2 is back")
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0]))


main(test)
