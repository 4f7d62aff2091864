"""Small faults in the code, one at a time: does a test notice? See README.md
for the tables, ci/mutants --help for the flags."""

import argparse
import collections
import contextlib
import fnmatch
import glob
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PRESET = "dev"
ENOUGH = 0.9
# A test hangs that takes so many times as long, and so many seconds.
HANGS_TIMES, HANGS_S = 5, 20
# What tests written in Python start.
PRODUCTS = ("bin/regroup", "lib/libregroup.so", "tests/trainer",
            "tests/reducer", "tests/differ", "tests/kinds",
            "tests/kinds_without_kernels")


class Wrong(Exception):
    """A mutant that can't be judged, and why."""


# ---------------------------------------------------------------- the tables


class Mutant:
    """One entry of a table."""

    def __init__(self, room):
        self.room = room
        self.words = collections.defaultdict(str)  # by keyword
        self.change = []  # (" ", "-" or "+", line without indentation)

    @property
    def name(self):
        return f"{self.room}/{self.words['mutant']}"

    @property
    def file(self):
        return self.words["file"]

    def complete(self):
        missing = [word for word in ("mutant", "file", "breaks")
                   if not self.words[word]]
        if bool(self.words["tests"]) == bool(self.words["equivalent"]):
            missing.append("tests (or equivalent)")
        if not any(kind != " " for kind, _ in self.change):
            missing.append("change")
        if missing:
            raise Wrong(f"{self.name} lacks its {', '.join(missing)}")

    def place(self, lines):
        """Where its old lines begin; they are there once."""
        old = [line for kind, line in self.change if kind != "+"]
        bare = [line.strip() for line in lines]
        found = [at for at in range(len(bare) - len(old) + 1)
                 if bare[at:at + len(old)] == old]
        if not old or len(found) != 1:
            raise Wrong(f"{self.name} applies to {len(found)} places of "
                        f"{self.file}, not to one; write its old lines as they "
                        "are there now, with enough around them")
        return found[0]

    def mutated(self, text):
        lines = text.splitlines(keepends=True)
        at = self.place(lines)
        out, indent = lines[:at], ""
        for kind, line in self.change:
            if kind == "+":
                out.append(f"{indent}{line}\n")
                continue
            indent = re.match(r"\s*", lines[at]).group().rstrip("\n")
            if kind == " ":
                out.append(lines[at])
            at += 1
        return "".join(out + lines[at:])


KEYWORDS = ("mutant", "file", "breaks", "tests", "build", "equivalent")


def read_table(path):
    room = os.path.splitext(os.path.basename(path))[0]
    mutants = []
    with open(path, encoding="utf-8") as table:
        for number, line in enumerate(table, 1):
            line = line.rstrip("\n")
            keyword, _, value = line.partition(" ")
            if keyword == "mutant":
                mutants.append(Mutant(room))
            if line.startswith("#") or not line:
                continue
            if mutants and line[0] in " -+":
                mutants[-1].change.append((line[0], line[1:].strip()))
            elif mutants and keyword in KEYWORDS and value:
                gap = " " if mutants[-1].words[keyword] else ""
                mutants[-1].words[keyword] += gap + value
            else:
                raise Wrong(f"{path}:{number}: {line!r} is no line of a mutant")
    for mutant in mutants:
        mutant.complete()
    return mutants


def read_tables(only):
    mutants = [m for path in sorted(glob.glob(os.path.join(HERE, "*.mutants")))
               for m in read_table(path)]
    names = collections.Counter(m.name for m in mutants)
    for name, n in names.items():
        if n > 1:
            raise Wrong(f"{name} is there {n} times; give each its own name")
    return [m for m in mutants if re.search(only, m.name)]


def read_source(tree, file):
    try:
        with open(os.path.join(tree, file), encoding="utf-8") as source:
            return source.read()
    except OSError as error:
        raise Wrong(f"{file}: {error.strerror}") from error


# --------------------------------------------------------------------- tests


def tests_of(build):
    """What ctest knows there: {name: command}."""
    shown = subprocess.run(["ctest", "--test-dir", build,
                            "--show-only=json-v1"],
                           capture_output=True, text=True, check=True)
    return {test["name"]: test.get("command", [])
            for test in json.loads(shown.stdout)["tests"]}


