#!/usr/bin/env python3
"""Check the histories of jobs, each by itself: the invariants of README.md.

    check_history.py DIR [--samples COUNT --batch B [--epochs E]]
                         [--bound SECONDS] [--min N] [--lost N] [--final-hash]

DIR holds one file of JSON lines per worker process, as `--history DIR` writes
them; a job of several hosts has a folder below it for each agent. Ends with 0
and a line of summary for each job when all invariants hold, with 1 and a
sentence per violation when one does not, with 64 on wrong usage.
As a module: check(DIR, ...) returns the list of violations.
"""

import argparse
import bisect
import collections
import glob
import json
import os
import sys
import typing

EVENTS = ("load", "join", "decide", "restore", "sync", "step", "commit",
          "stored", "leave")
NUMBERS = ("t_ns", "pid", "generation", "rank", "size", "step")
BOUND_S = 60.0
SCAN = json.JSONDecoder().scan_once


class Violation(typing.NamedTuple):
    invariant: int  # 1 to 7; 0: a history can't be read
    sentence: str

    def __str__(self):
        return f"invariant {self.invariant}: {self.sentence}"


class Process:
    """One worker process: its lines in the order of writing."""

    def __init__(self, name):
        self.name = name
        self.events = []
        self.decides = {}  # generation: its decide line
        self.last_step = {}  # generation: the newest step that it ended there
        self.commits = {}  # (generation, step): commit line
        self.stored = {}  # the same of stored lines
        self.loaded = 0  # step of the checkpoint that it loaded
        self.job = None  # its id

    def note(self, event):
        self.events.append(event)
        generation, kind = event["generation"], event["event"]
        if kind == "decide":
            self.decides.setdefault(generation, event)
            self.job = event.get("job")
        elif kind == "step":
            self.last_step[generation] = max(
                event["step"], self.last_step.get(generation, 0))
        elif kind == "commit":
            self.commits.setdefault((generation, event["step"]), event)
        elif kind == "stored":
            self.stored.setdefault((generation, event["step"]), event)

    def __str__(self):
        return self.name


class Generation:
    """What the decide lines of its members say; the first one counts, and
    check_membership finds those that differ."""

    def __init__(self, number):
        self.number = number
        self.members = []  # (process, decide line)

    @property
    def size(self):
        return self.members[0][1]["size"]

    @property
    def resume(self):
        """(generation, step) or None."""
        resume = self.members[0][1]["resume"]
        return None if resume is None else tuple(resume)

    @property
    def base(self):
        """The step that its members begin with: without a resume commit
        that of rank 0, which may have loaded a checkpoint."""
        if self.resume is not None:
            return self.resume[1]
        return next((process.loaded for process, line in self.members
                     if line["rank"] == 0), 0)

    def ended(self, process):
        """The newest step that a member ended in it."""
        return process.last_step.get(self.number, self.base)


class History:
    def __init__(self):
        self.processes = []
        self.generations = {}  # number: Generation, those with decide lines
        self.commits = collections.defaultdict(list)  # id: [(process, line)]
        self.safe = collections.defaultdict(list)  # and of stored lines, too
        self.torn = 0
        self.violations = []

    def broken(self, invariant, sentence):
        self.violations.append(Violation(invariant, sentence))

    def add(self, process):
        self.processes.append(process)
        for number, line in process.decides.items():
            generation = self.generations.setdefault(number, Generation(number))
            generation.members.append((process, line))
        for commit, line in process.commits.items():
            self.commits[commit].append((process, line))
            self.safe[commit].append((process, line))
        for commit, line in process.stored.items():
            self.safe[commit].append((process, line))

    def began_ns(self):
        return min((process.events[0]["t_ns"] for process in self.processes
                    if process.events), default=0)

    def lineage(self):
        """{generation: (base, last)}: the steps base+1 .. last of the lineage
        of the newest generation were ended in that generation."""
        segments = {}
        if not self.generations:
            return segments
        number = max(self.generations)
        last = max(self.generations[number].ended(process)
                   for process, _ in self.generations[number].members)
        while number in self.generations:
            generation = self.generations[number]
            segments[number] = (generation.base, last)
            if generation.resume is None or generation.resume[0] >= number:
                break
            number, last = generation.resume
        return segments

    def is_ancestor(self, commit, resume):
        """Whether a commit is `resume` or lies before it on its lineage."""
        while resume is not None and resume[0] > commit[0]:
            if resume[0] not in self.generations:
                return False
            earlier = self.generations[resume[0]].resume
            if earlier is not None and earlier[0] >= resume[0]:
                return False  # check_decisions names it
            resume = earlier
        return resume is not None and resume[0] == commit[0] and \
            resume[1] >= commit[1]

    def last_commit(self):
        """Id and hash of the newest commit on the lineage; None: there is
        none."""
        segments = self.lineage()
        found = [c for c in self.safe
                 if c[0] in segments and c[1] <= segments[c[0]][1]]
        if not found:
            return None
        newest = max(found)
        hashes = [line["hash"] for _, line in self.safe[newest]]
        return newest, hashes[0]


