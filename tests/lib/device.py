"""Jobs on device memory: on the stand-in for CUDA and NCCL, or on a GPU.

    with DeviceJob(["-n", "3"], reducer(), "op k=5 die once=1") as job:
        ...
        job.finish()
        job.check_device()

tests/device/support/README.md tells what a script may say. With
REGROUP_TEST_GPU=1 (ci/gpu) jobs run on the machine's first GPU, where no
script can be followed: what a test wants to happen there it does from
outside, or at failpoints."""
import os

from house import BUILD, FINAL, Job, claim

ON_GPU = os.environ.get("REGROUP_TEST_GPU") == "1"

# Several ranks on one device: each stands for a host of its own, and all meet
# over the loopback's sockets. Of bandwidth this says nothing.
ONE_DEVICE = {
    "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "1",
    "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_BUFFSIZE": "1048576",
    "NCCL_RAS_ENABLE": "0", "NCCL_SOCKET_RETRY_CNT": "10",
    "NCCL_SOCKET_RETRY_SLEEP_MSEC": "50", "CUDA_MODULE_LOADING": "EAGER",
    "CUDA_DEVICE_MAX_CONNECTIONS": "32"}
AS_A_HOST = ["sh", "-c", 'NCCL_HOSTID=rg-$REGROUP_SLOT exec "$0" "$@"']


def reducer(*flags):
    return [os.path.join(BUILD, "tests", "reducer"), *map(str, flags)]


class DeviceJob(Job):
    def __init__(self, flags, command, script="", env=None, **more):
        super().__init__(flags, command, **more)
        tests = os.path.join(BUILD, "tests")
        self.device = os.path.join(self.folder, "device")
        os.mkdir(self.device)
        if not ON_GPU:
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
        """No process has used the device in a forbidden way."""
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


def on_one_device(command, script=""):
    """(command, script, env) of a job whose ranks share the first device."""
    return (AS_A_HOST + command, "devices n=1\n" + script, ONE_DEVICE)
