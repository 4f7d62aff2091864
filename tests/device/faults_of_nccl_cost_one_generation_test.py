"""Any fault of NCCL ends one generation, with a sentence: a rendezvous, a
split or a first operation that hangs or fails, an error of the network, a call
that is refused. A device that does not stop costs its own process. The sums
are right in the end, and no process used the device in a way that is not
allowed.

Covers: lanes.c reclaim.c"""
from device import DeviceJob, reducer
from house import UNTIL_FINISH, claim, main_all, until

LIMIT_MS = 600

# What goes wrong, and what is said of it. Operation 1 of a communicator is the
# first that passes over it; the program's follow.
FAULTS = [
    ("init rank=1 never",
     "NCCL did not finish connecting to the other ranks within "
     f"{LIMIT_MS} ms"),
    ("split rank=2 never",
     f"NCCL did not finish making the communicator within {LIMIT_MS} ms"),
    ("split rank=0 fails rc=2",
     "NCCL failed in making the communicator: ncclSystemError"),
    ("op rank=1 k=1 hang",
     f"its first operation on the device did not end within {LIMIT_MS} ms"),
    ("launch rank=1 k=5 rc=3",
     "NCCL failed in the allreduce: ncclInternalError"),
    ("init rank=0 fails rc=6",
     "NCCL failed in connecting to the other ranks: ncclRemoteError"),
    ("begin rank=2 rc=1",  # as the call itself says
     "NCCL failed in connecting to the other ranks: ncclUnhandledCudaError"),
]
ENDS = "op rank=0 remote"  # a generation, so that the next one begins
SAID = "NCCL failed in an operation: ncclRemoteError"
LATE = "init rank=1 late ms=100"  # in time
REFUSED = ("launch rank=1 k=5 rc=5 once=1", "NCCL refused the allreduce")
NO_END = f"the device has not stopped {LIMIT_MS} ms after generation"
RUINED = ("op rank=1 k=9 sticky once=1", "reducer: rg_run: RG_ERR_DEVICE: ")


def job_of(script):
    return DeviceJob(["-n", "3"], reducer(
        *UNTIL_FINISH, "--step-ms", 2,
        "--limit-ms", LIMIT_MS), script)


def end(job, *sentences):
    job.wait_step(job.step() + 12)
    job.finish()
    for sentence in sentences:
        claim(sentence in job.text(), f"no line says: {sentence}")
    job.check()
    job.check_device()


def strike(job, fault, number):
    """In the next generation; and one that is right follows."""
    job.script(f"{fault} once={number}\n{ENDS} once={100 + number}")
    until(lambda: job.has_struck(number) or not job.alive(), 20,
          f"{fault} strikes")
    job.script("")
    job.wait_step(job.step() + 5)


def test_one_after_the_other():
    with job_of("") as job:
        job.wait_step(5)
        before = job.workers()
        for number, (fault, _) in enumerate(FAULTS):
            strike(job, fault, number)
        strike(job, LATE, len(FAULTS))
        end(job, SAID, *(sentence for _, sentence in FAULTS))
        job.survivors(before)
        claim(job.generation() == 2 + 2 * len(FAULTS), "a fault cost more "
              f"than one generation, or none: {job.generation()}")


def test_worker_that_cannot_go_on():
    for script, sentence in (RUINED, REFUSED):
        print(script, flush=True)
        with job_of(script) as job:
            until(lambda: sentence in job.text() or not job.alive(), 20,
                  f"a line says: {sentence}")
            end(job)


def test_a_device_that_is_ruined_while_it_is_waited_for():
    """Its operation never ends, and other ranks wait for it as well."""
    with job_of("op rank=0 k=9 hang once=1") as job:
        until(job.has_struck, 20, "an operation is under way")
        job.script("sticky slot=1 rc=700 once=2")
        until(lambda: RUINED[1] in job.text() or not job.alive(), 20,
              f"a line says: {RUINED[1]}")
        end(job, "the device can't go on; this process ends, and its slot "
            "starts again: CUDA_ERROR_ILLEGAL_ADDRESS (700)")


def test_a_first_operation_that_blocks_others():
    with DeviceJob(["-n", "3"], reducer(
            *UNTIL_FINISH, "--step-ms", 2, "--limit-ms", LIMIT_MS), env={
            "REGROUP_FAILPOINT":
            f"device.warm:rank2:gen1:sleep{5 * LIMIT_MS}"}) as job:
        end(job, "its first operation on the device did not end within")


def test_the_third_time_in_a_row_is_the_last():
    never = "\n".join(f"init rank=1 comm={k} never" for k in range(2, 20, 2))
    with DeviceJob(["-n", "3"], reducer(
            *UNTIL_FINISH, "--step-ms", 2, "--set",
            "--limit-ms", LIMIT_MS), never) as job:
        until(lambda: "3 times in a row: set " in
              job.text() or not job.alive(), 20, "a worker gives up")
        job.script("")
        end(job)


def test_a_device_that_does_not_stop_ends_its_process():
    for script, is_hung in (("op rank=1 k=9 through once=1", True),
                            ("abort rank=1 never once=1", False)):
        with job_of(script) as job:
            until(lambda: job.has_struck() or not is_hung or not job.alive(),
                  20, "it hangs")
            job.kill(2)
            until(lambda: NO_END in job.text() or not job.alive(), 20,
                  f"a line says: {NO_END}")
            until(lambda: "exited with code 71" in job.text(), 20, "71")
            end(job)


main_all(globals())