def shown(commit):
    return "none" if commit is None else f"{commit[0]}.{commit[1]}"


# --------------------------------------------------------------------- reading

def is_pair(value):
    return isinstance(value, list) and len(value) == 2 and \
        all(type(n) is int for n in value)


def is_sets(value):
    return isinstance(value, dict) and all(
        isinstance(ranks, list) and all(type(r) is int for r in ranks)
        for ranks in value.values())


def is_samples(value):
    return isinstance(value, list) and len(value) == 3 and \
        all(type(n) is int and n >= 0 for n in value)


def fault_of(event):
    """Why a line is none of a history, or None."""
    if not isinstance(event, dict):
        return "is no object"
    if event.get("event") not in EVENTS:
        return f"has the unknown event {event.get('event')!r}"
    for field in NUMBERS:
        if type(event.get(field)) is not int:
            return f"has no whole number {field!r}"
    if event["generation"] < 0 or \
            (event["generation"] == 0 and
             event["event"] not in ("leave", "load")) or \
            (event["generation"] > 0 and event["event"] == "load"):
        return f"has the generation {event['generation']}"
    if not isinstance(event.get("worker"), str):
        return "names no worker"
    if not isinstance(event.get("host"), str):
        return "names no host"
    if not isinstance(event.get("hash"), (str, type(None))):
        return "has a hash that is neither text nor null"
    if event["event"] in ("sync", "commit", "stored") and event["hash"] is None:
        return f"is of event {event['event']} and has no hash"
    if event["event"] == "decide":
        if "resume" not in event or not (
                event["resume"] is None or is_pair(event["resume"])):
            return "has a resume that is neither [generation,step] nor null"
        if not is_sets(event.get("sets", {})):
            return "has sets that are not {name:[ranks]}"
    if "samples" in event and not is_samples(event["samples"]):
        return "has samples that are not [epoch,first,count]"
    return None


def decoded(line):
    """What json.loads says, in a third of its time: histories are long."""
    try:
        text = line.decode()
        value, end = SCAN(text, 0)
        if end == len(text):
            return value
    except StopIteration:
        pass
    return json.loads(line)


def parse(line):
    """(event, None) or (None, why not)."""
    try:
        event = decoded(line)
    except ValueError:
        return None, "is not JSON"
    why = fault_of(event)
    return (event, None) if why is None else (None, why)


def read_process(path, directory, history):
    process = Process(os.path.relpath(path, directory)[:-len(".jsonl")])
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    if lines.pop() != b"":
        history.torn += 1  # the process was killed in a write: legal
    for number, line in enumerate(lines, 1):
        event, why = parse(line)
        if event is None:
            history.broken(0, f"line {number} of {process} {why}")
        elif event["event"] == "load":
            process.loaded = event["step"]
        elif event["generation"] > 0:  # 0: a farewell before the first place
            process.note(event)
            check_author(history, process, number)
    return process


def check_author(history, process, number):
    """All lines of a file are of one process."""
    first, last = process.events[0], process.events[-1]
    for field in ("host", "worker", "pid"):
        if last[field] != first[field]:
            history.broken(0, f"line {number} of {process} is of {field} "
                           f"{last[field]}, an earlier one of {first[field]}")


def job_of(process, histories):
    """Its own word, or, of one that never had a place, the newest job when it
    began."""
    began = process.events[0]["t_ns"] if process.events else 0
    return process.job or max(
        (job for job in histories if histories[job].began_ns() <= began),
        key=lambda job: histories[job].began_ns(), default=None)


