"""However a job ends, its newest commit becomes a checkpoint: SIGTERM, Ctrl-C,
`regroup stop`, a drain of the last host, done. Nothing is written twice, or
with --checkpoint-on-stop=no; a missing directory gets a sentence, and so does
a writer that can't be started.

Covers: last.c end.c saver.c"""

import os
import resource
import shutil
import signal
import sys

from checkpoints import directory, names, steps
from house import (UNTIL_FINISH, Job, claim, main_all, trainer, until)

FAST = ("--step-ms", "2")


def job_in(path, *flags, command=(*UNTIL_FINISH, *FAST), workers=2):
    return Job(["-n", str(workers), "--checkpoint-dir", path, *flags],
               trainer(*command))


def committed(job):
    """The newest step whose commit a worker has heard of."""
    return max(e["step"] for e in job.events("commit"))


def ends(end, code, *flags):
    with directory() as path:
        with job_in(path, *flags) as job:
            job.wait_step(30)
            end(job)
            job.process.wait(30)
            claim(job.process.returncode == code,
                  f"code {job.process.returncode}, not {code}")
            newest = committed(job)
            claim(steps(path), f"no checkpoint is there:\n{job.text()}")
            claim(steps(path)[-1] >= newest,
                  f"{steps(path)} are there, {newest} is committed")
            claim(f"checkpoint of step {steps(path)[-1]} in {path}\n"
                  in job.text(), "no line tells of the checkpoint")
            claim(not names(path, ".part"), "a .part file was left")
            job.check()
        return_to(path)


def return_to(path):
    """The next job goes on where this one was."""
    last = steps(path)[-1]
    with job_in(path, command=("--load", *FAST, "--steps", str(last + 5)),
                workers=1) as job:
        job.finish()
        claim(job.final_state()[0] == str(last + 5), job.text())
        claim(min(e["step"] for e in job.events("step")) == last + 1,
              f"the next job did not go on from step {last}")
        claim(steps(path)[-1] == last + 5, f"{steps(path)}: not the last step")


def test_sigterm():
    ends(lambda job: job.process.terminate(), 143)


def test_an_interrupt():
    ends(lambda job: job.process.send_signal(signal.SIGINT), 130)


def test_stop():
    def stop(job):
        shown = job.run("stop", job.name)
        claim(shown.returncode == 0, shown.stderr)
    ends(stop, 143)


def test_the_step_that_is_under_way_is_the_last():
    with directory() as path, job_in(path, command=(
            *UNTIL_FINISH, *FAST, "--commit-every", "100000")) as job:
        job.wait_step(30)
        job.process.terminate()
        claim(job.process.wait(20) == 143, job.process.returncode)
        claim(steps(path) == [job.step()],
              f"{steps(path)} are there, step {job.step()} has ended")
        job.check()


def test_what_is_there_is_not_written_twice():
    with directory() as path, job_in(
            path, "--checkpoint-every", "100",
            command=(*FAST, "--steps", "100")) as job:
        job.finish()
        claim(steps(path) == [100], f"{steps(path)} are there")


def test_no_means_no():
    with directory() as path, job_in(path, "--checkpoint-on-stop=no") as job:
        job.wait_step(30)
        job.process.terminate()
        job.process.wait(20)
        claim(not steps(path), f"{steps(path)} are there")
    with directory() as path, job_in(path, "--checkpoint-on-stop=no",
                                     command=(*FAST, "--steps", "30")) as job:
        job.finish()
        claim(not steps(path), f"{steps(path)} are there")


def test_a_directory_that_has_gone_costs_a_sentence():
    with directory() as base:
        path = os.path.join(base, "here")
        with job_in(path) as job:
            job.wait_step(30)
            shutil.rmtree(path)
            job.process.terminate()
            claim(job.process.wait(20) == 143, job.process.returncode)
            said = [line for line in job.text().splitlines()
                    if "No such file" in line and " agent] " in line]
            claim(len(said) == 1 and "training goes on" not in said[0],
                  f"it is not said once: {said}")


def test_no_writer_costs_a_sentence():
    with directory() as path, job_in(path) as job:
        job.wait_step(30)
        # what is open stays so: etcd is reached
        resource.prlimit(job.agent(), resource.RLIMIT_NOFILE, (3, 3))
        job.process.terminate()
        claim(job.process.wait(20) == 143, job.process.returncode)
        claim("no socket for a checkpoint" in job.text(), job.text())
        claim("given up" not in job.text(), job.text())


def test_a_second_signal_ends_it_at_once():
    hold = {"REGROUP_FAILPOINT": "checkpoint.written:stop"}
    with directory() as path, Job(
            ["-n", "1", "--checkpoint-dir", path],
            trainer(*UNTIL_FINISH, *FAST), env=hold) as job:
        job.wait_step(30)
        job.process.terminate()
        until(lambda: names(path, ".part"), 20, "the checkpoint is begun")
        claim(job.process.poll() is None, "it has not waited for it")
        job.process.terminate()
        until(lambda: job.process.poll() is not None, 5, "it ends")
        claim(job.process.returncode == 143, job.process.returncode)


if len(sys.argv) > 1:
    main_all({name: globals()[name] for name in sys.argv[1:]})
else:
    main_all(globals())
