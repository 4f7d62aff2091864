"""The host that has the job's etcd is gone with it. The other one says that
the broken generation can't be followed and no worker trains, and at SIGTERM it
leaves at once, since waiting would be useless.

Covers: outage.c tell.c"""

import time

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until


def test():
    with Hosts(2, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2"], ["--slots", "1"],
                     trainer(*UNTIL_FINISH, "--step-ms", 5)) as job:
        job.wait_world(2)
        for member in hosts.etcd:
            member.kill()
        job.kill_host("h1")
        until(lambda: "generation 1 is broken and cannot be followed until "
              "etcd is back: no worker trains" in job.text("h2"), 30,
              "h2 says how it stands")
        job.agents["h2"].terminate()
        begun = time.monotonic()
        until(lambda: job.agents["h2"].poll() is not None, 8, "h2 leaves")
        claim(job.agents["h2"].returncode == 0, job.agents["h2"].returncode)
        claim("nothing goes on here without etcd" in job.text("h2"),
              job.text("h2"))
        print(f"h2 has left after {time.monotonic() - begun:.1f} s")


main(test)