def read(directory):
    """The History of each job with files in a directory or below it, the
    newest last: a command that is started again writes beside what is there."""
    histories, unread = {}, History()
    paths = sorted(glob.glob(os.path.join(glob.escape(directory), "**",
                                          "*.jsonl"), recursive=True))
    if not paths:
        unread.broken(0, f"{directory} has no *.jsonl files")
    processes = [read_process(path, directory, unread) for path in paths]
    for process in sorted(processes, key=lambda process: process.job is None):
        histories.setdefault(job_of(process, histories), History()).add(process)
    found = sorted(histories.values(), key=History.began_ns) or [History()]
    found[-1].violations += unread.violations
    found[-1].torn += unread.torn
    return found


# ------------------------------------- 1: committed steps rise on the lineage

def check_steps_of_process(history, process):
    """Each member begins with the resume commit's step and ends steps one by
    one; a commit saves the step that has just ended."""
    at = None  # steps ended; None: not synced in this generation
    saved = None
    for event in process.events:
        kind, step, g = event["event"], event["step"], event["generation"]
        generation = history.generations.get(g)
        if kind == "decide":
            saved = None
        if kind in ("join", "leave") or generation is None:
            continue
        where = f"{process} in generation {g}"
        if kind in ("decide", "restore", "sync"):
            if step != (0 if kind == "decide" and generation.resume is None
                        else generation.base):
                history.broken(1, f"{where} logs {kind} {step}, but the resume "
                               f"commit is {shown(generation.resume)}")
            at = step if kind == "sync" else None
        elif at is None:
            history.broken(1, f"{where} logs {kind} {step} before it has "
                           "synced")
            at = step
        elif kind == "step":
            if step != at + 1:
                history.broken(1, f"{where} ends step {step} after step {at}")
            at = step
        elif kind == "stored":
            if step > at:
                history.broken(1, f"{where} says that commit {step} is stored, "
                               f"but has ended step {at}")
        else:
            if step != at:
                history.broken(1, f"{where} commits step {step}, but has ended "
                               f"step {at}")
            if saved is not None and step <= saved:
                history.broken(1, f"{where} commits step {step} after step "
                               f"{saved}")
            saved = step


def went_on(process, g, step):
    """Whether it logged anything after it had ended that step, whose commit
    line, if there is one, is the next."""
    last = process.events[-1]
    return process.last_step.get(g, 0) > step or (
        process.last_step.get(g) == step and
        (last["event"], last["generation"]) != ("step", g))


def check_agreements(history):
    """No member leaves an agreement before all have entered: none is more
    than a step behind another, and one that goes on has the commit."""
    for g, generation in sorted(history.generations.items()):
        newest = max(generation.ended(p) for p, _ in generation.members)
        for process, _ in generation.members:
            ended = generation.ended(process)
            if ended < newest - 1:
                history.broken(1, f"step {newest} of generation {g} was ended, "
                               f"but {process} did not get beyond step {ended}")
    for (g, step), reports in sorted(history.commits.items()):
        if g not in history.generations:
            continue
        for process, _ in history.generations[g].members:
            if went_on(process, g, step) and (g, step) not in process.commits:
                history.broken(1, f"{reports[0][0]} committed {g}.{step}, but "
                               f"{process} went on without that commit")


def could_exist(history, resume):
    """Whether a generation can have made this commit: all members but those of
    another host had ended the step before."""
    generation = history.generations.get(resume[0])
    if generation is None:
        return False
    if resume[1] == generation.base:
        return generation.resume is None
    ended = [generation.ended(process) for process, _ in generation.members]
    return resume[1] > generation.base and max(ended) >= resume[1] - 1


def check_decisions(history):
    for g, generation in sorted(history.generations.items()):
        resume = generation.resume
        if resume is None:
            continue
        if resume[0] >= g:
            history.broken(1, f"generation {g} resumes from {shown(resume)}, "
                           "which is not earlier")
        elif not could_exist(history, resume):
            history.broken(1, f"generation {g} resumes from {shown(resume)}, "
                           "but no member can have made that commit")


def began_ns(generation):
    """When the first of its members could store anything."""
    return min(event["t_ns"] for process, _ in generation.members
               for event in process.events
               if event["generation"] == generation.number)


