"""`--metrics 0`: /metrics follows the grammar of Prometheus' text format, and
agrees with the status; counters only rise. Without --metrics it is off. The
status shows the zone of an address.

Covers: metrics.c scrape.c"""

import ipaddress
import re
import subprocess
import time
import urllib.request

from checkpoints import directory
from house import LIBC, Job, claim, main, trainer

CLONE_NEWNET = 0x40000000

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(\{{(?:{LABEL}(?:,{LABEL})*,?)?\}})? "
                    r"([+-]?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+|Inf)|NaN)"
                    r"(?: -?\d+)?")
HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\\n]|\\[\\n])*)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram|summary|untyped)")
PARTS = {"histogram": ("_bucket", "_sum", "_count")}


def parse(text):
    """{family: (type, {sample with labels: value})}; strict about the order: a
    family is HELP, TYPE and then all its samples."""
    families, name, kind = {}, None, None
    claim(text.endswith("\n"), "the last line has no end")
    lines = text[:-1].split("\n")
    at = 0
    while at < len(lines):
        head, typed = HELP.fullmatch(lines[at]), None
        claim(head, f"no HELP: {lines[at]!r}")
        name = head[1]
        claim(name not in families, f"{name} comes twice")
        typed = TYPE.fullmatch(lines[at + 1]) if at + 1 < len(lines) else None
        claim(typed and typed[1] == name, f"no TYPE behind {lines[at]!r}")
        kind, samples = typed[2], {}
        at += 2
        while at < len(lines) and not lines[at].startswith("#"):
            sample = SAMPLE.fullmatch(lines[at])
            claim(sample, f"no sample: {lines[at]!r}")
            claim(sample[1] in [name + p for p in PARTS.get(kind, ("",))],
                  f"{lines[at]!r} is none of {name}")
            key = sample[1] + (sample[2] or "")
            claim(key not in samples, f"{key} comes twice")
            samples[key] = float(sample[3])
            at += 1
        families[name] = (kind, samples)
    return families


def check_families(families):
    for name, (kind, samples) in families.items():
        claim(name.startswith("regroup_"), name)
        claim((kind == "counter") == name.endswith("_total"), f"{name} {kind}")
        if kind == "histogram":
            buckets = [v for k, v in samples.items() if "_bucket" in k]
            claim(buckets == sorted(buckets), f"{name} falls: {buckets}")
            claim(buckets[-1] == samples[name + "_count"], f"{name}: +Inf")
            claim(f'{name}_bucket{{le="+Inf"}}' in samples, f"{name}: +Inf")
        if kind == "counter":
            claim(all(v >= 0 for v in samples.values()), f"{name}: {samples}")


def get(job):
    at = job.answer()["metrics"]
    with urllib.request.urlopen(f"http://{at}/metrics", timeout=10) as got:
        claim(got.headers["Content-Type"] ==
              "text/plain; version=0.0.4; charset=utf-8", str(got.headers))
        families = parse(got.read().decode())
    check_families(families)
    return {k: v for _, samples in families.values()
            for k, v in samples.items()}


def link_local():
    """An address with its zone, here or in a network namespace that this
    process enters; None: there is none that is in use already."""
    if LIBC.unshare(CLONE_NEWNET) == 0:
        for words in ("link set lo up",
                      "-6 addr add fe80::1/64 dev lo scope link nodad"):
            subprocess.run(["ip", *words.split()], check=True)
    with open("/proc/net/if_inet6", encoding="ascii") as file:
        for line in file:
            address, _, _, scope, flags, interface = line.split()
            if scope == "20" and int(flags, 16) & 0x48 == 0:
                return f"{ipaddress.IPv6Address(int(address, 16))}%{interface}"
    return None


def shows_the_zone():
    at = link_local()
    if at is None:
        print("there is no link-local address here: zones are not looked at")
        return
    with Job(["-n", "1", "--metrics", f"[{at}]:0"],
             trainer("--steps", "100000")) as job:
        job.wait_step(1)
        claim(job.status()["metrics"].startswith(f"[{at}]:"),
              job.status()["metrics"])


def test():
    shows_the_zone()
    with directory() as path, \
            Job(["--min", "1", "--max", "3", "--metrics", "0",
                 "--checkpoint-dir", path, "--checkpoint-every", "10"],
             trainer("--steps", "100000", "--step-ms", "5")) as job:
        claim(job.run("status").returncode in (0, 64, 69), "status")
        job.wait_step(5)
        claim(job.answer()["metrics"].startswith("127.0.0.1:"),
              "the default is loopback")
        claim("metrics at http://127.0.0.1:" in job.run("status").stdout,
              "status tells where")
        before = get(job)
        claim('regroup_info{name="test",host="' in str(before), str(before))
        claim(before["regroup_world_size"] == 3, str(before))
        claim(before["regroup_workers_alive"] == 3, str(before))
        claim(before["regroup_generation"] == 1, str(before))
        claim(before["regroup_recovery_seconds_count"] == 0, str(before))
        job.kill(rank=1)
        job.wait_world(3, above=1)
        job.wait_step(job.step() + 5)
        after, status = get(job), job.status()
        changes = status["changes"]
        claim(after["regroup_generation"] == len(changes) ==
              status["generation"], str(after))
        for kind in ("first", "death", "join"):
            of_kind = [c for c in changes if c["kind"] == kind]
            claim(of_kind and after["regroup_generation_changes_total{cause="
                                    f'"{kind}"}}'] == len(of_kind),
                  f"{kind}: {after} {changes}")
        claim(after["regroup_recovery_seconds_count"] == len(changes) - 1,
              str(after))
        slow = sum(c["fault_to_step_ms"] for c in changes[1:]) / 1000
        claim(abs(after["regroup_recovery_seconds_sum"] - slow) < 1e-6,
              f"{after} {changes}")
        claim(after["regroup_worker_restarts_total"] == 1, str(after))
        claim(after["regroup_vault_bytes"] == status["vault_bytes"],
              str(after))
        claim(after["regroup_checkpoint_failed"] == 0, str(after))
        claim(f"step {after['regroup_checkpoint_step']:.0f} is durable"
              in job.text(), str(after))
        claim(abs(after["regroup_checkpoint_time_seconds"] - time.time()) < 30,
              str(after))
        claim(after["regroup_steps"] > before["regroup_steps"], str(after))
        claim(0 <= after["regroup_seconds_since_step"] < 10, str(after))
        claim(after["regroup_etcd_up"] == 1 == after["regroup_leader"],
              str(after))
        for name, value in before.items():
            if "_total" in name or "_bucket" in name:
                claim(after[name] >= value, f"{name} fell")

    with Job(["-n", "1"], trainer("--steps", "100000")) as job:
        job.wait_step(1)
        claim(job.answer()["metrics"] is None, "metrics without --metrics")
        claim("metrics" not in job.run("status").stdout, "nor for the line")


main(test)
