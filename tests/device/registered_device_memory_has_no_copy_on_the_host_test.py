"""A commit of registered device memory goes through a small ring: the process
has no second copy of it in memory of its own.

Covers: on_device.c nccl/device.c"""

import os
import re

from device import DeviceJob
from house import BUILD, claim, main

MIB = 64


def own_memory_mib(pid):
    """Private memory; what is shared, as the vault and the stand-in's device
    are, counts elsewhere."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"RssAnon:\s+(\d+)", status.read()).group(1)) >> 10


def test():
    program = os.path.join(BUILD, "tests", "gpu_costs")
    with DeviceJob(["-n", "1"], [
            program, "commit", "device", str(MIB), "100"]) as job:
        job.wait_step(20)
        held = own_memory_mib(job.pid(0))
        job.finish()
    claim(held < MIB // 2, f"{held} MiB beside {MIB} MiB of the device")


main(test)
