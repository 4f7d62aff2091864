"""`regroup run -H` starts an agent on each host of a list: in the launcher's
directory, with the variables of -x, with the settings that were given, and
with no secret of the private etcd on a command line or in an environment.
Output comes back behind the names of hosts, and so does the exit code. Agents
that are killed are started again; no process is left at the end.

Covers: summary.c host_launcher.c letter.c route.c remote_cmd.c"""
import os
import re
import signal

from house import UNTIL_FINISH, claim, main, need_etcd, trainer, until
from launching import LaunchedJob

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)
SHOW = ('echo "in $PWD with $TOLD and $KEPT, $(env | grep -c ETCD) of etcd, '
        '$REGROUP_CHECK_STATE"; exit $CODE')


def hostfile(job):
    job.write("hosts", "# two of them\n\nh1 slots=2   # the first\n\nh2:1\n")


def words_travel():
    env = {"KEPT": "a b'c\"d", "TOLD": "not this", "CODE": "0"}
    flags = ["--hostfile", "hosts", "-x", "KEPT", "-x", "TOLD=x=y,z",
             "-x", "CODE=7", "--max-restarts", "0"]
    job = LaunchedJob(flags, ["sh", "-c", SHOW],
                      env={**env, "REGROUP_CHECK_STATE": "off"})
    hostfile(job)
    with job:
        job.finish(7)
        job.await_none()
        shown = sorted(set(re.findall(r"^(h[12])\.\d r- \| (in .*)$",
                                      job.text(), re.MULTILINE)))
        claim(shown, f"nothing was printed: {job.text()}")
        claim({what for _, what in shown} == {
            f"in {job.folder} with x=y,z and {env['KEPT']}, 0 of etcd, off"},
              shown)


def a_list_without_workers_in_order():
    """Programs that are none of Regroup's run once in each slot."""
    with LaunchedJob(["-H", "h1:2,user@h2"], ["echo", "hello"]) as job:
        job.finish(0)
        said = re.findall(r"^(h\d\.\d) r- \| hello$", job.text(), re.MULTILINE)
        claim(sorted(said) == ["h1.0", "h1.1", "h2.0"], said)
        claim({call.split()[0] for call in job.calls()} == {"h1", "user@h2"},
              job.calls())


def training():
    with LaunchedJob(["-H", "h1:2,h2:1", "--min", "1"],
                     trainer(*TRAIN)) as job:
        job.wait_world(3)
        before = job.workers()
        for call in job.calls():
            claim(re.fullmatch(r"h\d '\S+/regroup' remote", call), call)
        with open(job.path("run/test/etcd.invitation"), encoding="ascii") as f:
            password = f.readline().strip()
        for pid in [*job.supervisors(), *(w["pid"] for w in before.values())]:
            for name in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    claim(password.encode() not in file.read(),
                          f"the password is in {name} of {pid}")
        generation = job.generation()
        lost = next(h for h in job.hosts().values() if h["id"] == "h2")
        for pid in job.supervisors():  # of h2: supervisor and agent at once
            if holds_lock(pid, "agent-h2.lock"):
                os.kill(pid, signal.SIGKILL)
        job.wait_world(3, above=generation)
        until(lambda: "the agent of host h2 has ended" in job.text(), 10,
              "the launcher says why")
        pids = {w["pid"] for h in job.hosts().values() for w in h["workers"]}
        claim(not pids & {w["pid"] for w in lost["workers"]},
              "the workers of h2 are the same")
        job.finish()
        job.check(trained=TRAIN)
        job.await_none()
        claim(re.findall(r"^(.*)job test is done; exit code 0$", job.text(),
                         re.MULTILINE) == ["regroup: "],
              "the launcher alone says how the job has ended")
        claim(re.search(r"^h1 \| regroup: recoveries on this host: \d", job.text(),
                        re.MULTILINE), "h1 says how long it was still")


def holds_lock(pid, name):
    return any(os.readlink(f"/proc/{pid}/fd/{fd}").endswith("/" + name)
               for fd in os.listdir(f"/proc/{pid}/fd"))


def test():
    need_etcd()
    words_travel()
    a_list_without_workers_in_order()
    training()


main(test)
