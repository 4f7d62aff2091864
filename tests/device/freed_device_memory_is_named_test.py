"""Device memory that is freed while it is registered: the commit that would
read it says which buffer that is, before anything touches it.

Covers: on_device.c nccl/device.c"""

from device import DeviceJob, reducer
from house import claim, main


def test():
    with DeviceJob(["-n", "2", "--max-restarts", "0"], reducer(
            "--steps", 9, "--device-state", "--free", 5)) as job:
        job.finish(code=1)
        claim("RG_ERR_INVALID: buffer shard is no longer memory of the "
              "device: it was freed" in job.text(), "no line names the buffer")
        job.check_disciplined()


main(test)
