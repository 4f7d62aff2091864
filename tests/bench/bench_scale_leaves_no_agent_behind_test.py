"""A benchmark of many agents that is ended or killed takes along its agents,
their supervisors and workers, and etcd.

Covers: bench_scale.py"""

import os
import signal
import subprocess
import sys
import tempfile

from house import BUILD, claim, main, skip, until, words_of


def processes_of(folder):
    """Those whose command line leads there."""
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit()
            and any(folder in word for word in words_of(pid))]


def end_with(number, code):
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, TMPDIR=folder)
        with subprocess.Popen(
                [os.path.join(BUILD, "bin", "bench_scale"), "--agents", "3",
                 "--times", "1000"], env=env, stdout=sys.stderr) as bench:
            until(lambda: bench.poll() is not None or
                  len(processes_of(folder)) >= 10, 60, "no agents came")
            if bench.returncode == 77:
                skip("processes can't be given a namespace here")
            bench.send_signal(number)
            claim(bench.wait() == code,
                  f"it ended with {bench.returncode}, not {code}")
        until(lambda: not processes_of(folder), 3, "processes stayed")
        claim(number == signal.SIGKILL or not os.listdir(folder),
              f"it left {os.listdir(folder)}")


def test():
    end_with(signal.SIGKILL, -signal.SIGKILL)
    end_with(signal.SIGTERM, 143)


main(test)
