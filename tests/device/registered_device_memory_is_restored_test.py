"""Registered device memory, replicated and sharded: after a kill all ranks,
survivors and newcomers, have the contents of the resume commit; a later job
gets them from a checkpoint, and a worker alone from one of its own.

Covers: on_device.c"""
import os
import shutil
import subprocess
import tempfile

from device import DeviceJob, reducer
from house import UNTIL_FINISH, claim, main_all


def test_a_job():
    with tempfile.TemporaryDirectory(prefix="rg-") as folder:
        flags = ["--checkpoint-dir", os.path.join(folder, "kept")]
        with DeviceJob(["--min", "1", "--max", "3", *flags], reducer(
                *UNTIL_FINISH, "--device-state")) as job:
            job.wait_step(20)
            before = job.workers()
            lost = job.kill(1)
            job.wait_world(2, above=1)
            job.wait_world(3, above=2)
            job.finish()
            job.survivors(before, {lost})
            job.check()
            job.check_device()
            steps = int(job.final_state()[0])
        with DeviceJob(["-n", "2", *flags], reducer(
                "--steps", steps + 5, "--load", "--device-state"),
                job="later") as job:
            job.finish()
            job.check_device()


def test_a_buffer_longer_than_the_ring():
    with DeviceJob(["-n", "1"], reducer(
            *UNTIL_FINISH, "--device-state", "--elements", 700000)) as job:
        job.wait_step(2)
        job.kill(0)
        job.wait_world(1, above=1)
        job.finish()
        job.check()
        job.check_device()


def test_a_worker_alone():
    """Without an agent, which a job's variables serve all the same."""
    with tempfile.TemporaryDirectory(prefix="rg-") as folder:
        job = DeviceJob(["-n", "1"], [])
        env = dict(job.env, REGROUP_CHECKPOINT_DIR=folder)
        for flags in (["--steps", 5], ["--steps", 9, "--load"]):
            done = subprocess.run(
                reducer("--device-state", "--elements", 700000, *flags),
                env=env, capture_output=True, text=True, timeout=60,
                check=False)
            said = done.stdout + done.stderr
            claim(done.returncode == 0 and "WRONG" not in said, said)
        claim("loaded step 5" in said, said)
        claim(not os.path.exists(os.path.join(job.device, "violations")),
              "the device was used without discipline")
        shutil.rmtree(job.folder)


main_all(globals())
