#!/usr/bin/env python3
"""bench_across: collectives over hosts that are network namespaces

  bench_across [--hosts H] [--slots S] [--congestion cubic|bbr|reno] [--mpi]
               [ARG...]

One agent per host with S workers each; what follows goes to bench_collectives.
H = 4, S = 1 is the flat form of H = 2, S = 2. --mpi: Open MPI starts the
workers, and its calls are measured beside Regroup's, in the same processes.
"""

import argparse
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("REGROUP_BUILD", os.path.dirname(HERE))
os.environ.setdefault("REGROUP_SOURCE", "@CMAKE_SOURCE_DIR@")
sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"], "tests", "lib"))

from hosts import NETNS, RENAME, SUBNET, Hosts, HostsJob  # pylint: disable=wrong-import-position


def use_congestion(hosts, name):
    for host in hosts.names:
        done = subprocess.run(
            ["ip", "netns", "exec", hosts.net(host), "sh", "-c",
             f"echo {name} > /proc/sys/net/ipv4/tcp_congestion_control"],
            check=False)
        if done.returncode != 0:
            sys.exit(f"bench_across: {name} can't be chosen")


def under_agents(hosts, given, rest):
    command = [os.path.join(HERE, "bench_collectives"), *rest]
    flags = ["-n", str(given.hosts * given.slots)]
    with HostsJob(hosts, flags, ["--slots", str(given.slots)],
                  command) as job:
        try:
            job.finish(seconds=given.timeout)
        finally:
            print("\n".join(line for line in job.text().splitlines()
                            if " | " in line))


def write_rsh(hosts):
    """In the place of ssh: HOST WORD..."""
    path = os.path.join(hosts.folder, "rsh")
    with open(path, "w") as file:
        file.write(f"""#!/bin/sh
export TMPDIR={hosts.folder}/$1.tmp
mkdir -p "$TMPDIR"
exec nsenter --net={NETNS}/{hosts.prefix}-"$1" -- {" ".join(RENAME[:4])} \\
    '{RENAME[4]}' "$1" /bin/sh -c 'exec /bin/sh -c "$*"' "$@"
""")
    os.chmod(path, 0o755)
    return path


def under_mpirun(hosts, given, rest):
    program = os.path.join(HERE, "bench_collectives-openmpi")
    if not os.path.exists(program) or not shutil.which("mpirun.openmpi"):
        sys.exit("bench_across: --mpi needs Open MPI, and a build with it")
    hosts.need_nets()
    subnet = SUBNET + ".0/24"
    settings = {"plm": "rsh", "plm_rsh_agent": write_rsh(hosts),
                "plm_rsh_no_tree_spawn": "1", "btl": "self,vader,tcp",
                "btl_tcp_if_include": subnet, "oob_tcp_if_include": subnet,
                "mpi_yield_when_idle": "1"}
    command = ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none",
               "--map-by", f"ppr:{given.slots}:node", "--host",
               ",".join(f"{name}:{given.slots}" for name in hosts.names)]
    for name, value in settings.items():
        command += ["--mca", name, value]
    with hosts.popen("h1", [*command, program, *rest],
                     env=dict(os.environ, REGROUP_TRANSPORTS="native")) as run:
        code = run.wait(timeout=given.timeout)
    if code != 0:
        sys.exit(f"bench_across: mpirun ended with {code}")


def main():
    args = argparse.ArgumentParser(usage=__doc__)
    args.add_argument("--hosts", type=int, default=2)
    args.add_argument("--slots", type=int, default=2)
    args.add_argument("--congestion")
    args.add_argument("--mpi", action="store_true")
    args.add_argument("--timeout", type=int, default=600)
    given, rest = args.parse_known_args()
    with Hosts(given.hosts, renames=given.mpi) as hosts:
        if given.congestion:
            use_congestion(hosts, given.congestion)
        (under_mpirun if given.mpi else under_agents)(hosts, given, rest)


if __name__ == "__main__":
    main()