def check_reported_commits(history):
    """A commit that one rank reported is on the lineage of every later
    generation. When the report came before that generation began, the commit
    was lost (1); when it came after, the reporter should have been fenced
    (4)."""
    for commit, reports in sorted(history.safe.items()):
        for g, generation in sorted(history.generations.items()):
            if g <= commit[0] or history.is_ancestor(commit, generation.resume):
                continue
            process, line = min(reports, key=lambda report: report[1]["t_ns"])
            if line["t_ns"] < began_ns(generation):
                history.broken(1, f"{process} committed {shown(commit)}, but "
                               f"generation {g} resumes from "
                               f"{shown(generation.resume)}")
            else:
                history.broken(4, f"{process} committed {shown(commit)} after "
                               f"generation {g} had resumed from "
                               f"{shown(generation.resume)}")
            break


def check_lost_steps(history, most):
    """Steps that were ended and are not on the lineage: an announced change
    loses none, a kill those since the last commit."""
    segments = history.lineage()
    for g, generation in sorted(history.generations.items()):
        base, last = segments.get(g, (generation.base, generation.base))
        ended = max(generation.ended(process)
                    for process, _ in generation.members)
        if ended - last > most:
            history.broken(1, f"{ended - last} steps that generation {g} ended "
                           f"after step {last} are lost, more than {most}")


def check_committed_steps(history, most_lost):
    for process in history.processes:
        check_steps_of_process(history, process)
    check_agreements(history)
    check_decisions(history)
    check_reported_commits(history)
    if most_lost is not None:
        check_lost_steps(history, most_lost)


# ----------------------------------------- 2: one membership per generation

def check_one_view(history, generation):
    g, (first, line) = generation.number, generation.members[0]
    for process, other in generation.members[1:]:
        for field in ("size", "resume"):
            if other[field] != line[field]:
                history.broken(2, f"generation {g}: {first} has {field} "
                               f"{line[field]}, {process} has {other[field]}")


def check_places(history, generation):
    g, by_rank, by_worker = generation.number, {}, {}
    for process, line in generation.members:
        rank, worker = line["rank"], line["worker"]
        if not 0 <= rank < line["size"]:
            history.broken(2, f"generation {g}: {process} has rank {rank} of "
                           f"{line['size']}")
        for what, key, taken in (("rank", rank, by_rank),
                                 ("slot", worker, by_worker)):
            if key in taken:
                history.broken(2, f"generation {g}: {taken[key]} and {process} "
                               f"both have {what} {key}")
            taken.setdefault(key, process)


def check_all_took_part(history, generation):
    """A step ends by agreement of all, so all have taken the generation up."""
    ended = max(generation.ended(process) for process, _ in generation.members)
    if ended > generation.base and len(generation.members) < generation.size:
        history.broken(2, f"step {ended} of generation {generation.number} was "
                       f"ended, but only {len(generation.members)} of its "
                       f"{generation.size} members have taken it up")


def check_seniority(history):
    """From one generation to the next number: slots that stay keep their
    order, and others come behind them, those of a host together."""
    for g, generation in sorted(history.generations.items()):
        before = history.generations.get(g - 1)
        if before is None or len(before.members) < before.size:
            continue
        old = {line["worker"]: line["rank"] for _, line in before.members}
        last, hosts = -1, []
        for line in sorted((line for _, line in generation.members),
                           key=lambda line: line["rank"]):
            rank = old.get(line["worker"])
            if rank is None:
                if line["host"] in hosts and line["host"] != hosts[-1]:
                    history.broken(2, f"generation {g}: the newcomers of host "
                                   f"{line['host']} are not together")
                hosts.append(line["host"])
            elif hosts:
                history.broken(2, f"generation {g}: {line['worker']} stays, "
                               "but stands behind a newcomer")
            elif rank < last:
                history.broken(2, f"generation {g}: {line['worker']} stands "
                               "behind one that it stood before in generation "
                               f"{g - 1}")
            else:
                last = rank


def check_generations_of_process(history, process):
    newest, seen = 0, set()
    for event in process.events:
        g = event["generation"]
        if event["event"] != "decide":
            continue
        if g in seen:
            history.broken(2, f"{process} takes up generation {g} twice")
        elif g < newest:
            history.broken(2, f"{process} takes up generation {g} after "
                           f"generation {newest}")
        seen.add(g)
        newest = max(newest, g)
    for event in process.events:
        line = process.decides.get(event["generation"])
        if line is None and event["event"] in ("restore", "sync"):
            history.broken(2, f"{process} logs {event['event']} "
                           f"{event['step']} in generation "
                           f"{event['generation']}, but has no place in it")
        if line is not None and (event["rank"], event["size"]) != \
                (line["rank"], line["size"]):
            history.broken(2, f"{process} is rank {line['rank']} of "
                           f"{line['size']} in generation "
                           f"{line['generation']}, but logs {event['event']} "
                           f"{event['step']} as rank {event['rank']} of "
                           f"{event['size']}")


