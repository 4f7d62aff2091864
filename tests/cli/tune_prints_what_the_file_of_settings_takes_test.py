"""`regroup tune` measures, and what it prints is a file of settings whose value
`regroup config` then shows. Where the kernel refuses to let memory be read,
and where a word follows, it says so and prints no setting.

Covers: tune_cmd.c config_read.c"""

import ctypes
import json
import os
import re
import signal
import struct
import subprocess

from command import LIBC, REGROUP, Claims, RunDir, skip

PROCESS_VM_READV = {"x86_64": 310, "aarch64": 270}.get(os.uname().machine)
NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2


def refuse_reads():
    """In a child: process_vm_readv ends with EPERM, and children reap
    themselves unless the program says otherwise."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    code = b"".join(struct.pack("HBBI", *line) for line in (
        (0x20, 0, 0, 0), (0x15, 0, 1, PROCESS_VM_READV),
        (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
    room = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", 4, ctypes.addressof(room)))
    if LIBC.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) or LIBC.prctl(
            SET_SECCOMP, FILTER, program, 0, 0):
        os._exit(99)


if os.sysconf("SC_NPROCESSORS_ONLN") < 2 or PROCESS_VM_READV is None:
    skip("ranks read each other's memory on two processors or more")

claims = Claims()
with RunDir() as d:
    got = d.run("tune", env={"REGROUP_READ_MIN": "3M"})
    claims.equal((got.returncode, got.stderr), (0, ""), "tune")
    lines = got.stdout.splitlines()
    claims.equal(len([s for s in lines if re.match(r"# +\d+K ", s)]), 7,
                 "sizes that were measured")
    setting = re.fullmatch(r"read_min = (\d+K|1T)", lines[-1])
    claims.hold(setting and all(s.startswith("#") for s in lines[:-1]),
                f"comments, then a setting:\n{got.stdout}")

    path = d.path + "/regroup.conf"
    with open(path, "w") as file:
        file.write("detect = cloud\n" + got.stdout)
    got = d.run("config", "--json", env={"REGROUP_CONFIG": path})
    claims.equal((got.returncode, got.stderr), (0, ""), "config")
    read = {s["variable"]: s for s in json.loads(got.stdout)}
    claims.equal((read["REGROUP_READ_MIN"]["value"],
                  read["REGROUP_READ_MIN"]["origin"]),
                 (setting and setting[1], "file"), "the setting")

    got = d.run("tune", "all")
    claims.equal((got.returncode, got.stdout, got.stderr.count("\n")),
                 (64, "", 1), f"a word: {got.stderr}")
    for bad in ("32X", "-1", "much"):
        got = d.run("tune", env={"REGROUP_READ_MIN": bad})
        claims.equal((got.returncode, got.stdout, got.stderr.count("\n")),
                     (64, "", 1), f"{bad}: {got.stderr}")

    got = subprocess.run([REGROUP, "tune"], text=True, capture_output=True,
                         env=d.environment(), preexec_fn=refuse_reads,
                         timeout=60)
    claims.equal((got.returncode, got.stdout, got.stderr.count("\n")),
                 (71, "", 1), f"no reads: {got.stderr}")
    claims.hold("process_vm_readv" in got.stderr, got.stderr)
claims.end()
