"""A driver, a device or an NCCL that can't be used is named once, with its
cause and a remedy; a device that another process still holds is waited for,
for 10 s and no longer.

Covers: libraries.c nccl/device.c"""
import os
import time

from device import DeviceJob, reducer
from house import BUILD, claim, main_all

# What the script says, the environment, and the sentence.
AT_OPEN = [
    ("", {"REGROUP_CUDA_LIB": "/nowhere/libcuda.so"},
     "/nowhere/libcuda.so can't be opened, so there is no NVIDIA driver"),
    ("", {"REGROUP_NCCL_LIB": "/nowhere/libnccl.so"},
     "/nowhere/libnccl.so can't be opened, so there is no NCCL"),
    ("cuinit rc=34", {}, "is the stub that programs are linked with"),
    ("cuinit rc=100", {}, "the driver finds no device"),
    ("", {"CUDA_VISIBLE_DEVICES": ""},
     "the driver is here but finds no device"),
    ("cuinit rc=802", {}, "the fabric manager is not running"),
    ("driver version=11080", {}, "the driver is for CUDA 11.8"),
    ("nccl version=22105", {}, "before 2.22 several communicators can't be "
     "aborted together"),
    ("", {"NCCL_COMM_ID": "127.0.0.1:1"}, "NCCL_COMM_ID is set"),
    ("retain rc=999", {}, "can't be used"),
]
AT_THE_MEETING = [
    ("devices n=1", "ranks 0 and 1 both use GPU 0000:81:00.0 of host"),
    ("nccl slot=1 version=22602", "NCCL is 2.28.9 on rank 0 (host"),
]


def job_of(slots, script, env=None):
    return DeviceJob(["-n", str(slots), "--max-restarts", "0"],
                     reducer("--steps", 5), script, env)


def end(job, sentence, code):
    job.finish(code=code)
    claim(sentence in job.text(), f"no line says: {sentence}")
    job.check_disciplined()


def see_what_open_says():
    for script, env, sentence in AT_OPEN:
        print(script, env, flush=True)
        with job_of(1, script, env) as job:
            end(job, sentence, 3)
            claim(job.text().count(sentence) == 1, f"said twice: {sentence}")


def test_what_the_meeting_says():
    for script, sentence in AT_THE_MEETING:
        print(script, flush=True)
        with job_of(2, script) as job:
            end(job, sentence, 1)


def test_a_call_that_is_missing_is_named():
    name = b"\0ncclCommSplit\0"
    with open(os.path.join(BUILD, "tests", "libfakenccl.so"), "rb") as file:
        library = file.read()
    claim(name in library, "the name stands in the library")
    job = job_of(1, "")
    path = os.path.join(job.device, "libfakenccl.so")
    job.env["REGROUP_NCCL_LIB"] = path
    with open(path, "wb") as file:
        file.write(library.replace(name, b"\0ncclCommSpliT\0"))
    with job:
        end(job, "has no ncclCommSplit: it is too old", 3)


def test_what_open_says():
    """Beside a device whose memory never comes back, which takes 10 s."""
    begin = time.monotonic()
    with job_of(1, "alloc oom") as job:
        see_what_open_says()
        end(job, "MiB are free: CUDA_ERROR_OUT_OF_MEMORY (2)", 3)
    claim(time.monotonic() - begin > 10, "it was not waited for")


def test_a_device_that_is_taken_is_waited_for():
    with job_of(2, "retain slot=1 rc=2 ms=300\nalloc slot=0 oom ms=200"
                ) as job:
        job.finish()
        job.check_device()


main_all(globals())
