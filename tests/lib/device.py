"""Jobs on device memory, on the stand-in for CUDA and NCCL.

    with DeviceJob(["-n", "3"], reducer(), "op k=5 die once=1") as job:
        ...
        job.finish()
        job.check_device()

tests/device/support/README.md tells what a script may say."""
import os

from house import BUILD, FINAL, Job, claim


def reducer(*flags):
    return [os.path.join(BUILD, "tests", "reducer"), *map(str, flags)]


class DeviceJob(Job):
    def __init__(self, flags, command, script="", env=None, **more):
        super().__init__(flags, command, **more)
        tests = os.path.join(BUILD, "tests")
        self.device = os.path.join(self.folder, "device")
        os.mkdir(self.device)
        self.env.update(
            FAKE_DEVICE=self.device,
            REGROUP_CUDA_LIB=os.path.join(tests, "libfakecuda.so"),
            REGROUP_NCCL_LIB=os.path.join(tests, "libfakenccl.so"))
        self.env.update(env or {})
        self.script(script)

    def script(self, lines):
        """From now on these are the faults."""
        path = os.path.join(self.device, "script")
        with open(path + ".next", "w", encoding="ascii") as file:
            file.write(lines + "\n")
        os.replace(path + ".next", path)

    def has_struck(self, number=1):
        return os.path.exists(os.path.join(self.device, f"struck.{number}"))

    def check_disciplined(self):
        """Nobody has used the device in a way that the stand-in refuses."""
        path = os.path.join(self.device, "violations")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                claim(False, f"the device says: {file.read()}")
        # a worker that a sanitizer ends would only be started again
        claim("Sanitizer" not in self.text(), "a sanitizer has found a fault")

    def check_device(self, left=0):
        """Nothing is wrong on the device, and at most so many communicators
        have left a file behind, since members were killed while they met."""
        self.check_disciplined()
        claim("WRONG" not in self.text(), "a result is wrong")
        files = [f for f in os.listdir(self.device) if f.startswith("nccl.")]
        claim(len(files) <= left, f"communicators are left: {files}")
        claim(len(set(FINAL.findall(self.text()))) == 1,
              "workers ended with different states, or without one")
