"""`regroup gc`: run directories whose processes are gone, files of launches
that no agent holds, and the keys of jobs that have ended or have been without
hosts for --older-than; --dry-run changes nothing; a living job, and what is
not Regroup's, is never touched.

Covers: gc_cmd.c gc_etcd.c scratch.c"""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import signal

from command import BUILD, Claims, RunDir, processes_with, wait_for
from house import Etcd, need_etcd, touch

JOBS, NOTES = "/regroup/v1/", "/regroup/gc/"
TRAIN = [BUILD + "/tests/trainer", "--steps", "100000", "--step-ms", "5"]


def text64(text):
    return base64.b64encode(text.encode()).decode()


def keys(etcd, prefix="/regroup/"):
    got = etcd.post("kv/range", key=text64(prefix),
                    range_end=text64(prefix[:-1] + chr(ord(prefix[-1]) + 1)))
    return {base64.b64decode(kv["key"]).decode(): kv.get("value", "")
            for kv in got.get("kvs", [])}


def jobs(etcd):
    return sorted({k[len(JOBS):].split("/")[0] for k in keys(etcd, JOBS)})


def revoke_leases(etcd, but):
    """As if the time of every agent's lease were up, except of some jobs'."""
    kept = set()
    for job in but:
        prefix = f"{JOBS}{job}/"
        got = etcd.post("kv/range", key=text64(prefix),
                        range_end=text64(prefix[:-1] + "0"))
        kept |= {kv["lease"] for kv in got["kvs"] if "lease" in kv}
    for lease in etcd.post("lease/leases").get("leases", []):
        if lease["ID"] not in kept:
            etcd.post("lease/revoke", ID=lease["ID"])


def steps(d, job):
    got = d.run("status", "--json", job)
    if got.returncode != 0:
        return -1
    workers = [w for h in json.loads(got.stdout)["hosts"] for w in h["workers"]]
    return max((w["step"] or 0 for w in workers), default=0)


def kill_all(d, name):
    """Supervisor, agent and workers, until nothing is left to start another."""
    def are_gone():
        pids = processes_with(mark_of(d, name))
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return not pids
    wait_for(are_gone, f"the end of {name}")


def mark_of(d, name):
    return f"GC_TEST_JOB={d.path}/{name}\0"


def start_job(d, etcd, name):
    agent = d.start("agent", "--etcd", etcd.url, "--job", name, "--host", "h1",
                    "-n", "1", *TRAIN, env={"GC_TEST_JOB": f"{d.path}/{name}"})
    wait_for(lambda: steps(d, name) > 0, f"steps of {name}")
    return agent


def said(got):
    """Except for what other jobs of this machine left for any gc to remove."""
    lines = [line for line in got.stdout.splitlines(keepends=True)
             if "/regroup-mpi-" not in line and line != "nothing to remove\n"]
    return "".join(lines)


