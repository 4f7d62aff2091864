"""`regroup run --mpi -H` over ssh to real sshds, each on a host of its own: the
ranks on all hosts have the user's variables, in each launch, and after the loss
of a host its ranks are on the spare one.

Covers: exports.c remotes.c remote_cmd.c proxies.c mpirun_line.c
"""

from hosts import Hosts
from house import UNTIL_FINISH, claim, main, skip
from mpijob import (FLAVOUR, HOSTS_ENV, SOLVER, check_value, launches,
                    need_solver, pids_of, wait_launch)
from sshd import SshJob, Sshds

# dash drops each of these names, one by one.
ODD = {"mpich": {"1ST": "first"}}.get(
    FLAVOUR, {"BASH_FUNC_told%%": "() {  echo told\n}"})
MINE = {"PLAIN": "a 'b' \"c\" $d `e`", "LINES": "one\ntwo", **ODD}
OUTER = {"PMI_RANK": "7", "OMPI_COMM_WORLD_SIZE": "7", "PMIX_HOSTNAME": "seven"}


def variables(pid):
    with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
        return dict(word.split("=", 1) for word in file.read().split("\0")
                    if "=" in word)


def check_variables(job, number):
    ranks = pids_of(job, lambda name, words: words[:1] == [SOLVER])
    claim(len(ranks) == 4, f"ranks of launch {number}: {ranks}")
    for pid in ranks:
        found = variables(pid)
        for name, value in {**MINE, "REGROUP_RESTART": str(number - 1)}.items():
            claim(found.get(name) == value,
                  f"launch {number}: {name} is {found.get(name)!r}")
        for name, value in OUTER.items():
            claim(found.get(name) != value, f"{name} came from outside")


def hosts_of(sshds, job, number):
    """By rank."""
    names = {target: name for name, target in sshds.targets.items()}
    return [names[word.rsplit(":", 1)[0]]
            for word in launches(job)[number - 1][2].split()]


def test():
    need_solver()
    with Hosts(4, renames=True) as hosts:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        sshds = Sshds(hosts)
        try:
            for name in ("h2", "h3", "h4"):
                sshds.start(name)
            with SshJob(sshds, [("h2", 2), ("h3", 2), ("h4", 2)],
                        ["--mpi", "-n", "4", "--spares", "2"],
                        [SOLVER, UNTIL_FINISH[1]],
                        env={**HOSTS_ENV, **MINE, **OUTER}) as job:
                wait_launch(job, 1)
                check_variables(job, 1)
                job.wait_step(20)
                first, lost = hosts_of(sshds, job, 1)
                hosts.fail_power(lost)
                wait_launch(job, 2)
                check_variables(job, 2)
                claim(launches(job)[1][5] == "after host "
                      f"{sshds.targets[lost]} is lost", f"{launches(job)}")
                claim(hosts_of(sshds, job, 2) ==
                      [first, *{"h2", "h3", "h4"} - {first, lost}],
                      f"{launches(job)}")
                job.wait_step(job.step() + 5)
                job.finish()
                job.check(is_mpi=True)
                claim(check_value(job, 4) > 25, "steps")
                job.await_none()
        finally:
            sshds.stop()


main(test)
