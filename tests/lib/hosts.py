"""Several hosts on one machine: network namespaces on a bridge, etcd in
namespaces of its own, and jobs with an agent per host.

    with Hosts(4) as hosts:                    # h1 to h4, etcd of one member
        with HostsJob(hosts, ["--min", "2", "--max", "8"], ["--slots", "2"],
                      trainer("--steps", "200")) as job:
            job.wait_step(20)
            hosts.cut("h3")                    # silent, both ways
            job.wait_world(6)
            hosts.heal("h3")
            job.finish()
            job.check(state=fault_free(...))

A namespace is named rg<pid>x<start>-<host> after the process that made it. It
goes with that process, also after a SIGKILL: a guardian process sweeps then,
and each Hosts() sweeps what dead makers have left.

Without the right to make namespaces (hosts.has_nets is false) the hosts are
names on this machine, each with a run directory of its own; whatever needs a
cut skips the test with that reason.
"""

import array
import base64
import contextlib
import ctypes
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

from certificates import Authority, need_openssl
from house import (BUILD, DETECT, PATIENCE, REGROUP, Failed, Job, Process,
                   Tails, claim, free_port, need_etcd, skip, until)

os.environ["PATH"] += ":/usr/sbin:/sbin"
NETNS = "/run/netns"
SUBNET = "10.77.0"
FIRST_ETCD = 101  # 10.77.0.101 and on
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17
NOWHERE = "02:de:ad:00:00:00"  # no interface has it
RENAME = "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"'
NAME = re.compile(r"(rg(\d+)x(\d+))-(\w+)$")
libc = ctypes.CDLL(None, use_errno=True)


# ------------------------------------------------------------------ namespaces

def start_of(pid):
    """When a process started, in ticks since boot; None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in b"ZX" else int(fields[19])


def parent_of(pid):
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[1])


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True,
                          check=False)
    claim(done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}")


def ip_all(namespace, lines):
    done = subprocess.run(["ip", "-n", namespace, "-batch", "-"],
                          input="\n".join(lines) + "\n", text=True,
                          capture_output=True, check=False)
    claim(done.returncode == 0, f"ip in {namespace}: {done.stderr.strip()}")


@contextlib.contextmanager
def inside(namespace):
    """This thread's new sockets belong to the namespace; None: to this one."""
    if namespace is None:
        yield
        return
    with open("/proc/thread-self/ns/net", "rb") as mine, \
            open(f"{NETNS}/{namespace}", "rb") as other:
        claim(libc.setns(other.fileno(), 0) == 0, f"can't enter {namespace}")
        try:
            yield
        finally:
            libc.setns(mine.fileno(), 0)


def pids_inside(namespaces, among=None):
    """Processes whose network is one of these namespaces; of `among`, or of
    all."""
    inodes, found = set(), []
    for name in namespaces:
        with contextlib.suppress(OSError):
            inodes.add(os.stat(f"{NETNS}/{name}").st_ino)
    if among is None:
        among = filter(str.isdigit, os.listdir("/proc"))
    for pid in among:
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}/ns/net").st_ino in inodes:
                found.append(int(pid))
    return found


def kill_inside(namespaces, seconds=20):
    """End every process there. False: some did not end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pids = [p for p in pids_inside(namespaces) if start_of(p) is not None]
        if not pids:
            return True
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    return False


def can_make_namespaces():
    if os.geteuid() != 0 or shutil.which("ip") is None or \
            shutil.which("nsenter") is None:
        return False
    probe = f"rg{os.getpid()}x{start_of(os.getpid())}-probe"

    def does(*words):
        return subprocess.run(["ip", *words], capture_output=True,
                              check=False).returncode == 0

    if not does("netns", "add", probe):
        return False
    is_entered = does("-n", probe, "link")  # not where / is no mount point
    ip("netns", "del", probe)
    return is_entered


def makers():
    """{prefix of a maker: its namespaces} on this machine."""
    found = {}
    for name in os.listdir(NETNS) if os.path.isdir(NETNS) else []:
        match = NAME.match(name)
        if match:
            found.setdefault(match.group(1), []).append(name)
    for path in glob.glob(os.path.join(tempfile.gettempdir(), "rg*x*-d")):
        match = NAME.match(os.path.basename(path))
        if match:
            found.setdefault(match.group(1), [])
    return found


def remove(prefix, namespaces):
    """Everything that carries a maker's prefix."""
    kill_inside(namespaces)
    for name in namespaces:
        subprocess.run(["ip", "netns", "del", name], capture_output=True,
                       check=False)
    shutil.rmtree(os.path.join(tempfile.gettempdir(), prefix + "-d"),
                  ignore_errors=True)


