"""The path of a host that never was a member loses packets above 1000 bytes,
to the others and to etcd. It tries to join: training does not stop, no
generation is made for it, and it joins once the path is whole.

Covers: paths.c beat.c"""
from house import PATIENCE, UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob


def longest_pause(job, since_ns):
    """Between steps of one worker, in s."""
    times = [e["t_ns"] for e in job.events("step")
             if e["worker"] == "h1.0" and e["t_ns"] > since_ns]
    return max((b - a for a, b in zip(times, times[1:])), default=0) / 1e9


def test():
    with Hosts(3, wire=True) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "3", "--start-timeout",
                             "500ms"], ["--slots", "1"],
                     trainer(*UNTIL_FINISH, "--step-ms", 5),
                     only=["h1", "h3"]) as job:
        job.wait_world(2)
        job.wait_step(10)
        generation = job.generation()
        hosts.wire.rule("h2", "*", most=1000)
        hosts.wire.rule("*", "h2", most=1000)
        begin = job.events("step")[-1]["t_ns"]
        job.agent("h2")
        until(lambda: "waits for a path to host" in job.text("h2") or
              "etcd does not answer" in job.text("h2"), 40,
              "h2 says what it waits for")
        job.wait_step(job.step() + 500)
        pause = longest_pause(job, begin)
        claim(pause < 1.5 * PATIENCE, f"members stood still for {pause} s")
        claim(job.generation() == generation, "generations were made for h2")
        hosts.heal()
        job.wait_world(3, seconds=60, above=generation)
        job.finish()
        job.check(trained=UNTIL_FINISH)


main(test)
