"""An agent that could not hold its workers' descriptors is refused at the start,
with numbers; a soft limit is raised to the hard one.

Covers: cli/launch.c"""
import resource
import subprocess

from house import BUILD, REGROUP, Etcd, claim, main


def run(etcd, soft, hard):
    return subprocess.run(
        [REGROUP, "run", "-n", "8", "--etcd", etcd.url, BUILD + "/bin/hello"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                              (soft, hard)),
        capture_output=True, text=True, timeout=60, check=False)


def test():
    with Etcd() as etcd:
        got = run(etcd, 90, 90)
        claim(got.returncode == 71 and "90 descriptors are too few" in
              got.stderr and "104 in all" in got.stderr,
              f"{got.returncode}: {got.stderr}")
        got = run(etcd, 64, 1024)
        claim(got.returncode == 0, f"{got.returncode}: {got.stderr}")


main(test)
