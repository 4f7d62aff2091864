"""`regroup events JOB` tells of a job that has ended, until `regroup gc` or a day
later; the job's last five lines sum it up; a first world that waits for --max
says for how many workers.

Covers: goodbye.c jobs.c"""
import json
import os
import time

from house import UNTIL_FINISH, Job, claim, main, touch, trainer, until


def last_lines(job):
    return [line for line in job.text().splitlines()
            if line.startswith("regroup: ")][-5:]


def test():
    # the second slot comes late: it waits for a file
    script = 'while [ $REGROUP_SLOT = 1 ] && [ ! -e go ]; do sleep 0.1; done; '
    with Job(["--min", "1", "--max", "2"],
             ["sh", "-c", script + 'exec "$0" "$@"',
              *trainer(*UNTIL_FINISH, "--step-ms", "3")]) as job:
        until(lambda: "waiting for 1 more worker, starts in 2" in job.text(),
              20, "the wait is said")
        touch(os.path.join(job.folder, "go"))
        job.wait_world(2)
        job.kill(1)
        job.wait_world(2, above=2)
        job.finish()
        kinds = ["generations: 3 (1 first, 1 death, 1 join)", "steps lost: ",
                 "recoveries on this host: 2, from ", "no checkpoint",
                 "job test is done; exit code 0"]
        for line, kind in zip(last_lines(job), kinds, strict=True):
            claim(line.startswith("regroup: " + kind), f"{line}, not {kind}")
        told = json.loads(job.run("events", "--json", job.name).stdout)
        claim([e["event"] for e in told].count("decided") == 3, told)
        claim(told[-1]["event"] == "done", told[-1])
        claim("death" in job.run("events", job.name).stdout, "no table")
        refused = job.run("status", job.name)
        claim(refused.returncode == 64 and
              "job test has ended here; `regroup events test` says how" in
              refused.stderr, refused.stderr)
        story = os.path.join(job.env["REGROUP_RUN_DIR"], ".story-test")
        long_ago = time.time() - 25 * 3600
        os.utime(story, (long_ago, long_ago))
        claim(job.run("events", job.name).returncode == 64, "it is a day old")
        os.utime(story)
        claim(".story-test" in job.run("gc").stdout, "gc leaves it")
        claim(job.run("events", job.name).returncode == 64, "it is gone")


main(test)
