"""A host whose program, arguments or registered buffers are not
the job's is refused with a sentence that gives both values; no other host
notices.

Covers: job_spec.c"""

from house import UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob

FLAGS = (*UNTIL_FINISH, "--step-ms", "5", "--bytes", "4096")


def shell(words):
    """The same words on every host; what they mean is in the environment."""
    return ["sh", "-c", "exec " + " ".join(words).replace(
        "4096", "${BYTES:-4096}") + " $KIND"]


def refused(job, agent, what, *shown):
    job.lost.add("h2")
    until(lambda: agent.poll() is not None, 20, "the agent of h2 ends")
    claim(agent.returncode == 78, f"it ended with {agent.returncode}, not 78")
    said = job.text("h2").splitlines()[-1]
    claim(f"its {what} is" in said and "the job's" in said,
          f"no sentence shows both: {said}")
    for word in shown:
        claim(word in said, f"the sentence leaves out {word}: {said}")


def another_order():
    """Equal names and sizes, but the first buffer of one is the second of the
    other, and memory goes by places."""
    with Hosts(2, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2", "--start-timeout",
                             "1s"], ["--slots", "1"], shell(trainer(*FLAGS)),
                     only=["h1"], env={"h2": {"KIND": "--over-first 1"}}) as job:
        job.wait_step(5)
        agent = job.agent("h2")
        job.lost.add("h2")
        until(lambda: agent.poll() is not None, 20, "the agent of h2 ends")
        claim(agent.returncode == 78 and "in another order" in job.text("h2"),
              f"it ended with {agent.returncode}: {job.text('h2')[-300:]}")
        job.finish()
        job.check(trained=FLAGS)


def test():
    another_order()
    program = shell(trainer(*FLAGS))
    other = shell(trainer(*FLAGS, "--save-every", "9999999"))
    with Hosts(2, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2", "--start-timeout",
                             "1s"], ["--slots", "1"], program, only=["h1"],
                     env={"h2": {"BYTES": "8192"}}) as job:
        job.wait_step(5)
        refused(job, job.agent("h2"), "buffers", "8192")
        refused(job, job.agent("h2", command=other), "program",
                "9999999")
        claim(job.generation() == 1, "the job has noticed")
        job.agent("h2")
        job.wait_world(2)
        job.finish()
        job.check(trained=FLAGS)


main(test)