def look_at_launches(d):
    held, left = [f"{folder}/regroup-mpi-u{os.geteuid()}-gc{os.getpid()}-{n}"
                  for n, folder in enumerate(("/tmp", "/dev/shm"))]
    for path in held, left:
        os.makedirs(path + "/segment")
    lock = os.open(held, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    try:
        dry = d.run("gc", "--dry-run").stdout
        was_left = os.path.exists(left)
        got = d.run("gc").stdout
        return [(f"would remove {left}: " in dry, dry),
                (was_left, "a dry run removes nothing"),
                (f"removed {left}: " in got, got),
                (not os.path.exists(left), "files of a dead launch"),
                (os.path.exists(held + "/segment"), "those of a living one")]
    finally:
        os.close(lock)
        for path in held, left:
            shutil.rmtree(path, ignore_errors=True)


def test_launches(claims, d):
    """Any other gc of this user, as in another test, may come first."""
    for _ in range(3):
        seen = look_at_launches(d)
        if all(holds for holds, _ in seen):
            break
    for holds, what in seen:
        claims.hold(holds, what)


def test(claims, d, etcd):
    gc = ["gc", "--etcd", etcd.url]
    got = d.run(*gc)
    claims.equal((got.returncode, said(got)), (0, ""), got.stderr)

    got = d.run("agent", "--etcd", etcd.url, "--job", "done", "-n", "1",
                TRAIN[0], "--steps", "3")
    claims.equal(got.returncode, 0, got.stderr)
    got = d.run("agent", "--etcd", etcd.url, "--job", "static", "-n", "1",
                BUILD + "/bin/hello")
    claims.equal(got.returncode, 0, got.stderr)
    stopped = start_job(d, etcd, "stopped")
    claims.equal(d.run("stop", "stopped").returncode, 0, "stop")
    stopped.communicate(timeout=60)
    alive = start_job(d, etcd, "alive")
    vanished = start_job(d, etcd, "vanished")
    kill_all(d, "vanished")
    vanished.communicate(timeout=60)
    revoke_leases(etcd, ["alive"])
    for foreign in ("nojob", "a b/meta", ".hidden/meta", "x" * 80 + "/meta"):
        etcd.put(JOBS + foreign, "precious")

    os.mkdir(d.path + "/empty", 0o700)
    os.mkdir(d.path + "/mine", 0o700)
    for name in ("mine/precious", "mine/agent-h1.lock"):
        touch(f"{d.path}/{name}")

    before, listed = keys(etcd), sorted(os.listdir(d.path))
    got = d.run(*gc, "--dry-run")
    claims.equal(got.returncode, 0, got.stderr)
    for word in (f"would remove {d.path}/vanished",
                 "would remove job done from etcd: it has ended with code 0",
                 "would remove job stopped from etcd: it has ended with code "
                 "143", "would remove job static from etcd: it has ended with "
                 "code 0", "kept job vanished in etcd: no host is in it"):
        claims.hold(word in got.stdout, f"{word}: {got.stdout}")
    claims.hold("alive" not in got.stdout, got.stdout)
    after = keys(etcd)
    claims.equal(after, before, "keys after a dry run")
    claims.equal(sorted(os.listdir(d.path)), listed, "directories, too")

    got = d.run("gc")
    claims.equal(got.returncode, 0, got.stderr)
    claims.hold(f"removed {d.path}/vanished: " in got.stdout, got.stdout)
    claims.hold(f"{d.path}/mine is left" in got.stderr, got.stderr)
    claims.equal(sorted(os.listdir(d.path)), [".lock", "alive", "empty",
                                              "mine"], "directories")
    claims.equal(os.listdir(d.path + "/mine"), ["precious"], "what is not ours")
    claims.equal(keys(etcd), before, "keys, without --etcd")

    got = d.run(*gc)
    claims.hold("removed job done from etcd" in got.stdout, got.stdout)
    claims.hold("removed job stopped from etcd" in got.stdout, got.stdout)
    claims.equal("kept job vanished" in got.stdout, True, got.stdout)
    left = ["alive", "vanished"]
    claims.equal([j for j in jobs(etcd) if j in left + ["done", "stopped",
                                                        "static"]],
                 left, "jobs")
    claims.equal(list(keys(etcd, NOTES)), [NOTES + "vanished"], "a note")
    note = keys(etcd, NOTES)
    d.run(*gc)
    claims.equal(keys(etcd, NOTES), note, "the note stays as it is")

    # Its steps are gone with its hosts, which ends it; what begins then under
    # its name is another job: nothing of that may go.
    got = d.run("agent", "--etcd", etcd.url, "--job", "vanished", "--host",
                "h1", "-n", "1", *TRAIN)
    claims.equal(got.returncode, 74, got.stderr)
    vanished = start_job(d, etcd, "vanished")
    got = d.run(*gc, "--older-than", "0s")
    claims.hold("job vanished" not in got.stdout and f"{d.path}/vanished" not
                in got.stdout, got.stdout)
    claims.equal(keys(etcd, NOTES), {}, "the note of a job that lives")
    wait_for(lambda: steps(d, "vanished") > 0, "steps after a gc")
    kill_all(d, "vanished")
    vanished.communicate(timeout=60)
    revoke_leases(etcd, ["alive"])
    got = d.run(*gc, "--older-than", "0s")
    claims.hold("removed job vanished from etcd: no host is in it" in
                got.stdout, got.stdout)
    claims.equal(keys(etcd, NOTES), {}, "its note")
    etcd.put(NOTES + "nobody", "{}")
    got = d.run(*gc)
    claims.equal(said(got), "", got.stderr)
    claims.equal(keys(etcd, NOTES), {}, "a note of no job")
    foreign = [k for k, v in keys(etcd).items() if v == text64("precious")]
    claims.equal(len(foreign), 4, f"what is not ours: {foreign}")

    at = steps(d, "alive")
    wait_for(lambda: steps(d, "alive") > at, "the living job's steps")
    claims.equal(d.run("stop", "alive").returncode, 0, "stop")
    alive.communicate(timeout=60)
    claims.equal(alive.returncode, 143, "its code")

    got = d.run("gc")
    claims.equal(said(got), f"removed {d.path}/.story-alive: the events of a "
                 "job that has ended\n", "its story")
    got = d.run("gc", "--etcd", "http://127.0.0.1:1")
    claims.equal((got.returncode, said(got)), (69, ""), "no etcd")
    claims.hold("127.0.0.1:1" in got.stderr, got.stderr)


need_etcd()
all_claims = Claims()
with RunDir() as run_dir, Etcd() as server:
    test_launches(all_claims, run_dir)
    test(all_claims, run_dir, server)
all_claims.end()
