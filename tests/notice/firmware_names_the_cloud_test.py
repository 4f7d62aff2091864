"""--notice auto, the default: the firmware says which metadata service to ask;
if it names none, no address is asked. A service that gives no answer delays no
start. A notice to the host that runs the job's etcd stops the job with 143.

Covers: dmi.c"""

import os
import socket
import subprocess
import tempfile

from house import REGROUP, UNTIL_FINISH, Job, claim, main_all, trainer
from metadata import Metadata

AZURE = "7783-7084-3265-9085-8269-3286-77"


def firmware(folder, **words):
    for name, text in words.items():
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(text + "\n")
    return {"REGROUP_NOTICE_DMI": folder}


def found(cloud, **words):
    """{what is asked: verdict}"""
    with tempfile.TemporaryDirectory(prefix="rg-dmi-") as folder:
        env = {**firmware(folder, **words), "REGROUP_RUN_DIR": folder,
               "REGROUP_NOTICE_BASE": cloud.url}
        got = subprocess.run([REGROUP, "doctor"], env={**os.environ, **env},
                             capture_output=True, text=True, check=False)
    lines = [line for line in got.stdout.splitlines() if "notice" in line]
    claim("no cloud" in lines[0] or "answers" in lines[0], got.stdout)
    return [line.split()[2] for line in lines] if "answers" in lines[0] else []


def test_by_words():
    with Metadata() as cloud:
        for vendor, name, tag, clouds in (
                ("Amazon EC2", "m5.large", "Amazon EC2", ["aws"] * 2),
                ("Google", "Google Compute Engine", "", ["gcp"] * 2),
                ("Microsoft Corporation", "Virtual Machine", AZURE, ["azure"]),
                ("Microsoft Corporation", "Virtual Machine", "", []),
                ("QEMU", "Standard PC", "", [])):
            before = len(cloud.asked)
            sources = found(cloud, sys_vendor=vendor, product_name=name,
                            chassis_asset_tag=tag)
            claim(sources == clouds, f"{vendor} {name}: {sources}")
            claim((len(cloud.asked) > before) == bool(clouds), "which are asked")
        claim(not cloud.wrong, str(cloud.wrong))


def test_no_answer_delays_no_start():
    with tempfile.TemporaryDirectory(prefix="rg-dmi-") as folder, \
            socket.create_server(("127.0.0.1", 0), backlog=8) as deaf:
        env = {**firmware(folder, sys_vendor="Amazon EC2"),
               "REGROUP_NOTICE_BASE":
                   f"http://127.0.0.1:{deaf.getsockname()[1]}"}
        with Job(["-n", "2"], trainer("--steps", 20), env=env) as job:
            job.finish()


def test_the_host_of_the_etcd_stops_the_job():
    with tempfile.TemporaryDirectory(prefix="rg-dmi-") as folder, \
            Metadata() as cloud:
        env = {**firmware(folder, product_name="Google Compute Engine"),
               "REGROUP_NOTICE_BASE": cloud.url}
        with Job(["-n", "2"], trainer(*UNTIL_FINISH, "--step-ms", 5),
                 env=env) as job:
            job.wait_step(20)
            cloud.set_gcp("preempted", "TRUE")
            claim(job.process.wait(20) == 143, job.text())
            claim("is to go (gcp: the instance is being preempted), and the "
                  "job's etcd with it" in job.text(), job.text())


main_all(globals())
