"""Three members of etcd, and what happens to them under a job that trains: no
step waits for them, and a worker that is killed meanwhile makes exactly one
change: under the fault if most members still hear each other, after it if no
member answers. With a password and TLS, where the tokens are forgotten.

    job_outlives_the_faults_of_its_etcds_test.py FAULT [--seconds N]

Covers: mirror.c endpoints.c lease.c"""
import argparse
import os
import tempfile
import time

from certificates import Authority, need_openssl
from etcd_cluster import Cluster
from etcd_faults import FAULTS, NOBODY_ANSWERS, order
from house import UNTIL_FINISH, Job, claim, main, trainer

PASSWORD = "p"
STALL_S = 2  # steps come every 5 ms; a change takes a fraction of a second


def longest_gap_s(job, begin_ns, end_ns):
    """Between steps of one rank, in that time."""
    times = [e["t_ns"] for e in job.events("step") if e["rank"] == 0]
    times = [t for t in times if begin_ns <= t <= end_ns]
    return max(b - a for a, b in zip(times, times[1:])) / 1e9


def train_on(job, seconds):
    """No step may wait for etcd."""
    begin = time.monotonic_ns()
    job.wait_step(job.step() + 50)
    time.sleep(max(0, seconds - (time.monotonic_ns() - begin) / 1e9))
    gap = longest_gap_s(job, begin, time.monotonic_ns())
    claim(gap < STALL_S, f"a step waited {gap} s under the fault")


def no_rank_steps(job):
    """A broken generation is left, and the next one can't be agreed upon."""
    time.sleep(0.5)  # for the steps that were under way
    step = job.step()
    time.sleep(1)
    claim(job.step() == step, "a worker trained in an aborted generation")


def outlive(fault, seconds, etcds, flags):
    urls = ",".join(m.url for m in order(etcds, fault))
    # Without restarts a kill is one change, and not a second one that grows.
    with Job(["--min", "1", "--max", "3", "--max-restarts", "0", "--etcd", urls,
              *flags], trainer("--step-ms", 5, *UNTIL_FINISH)) as job:
        job.wait_step(50)
        before = job.workers()
        with FAULTS[fault](etcds):
            train_on(job, seconds)
            lost = job.kill(1)
            killed = time.monotonic()
            if fault in NOBODY_ANSWERS:
                no_rank_steps(job)
            else:
                job.wait_world(2, above=1)
                print(f"{fault}: a world of 2 steps after "
                      f"{time.monotonic() - killed:.2f} s")
            ended = time.monotonic()
        job.wait_world(2, above=1)
        print(f"{fault}: the job steps {time.monotonic() - ended:.2f} s after "
              "the fault's end")
        job.wait_step(job.step() + 50)
        job.finish(seconds=90)
        claim(job.generation() == 2,
              f"{job.generation() - 1} changes instead of one")
        job.survivors(before, {lost})
        job.check(trained=())


def outlive_with_password(fault, seconds):
    need_openssl()
    with tempfile.TemporaryDirectory(prefix="rg-tls-") as folder:
        secret = os.path.join(folder, "password")
        with open(secret, "w", encoding="ascii") as file:
            file.write(PASSWORD)
        ca = Authority(folder)
        tls = (ca.sign("server", names=["IP:127.0.0.1"]), ca, ca.sign("client"))
        with Cluster(tls=tls) as etcds:
            etcds.turn_auth_on(PASSWORD)
            outlive(fault, seconds, etcds,
                    ["--etcd-user", "root", "--etcd-password-file", secret,
                     *etcds.tls_flags()])


def test():
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    if args.fault == "tokens_forgotten":
        outlive_with_password(args.fault, args.seconds)
        return
    with Cluster() as etcds:
        outlive(args.fault, args.seconds, etcds, [])


main(test)
