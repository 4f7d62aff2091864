"""Lines of programs that never flush arrive as they are printed: in C with
the library, in Python, and of any program if the launcher has a terminal. So
all that a killed worker has printed is there.

Covers: stdout_lines.c"""
import contextlib
import os
import pty
import signal
import sys
import threading

from house import BUILD, UNTIL_FINISH, Job, claim, main_all, until

GROWS = UNTIL_FINISH[1]  # a file in the job's folder, a line for each byte
LINKED = [os.path.join(BUILD, "tests", "printer"), GROWS]
ALONE = [os.path.join(BUILD, "tests", "printer_alone"), GROWS]
PYTHON = [sys.executable, "-c", """
import os, sys, time
print("begins", repr(os.environ["PYTHONUNBUFFERED"]), flush=True)
seen = 0
while True:
    while os.path.exists(sys.argv[1]) and seen < os.path.getsize(sys.argv[1]):
        print(f"line {seen} of {os.getpid()}")
        seen += 1
    time.sleep(0.005)
""", GROWS]


def grow(job):
    with open(os.path.join(job.folder, "until"), "ab") as file:
        file.write(b"x")


def lines_with(words, text):
    return [line for line in text.splitlines() if words in line]


def kill_after_three_lines(job, begins, text=None):
    text = text or job.text
    for i in range(3):
        grow(job)
        until(lambda i=i: lines_with(f"line {i} of ", text()), 10,
              f"line {i} of a worker that runs")
    pid = int(lines_with("line 0 of ", text())[0].split()[-1])
    os.kill(pid, signal.SIGKILL)
    job.finish(code=128 + signal.SIGKILL)
    claim(begins in text(), f"a worker does not say that it {begins}")


def text_of(folder):
    text = ""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="ascii") as file:
                text += file.read()
    return text


def test_c():
    with Job(["-n", "1"], LINKED) as job:
        kill_after_three_lines(job, "begins, piped")


def test_c_into_files():
    with Job(["-n", "1", "--output", "out"], LINKED) as job:
        kill_after_three_lines(job, "begins, piped", lambda: text_of(
            os.path.join(job.folder, "out")))


def test_c_with_a_block_of_its_own():
    with Job(["-n", "1"], [*LINKED, "--full"]) as job:
        for _ in range(3):
            grow(job)
        until(lambda: lines_with("counted 3", job.text()), 10, "3 are counted")
        claim(not lines_with("line 0 of ", job.text()),
              "a program's own setvbuf is overruled")


def test_python():
    with Job(["-n", "1"], PYTHON) as job:
        kill_after_three_lines(job, "begins '1'")
    with Job(["-n", "1"], PYTHON, env={"PYTHONUNBUFFERED": ""}) as job:
        until(lambda: lines_with("begins ''", job.text()), 10,
              "what the user has set reaches the worker")


def test_at_a_terminal():
    """A program that has nothing of Regroup; one long block comes whole."""
    ours, terminal = pty.openpty()
    shown = []

    def read():
        with contextlib.suppress(OSError):
            while True:
                shown.append(os.read(ours, 65536).decode())
    reader = threading.Thread(target=read)
    with Job(["-n", "1"], ALONE, stdout=terminal) as job:
        os.close(terminal)
        reader.start()
        kill_after_three_lines(job, "begins, at a terminal",
                               lambda: "".join(shown))
    reader.join(20)
    os.close(ours)
    claim("| line 2 of" in "".join(shown), "lines have no name before them")


main_all(globals())