def check_membership(history, is_mpi=False):
    for _, generation in sorted(history.generations.items()):
        check_one_view(history, generation)
        check_places(history, generation)
        check_all_took_part(history, generation)
    if not is_mpi:
        check_seniority(history)
    for process in history.processes:
        check_generations_of_process(history, process)


# ------------------------------------------ 3: one hash per step of a lineage

def commit_of(history, event):
    """The commit whose content a line's hash is of, or None. A restore line
    says nothing: what a worker has not in its vault arrives with the sync."""
    g, kind = event["generation"], event["event"]
    if event["hash"] is None or g not in history.generations:
        return None
    if kind == "sync":
        return history.generations[g].resume or (g, 0)
    return (g, event["step"]) if kind in ("commit", "stored", "step") else None


def check_hashes(history):
    hashes = collections.defaultdict(dict)  # commit: {hash: process}
    for process in history.processes:
        for event in process.events:
            commit = commit_of(history, event)
            if commit is not None:
                hashes[commit].setdefault(event["hash"], process)
    for commit, found in sorted(hashes.items()):
        if len(found) > 1:
            history.broken(3, f"commit {shown(commit)} has {len(found)} "
                           "contents: " + ", ".join(
                               f"{value} at {process}"
                               for value, process in found.items()))


# ------------------------------------- 4: a fenced worker commits nothing

def check_fences(history):
    """By the generation in the record, in the order of one process: nothing in
    a generation that it has no place in, has left, or has gone beyond."""
    for process in history.processes:
        newest, left = 0, set()
        for event in process.events:
            g, kind, step = event["generation"], event["event"], event["step"]
            if kind == "decide":
                newest = max(newest, g)
            elif kind == "leave":
                left.add(g)
            elif kind not in ("commit", "stored", "step"):
                continue
            elif g not in process.decides:
                history.broken(4, f"{process} logs {kind} {g}.{step}, but has "
                               f"no place in generation {g}")
            elif g < newest:
                history.broken(4, f"{process} logs {kind} {g}.{step} after it "
                               f"has taken up generation {newest}")
            elif g in left:
                history.broken(4, f"{process} logs {kind} {g}.{step} after it "
                               f"has left generation {g}")


# ------------------------------------ 5: every sample once in committed steps

class Batch:
    """What one step of the lineage took: the parts that are on record, and how
    many members left no record of it (they were killed, or lost the others,
    after their part was in)."""

    def __init__(self, generation, step):
        self.name = f"{generation.number}.{step}"
        self.parts = []  # (epoch, first, end)
        self.has_samples = False
        self.absent = generation.size - sum(
            generation.ended(process) >= step
            for process, _ in generation.members)

    def add(self, epoch, first, count):
        self.has_samples = True
        if count > 0:
            self.parts.append((epoch, first, first + count))

    def span(self, batch):
        """(epoch, from, to) that the batch can cover; None: unknown."""
        if not self.parts:
            return None
        epoch = self.parts[0][0]
        low = min(part[1] for part in self.parts)
        high = max(part[2] for part in self.parts)
        if batch:
            low -= low % batch
            high = max(high, low + batch)
        return epoch, low, high


def batches_of_lineage(history):
    """The Batch of each step of the lineage that anybody left a line of, and
    how many steps have no line at all."""
    segments, batches = history.lineage(), {}
    for process in history.processes:
        for event in process.events:
            g, step = event["generation"], event["step"]
            if event["event"] != "step" or g not in segments or \
                    not segments[g][0] < step <= segments[g][1]:
                continue
            if (g, step) not in batches:
                batches[g, step] = Batch(history.generations[g], step)
            if "samples" in event:
                batches[g, step].add(*event["samples"])
    without = sum(max(0, last - base) for base, last in segments.values())
    return [batch for _, batch in sorted(batches.items())], \
        without - len(batches)


