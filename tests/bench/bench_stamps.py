"""What bench_recovery and bench_hosts share: the stamps that workers of
bench_recovery_worker leave, one file a process, and what is made of times."""

import os
import statistics
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
WORKER = os.path.join(HERE, "bench_recovery_worker")
WAIT_S = 60  # for anything that should take well below a second
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Of a change: name, the stamp where it begins, the one where it ends.
PARTS = (("detect", "struck_ns", "detected_ns"),
         ("agree", "detected_ns", "proposed_ns"),
         ("rebuild", "proposed_ns", "built_ns"),
         ("decide", "built_ns", "decided_ns"),
         ("sync", "decided_ns", "synced_ns"),
         ("step", "synced_ns", "stepped_ns"))


def bytes_of(text):
    unit = UNITS.get(text[-1:].upper(), 0)
    return int(text[:-1]) * unit if unit else int(text)


def percentile(values, p):
    """The nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * p // 100) - 1)]


def floor_ms(processes, vaults, state_bytes):
    """One restore and one commit of a state by as many processes at once, on
    as many hosts."""
    shown = subprocess.run(
        [WORKER, "--bytes", str(state_bytes), "--floor", str(processes),
         "--vaults", str(vaults)],
        capture_output=True, text=True, timeout=WAIT_S, check=True)
    return statistics.median(int(line) / 1e6 for line in shown.stdout.split())


class Stamps:
    """Each worker's first and last step in each generation."""

    def __init__(self, folder, world):
        """world: as many workers make it full."""
        self.folder, self.world = folder, world
        os.makedirs(folder)
        self.read_to = {}  # pid: offset in its file
        self.firsts, self.lasts = {}, {}  # {pid: {generation: (t_ns, size)}}
        self.pace = {}  # {pid: {generation: (steps, longest ns)}}, when left

    def read(self):
        for name in os.listdir(self.folder):
            pid = int(name)
            with open(os.path.join(self.folder, name), "rb") as file:
                file.seek(self.read_to.get(pid, 0))
                text = file.read()
            end = text.rfind(b"\n") + 1
            self.read_to[pid] = self.read_to.get(pid, 0) + end
            for line in text[:end].splitlines():
                t_ns, generation, _rank, size, what, *pace = line.split()
                into = self.firsts if what == b"first" else self.lasts
                into.setdefault(pid, {})[int(generation)] = (int(t_ns),
                                                             int(size))
                self.pace.setdefault(pid, {})[int(generation)] = tuple(
                    int(field) for field in pace)

    def forget(self, pid):
        """It was killed, and its steps no longer count."""
        os.unlink(os.path.join(self.folder, str(pid)))
        for of in (self.read_to, self.firsts, self.lasts, self.pace):
            of.pop(pid, None)

    def full(self):
        """(generation, its PIDs) once the world is full and all of it has
        stepped; else None."""
        self.read()
        newest = max((max(seen) for seen in self.firsts.values()), default=0)
        pids = [pid for pid, seen in self.firsts.items() if newest in seen and
                seen[newest][1] == self.world]
        return (newest, pids) if len(pids) == self.world else None

    def stepped_after(self, pids, generation):
        """{pid: (generation, t_ns)} of each worker's first step after a
        generation, or None while a worker has none."""
        self.read()
        found = {}
        for pid in pids:
            later = [at for at in self.firsts[pid] if at > generation]
            if not later:
                return None
            found[pid] = (min(later), self.firsts[pid][min(later)][0])
        return found
