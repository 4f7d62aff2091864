"""Jobs whose agents are started on other hosts, by a program that takes the
place of ssh: it runs the command here, with as little as a login has (no
variable of the launcher's, another directory), and writes down how it was
called. A file down-HOST makes that host one that can't be reached, hang-HOST
one that gives no answer; with relay-HOST a process of its own passes on what is
said, and writes its number there: without it the connection is broken. What a
host says is held back while there is mute-HOST."""

import os
import shlex
import signal

from house import Job, until, words_of

RSH = """#!/bin/sh
host=$1; shift
echo "$host $*" >> {folder}/calls
if [ -e {folder}/down-$host ]; then
    printf 'ssh: connect to host %s port 22: No route to host\\r\\n' $host >&2
    exit 255
fi
[ -e {folder}/hang-$host ] && exec sleep 1000
if [ -e {folder}/mute-$host ]; then
    mkfifo {folder}/fifo-$$
    {{ while [ -e {folder}/mute-$host ]; do sleep 0.1; done
       exec cat; }} < {folder}/fifo-$$ &
    exec > {folder}/fifo-$$
fi
cd /
if [ -e {folder}/relay-$host ]; then
    echo $$ > {folder}/relay-$host
    mkfifo {folder}/fifo-$$
    exec 3<&0
    cat <&3 > {folder}/fifo-$$ &
    setsid env -i PATH="$PATH" REGROUP_RUN_DIR={folder}/run \\
        sh -c "$*" < {folder}/fifo-$$
    code=$?
    kill $!
    exit $code
fi
exec env -i PATH="$PATH" REGROUP_RUN_DIR={folder}/run sh -c "$*"
"""


class LaunchedJob(Job):
    def __init__(self, flags, command, **more):
        super().__init__([], command, **more)
        self.rsh = os.path.join(self.folder, "rsh")
        with open(self.rsh, "w", encoding="ascii") as script:
            script.write(RSH.format(folder=shlex.quote(self.folder)))
        os.chmod(self.rsh, 0o755)
        at = self.command.index("--")
        self.command[at:at] = ["--rsh", self.rsh, *flags]

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text=""):
        """Whole at once, as a script may read it at any moment."""
        with open(self.path(name + ".new"), "w", encoding="ascii") as file:
            file.write(text)
        os.rename(self.path(name + ".new"), self.path(name))

    def break_connection(self, host):
        """ssh is gone, and the agent of that host lives."""
        with open(self.path("relay-" + host), encoding="ascii") as file:
            os.killpg(int(file.read()), signal.SIGKILL)

    def calls(self, host=None):
        with open(self.path("calls"), encoding="ascii") as file:
            return [line for line in file.read().splitlines()
                    if host is None or line.split()[0] == host]

    def hosts(self):
        """{name: host} that status shows; the launcher is no such host."""
        return {host["id"]: host for host in (self.status() or
                                              {"hosts": []})["hosts"]
                if host["id"] != "launcher"}

    def supervisors(self):
        """Pids of `regroup remote` and of the agents that these started."""
        return [pid for pid in map(int, filter(str.isdigit,
                                               os.listdir("/proc")))
                if words_of(pid)[1:] == ["remote"] and self.is_ours(pid)]

    def await_none(self, seconds=20):
        until(lambda: not self.supervisors(), seconds, "all agents have ended")

    def signal(self, signum=signal.SIGTERM):
        self.process.send_signal(signum)
