"""rg_world_wait tells a worker that it joins a running job: a spare that came
before the first commit, once that is made, and a replacement at once.

Covers: world_wait.c"""
import os
import re

from house import BUILD, Job, claim, main_all, touch, until

WAITER = os.path.join(BUILD, "tests", "waiter")


def make(job, name):
    touch(os.path.join(job.folder, name))


def waits(job):
    return [wait["kind"] for wait in job.answer()["waiting"]]


def trains_since_it_joined(job, slot):
    """It uses the set that the others made and it declared."""
    joined = job.text().partition(f"slot {slot} waited RG_JOINING")[2]
    return f"slot {slot} trains RG_OK" in joined


def test_spares_and_replacements():
    with Job(["--slots", "3", "--min", "2", "--max", "2"],
             [WAITER, "gate=gate", "until=end"]) as job:
        until(lambda: "fetches" in job.text(), 20, "the first world")
        until(lambda: "first" in waits(job), 20, "the spare's wait is shown")
        late = [slot for slot in range(3)  # the two that came first are in it
                if f"slot {slot} waited" not in job.text()]
        claim(len(late) == 1, f"these slots wait: {late}")
        spare = late[0]
        first = re.search(r"slot (\d) fetches", job.text()).group(1)
        make(job, "gate")
        until(lambda: f"slot {spare} is ready" in job.text(), 20,
              "the spare goes on")
        claim(f"slot {spare} waited RG_JOINING rank -1 of -1 in 0:"
              in job.text(), "the spare was told something else")
        until(lambda: "first" not in waits(job), 20, "the wait is over")
        claim(job.run("scale", job.name, "--max", "3").returncode == 0,
              "regroup scale")
        until(lambda: trains_since_it_joined(job, spare), 20, "the spare joins")
        job.kill(0)
        until(lambda: f"slot {first} waited RG_JOINING" in job.text(), 20,
              "the replacement is told")
        until(lambda: trains_since_it_joined(job, first), 20,
              "the replacement joins")
        make(job, "end")
        job.finish()
        claim(job.text().count("fetches") == 1, "a worker fetched again")
        claim("RG_ERR" not in job.text(), "a worker failed")
        for slot in range(3):
            claim(f"slot {slot} ran RG_OK" in job.text(), f"slot {slot}")


main_all(globals())