def named(mutant, tests):
    """Those that it names, in its order: a list for each of its words."""
    found = [fnmatch.filter(tests, word)
             for word in mutant.words["tests"].split()]
    for word, names in zip(mutant.words["tests"].split(), found):
        if not names:
            raise Wrong(f"{mutant.name}: no test is called {word}")
    return found


def flat(lists):
    return {name for names in lists for name in names}


def targets_of(mutant, tests, build):
    """Files of the build that its tests need, which Ninja knows by name."""
    needed = set(mutant.words["build"].split())
    for name in flat(named(mutant, tests)):
        for word in tests[name]:
            if word.startswith(build + os.sep):
                needed.add(os.path.relpath(word, build))
            elif word.endswith(".py"):
                needed.update(PRODUCTS)
    return sorted(needed)


RUNNING = set()  # process groups


def end(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    RUNNING.discard(group)


class Tree:
    """A copy of the tree, with a build that stays for the next time."""

    def __init__(self, path):
        self.path = path
        self.build = os.path.join(path, "build", PRESET)
        self.tests = {}
        self.took = {}  # seconds, without a mutant

    def fill(self):
        """Make it like the user's tree; what is equal keeps its time."""
        listed = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-coz", "--exclude-standard"],
            capture_output=True, check=True).stdout.decode().split("\0")
        files = [f for f in listed if os.path.isfile(os.path.join(ROOT, f))]
        for file in files:
            self.copy(file)
        for file in self.stale(set(files)):
            os.remove(os.path.join(self.path, file))

    def copy(self, file):
        source, to = os.path.join(ROOT, file), os.path.join(self.path, file)
        with contextlib.suppress(FileNotFoundError), \
                open(source, "rb") as ours, open(to, "rb") as theirs:
            if ours.read() == theirs.read():
                return
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copyfile(source, to)
        shutil.copymode(source, to)

    def stale(self, files):
        for folder, folders, names in os.walk(self.path):
            if folder == self.path:
                folders[:] = [f for f in folders if f != "build"]
            for name in names:
                file = os.path.relpath(os.path.join(folder, name), self.path)
                if file not in files:
                    yield file

    def run(self, *command, limit_s=None):
        """Output and code; nothing that it started is left. None: it did not
        end in time."""
        with subprocess.Popen(command, cwd=self.path, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL,
                              start_new_session=True) as process:
            RUNNING.add(process.pid)
            try:
                output, _ = process.communicate(timeout=limit_s)
                code = process.returncode
            except subprocess.TimeoutExpired:
                output, code = "", None
            end(process.pid)
        return output, code

    def prepare(self):
        """Build all: ctest knows the commands of what is built."""
        self.fill()
        output, code = self.run("cmake", "--preset", PRESET)
        if code != 0:
            raise Wrong(f"configuring failed\n{output}")
        self.make()
        self.tests = tests_of(self.build)

    def make(self, targets=()):
        output, code = self.run("cmake", "--build", self.build,
                                *(("--target", *targets) if targets else ()))
        if code != 0:
            raise Wrong(f"it does not build\n{output[-3000:]}")

    def test(self, names, *flags, limit_s=None):
        """Names of tests by status: run, fail, notrun (skipped). None: they
        did not end in time."""
        report = os.path.join(self.build, "mutants.xml")
        with contextlib.suppress(FileNotFoundError):
            os.remove(report)
        _, code = self.run(
            "ctest", "--test-dir", self.build, "--output-junit", report,
            "-R", f"^({'|'.join(map(re.escape, names))})$", *flags,
            limit_s=limit_s)
        if code is None:
            return None
        by_status = collections.defaultdict(list)
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            name = case.get("name")
            by_status[case.get("status")].append(name)
            self.took.setdefault(name, float(case.get("time")))
        return by_status

    def notices(self, lists):
        """"killed" and by which test, or what else came of it."""
        has_run = False
        for names in lists:
            limit_s = HANGS_S + HANGS_TIMES * sum(self.took[n] for n in names)
            came = self.test(names, "--stop-on-failure", limit_s=limit_s)
            if came is None:
                return "killed", f"by {names[0]}, which does not end"
            if came["fail"]:
                return "killed", f"by {came['fail'][0]}"
            has_run = has_run or bool(came["run"])
        return ("SURVIVED", "") if has_run else ("skipped",
                                                 "its tests can't run here")

    @contextlib.contextmanager
    def mutated(self, mutant):
        path = os.path.join(self.path, mutant.file)
        text = read_source(self.path, mutant.file)
        changed = mutant.mutated(text)
        try:
            with open(path, "w", encoding="utf-8") as source:
                source.write(changed)
            yield
        finally:
            with open(path, "w", encoding="utf-8") as source:
                source.write(text)


