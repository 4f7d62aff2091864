"""A disk that is full, read-only or gone: there is one warning, which status
shows too, the previous checkpoint stays, nothing half-written is left,
training goes on, and so do checkpoints once the disk has room again.

Covers: writer.c checkpoint_dir.c"""

import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile

from checkpoints import names, shown
from house import UNTIL_FINISH, Job, claim, main, skip, trainer, until

CLONE_NEWNS = 0x20000
FLAGS = ("--bytes", "3000000", "--commit-every", "5")


def mount(*words):
    return subprocess.run(["mount", "-t", "tmpfs", *words],
                          capture_output=True, check=False).returncode == 0


def own_mounts():
    """Mounts from now on are this process's alone, and go with it."""
    return ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0 and subprocess.run(
        ["mount", "--make-rprivate", "/"], capture_output=True,
        check=False).returncode == 0


def until_later(job, seconds=30):
    """A checkpoint later than the one that status shows now."""
    before = shown(job, "step") or 0
    return until(lambda: (shown(job, "step") or 0) > before and
                 shown(job, "step"), seconds, "a later checkpoint")


def fails(job, directory, why):
    """Now it can't be written: that is said once, and steps go on."""
    until(lambda: shown(job, "error"), 30, f"status shows {why}")
    claim(why in shown(job, "error"), shown(job, "error"))
    job.wait_step(job.step() + 20)
    claim(not names(directory, ".part"),
          f"{names(directory, '.part')} is left")
    said = [line.split("] ", 1)[1] for line in job.text().splitlines()
            if line.endswith("; training goes on")]
    # what was on its way when the disk failed has a sentence of its own
    claim(said and len(said) == len(set(said)),
          f"{why} was said {len(said)} times:\n{job.text()}")


def job_in(directory):
    return Job(["-n", "2", "--checkpoint-dir", directory,
                "--checkpoint-every", "10"],
               trainer(*UNTIL_FINISH, *FLAGS, "--step-ms", "20"))


def fill(path):
    with contextlib.suppress(OSError), open(path, "ab") as file:
        while file.write(b"x" * 65536):
            file.flush()


def full(directory):
    with job_in(directory) as job:
        first = until_later(job)
        filler = os.path.join(directory, "filler")
        # again and again, as old checkpoints that go leave room for new ones
        until(lambda: fill(filler) or shown(job, "error"), 30,
              "a checkpoint finds no room")
        fails(job, directory, "No space left")
        claim(shown(job, "step") >= first, "the checkpoint before is shown")
        claim(names(directory, ".rgck"), "the checkpoint before is gone")
        os.unlink(filler)
        until_later(job)
        until(lambda: shown(job, "error") is None, 10, "the error is over")
        job.finish()
        job.check(trained=FLAGS)


def read_only(directory):
    with job_in(directory) as job:
        until_later(job)
        until(lambda: mount("-o", "remount,ro", "none", directory), 10,
              "it is remounted: not while a file is written")
        fails(job, directory, "Read-only")
        claim(mount("-o", "remount,rw", "none", directory), "can't remount")
        until_later(job)
        job.finish()
        job.check(trained=FLAGS)


def gone(directory):
    with job_in(directory) as job:
        until_later(job)
        os.rename(directory, directory + ".away")
        fails(job, directory, "No such file")
        os.mkdir(directory)
        until_later(job)
        job.finish()
        job.check(trained=FLAGS)


def test():
    base = tempfile.mkdtemp(prefix="rg-ckpt-")
    disk = os.path.join(base, "disk")
    os.mkdir(disk)
    is_mounted = own_mounts() and mount("-o", "size=16m", "none", disk)
    try:
        gone(os.path.join(base, "dir"))
        if not is_mounted:
            skip("only a directory that goes was tried: a small disk needs "
                 "the right to mount one")
        full(os.path.join(disk, "full"))
        read_only(disk)
    finally:
        if is_mounted:
            subprocess.run(["umount", disk], check=True)
        shutil.rmtree(base)


main(test)
