"""After rg_world_wait, operations on device memory work before rg_run, whether
the device was opened before that call or after it; and so they do in every
generation of rg_run. What is still enqueued when rg_run begins has ended
before rank 0's memory becomes that of all. If only some workers open one, all
are told.

Covers: world_wait.c process_sets/device_sets.c elastic/state/state.c"""
from device import DeviceJob, reducer
from house import UNTIL_FINISH, claim, main_all


def run(place):
    with DeviceJob(["-n", "3"], reducer(
            *UNTIL_FINISH, "--step-ms", 2, "--world", place,
            "--device-state")) as job:
        job.wait_step(5)
        job.kill(2)
        job.wait_step(job.step() + 10)
        job.finish()
        claim(job.text().count("reduced before rg_run") == 3,
              "a rank has not reduced before rg_run")
        job.check()
        job.check_device()


def test_opened_before():
    run("behind")


def test_opened_behind():
    run("before")


def test_some_open_none():
    with DeviceJob(["-n", "2", "--max-restarts", "0"], reducer(
            "--world", "some")) as job:
        job.finish(code=3)
        claim("rank 1 has opened no device" in job.text(), "no sentence")


main_all(globals())