def sweep():
    """Remove what makers left that live no more."""
    for prefix, namespaces in makers().items():
        match = NAME.match(prefix + "-d")
        if start_of(int(match.group(2))) != int(match.group(3)):
            remove(prefix, namespaces)


class Guardian:
    """A process that sweeps when this one ends without saying goodbye."""

    def __init__(self):
        maker = os.getpid()
        theirs, self.pipe = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid > 0:
            os.close(theirs)
            return
        os.close(self.pipe)
        os.setsid()
        with contextlib.suppress(BaseException):
            if os.read(theirs, 1) == b"":
                while os.getppid() == maker:
                    time.sleep(0.01)
                sweep()
        os._exit(0)

    def dismiss(self):
        os.write(self.pipe, b".")
        os.close(self.pipe)
        os.waitpid(self.pid, 0)


# ------------------------------------------------------------------------ wire

class Wire:
    """The switch between hosts as a process, which does to frames what it is
    told; see wire.c."""

    def __init__(self, namespace, names):
        program = os.path.join(BUILD, "tests", "wire")
        self.process = subprocess.Popen(
            ["nsenter", f"--net={NETNS}/{namespace}", "--", program, *names],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True)
        self.hear("wire")

    def hear(self, command):
        answer = self.process.stdout.readline().strip()
        claim(answer == "ok", f"wire says {answer!r} to {command!r}")

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        self.hear(command)

    # pylint: disable=too-many-arguments
    def rule(self, sender, receiver, what="all", loss=0, delay=0, jitter=0,
             repeat=0, damage=0, most=0):
        """For frames that no earlier rule is for; * stands for any name."""
        self.tell(f"rule {sender} {receiver} {what} {loss} {delay} {jitter} "
                  f"{repeat} {damage} {most}")

    def clear(self):
        self.tell("clear")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def send_whole_frames(interface):
    """This namespace's interface leaves neither checksums nor the cutting of
    segments to the other end, which is a program."""
    value = array.array("I", [ETHTOOL_STXCSUM, 0])
    request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, request)


# ------------------------------------------------------------------------ etcd

