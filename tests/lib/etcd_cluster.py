"""An etcd cluster of a test's own, and what may befall it.

    with Cluster() as etcds:                 # three members on loopback
        chain = Chain(etcds)                 # a client, or a Job on etcds.urls
        etcds.leader().kill()
        ...

Each member's peers, and its clients, come through a gate: a port of the test's
that passes bytes on until it is shut. A shut gate is silent, as a network that
is cut: it takes connections and no byte. Peers name themselves in the head of
their first request, so a member can be cut off in both directions.
"""

import base64
import contextlib
import json
import os
import re
import selectors
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

from house import free_port, need_etcd, until

HEAD_MAX = 8192
FROM = re.compile(rb"\r\nX-Server-From: ([0-9a-f]+)\r\n", re.IGNORECASE)


# ---------------------------------------------------------------------- gates

class Link:
    """A connection through a gate: bytes of one side wait for the other."""

    def __init__(self, gate, caller, callee):
        self.gate = gate
        self.sides = {caller: callee, callee: caller}
        self.waiting = {caller: bytearray(), callee: bytearray()}
        self.caller = caller
        self.head = b""  # of the first request, until it names the caller
        self.source = None

    def close(self):
        for side in self.sides:
            side.close()


class Gates(threading.Thread):
    """All gates of a cluster, on one thread."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock = threading.Lock()
        self.selector = selectors.DefaultSelector()
        self.links, self.shut = set(), set()
        self.wake, self.woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.selector.register(self.wake, selectors.EVENT_READ, None)
        self.is_over = False

    def open(self, owner, kind, target):
        """A gate in front of a port: the port to call instead."""
        door = socket.socket()
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("127.0.0.1", 0))
        door.listen(64)
        door.setblocking(False)
        self.selector.register(door, selectors.EVENT_READ,
                               (owner, kind, target))
        return door.getsockname()[1]

    def set_shut(self, names):
        """names: (member, "peer") and (member, "client"), or none."""
        with self.lock:
            was, self.shut = self.shut, set(names)
            for link in list(self.links):
                if self.is_shut(link, was) and not self.is_shut(link):
                    self.drop(link)  # it has lost bytes
                else:
                    self.watch(link)
        os.write(self.woken, b".")

    def is_shut(self, link, shut=None):
        shut = self.shut if shut is None else shut
        owner, kind, _ = link.gate
        return (owner, kind) in shut or (
            kind == "peer" and link.source is not None
            and (link.source, "peer") in shut)

    def watch(self, link):
        for side, other in link.sides.items():
            events = 0
            if not self.is_shut(link):
                if len(link.waiting[other]) < 1 << 20:
                    events |= selectors.EVENT_READ
                if link.waiting[side]:
                    events |= selectors.EVENT_WRITE
            try:
                if events:
                    self.selector.modify(side, events, link)
                else:
                    self.selector.unregister(side)
            except KeyError:
                if events:
                    self.selector.register(side, events, link)

    def drop(self, link):
        for side in link.sides:
            with contextlib.suppress(KeyError):
                self.selector.unregister(side)
        link.close()
        self.links.discard(link)

    def take(self, door, gate):
        caller, _ = door.accept()
        callee = socket.socket()
        try:
            callee.connect(("127.0.0.1", gate[2]))
        except OSError:  # no listener
            caller.close()
            callee.close()
            return
        for side in (caller, callee):
            side.setblocking(False)
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(gate, caller, callee)
        self.links.add(link)
        self.watch(link)

    def learn_source(self, link, side, chunk):
        if side is not link.caller or len(link.head) > HEAD_MAX:
            return
        link.head += chunk
        said = FROM.search(link.head)
        if said:
            link.source = said[1].decode().lstrip("0")
            link.head = b"." * (HEAD_MAX + 1)

    def serve(self, side, events, link):
        other = link.sides[side]
        try:
            if events & selectors.EVENT_READ:
                chunk = side.recv(65536)
                if not chunk:
                    raise OSError
                self.learn_source(link, side, chunk)
                link.waiting[other] += chunk
            for end in (side, other):
                if link.waiting[end] and not self.is_shut(link):
                    del link.waiting[end][:end.send(link.waiting[end])]
        except BlockingIOError:
            pass
        except OSError:
            self.drop(link)
            return
        self.watch(link)

    def run(self):
        while not self.is_over:
            ready = self.selector.select()
            with self.lock:
                for key, events in ready:
                    if key.data is None:
                        with contextlib.suppress(BlockingIOError):
                            os.read(self.wake, 64)
                    elif isinstance(key.data, tuple):
                        self.take(key.fileobj, key.data)
                    elif key.data in self.links and not self.is_shut(key.data):
                        self.serve(key.fileobj, events, key.data)

    def end(self):
        self.is_over = True
        os.write(self.woken, b".")
        self.join()
        for key in list(self.selector.get_map().values()):
            if not isinstance(key.fileobj, int):
                key.fileobj.close()
        for link in self.links:
            link.close()
        self.selector.close()
        os.close(self.wake)
        os.close(self.woken)


# -------------------------------------------------------------------- members

class Member:
    def __init__(self, cluster, number):
        self.cluster = cluster
        self.name = f"m{number}-{os.getpid()}"
        self.folder = os.path.join(cluster.folder, self.name)
        os.mkdir(self.folder)
        self.client, self.peer = free_port(), free_port()
        self.peer_url = "http://127.0.0.1:%d" % cluster.gates.open(
            self, "peer", self.peer)
        scheme = "https" if cluster.tls else "http"
        self.own_url = f"{scheme}://127.0.0.1:{self.client}"
        self.url = f"{scheme}://127.0.0.1:%d" % cluster.gates.open(
            self, "client", self.client)
        self.id = None  # in hexadecimal, as peers write it
        self.state = "new"
        self.process = None

    def flags(self):
        tls = []
        if self.cluster.tls:
            server, ca = self.cluster.tls
            tls = [f"--cert-file={server.cert}", f"--key-file={server.key}",
                   "--client-cert-auth", f"--trusted-ca-file={ca.cert}"]
        return [f"--name={self.name}", f"--data-dir={self.folder}/data",
                f"--listen-client-urls={self.own_url}",
                f"--advertise-client-urls={self.url}",
                f"--listen-peer-urls=http://127.0.0.1:{self.peer}",
                f"--initial-advertise-peer-urls={self.peer_url}",
                f"--initial-cluster={self.cluster.line()}",
                f"--initial-cluster-state={self.state}", "--pre-vote",
                "--strict-reconfig-check=false",  # it wants 5 s of peace
                "--heartbeat-interval=50", "--election-timeout=500",
                "--bcrypt-cost=4", "--logger=zap", "--log-level=error", *tls]

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                ["etcd", *self.flags()], stdout=log, stderr=log,
                start_new_session=self.cluster.has_session)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self):
        """SIGSTOP; returns when it stands."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def wipe(self):
        shutil.rmtree(f"{self.folder}/data", ignore_errors=True)

    def post(self, call, timeout=2, **fields):
        """Ask this member behind the client's back, past its gate."""
        request = urllib.request.Request(f"{self.own_url}/v3/{call}",
                                         json.dumps(fields).encode())
        if self.cluster.token:
            request.add_header("Authorization", self.cluster.token)
        with urllib.request.urlopen(request, timeout=timeout,
                                    context=self.cluster.context) as answer:
            return json.load(answer)

    def put(self, key, value, timeout=2):
        self.post("kv/put", timeout, key=base64.b64encode(key.encode()).decode(),
                  value=base64.b64encode(value.encode()).decode())

    def status(self):
        """None: it gives no answer."""
        try:
            return self.post("maintenance/status", 1)
        except OSError:
            return None

    def is_ready(self):
        try:
            self.put("ready", self.name)
        except urllib.error.HTTPError as error:
            return error.code in (400, 401)  # it wants a password
        except OSError:
            return False
        return True


