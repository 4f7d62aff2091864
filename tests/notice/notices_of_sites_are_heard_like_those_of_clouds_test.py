"""A server of the site and a command: each makes its host leave when it says
so, but not when it fails, answers with a page, prints something else, or
hangs. A command that hangs is killed with all that it has started.

Covers: file.c site.c web.c command.c"""

import json
import os

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until, words_of
from metadata import Metadata

TRAINING = (*UNTIL_FINISH, "--step-ms", "5")
FLAGS = ["--slots", "1", "--notice-every", "100ms"]
SLEEP = f"60.{os.getpid()}"  # no other test's


def sleepers():
    return [p for p in os.listdir("/proc") if p.isdigit() and
            words_of(p) == ["sleep", SLEEP]]


def shown(job, host):
    return (job.status(host) or {"notice": [{}]})["notice"][0]


def fails(job, host, *words):
    until(lambda: shown(job, host).get("state") == "fails" and
          all(w in shown(job, host)["why"] for w in words), 20,
          f"{host} fails: {words}")


def leaves(job, host, size, what):
    before = job.status("h1")["generation"]
    job.drained.add(host)
    job.wait_world(size, above=before - 1)
    until(lambda: job.agents[host].poll() is not None, 20, f"{host} ends")
    claim(job.agents[host].poll() == 0, job.text(host))
    claim(what in job.text(host), job.text(host))
    claim(job.status("h1")["changes"][-1]["steps_lost"] == 0, "no step is lost")


def by_url(job, site):
    until(lambda: shown(job, "h2").get("state") == "answers", 20, "404 is none")
    site.site = (200, "<html>welcome</html>")
    fails(job, "h2", "not a notice in JSON")
    site.site = (503, "")
    fails(job, "h2", "HTTP 503")
    site.site = (200, {})
    until(lambda: shown(job, "h2")["state"] == "answers", 20, "{} is none")
    site.site = (200, {"seconds": 20, "reason": "rack 7"})
    leaves(job, "h2", 2, "notice of url: rack 7")


def by_command(job, say):
    until(lambda: shown(job, "h3").get("state") == "answers", 20, "1 is none")
    say("echo no such file >&2; exit 2")
    fails(job, "h3", "it ends with 2", "no such file")
    say("echo '{'; exit 0")
    fails(job, "h3", "is not a notice")
    say(f"sleep {SLEEP} & sleep {SLEEP}")
    until(sleepers, 20, "it hangs")
    fails(job, "h3", "no answer within 1 s")
    say("exit 1")
    until(lambda: shown(job, "h3")["state"] == "answers", 20, "it answers again")
    claim(not sleepers(), "what it has started runs on")
    say("echo '" + json.dumps({"reason": "licence", "seconds": 20}) + "'")
    leaves(job, "h3", 1, "notice of command: licence")


def test():
    with Hosts(3, nets=False) as hosts, Metadata() as site:
        script = os.path.join(hosts.folder, "says")

        def say(text):
            with open(script + ".new", "w", encoding="ascii") as file:
                file.write(text)
            os.rename(script + ".new", script)

        say("exit 1")
        flags = {"h1": [*FLAGS, "--notice", "none"],
                 "h2": [*FLAGS, "--notice", f"url:{site.url}/site"],
                 "h3": [*FLAGS, "--notice", f"command:. {script}"]}
        with HostsJob(hosts, ["--min", "1", "--max", "3"], flags,
                      trainer(*TRAINING)) as job:
            job.wait_world(3)
            by_url(job, site)
            by_command(job, say)
            job.finish()
            job.check()


main(test)
