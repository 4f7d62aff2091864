"""A host that is killed as a whole joins its job again by the same command,
and a job is started again: --history keeps the files from before, new ones
come beside them, and each decision names its job.

Covers: history.c"""
import os
import subprocess

from house import UNTIL_FINISH, Job, claim, main_all, trainer
from hosts import Hosts, HostsJob

FLAGS = (*UNTIL_FINISH, "--step-ms", "5")


def jobs_of(history):
    import check_history  # pylint: disable=import-outside-toplevel
    found = check_history.read(history)
    claim(not check_history.check(history), "the history breaks invariants: "
          f"{check_history.check(history)}")
    return len(found)


def test_a_host_that_comes_back_goes_on():
    with Hosts(2, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2"], ["--slots", "1"],
                     trainer(*FLAGS)) as job:
        job.wait_world(2)
        command = job.agents["h2"].args
        job.kill_host("h2")
        job.wait_world(1)
        with open(os.path.join(job.folder, "h2.log"), "ab") as log:
            job.agents["h2"] = hosts.popen("h2", command, stdout=log,
                                           env=hosts.environment("h2"),
                                           stderr=log)
        job.lost.discard("h2")
        job.wait_world(2, above=job.generation())
        job.finish()
        job.check(trained=FLAGS)
        claim(sorted(os.listdir(os.path.join(job.history, "h2-1"))) ==
              ["h2.0.1.jsonl", "h2.0.2.jsonl"], "the files of h2")
        claim(jobs_of(job.history) == 1, "the history is of one job")


def test_a_job_that_is_begun_again_goes_on():
    with Job(["-n", "1", "--checkpoint-every", "5", "--checkpoint-dir", "c"],
             trainer("--steps", 100, "--step-ms", 5)) as job:
        job.wait_step(20)
        job.process.terminate()
        job.process.wait()
        again = subprocess.run(job.command, env=job.env, cwd=job.folder,
                               text=True, capture_output=True, timeout=60,
                               check=False)
        claim(again.returncode == 0, f"{again.returncode}: {again.stderr}")
        claim(jobs_of(job.history) == 2, "the history is not of two jobs")


main_all(globals())
