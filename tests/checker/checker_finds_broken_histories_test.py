"""The history checker passes a correct job with a kill, a rollback, a join and
a rejoin, and names the right invariant for each of many broken ones.

Covers: check_history.py"""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import check_history  # pylint: disable=wrong-import-position

SAMPLES, BATCH, EPOCHS = 20, 4, 2  # 5 steps of an epoch, 10 of the job
STEP_NS = 10_000_000


class Story:
    """A job that writes its histories: {file: [lines]}."""

    def __init__(self):
        self.files = {}
        self.t_ns = 0
        self.ranks = {}  # file: (generation, rank, size)
        self.hashes = {}

    def log(self, name, event, step, content=None, **more):
        self.t_ns += 1000
        generation, rank, size = self.ranks[name]
        worker = name.rpartition(".")[0]
        self.files.setdefault(name, []).append({
            "t_ns": self.t_ns, "host": worker.rpartition("/")[2].split(".")[0],
            "worker": worker.rpartition("/")[2],
            "pid": 100 + list(self.files).index(name),
            "generation": generation, "rank": rank, "size": size,
            "event": event, "step": step, "hash": content, **more})

    def begin(self, generation, names, resume, sets=None):
        """The members of a generation take it up and sync."""
        base = 0 if resume is None else resume[1]
        for rank, name in enumerate(names):
            self.ranks[name] = (generation, rank, len(names))
            self.log(name, "join", 0)
            self.log(name, "decide", base, sets=sets or {},
                     resume=None if resume is None else list(resume))
        for name in names:
            if resume is not None:
                self.log(name, "restore", base, "0" * 16)
            self.log(name, "sync", base, self.hash_of(resume or (0, 0)))
        if resume is None:
            self.commit(names, 0)

    def hash_of(self, commit):
        """Contents differ from commit to commit; commit 0 is what it was."""
        return f"{1000 * commit[0] * (commit[1] > 0) + commit[1]:016x}"

    def commit(self, names, step):
        for name in names:
            generation = self.ranks[name][0]
            self.log(name, "commit", step, self.hash_of((generation, step)))

    def end_step(self, names, step):
        self.t_ns += STEP_NS
        for name in names:
            _, rank, size = self.ranks[name]
            position = (step - 1) % (SAMPLES // BATCH) * BATCH
            share, more = divmod(BATCH, size)
            first = position + rank * share + min(rank, more)
            self.log(name, "step", step, samples=[
                (step - 1) // (SAMPLES // BATCH), first,
                share + (rank < more)])

    def steps(self, names, begin, end, committed=()):
        for step in range(begin, end + 1):
            self.end_step(names, step)
            if step in committed:
                self.commit(names, step)

    def leave(self, names, step):
        for name in names:
            self.log(name, "leave", step)

    def write(self, folder):
        for name, written in self.files.items():
            path = os.path.join(folder, f"{name}.jsonl")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                for line in written:
                    file.write(line if isinstance(line, str)
                               else json.dumps(line) + "\n")


A, B, C, D, C2 = "h1.0.1", "h1.1.1", "h1.2.1", "h1.3.1", "h1.2.2"
# Hosts, each agent with a folder of its own; h2 starts again under its name.
A1, B1, A2, B2, A3, A2N, B2N = (
    "h1-1/h1.0.1", "h1-1/h1.1.1", "h2-1/h2.0.1", "h2-1/h2.1.1", "h3-1/h3.0.1",
    "h2-2/h2.0.1", "h2-2/h2.1.1")


def good(last_resume=(3, 6)):
    s = Story()
    # C dies in step 4: step 3 was not committed and is done again.
    s.begin(1, [A, B, C], None, {"pair": [0, 2]})
    s.steps([A, B, C], 1, 3, committed=[2])
    s.files[C].append('{"t_ns":5,"host":"h1","wor')
    s.leave([A, B], 3)
    # D comes to the door: the end of step 5 becomes a commit, without it none.
    s.begin(2, [A, B], (1, 2))
    s.steps([A, B], 3, 5, committed=[4, 5])
    s.leave([A, B], 5)
    # D dies while step 6 is agreed on: it was committed, only A knows.
    s.begin(3, [A, B, D], (2, 5), {"ring": [2, 0, 1]})
    s.steps([A], 6, 6, committed=[6])
    s.leave([A, B], 6)
    # Slot 2 has a new process.
    s.begin(4, [A, B, C2], last_resume, {"ring": [1, 0], "pair": [0, 2]})
    s.steps([A, B, C2], last_resume[1] + 1, 10, committed=[6, 8, 10])
    s.leave([A, B, C2], 10)
    return s


def hosts(second=(A1, B1, A3), third=(A1, B1, A3, A2N, B2N)):
    """h2 vanishes in step 4 and comes again under its name at step 7."""
    s = Story()
    s.begin(1, [A1, B1, A2, B2, A3], None)
    s.steps([A1, B1, A2, B2, A3], 1, 3, committed=[2, 3])
    s.leave([A1, B1, A3], 3)
    s.begin(2, second, (1, 3))
    s.steps(second, 4, 7, committed=[5, 7])
    s.leave(second, 7)
    s.begin(3, third, (2, 7))
    s.steps(third, 8, 10, committed=[10])
    s.leave(third, 10)
    return s


def violations_of(story, **options):
    with tempfile.TemporaryDirectory(prefix="rg-checker-") as folder:
        story.write(folder)
        return check_history.check(folder, **{
            "samples": SAMPLES, "batch": BATCH, "epochs": EPOCHS, **options})


def loaded(by=(A, B), step=3):
    """Both go on from a checkpoint of step 3 of an earlier job."""
    s = Story()
    for name in (A, B):
        s.ranks[name] = (0, -1, 0)
        if name in by:
            s.log(name, "load", step, "1" * 16)
    s.begin(1, [A, B], None)
    for name in (A, B):
        for event in ("sync", "commit"):
            lines(s, name, event=event)[0]["step"] = 3
    s.steps([A, B], 4, 6, committed=[6])
    s.begin(2, [A, B], (1, 6))
    s.steps([A, B], 7, 10, committed=[10])
    return s


def lines(story, name, **wanted):
    """The lines of a process that have these fields."""
    return [line for line in story.files[name] if isinstance(line, dict) and
            all(line[field] == value for field, value in wanted.items())]


def drop(story, name, **wanted):
    found = lines(story, name, **wanted)
    assert found, (name, wanted)
    story.files[name] = [line for line in story.files[name]
                         if line not in found]


def change(story, names, fields, **wanted):
    found = [line for name in names for line in lines(story, name, **wanted)]
    assert found, (names, wanted)
    for line in found:
        line.update(fields)


# ---------------------------------------------------------- broken histories

def i1_reported_commit_is_lost():
    return good(last_resume=(2, 5))


def i1_commit_of_a_dead_reporter_is_lost():
    s = Story()
    s.begin(1, [A, B], None)
    s.steps([A, B], 1, 1, committed=[1])
    s.end_step([B], 2)
    s.commit([B], 2)  # and B dies
    s.begin(2, [A], (1, 1))
    s.steps([A], 2, 10, committed=[10])
    return s


def stored_behind():
    """Shards are copied behind the steps: lines of commits that are stored by
    then, and a lost host's last two steps are done again."""
    s = Story()
    s.begin(1, [A1, B1, A2], None)
    s.steps([A1, B1, A2], 1, 5)
    for name in (A1, B1, A2):
        s.log(name, "stored", 3, s.hash_of((1, 3)))
    s.begin(2, [A1, B1], (1, 3))
    s.steps([A1, B1], 4, 10)
    for name in (A1, B1):
        s.log(name, "stored", 10, s.hash_of((2, 10)))
    return s


def no_host_has_heard():
    """Step 4 was agreed on and copied whole, and all were killed or cut off
    before they heard of it: the next generation goes on from it."""
    s = Story()
    s.begin(1, [A1, B1, A2], None)
    s.steps([A1, B1, A2], 1, 3, committed=[3])
    s.begin(2, [A1, B1], (1, 4))
    s.steps([A1, B1], 5, 10, committed=[10])
    return s


def two_jobs(second_lives=True):
    """The same command again: another job, whose files lie beside."""
    s, again = good(), Story()
    again.t_ns = s.t_ns
    names = ["h1.0.3", "h1.1.3"]
    for name in names:
        again.ranks[name] = (0, -1, 0)
        again.log(name, "load", 0, "1" * 16)
    again.begin(1, names, None)
    again.steps(names, 1, 10, committed=[5, 10])
    if not second_lives:
        drop(again, names[0], event="step", step=7)
    for story, job in ((s, "a"), (again, "b")):
        for name in story.files:
            change(story, [name], {"job": job}, event="decide")
    s.files.update(again.files)
    return s


def i1_the_second_job_is_broken():
    return two_jobs(second_lives=False)


def i1_stored_commit_is_lost():
    s = Story()
    s.begin(1, [A1, B1, A2], None)
    s.steps([A1, B1, A2], 1, 5)
    s.log(A2, "stored", 4, s.hash_of((1, 4)))
    s.begin(2, [A1, B1], (1, 3))
    s.steps([A1, B1], 4, 10)
    return s


def i1_a_step_is_stored_before_it_has_ended():
    s = stored_behind()
    s.log(A1, "stored", 12, s.hash_of((2, 12)))
    return s


def i1_step_is_left_out():
    s = good()
    drop(s, B, event="step", generation=4, step=7)
    return s


def i1_step_is_done_twice():
    s = good()
    at = s.files[A].index(lines(s, A, event="step", generation=4, step=7)[0])
    s.files[A].insert(at, dict(s.files[A][at]))
    return s


def i1_commit_of_a_step_that_has_not_ended():
    s = good()
    change(s, [A, B, C2], {"step": 9}, event="commit", step=8)
    return s


def i1_begins_at_another_step_than_the_resume_commit():
    s = good()
    change(s, [C2], {"step": 5}, event="sync", generation=4)
    return s


def i1_goes_on_without_a_commit():
    s = good()
    drop(s, B, event="commit", generation=4, step=8)
    return s


def i1_leaves_without_its_last_commit():
    s = good()
    drop(s, B, event="commit", generation=4, step=10)
    return s


def i1_steps_without_a_sync():
    s = good()
    drop(s, C2, event="sync")
    return s


def i1_leaves_an_agreement_that_another_has_not_entered():
    s = good()
    for step in (9, 10):
        drop(s, C2, event="step", step=step)
    drop(s, C2, event="commit", step=10)
    return s


def i1_resumes_from_a_commit_that_was_never_made():
    s = good()
    change(s, [A, B], {"resume": [1, 5]}, event="decide", generation=2)
    return s


def i1_resumes_from_its_own_future():
    s = good()
    change(s, [A, B], {"resume": [2, 4]}, event="decide", generation=2)
    return s


def i1_begins_in_the_middle_without_a_checkpoint():
    return loaded(by=())


def i1_begins_with_what_another_than_rank_0_has_loaded():
    return loaded(by=(B,))


def i1_begins_behind_the_checkpoint():
    return loaded(step=2)


def i0_loads_inside_a_generation():
    s = loaded()
    change(s, [A], {"generation": 1}, event="load")
    return s


def i1_a_drain_rolls_back():
    s = Story()
    s.begin(1, [A1, A2], None)
    s.steps([A1, A2], 1, 3, committed=[2])
    s.leave([A1, A2], 3)
    s.begin(2, [A1], (1, 2))
    s.steps([A1], 3, 10, committed=[10])
    return s


def i1_the_cut_off_side_goes_on():
    """h2 is out of generation 2, and ends steps of generation 1 alone."""
    s = hosts()
    for name in (A2, B2):
        s.ranks[name] = (1, 2 + (name == B2), 5)
    s.steps([A2, B2], 4, 5)
    return s


def i2_both_sides_make_a_generation():
    """h2 and the others have each decided a generation 2."""
    s = hosts()
    del s.files[A2N], s.files[B2N]
    s.begin(2, [A2, B2], (1, 3))
    return s


def i2_newcomer_stands_before_survivors():
    return hosts(third=(A1, B1, A2N, A3, B2N))


def i2_survivors_change_places():
    return hosts(second=(B1, A1, A3))


def i2_newcomers_of_a_host_are_not_together():
    return hosts(second=(A1,), third=(A1, A2N, B1, B2N))


def i2_old_and_new_process_of_a_host():
    """Its old incarnation still takes part."""
    return hosts(second=(A1, B1, A2, A3), third=(A1, B1, A2, A3, A2N))


def i2_two_workers_with_one_rank():
    s = good()
    change(s, [C2], {"rank": 1}, generation=4)
    return s


def i2_two_processes_in_one_slot():
    s = good()
    change(s, [D], {"worker": "h1.1"})
    return s


def i2_syncs_without_a_place():
    s = good()
    drop(s, C2, event="decide")
    drop(s, C2, event="step")
    drop(s, C2, event="commit")
    return s


def i2_members_resume_from_different_commits():
    s = good()
    change(s, [B], {"resume": [1, 2]}, event="decide", generation=3)
    return s


def i2_members_count_differently():
    s = good()
    change(s, [B], {"size": 3}, generation=2)
    return s


def i2_world_steps_without_a_member():
    s = good()
    del s.files[C2]
    return s


def i2_generation_is_taken_up_twice():
    s = good()
    s.files[A].extend(lines(s, A, event="decide", generation=4))
    return s


def i2_goes_back_to_an_earlier_generation():
    s = good()
    s.files[A].extend(lines(s, A, event="decide", generation=3))
    s.files[A].remove(lines(s, A, event="decide", generation=3)[0])
    return s


def i2_rank_changes_inside_a_generation():
    s = good()
    change(s, [B], {"rank": 2}, event="commit", generation=4, step=8)
    return s


def i3_ranks_commit_different_contents():
    s = good()
    change(s, [B], {"hash": "f" * 16}, event="commit", generation=4, step=8)
    return s


def i3_newcomer_gets_another_content():
    s = good()
    change(s, [C2], {"hash": "f" * 16}, event="sync", generation=4)
    return s


def i3_sync_brings_another_content_than_was_committed():
    s = good()
    change(s, [A, B], {"hash": "f" * 16}, event="sync", generation=2)
    return s


def i4_stopped_worker_commits_what_was_cut_off():
    s = good()
    s.files[C].pop()  # it was not killed, but stopped and fenced
    s.ranks[C] = (1, 2, 3)
    s.end_step([C], 4)
    s.commit([C], 4)
    return s


def i4_commits_in_a_generation_after_the_next():
    s = good()
    late = lines(s, B, event="commit", generation=2, step=5)
    drop(s, B, event="commit", generation=2, step=5)
    s.files[B].extend(late)
    return s


def i4_the_cut_off_side_commits():
    s = hosts()
    for name in (A2, B2):
        s.ranks[name] = (1, 2 + (name == B2), 5)
    s.steps([A2, B2], 4, 4, committed=[4])
    return s


def i4_commits_without_a_place():
    s = good()
    s.files[D].append(dict(lines(s, A, event="commit", step=8)[0],
                           worker="h1.3"))
    return s


def i4_commits_after_it_has_left():
    s = good()
    at = s.files[A].index(lines(s, A, event="leave", generation=2)[0])
    s.files[A][at - 1:at + 1] = reversed(s.files[A][at - 1:at + 1])
    return s


def i5_a_part_is_left_out():
    s = good()
    change(s, [B], {"samples": [1, 8, 0]}, event="step", generation=4, step=8)
    return s


def i5_two_ranks_take_the_same_part():
    s = good()
    part = lines(s, A, event="step", generation=4, step=8)[0]["samples"]
    change(s, [B], {"samples": part}, event="step", generation=4, step=8)
    return s


def i5_two_steps_take_the_same_batch():
    s = good()
    for name in (A, B, C2):
        part = lines(s, name, event="step", generation=4, step=8)[0]["samples"]
        change(s, [name], {"samples": part}, event="step", generation=4,
               step=9)
    return s


def i5_the_last_epoch_is_not_whole():
    s = good()
    for name in (A, B, C2):
        drop(s, name, event="step", step=10)
        drop(s, name, event="commit", step=10)
    return s


def i5_positions_beyond_the_epoch():
    s = good()
    change(s, [C2], {"samples": [1, 19, 2]}, event="step", step=10)
    return s


def i5_rolled_back_step_counts_as_done():
    s = good()
    change(s, [A, B], {"samples": [0, 12, 2]}, event="step", generation=2,
           step=3)  # as if generation 1 had done step 3 for good
    return s


def i6_member_outside_the_world():
    s = good()
    change(s, [A, B, C2], {"sets": {"pair": [0, 3]}}, event="decide",
           generation=4)
    return s


def i6_member_twice():
    s = good()
    change(s, [A, B, C2], {"sets": {"pair": [1, 1]}}, event="decide",
           generation=4)
    return s


def i6_another_order_at_one_member():
    s = good()
    change(s, [D], {"sets": {"ring": [0, 1, 2]}}, event="decide")
    return s


def i6_one_member_lacks_a_set():
    s = good()
    change(s, [C2], {"sets": {"ring": [1, 0]}}, event="decide")
    return s


def i7_no_commit_for_too_long():
    s = good()
    for line in [line for name in (A, B, C2) for line in
                 lines(s, name, generation=4)]:
        if line["event"] != "join" and line["step"] > 6:
            line["t_ns"] += 100 * 10**9
    return s


def i7_nothing_after_the_last_commit():
    s = good()
    for name in (A, B, C2):
        s.files[name].pop()  # no farewell: they hang until the test gives up
    return s


def i0_a_line_in_the_middle_is_torn():
    s = good()
    s.files[A][3] = '{"t_ns":5,"host"\n'
    return s


def i0_unknown_event():
    s = good()
    change(s, [A], {"event": "step_end"}, event="step", step=8)
    return s


def i0_commit_without_a_hash():
    s = good()
    change(s, [A], {"hash": None}, event="commit", step=8)
    return s


def i0_two_processes_in_one_file():
    s = good()
    change(s, [A], {"pid": 4711}, event="step", step=8)
    return s


def i0_no_resume():
    s = good()
    del lines(s, A, event="decide", generation=4)[0]["resume"]
    return s


def i0_no_worker_wrote_a_history():
    return Story()


BROKEN = [made for name, made in sorted(globals().items())
          if name[0] == "i" and name[1].isdigit()]
OPTIONS = {i7_nothing_after_the_last_commit: {"until_ns": 100 * 10**9},
           i1_a_drain_rolls_back: {"most_lost": 0}}


# ------------------------------------------------------------ correct histories

def late_line_of_a_stopped_worker():
    """Its part of commit 1.2 was in before it was stopped; the line is late."""
    s = good()
    s.files[C].pop()
    drop(s, C, event="step", step=3)
    change(s, [C], {"t_ns": s.t_ns}, event="commit", step=2)
    return s


def killed_before_its_last_line():
    """B's part of the last step is in, its lines are not."""
    s = good()
    drop(s, B, event="step", generation=4, step=10)
    drop(s, B, event="commit", generation=4, step=10)
    return s


def all_are_killed_after_a_commit_without_a_line():
    s = Story()
    s.begin(1, [A, B], None)
    s.steps([A, B], 1, 4, committed=range(5))
    s.begin(2, [C, D], (1, 5))  # complete in the vault
    s.steps([C, D], 6, 10, committed=range(11))
    return s


def death_before_commit_0():
    s = Story()
    s.ranks.update({A: (1, 0, 2), B: (1, 1, 2)})
    s.log(A, "join", 0)
    s.log(A, "decide", 0, resume=None, sets={})
    s.log(B, "leave", 0)  # it never got as far as to take it up
    s.begin(2, [B, C], None)
    s.steps([B, C], 1, 10, committed=range(11))
    return s


def three_newcomers_of_a_host():
    s = Story()
    s.begin(1, [A], None)
    s.steps([A], 1, 3, committed=[3])
    s.leave([A], 3)
    s.begin(2, [A, B, C, D], (1, 3))
    s.steps([A, B, C, D], 4, 10, committed=[10])
    return s


CORRECT = [good, hosts, three_newcomers_of_a_host, loaded,
           late_line_of_a_stopped_worker, killed_before_its_last_line,
           all_are_killed_after_a_commit_without_a_line, death_before_commit_0,
           stored_behind, no_host_has_heard, two_jobs]


# ------------------------------------------------------------------------ test

def wrong_verdicts():
    for made in CORRECT:
        for found in violations_of(made()):
            yield f"{made.__name__} is correct, but: {found}"
    for made in BROKEN:
        expected = int(made.__name__[1])
        found = violations_of(made(), **OPTIONS.get(made, {}))
        if expected not in {violation.invariant for violation in found}:
            yield (f"{made.__name__} is not caught; found: "
                   f"{[str(violation) for violation in found]}")


def command(story, *flags):
    with tempfile.TemporaryDirectory(prefix="rg-checker-") as folder:
        story.write(folder)
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, "check_history.py"), folder,
             *flags], capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout


def wrong_commands():
    code, text = command(good(), "--samples", "20", "--batch", "4",
                         "--epochs", "2")
    expected = ("4 workers in 5 processes, 4 generations, 7 commits, the last "
                f"is step 10 (commit 4.10) with hash {4010:016x}\n")
    if (code, text) != (0, expected):
        yield f"a correct history ends with {code} and prints {text!r}"
    code, text = command(good(), "--final-hash")
    if (code, text) != (0, f"{4010:016x}\n"):
        yield f"--final-hash ends with {code} and prints {text!r}"
    code, text = command(i3_newcomer_gets_another_content())
    if code != 1 or text.count("\n") != 1 or "invariant 3" not in text:
        yield f"a broken history ends with {code} and prints {text!r}"
    if command(good(), "--sample")[0] != 64:
        yield "a wrong flag does not end with 64"


def main():
    missing = set(range(8)) - {int(made.__name__[1]) for made in BROKEN}
    wrong = [f"no broken history for invariant {n}" for n in sorted(missing)]
    wrong += [*wrong_verdicts(), *wrong_commands()]
    for sentence in wrong:
        print(sentence)
    print(f"{len(CORRECT)} correct and {len(BROKEN)} broken histories")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
