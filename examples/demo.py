#!/usr/bin/env python3
"""A training that outlives a killed worker, run with and without the kill.

Runs elastic_digits under `regroup run` on a private etcd. In the second run
one worker is killed with SIGKILL; the others step on, and a replacement joins.
The exit code is 0 only if every claim in the summary holds.

  examples/demo.py --build build/dev [--etcd-bin PATH] [--svg FILE]
"""

import argparse
import glob
import html
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

PROGRESS = re.compile(r"step (\d+) loss ([\d.]+) accuracy ([\d.]+) "
                      r"\(generation (\d+), (\d+) workers\)")
FINAL = re.compile(r"final accuracy ([\d.]+) state ([0-9a-f]{16})")
EPOCHS, STEPS_PER_EPOCH = 20, 23


def parse_flags():
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    flags = argparse.ArgumentParser(
        description="Train, kill a worker, and compare with a run without it.")
    flags.add_argument("--build", default=os.path.join(source, "build/dev"),
                       help="build folder (default: build/dev)")
    flags.add_argument("--etcd-bin", help="the etcd program (default: PATH)")
    flags.add_argument("--svg", help="picture (default: BUILD/demo.svg)")
    flags.add_argument("--workers", type=int, default=4,
                       help="most workers (default: 4)")
    flags.add_argument("--step-ms", type=int, default=15,
                       help="pause in each step: the demo's length "
                            "(default: 15)")
    flags.add_argument("--epochs", type=int, default=EPOCHS)
    given = flags.parse_args()
    if given.workers < 2:
        flags.error("--workers: at least 2: one of them is killed")
    given.build = os.path.abspath(given.build)
    if given.svg is None:
        given.svg = os.path.join(given.build, "demo.svg")
    return given


class Training:
    """One `regroup run`, its printed progress and its histories."""

    def __init__(self, flags, folder, title):
        self.flags, self.title = flags, title
        self.history = os.path.join(folder, "history")
        os.makedirs(self.history)
        self.env = dict(os.environ,
                        REGROUP_RUN_DIR=os.path.join(folder, "run"))
        self.points = []   # (step, loss, accuracy, generation, workers)
        self.final = None  # (accuracy, state)
        self.status = None
        self.process = None
        self.reader = None

    def program(self, name):
        return os.path.join(self.flags.build, "bin", name)

    def start(self):
        command = [self.program("regroup"), "run", "--min", "1", "--max",
                   str(self.flags.workers), "--job", "demo", "--history",
                   self.history]
        if self.flags.etcd_bin:
            command += ["--etcd-bin", self.flags.etcd_bin]
        command += [self.program("elastic_digits"), "--epochs",
                    str(self.flags.epochs), "--step-ms",
                    str(self.flags.step_ms), "--print-every", "1"]
        self.process = subprocess.Popen(
            command, env=self.env, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            at, end = PROGRESS.search(line), FINAL.search(line)
            if at:
                step, loss, accuracy, generation, workers = at.groups()
                self.points.append((int(step), float(loss), float(accuracy),
                                    int(generation), int(workers)))
                show_progress(self.title, self.points)
            elif end:
                self.final = (float(end[1]), end[2])
            else:
                say("  " + line.rstrip())

    def step(self):
        return self.points[-1][0] if self.points else 0

    def is_running(self):
        return self.process.poll() is None

    def look(self):
        """The newest status document; the last one is kept."""
        shown = subprocess.run([self.program("regroup"), "status", "--json"],
                               env=self.env, capture_output=True, text=True,
                               timeout=20, check=False)
        if shown.returncode == 0:
            self.status = json.loads(shown.stdout)
        return self.status if shown.returncode == 0 else None

    def workers(self):
        """{worker's name: (rank, pid)} as status shows them now."""
        status = self.look()
        return {f"{host['id']}.{worker['slot']}":
                (worker["rank"], worker["pid"])
                for host in (status or {"hosts": []})["hosts"]
                for worker in host["workers"] if worker["rank"] is not None}

    def wait_for(self, condition, seconds):
        """True once the condition holds; False if the run ends before."""
        end = time.monotonic() + seconds
        while self.is_running() and time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.02)
        return False

    def wait(self, seconds):
        """The exit code; reads the status meanwhile, since it goes with
        the job."""
        end = time.monotonic() + seconds
        while self.is_running() and time.monotonic() < end:
            self.look()
            time.sleep(0.3)
        if self.is_running():
            say(f"  {self.title}: not over after {seconds} s")
            self.stop()
        self.reader.join(10)
        return self.process.wait()

    def stop(self):
        if self.process is None or not self.is_running():
            return
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def lines(self):
        """All history lines of the run, by time."""
        found = []
        for path in glob.glob(os.path.join(glob.escape(self.history),
                                           "*.jsonl")):
            with open(path, encoding="utf-8") as file:
                found += [json.loads(line) for line in file
                          if line.endswith("}\n")]
        return sorted(found, key=lambda line: line["t_ns"])


