"""A real sshd on each host of hosts.Hosts, with keys and settings of the test's
own, and jobs that the first host launches over ssh."""

import os
import shutil
import signal
import socket
import subprocess

from hosts import NETNS, inside
from house import claim, free_port, skip, until, words_of
from launching import LaunchedJob

SERVER = """
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
SetEnv REGROUP_RUN_DIR={folder}/{host}.r
"""


def need_sshd():
    sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
    if sshd is None or shutil.which("ssh") is None:
        skip("sshd or ssh is not installed (openssh-server, openssh-client)")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)  # where it gives up its rights
    return sshd


class Sshds:
    """One for each host; targets: what -H calls them."""

    def __init__(self, hosts):
        self.program, self.hosts, self.processes = need_sshd(), hosts, {}
        self.targets = {name: hosts.address(name) if hosts.has_nets else name
                        for name in hosts.names}
        self.ports = {name: 2222 if hosts.has_nets else free_port()
                      for name in hosts.names}
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "",
                            "-f", f"{hosts.folder}/{key}"], check=True)
        self.write_client()

    def write_client(self):
        folder = self.hosts.folder
        with open(f"{folder}/host_key.pub", encoding="ascii") as file:
            key = " ".join(file.read().split()[:2])
        with open(f"{folder}/known", "w", encoding="ascii") as known, \
                open(f"{folder}/ssh_config", "w", encoding="ascii") as config:
            for name, target in self.targets.items():
                known.write(f"{name} {key}\n")
                config.write(f"Host {target}\n"
                             f"  HostName {self.hosts.address(name)}\n"
                             f"  HostKeyAlias {name}\n"
                             f"  Port {self.ports[name]}\n")
            config.write(f"Host *\n  IdentityFile {folder}/user_key\n"
                         f"  IdentitiesOnly yes\n"
                         f"  UserKnownHostsFile {folder}/known\n"
                         f"  GlobalKnownHostsFile none\n  BatchMode yes\n")

    @property
    def rsh(self):
        return f"ssh -F {self.hosts.folder}/ssh_config"

    def start(self, name):
        folder = self.hosts.folder
        config = f"{folder}/sshd_{name}"
        with open(config, "w", encoding="ascii") as file:
            file.write(SERVER.format(folder=folder, host=name,
                                     port=self.ports[name]))
        with open(config + ".log", "ab") as log:
            self.processes[name] = self.hosts.popen(
                name, [self.program, "-D", "-e", "-f", config], stdout=log,
                stderr=log)
        until(lambda: self.answers(name), 20, f"sshd answers on {name}")

    def answers(self, name):
        claim(self.processes[name].poll() is None, f"sshd of {name} has ended")
        with inside(self.hosts.net(name)), socket.socket() as sock:
            return sock.connect_ex((self.hosts.address(name),
                                    self.ports[name])) == 0

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


class SshJob(LaunchedJob):
    """Launched on the first host, on those that are named, with their slots:
    [("h1", 1), ("h2", 2)]."""

    def __init__(self, sshds, listed, flags, command, **more):
        super().__init__([], command, **more)
        self.hosts_, self.sshds = sshds.hosts, sshds
        self.lines = ",".join(f"{sshds.targets[name]}:{slots}"
                              for name, slots in listed)
        at = self.command.index("--rsh")
        self.command[at:at + 2] = ["--rsh", sshds.rsh, "-H", self.lines,
                                   *flags]
        if sshds.hosts.has_nets:
            net = f"--net={NETNS}/{sshds.hosts.net('h1')}"
            self.command[:0] = ["nsenter", net, "--"]

    def supervisors_on(self, name):
        """`regroup remote` and its agent there."""
        mark = os.path.join(self.hosts_.folder, name + ".r")
        return [pid for pid in self.supervisors() if mark in environment(pid)]

    def supervisors(self):
        return [pid for pid in map(int, filter(str.isdigit,
                                               os.listdir("/proc")))
                if words_of(pid)[1:] == ["remote"] and
                self.hosts_.folder in environment(pid)]

    def kill_agents(self, name):
        for pid in self.supervisors_on(name):
            os.kill(pid, signal.SIGKILL)


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return os.fsdecode(file.read())
    except OSError:
        return ""
