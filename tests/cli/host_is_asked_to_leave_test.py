"""`regroup drain` writes what is asked for into etcd, waits until the host has
left and ends with 0; with 1 when that takes too long; hosts that are not there
and the only one are refused with one sentence.

Covers: drain_cmd.c drain_ask.c change_ask.c drain.c"""

import json
import subprocess

from hosts import REGROUP, Hosts, HostsJob, text64
from house import claim, main, trainer, until

PREFIX = "/regroup/v1/test/"
# A host whose agent never answers and never leaves.
DEAF = {"id": "00000000000000aa", "seq": 1, "slots": 1, "elastic": 1,
        "address": "127.0.0.1", "port": 1, "draining": False, "gone": False,
        "etcd": False, "open": 1, "failed_code": 0, "failed": "", "vault": 0,
        "broke_why": "", "workers": []}


def drain(job, *words):
    return subprocess.Popen([REGROUP, "drain", *words],
                            env=job.hosts.environment("h1"), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def refused(job, words, code, *parts):
    got = job.run_on("h1", "drain", *words)
    claim(got.returncode == code, f"{words}: {got.returncode} {got.stderr}")
    for part in parts:
        claim(part in got.stderr, f"{words}: {got.stderr}")
    claim(got.stderr.count("\n") == 1 and got.stdout == "", got.stderr)


def host(job, name):
    status = job.status("h1") or {"hosts": []}
    return next((h for h in status["hosts"] if h["id"] == name), None)


def workers(job, name):
    return [w["state"] for w in (host(job, name) or {"workers": []})["workers"]]


def test():
    with Hosts(2, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "4", "--max", "4"], ["--slots", "1"],
                     trainer("--steps", "10"), only=["h1"]) as job:
        until(lambda: host(job, "h1") and
              hosts.keys(PREFIX + "lead/host/h1"), 20, "the first host")
        refused(job, ["h1"], 64, "the only one of job test", "regroup stop")
        refused(job, [], 64, "no host was named")
        refused(job, ["h1", "other"], 64, "no job other")
        refused(job, ["h1", "test", "more"], 64, "one word too many")
        refused(job, ["--deadline", "soon", "h1"], 64, '--deadline is "soon"')
        refused(job, ["x" * 64], 64, "up to 63 bytes")

        job.agent("h2")
        until(lambda: workers(job, "h2") == ["door"], 20, "the second host")
        refused(job, ["h3"], 64, "no host h3", "h1, h2")
        refused(job, ["a/b"], 64, "not the name of a host")

        hosts.ask("kv/put", key=text64(PREFIX + "lead/host/deaf"),
                  value=text64(json.dumps(DEAF)))
        late = drain(job, "--deadline", "100ms", "deaf", "test")
        # flags may stand behind the host
        leaving = drain(job, "h2", "--deadline", "20s")
        until(lambda: PREFIX + "all/drain/deaf" in
              hosts.keys(PREFIX + "all/drain/"), 20, "what is asked")
        asked = hosts.keys(PREFIX + "all/drain/")
        claim(json.loads(asked[PREFIX + "all/drain/deaf"]) ==
              {"deadline_ms": 100}, str(asked))
        deaf = host(job, "deaf")
        claim(deaf["draining"] and deaf["state"] == "draining", str(deaf))

        job.lost.add("h2")
        out, said = leaving.communicate(timeout=60)
        claim(leaving.returncode == 0, said)
        claim(out == "host h2 has left job test\n", out)
        claim((host(job, "h2") or {"state": "left"})["state"] == "left",
              str(host(job, "h2")))
        refused(job, ["h2"], 64, "no host h2")
        out, said = late.communicate(timeout=60)
        claim(late.returncode == 1 and out == "", f"{late.returncode} {out}")
        claim("has not left after 10100 ms" in said, said)

        hosts.ask("kv/deleterange", key=text64(PREFIX + "lead/host/"),
                  range_end=text64(PREFIX + "lead/host0"))
        refused(job, ["deaf"], 64, "no host deaf", "still to come; ask again")

        hosts.etcd[0].stop()
        refused(job, ["deaf"], 69, "etcd does not answer", "try again")
        hosts.etcd[0].go_on()


main(test)
