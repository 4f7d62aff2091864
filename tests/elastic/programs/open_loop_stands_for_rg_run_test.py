"""A loop of rg_next survives a kill as rg_run does, with the fault-free run's
state. A loop that is left early costs its worker the place in the job, and a
line says so; the others go on at once, and the slot starts again. A failure
before the loop skips it, and what is wrong in it is one sentence, as is rg_next
in a function that Regroup calls.

Covers: worker/run.c"""
import os

from house import BUILD, UNTIL_FINISH, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 4)


def kill_one():
    with Job(["--min", "1", "--max", "3"], trainer(*TRAIN, "--open")) as job:
        job.wait_step(10)
        before = job.workers()
        lost = job.kill(0)
        job.wait_world(2, above=1)
        job.wait_world(3, above=2)
        job.finish()
        job.survivors(before, {lost})
        job.check(trained=TRAIN)


def leave_early():
    with Job(["--min", "1", "--max", "3"],
             [os.path.join(BUILD, "tests", "lifecycle"), "opens",
              "left"]) as job:
        job.finish(seconds=40)
        text = job.text()
    claim("left before rg_next had returned 0; this worker leaves" in text,
          text)
    claim("on another thread RG_ERR_INVALID" in text, text)
    claim("within RG_ERR_INVALID: rg_run is running already" in text, text)
    claim(text.count("open loop RG_OK") == 3, text)
    claim(text.count("in on_reset RG_ERR_INVALID") == 3, text)
    claim(text.count("again RG_ERR_INVALID: the job is done") == 3, text)


def test():
    kill_one()
    leave_early()


main(test)