# ---------------------------------------------------------------- on screen

screen = threading.Lock()
is_open_line = False


def say(text):
    global is_open_line
    with screen:
        print(("\n" if is_open_line else "") + text, flush=True)
        is_open_line = False


def show_progress(title, points):
    """One changing line on a terminal; elsewhere a new line now and then."""
    global is_open_line
    step, loss, accuracy, generation, workers = points[-1]
    text = (f"{title:>12}: generation {generation}  {workers} workers  "
            f"step {step:3d}  loss {loss:.4f}  accuracy {accuracy:.4f}")
    with screen:
        if sys.stdout.isatty():
            print("\r" + text, end="", flush=True)
            is_open_line = True
        elif step % 50 == 0 or points[-2:-1] and points[-2][3] != generation:
            print(text, flush=True)


# ------------------------------------------------------------------ the kill

class Kill:
    """Which worker was killed, when, and which workers were left."""

    def __init__(self, training):
        before = training.workers()
        by_rank = sorted(before, key=lambda name: before[name][0])
        self.worker = by_rank[1]
        rank, self.pid = before[self.worker]
        self.survivors = {name: pid for name, (_, pid) in before.items()
                          if name != self.worker}
        self.step, self.generation = (training.points[-1][0],
                                      training.points[-1][3])
        self.at_ns = time.monotonic_ns()
        os.kill(self.pid, signal.SIGKILL)
        say(f"  SIGKILL to worker {self.worker}: rank {rank}, process "
            f"{self.pid}")

    def next_steps(self, lines):
        """{survivor: (ms until its first step that ended without the dead,
        the process that ended it)}."""
        found = {}
        for line in lines:
            if (line["event"] == "step" and line["t_ns"] > self.at_ns
                    and line["worker"] in self.survivors
                    and line["generation"] > self.generation):
                found.setdefault(line["worker"],
                                 ((line["t_ns"] - self.at_ns) / 1e6,
                                  line["pid"]))
        return found


def steps_lost(lines):
    """Committed steps that a later decision rolled back."""
    lost, committed = 0, {}
    for line in lines:
        if line["event"] == "commit":
            generation = line["generation"]
            committed[generation] = max(committed.get(generation, 0),
                                        line["step"])
    for line in lines:
        if line["event"] == "decide":
            before = [step for generation, step in committed.items()
                      if generation < line["generation"]]
            resumed = line["resume"][1] if line["resume"] else 0
            lost = max(lost, max(before, default=0) - resumed)
    return lost


def last_commit(lines):
    commits = [line for line in lines if line["event"] == "commit"]
    return max(commits, key=lambda line: line["step"])["hash"]


# ------------------------------------------------------------------- picture

WIDTH, LEFT, RIGHT = 860, 60, 20
LOSS_TOP, LOSS_BOTTOM, SIZE_TOP, SIZE_BOTTOM = 70, 330, 370, 450
BLUE, GREY, RED, INK = "#1f5fa8", "#b9c3cf", "#c0392b", "#333"


