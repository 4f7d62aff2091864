"""Registered device memory, replicated and sharded: after a kill all ranks,
survivors and newcomers, have it as the resume commit does; and a later job has
it from a checkpoint.

Covers: on_device.c"""
import os
import tempfile

from device import DeviceJob, reducer
from house import UNTIL_FINISH, main


def test():
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


main(test)
