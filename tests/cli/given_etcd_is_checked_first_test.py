"""--etcd: not there, wrong password, no password, then the right one; and a
private etcd lets no client in without its password.

Covers: probe.c talk.c cli/launch.c"""

import json
import re
import socket

from command import BUILD, Claims, RunDir, wait_for

DIGITS = [BUILD + "/bin/elastic_digits", "--epochs", "100000", "--step-ms",
          "5"]


def closed_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_running(d):
    got = d.run("status", "--json", "host-of-etcd")
    return got.returncode == 0 and json.loads(got.stdout)["phase"] == "running"


claims = Claims()
with RunDir() as d:
    with socket.socket() as deaf:  # takes connections, never answers
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(16)
        cases = [("no listener", closed_port(), ["run"]),
                 ("no listener", closed_port(), ["agent"]),
                 ("a deaf etcd", deaf.getsockname()[1], ["run"])]
        asked = [d.start(*command, "--job", f"J{port}", "--etcd",
                         f"http://127.0.0.1:{port}", "-n", "1", "true")
                 for _, port, command in cases]
        for (what, port, _), start in zip(cases, asked):
            said = start.communicate(timeout=60)[1]
            claims.equal(start.returncode, 69, what)
            claims.hold(re.fullmatch(
                f"regroup: .*http://127.0.0.1:{port}.*\n", said), said)

    got = d.run("run", "--etcd", "not a url", "-n", "1", "true")
    claims.hold(got.returncode in (64, 69), f"{got.returncode}: no URL")
    claims.hold("not a url" in got.stderr, got.stderr)

    job = d.start("run", "-n", "1", "--job", "host-of-etcd", *DIGITS)
    wait_for(lambda: is_running(d), "a job with a private etcd")
    with open(d.path + "/host-of-etcd/job.json") as file:
        record = json.load(file)
    claims.equal(record["endpoints"],
                 f"unix://{d.path}/host-of-etcd/etcd/c:1", "its socket")
    claims.hold(re.fullmatch("[0-9a-f]{32}", record["password"]),
                "its password is random")

    for name, text in (("wrong", "guess"), ("right", record["password"])):
        with open(f"{d.path}/.{name}", "w") as file:
            file.write(text + "\n")

    def use(*login):
        return d.run("run", "-n", "1", "--job", "guest", "--etcd",
                     record["endpoints"], *login, BUILD + "/bin/hello")

    got = use()
    claims.equal(got.returncode, 69, "no password")
    claims.hold(got.stderr.count("\n") == 1, got.stderr)
    got = use("--etcd-user", "root", "--etcd-password-file",
              d.path + "/.wrong")
    claims.equal(got.returncode, 69, "a wrong password")
    claims.hold("password" in got.stderr and got.stderr.count("\n") == 1,
                got.stderr)
    got = use("--etcd-user", "root", "--etcd-password-file",
              d.path + "/.right")
    claims.equal(got.returncode, 0, f"the right password: {got.stderr}")
    claims.hold("rank 0 of 1" in got.stdout, got.stdout)

    claims.equal(d.run("stop", "host-of-etcd").returncode, 0, "stop")
    job.communicate(timeout=60)
claims.end()
