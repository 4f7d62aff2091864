"""--host-discovery-script: hosts that it names get an agent, those that it no
longer names leave at a commit and may come back; one that fails or prints
something else changes nothing and is said once. Nothing is rolled back.

Covers: discover.c"""
from house import UNTIL_FINISH, claim, main, need_etcd, trainer, until
from launching import LaunchedJob

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def hosts_are(job, *names):
    until(lambda: sorted(job.hosts()) == sorted(names), 20,
          f"the hosts are {names}")


def said(job, text):
    until(lambda: text in job.text(), 20, f"it says {text!r}")
    claim(job.text().count(text) == 1, f"{text!r} is said again and again")


def test():
    need_etcd()
    flags = ["--host-discovery-script", "cat hosts", "--discovery-interval",
             "100ms", "--min", "1", "--max", "4", "--start-timeout", "200ms"]
    with LaunchedJob(flags, trainer(*TRAIN)) as job:
        said(job, "the discovery script ended with code 1")
        job.write("hosts", "h1:2\n")
        job.wait_world(2)
        job.write("hosts", "h1 slots=2\nh2 slots=1\n")
        job.wait_world(3)
        job.write("hosts", "h1:2\nh2:many\n")
        said(job, 'output, line 2: "many" is not a number of slots')
        job.write("hosts", "h2:1\nh3:4\n")
        job.wait_world(4)
        hosts_are(job, "h2", "h3")
        claim(job.hosts()["h3"]["slots"] == 3, "no more slots than --max")
        job.write("hosts", "h3:4\nh1:1\n")
        job.wait_world(4)
        hosts_are(job, "h1", "h3")
        status = job.status()
        claim({c["steps_lost"] for c in status["changes"]} == {0},
              status["changes"])
        job.finish()
        job.check(trained=TRAIN)
        job.await_none()


main(test)
