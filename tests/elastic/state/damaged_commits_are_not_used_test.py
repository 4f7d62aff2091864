"""A bit flips in the vault: its commit is not used, but the older one; when
that is damaged too, the job ends with one sentence. The same for a bit of the
commit's id.

Covers: pieces.c"""

from house import Job, claim, fault_free, main, trainer

TRAINING = ("--steps", 60, "--bytes", 300000, "--step-ms", 5)


def the_older_commit_counts():
    with Job(["--min", "1", "--max", "3"],
             trainer(*TRAINING, "--damage-at", 20)) as job:
        job.finish()
        claim("is damaged" in job.text(), "no line says that it is damaged")
        claim(job.final_state() == fault_free(*TRAINING),
              "the final state is not the fault-free run's")
        resumed = [e["resume"][1] for e in job.events("decide")
                   if e["resume"] is not None and e["step"] < 20]
        claim(18 in resumed and 19 in resumed,
              f"resumed from {sorted(set(resumed))}: not from the damaged "
              "commit of step 19 and then from that of step 18")


def nothing_is_left():
    with Job(["--min", "1", "--max", "3"],
             trainer(*TRAINING, "--damage-at", 20, "--damage-all", 1)) as job:
        job.finish(code=74)
        claim("no commit is whole any more" in job.text(),
              "the end is not explained")


def an_id_that_is_damaged_is_not_believed():
    """By the agent, which has seen no such step; else its checksum says it."""
    with Job(["--min", "1", "--max", "1"],
             trainer(*TRAINING, "--damage-at", 20, "--damage-id", 1)) as job:
        job.finish()
        claim(job.final_state() == fault_free(*TRAINING),
              "the final state is not the fault-free run's")
        resumed = {e["resume"][1] for e in job.events("decide") if e["resume"]}
        claim(resumed == {18},
              f"resumed from {sorted(resumed)}: not from step 18, the commit "
              "before the one whose id is damaged")


def test():
    the_older_commit_counts()
    nothing_is_left()
    an_id_that_is_damaged_is_not_believed()


main(test)
