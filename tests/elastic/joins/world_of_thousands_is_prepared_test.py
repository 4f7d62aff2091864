"""Sixty hosts with 64 workers each come to the door of a job of two (their
records are written into etcd, all at once; no process is behind them). A world
of that size is handed out like any other; the job goes on training when they
have gone. A world beyond the limit is refused at the start, with numbers.

Covers: generation.c proposal.c"""
import json
import re
import subprocess

from hosts import text64
from house import (REGROUP, UNTIL_FINISH, Etcd, Job, claim, main,
                   trainer, until)

HOSTS, SLOTS = 60, 64
PREFIX = "/regroup/v1/test/lead/host/x"
FLAGS = (*UNTIL_FINISH, "--step-ms", "5")


def record(n):
    return {"id": f"{0x1000 + n:016x}", "seq": 1, "slots": SLOTS,
            "elastic": 1, "address": "127.0.0.1", "port": 9,
            "draining": False, "gone": False, "etcd": False, "open": SLOTS,
            "failed_code": 0, "failed": "", "vault": 0, "broke_why": "",
            "workers": [[i, 1, 1, True, True, 9] for i in range(SLOTS)]}


def come(etcd):
    """In one transaction: of hosts that came one by one the first would be in
    a world of their own, and lost for their silence before the last came."""
    etcd.post("kv/txn", success=[
        {"request_put": {"key": text64(PREFIX + str(n)),
                         "value": text64(json.dumps(record(n)))}}
        for n in range(HOSTS)])


def test():
    refused = subprocess.run([REGROUP, "run", "--min", "1", "--max", "16385",
                              "--slots", "1", "--etcd", "http://127.0.0.1:1",
                              "true"], capture_output=True, text=True,
                             check=False)
    claim(refused.returncode == 64 and "16384" in refused.stderr,
          f"{refused.returncode}: {refused.stderr}")
    with Etcd() as etcd, \
            Job(["--etcd", etcd.url, "--min", "1", "--max", "16384", "--slots",
                 "2", "--start-timeout", "300ms"], trainer(*FLAGS),
                env={"REGROUP_LOG": "info,agent=debug"}) as job:
        job.wait_world(2)
        come(etcd)
        until(lambda: job.alive() and any(
            int(size) > 3000 for size in re.findall(
                r"is proposed: .*, (\d+) workers", job.text())), 30,
              "a world of thousands is proposed")
        etcd.post("kv/deleterange", key=text64(PREFIX),
                  range_end=text64(PREFIX[:-1] + "y"))
        job.wait_step(job.step() + 50)
        job.finish()
        claim("can't be prepared" not in job.text(), "it was not handed out")
        job.check(trained=FLAGS)


main(test)
