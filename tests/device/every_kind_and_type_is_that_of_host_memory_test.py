"""Every kind, type and op on device memory, alone and in groups, has the bytes
that it has on host memory, alone and between three ranks; what is not there is
refused.

Covers: operations.c device_sets.c open_group.c"""
import os

from device import DeviceJob
from house import BUILD, claim, main


def test():
    for size in ("1", "3"):
        with DeviceJob(["-n", size],
                       [os.path.join(BUILD, "tests", "kinds")]) as job:
            job.finish()
            claim(job.text().count("all are right") == int(size),
                  "a rank has not come to its end")
            claim(not os.path.exists(os.path.join(job.device, "violations")),
                  "the device was used without discipline")


main(test)
