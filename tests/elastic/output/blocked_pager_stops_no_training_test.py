"""No process reads `regroup run`'s output: training goes on, deaths are
survived, a signal ends the job, and once a reader comes no line is lost.

Covers: output.c spool.c"""
import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile

from house import (REGROUP, UNTIL_FINISH, Job, child_of, claim, main_all,
                   trainer, until)


def test_training_goes_on():
    script = "seq 1 40000 & exec " + " ".join(trainer("--steps", 100000))
    with Job(["-n", "2"], ["sh", "-c", script],
             stdout=subprocess.PIPE) as job:
        job.wait_step(50)
        job.process.terminate()
        job.finish(128 + 15, seconds=30)


def full_pipe():
    """Its ends; a write into it waits."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETFL, os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, bytes(4096))
    fcntl.fcntl(write, fcntl.F_SETFL, 0)
    os.set_blocking(read, False)
    return read, write


def text_in(read):
    with contextlib.suppress(BlockingIOError):
        return os.read(read, 1 << 20)
    return b""


def kill_and_wait(job, rank):
    generation = job.generation()
    job.kill(rank)
    job.wait_world(2, above=generation)


def test_own_lines_wait_for_no_reader():
    read, write = full_pipe()
    with Job(["--min", "1", "--max", "2"],
             trainer(*UNTIL_FINISH, "--step-ms", 2), stdout=write,
             stderr=write, env={"REGROUP_LOG": "warn,agent=debug"}) as job:
        job.wait_world(2)
        kill_and_wait(job, rank=1)
        os.kill(job.agent(), signal.SIGKILL)
        step = job.step()
        until(lambda: job.step() > step + 20, 20, "steps")
        kill_and_wait(job, rank=0)  # the next agent drops what it says of it
        text = bytearray(text_in(read))
        kill_and_wait(job, rank=1)  # and what it says of this comes through

        def is_told():
            text.extend(text_in(read))
            return b"of the log were dropped: no process read them" in text
        until(is_told, 20, "a word about lines that were dropped")
        job.process.terminate()
        job.finish(128 + 15, seconds=30)


def test_a_reader_that_is_gone_ends_nothing():
    for victim in ("regroup", "etcd"):
        read, write = os.pipe()
        with Job(["-n", "1"], trainer(*UNTIL_FINISH, "--step-ms", 2),
                 stdout=write, stderr=write) as job:
            os.close(write)
            job.wait_step(10)
            os.close(read)
            os.kill(child_of(job.process.pid, victim), signal.SIGKILL)
            step = job.step()
            until(lambda above=step: job.step() > above + 500, 20, "steps")
            until(lambda name=victim: child_of(job.process.pid, name), 20,
                  f"another {victim}")
            job.finish()


def test_no_line_is_lost():
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, REGROUP_RUN_DIR=os.path.join(folder, "run"))
        done = subprocess.run([REGROUP, "run", "-n", "2", "--", "seq", "1",
                               "20000"], env=env, capture_output=True,
                              text=True, timeout=60, check=True)
        lines = done.stdout.splitlines()
        for slot in (0, 1):
            mine = [line.split("| ")[1] for line in lines
                    if f".{slot} r-" in line]
            claim(mine == [str(n) for n in range(1, 20001)],
                  f"slot {slot}: {len(mine)} lines came through")


def test_nohup_is_respected():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Job(["-n", "1"], trainer(*UNTIL_FINISH, "--step-ms", 5)) as job:
        job.wait_step(10)
        job.process.send_signal(signal.SIGHUP)
        step = job.step()
        until(lambda: job.step() > step + 20, 20, "steps after SIGHUP")
        job.finish()


main_all(globals())
