"""Long lines of many workers, before a reader that is slower than they are: no
line has another one inside it, not even the agent's own, also when the agent
is killed while a line is on its way; a line of more than 8 KiB comes as
several, none of them empty.

Covers: output.c stdout_lines.c"""
import os
import re
import signal
import time

from house import Job, claim, main_all

LINES = 40
PRINTER = f"""
import os
c = "abcdefgh"[os.getpid() % 8]
for i in range({LINES}):
    os.write(1 + i % 2, (f"<{{i:03}}" + c * 7000 + ">\\n").encode())
"""
WHOLE = re.compile(rb"\S+\.\d r\S+ \| <\d{3}([a-h])\1{6999}>")


def read_slowly(read, job, at_half):
    """All that comes to the end, in pieces that no line begins with."""
    text = b""
    while True:
        piece = os.read(read, 3000)
        if not piece:
            return text
        if at_half is not None and len(text) > 300000:
            at_half(job)
            at_half = None
        text += piece
        time.sleep(0.001)


def lines_of(script, workers, at_half=None):
    read, write = os.pipe()
    with Job(["-n", str(workers)], ["python3", "-c", script], stdout=write,
             stderr=write, env={"REGROUP_LOG": "error"}) as job:
        os.close(write)
        text = read_slowly(read, job, at_half)
        job.finish()
    os.close(read)
    return [line for line in text.splitlines()
            if not line.startswith((b"regroup: ", b"[regroup "))]


def check_whole(lines):
    for line in lines:
        short = re.sub(rb"([a-h])\1{20,}", rb"\1..\1", line)
        claim(WHOLE.fullmatch(line),
              f"a line of {len(line)} bytes is not whole: {short[:500]}")
    return lines


def test_slow_reader():
    lines = check_whole(lines_of(PRINTER, 4))
    claim(len(lines) == 4 * LINES, f"{len(lines)} lines came")


def kill_agent(job):
    os.kill(job.agent(), signal.SIGKILL)


def test_agent_killed():
    """What it was writing may come twice; it is whole all the same."""
    lines = check_whole(lines_of(PRINTER, 4, kill_agent))
    claim(len(set(lines)) == 4 * LINES, f"{len(set(lines))} lines came")


def test_longest():
    for n in (8190, 8191, 8192, 8193, 16382, 16383, 16384, 20000):
        lines = lines_of(f"print('x' * {n})", 1)
        parts = [line.split(b" | ")[1] for line in lines]
        claim(sum(map(len, parts)) == n and all(parts),
              f"{n} bytes came as {[len(part) for part in parts]}")


main_all(globals())
