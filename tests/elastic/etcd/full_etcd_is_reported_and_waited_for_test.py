"""An etcd whose database is full answers, but takes no writes. Training goes
on; a change waits, and after about a second log and status say for what; when
the alarm is off the change goes through by itself. To --elastic-timeout such
an etcd is away: that clock does not run.

Covers: health.c waits.c"""
from house import Etcd, Job, UNTIL_FINISH, claim, main, trainer, until

SENTENCE = "its database is full (etcdserver: mvcc: database space exceeded)"


def alarm(etcd, action):
    etcd.post("maintenance/alarm", action=action, alarm="NOSPACE")


def test():
    with Etcd() as etcd, Job(
            ["--etcd", etcd.url, "--min", "1", "--max", "2"],
            trainer(*UNTIL_FINISH, "--step-ms", 5)) as job:
        job.wait_step(20)
        alarm(etcd, "ACTIVATE")
        job.wait_step(job.step() + 20)
        claim(job.answer()["etcd"]["state"] == "up", "nothing was refused yet")
        job.kill(rank=1)
        until(lambda: f"takes no writes: {etcd.url}: {SENTENCE}" in job.text(),
              10, "the log says it")
        status = job.status()
        claim(status["etcd"]["state"] == "away"
              and SENTENCE in status["etcd"]["why"], str(status["etcd"]))
        claim(status["scope"] == "job", "status could not read all keys")
        shown = job.run("status", "test").stdout
        claim("etcd takes no writes (" in shown, shown)
        claim(status["generation"] == 1, "there is a change without writes")
        alarm(etcd, "DEACTIVATE")
        until(lambda: job.generation() >= 2, 10, "the change goes through")
        until(lambda: "etcd answers again" in job.text(), 10, "the log says it")
        until(lambda: job.answer()["etcd"]["state"] == "up", 10, "up in status")
        job.finish()
        job.check()


main(test)
