"""`regroup run --etcd-listen` on one host: the line that it prints, pasted on
another with a copy of the invitation, makes that host part of the world.
The private etcd is killed, and comes back; then a worker of the other host is
killed. Nothing is lost, and the state is that of a training without faults.

Covers: invite.c reach.c private_etcd.c"""
import os
import re
import shlex
import shutil
import signal

from hosts import Hosts, HostsJob
from house import REGROUP, UNTIL_FINISH, claim, main, trainer, until, words_of

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


class PastedJob(HostsJob):
    """The first host runs the job, others join it by the line."""

    def agent(self, host, *_, **__):
        words = self.line(host) if self.agents else [
            REGROUP, "run", "--job", self.name, "--etcd-listen",
            self.hosts.address(host), "--host", host, "--history",
            self.history_of(host), *self.flags, *self.per_host, "--",
            *self.command]
        with open(os.path.join(self.folder, host + ".log"), "ab") as log:
            self.agents[host] = self.hosts.popen(
                host, words, env=self.hosts.environment(host), stdout=log,
                stderr=log)

    def history_of(self, host):
        path = os.path.join(self.history, host + "-1")
        os.mkdir(path)
        return path

    def line(self, host):
        """What the first host printed, with this host's name."""
        said = re.search(r"^  (regroup agent .*)$", self.text(), re.MULTILINE)
        kept = re.search(r"a copy of (\S+) ", self.text())
        shutil.copy(kept[1], self.hosts.folder)
        words = shlex.split(said[1])
        return [REGROUP, words[1], "--host", host, "--history",
                self.history_of(host), *words[2:]]

    def etcd(self):
        mark = f"--data-dir={self.hosts.folder}/h1.r/"
        return next((pid for pid in self.hosts.pids("h1")
                     if any(mark in word for word in words_of(pid))), None)


def test():
    with Hosts(2) as hosts:
        hosts.need_nets()
        with PastedJob(hosts, ["--min", "1", "--max", "4", "--start-timeout",
                               "100ms", "--max-restarts", "0"],
                       ["--slots", "2"], trainer(*TRAIN), only=["h1"]) as job:
            job.wait_world(2)
            job.agent("h2")
            job.wait_world(4)
            before = job.workers()
            grown = job.generation()
            old = job.etcd()
            os.kill(old, signal.SIGKILL)
            until(lambda: job.etcd() not in (None, old), 20,
                  "etcd is started again")
            rank = next(r for r in before if job.host_of(r) == "h2")
            lost = job.kill(rank)
            job.wait_world(3, above=grown)
            job.finish()
            claim(job.generation() == grown + 1, "more than one change")
            job.survivors(before, {lost})
            job.check(trained=TRAIN)


main(test)
