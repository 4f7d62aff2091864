"""A private etcd that this machine gives too few files, threads, memory or room
on its disk: code 71 and
one sentence with the limit, not a dump of Go's.

Covers: private_etcd.c etcd_child.c"""

import os
import resource
import shutil
import subprocess
import tempfile

from command import REGROUP, Claims, clean_environment

LONELY = 54321  # a user of whom no other process is


def run(limit, most, user=None):
    folder = tempfile.mkdtemp(prefix="rg-")
    os.chmod(folder, 0o777)

    def shrink():
        resource.setrlimit(limit, (most, most))
        if user is not None:
            os.setgid(user)
            os.setuid(user)
    got = subprocess.run([REGROUP, "run", "-n", "1", "true"], cwd="/",
                         env=clean_environment(REGROUP_RUN_DIR=folder + "/r"),
                         preexec_fn=shrink, capture_output=True, text=True,
                         timeout=60, check=False)
    shutil.rmtree(folder, ignore_errors=True)
    return got


def claim_said(claims, got, *words):
    claims.equal(got.returncode, 71, got.stderr)
    claims.equal(got.stderr.count("\n"), 1, got.stderr)
    for word in words:
        claims.hold(word in got.stderr, f"{word} in {got.stderr}")


claims = Claims()
claim_said(claims, run(resource.RLIMIT_NOFILE, 128), "128 files",
           "etcd needs 150", "ulimit -n")
claim_said(claims, run(resource.RLIMIT_AS, 400 << 20), "no memory",
           "ulimit -v")
claim_said(claims, run(resource.RLIMIT_AS, 2000 << 20), "no memory",
           "ulimit -v")  # too little for its database alone
claim_said(claims, run(resource.RLIMIT_FSIZE, 100 << 10), "ulimit -f",
           "REGROUP_RUN_DIR")
FULL = ("unshare", "--mount", "--propagation", "private", "sh", "-c",
        'mount -t tmpfs -o size=64k none "$0" && mkdir -m 700 "$0/r" && '
        'exec "$@"')
FILL = 'head -c 1M /dev/zero >"$0/full" 2>/dev/null; exec "$@"'


def run_on_a_full_disk():
    with tempfile.TemporaryDirectory(prefix="rg-") as folder:
        return subprocess.run(
            [*FULL, folder, "sh", "-c", FILL, folder, REGROUP, "run", "-n", "1",
             "true"], cwd="/", capture_output=True, text=True, timeout=60,
            env=clean_environment(REGROUP_RUN_DIR=folder + "/r"), check=False)


if os.getuid() == 0:
    claim_said(claims, run_on_a_full_disk(), "no room is left",
               "REGROUP_RUN_DIR")
    claim_said(claims, run(resource.RLIMIT_NPROC, 4, LONELY),
               "no more threads", "ulimit -u", "pids.max")
else:
    print("not root: another user's threads are not tried")
claims.end()
