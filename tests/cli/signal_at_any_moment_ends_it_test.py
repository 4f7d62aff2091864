"""SIGINT while `regroup run` prepares, starts etcd, or starts its agent: it
ends at once with 130, and leaves nothing behind.

Covers: run_cmd.c end.c"""

import os
import signal
import time

from command import Claims, RunDir, processes_with, wait_for

MOMENTS_MS = [10, 20, 30, 45, 60, 75, 90, 110, 140, 200]

claims = Claims()
with RunDir() as d:
    for ms in MOMENTS_MS:
        job = d.start("run", "-n", "1", "--job", "J", "sleep", "60")
        time.sleep(ms / 1000)  # the moment is what is tried
        job.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, said = job.communicate(timeout=60)
        claims.hold(time.monotonic() - began < 10, f"its end after {ms} ms")
        # Before it has looked at its signals, the signal itself ends it.
        claims.hold(job.returncode in (130, -signal.SIGINT),
                    f"code {job.returncode} after {ms} ms: {said}")
        wait_for(lambda: not processes_with(d.path), "what it had started")
        left = [n for n in os.listdir(d.path) if n != ".lock" and
                not n.startswith(".story-")]
        claims.hold(left == [] or job.returncode == -signal.SIGINT,
                    f"{left} left after {ms} ms")
claims.end()
