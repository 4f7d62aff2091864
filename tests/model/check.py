#!/usr/bin/env python3
"""Verify the models: of the generation protocol, of the first world before
rg_run, of shards and their copies, of parts that lie on hosts which are cut
off, of the end of a generation on the device, and of launches under --mpi; and
that they can fail.

Every setting below is explored to its end with spin: the protocol as it is has
no violation in any of them, and each mutant, which breaks one rule, has one.
Prints a table; ends with 1 when a verdict is not the expected one, and with 77
when spin or a C compiler is missing.

    check.py            all settings but the long ones
    check.py NAME...    these only, with the trace of a violation
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
MEMORY_MB = 2000
SECONDS = 600  # for one program; all settings together need a tenth of it
DEPTH = 2000   # of the longest run; none is longer than 200

TWO_HOSTS = "NH=2 NW=3 HM0=1 HM1=6 INIT=3 NEWC=2"
ONE_HOST = "NH=1 NW=3 HM0=7 HM1=0 INIT=3 NEWC=2"
TWO_WORKERS = "NH=2 NW=2 HM0=1 HM1=2 INIT=3 NEWC=2"
TWO_ON_ONE = "NH=1 NW=2 HM0=3 HM1=0 INIT=3 NEWC=2"
THREE_WORKERS = "NH=2 NW=3 HM0=1 HM1=6 INIT=7 NEWC=3"
GROWS = "NH=2 NW=2 HM0=1 HM1=2 INIT=1 NEWC=1"
SPARE = "NH=2 NW=2 HM0=1 HM1=2 INIT=2 NEWC=0 SPARE=1"

# name, what it is about, its constants. Each number of faults is a setting of
# its own: with more faults at hand a deadlock hides behind the next fault.
PROTOCOL = [
    ("calm", "a leader change, a newcomer", f"{TWO_HOSTS} F=0 LC=1"),
    ("death", "a death, a leader change", f"{TWO_HOSTS} F=1 LC=1"),
    ("plain", "step 1 is not committed", f"{TWO_HOSTS} F=1 LC=0 PLAIN=2"),
    ("two deaths", "one leader", f"{TWO_HOSTS} F=2 LC=0"),
    ("broken", "a death, a report of broken", f"{TWO_HOSTS} F=1 B=1 LC=0"),
    ("one host", "one death", f"{ONE_HOST} F=1 LC=0"),
    ("one host, two", "two deaths", f"{ONE_HOST} F=2 LC=0"),
    ("absence", "a host is cut off while its workers live",
     f"{TWO_WORKERS} F=1 LC=0 AWAY=1"),
    ("absence, broken", "and a report of broken",
     f"{TWO_WORKERS} F=0 B=1 LC=0 AWAY=1 GOES=3"),
    ("absence, three", "two of three workers are cut off",
     f"{TWO_HOSTS} F=0 LC=0 AWAY=1"),
    ("two absences", "either host, twice",
     f"{TWO_WORKERS} F=0 LC=0 AWAY=2 GOES=3"),
    ("power", "a host that is cut off may lose vault and workers",
     f"{TWO_WORKERS} F=1 LC=0 AWAY=1 GOES=3 POWER=1"),
    ("power, leaders", "and the leader changes",
     f"{TWO_WORKERS} F=0 LC=1 AWAY=1 GOES=3 POWER=1"),
    ("spare", "a spare host leads while the world is cut off",
     f"{SPARE} F=0 LC=1 AWAY=1"),
    ("spare, power", "and may be without its vault when it is back",
     f"{SPARE} F=0 LC=0 AWAY=2 GOES=3 POWER=1"),
    ("no_etcd", "etcd falls silent to one of two hosts, for good",
     f"{TWO_WORKERS} F=0 LC=0 AWAY=1 GOES=3 NO_ETCD=1"),
    ("agent", "an agent is killed, one host, a death",
     f"{TWO_ON_ONE} F=1 LC=0 AK=1"),
    ("agents", "two are, one behind the other", f"{TWO_ON_ONE} F=1 LC=0 AK=2"),
    ("agent, leaders", "on either of two hosts; the leader changes",
     f"{THREE_WORKERS} F=0 LC=1 AK=1"),
    ("agent, newcomer", "and a newcomer is at the door",
     f"{TWO_HOSTS} F=0 LC=0 AK=1"),
    ("drain", "a host leaves, a worker dies",
     f"{TWO_HOSTS} F=1 LC=0 DRAIN=1"),
    ("drain, again", "either of two hosts' workers dies",
     f"{TWO_WORKERS} F=1 LC=1 DRAIN=1"),
    ("drain, newcomer", "to which the commit goes; the leader changes",
     f"{GROWS} F=0 LC=1 DRAIN=1"),
    ("restore", "in two steps, or not at all after an agreed leave",
     f"{TWO_HOSTS} F=1 LC=0 CLEAN=1"),
    ("restore, power", "the same beside absences",
     f"{TWO_WORKERS} F=0 LC=0 AWAY=2 GOES=3 POWER=1 CLEAN=1"),
    ("below min", "one worker is not enough, and the job is given up",
     f"{TWO_WORKERS} MIN=2 F=1 LC=1 AWAY=1 GOES=3 POWER=1"),
    ("offers", "a proposal is said before it is recorded; two leaders",
     f"{TWO_WORKERS} F=1 LC=1 OFFERS=1"),
    ("offers, two", "two deaths", f"{TWO_WORKERS} F=2 LC=0 OFFERS=1"),
    ("offers, one host", "a death, a newcomer", f"{ONE_HOST} F=1 LC=0 OFFERS=1"),
    ("offers, newcomer", "the same on two hosts",
     f"{TWO_HOSTS} F=1 LC=0 OFFERS=1"),
    ("offers, absence", "a host is cut off, a death",
     f"{TWO_WORKERS} F=1 LC=0 AWAY=1 OFFERS=1"),
    ("offers, agent", "an agent is killed, a death",
     f"{TWO_ON_ONE} F=1 LC=0 AK=1 OFFERS=1"),
    ("reason", "an agent is killed that alone knows why a generation ended",
     f"{TWO_WORKERS} F=0 LC=0 AK=1 SOFT=1"),
    ("offers, reason", "and may have offered the next one",
     f"{TWO_WORKERS} F=0 LC=0 AK=1 SOFT=1 OFFERS=1"),
    ("repeats", "a step that no rank has reported is done again",
     f"{TWO_HOSTS} F=1 LC=1 REPEATS=1"),
    ("repeats, power", "beside absences",
     f"{TWO_WORKERS} F=0 LC=0 AWAY=2 GOES=3 POWER=1 REPEATS=1"),
    ("repeats, offers", "and offers",
     f"{TWO_WORKERS} F=1 LC=1 OFFERS=1 REPEATS=1"),
]
# Of more than a million states, for which an optimiser pays.
LARGE = {"death", "two deaths", "broken", "one host, two", "drain",
         "restore, power", "offers, absence", "repeats", "repeats, power"}
# Violated sooner with the processes in the other order.
BACKWARD = {"SKIP", "RECEIVER_KEEPS_NEWEST", "RECEIVER_OVERWRITES",
            "ONLY_HOSTS_WITH_MEMBERS"}
# Of copies.pml.
COPIES = [
    ("copies", "three hosts, a copy of each shard", "N=3"),
    ("copies, two hosts", "each has the other's", "N=2"),
    ("copies, two slots", "slower, and as safe", "N=3 SLOTS=2"),
    ("copies, two of each", "any two of three hosts may be lost",
     "N=3 REPLICAS=2 S=4 SLOTS=2"),
]
# Of device_abort.pml.
DEVICE = [("device", "launches, an abort, a commit", "")]
# Of first_world.pml.
FIRST = [
    ("first world", "a worker on each of two hosts, two deaths",
     "NW=2 HM0=1 F=2"),
    ("first world, three", "three workers on two hosts, a death",
     "NW=3 HM0=3 F=1"),
]
# Of launch.pml.
LAUNCH = [
    ("launches", "two leaders, a death", "F=1"),
    ("launches, two", "two deaths", "F=2"),
]
# Of parts.pml.
PARTS = [
    ("parts", "holders are cut off, and lose their leases", "CUTS=3 POWER=0"),
    ("parts, power", "one comes back without its vault", "CUTS=2 POWER=1"),
]
# Two minutes and 1.6 GB, with 32 bits of a hash for a state: not in every run.
LONG = [
    ("two deaths, leaders", "two deaths, a leader change",
     f"{TWO_HOSTS} F=2 LC=1"),
    ("offers, leaders", "two deaths, a leader change",
     f"{TWO_WORKERS} F=2 LC=1 OFFERS=1"),
]
# name, the invariant that it must break, what it does, its constants
MUTANTS = [
    ("FORGETS_REASON", "f", "forgets why workers were told to leave",
     f"{TWO_ON_ONE} F=0 LC=0 AK=1 SOFT=1"),
    ("SKIP_DECISION", "f", "prepares g+1 without delivering decision g",
     f"{TWO_HOSTS} F=0 LC=1"),
    ("DONE_ONLY_IF_DECIDED", "f", "an announced g+1 hides that g has finished",
     f"{TWO_HOSTS} F=0 LC=1"),
    ("ONLY_HOSTS_WITH_MEMBERS", "f", "hosts without members do not ack",
     f"{TWO_HOSTS} F=2 LC=0"),
    ("NO_FENCE", "d", "acks while a worker may still store for g",
     f"{TWO_HOSTS} F=1 LC=1"),
    ("ACK_EARLY", "d", "acks before its members have left g",
     f"{TWO_HOSTS} F=0 LC=1"),
    ("NO_CAS", "a", "writes what it planned without comparing",
     f"{TWO_HOSTS} F=1 LC=1"),
    ("CHANGE_AFTER_DONE", "e", "proposes g+1 though g is done",
     f"{ONE_HOST} F=1 LC=0"),
    ("MOST_STEPS", "b", "resumes from the most steps, not the lineage",
     f"{TWO_WORKERS} F=0 LC=0 AWAY=2 GOES=3"),
    ("RECEIVER_OVERWRITES", "l", "a receiver saves over what it has",
     f"{TWO_WORKERS} F=1 LC=0 AWAY=1 GOES=3 POWER=1"),
    ("RECEIVER_KEEPS_NEWEST", "l", "keeps what is newest, on the lineage or not",
     f"{TWO_WORKERS} F=0 LC=0 AWAY=2 GOES=3 POWER=1"),
    ("LEAVES_EARLY", "l", "leaves before the others have the commit",
     f"{GROWS} F=0 LC=0 DRAIN=1"),
    ("STAYS_CLEAN", "c", "does not restore a memory that has moved on",
     f"{TWO_HOSTS} F=1 LC=0 CLEAN=1"),
    ("NO_WITNESS", "l", "decides without a host of the world before",
     f"{SPARE} F=0 LC=0 AWAY=1"),
    ("ANY_WITNESS", "l", "takes any host for one of the world before",
     f"{SPARE} F=0 LC=0 AWAY=2 GOES=3"),
    ("ANY_INCARNATION", "l", "takes another incarnation for the host",
     f"{SPARE} F=0 LC=0 AWAY=1 POWER=1"),
    ("NO_RECORD", "b", "reports commit 0 without the record",
     f"{SPARE} F=0 LC=0 AWAY=1"),
    ("ANY_RECORD", "b", "takes the record of a later world for its own",
     f"{SPARE} F=0 LC=0 AWAY=1"),
    ("RESUME_WITHOUT_RECORD", "b", "resumes from a commit, and records nothing",
     f"{SPARE} F=0 LC=0 AWAY=2 GOES=3"),
    ("UNGUARDED_RECORD", "b", "records without comparing `cur`",
     f"{SPARE} F=0 LC=0 AWAY=1"),
    ("RECORD_IS_AWAITED", "f", "waits for the record of a host without etcd",
     f"{TWO_WORKERS} F=0 LC=0 AWAY=1 NO_ETCD=1 GOES=1"),
    ("UNGUARDED_END", "m", "ends the job without comparing",
     f"{TWO_WORKERS} MIN=2 F=0 LC=1 AWAY=1 GOES=3"),
    ("TAKES_UP_HALF", "f", "goes on with what only some members were told",
     f"{TWO_ON_ONE} F=0 LC=0 AK=1"),
    ("FORGETS_OFFER", "a", "takes another proposal for what it was offered",
     f"{TWO_WORKERS} F=1 LC=1 OFFERS=1"),
    ("ACK_OF_ANY", "f", "counts an ack of an offer for another proposal",
     f"{TWO_WORKERS} F=1 LC=1 OFFERS=1"),
    ("ANY_START", "f", "takes what is in a dead worker's slot now for dead",
     f"{TWO_HOSTS} F=2 LC=0 OFFERS=1"),
    ("STEPS_WHEN_EXPECTED", "d", "enters fn before the decision is on record",
     f"{ONE_HOST} F=1 LC=0 OFFERS=1"),
    ("FETCHES_AGAIN", "k", "fetches again what the agent before has fetched",
     f"{GROWS} F=0 LC=0 AK=1"),
    ("REPEATS_BY_ANY", "b", "goes back to what a vault that began again holds",
     f"{TWO_WORKERS} F=0 LC=0 AWAY=2 GOES=3 POWER=1 REPEATS=1"),
    ("EARLY_RESTORE", "c", "restores on leaving, not on the decision",
     f"{ONE_HOST} F=1 LC=0"),
    ("EARLY_REUSE", "l", "frees the slot under way on leaving",
     f"{ONE_HOST} F=1 LC=0"),
]
COPIES_MUTANTS = [
    ("LET_GO_AGREED", "h", "frees what is older than the newest commit",
     "N=3"),
    ("LET_GO_OWN", "h", "frees by its own copies, not by those of all", "N=3"),
    ("SKIP", "h", "copies the newest commit and leaves others out",
     "N=3 REPLICAS=2 S=3"),
    ("EARLY", "k", "copies a commit before it counts", "N=3"),
]
FIRST_MUTANTS = [
    ("NO_RECALL", "q", "lets processes of a world that ended live",
     "NW=2 HM0=1 F=1"),
    ("KEEPS_PROCESS", "r", "lets them call rg_world_wait again",
     "NW=2 HM0=1 F=1"),
    ("JOINS_EARLY", "q", "says RG_JOINING before the first commit",
     "NW=2 HM0=1 F=1"),
    ("DECISION_COMES_FIRST", "s", "says RG_OK in a world that resumes",
     "NW=2 HM0=1 F=1"),
    ("NOBODY_IS_TOLD", "f", "does not say that the job has begun",
     "NW=2 HM0=1 F=0"),
    ("WAITERS_JOIN", "q", "gives waiting workers a place in a running job",
     "NW=2 HM0=1 F=1"),
    ("FIRST_WHILE_IT_LIVES", "q", "adds newcomers to a first world that lives",
     "NW=2 HM0=1 F=1"),
    ("FIRST_FOR_EVER", "q", "forgets the record when it decides",
     "NW=2 HM0=1 F=1"),
    ("LATE_RECORD", "q", "records commit 0 of a world that has ended",
     "NW=2 HM0=1 F=1"),
]
LAUNCH_MUTANTS = [
    ("NO_SWEEP", "t", "launches without the word of all hosts", "F=2"),
    ("EARLY_WORD", "t", "says swept while a rank lives", "F=2"),
    ("LATE_RANK", "f", "takes a rank of a launch that is over", "F=2"),
    ("NO_GUARD", "t", "writes without comparing what it planned from", "F=2"),
    ("DEAF", "f", "does not hear that a launch is over", "F=1"),
    ("STAYS", "f", "does not leave where a process does not end", "F=1"),
]
PARTS_MUTANTS = [
    ("NO_PLACE", "u", "names no source for what has no record",
     "CUTS=1 POWER=0"),
    ("FORGETS", "v", "waits for no holder without record and place",
     "CUTS=2 POWER=0"),
]
DEVICE_MUTANTS = [
    ("FREE_FIRST", "p", "frees before it knows which threads are inside", ""),
    ("LOCK_FIRST", "f", "takes the locks before it marks", ""),
    ("READ_EARLY", "n", "looks at `closing` before the word", ""),
    ("LATE_CLOSE", "n", "stores `closing` after the marks", ""),
    ("NO_LOOK", "p", "comes in without a look at `closing`", ""),
    ("NO_COUNT", "p", "frees while a thread is inside", ""),
    ("ONE_BY_ONE", "f", "marks a lane when the one before is freed", ""),
    ("EARLY_NEXT", "p", "restores before all words are written", ""),
    ("PEER_EARLY", "o", "agrees before its device is done", ""),
    ("TRUST_OK", "o", "commits by the OKs of one rank", ""),
]
# How the verifier words the claims of each invariant.
CLAIMS = [
    ("u", r"source\["),
    ("v", r"violated +!\(+has"),
    ("t", r"rank\[\(1-h\)\]"),
    ("f", r"^assertion violated .*number==4"),
    ("q", r"^assertion violated (0|\(mem\[w\]==begun\))$"),
    ("r", r"^assertion violated \(once\[w\]==0\)"),
    ("s", r"^assertion violated \(resume\[gen\[w\]\]==0\)"),
    ("f", r"^assertion violated .*st\[0\]==8"),
    ("m", r"plan_cur\[h\]==cur\)&&\(plan_phase"),
    ("a", r"plan_cur\[h\]==cur|cur<=|decided>>cur|built_op"),
    ("b", r"==\(reported/4\)|==\(x/4\)"),
    ("l", r"plan_arg\[h\]!=0|had&|>=reported\)|violated \(\(reported==0\)\|\|\(? ?!"),
    ("c", r"memory\[w\]=="),
    ("d", r"ack\[h\]<=gen\[w\]|decided>>gen|state\[j\]"),
    ("h", r"i>=reported_safe"),
    ("g", r"i>=reported\b"),
    ("k", r"^assertion violated \(piece\[.*\]==0\)|own\[.*\]==c"),
    ("i", r"newest\[i\]==|m==\d"),
    ("n", r"peer_caused"),
    ("o", r"rubbish\[0\]"),
    ("p", r"^assertion violated\s+(\(|)!\(?(restored|freed|inside)"),
    ("f", r"phase>=2\)\|\||invalid end state"),
    ("e", r"phase!=2|phase<2"),
]


def run(folder, *command):
    """(exit status, output); a program that does not end is an error."""
    done = subprocess.run(command, cwd=folder, timeout=SECONDS, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    return done.returncode, done.stdout


def must(folder, *command):
    code, output = run(folder, *command)
    if code != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{output}")


def model_of(name):
    for model, entries in (("copies.pml", COPIES + COPIES_MUTANTS),
                           ("device_abort.pml", DEVICE + DEVICE_MUTANTS),
                           ("first_world.pml", FIRST + FIRST_MUTANTS),
                           ("launch.pml", LAUNCH + LAUNCH_MUTANTS),
                           ("parts.pml", PARTS + PARTS_MUTANTS)):
        if any(name == entry[0] for entry in entries):
            return model
    return "generation.pml"


def compiler(kind):
    """What builds a verifier, and the bits of its hash table. Where little is
    explored most of the time would be the compiler's: tcc takes a twentieth of
    clang's, for a verifier that takes a quarter longer."""
    quick = ["tcc"] if shutil.which("tcc") else ["gcc", "-O0"]
    best = "clang" if shutil.which("clang") else "gcc"
    return {"large": ([best, "-Os"], 24),
            "backward": ([*quick, "-DREVERSE"], 22),
            "long": (["gcc", "-O2", "-DHC4"], 26)}.get(kind, (quick, 22))


