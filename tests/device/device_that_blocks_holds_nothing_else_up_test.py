"""A call of the device that blocks holds up neither the answers to the agent
nor the next generation: a launch into a full queue after a slow operation
costs no worker its place and is released by an abort, and memory that takes
longer to free than the detection budget is freed during the next steps.

Covers: operations.c reclaim.c"""
from device import DeviceJob, reducer
from house import PATIENCE, UNTIL_FINISH, claim, main_all, until

BUDGET = f"{500 * PATIENCE}ms"
LONG_MS = 1500 * PATIENCE  # three budgets
FULL = "queue n=1\n"  # one launch; the next one blocks


def job_of(script):
    return DeviceJob(["-n", "3"], reducer(
        *UNTIL_FINISH, "--step-ms", 2, "--set"), script, detect=BUDGET)


def end(job, generations):
    job.wait_step(job.step() + 5)
    job.finish()
    claim(job.generation() == generations,
          f"{job.generation()} generations, not {generations}")
    job.check()
    job.check_device()


def test_a_launch_that_blocks_is_no_silence():
    with job_of(f"{FULL}op rank=1 k=9 slow ms={LONG_MS} once=1") as job:
        until(lambda: job.has_struck() or not job.alive(), 20, "it is slow")
        end(job, 1)


def test_an_abort_frees_a_launch_that_blocks():
    with job_of(f"{FULL}op rank=2 k=9 die once=1") as job:
        before = job.workers()
        until(lambda: job.generation() == 2 or not job.alive(), 20,
              "the next generation")
        end(job, 2)
        job.survivors({r: w for r, w in before.items() if r != 2})


def test_freeing_is_behind_the_next_steps():
    with job_of("op rank=2 k=9 die once=1\n"
                f"abort slow ms={LONG_MS}") as job:
        until(lambda: job.generation() == 2 or not job.alive(), 20,
              "the next generation")
        steps = [e for e in job.events("step") if e["generation"] == 1]
        job.wait_step(steps[-1]["step"] + 5)
        first = next(e for e in job.events("step") if e["generation"] == 2)
        late_ms = (first["t_ns"] - steps[-1]["t_ns"]) / 1e6
        claim(late_ms < LONG_MS, f"the next step came {late_ms} ms later")
        job.script("")
        end(job, 2)


main_all(globals())
