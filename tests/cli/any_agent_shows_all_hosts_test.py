"""`regroup status` shows every host of the job, whichever agent is asked, by
one read of etcd; while etcd gives no answer it says so within two seconds and
shows its own part, with the others as they were last seen.

Covers: status_cmd.c question.c report.c"""

import json
import time
import urllib.request

from hosts import Hosts, HostsJob
from house import PATIENCE, claim, main, until

FIELDS = {"id", "slots", "state", "address", "leader", "draining", "etcd",
          "heard_s", "delay_ms", "vault_bytes", "workers"}


def hears_all(status):
    return status and all(h["etcd"] == "up" and h["heard_s"] < 10 for h in
                          status["hosts"] if h["heard_s"] is not None) and \
        [h["heard_s"] for h in status["hosts"]].count(None) == 1


def get(status, what):
    with urllib.request.urlopen(f"http://{status['metrics']}/{what}",
                                timeout=5) as got:
        return got.read().decode()


def states(status):
    return {h["id"]: h["state"] for h in status["hosts"]}


def test():
    with Hosts(3, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "6", "--metrics", "0"],
                     ["--slots", "2"], ["sleep", "1000"]) as job:
        everybody = {"h1": "ready", "h2": "ready", "h3": "ready"}
        until(lambda: states(job.status("h1") or {"hosts": []}) == everybody,
              20, "three hosts")
        for name in hosts.names:
            status = job.status(name)
            claim(states(status) == everybody, f"{name} shows {status}")
            claim(status["scope"] == "job", f"{name}: {status['scope']}")
            claim(status["leader"] == "h1", f"{name}: {status['leader']}")
            for host in status["hosts"]:
                claim(set(host) >= FIELDS, f"{name} shows {host}")
                claim(host["leader"] == (host["id"] == "h1"), str(host))
                claim(host["address"] == "127.0.0.1", str(host))
                claim(len(host["workers"]) == 2, str(host))
                if host["id"] == name:
                    claim((host["etcd"], host["heard_s"]) == ("up", None),
                          f"{name} shows {host}")
        # the leader expects heartbeats of all hosts
        until(lambda: hears_all(job.status("h1")), 20, "h1 hears all")
        text = job.run_on("h2", "status").stdout
        claim(text.startswith("job test: generation 0 forming, "), text)
        claim("leads" in text, text)

        hosts.etcd[0].stop()
        began = time.monotonic()
        got = job.run_on("h2", "status", "--json")
        took = time.monotonic() - began
        claim(got.returncode == 0, got.stderr)
        status = json.loads(got.stdout)
        claim(status["scope"] == "host", str(status))
        claim(status["etcd"]["state"] == "away" and status["etcd"]["why"],
              str(status["etcd"]))
        claim(states(status) == {"h2": "ready"}, str(status["hosts"]))
        claim(took < 4 * PATIENCE, f"it took {took} s")
        text = job.run_on("h2", "status").stdout
        claim("etcd gives no answer" in text, text)
        claim(job.run_on("h2", "events").returncode == 0, "events meanwhile")
        until(lambda: get(status, "healthz") == "ok\netcd away\n", 20,
              "health while etcd is away")
        claim("\nregroup_etcd_up 0\n" in get(status, "metrics"), "etcd_up")
        hosts.etcd[0].go_on()
        until(lambda: states(job.status("h2")) == everybody, 20,
              "etcd answers again")

        job.kill_host("h3")
        until(lambda: "h3" not in states(job.status("h1")), 40,
              "the lease of a host that is gone has ended")


main(test)
