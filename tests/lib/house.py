"""Jobs for tests: a `regroup run` with its own run directory, histories and
output, faults from outside, and what must hold afterwards.

    with Job(["--min", "1", "--max", "4"], trainer("--steps", "200")) as job:
        job.wait_step(20)
        job.kill(rank=1)
        job.finish()
        job.check(state=fault_free(...))

Everything is below a temporary directory that goes with the test; processes
that are left are ended by their recorded pids.
"""

import base64
import contextlib
import ctypes
import gc
import glob
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["REGROUP_BUILD"]
SOURCE = os.environ["REGROUP_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "checker"))
gc.disable()  # it would look again and again at all events of a history
REGROUP = os.path.join(BUILD, "bin", "regroup")
FINAL = re.compile(r"final step (\d+) state ([0-9a-f]{16})")
IS_SLOW = os.environ.get("REGROUP_TEST_SLOW") == "1"  # a sanitizer's build
DETECT = "3s" if IS_SLOW else "1500ms"
PATIENCE = 4 if IS_SLOW else 1


class Failed(Exception):
    """A claim of the test does not hold."""


# What agents say of themselves or of workers that got no processor in time.
HELD_UP = re.compile(r"ms late to its turn|: stopped or stuck")
_held_up = []  # jobs of this process in which that was said


def claim(holds, sentence):
    if not holds:
        raise Failed(sentence)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
# As the trainer's flags: it trains until Job.finish, however long tests take.
UNTIL_FINISH = ("--until", "file-that-finish-makes")


def end_with_us():
    """In a child: a test that is killed leaves no job that trains forever."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def trainer(*flags):
    return [os.path.join(BUILD, "tests", "trainer"), *map(str, flags)]


def touch(path):
    """Makes an empty file."""
    with open(path, "w", encoding="ascii"):
        pass


def need_etcd():
    if shutil.which("etcd") is None:
        skip("etcd is not installed (ci/install installs it)")


def until(condition, seconds, what):
    """The condition's first true value; Failed when none comes in time."""
    end = time.monotonic() + seconds * PATIENCE
    while (began := time.monotonic()) < end:
        value = condition()
        if value:
            return value
        took = time.monotonic() - began
        time.sleep(max(0.02, 2 * took))  # a third of a processor at most
    raise Failed(f"{what}: not within {seconds * PATIENCE} s")


class Process(subprocess.Popen):
    """Its limits are seconds of the plain build, as those of until()."""

    def wait(self, timeout=None):
        return super().wait(timeout and timeout * PATIENCE)

    # pylint: disable-next=redefined-builtin
    def communicate(self, input=None, timeout=None):
        return super().communicate(input, timeout and timeout * PATIENCE)


def children(parent):
    """Its living children; none if it has ended."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{parent}/task/{parent}/children",
                  encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    return []


def child_of(parent, name):
    """Its first living child that is this program; None while there is none."""
    return next((pid for pid in children(parent) if program_of(pid) == name),
                None)


def agent_of(supervisor):
    """The agent that this `regroup run` or `regroup agent` has started last;
    None while there is none."""
    return child_of(supervisor, "regroup")


def program_of(pid):
    """Its name, None of a process that is gone or dead."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            name, rest = stat.read().split("(", 1)[1].rsplit(")", 1)
            return name if rest.split()[0] not in "ZX" else None
    return None


def words_of(pid):
    """Its command line; none of a process that is gone or dead."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/cmdline", "rb") as words:
            return os.fsdecode(words.read()).split("\0")[:-1]
    return []


class Tails:
    """What has been added to files since the last look, in whole lines."""

    def __init__(self, pattern):
        self.pattern, self.read = pattern, {}

    def lines(self):
        """[(path, line)] that are new."""
        found = []
        for path in sorted(glob.glob(self.pattern)):
            at = self.read.get(path, 0)
            if os.path.getsize(path) == at:
                continue
            with open(path, "rb") as file:
                file.seek(at)
                text = file.read()
            whole = text.rfind(b"\n") + 1
            self.read[path] = at + whole
            found += [(path, line) for line in
                      text[:whole].decode(errors="replace").splitlines()]
        return found


class Job:
    stdin = subprocess.DEVNULL

    def __init__(self, flags, command, env=None, job="test", detect=DETECT,
                 stdout=None, stderr=None):
        """stdout, stderr: where they go, as Popen has it; None: to the log."""
        self.stdout, self.stderr = stdout, stderr
        self.folder = tempfile.mkdtemp(prefix="rg-")
        self.history = os.path.join(self.folder, "history")
        os.mkdir(self.history)
        self.tails = Tails(os.path.join(self.history, "*.jsonl"))
        self.seen = []  # of the history
        self.name = job
        self.env = dict(os.environ, REGROUP_LOG="info",
                        REGROUP_RUN_DIR=os.path.join(self.folder, "run"))
        self.env.update(env or {})
        for name in ("REGROUP_BUILD", "REGROUP_SOURCE",
                     "REGROUP_TEST_SLOW"):  # the tests' own
            self.env.pop(name, None)
        self.log = os.path.join(self.folder, "log")
        self.command = [REGROUP, "run", "--job", job, "--detect", detect,
                        "--history", self.history, *flags, "--",
                        *self.endless(command)]
        self.process = None
        self.pids = set()
        self.code = None

    def __enter__(self):
        self.started = time.monotonic_ns()
        with open(self.log, "wb") as log:
            self.process = Process(
                self.command, env=self.env, cwd=self.folder, stdin=self.stdin,
                stdout=log if self.stdout is None else self.stdout,
                stderr=log if self.stderr is None else self.stderr,
                start_new_session=True, preexec_fn=end_with_us)
        return self

    def __exit__(self, kind, error, trace):
        self.note_pids()
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(15)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in self.pids:
            with contextlib.suppress(OSError):
                if self.is_ours(pid):
                    os.kill(pid, signal.SIGKILL)
        if kind is not None:
            sys.stderr.write(f"--- {' '.join(self.command)}\n")
            sys.stderr.write(self.text()[-6000:])
        slow = self.slow_turns()
        shutil.rmtree(self.folder, ignore_errors=True)
        claim(kind is not None or not slow, f"an agent was held up: {slow}")

    def slow_turns(self):
        """What agents of test builds say when a turn of their loop takes
        longer than 50 ms."""
        text = self.text()
        if HELD_UP.search(text):
            _held_up.append(self.name)
        return [line for line in text.splitlines()
                if "a turn of the loop took" in line]

    def is_ours(self, pid):
        """A process that carries this job's run directory."""
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                return self.folder.encode() in environ.read()
        except OSError:
            return False

    def endless(self, command):
        """The command with the file's place for UNTIL_FINISH."""
        return [word.replace(UNTIL_FINISH[1], os.path.join(
            self.folder, "until")) for word in command]

    def let_finish(self):
        touch(os.path.join(self.folder, "until"))

    # ------------------------------------------------------------ looking

    def text(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    def run(self, *words, timeout=20):
        return subprocess.run([REGROUP, *words], env=self.env, text=True,
                              capture_output=True, timeout=timeout * PATIENCE,
                              check=False)

    def status(self):
        shown = self.run("status", "--json", self.name)
        if shown.returncode != 0:
            return None
        status = json.loads(shown.stdout)
        for host in status["hosts"]:
            self.pids.update(w["pid"] for w in host["workers"] if w["pid"])
        return status

    def answer(self):
        """Its status, once there is one: a busy agent may miss one time."""
        return until(lambda: self.status() or not self.alive(), 20, "a status")

    def note_pids(self):
        if self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.status()

    def workers(self):
        """{rank: worker} of the current world's living; {} before the first.
        A pid is None where this agent does not know it yet."""
        status = self.status() or {"hosts": []}
        return {w["rank"]: w for host in status["hosts"]
                for w in host["workers"]
                if w["rank"] is not None and w["pid"] != 0}

    def events(self, kind=None):
        new = []
        for _, line in self.tails.lines():
            with contextlib.suppress(ValueError):
                new.append(json.loads(line))
        if new:
            self.seen += new
            self.seen.sort(key=lambda e: e["t_ns"])
        return [e for e in self.seen if kind is None or e["event"] == kind]

    def step(self):
        return max((e["step"] for e in self.events("step")), default=0)

    def generation(self):
        return max((e["generation"] for e in self.events("decide")), default=0)

    # ------------------------------------------------------------- waiting

    def alive(self):
        claim(self.process.poll() is None,
              f"the job ended early with code {self.process.poll()}")
        return True

    def wait_step(self, step, seconds=30):
        until(lambda: self.step() >= step or not self.alive(), seconds,
              f"step {step}")

    def wait_world(self, size, seconds=30, above=0):
        """A generation newer than `above` with that many workers has stepped;
        without `above`: it is the newest that has."""
        def reached():
            steps = self.events("step")
            now = steps if above > 0 else steps[-1:]
            return any(e["size"] == size and e["generation"] > above
                       for e in now) or not self.alive()
        until(reached, seconds, f"a world of {size}")

    def finish(self, code=0, seconds=60):
        self.let_finish()
        try:
            self.code = self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"the job is not over after {seconds * PATIENCE} s; "
                         f"status: {self.status()}") from error
        claim(self.code == code,
              f"the job ended with code {self.code}, not {code}")

    # -------------------------------------------------------------- faults

    def agent(self):
        """The agent's pid: the child of the job's process that is not etcd;
        None while there is none."""
        return agent_of(self.process.pid)

    def pid(self, rank):
        return until(lambda: self.workers().get(rank, {}).get("pid"), 20,
                     f"a worker of rank {rank}")

    def kill(self, rank, signum=signal.SIGKILL):
        pid = self.pid(rank)
        os.kill(pid, signum)
        return pid

    def kill_many(self, ranks):
        def found():
            workers = self.workers()
            return all(workers.get(rank, {}).get("pid")
                       for rank in ranks) and workers
        workers = until(found, 20, f"workers of ranks {ranks}")
        pids = [workers[rank]["pid"] for rank in ranks]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    # -------------------------------------------------------------- claims

    def final_state(self):
        found = set(FINAL.findall(self.text()))
        claim(found, "no worker printed a final state")
        claim(len(found) == 1, f"workers ended with different states: {found}")
        return found.pop()

    def check(self, state=None, trained=None, **options):
        """The history holds, with these options of check_history, and the
        final state is this one, or that of a training with these flags that
        without disturbance."""
        import check_history  # pylint: disable=import-outside-toplevel
        wrong = check_history.check(self.history, **options)
        claim(not wrong, "the history breaks invariants:\n" + "\n".join(
            str(sentence) for sentence in wrong))
        if state is not None or trained is not None:
            mine = self.final_state()
            if trained is not None:
                state = fault_free("--steps", mine[0], *trained)
            claim(mine == state,
                  f"the final state is {mine}, the fault-free run's {state}")

    def survivors(self, before, lost=()):
        """Each worker of `before` that is not lost kept its pid to the end."""
        kept = {e["pid"] for e in self.events("leave")}
        for worker in before.values():
            if worker["pid"] not in lost:
                claim(worker["pid"] in kept,
                      f"worker {worker} did not live to the end")


_reserved = []  # until this process ends


def reserve(port):
    """False: another test has it. It has the name in the same namespace."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0regroup-test-port-{port}")
    except OSError:
        name.close()
        return False
    _reserved.append(name)
    return True


def free_port():
    """A free port that no other test takes, and from which the kernel makes no
    connection, so that a server which is away finds it free again."""
    while True:
        port = random.randrange(10240, 30000)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            if reserve(port):
                return port


class Etcd:
    """An etcd of the test's own, which it may kill and start again; with a
    session of its own it shares the processors as all others together do."""

    def __init__(self, has_session=False):
        self.has_session = has_session
        self.data = tempfile.mkdtemp(prefix="rg-etcd-")
        self.port, self.peer = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)

    def start(self):
        peer = f"http://127.0.0.1:{self.peer}"
        with open(os.path.join(self.data, "log"), "ab") as log:
            self.process = subprocess.Popen(
                ["etcd", "--name=n1", f"--data-dir={self.data}/data",
                 f"--listen-client-urls={self.url}",
                 f"--advertise-client-urls={self.url}",
                 f"--listen-peer-urls={peer}",
                 f"--initial-advertise-peer-urls={peer}",
                 f"--initial-cluster=n1={peer}", "--heartbeat-interval=10",
                 "--election-timeout=100", "--logger=zap",
                 "--log-level=error"], stdout=log, stderr=log,
                preexec_fn=end_with_us, start_new_session=self.has_session)
        until(lambda: self.put("ready", "1"), 20, "etcd answers a put")

    def post(self, call, **fields):
        # pylint: disable=import-outside-toplevel
        import urllib.request  # which most tests need not wait for
        request = urllib.request.Request(f"{self.url}/v3/{call}",
                                         json.dumps(fields).encode(),
                                         method="POST")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def ask(self, call, **fields):
        return self.post(f"kv/{call}", **{
            name: base64.b64encode(text.encode()).decode()
            for name, text in fields.items()})

    def put(self, key, value):
        try:
            return self.ask("put", key=key, value=value)
        except OSError:
            return None

    def get(self, key):
        return base64.b64decode(self.ask("range", key=key)["kvs"][0]["value"])

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def wipe(self):
        shutil.rmtree(os.path.join(self.data, "data"), ignore_errors=True)


_fault_free = {}


def fault_free(*flags):
    """(step, state) of this training alone, without agent or faults."""
    fast = [f for f in flags if f not in UNTIL_FINISH]
    if "--step-ms" in fast:
        fast[fast.index("--step-ms") + 1] = 0
    else:
        fast += ["--step-ms", 0]
    key = tuple(map(str, fast))
    if key not in _fault_free:
        done = subprocess.run(trainer(*fast), capture_output=True, text=True,
                              timeout=60 * PATIENCE, check=True)
        _fault_free[key] = FINAL.search(done.stdout).groups()
    return _fault_free[key]


def main(test, tries=1):
    """Run a test function; a claim that does not hold ends with code 1. tries:
    it is run again where an agent or a worker was held up for too long to keep
    its place; of tests that hold up none themselves."""
    need_etcd()
    for left in reversed(range(tries)):
        _held_up.clear()
        try:
            return test()
        except Failed as error:
            print(f"FAILED: {error}", file=sys.stderr)
            if left == 0 or not _held_up:
                sys.exit(1)


def main_all(names):
    """The same with all functions test_... of a file, its globals()."""
    def test():
        for name, function in sorted(names.items()):
            if name.startswith("test_"):
                print(name, flush=True)
                function()
    main(test)
