"""Every kind, type and op on device memory, alone and in groups, has the bytes
that it has on host memory, alone and between three ranks, also averages and
scales; an operation without kernels, or one that does not exist, is refused
with the reason.

Covers: operations.c scale.c device_sets.c open_group.c"""
import os

from device import DeviceJob
from house import BUILD, claim, main


def run(size, program, script="", env=None):
    with DeviceJob(["-n", str(size)], [os.path.join(BUILD, "tests", program)],
                   script, env) as job:
        job.finish()
        claim(job.text().count("all are right") == size,
              "a rank has not come to its end")
        job.check_disciplined()


def test():
    run(1, "kinds")
    run(3, "kinds")
    run(2, "kinds_without_kernels")
    run(2, "kinds", "module rc=801",
        {"KINDS_REFUSED": "the driver refuses Regroup's kernels: "
         "CUDA_ERROR_NOT_SUPPORTED (801)"})


main(test)
