"""A timeline on a disk that is full stays whole JSON, one sentence of the log
says where it ends, and the job trains on. Where the process that writes is held up,
the trace itself shows how many events were left out, as soon as it is written
again. A job whose timeline can't be written
from the start does not begin.

Covers: timeline.c timeline_writer.c"""
import json
import os
import signal
import subprocess
import tempfile

from house import UNTIL_FINISH, Job, claim, skip, trainer, until

ROOM = "64k"
MOUNT = ("unshare", "--mount", "--propagation", "private", "sh", "-c",
         f'mount -t tmpfs -o size={ROOM} none "$0" && exec "$@"')


with tempfile.TemporaryDirectory() as folder:
    if subprocess.run([*MOUNT, folder, "true"], capture_output=True,
                      check=False).returncode != 0:
        skip("a disk of its own takes the right to mount (run it as root)")

job = Job(["-n", "2", "--timeline", "disk/t.json"], trainer(*UNTIL_FINISH))
disk = os.path.join(job.folder, "disk")
os.mkdir(disk)
job.command = [*MOUNT, disk, *job.command]
with job:
    until(lambda: "ends before the job" in job.text(), 20, "a full disk")
    job.wait_step(job.step() + 20)
    claim(job.text().count("disk/t.json ends before the job") == 1, "once")
    inside = f"/proc/{job.agent()}/root{disk}/t.json"
    with open(inside, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    claim(len(events) > 100, f"{len(events)} events")
    shown = job.run("timeline", "stop", "test")
    claim(shown.returncode == 0 and " 0 found no room" not in shown.stdout,
          str(shown))
    job.finish()



def writer(job, path):
    """The process that has only the file open, and no agent's socket."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            held = [os.readlink(f"/proc/{pid}/fd/{fd}")
                    for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        if path in held and pid != job.agent():
            return pid
    return None


def left_out(path):
    """The counts in the trace, from first to last."""
    try:
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    except json.JSONDecodeError:  # it is being written
        return []
    return [e["args"]["dropped"] for e in events
            if e["name"] == "events without room" and e["ph"] == "C"]


with Job(["-n", "2", "--timeline", "t.json"], trainer(*UNTIL_FINISH)) as job:
    path = os.path.join(job.folder, "t.json")
    pid = until(lambda: writer(job, path), 10, "the process that writes")

    def is_told():
        os.kill(pid, signal.SIGSTOP)
        job.wait_step(job.step() + 5000)
        os.kill(pid, signal.SIGCONT)
        job.wait_step(job.step() + 50)
        return left_out(path)
    until(is_told, 30, "events that were left out")
    shown = job.run("timeline", "stop", "test")
    claim(shown.returncode == 0, str(shown))
    counts = left_out(path)
    claim(counts == sorted(counts) and counts[0] > 0 and
          f" {counts[-1]} found no room" in shown.stdout,
          f"{counts}: {shown.stdout}")
    job.finish()

with Job(["-n", "1", "--timeline", "/no/such/folder/t.json"],
         trainer("--steps", "1")) as job:
    job.finish(code=64)
    claim("/no/such/folder/t.json can't be written" in job.text(), job.text())
