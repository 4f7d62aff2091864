"""A worker with many open files, all of which lsof has visited, is killed: the
kernel takes long to reap it, and no turn of the agent's loop does.

Covers: reap.c"""
import os
import resource
import time

from house import UNTIL_FINISH, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def walk(pid):
    """As lsof does: the kernel remembers each entry until the process goes."""
    seen = 0
    for of in ("fd", "fdinfo", f"task/{pid}/fd", f"task/{pid}/fdinfo"):
        with os.scandir(f"/proc/{pid}/{of}") as entries:
            seen += sum(1 for _ in entries)
    return seen


def reaping_takes(files):
    """Milliseconds for a process like the worker, here and now."""
    ready, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        for _ in range(files):
            os.dup(0)
        os.write(say, b"x")
        while True:
            time.sleep(60)
    os.read(ready, 1)
    walk(pid)
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    began = time.monotonic()
    os.waitpid(pid, 0)
    return 1000 * (time.monotonic() - began)


def test():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files = min(hard - 500, 60000)
    print(f"a process with {files} files takes {reaping_takes(files):.0f} ms")
    with Job(["--min", "1", "--max", "2"],
             trainer(*TRAIN, "--files", files)) as job:
        job.wait_step(10)
        claim(walk(job.pid(1)) > 4 * files, "few files are open")
        job.kill(1)
        job.wait_world(2, above=1)
        job.finish()
        job.check(trained=TRAIN)  # a slow turn in its log fails it


main(test)
