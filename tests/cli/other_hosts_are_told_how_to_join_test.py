"""`regroup run --etcd-listen`: the private etcd is at that address only. It
accepts clients with a certificate of the job's own CA that have the password,
too; both are in a file of mode 0600, and no secret is printed. The printed
line makes an agent of another host join, unless the file is another job's. It
also does so after etcd was killed and has come back. It ends when all hosts
have heard of the job's end.

Covers: invite.c remotes.c certs.c reach.c"""

import base64
import json
import os
import re
import shlex
import signal
import shutil
import socket
import ssl
import stat
import urllib.error
import urllib.request

from command import (BUILD, Claims, RunDir, find_child, processes_with,
                     wait_for)

DIGITS = [BUILD + "/bin/elastic_digits", "--epochs", "100000", "--step-ms",
          "5"]
ADDRESS = "127.0.0.2"


def hosts(d, job):
    got = d.run("status", "--json", job)
    if got.returncode != 0:
        return []
    return sorted(h["id"] for h in json.loads(got.stdout)["hosts"])


def ask(url, call, body, certificate):
    """The HTTP code without a password; None: the connection is refused."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    request = urllib.request.Request(f"{url}/v3/{call}",
                                     json.dumps(body).encode(),
                                     {"Accept": "*/*"})
    try:
        with urllib.request.urlopen(request, None, 5, context=context) as got:
            return got.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def answer(url, certificate):
    """To a read."""
    key = base64.b64encode(b"x").decode()
    return ask(url, "kv/range", {"key": key}, certificate)


def listens(address, port):
    with socket.socket() as s:
        return s.connect_ex((address, port)) == 0


def etcds_of(d):
    return processes_with(f"--data-dir={d.path}/")


def invitation(path):
    """The words of the printed line, and the password's file."""
    with open(path) as file:
        text = file.read()
    line = re.search(r"^  (regroup agent .*)$", text, re.MULTILINE)
    kept = re.search(r"a copy of (\S+) ", text)
    return line and kept and (shlex.split(line[1]), kept[1])


claims = Claims()

with RunDir() as d:
    for text in ("here", "127.0.0.1:x", "127.0.0.1:99999", "0.0.0.0", "::",
                 "192.0.2.1", "[::1"):
        got = d.run("run", "-n", "1", "--etcd-listen", text, "true")
        claims.equal(got.returncode, 64, text)
        claims.hold(re.fullmatch("regroup: .*--etcd-listen.*\n", got.stderr)
                    and text in got.stderr, got.stderr)
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        taken.listen(1)
        at = f"{ADDRESS}:{taken.getsockname()[1]}"
        got = d.run("run", "-n", "1", "--etcd-listen", at, "true")
        claims.equal(got.returncode, 64, "a port that is taken")
        claims.hold("taken" in got.stderr, got.stderr)
    got = d.run("run", "-n", "1", "--etcd-listen", ADDRESS, "--etcd",
                "http://127.0.0.1:1", "true")
    claims.equal(got.returncode, 64, "two etcds at once")

with RunDir() as d, RunDir() as other:
    log = d.path + "/.log"
    with open(log, "w") as file:
        job = d.start("run", "-n", "1", "--job", "J", "--host", "h1",
                      "--detect", "3s", "--etcd-listen", ADDRESS, *DIGITS,
                      stdout=file, stderr=file)
    wait_for(lambda: hosts(d, "J") == ["h1"], "the job")
    words, secret = invitation(log)
    claims.equal(words[words.index("--") + 1:], DIGITS, "the program")
    claims.equal(words[words.index("--detect") + 1], "3s", "a setting")
    claims.equal(stat.S_IMODE(os.stat(secret).st_mode), 0o600, secret)
    with open(secret) as file:
        password, *rest = file.read().split("\n")
    claims.hold(re.fullmatch("[0-9a-f]{32}", password), "a random password")
    with open(log) as file:
        said = file.read()
    claims.hold(password not in said, "the password is printed")
    claims.hold(not any(line in said for line in rest if len(line) > 40),
                "the key is printed")
    claims.equal(processes_with(password), [],
                 "the password is in a command line")

    url = words[words.index("--etcd") + 1]
    port = int(url.rpartition(":")[2])
    claims.hold(url.startswith(f"https://{ADDRESS}:"), url)
    claims.equal(listens("127.0.0.1", port), False, "it is at loopback, too")
    claims.equal(answer(url, secret), 400, "no password is needed")
    claims.equal(answer(url, None), None, "no certificate is needed")
    claims.equal(ask(url, "maintenance/alarm", {"action": "ACTIVATE",
                                                "alarm": "NOSPACE"}, None),
                 None, "a stranger's alarm")

    def join(host):
        """Paste the line, in the directory of the file's copy."""
        shutil.copy(secret, other.path + "/.etcd.invitation")
        line = [w.replace("etcd.invitation", ".etcd.invitation")
                for w in words]
        return other.start(*line[1:2], "--host", host, *line[2:],
                           cwd=other.path)

    with RunDir() as late:
        stale = [d.path + "/J/etcd.ca" if w == "etcd.invitation" else
                 "0" * 64 if w == words[words.index("--etcd-ca-hash") + 1]
                 else w for w in words]
        got = late.run(*stale[1:])
        claims.equal(got.returncode, 64, got.stderr)
        claims.hold("from another job" in got.stderr, got.stderr)
    guest = join("h2")
    wait_for(lambda: hosts(d, "J") == ["h1", "h2"], "the other host")
    got = d.run("doctor", "--peer", "h2", "--job", "J")
    claims.hold(got.returncode in (0, 1) and "h2" in got.stdout,
                f"doctor: {got.stderr}")
    for asked in (d, other):
        got = asked.run("drain", "h1", "J")
        claims.equal(got.returncode, 64, "to drain the host of the etcd")
        claims.hold("h1 runs the private etcd of job J" in got.stderr,
                    got.stderr)
    old = etcds_of(d)
    os.kill(old[0], signal.SIGKILL)
    wait_for(lambda: etcds_of(d) not in ([], old), "etcd starts again")
    late = join("h3")
    wait_for(lambda: hosts(d, "J") == ["h1", "h2", "h3"], "a third host")
    claims.equal(answer(url, secret), 400,
                 "no password is needed after the restart")
    claims.equal(answer(url, None), None, "nor is a certificate")
    # An agent that hears of the end late: the etcd stays until it has.
    slow = find_child(guest.pid, "regroup")
    os.kill(slow, signal.SIGSTOP)
    stop = d.start("stop", "J")
    wait_for(lambda: find_child(job.pid, "regroup") == 0, "the agent's end")
    claims.hold(job.poll() is None and etcds_of(d) != [],
                "the etcd ended before the other hosts")
    os.kill(slow, signal.SIGCONT)
    stop.communicate(timeout=60)
    claims.equal(stop.returncode, 0, "stop")
    job.wait(60)
    for agent in (guest, late):
        agent.communicate(timeout=60)
        claims.equal(agent.returncode, 143, "an agent of another host")
    claims.equal(sorted(os.listdir(d.path)), [".lock", ".log", ".story-J"],
                 "left")
claims.end()
