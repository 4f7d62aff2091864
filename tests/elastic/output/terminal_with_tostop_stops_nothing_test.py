"""On a terminal that stops background processes that print (`stty tostop`), the
agent prints what workers say all the same; Ctrl-C ends the job once.

Covers: output.c"""
import os
import pty
import select
import shutil
import signal
import tempfile
import termios
import time

from house import PATIENCE, REGROUP, claim, fault_free, main, trainer

TRAIN = ("--steps", 60, "--step-ms", 2)


def run(folder, command, until_text, key=b""):
    """What is printed on a terminal of its own, and the exit code."""
    env = dict(os.environ, REGROUP_RUN_DIR=os.path.join(folder, "run"))
    pid, tty = pty.fork()
    if pid == 0:
        try:
            mode = termios.tcgetattr(0)
            mode[3] |= termios.TOSTOP
            termios.tcsetattr(0, termios.TCSANOW, mode)
            os.execve(REGROUP, [REGROUP, "run", "-n", "2", *command], env)
        finally:
            os._exit(99)
    text = b""
    end = time.monotonic() + 30 * PATIENCE
    while True:
        ready, _, _ = select.select([tty], [], [], max(0, end - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            break
        try:
            text += os.read(tty, 65536)
        except OSError:  # its end
            break
        if key and until_text in text:
            os.write(tty, key)
            key = b""
    os.close(tty)
    return text.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test():
    folder = tempfile.mkdtemp(prefix="rg-")
    try:
        text, code = run(folder, trainer(*TRAIN), b"")
        claim(code == 0, f"the job ended with {code}: {text}")
        claim(text.count(fault_free(*TRAIN)[1]) == 2,
              f"what the workers said is missing: {text}")
        text, code = run(folder, ["bash", "-c", "echo begins; sleep 100"],
                         b"begins", key=b"\x03")
        claim(code == 128 + signal.SIGINT, f"Ctrl-C ended with {code}: {text}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main(test)
