"""Every mistake of a user gets one sentence on standard error with a remedy,
a documented exit code, nothing on standard output, and no process or file
left behind.

Covers: foreign.c settings.c find_program.c main.c cli/launch.c rundir.c"""

import os
import re

from command import Claims, RunDir

# what, arguments, variables, exit code, what the sentence must say
BAD = [
    ("command", ["rum", "x"], {}, 64, "no command rum.*`regroup run`"),
    ("command", ["zzzzzzzz"], {}, 64, "no command zzzzzzzz.*regroup run"),
    ("flag first", ["-n", "4", "x"], {}, 64, "after the command"),
    ("flag", ["run", "--mim", "2", "true"], {}, 64, "--mim.*--min"),
    ("flag", ["run", "--elastic_timeout", "2s", "true"], {}, 64,
     "--elastic_timeout.*--elastic-timeout"),
    ("flag", ["run", "--zzzzzzzzzz", "true"], {}, 64,
     "--zzzzzzzzzz.*run --help"),
    ("flag", ["run", "-q", "true"], {}, 64, "-q.*run --help"),
    ("another's flag", ["status", "--min", "2"], {}, 64, "status.*--min"),
    ("flag's value", ["run", "-n"], {}, 64, "-n needs a value"),
    ("value", ["status", "--json=3"], {}, 64, "--json=3 takes no value"),
    ("number", ["run", "-n", "four", "true"], {}, 64, '-n is "four".*from 1'),
    ("zero", ["run", "-n", "0", "true"], {}, 64, '-n is "0".*from 1'),
    ("sign", ["run", "--slots", "-2", "true"], {}, 64, '--slots is "-2"'),
    ("huge", ["run", "-n", "99999999999999999999", "true"], {}, 64, "-n is"),
    ("unit", ["run", "--agent-grace", "10", "true"], {}, 64,
     '--agent-grace is "10".*10s'),
    ("unit", ["run", "--agent-grace", "10 years", "true"], {}, 64, "10 years"),
    ("size", ["run", "--vault-max", "2GB", "true"], {}, 64,
     '--vault-max is "2GB".*2GiB'),
    ("detect", ["run", "--detect", "0s", "true"], {}, 64, "auto.*lan.*cloud"),
    ("variable", ["run", "true"], {"REGROUP_DETECT": "wan"}, 64,
     'REGROUP_DETECT is "wan".*lan'),
    ("log", ["jobs"], {"REGROUP_LOG": "loud"}, 64,
     'REGROUP_LOG is "loud".*info,etcd=debug'),
    ("notice", ["run", "--notice", "amazon", "true"], {}, 64,
     '"amazon" of --notice names no source.*aws'),
    ("notice", ["run", "--notice", "aws,file:x", "true"], {}, 64,
     '"file:x" of --notice.*begin with /'),
    ("notice", ["run", "--notice-base", "here", "true"], {}, 64,
     '--notice-base is "here"'),
    ("notice", ["run", "--notice-advice", "run", "true"], {}, 64,
     "show or leave"),
    ("metrics", ["run", "--metrics", "here", "true"], {}, 64,
     '--metrics "here" is not an address.*9100'),
    ("metrics", ["run", "--metrics", "10.0.0.7", "true"], {}, 64,
     '--metrics "10.0.0.7"'),
    ("metrics", ["run", "--metrics", "65536", "true"], {}, 64, "65536"),
    ("metrics", ["run", "--metrics", "::1:9100", "true"], {}, 64, "::1:9100"),
    ("metrics", ["run", "--metrics", "[::1]", "true"], {}, 64, "::1"),
    ("metrics", ["run", "--metrics", "[9100]", "true"], {}, 64,
     r'--metrics "\[9100\]" is not an address'),
    ("metrics", ["run", "--metrics", "localhost:", "true"], {}, 64,
     "localhost:"),
    ("log format", ["run", "--log-format", "xml", "true"], {}, 64,
     '--log-format is "xml".*text or json'),
    ("log format", ["jobs"], {"REGROUP_LOG_FORMAT": "JSON"}, 64,
     'REGROUP_LOG_FORMAT is "JSON"'),
    ("file", ["jobs"], {"REGROUP_CONFIG": "/does/not/exist"}, 64,
     "/does/not/exist.*REGROUP_CONFIG"),
    ("min above max", ["run", "--min", "4", "--max", "2", "true"], {}, 64,
     "--min 4 is above --max 2"),
    ("min above slots", ["run", "--min", "4", "--slots", "2", "true"], {}, 64,
     "--min 4 .*--slots 2.*--slots 4"),
    ("torchrun", ["run", "--nnodes", "2", "true"], {}, 64,
     "--nnodes.*-n N.*-H h1:4"),
    ("torchrun", ["run", "--nnodes=1:4", "true"], {}, 64, "--min and --max"),
    ("torchrun", ["run", "--rdzv_endpoint=h1:29500", "true"], {}, 64,
     "--rdzv_endpoint.*regroup agent --etcd URL"),
    ("torchrun", ["agent", "--rdzv-backend", "c10d", "true"], {}, 64,
     "hosts meet in etcd"),
    ("torchrun", ["run", "--standalone", "true"], {}, 64,
     "--standalone: `regroup run -n N PROGRAM`"),
    ("torchrun", ["run", "--node_rank", "1", "true"], {}, 64, "rg_rank"),
    ("mpirun", ["run", "--bind-to", "core", "true"], {}, 64, "taskset"),
    ("mpirun", ["run", "-mca", "btl", "tcp", "true"], {}, 64,
     "-mca.*--interface"),
    ("n and min", ["run", "-n", "4", "--min", "2", "true"], {}, 64,
     "-n 4 means.*--min 2"),
    ("n and max", ["run", "-np", "4", "--max-np", "5", "true"], {}, 64,
     "-n 4 means.*--max 5"),
    ("max above slots", ["run", "--max", "4", "--slots", "2", "true"], {}, 64,
     "4 workers.*2 slots.*--slots 4"),
    ("slots", ["run", "--slots", "65", "true"], {}, 64, "65 slots.*64"),
    ("no program", ["run"], {}, 64, "no program was named.*regroup run -n 4"),
    ("no program", ["run", "nonesuch"], {}, 64, "nonesuch in PATH"),
    ("no program", ["run", "./nonesuch"], {}, 64,
     "./nonesuch.*No such file"),
    ("directory", ["run", "/tmp"], {}, 64, "/tmp is a directory"),
    ("not executable", ["run", "./plain"], {}, 64, "./plain.*chmod"),
    ("interpreter", ["run", "./lost"], {}, 64,
     './lost can\'t be run: "/no/python3", which its first line'),
    ("interpreter", ["run", "--mpi", "-n", "1", "./dos"], {}, 64,
     '"/bin/sh" with a carriage return after it'),
    ("not in PATH", ["run", "of-ours"], {}, 64, "write ./of-ours"),
    ("job's name", ["run", "--job", "a/b", "true"], {}, 64, "--job \"a/b\""),
    ("job's name", ["run", "--job", "j" * 64, "true"], {}, 64, "63 letters"),
    ("history", ["run", "--history", "/proc/no", "true"], {}, 64,
     "/proc/no.*--history"),
    ("checkpoints", ["run", "--checkpoint-dir", "/proc/no", "true"], {}, 64,
     "/proc/no.*--checkpoint-dir"),
    ("checkpoints", ["run", "--checkpoint-dir", "./of-ours", "true"], {}, 64,
     "./of-ours can't be used: Not a directory.*--checkpoint-dir"),
    ("how often", ["run", "--checkpoint-every", "10 steps", "true"], {}, 64,
     '--checkpoint-every is "10 steps".*100.*10m'),
    ("how many", ["run", "--checkpoint-keep", "0", "true"], {}, 64,
     '--checkpoint-keep is "0".*from 1'),
    ("output", ["run", "--output", "./plain", "true"], {}, 64,
     "plain.*--output"),
    ("login", ["run", "--etcd", "http://127.0.0.1:1", "--etcd-user", "u",
               "true"], {}, 64, "--etcd-password-file"),
    ("password file", ["run", "--etcd", "http://127.0.0.1:1", "--etcd-user",
                       "u", "--etcd-password-file", "/does/not/exist", "true"],
     {}, 64, "/does/not/exist"),
    ("invitation", ["run", "--etcd-invitation", "/f", "true"], {}, 64,
     "--etcd-invitation /f belongs to --etcd"),
    ("invitation", ["run", "--etcd", "https://127.0.0.1:1",
                    "--etcd-invitation", "/does/not/exist", "true"], {}, 64,
     "/does/not/exist.*--etcd-invitation"),
    ("hash", ["run", "--etcd", "https://127.0.0.1:1", "--etcd-ca-hash", "12",
              "true"], {}, 64, "--etcd-ca-hash 12 has no file to check"),
    ("no etcd", ["run", "--etcd-bin", "/does/not/exist", "true"], {}, 69,
     "/does/not/exist.*--etcd-bin"),
    ("not etcd", ["run", "--etcd-bin", "/bin/false", "true"], {}, 69,
     "/bin/false ended before it was ready"),
    ("address", ["run", "--advertise", "300.1.1.1", "true"], {}, 64,
     "--advertise 300.1.1.1 is no IPv4"),
    ("interface", ["run", "--interface", "nope", "true"], {}, 64,
     "--interface nope: no interface"),
    ("notices", ["run", "--notice", "none,aws", "true"], {}, 64,
     "\"none\" of --notice can't be combined"),
    ("notices", ["run", "--notice", "aws,none", "true"], {}, 64,
     "\"none\" of --notice can't be combined"),
    ("agent", ["agent", "true"], {}, 64, "--etcd"),
    ("agent", ["agent", "--etcd", "http://127.0.0.1:1", "true"], {}, 64,
     "--job"),
    ("status", ["status"], {}, 64, "no job runs here"),
    ("status", ["status", "J"], {}, 64, "no job J runs here"),
    ("status", ["status", "J", "K"], {}, 64, "one word too many"),
    ("a flag behind a word", ["status", "J", "--wacth"], {}, 64,
     "--wacth.*--watch"),
    ("interval", ["status", "--watch", "--interval", "1"], {}, 64,
     '--interval is "1".*10s'),
    ("another's flag", ["status", "--follow"], {}, 64, "status.*--follow"),
    ("events", ["events"], {}, 64, "no job runs here"),
    ("events", ["events", "J", "K"], {}, 64, "one word too many"),
    ("drain", ["drain"], {}, 64, "no host was named.*regroup drain h2"),
    ("drain", ["drain", "h2"], {}, 64, "no job runs here"),
    ("drain", ["drain", "h2", "--deadline", "-1s", "J"], {}, 64,
     '--deadline is "-1s"'),
    ("stop", ["stop"], {}, 64, "no job runs here"),
    ("doctor", ["doctor", "h2"], {}, 64, "flags only.*h2.*--peer"),
    ("peer", ["doctor", "--peer", "h2:"], {}, 64, '--peer "h2:" is not a host'),
    ("peer", ["doctor", "--peer", "h2:70000"], {}, 64, "h2:70000"),
    ("peer", ["doctor", "--peer", "h2:x"], {}, 64, "h2:x"),
    ("peer", ["doctor", "--peer", ":9000"], {}, 64, ":9000"),
    ("peer", ["doctor", "--peer", "[::1"], {}, 64, "::1"),
    ("peer", ["doctor", "--peer", "[::1]x:9"], {}, 64, "::1"),
    ("peer", ["doctor", "--peer", "h2", "--job", "a/b"], {}, 64,
     '--job "a/b"'),
    ("peer", ["doctor", "--peer", "h2", "--etcd", "http://127.0.0.1:1",
              "--etcd-user", "u"], {}, 64, "--etcd-password-file"),
    ("gc", ["gc", "J"], {}, 64, "flags only.*J"),
    ("gc", ["gc", "--older-than", "1d"], {}, 64, '--older-than is "1d"'),
    ("gc", ["gc", "--etcd", "http://127.0.0.1:1", "--etcd-user", "u"], {}, 64,
     "--etcd-password-file"),
    ("jobs", ["jobs", "J"], {}, 64, "takes no J"),
    ("config", ["config", "J"], {}, 64, "flags only"),
]