def check_one_batch(history, batch, samples, size):
    """With the sampler known: a step's parts lie in one batch of one epoch."""
    epochs = {part[0] for part in batch.parts}
    if len(epochs) > 1:
        history.broken(5, f"step {batch.name} took samples of the epochs "
                       f"{sorted(epochs)}")
    span = batch.span(size)
    if size and span is not None and span[2] - span[1] > size:
        history.broken(5, f"step {batch.name} took positions {span[1]} to "
                       f"{span[2] - 1}, more than a batch of {size}")
    if samples and span is not None and \
            max(part[2] for part in batch.parts) > samples:
        history.broken(5, f"step {batch.name} took a position above the last "
                       f"of {samples} samples")


def check_epoch(history, epoch, parts, end, can_be_missing):
    """parts: (first, end, step) sorted; positions 0 .. end-1 once each."""
    at, before = 0, None
    for first, to, step in [*parts, (end, end, None)]:
        if first < at and step is not None:
            again = "twice" if step == before else f"and in step {before}"
            history.broken(5, f"position {first} of epoch {epoch} was taken in "
                           f"step {step} {again}")
        elif first > at and not can_be_missing(epoch, at, first):
            history.broken(5, f"positions {at} to {first - 1} of epoch {epoch} "
                           "were taken in no step of the lineage")
        at, before = max(at, to), step


def is_excused(epoch, low, high, batches, size):
    """Whether members without a record can have taken positions low .. high-1:
    those lie beside or inside what the others took in that step, or the others
    took nothing."""
    for batch in batches:
        span = batch.span(size)
        if batch.absent > 0 and (
                span is None or
                (span[0] == epoch and span[1] <= high and low <= span[2])):
            return True
    return False


def check_samples(history, samples=None, size=None, epochs=None):
    """What came before a checkpoint that was loaded is in no history here."""
    batches, unknown = batches_of_lineage(history)
    segments = history.lineage()
    is_loaded = bool(segments) and segments[min(segments)][0] > 0
    if not any(batch.has_samples for batch in batches):
        if samples and batches:
            history.broken(5, "no step line says which samples it took")
        return
    taken = collections.defaultdict(list)  # epoch: parts
    for batch in batches:
        check_one_batch(history, batch, samples, size)
        for epoch, first, end in batch.parts:
            taken[epoch].append((first, end, batch.name))
    most = samples or max((part[1] for parts in taken.values()
                           for part in parts), default=0)
    for epoch, parts in sorted(taken.items()):
        is_whole = epoch != max(taken) or epochs is not None
        check_epoch(history, epoch, sorted(parts),
                    most if is_whole else max(part[1] for part in parts),
                    lambda e, low, high: unknown > 0 or
                    (is_loaded and e == min(taken) and low == 0) or
                    is_excused(e, low, high, batches, size))
    if epochs is not None and len(taken) != epochs and unknown == 0 and \
            not is_loaded:
        history.broken(5, f"samples of {len(taken)} epochs were taken, not of "
                       f"{epochs}")


# --------------------------------------------- 6: sets lie in their generation

def check_set(history, generation, process, name, ranks):
    if len(set(ranks)) != len(ranks):
        history.broken(6, f"generation {generation.number}: set {name!r} of "
                       f"{process} has a member twice: {ranks}")
    outside = [rank for rank in ranks if not 0 <= rank < generation.size]
    if outside:
        history.broken(6, f"generation {generation.number}: set {name!r} of "
                       f"{process} has ranks {outside} outside a world of "
                       f"{generation.size}")


def check_sets(history):
    """A set has the same members for all of its members, and others know that
    one or, by a rule, one that has none of them."""
    for g, generation in sorted(history.generations.items()):
        found = collections.defaultdict(dict)  # name: {rank: (list, process)}
        for process, line in generation.members:
            for name, ranks in line.get("sets", {}).items():
                check_set(history, generation, process, name, ranks)
                found[name][line["rank"]] = ranks, process
        for name, views in sorted(found.items()):
            for process, line in generation.members:
                if line["rank"] not in views:
                    history.broken(6, f"generation {g}: {process} lacks set "
                                   f"{name!r}")
            for _, (ranks, process) in sorted(views.items()):
                for other in ranks:
                    theirs, who = views.get(other, (ranks, None))
                    if theirs != ranks:
                        history.broken(6, f"generation {g}: set {name!r} is "
                                       f"{ranks} at {process}, {theirs} at "
                                       f"{who}")


# ------------------------------------------------------ 7: steps are committed

