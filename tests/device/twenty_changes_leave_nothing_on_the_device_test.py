"""Twenty generations end within a kernel: one worker dies, another one dies
while communicators meet, and then NCCL fails again and again. The others keep
their process, and hold in the end what they held before: communicators,
threads, descriptors and every byte of device and pinned memory. All the while
ranks start the operations of two sets in opposite orders.

Covers: reclaim.c root.c"""
import os
import re

from device import DeviceJob, reducer
from house import UNTIL_FINISH, claim, main, until

CHANGES = 20
FAULTS = """op rank=2 comm=1 die once=1
init rank=2 comm=1 die once=2
op rank=1 k=4 remote"""


def held(pid):
    """{what: how much} of a process, as the kernel knows it."""
    found = {"threads": len(os.listdir(f"/proc/{pid}/task")),
             "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
             "communicators": 0, "device bytes": 0}
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            begin, end = re.match(r"(\w+)-(\w+)", line).groups()
            if "memfd:device" in line:
                found["device bytes"] += int(end, 16) - int(begin, 16)
            found["communicators"] += "/nccl." in line
    return found


def test():
    with DeviceJob(["-n", "3"], reducer(
            *UNTIL_FINISH, "--step-ms", 2, "--cross")) as job:
        job.wait_step(5)
        before = job.workers()
        pids = [before[rank]["pid"] for rank in (0, 1)]
        first = {pid: held(pid) for pid in pids}
        claim(all(h["communicators"] == 4 for h in first.values()),
              f"two sets have a parent and a child: {first}")
        job.script(FAULTS)
        until(lambda: job.generation() > CHANGES or not job.alive(), 60,
              f"{CHANGES} changes")
        job.script("")
        claim(job.has_struck(1) and job.has_struck(2), "no process died")
        job.wait_step(job.step() + 5)
        for pid in pids:
            until(lambda pid=pid: held(pid) == first[pid], 20,
                  f"process {pid} held {first[pid]}, and now {held(pid)}")
        job.finish()
        job.survivors(before, {before[2]["pid"]})
        job.check()
        job.check_device(left=1)


main(test)