claims = Claims()
with RunDir() as d:
    os.makedirs(d.path + "/cwd")
    for name, mode, line in (("plain", 0o644, "#!/bin/sh\n"),
                             ("of-ours", 0o755, "#!/bin/sh\n"),
                             ("lost", 0o755, "#! /no/python3 -u\n"),
                             ("dos", 0o755, "#!/bin/sh\r\n")):
        with open(f"{d.path}/cwd/{name}", "w", newline="") as file:
            file.write(line)
        os.chmod(f"{d.path}/cwd/{name}", mode)
    for what, args, variables, code, sentence in BAD:
        got = d.run(*args, env=variables, cwd=d.path + "/cwd")
        text = f"{what}: regroup {' '.join(args)} {variables or ''}"
        claims.equal(got.returncode, code, text)
        claims.equal(got.stdout, "", text)
        claims.hold(re.fullmatch("regroup: .*" + sentence + ".*\n",
                                 got.stderr),
                    f"{text} says: {got.stderr!r}")
    left = [n for n in os.listdir(d.path) if n not in (".lock", "cwd")]
    claims.equal(left, [], "job directories left")

    for mode, why in ((0o755, "open to other users.*chmod 700"),):
        os.chmod(d.path, mode)
        got = d.run("jobs")
        claims.equal(got.returncode, 71, "a run directory open to others")
        claims.hold(re.search(why, got.stderr), got.stderr)
        os.chmod(d.path, 0o700)

    long = d.path + "/" + "d" * 80
    os.mkdir(long, 0o700)
    got = d.run("run", "--job", "j" * 30, "true", env={"REGROUP_RUN_DIR": long})
    claims.equal(got.returncode, 64, "a socket's name that is too long")
    claims.hold("REGROUP_RUN_DIR" in got.stderr, got.stderr)
claims.end()