class Cluster:
    """size members; tls: (server's certificate, CA, client's certificate);
    has_session: as in house.Etcd, each member."""

    def __init__(self, size=3, tls=None, has_session=False):
        need_etcd()
        self.has_session = has_session
        self.size = size
        self.tls = tls and tls[:2]
        self.client = tls and tls[2]
        self.context = None
        if tls:
            self.context = ssl.create_default_context(cafile=tls[1].cert)
            # Python 3.13 asks for more than etcd does.
            self.context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            self.context.load_cert_chain(tls[2].cert, tls[2].key)
        self.folder = tempfile.mkdtemp(prefix="rg-etcds-")
        self.token = None
        self.gates = Gates()
        self.members = [Member(self, i) for i in range(size)]

    def line(self):
        return ",".join(f"{m.name}={m.peer_url}" for m in self.members)

    def __enter__(self):
        self.gates.start()
        for member in self.members:
            member.start()
        self.wait_ready()
        for member in self.members:
            header = member.status()["header"]
            member.id = f"{int(header['member_id']):x}"
        return self

    def __exit__(self, kind, *_):
        for member in self.members:
            member.kill()
        self.gates.end()
        if kind is not None:
            for member in self.members:
                with contextlib.suppress(OSError), \
                        open(os.path.join(member.folder, "log"),
                             errors="replace") as log:
                    print(f"--- {member.name}\n{log.read()[-1500:]}")
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_ready(self):
        until(lambda: all(m.is_ready() for m in self.members), 30,
              "the members of the cluster take writes")

    @property
    def urls(self):
        return ",".join(m.url for m in self.members)

    def leader(self):
        """The member that leads, as one says that others agree with."""
        def find():
            for member in self.members:
                status = member.status()
                led_by = int(status.get("leader", 0)) if status else 0
                for other in self.members:
                    if led_by and other.id == f"{led_by:x}" and \
                            other.status():
                        return other
            return None
        return until(find, 20, "a leader")

    def followers(self):
        leader = self.leader()
        return [m for m in self.members if m is not leader]

    def cut(self, *members, clients=()):
        """Peers can't be reached by or from those members; their clients can.
        clients: members that clients can't reach."""
        self.gates.set_shut(
            [(name, "peer") for m in members for name in (m, m.id)] +
            [(m, "client") for m in clients])

    def heal(self):
        self.gates.set_shut([])

    def turn_auth_on(self, password):
        member = self.members[0]
        member.post("auth/user/add", name="root", password=password)
        member.post("auth/user/grant", user="root", role="root")
        member.post("auth/enable")
        self.log_in(password)

    def log_in(self, password):
        self.token = None
        self.token = self.leader().post("auth/authenticate", name="root",
                                        password=password)["token"]

    def tls_flags(self):
        if not self.tls:
            return []
        return ["--etcd-cacert", self.tls[1].cert, "--etcd-cert",
                self.client.cert, "--etcd-key", self.client.key]
