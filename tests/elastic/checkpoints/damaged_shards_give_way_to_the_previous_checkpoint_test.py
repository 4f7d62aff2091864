"""A shard is damaged in the newest checkpoint. The rank that reads it names
it; all ranks then begin with the complete checkpoint before, and the job ends
with the state of the fault-free run. If there is none before, or the damaged
file was named itself, the job ends with one sentence.

Covers: state/load.c checkpoint_data.c"""

import os
import struct

from checkpoints import directory, names, steps
from house import Job, claim, fault_free, main, trainer

FLAGS = ("--bytes", 3000, "--shard-bytes", 1000003)
SHARDED = 1
BUFFERS, ROW, PIECE = 256, 80, 40  # where the tables begin, and their rows


def job_of(size, path, steps_, *more):
    return Job(["-n", str(size), "--max-restarts", "0", "--checkpoint-dir",
                path, "--checkpoint-every", "20", "--checkpoint-keep", "9"],
               trainer("--steps", steps_, *FLAGS, "--step-ms", 10, *more))


def shards_in(file):
    """(offset, bytes) of the pieces of sharded buffers."""
    file.seek(64)
    _, buffers, pieces = struct.unpack("=III", file.read(12))
    file.seek(BUFFERS)
    kinds = [struct.unpack("=64sQII", file.read(ROW))[2] for _ in range(buffers)]
    rows = [struct.unpack("=IIQQQQ", file.read(PIECE)) for _ in range(pieces)]
    return [(row[4], row[3]) for row in rows if kinds[row[0]] == SHARDED]


def damage(path):
    with open(path, "r+b") as file:
        found = shards_in(file)
        claim(len(found) == 3, f"{len(found)} shards of 3 workers are there")
        offset, n = found[1]
        file.seek(offset + n // 2)
        byte = file.read(1)
        file.seek(offset + n // 2)
        file.write(bytes([byte[0] ^ 1]))


def refuses(path, why):
    with job_of(2, path, 200, "--load") as job:
        code = job.process.wait(timeout=60)
        claim(code != 0, "a job goes on from damaged shards")
        claim("do not have their hash" in job.text(), job.text())
        claim(why in job.text(), job.text())


def test():
    with directory() as path:
        with job_of(3, path, 100) as job:
            job.finish()
        before, newest = steps(path)[-2:]
        damaged = names(path, ".rgck")[-1]
        damage(os.path.join(path, damaged))
        with job_of(2, path, 200, "--load") as job:
            job.finish()
            text = job.text()
            claim(f"loaded step {newest}\n" in text, text)
            claim("do not have their hash" in text, text)
            verified = job.run("checkpoint", "verify", path)
            claim(verified.returncode == 1, "verify finds no damage")
            job.check(state=fault_free("--steps", 200, *FLAGS))
            first = min(event["step"] for event in job.events("step"))
            claim(first == before + 1, f"step {first} came first, "
                  f"not that behind {before}")
        for name in names(path, ".rgck"):
            if name != damaged:
                os.unlink(os.path.join(path, name))
        refuses(path, "no checkpoint before")


main(test)
