"""Lines that workers print while no agent lives, and lines of which a killed
agent had read a part, are printed by the next one: each once and in order, on
the terminal as in files. Only the line after which an agent was killed may
come again: it had no time to note that it was written.

Covers: spool.c takeover.c"""
import glob
import os
import re
import signal
import sys

from house import Job, claim, main, until

PRINTER = ["bash", "-c", """
for i in $(seq 600); do
    printf 'line '; printf '%s' $i; echo ' end'
    if [ $((i % 20)) = 0 ]; then sleep 0.02; fi
done
""", ]


def kill_agent(job):
    """The supervisor is stopped for a while: lines come without an agent."""
    agent = job.agent()
    job.process.send_signal(signal.SIGSTOP)
    os.kill(agent, signal.SIGKILL)
    until(lambda: os.path.exists(f"/proc/{agent}") and
          open(f"/proc/{agent}/stat").read().split()[2] == "Z", 20, "its death")
    return agent


def lines_of(text):
    return [int(n) for n in re.findall(r"line (\d+) end", text)]


def without_repeats(lines):
    return [n for before, n in zip([0, *lines], lines) if n != before]


def test(in_files=False):
    flags = ("--output", "out") if in_files else ()
    with Job(["-n", "2", *flags], PRINTER) as job:
        def printed():
            return max(lines_of(everything(job)), default=0)
        moments = (60, 200, 400)
        for at in moments:
            until(lambda at=at: printed() >= at, 20, f"line {at}")
            kill_agent(job)
            job.process.send_signal(signal.SIGCONT)
        job.finish()
        for text in texts(job):
            lines = lines_of(text)
            repeats = 0 if in_files else len(moments)
            claim(without_repeats(lines) == list(range(1, 601)) and
                  len(lines) <= 600 + repeats,
                  f"lines are missing, double or in disorder: {lines}")


def everything(job):
    return "".join(texts(job))


def texts(job):
    """What each of the two has printed."""
    files = sorted(glob.glob(os.path.join(job.folder, "out", "*.out")))
    if files:
        found = []
        for path in files:
            with open(path, encoding="utf-8") as file:
                found.append(file.read())
        return found
    return ["\n".join(re.findall(rf"^\S+\.{i} r\S+ \| (.*)$", job.text(), re.M))
            for i in range(2)]


if len(sys.argv) > 1:
    main(lambda: test(in_files=True))
else:
    main(test)
