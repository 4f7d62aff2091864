"""With --detect auto, an agent that was held up for a moment makes all hosts
wait longer; a stop that would have cost a host its place at the budget that the
job begins with then costs none. `regroup status` and the metrics show it.

Covers: beat.c delays.c report.c metrics.c status_cmd.c"""
import os
import signal
import time
import urllib.request

from house import claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob

FIRST_MS = 500
SHORT_S = 0.25  # less than seven tenths of FIRST_MS
LONG_S = 0.45   # more
TRIES = 10


def stop(pid, seconds):
    """Was it stopped hardly longer than that? A busy machine is late, too."""
    began = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)  # being late for so long is the fault
    os.kill(pid, signal.SIGCONT)
    return time.monotonic() - began < 1.1 * seconds


def keeps_its_place(job, late):
    """None: it was stopped for too long to say."""
    job.wait_world(3)
    before = job.generation()
    is_exact = stop(late, LONG_S)
    until(lambda: job.status("h3"), 20, "h3's agent answers")
    if job.generation() == before:
        return True
    return False if is_exact else None


def budget_of(job, host):
    return (job.status(host) or {"detect": {"budget_ms": 0}})["detect"]["budget_ms"]


def asked_by(status, host):
    asked = [h["asks_ms"] for h in status["hosts"] if h["id"] == host]
    return asked[0] or 0 if asked else 0


def hear_h3(job, names, asks_ms=0):
    return all(asked_by(job.status(host) or {"hosts": []}, "h3") > asks_ms
               for host in names)


def claim_shown(job, host):
    status = job.status(host)
    detect = status["detect"]
    claim(detect["auto"] and detect["budget_ms"] % 50 == 0, str(detect))
    claim(detect["asks_ms"] >= 4 * detect["delay_ms"] or
          detect["asks_ms"] == 3000, str(detect))
    claim(asked_by(status, "h3") > FIRST_MS, f"{host}: {status['hosts']}")
    claim(host != "h3" or detect["delay_ms"] >= 100, f"{host}: {detect}")
    with urllib.request.urlopen(f"http://{status['metrics']}/metrics",
                                timeout=5) as got:
        text = got.read().decode()
    for name in ("detect_seconds", "heartbeat_delay_seconds"):
        value = [line.split()[1] for line in text.splitlines()
                 if line.startswith(f"regroup_{name} ")]
        claim(value and 0 < float(value[0]) <= 3, f"{name}: {value}")
    text = job.run_on(host, "status").stdout
    claim("a silent host is lost after " in text and "(auto)" in text, text)


def test():
    with Hosts(3, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "3", "--metrics", "0"],
                     ["--slots", "1"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 2), detect="auto") as job:
        job.wait_world(3)
        late = job.agent_pid("h3")
        until(lambda: hear_h3(job, hosts.names), 20, "all hear h3")
        stop(late, SHORT_S)
        until(lambda: min(budget_of(job, h) for h in hosts.names) >= 1.6 * FIRST_MS,
              20, "all hosts wait longer")
        until(lambda: hear_h3(job, hosts.names, FIRST_MS), 20,
              "all know that h3 asks for it")
        job.wait_world(3)
        for host in hosts.names:
            claim_shown(job, host)
        tries = (keeps_its_place(job, late) for _ in range(TRIES))
        claim(next((kept for kept in tries if kept is not None), False),
              f"a stop of {LONG_S} s cost h3 its place")
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0]))


main(test)