def svg_text(x, y, words, anchor="middle", color=INK):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'fill="{color}">{html.escape(words)}</text>')


def svg_line(x1, y1, x2, y2, color, more=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{color}" {more}/>')


def svg_path(places, color, width):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return (f'<polyline points="{path}" fill="none" stroke="{color}" '
            f'stroke-width="{width}" stroke-linejoin="round"/>')


class Picture:
    """Loss over steps of both runs, the world's size, and generation marks."""

    def __init__(self, calm, hit, kill_step):
        self.calm, self.hit, self.kill_step = calm.points, hit.points, kill_step
        both = calm.points + hit.points
        self.last = max(point[0] for point in both)
        self.top = max(point[1] for point in both)
        self.most = max(point[4] for point in hit.points)

    def x(self, step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.last

    def y(self, loss):
        return LOSS_BOTTOM - (LOSS_BOTTOM - LOSS_TOP) * loss / self.top

    def size_y(self, size):
        return SIZE_BOTTOM - (SIZE_BOTTOM - SIZE_TOP) * size / self.most

    def legend(self):
        return [
            svg_text(LEFT, 24, "Loss over steps, with and without a killed "
                     "worker", "start"),
            svg_line(LEFT, 44, LEFT + 30, 44, GREY, 'stroke-width="7"'),
            svg_text(LEFT + 38, 48, "without a fault", "start"),
            svg_line(LEFT + 160, 44, LEFT + 190, 44, BLUE, 'stroke-width="2"'),
            svg_text(LEFT + 198, 48, "one worker killed", "start")]

    def axes(self):
        out = []
        for i in range(5):
            loss = self.top * i / 4
            out += [svg_line(LEFT, self.y(loss), WIDTH - RIGHT, self.y(loss),
                             "#eee"),
                    svg_text(LEFT - 8, self.y(loss) + 4, f"{loss:.1f}", "end")]
        for size in range(self.most + 1):
            out.append(svg_text(LEFT - 8, self.size_y(size) + 4, str(size),
                                "end"))
        for i in range(6):
            step = self.last * i // 5
            out.append(svg_text(self.x(step), SIZE_BOTTOM + 18, str(step)))
        return out + [svg_text(WIDTH / 2, SIZE_BOTTOM + 38, "step"),
                      svg_text(LEFT, SIZE_TOP - 12, "workers in the world",
                               "start")]

    def curves(self):
        stairs = []
        for before, point in zip([self.hit[0]] + self.hit, self.hit):
            stairs += [(self.x(point[0]), self.size_y(before[4])),
                       (self.x(point[0]), self.size_y(point[4]))]
        return [svg_path([(self.x(point[0]), self.y(point[1]))
                          for point in points], color, width)
                for points, color, width in ((self.calm, GREY, 7),
                                             (self.hit, BLUE, 2))] + [
            svg_path(stairs, BLUE, 2)]

    def marks(self):
        out = []
        for before, point in zip(self.hit, self.hit[1:]):
            if before[3] == point[3]:
                continue
            x = self.x(point[0])
            out += [svg_line(x, LOSS_TOP, x, SIZE_BOTTOM, "#888",
                             'stroke-dasharray="3 4"'),
                    svg_text(x + 4, LOSS_TOP + 10 + 14 * (point[3] % 2),
                             f"generation {point[3]}", "start", "#666")]
        x = self.x(self.kill_step)
        return out + [f'<circle cx="{x:.1f}" cy="{SIZE_TOP - 16}" r="4" '
                      f'fill="{RED}"/>',
                      svg_text(x - 8, SIZE_TOP - 12, "SIGKILL", "end", RED)]

    def svg(self):
        parts = self.legend() + self.axes() + self.curves() + self.marks()
        return (f'<svg xmlns="http://www.w3.org/2000/svg" '
                f'viewBox="0 0 {WIDTH} 500" width="{WIDTH}" height="500" '
                f'font-family="sans-serif" font-size="13">\n'
                f'<rect width="{WIDTH}" height="500" fill="white"/>\n'
                + "\n".join(parts) + "\n</svg>\n")


# ------------------------------------------------------------------- summary

class Claims:
    def __init__(self):
        self.hold = True

    def claim(self, holds, words):
        self.hold = self.hold and holds
        say(f"  [{'ok' if holds else 'NO'}] {words}")


def print_changes(training):
    say("\ngeneration  workers  cause")
    for change in (training.status or {"changes": []})["changes"]:
        say(f"{change['generation']:10d}  {change['from_size']} -> "
            f"{change['to_size']}   {change['cause']}")
    say("")


def summary(calm, hit, kill):
    lines, claims = hit.lines(), Claims()
    print_changes(hit)
    steps = kill.next_steps(lines)
    names = sorted(steps)
    slowest = max((ms for ms, _ in steps.values()), default=float("nan"))
    claims.claim(set(names) == set(kill.survivors),
                 "every survivor stepped on; ms from the kill to its next "
                 "step: " + ", ".join(f"{name} {steps[name][0]:.0f}"
                                      for name in names)
                 + f" (slowest {slowest:.0f})")
    claims.claim(all(steps[name][1] == kill.survivors[name]
                     for name in names),
                 "survivors' PIDs unchanged: " + ", ".join(
                     f"{name} {steps[name][1]}" for name in names))
    last = hit.points[-1]
    claims.claim(last[4] == hit.flags.workers and last[3] >= 3,
                 f"a replacement joined: {last[4]} workers at the end, in "
                 f"generation {last[3]}")
    lost = steps_lost(lines)
    claims.claim(lost == 0, f"committed steps lost: {lost}")
    claims.claim(hit.final[0] >= 0.95,
                 f"final accuracy {hit.final[0]:.4f}, at least 0.95")
    claims.claim(hit.final == calm.final
                 and last_commit(lines) == last_commit(calm.lines()),
                 f"final state {hit.final[1]} equals the fault-free run's "
                 f"{calm.final[1]}")
    return claims.hold


# ---------------------------------------------------------------------- main

def run_calm(flags, folder):
    calm = Training(flags, folder, "no fault")
    try:
        calm.start()
        code = calm.wait(120)
    finally:
        calm.stop()
    if code != 0 or calm.final is None:
        say(f"demo: the run without a fault ended with {code}")
        return None
    return calm


def run_hit(flags, folder):
    """The training and its kill, or None."""
    hit, kill = Training(flags, folder, "one killed"), None
    kill_step = flags.epochs * STEPS_PER_EPOCH // 3
    try:
        hit.start()
        if not hit.wait_for(lambda: hit.step() >= kill_step and
                            len(hit.workers()) == flags.workers, 120):
            say("demo: the job ended before its kill")
            return None
        kill = Kill(hit)
        code = hit.wait(120)
    finally:
        hit.stop()
    if code != 0 or hit.final is None:
        say(f"demo: the run with the kill ended with {code}")
        return None
    return hit, kill


def main():
    flags = parse_flags()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rg-demo-") as folder:
        say(f"elastic_digits on up to {flags.workers} workers, first without "
            "a fault, then with a SIGKILL on the way")
        calm = run_calm(flags, os.path.join(folder, "calm"))
        found = calm and run_hit(flags, os.path.join(folder, "hit"))
        if not found:
            return 1
        hit, kill = found
        holds = summary(calm, hit, kill)
        with open(flags.svg, "w", encoding="utf-8") as file:
            file.write(Picture(calm, hit, kill.step).svg())
    say(f"\npicture: {flags.svg}\n{time.monotonic() - began:.0f} s; "
        + ("everything holds" if holds else "not everything holds"))
    return 0 if holds else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
