"""The Python stacks of this process for `regroup dump`.

A signal makes faulthandler write the stacks of all threads into a memfd whose
name says which signal it is; the agent's helper finds that file in /proc. So
nothing runs here until a person asks, and a thread that holds the interpreter
in C for hours is shown as well.
"""

import faulthandler
import os
import signal

NAME = "regroup-python-stacks"
_file = None


def offer() -> None:
    """Once in a process; a signal that the program handles is left alone."""
    global _file
    if _file is not None or "REGROUP_SOCKET" not in os.environ:
        return
    for number in range(signal.SIGRTMAX - 2, signal.SIGRTMIN, -1):
        if signal.getsignal(number) is not signal.SIG_DFL:
            continue
        _file = os.memfd_create(f"{NAME}-{int(number)}", os.MFD_CLOEXEC)
        faulthandler.register(number, _file, all_threads=True, chain=False)
        return