def spans_of_life(history, least, until_ns):
    """[(from, to)] in which at least so many processes were alive: from their
    first line to their last, or to `until_ns` without a farewell."""
    changes = []
    for process in history.processes:
        if process.events:
            last = process.events[-1]
            end = last["t_ns"]
            if until_ns is not None and last["event"] != "leave":
                end = max(end, until_ns)
            changes += [(process.events[0]["t_ns"], 1), (end, -1)]
    spans, alive, since = [], 0, None
    for t_ns, change in sorted(changes, key=lambda c: (c[0], -c[1])):
        alive += change
        if alive >= least and since is None:
            since = t_ns
        elif alive < least and since is not None:
            spans.append((since, t_ns))
            since = None
    return spans


def check_liveness(history, least, bound_s, until_ns):
    times = sorted(min(line["t_ns"] for _, line in reports)
                   for reports in history.safe.values())
    for begin, end in spans_of_life(history, least, until_ns):
        inner = times[bisect.bisect_left(times, begin):
                      bisect.bisect_right(times, end)]
        points = [begin, *inner, end]
        for before, after in zip(points, points[1:]):
            if after - before > bound_s * 1e9:
                history.broken(7, f"no step was committed for "
                               f"{(after - before) / 1e9:.1f} s from t_ns "
                               f"{before} on, while at least {least} workers "
                               f"were alive; the bound is {bound_s:g} s")


# ------------------------------------------------------------------------ all

def check_all(history, samples=None, batch=None, epochs=None, bound_s=BOUND_S,
              min_workers=1, until_ns=None, most_lost=None, is_mpi=False):
    check_committed_steps(history, most_lost)
    check_membership(history, is_mpi)
    check_hashes(history)
    check_fences(history)
    check_samples(history, samples, batch, epochs)
    check_sets(history)
    check_liveness(history, min_workers, bound_s, until_ns)
    return history.violations


def check(directory, **options):
    """The violations in the histories below a directory, [] when there are none.

    samples, batch: what the sampler was made with; epochs: how many were to be
    done. bound_s: a step commits within it while min_workers are alive.
    until_ns: CLOCK_MONOTONIC until which a process that said no farewell is
    taken to have lived; without it, until its last line. most_lost: so many
    steps of a generation may have been rolled back; None: any number. is_mpi:
    ranks are those of launches (--mpi), whatever the seniority of slots is."""
    return [violation for history in read(directory)
            for violation in check_all(history, **options)]


def summary(history):
    last = history.last_commit()
    names = {event["worker"] for process in history.processes
             for event in process.events}
    text = (f"{len(names)} workers in {len(history.processes)} processes, "
            f"{len(history.generations)} generations, "
            f"{len(history.commits)} commits, ")
    return text + ("none on the lineage" if last is None else
                   f"the last is step {last[0][1]} (commit {shown(last[0])}) "
                   f"with hash {last[1]}")


def arguments():
    class Parser(argparse.ArgumentParser):
        def error(self, message):
            self.exit(64, f"check_history: {message}\n")
    parser = Parser(description="Check the histories of one job.")
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument("--samples", type=int, metavar="COUNT",
                        help="samples of an epoch")
    parser.add_argument("--batch", type=int, metavar="B",
                        help="samples of a step")
    parser.add_argument("--epochs", type=int, metavar="E",
                        help="the job was to do so many, and is done")
    parser.add_argument("--bound", type=float, default=BOUND_S,
                        metavar="SECONDS",
                        help="a step commits within this (default 60)")
    parser.add_argument("--min", type=int, default=1, metavar="N",
                        help="... while so many workers are alive")
    parser.add_argument("--lost", type=int, metavar="N",
                        help="a change rolls back no more than N steps")
    parser.add_argument("--final-hash", action="store_true",
                        help="print the last commit's hash and nothing else")
    return parser.parse_args()


def main():
    flags = arguments()
    histories = read(flags.directory)
    violations = [violation for history in histories for violation in check_all(
        history, flags.samples, flags.batch, flags.epochs, flags.bound,
        flags.min, most_lost=flags.lost)]
    for violation in violations:
        print(violation)
    if violations:
        sys.exit(1)
    last = histories[-1].last_commit()
    if not flags.final_hash:
        for history in histories:
            print(summary(history))
    elif last is not None:
        print(last[1])


if __name__ == "__main__":
    main()
