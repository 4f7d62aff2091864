"""`regroup status --watch`: a block each time, or a line of JSON; on a
terminal it draws over the last one. It finds the agent that takes over from
one that was killed; ends with the job and with its code, or with 69 if the
agent vanishes.

Covers: follow.c status_cmd.c"""

import contextlib
import json
import os
import pty
import signal
import subprocess

from house import (REGROUP, UNTIL_FINISH, Job, claim, main, touch, trainer,
                   until, words_of)


def watch(job, *words, **more):
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.Popen([REGROUP, "status", "--watch", "--interval",
                             "100ms", *words], env=job.env,
                            stderr=subprocess.PIPE, text=True, **more)


def read_terminal(fd, enough=None):
    """To its end, or until it has shown something so many times."""
    text = b""
    with contextlib.suppress(OSError): # its other end is closed
        while enough is None or text.count(enough[0]) < enough[1]:
            text += os.read(fd, 4096)
    return text.decode()


def read_lines(stream, part, times):
    """Until so many lines had that in them."""
    lines = []
    while sum(part in line for line in lines) < times:
        lines.append(stream.readline())
        claim(lines[-1], f"it ended: {lines}")
    return "".join(lines)


def a_job_that_ends():
    with Job(["--min", "1", "--max", "2"],
             trainer(*UNTIL_FINISH, "--step-ms", "10")) as job:
        job.wait_step(5)
        mine, theirs = pty.openpty()
        drawn = watch(job, stdout=theirs)
        os.close(theirs)
        blocks, lines = watch(job), watch(job, "--json", "test")
        screen = read_terminal(mine, (b"\033[H\033[J", 3))
        begin = read_lines(blocks.stdout, "generation 1 running", 2)
        first = read_lines(lines.stdout, '"job"', 2)
        job.let_finish()
        screen += read_terminal(mine)
        job.finish()

        out = begin + blocks.stdout.read()
        claim(blocks.wait(20) == 0, blocks.stderr.read())
        claim(out.count("job test: generation 1 running") > 1, out)
        claim(out.endswith("job test has ended with code 0\n"), out)
        claim("\033" not in out, "it draws where there is no terminal")

        claim(drawn.wait(20) == 0, "the code on a terminal")
        parts = screen.split("\033[H\033[J")
        claim(len(parts) > 2 and parts[0] == "", f"{len(parts)} drawings")
        claim(all(p.startswith("job test: ") for p in parts[1:]), screen)

        out = first + lines.stdout.read()
        claim(lines.wait(20) == 0, lines.stderr.read())
        shown = [json.loads(line) for line in out.splitlines()]
        claim(len(shown) > 1, out)
        claim(all(s["job"] == "test" for s in shown), out)


def a_job_whose_agent_is_killed():
    with Job(["--min", "1", "--max", "2"],
             trainer(*UNTIL_FINISH, "--step-ms", "10")) as job:
        job.wait_step(5)
        lines = watch(job, "--json")
        before = json.loads(lines.stdout.readline())
        for pid in processes_of(job):
            if pid != job.process.pid:
                os.kill(pid, signal.SIGKILL)
        claim(any(max_step(json.loads(line)) > max_step(before) + 50
                  for line in lines.stdout), "it shows no later step")
        job.finish()
        _, said = lines.communicate(timeout=20)
        claim(lines.returncode == 0, said)


def max_step(status):
    return max(w["step"] or 0 for h in status["hosts"] for w in h["workers"])


def a_job_that_fails():
    with Job(["-n", "1"], ["sh", "-c", "while [ ! -e go ]; do sleep 0.05; "
                                       "done; exit 7"]) as job:
        until(lambda: job.run("status").returncode == 0, 20, "an agent")
        blocks = watch(job)
        blocks.stdout.readline()
        touch(os.path.join(job.folder, "go"))
        job.finish(7)
        out, said = blocks.communicate(timeout=20)
        claim(blocks.returncode == 7, f"{blocks.returncode} {said}")
        claim("has ended with code 7: vm" in out or
              "ended with code 7: " in out, out)


def a_job_whose_processes_are_killed():
    with Job(["-n", "1"], ["sleep", "1000"]) as job:
        status = until(job.status, 20, "an agent")
        claim(status["hosts"], str(status))
        blocks = watch(job)
        blocks.stdout.readline()
        for pid in processes_of(job):
            os.kill(pid, signal.SIGKILL)
        out, said = blocks.communicate(timeout=40)
        claim(blocks.returncode == 69, f"{blocks.returncode}: {out}")
        claim("has not said how the job ended" in said, said)


def processes_of(job):
    """The process of this job's `regroup run`."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        words = words_of(pid)
        if words[1:2] == ["run"] and job.history in words:
            found.append(pid)
    return sorted(found)


def test():
    a_job_that_ends()
    a_job_whose_agent_is_killed()
    a_job_that_fails()
    a_job_whose_processes_are_killed()


main(test)
