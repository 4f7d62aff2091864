"""The container of job.yaml, run here: a pod whose preStop hook runs leaves at
a commit with no step lost and ends with 76, so that its index is tried again;
a new pod of that index joins; a pod is healthy as its probe asks.

Covers: statefulset.yaml"""

import json
import os
import re
import subprocess
import sys
import urllib.request

SOURCE = os.environ["REGROUP_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests/cli"))
from command import BUILD, Claims, RunDir, skip, wait_for

try:
    import yaml
except ImportError:
    skip("no yaml for this Python; ci/install installs python3-yaml")

DIGITS = [BUILD + "/bin/elastic_digits", "--epochs", "100000", "--step-ms",
          "5"]


def status(d):
    got = d.run("status", "--json", "digits")
    return json.loads(got.stdout) if got.returncode == 0 else None


def is_running(d, size):
    seen = status(d)
    return seen and seen["phase"] == "running" and seen["size"] == size


def pod(d, index, container, login):
    """Its process, and its script of preStop."""
    place = f"{d.path}/pod{index}"
    os.makedirs(place, exist_ok=True)
    env = {e["name"]: e["value"] for e in container["env"]}
    env.update(login, JOB_COMPLETION_INDEX=str(index), REGROUP_MIN="1",
               REGROUP_MAX="2", REGROUP_SLOTS="1", REGROUP_METRICS="127.0.0.1:0",
               REGROUP_CHECKPOINT_DIR=d.path + "/checkpoints",
               REGROUP_NOTICE=f"kubernetes:{place}/notice",
               PATH=f"{BUILD}/bin:{os.environ['PATH']}")
    command = [word.replace("/run/regroup", place)
               for word in container["command"]]
    hook = container["lifecycle"]["preStop"]["exec"]["command"]
    process = subprocess.Popen(
        command + DIGITS, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, env=d.environment(**env))
    d.started.append(process)
    return process, [word.replace("/run/regroup", place) for word in hook]


def borrow_etcd(d):
    d.start("run", "-n", "1", "--job", "lender", *DIGITS)
    wait_for(lambda: os.path.exists(d.path + "/lender/job.json"), "an etcd")
    with open(d.path + "/lender/job.json", encoding="ascii") as file:
        record = json.load(file)
    with open(d.path + "/.password", "w", encoding="ascii") as file:
        file.write(record["password"])
    return {"REGROUP_ETCD": record["endpoints"],
            "REGROUP_ETCD_USER": record["user"],
            "REGROUP_ETCD_PASSWORD_FILE": d.path + "/.password"}


with open(SOURCE + "/deploy/kubernetes/job.yaml", encoding="ascii") as file:
    container, = [m for m in yaml.safe_load_all(file)
                  if m["kind"] == "Job"][0]["spec"]["template"]["spec"][
                      "containers"]
claims = Claims()
with RunDir() as d:
    os.mkdir(d.path + "/checkpoints")
    login = borrow_etcd(d)
    first, _ = pod(d, 0, container, login)
    second, pre_stop = pod(d, 1, container, login)
    wait_for(lambda: is_running(d, 2), "two pods")

    place = re.sub(r"0\.0\.0\.0", "127.0.0.1", status(d)["metrics"])
    path = container["livenessProbe"]["httpGet"]["path"]
    with urllib.request.urlopen(f"http://{place}{path}", timeout=10) as got:
        claims.equal(got.status, 200, path)

    hook = subprocess.Popen(pre_stop)
    _, said = second.communicate(timeout=60)
    hook.kill()  # as the end of its container does
    hook.wait()
    claims.equal(second.returncode, 76, said)
    wait_for(lambda: is_running(d, 1), "the other goes on")
    last = status(d)["changes"][-1]
    claims.equal((last["kind"], last["steps_lost"]), ("drain", 0), str(last))

    os.remove(f"{d.path}/pod1/notice")  # a new pod has none
    second, _ = pod(d, 1, container, login)
    wait_for(lambda: is_running(d, 2), "a new pod of the index")
    claims.equal(d.run("stop", "digits").returncode, 0, "stop")
    for process in first, second:
        _, said = process.communicate(timeout=60)
        claims.equal(process.returncode, 143, said)
claims.end()