def explore(model, constants, kind, folder):
    """Build the verifier of one setting and run it; its report."""
    shutil.copy(os.path.join(FOLDER, model), folder)
    flags = [f"-D{constant}" for constant in constants.split()]
    must(folder, "spin", *flags, "-a", model)
    how, buckets = compiler(kind)
    # States are not compressed: there is room, and it takes time.
    must(folder, *how, "-w", "-DSAFETY", "-DNOCOMP", f"-DMEMLIM={MEMORY_MB}",
         "-o", "pan", "pan.c")
    return run(folder, "./pan", f"-m{DEPTH}", f"-w{buckets}")[1]


def verdict(report):
    """(states, violated claim or None); RuntimeError when the search is
    partial."""
    states = re.search(r"(\d+) states, stored", report)
    errors = re.search(r"errors: (\d+)", report)
    claim = re.search(r"^pan:\d+: (.*?)(?: \(at depth \d+\))?$", report,
                      re.MULTILINE)
    if states is None or errors is None:
        raise RuntimeError(f"the verifier gave no verdict:\n{report}")
    if errors.group(1) != "0":
        return int(states.group(1)), claim.group(1)
    if "max search depth too small" in report or "out of memory" in report or \
            "Search not completed" in report:
        raise RuntimeError(f"the search is not complete:\n{report}")
    return int(states.group(1)), None


