"""A host in each cloud hears its metadata service: advice is shown and not
acted upon, an invalid answer is a failure that is reported once, and a notice
drains that host and no other, with no step rolled back. An event of Azure is
acknowledged once its host has left.

Covers: aws.c azure.c gcp.c web.c doctor_notice.c open_job.c"""

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until
from metadata import Metadata, stamp
from proxy import Proxy

TRAINING = (*UNTIL_FINISH, "--step-ms", "5")
FLAGS = ["--slots", "1", "--notice-every", "100ms"]


def shown(job, host):
    """{what is asked: the source's entry}"""
    return {n["asks"]: n for n in (job.status(host) or {"notice": []})["notice"]}


def until_shown(job, host, asks, **fields):
    return until(lambda: (n := shown(job, host).get(asks)) and
                 all(n[k] == v for k, v in fields.items()) and n, 20,
                 f"{host}: {asks} shows {fields}")


def leaves(job, host, size):
    """It drains, and ends with 0."""
    before = job.status("h1")["generation"]
    job.wait_world(size, above=before - 1)
    until(lambda: job.agents[host].poll() is not None, 20, f"{host} ends")
    claim(job.agents[host].poll() == 0, job.text(host))
    last = job.status("h1")["changes"][-1]
    claim((last["cause"], last["steps_lost"]) == (f"host {host} leaves", 0),
          str(last))


def on_ec2(job, cloud):
    action, rebalance = "spot/instance-action", "events/recommendations/rebalance"
    until_shown(job, "h2", action, state="answers", notice="none")
    until_shown(job, "h2", rebalance, state="answers", notice="none")
    cloud.aws["rebalance"] = {"noticeTime": stamp(0)}
    advice = until_shown(job, "h2", rebalance, notice="advice")
    claim(advice["goes_in_s"] is None, str(advice))
    claim("elevated risk" in job.run_on("h2", "status").stdout, "it is shown")

    tokens, cloud.expires = cloud.tokens, True
    until(lambda: cloud.tokens > tokens, 20, "a new token")
    cloud.breaks = (500, "")
    until_shown(job, "h2", action, state="fails",
                why="it answers with HTTP 500")
    cloud.breaks = (200, "<html>log in</html>")
    until(lambda: "not what EC2 says" in shown(job, "h2")[action]["why"], 20,
          "garbage is no notice")
    cloud.breaks = None
    until_shown(job, "h2", action, state="answers", notice="none")
    claim(job.text("h2").count("(spot/instance-action) can't be heard") == 1,
          job.text("h2"))

    cloud.aws["interruption"] = {"action": "terminate", "time": stamp(60)}
    job.drained.add("h2")
    leaves(job, "h2", 3)
    claim("notice of aws: the spot instance will be terminated" in
          job.text("h2"), job.text("h2"))


def on_compute_engine(job, cloud):
    until(lambda: cloud.waiting == 2, 20, "both values are waited for")
    cloud.set_gcp("maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE")
    until_shown(job, "h3", "instance/maintenance-event", notice="advice")
    cloud.set_gcp("maintenance-event", "NONE")
    until_shown(job, "h3", "instance/maintenance-event", notice="none")
    until(lambda: cloud.waiting == 2, 20, "both values are waited for")
    asked = len([a for a in cloud.asked if "/instance/preempted" in a[1]])
    claim(asked < 8, f"it was asked {asked} times and not waited for")
    job.drained.add("h3")
    cloud.set_gcp("preempted", "TRUE")
    leaves(job, "h3", 2)


def on_azure(job, cloud):
    until_shown(job, "h4", "scheduledevents", state="answers", notice="none")
    cloud.events = [cloud.event("Reboot", 900, machine="vm_1")]
    asked = len(cloud.asked)
    until(lambda: len(cloud.asked) > asked + 4, 20, "it is asked again")
    claim(shown(job, "h4")["scheduledevents"]["notice"] == "none", "another's")
    cloud.events = [cloud.event("Redeploy", 900)]
    later = until_shown(job, "h4", "scheduledevents", notice="leave")
    claim(800 < later["goes_in_s"] <= 900, str(later))
    cloud.events = []
    until_shown(job, "h4", "scheduledevents", notice="none")
    cloud.events = [one := cloud.event("Reboot", 900, EventSource="User")]
    job.drained.add("h4")
    leaves(job, "h4", 1)
    claim(cloud.started == [one["EventId"]], f"acknowledged: {cloud.started}")


def on_azure_before_it_has_come(job, hosts, cloud):
    """A host that is started while its event stands, and leaves before etcd has
    answered, ends although its last word is not answered either."""
    proxy = Proxy(hosts.etcd[0].port)
    proxy.late_s = 0.1
    cloud.is_silent = True
    job.agent("h4", "--etcd", proxy.url)
    job.drained.add("h4")
    until(lambda: len(cloud.started) == 2, 20, "acknowledged")
    until(lambda: job.agents["h4"].poll() is not None, 4, "h4 ends")
    claim(job.agents["h4"].poll() == 0, job.text("h4"))


def test():
    with Hosts(4, nets=False) as hosts, Metadata() as ec2, \
            Metadata() as gce, Metadata() as azure:
        flags = {"h1": [*FLAGS, "--notice", "none"]}
        for host, name, cloud in (("h2", "aws", ec2), ("h3", "gcp", gce),
                                  ("h4", "azure", azure)):
            flags[host] = [*FLAGS, "--notice", name, "--notice-base", cloud.url]
        with HostsJob(hosts, ["--min", "1", "--max", "4"], flags,
                      trainer(*TRAINING)) as job:
            job.wait_world(4)
            on_ec2(job, ec2)
            on_compute_engine(job, gce)
            on_azure(job, azure)
            on_azure_before_it_has_come(job, hosts, azure)
            job.finish()
            job.check()
        wrong = [*ec2.wrong, *gce.wrong, *azure.wrong]
        claim(not wrong, f"asked otherwise than documented: {wrong}")


main(test)
