"""The installed unit of systemd is valid, names the installed program, sets
settings that there are, and leaves the agent time for its deadline and for
ending its workers, within the 30 s that a cloud gives.

Covers: regroup-agent@.service.in"""

import os
import re
import shutil
import subprocess
import tempfile

from command import BUILD, Claims, clean_environment

NOTICE_S = 30
TERM_S = 5  # between SIGTERM and SIGKILL of a worker, in elastic/agent/agent.c

claims = Claims()
with tempfile.TemporaryDirectory(prefix="rg-unit-") as top:
    subprocess.run(["cmake", "--install", BUILD, "--prefix", top],
                   check=True, capture_output=True)
    unit = top + "/lib/systemd/system/regroup-agent@.service"
    with open(unit, encoding="ascii") as file:
        text = file.read()
    program = re.search(r"^ExecStart=(\S+) agent ", text, re.M).group(1)
    claims.equal(program, top + "/bin/regroup", "the program")
    page = re.search(r"^Documentation=file://(\S+)$", text, re.M).group(1)
    claims.hold(os.path.exists(page), f"{page} is not installed")

    known = subprocess.run([program, "config"], check=True, text=True,
                           capture_output=True,
                           env=clean_environment()).stdout
    line = re.search(r"^Environment=(.*)$", text, re.M).group(1)
    settings = dict(word.split("=") for word in line.split())
    for name in settings:
        claims.hold(name in known, f"there is no setting {name}")
    deadline_s = int(settings["REGROUP_DEADLINE"].removesuffix("s"))
    stop_s = int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M).group(1))
    claims.hold(deadline_s + TERM_S < stop_s < NOTICE_S,
                f"{stop_s} s for a deadline of {deadline_s} s")

    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", unit], check=False,
            text=True, capture_output=True)
        claims.equal((done.returncode, done.stderr), (0, ""), "verify")
    else:
        print("systemd-analyze is not installed: the unit is not verified")
claims.end()