class Member:
    """One member of the hosts' etcd."""

    def __init__(self, hosts, name, address):
        self.hosts, self.name, self.address = hosts, name, address
        self.port, self.peer_port = 2379, 2380
        if not hosts.has_nets:
            self.port, self.peer_port = free_port(), free_port()
        self.url = f"http{'s' if hosts.tls else ''}://{address}:{self.port}"
        self.peer = f"http://{address}:{self.peer_port}"
        self.data = os.path.join(hosts.folder, name)
        self.process = None

    def start(self):
        cluster = ",".join(f"{m.name}={m.peer}" for m in self.hosts.etcd)
        pace = (10, 100) if len(self.hosts.etcd) == 1 else (30, 300)
        with open(os.path.join(self.hosts.folder, self.name + ".log"),
                  "ab") as log:
            self.process = self.hosts.popen(
                self.name, ["etcd", f"--name={self.name}",
                            f"--data-dir={self.data}",
                            f"--listen-client-urls={self.url}",
                            f"--advertise-client-urls={self.url}",
                            f"--listen-peer-urls={self.peer}",
                            f"--initial-advertise-peer-urls={self.peer}",
                            f"--initial-cluster={cluster}",
                            f"--heartbeat-interval={pace[0]}",
                            f"--election-timeout={pace[1]}", "--pre-vote=true",
                            "--logger=zap", "--log-level=error",
                            *self.hosts.server_flags()],
                stdout=log, stderr=log)

    def stop(self):
        """SIGSTOP; returns when it stands: until then its threads answer."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def wipe(self):
        shutil.rmtree(self.data, ignore_errors=True)

    def post(self, call, timeout=2, **fields):
        request = urllib.request.Request(f"{self.url}/v3/{call}",
                                         json.dumps(fields).encode(),
                                         method="POST")
        with inside(self.hosts.net(self.name)), \
                urllib.request.urlopen(request, timeout=timeout,
                                       context=self.hosts.context) as answer:
            return json.load(answer)

    def is_leader(self):
        if self.process is None:
            return False
        try:
            status = self.post("maintenance/status", timeout=1)
        except OSError:
            return False
        return status.get("leader", "0") == status["header"]["member_id"]


def text64(text):
    return base64.b64encode(text.encode()).decode()


# ----------------------------------------------------------------------- hosts

class Hosts:
    """n hosts h1 .. hn and an etcd of `members` members e1 .. on a switch; one
    such thing at a time in a process."""

    # pylint: disable=too-many-arguments
    def __init__(self, n, members=1, nets=None, tls=False, wire=False,
                 renames=False):
        """tls: etcd wants certificates, and agents have one. wire: frames go
        through a program that can lose, delay and damage them. renames:
        processes on hN have hN for the machine's name."""
        need_etcd()
        if tls:
            need_openssl()
        self.tls, self.context = tls, None
        sweep()
        self.has_nets = can_make_namespaces() if nets is None else nets
        self.wants_wire, self.wire = wire, None
        self.renames = renames
        self.names = [f"h{i + 1}" for i in range(n)]
        self.prefix = f"rg{os.getpid()}x{start_of(os.getpid())}"
        self.folder = os.path.join(tempfile.gettempdir(), self.prefix + "-d")
        self.etcd = []
        self.members = members
        self.dead_ways = set()  # (from, to) without a way
        self.blocked = set()  # hosts that some TCP does not come to
        self.guardian = None

    def __enter__(self):
        self.guardian = Guardian()
        os.mkdir(self.folder, 0o700)
        try:
            self.set_up()
        except BaseException:
            self.tear_down()
            raise
        return self

    def __exit__(self, kind, *_):
        left = self.tear_down()
        if kind is None:
            claim(not left, f"hosts left something behind: {left}")

    def set_up(self):
        etcds = [f"e{i + 1}" for i in range(self.members)]
        if self.has_nets:
            self.make_switch([*self.names, *etcds])
        if self.tls:
            self.make_certificates(etcds)
        self.etcd = [Member(self, name, self.address(name)) for name in etcds]
        for member in self.etcd:
            member.start()
        self.wait_etcd()

    def make_certificates(self, etcds):
        self.ca = Authority(self.folder)
        self.server = self.ca.sign("server", names=sorted(
            {f"IP:{self.address(name)}" for name in etcds}))
        self.client = self.ca.sign("client")
        self.context = ssl.create_default_context(cafile=self.ca.cert)
        # Python 3.13 asks for more than etcd does.
        self.context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self.context.load_cert_chain(self.client.cert, self.client.key)

    def server_flags(self):
        return [f"--cert-file={self.server.cert}",
                f"--key-file={self.server.key}", "--client-cert-auth",
                f"--trusted-ca-file={self.ca.cert}"] if self.tls else []

    def client_flags(self):
        return ["--etcd-cacert", self.ca.cert, "--etcd-cert", self.client.cert,
                "--etcd-key", self.client.key] if self.tls else []

    def tear_down(self):
        """What could not be removed."""
        for member in self.etcd:
            member.kill()
        if self.wire is not None:
            self.wire.end()
        mine = makers().get(self.prefix, [])
        remove(self.prefix, mine)
        self.guardian.dismiss()
        return [*makers().get(self.prefix, []), *pids_inside(mine)]

    # ------------------------------------------------------------- networks

    def net(self, name):
        """The namespace of a host or member; None without namespaces."""
        return f"{self.prefix}-{name}" if self.has_nets else None

    def address(self, name):
        if not self.has_nets:
            return "127.0.0.1"
        number = int(name[1:])
        return f"{SUBNET}.{number if name[0] == 'h' else FIRST_ETCD - 1 + number}"

    @staticmethod
    def mac(name):
        return f"02:00:00:00:{'01' if name[0] == 'h' else '02'}:" \
               f"{int(name[1:]):02x}"

    def make_switch(self, names):
        switch = self.net("sw")
        ip("netns", "add", switch)
        ip_all(switch, ["link set lo up", "link add br0 type bridge",
                        "link set br0 up"])
        for name in names:
            ip("netns", "add", self.net(name))
            ip_all(switch, [
                f"link add {name} type veth peer name eth0 address "
                f"{self.mac(name)} netns {self.net(name)}",
                self.plug(name)])
            ip_all(self.net(name), [
                "link set lo up", "link set eth0 up",
                f"addr add {self.address(name)}/24 dev eth0"])
        if self.wants_wire:
            for name in names:
                with inside(self.net(name)):
                    send_whole_frames("eth0")
            self.wire = Wire(switch, names)

    def plug(self, name):
        return f"link set {name} up" if self.wants_wire else \
            f"link set {name} master br0 up"

    def need_nets(self):
        if not self.has_nets:
            skip("cuts need network namespaces, which need root and iproute2")

    def cut(self, name):
        """The switch drops every frame from and to it, and says nothing."""
        self.need_nets()
        if self.wire is not None:
            self.wire.rule(name, "*", loss=100)
            self.wire.rule("*", name, loss=100)
        else:
            ip("-n", self.net("sw"), "link", "set", name, "nomaster")
        self.dead_ways |= {(name, name)}

    def unplug(self, name):
        """As cut(), and the host's interface sees that the link is down."""
        self.need_nets()
        ip("-n", self.net("sw"), "link", "set", name, "down")
        self.dead_ways |= {(name, name)}

    def cut_one_way(self, sender, receiver):
        """What sender sends to receiver is lost without a word."""
        self.need_nets()
        self.aim(sender, receiver, NOWHERE)
        self.dead_ways |= {(sender, receiver)}

    def cut_between(self, some, others):
        """No way between these two groups of hosts or members."""
        for one in some:
            for other in others:
                self.cut_one_way(one, other)
                self.cut_one_way(other, one)

    def block_tcp(self, receiver, port, sender=None):
        """TCP to a port of the receiver is lost without a word, of one sender
        or of all, unless it is connected already."""
        self.need_nets()
        source = self.address(sender) if sender else "all"
        lines = [f"rule add pref 10 from {source} iif eth0 ipproto tcp dport "
                 f"{port} blackhole"]
        if receiver not in self.blocked:  # what is local is looked up first
            lines += ["rule add pref 100 lookup local", "rule del pref 0"]
        self.blocked.add(receiver)
        ip_all(self.net(receiver), lines)

    def unblock_tcp(self, receiver):
        self.blocked.discard(receiver)
        ip_all(self.net(receiver), ["rule add pref 0 lookup local",
                                    "rule flush",
                                    "rule add pref 32766 lookup main"])

    def aim(self, sender, receiver, mac):
        ip("-n", self.net(sender), "neigh", "replace", self.address(receiver),
           "lladdr", mac, "dev", "eth0", "nud", "permanent")

    def heal(self, *names):
        """Everything that was cut works again; with names, all ways of
        those. A wire forgets all that it was told."""
        if self.wire is not None:
            self.wire.clear()
        for sender, receiver in sorted(self.dead_ways):
            if names and sender not in names and receiver not in names:
                continue
            self.dead_ways.discard((sender, receiver))
            if sender != receiver:
                self.aim(sender, receiver, self.mac(receiver))
                continue
            ip_all(self.net("sw"), [self.plug(sender)])

    def is_cut(self, name):
        return (name, name) in self.dead_ways

    def reset(self, name, other):
        """Break the TCP connections between two hosts by a reset; how many."""
        self.need_nets()
        done = subprocess.run(
            ["nsenter", f"--net={NETNS}/{self.net(name)}", "ss", "-KHtn",
             "dst", self.address(other)], capture_output=True, text=True,
            check=False)
        claim(done.returncode == 0, f"ss -K: {done.stderr.strip()}")
        return len(done.stdout.splitlines())

    # ------------------------------------------------------------ processes

    def popen(self, name, command, **more):
        """A process on a host; its pid is the command's."""
        if self.has_nets:
            command = ["nsenter", f"--net={NETNS}/{self.net(name)}", "--",
                       *([*RENAME, name] if self.renames else []), *command]
        more.setdefault("cwd", self.folder)
        process = Process(command, stdin=subprocess.DEVNULL,
                          start_new_session=True, **more)
        until(lambda: process.poll() is not None or not self.has_nets or
              pids_inside([self.net(name)], [process.pid]), 10,
              f"a process is on {name}")
        return process

    def environment(self, name, **more):
        """The environment for `regroup` on a host."""
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith("REGROUP_")}
        kept.update({"REGROUP_LOG": "info",
                     "REGROUP_RUN_DIR": os.path.join(self.folder, name + ".r")})
        kept.update(more)
        return kept

    def pids(self, name):
        """Processes on a host, newest last."""
        if self.has_nets:
            return sorted(pids_inside([self.net(name)]))
        mark = f"REGROUP_RUN_DIR={self.folder}/{name}.r\0".encode()
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with contextlib.suppress(OSError), \
                    open(f"/proc/{pid}/environ", "rb") as environ:
                if mark in environ.read():
                    found.append(pid)
        return sorted(found)

    def bound_ports(self, name):
        """(kind, port) of what listens on a host, or is bound to be heard;
        nothing is known of one without a namespace."""
        found = []
        if not self.has_nets:
            return found
        with inside(self.net(name)):
            for kind in ("tcp", "tcp6", "udp", "udp6"):
                with contextlib.suppress(OSError), \
                        open(f"/proc/thread-self/net/{kind}") as table:
                    found += [(kind, int(fields[1].rpartition(":")[2], 16))
                              for fields in map(str.split, table)
                              if fields[3] == "0A" or
                              (kind[0] == "u" and fields[0] != "sl")]
        return found

    def kill_host(self, name, chance=None):
        """All processes of a host at once, so that none sees another's death;
        with chance, in any order. Its kernel says goodbye for them (FIN, RST),
        unless it is cut first: that is a power failure."""
        pids = self.pids(name)[::-1]
        if chance is not None:
            chance.shuffle(pids)
        for signum in (signal.SIGSTOP, signal.SIGKILL)[chance is not None:]:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signum)
        until(lambda: not self.kill_rest(name), 20, f"{name} is dead")
        return pids

    def kill_rest(self, name):
        """Processes started meanwhile, by one that saw a death."""
        rest = self.pids(name)
        for pid in rest:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return rest

    def fail_power(self, name):
        self.cut(name)
        return self.kill_host(name)

    # ----------------------------------------------------------------- etcd

    @property
    def urls(self):
        return ",".join(m.url for m in self.etcd)

    def ask(self, call, **fields):
        """Ask any member that answers; the only one may be busy for long."""
        why, patience = None, 20 if len(self.etcd) == 1 else 2
        for member in self.etcd:
            if member.process is None or self.is_cut(member.name):
                continue
            try:
                return member.post(call, timeout=patience, **fields)
            except OSError as error:
                why = error
        raise Failed(f"no member of etcd answers {call}: {why}")

    def wait_etcd(self):
        def answers():
            with contextlib.suppress(Failed):
                return self.ask("kv/put", key=text64("ready"),
                                value=text64("1"))
            return None
        until(answers, 20, "etcd answers a put")

    def keys(self, prefix):
        """{key: value} of everything below a prefix."""
        return {base64.b64decode(kv["key"]).decode():
                base64.b64decode(kv.get("value", "")).decode()
                for kv in self.range(prefix)}

    def leased_keys(self, prefix):
        """Those that go when their agent does."""
        return [base64.b64decode(kv["key"]).decode()
                for kv in self.range(prefix) if int(kv.get("lease", 0))]

    def range(self, prefix):
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        return self.ask("kv/range", key=text64(prefix),
                        range_end=text64(end)).get("kvs", [])

    def most_ttl_s(self):
        """Of the leases that there are, what the longest has left."""
        leases = self.ask("lease/leases").get("leases", [])
        return max((int(self.ask("lease/timetolive", ID=one["ID"]).get(
            "TTL", -1)) for one in leases), default=-1)

    def etcd_leader(self):
        return until(lambda: next((m for m in self.etcd if m.is_leader()),
                                  None), 20, "etcd has a leader")


