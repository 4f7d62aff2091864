"""--help works for every command, whatever else is wrong, and lists its flags;
flags end at PROGRAM.

Covers: main.c settings.c"""

from command import Claims, RunDir

COMMANDS = ["run", "agent", "status", "events", "jobs", "drain", "stop",
            "gc", "checkpoint", "doctor", "config"]
LAUNCH = ["-n, --np N", "--min, --min-np N", "--max, --max-np N",
          "--slots, --nproc-per-node, --slots-per-host N", "--etcd URL",
          "--job NAME", "--history DIR", "--output DIR", "--max-restarts N",
          "--start-timeout TIME", "--elastic-timeout TIME",
          "--agent-grace TIME", "--detect auto|lan|cloud|TIME", "--vault-max SIZE",
          "--etcd-user NAME", "--etcd-password-file PATH",
          "--checkpoint-dir DIR", "--checkpoint-every N|TIME",
          "--checkpoint-keep N",
          "--log-format text|json", "--metrics [ADDR:]PORT"]
FLAGS = {"run": LAUNCH + ["--etcd-bin PATH"], "agent": LAUNCH + ["--host ID"],
         "status": ["--json", "--watch", "--interval TIME"],
         "events": ["--json", "--follow", "--interval TIME"],
         "gc": ["--dry-run", "--etcd URL", "--older-than TIME",
                "--etcd-user NAME", "--etcd-password-file PATH"],
         "drain": ["--deadline TIME"], "stop": ["--timeout TIME"],
         "doctor": ["--etcd-bin PATH", "--peer HOST[:PORT]", "--job NAME",
                    "--etcd URL"]}
BROKEN = {"REGROUP_DETECT": "soon", "REGROUP_CONFIG": "/does/not/exist"}

claims = Claims()
with RunDir() as d:
    for command in COMMANDS:
        for words in ([command, "--help"], [command, "-h"],
                      ["help", command]):
            got = d.run(*words, env=BROKEN)
            claims.equal(got.returncode, 0, " ".join(words) + " ends")
            claims.equal(got.stderr, "", " ".join(words) + " complains")
            claims.hold(f"regroup {command}" in got.stdout,
                        f"{words} says what it is about")
            for flag in FLAGS.get(command, []) + ["--help, -h"]:
                claims.hold(flag in got.stdout, f"{words} names {flag}")
            widest = max(map(len, got.stdout.splitlines()))
            claims.hold(widest < 80, f"{words} is {widest} columns wide")

    got = d.run("--help")
    claims.equal(got.returncode, 0, "regroup --help ends")
    for command in COMMANDS:
        claims.hold(f"\n  {command} " in got.stdout, f"--help lists {command}")

    got = d.run()
    claims.equal((got.returncode, got.stdout), (64, ""), "regroup alone")
    claims.hold("usage: regroup" in got.stderr, "it says how it is used")

    got = d.run("--version")
    claims.hold(got.stdout.startswith("regroup 0."), "--version")

    got = d.run("run", "nonesuch", "--help")
    claims.equal(got.returncode, 64, "--help behind PROGRAM is PROGRAM's")
    got = d.run("run", "-n", "2", "--", "nonesuch", "--help")
    claims.equal(got.returncode, 64, "-- may stand before PROGRAM")
    claims.hold("nonesuch" in got.stderr, "PROGRAM is what stands behind --")
claims.end()
