"""All of a job except etcd is killed at once, and its only host starts again
under its name. Processes that have loaded the newest checkpoint go on from it;
those that have not don't begin again at step 0, and the job ends with 74. One
that dies before the first commit costs nothing. A checkpoint counts as soon as
it has its name, even if etcd does not know it yet.

Covers: state/load.c"""
from checkpoints import directory, names, shown, steps, stopped
from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until


def start_again(hosts, name, path, *flags, point=None):
    """Of a job that has saved a step; the job, and the newest of these."""
    job = HostsJob(hosts, ["-n", "2", "--checkpoint-dir", path,
                           "--checkpoint-every", "100"], [],
                   trainer(*UNTIL_FINISH, "--step-ms", 5, *flags), job=name)
    with job:
        until(lambda: job.alive() and shown(job, "step"), 30, "a checkpoint")
        job.kill_host("h1")
        newest = steps(path)[-1]
        if point is not None:
            job.env["REGROUP_FAILPOINT"] = point
        job.agent("h1")
        yield job, newest


def start_again_from_unpublished_checkpoints(hosts, path):
    job = HostsJob(hosts, ["-n", "2", "--checkpoint-dir", path,
                           "--checkpoint-every", "100"], [],
                   trainer(*UNTIL_FINISH, "--step-ms", 5, "--load"),
                   job="sealed", env={"h1": {
                       "REGROUP_FAILPOINT": "checkpoint.sealed:stop"}})
    with job:
        until(lambda: job.alive() and stopped(hosts.pids("h1")), 30,
              "the writer stops once the checkpoint has its name")
        claim(len(names(path, ".rgck")) == 1 and shown(job, "step") is None,
              "it is published")
        job.kill_host("h1")
        job.agent("h1")
        yield job, steps(path)[0]


def goes_on(job, step):
    """From that step, in the generation that follows."""
    job.finish()
    first = min(e["step"] for e in job.events("step") if e["generation"] > 1)
    claim(first == step + 1, f"step {first} came after {step}")


def test():
    with Hosts(1) as hosts:
        with directory() as path:
            for job, _ in start_again(hosts, "forgetful", path):
                job.finish(74)
                claim("no commit is whole any more" in job.text(),
                      "the end is not explained")
        with directory() as path:
            for job, step in start_again(hosts, "loaded", path, "--load"):
                job.finish()
                claim("rolled back is unknown" in job.text(),
                      "no line says that steps may be lost")
                first = min(e["step"] for e in job.events("step")
                            if e["generation"] == job.generation())
                claim(first == step + 1, f"step {first} came after {step}")
                job.final_state()
        with directory() as path:
            for job, step in start_again(
                    hosts, "struck", path, "--load",
                    point="commit.before_agree:rank1:gen2:start1:kill"):
                goes_on(job, step)
        with directory() as path:
            for job, step in start_again_from_unpublished_checkpoints(hosts, path):
                goes_on(job, step)


main(test)