# ------------------------------------------------------------------------ jobs

class HostsJob(Job):
    """A job with `regroup agent` on each host. Its waits and claims are those
    of house.Job."""

    KEEPS_HISTORY = True  # which hashes all memory at each commit

    # pylint: disable=super-init-not-called
    def __init__(self, hosts, flags, per_host, command, job="test",
                 detect=DETECT, env=None, only=None):
        """per_host: flags of every agent, or {host: flags}; env: for every
        agent and its workers, {host: {...}} below the key of a host; only: the
        hosts to begin with, the first of which leads."""
        self.hosts, self.name = hosts, job
        self.flags = [*flags, "--detect", detect]
        self.per_host, self.env = per_host, env or {}
        self.first = list(only or hosts.names)
        self.folder = os.path.join(hosts.folder, job)
        self.command = self.endless(command)
        self.history = os.path.join(self.folder, "history")
        self.agents = {}  # host: its newest process
        self.ended = []  # processes that were replaced
        self.lost = set()  # hosts that are not to end with 0
        self.killed = set()  # hosts that were, at any time
        self.drained = set()  # hosts that may end, with 0, before the job
        self.starts = {}
        self.tails = Tails(os.path.join(self.history, "*", "*.jsonl"))
        self.seen = []  # events, in the order of their time
        self.pids = set()
        self.code = None

    def __enter__(self):
        os.makedirs(self.history)
        self.started = time.monotonic_ns()
        for host in self.first:
            self.agent(host)
            if host == self.first[0] and len(self.first) > 1:
                until(lambda: self.leader() == self.first[0], 20,
                      f"{self.first[0]} leads")
        return self

    def __exit__(self, kind, error, trace):
        for process in [*self.agents.values(), *self.ended]:
            if process.poll() is None:
                with contextlib.suppress(OSError):
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                process.wait()
        for host in self.hosts.names:
            self.hosts.kill_host(host)
        if kind is not None:
            sys.stderr.write(self.text()[-20000:])
        slow = self.slow_turns()
        claim(kind is not None or not slow, f"an agent was held up: {slow}")

    def keep(self, folder):
        """Copy logs and histories, and write down what etcd holds and what
        each agent says."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        with contextlib.suppress(Failed), \
                open(os.path.join(folder, "etcd"), "w") as file:
            for key, value in sorted(self.hosts.keys("/regroup/").items()):
                print(key, value, file=file)
        for host in self.agents:
            with contextlib.suppress(subprocess.TimeoutExpired), \
                    open(os.path.join(folder, host + ".status"), "w") as file:
                file.write(self.run_on(host, "status", "--json", self.name,
                                       timeout=5).stdout)

    def agent(self, host, *more, command=None):
        """Start an agent on a host, for the first time or again."""
        if host in self.agents:
            self.ended.append(self.agents[host])
        start = self.starts[host] = self.starts.get(host, 0) + 1
        flags = self.per_host.get(host, []) if isinstance(self.per_host, dict) \
            else self.per_host
        if self.KEEPS_HISTORY:
            history = os.path.join(self.history, f"{host}-{start}")
            os.mkdir(history)
            flags = ["--history", history, *flags]
        env = {k: v for k, v in self.env.items() if isinstance(v, str)}
        env.update(self.env.get(host, {}) if start == 1 else {})
        with open(os.path.join(self.folder, host + ".log"), "ab") as log:
            self.agents[host] = self.hosts.popen(
                host, [REGROUP, "agent", "--etcd", self.hosts.urls, "--job",
                       self.name, "--host", host,
                       *self.hosts.client_flags(), *self.flags, *flags, *more,
                       "--", *(self.endless(command) if command else self.command)],
                env=self.hosts.environment(host, **env), stdout=log, stderr=log)
        self.lost.discard(host)
        self.drained.discard(host)
        return self.agents[host]

    # ------------------------------------------------------------- looking

    def text(self, host=None):
        parts = []
        for path in sorted(glob.glob(os.path.join(self.folder, "*.log"))):
            name = os.path.basename(path)[:-len(".log")]
            if host in (None, name):
                with open(path, errors="replace") as log:
                    parts.append(f"--- {name}\n{log.read()}")
        return "\n".join(parts)

    def run_on(self, host, *words, timeout=20):
        return subprocess.run([REGROUP, *words], text=True,
                              env=self.hosts.environment(host),
                              capture_output=True, timeout=timeout * PATIENCE,
                              check=False)

    def run(self, *words, timeout=20):
        return self.run_on(self.reachable()[0], *words, timeout=timeout)

    def reachable(self):
        """Hosts whose agent runs and is not cut off."""
        return [h for h, p in self.agents.items() if p.poll() is None and
                h not in self.lost | self.drained and
                not self.hosts.is_cut(h)] or \
            list(self.agents)

    def status(self, host=None):
        shown = self.run_on(host or self.reachable()[0], "status", "--json",
                            self.name)
        if shown.returncode != 0:
            return None
        status = json.loads(shown.stdout)
        for one in status["hosts"]:
            self.pids.update(w["pid"] for w in one["workers"] if w["pid"])
        return status

    def note_pids(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.status()

    def leader(self):
        return (self.status() or {}).get("leader")

    def host_of(self, rank):
        """The host where a rank of the current world is."""
        status = until(self.status, 20, "an agent answers")
        return next(h["id"] for h in status["hosts"] for w in h["workers"]
                    if w["rank"] == rank)

    # ------------------------------------------------------------- waiting

    def alive(self):
        for host, process in self.agents.items():
            code = process.poll()
            claim(code is None or host in self.lost or
                  (host in self.drained and code == 0),
                  f"the agent of {host} ended early with code {code}")
        return True

    def finish(self, code=0, seconds=60):
        """Every agent that is not lost ends with this code."""
        self.let_finish()
        end = time.monotonic() + seconds * PATIENCE
        for host in sorted(set(self.agents) - self.lost):
            process = self.agents[host]
            try:
                self.code = process.wait(
                    max(0, end - time.monotonic()) / PATIENCE)
            except subprocess.TimeoutExpired as error:
                raise Failed(f"the agent of {host} has not ended after "
                             f"{seconds * PATIENCE} s; status: "
                             f"{self.status(host)}") from error
            claim(self.code == code, f"the agent of {host} ended with code "
                  f"{self.code}, not {code}")

    # -------------------------------------------------------------- faults

    def agent_port(self, host):
        """Of UDP and TCP, for other agents."""
        key = f"/regroup/v1/{self.name}/lead/host/{host}"
        text = until(lambda: self.hosts.keys(key).get(key), 20,
                     f"{host} has a record")
        return json.loads(text)["port"]

    def agent_pid(self, host):
        """The agent's own process; agents[host] is its supervisor."""
        supervisor = self.agents[host].pid

        def find():
            for pid in self.hosts.pids(host):
                with contextlib.suppress(OSError):
                    if parent_of(pid) == supervisor and \
                            os.readlink(f"/proc/{pid}/exe") == REGROUP:
                        return pid
            return None
        return until(find, 20, f"an agent runs on {host}")

    def kill_agent(self, host, signum=signal.SIGKILL):
        """The agent alone: workers live, its supervisor starts the next."""
        os.kill(self.agent_pid(host), signum)

    def kill_supervisor(self, host):
        """To kill the command means the host: its agent leaves."""
        self.lost.add(host)
        self.agents[host].kill()

    def drain(self, host):
        """The host leaves at a commit, and its agent ends with 0."""
        self.drained.add(host)
        self.agents[host].terminate()

    def kill_host(self, host, chance=None):
        self.lost.add(host)
        self.killed.add(host)
        return self.hosts.kill_host(host, chance)

    def fail_power(self, host):
        self.lost.add(host)
        self.killed.add(host)
        return self.hosts.fail_power(host)


