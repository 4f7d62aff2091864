#!/usr/bin/env python3
"""bench_across: allreduces over hosts that are network namespaces

  bench_across [--hosts H] [--slots S] [--congestion cubic|bbr|reno] [ARG...]

One agent per host with S workers each; what follows goes to bench_collectives.
H = 4, S = 1 is the flat form of H = 2, S = 2.
"""

import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("REGROUP_BUILD", os.path.dirname(HERE))
os.environ.setdefault("REGROUP_SOURCE", "@CMAKE_SOURCE_DIR@")
sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"], "tests", "lib"))

from hosts import Hosts, HostsJob  # pylint: disable=wrong-import-position


def use_congestion(hosts, name):
    for host in hosts.names:
        done = subprocess.run(
            ["ip", "netns", "exec", hosts.net(host), "sh", "-c",
             f"echo {name} > /proc/sys/net/ipv4/tcp_congestion_control"],
            check=False)
        if done.returncode != 0:
            sys.exit(f"bench_across: {name} can't be chosen")


def main():
    args = argparse.ArgumentParser(usage=__doc__)
    args.add_argument("--hosts", type=int, default=2)
    args.add_argument("--slots", type=int, default=2)
    args.add_argument("--congestion")
    args.add_argument("--timeout", type=int, default=600)
    given, rest = args.parse_known_args()
    command = [os.path.join(HERE, "bench_collectives"), *rest]
    with Hosts(given.hosts) as hosts:
        if given.congestion:
            use_congestion(hosts, given.congestion)
        flags = ["-n", str(given.hosts * given.slots)]
        with HostsJob(hosts, flags, ["--slots", str(given.slots)],
                      command) as job:
            try:
                job.finish(seconds=given.timeout)
            finally:
                print("\n".join(line for line in job.text().splitlines()
                                if " | " in line))


if __name__ == "__main__":
    main()