def invariant_of(claim):
    return next((letter for letter, pattern in CLAIMS
                 if re.search(pattern, claim)), "?")


def judged(claim, expected):
    """The verdict in words, and whether it is the expected one: a letter for a
    mutant, None for the protocol."""
    if claim is None:
        return ("holds", True) if expected is None else ("NOT CAUGHT", False)
    letter = invariant_of(claim)
    if expected is None:
        return f"VIOLATED ({letter}): {claim}", False
    if letter != expected:
        return f"VIOLATED ({letter}), not ({expected}): {claim}", False
    return f"caught by ({letter})", True


def trace(model, constants, folder):
    flags = [f"-D{constant}" for constant in constants.split()]
    told = run(folder, "spin", *flags, "-t", model)[1]
    return told.partition("spin: trail ends")[0]


def check(name, about, constants, kind, expected, with_trace):
    """One line of the table; whether the verdict is the expected one."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rg-model-") as folder:
        states, claim = verdict(
            explore(model_of(name), constants, kind, folder))
        seconds = time.monotonic() - begin
        said, is_right = judged(claim, expected)
        print(f"{name:<24} {about:<44} {states:>9} {seconds:>6.1f}  {said}",
              flush=True)
        if with_trace and claim is not None:
            print(trace(model_of(name), constants, folder))
    return is_right


def size_of(name):
    return "large" if name in LARGE else \
        "backward" if name in BACKWARD else "small"


def settings(names):
    """[(name, about, constants, kind, broken invariant)]"""
    every = [(*entry, size_of(entry[0]), None)
             for entry in PROTOCOL + COPIES + DEVICE + FIRST + LAUNCH + PARTS] + \
        [(*entry, "long", None) for entry in LONG] + \
        [(name, about, f"MUT_{name} {constants}", size_of(name), letter)
         for name, letter, about, constants in
         MUTANTS + COPIES_MUTANTS + DEVICE_MUTANTS + FIRST_MUTANTS +
         LAUNCH_MUTANTS + PARTS_MUTANTS]
    unknown = set(names) - {entry[0] for entry in every}
    if unknown:
        sys.exit(f"check.py: no setting is called {', '.join(sorted(unknown))}")
    return [entry for entry in every if entry[0] in names or
            (not names and entry[3] != "long")]


def main():
    chosen = settings(sys.argv[1:])
    for program in ("spin", "gcc"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed")
            sys.exit(77)
    print(f"{'setting':<24} {'about':<44} {'states':>9} {'s':>6}  verdict")
    wrong = [entry[0] for entry in chosen
             if not check(*entry, with_trace=len(sys.argv) > 1)]
    if wrong:
        sys.exit(f"check.py: not as expected: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