# ---------------------------------------------------------------------- runs


class Run:
    """All mutants, by as many threads as there are trees."""

    def __init__(self, mutants, folder, jobs):
        self.trees = [Tree(os.path.join(folder, str(i))) for i in range(jobs)]
        self.left = queue.Queue()
        self.count = collections.Counter()
        self.broken = set()  # tests that fail without any mutant
        self.lock = threading.Lock()
        self.mutants = [m for m in mutants if not m.words["equivalent"]]
        for mutant in self.mutants:
            self.left.put(mutant)

    def prepare(self):
        """The tests must pass before a mutant may be what they fail for."""
        for tree in self.trees:
            tree.prepare()
        first = self.trees[0]
        names = set().union(*(flat(named(m, first.tests))
                              for m in self.mutants))
        failed = first.test(names, f"-j{len(self.trees)}")["fail"]
        if failed:  # perhaps of the load
            failed = first.test(failed)["fail"]
        self.broken = set(failed)
        for tree in self.trees[1:]:
            tree.took = dict(first.took)

    def say(self, mutant, what, detail, begin):
        with self.lock:
            self.count[what] += 1
            print(f"{mutant.name:46} {what:9} {time.monotonic() - begin:5.1f} s"
                  f"  {detail}", flush=True)

    def judge(self, tree, mutant):
        begin = time.monotonic()
        try:
            names = named(mutant, tree.tests)
            if self.broken & flat(names):
                raise Wrong(f"{' '.join(self.broken & flat(names))} fails "
                            "without it")
            with tree.mutated(mutant):
                tree.make(targets_of(mutant, tree.tests, tree.build))
                what, by = tree.notices(names)
        except Wrong as error:
            what, by = "WRONG", str(error)
        self.say(mutant, what, by or f"{mutant.file}: {mutant.words['breaks']}",
                 begin)

    def work(self, tree):
        with contextlib.suppress(queue.Empty):
            while True:
                self.judge(tree, self.left.get_nowait())

    def go(self):
        self.prepare()
        threads = [threading.Thread(target=self.work, args=(tree,),
                                    daemon=True)
                   for tree in self.trees]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        killed, survived = self.count["killed"], self.count["SURVIVED"]
        share = killed / max(1, killed + survived)
        print(f"{killed} of {killed + survived} mutants were noticed, "
              f"{100 * share:.0f} %; {self.count['skipped']} skipped, "
              f"{self.count['WRONG']} wrong")
        return 0 if share >= ENOUGH and not self.count["WRONG"] else 1


def check(mutants, build):
    """Text only: each applies, and its tests are there."""
    tests = tests_of(build) if build else None
    faults = 0
    for mutant in mutants:
        try:
            mutant.mutated(read_source(ROOT, mutant.file))
            if tests is not None and mutant.words["tests"]:
                named(mutant, tests)
        except Wrong as error:
            print(error)
            faults += 1
    rooms = collections.Counter(m.room for m in mutants)
    print(f"{len(mutants) - faults} of {len(mutants)} mutants apply: "
          + ", ".join(f"{room} {n}" for room, n in rooms.items()))
    return 1 if faults else 0


def show(mutants):
    for mutant in mutants:
        why = mutant.words["equivalent"]
        print(f"{mutant.name}: {mutant.file}\n    {mutant.words['breaks']}\n"
              f"    {f'equivalent: {why}' if why else mutant.words['tests']}")
    return 0


def main():
    flags = argparse.ArgumentParser(prog="ci/mutants", add_help=False)
    flags.add_argument("--only", default="")
    flags.add_argument("--jobs", type=int, default=1)
    flags.add_argument("--dir", default=os.path.join(ROOT, "build", "mutants"))
    flags.add_argument("--build")
    flags.add_argument("--list", action="store_true")
    flags.add_argument("--check", action="store_true")
    chosen = flags.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        mutants = read_tables(chosen.only)
        if chosen.list:
            return show(mutants)
        if chosen.check:
            return check(mutants, chosen.build)
        return Run(mutants, os.path.abspath(chosen.dir), chosen.jobs).go()
    except Wrong as error:
        print(f"ci/mutants: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        for group in list(RUNNING):
            end(group)
        return 130


if __name__ == "__main__":
    sys.exit(main())
