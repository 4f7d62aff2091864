"""Nobody reads `regroup run`'s output: training goes on, a signal ends the job,
and with a reader no line is lost."""
import os
import signal
import subprocess
import tempfile

from house import REGROUP, UNTIL_FINISH, Job, claim, main, trainer, until


def test_training_goes_on():
    script = "seq 1 40000 & exec " + " ".join(trainer("--steps", 100000))
    with Job(["-n", "2"], ["sh", "-c", script],
             stdout=subprocess.PIPE) as job:
        job.wait_step(50)
        job.process.terminate()
        job.finish(128 + 15, seconds=30)


def test_no_line_is_lost():
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, REGROUP_RUN_DIR=os.path.join(folder, "run"))
        done = subprocess.run([REGROUP, "run", "-n", "2", "--", "seq", "1",
                               "20000"], env=env, capture_output=True,
                              text=True, timeout=60, check=True)
        lines = done.stdout.splitlines()
        for slot in (0, 1):
            mine = [line.split("| ")[1] for line in lines
                    if f".{slot} r-" in line]
            claim(mine == [str(n) for n in range(1, 20001)],
                  f"slot {slot}: {len(mine)} lines came through")


def test_nohup_is_respected():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Job(["-n", "1"], trainer(*UNTIL_FINISH, "--step-ms", 5)) as job:
        job.wait_step(10)
        job.process.send_signal(signal.SIGHUP)
        step = job.step()
        until(lambda: job.step() > step + 20, 20, "steps after SIGHUP")
        job.finish()


def test():
    for name, function in sorted(globals().items()):
        if name.startswith("test_"):
            print(name, flush=True)
            function()


main(test)
