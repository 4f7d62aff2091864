"""`regroup doctor`: a line for each thing, ends with 1 when one fails.

Covers: doctor.c finding.c"""

import os
import resource

from command import Claims, RunDir

NAMES = ["etcd", "run directory", "open files", "locked memory", "memfd",
         "huge pages", "core pattern", "futex_waitv", "network namespaces",
         "cuda", "nccl", "notice"]


def verdicts(text):
    return {line[6:24].strip(): line[:4].strip() for line in text.splitlines()}


claims = Claims()
with RunDir() as d:
    fake = d.path + "/etcd"
    for script, verdict in (("echo etcd Version: 3.5.9", "ok"),
                            ("echo etcd Version: 3.3.1", "fail"),
                            ("exit 1", "fail")):
        with open(fake, "w") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(fake, 0o755)
        got = d.run("doctor", "--etcd-bin", fake)
        found = verdicts(got.stdout)
        claims.equal(sorted(found), sorted(NAMES), "what is looked at")
        claims.equal(found["etcd"], verdict, script)
        claims.hold("/dev/shm may be small" in got.stdout, "of containers")
        claims.equal(got.returncode, 1 if "fail" in found.values() else 0,
                     "its code")

    with open(fake, "w") as file:
        file.write("#!/bin/sh\necho etcd Version: 3.4.23\n")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, limits[1]))
    got = d.run("doctor", "--etcd-bin", fake)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    claims.equal(verdicts(got.stdout)["open files"], "fail", "128 files")
    claims.hold("ulimit -n" in got.stdout, "the remedy")
    claims.equal(got.returncode, 1, "a fail")
claims.end()
