"""A training on three hosts: every agent shows all ranks and the same story,
and its own share of the numbers; a host that is drained leaves with no step
rolled back, a command that watches it ends with 0, its events say that it
left, and the rest goes on.

Covers: status_cmd.c drain_cmd.c report.c"""

import json
import subprocess
import urllib.request

from hosts import Hosts, HostsJob, inside
from house import REGROUP, UNTIL_FINISH, claim, main, trainer, until


TRAINING = (*UNTIL_FINISH, "--step-ms", "10")


def metrics(job, host):
    at = job.status(host)["metrics"]
    net = job.hosts.net(host) if job.hosts.has_nets else None
    with inside(net), urllib.request.urlopen(f"http://{at}/metrics",
                                             timeout=10) as got:
        lines = got.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in lines if not line.startswith("#")}


def story(job, host):
    """What was decided, as that host's agent tells it."""
    got = job.run_on(host, "events", "--json")
    claim(got.returncode == 0, got.stderr)
    return [(e["generation"], e["to_size"], e["resume"], e["why"])
            for e in json.loads(got.stdout) if e["event"] == "decided"]


def tells_that_it_left(job, host):
    """The agent is gone, and what it wrote down is still told there."""
    got = job.run_on(host, "events", "--json", job.name)
    claim(got.returncode == 0, got.stderr)
    last = json.loads(got.stdout)[-1]
    claim((last["event"], last["code"], last["why"]) ==
          ("left", 0, f"host {host} has left the job"), str(last))


def all_hosts_see_all(job, names):
    for name in names:
        status = job.status(name)
        workers = [(w["rank"], h["id"], w["step"]) for h in status["hosts"]
                   for w in h["workers"]]
        claim(sorted(r for r, _, _ in workers) == list(range(6)),
              f"{name} shows {workers}")
        claim(all(step is not None for _, _, step in workers),
              f"{name} shows {workers}")
        claim([h["id"] for h in status["hosts"] if h["leader"]] ==
              [status["leader"]], f"{name} shows {status}")


def each_has_its_share(job, names):
    def hears():
        return all(metrics(job, name)["regroup_heartbeats_received_total"] > 0
                   for name in names)
    until(hears, 20, "heartbeats everywhere")
    shown = {name: metrics(job, name) for name in names}
    for name, numbers in shown.items():
        claim(numbers["regroup_world_size"] == 6, f"{name}: {numbers}")
        claim(numbers["regroup_members"] == 2, f"{name}: {numbers}")
        claim(numbers["regroup_workers_alive"] == 2, f"{name}: {numbers}")
        claim(numbers["regroup_peers_accused"] == 0, f"{name}: {numbers}")
        claim(numbers["regroup_peers_expected"] > 0, f"{name}: {numbers}")
    claim(sum(n["regroup_leader"] for n in shown.values()) == 1, "one leads")


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "2", "--max", "6", "--metrics", "0"],
                     ["--slots", "2"],
                     trainer(*TRAINING)) as job:
        job.wait_world(6)
        all_hosts_see_all(job, hosts.names)
        each_has_its_share(job, hosts.names)

        watching = subprocess.Popen(
            [REGROUP, "status", "--watch", "--interval", "200ms"],
            env=hosts.environment("h3"), text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        claim(watching.stdout.readline().startswith("job test: "), "a watch")
        job.lost.add("h3")
        got = job.run_on("h1", "drain", "h3", "--deadline", "20s")
        claim((got.returncode, got.stdout) ==
              (0, "host h3 has left job test\n"), got.stderr)
        job.wait_world(4, above=1)
        claim(job.agents["h3"].wait(30) == 0, "the agent that has left")
        out, said = watching.communicate(timeout=20)
        claim(watching.returncode == 0, said)
        claim("has left the job" in out, out[-300:])
        tells_that_it_left(job, "h3")

        status = job.status("h1")
        last = status["changes"][-1]
        claim((last["kind"], last["cause"], last["steps_lost"]) ==
              ("drain", "host h3 leaves", 0), str(last))
        claim(story(job, "h1") == story(job, "h2"), "two stories")
        claim(story(job, "h2")[-1][1] == 4, str(story(job, "h2")))
        numbers = metrics(job, "h2")
        claim(numbers['regroup_generation_changes_total{cause="drain"}'] == 1,
              str(numbers))
        claim(numbers["regroup_steps_lost_total"] == 0, str(numbers))

        job.finish()
        job.check(trained=TRAINING)


main(test)
