"""https endpoints of --etcd: with the right files a job runs, also where
handshakes take long; each wrong one is named in one sentence that says which
flag to look at, and nothing asks for a passphrase or waits forever.

Covers: probe.c reach.c talk.c http.c"""

import os
import tempfile

from certificates import Authority, need_openssl
from command import BUILD, Claims, RunDir
from etcd_cluster import Cluster
from proxy import Proxy

HELLO = BUILD + "/bin/hello"
PASSWORD = "p"


def files(pair, ca=None):
    more = ["--etcd-cacert", ca.cert] if ca else []
    return more + ["--etcd-cert", pair.cert, "--etcd-key", pair.key]


def slow(url):
    """Where each handshake takes longer than etcd usually has to answer."""
    proxy = Proxy(int(url.rpartition(":")[2]))
    proxy.handshake_s = 1.3
    return proxy.url.replace("http:", "https:")


def cases(ca, url, server, login):
    """(flags, exit code, what the sentence must say)"""
    other = Authority(ca.folder, "other")
    client, named = ca.sign("client"), ca.sign("named", "/CN=somebody")
    locked = ca.sign("locked", passphrase="secret")
    stranger = other.sign("stranger")
    plain = url.replace("https:", "http:")
    password = login[-1]
    good = files(client, ca)
    return [
        (["--etcd", url, *login], 69, "--etcd-cacert"),
        (["--etcd", url, *login, *files(client, other)], 69, "--etcd-cacert"),
        (["--etcd", url.replace("127.0.0.1", "localhost"), *login, *good], 69,
         "--etcd-cacert"),  # the certificate has no such name
        (["--etcd", url, *login, *files(client, Authority(ca.folder, "none"))],
         69, "--etcd-cacert"),
        (["--etcd", url, *login, "--etcd-cacert", ca.cert], 69, "--etcd-cert"),
        (["--etcd", url, *login, *files(stranger, ca)], 69, "--etcd-cert"),
        (["--etcd", url, *login, *files(locked, ca)], 69, "passphrase"),
        (["--etcd", url, *login, "--etcd-cacert", password, "--etcd-cert",
          client.cert, "--etcd-key", client.key], 69, "--etcd-cacert"),
        (["--etcd", url, *login, *files(named, ca)], 69, "CommonName"),
        (["--etcd", plain, *login], 69, "https://"),
        (["--etcd", url, *good], 69, "name a user and its password"),
        (["--etcd", plain, *login, *good], 64, plain),
        (["--etcd", f"{url},{plain}", *login, *good], 64, plain),
        (["--etcd", url, *login, "--etcd-cacert", ca.folder + "/absent"], 64,
         "absent"),
        (["--etcd", url, *login, "--etcd-key", server.key], 64, "--etcd-key"),
        (good, 64, "--etcd-cacert"),
        (["--etcd", url, *login, *good], 0, None),
        (["--etcd", slow(url), *login, *good], 0, None),
    ]


need_openssl()
claims = Claims()
with tempfile.TemporaryDirectory(prefix="rg-tls-") as folder, RunDir() as d:
    ca = Authority(folder)
    server = ca.sign("server", names=["IP:127.0.0.1"])
    secret = os.path.join(folder, "password")
    with open(secret, "w", encoding="ascii") as file:
        file.write(PASSWORD)
    with Cluster(1, (server, ca, ca.sign("own"))) as etcds:
        etcds.turn_auth_on(PASSWORD)
        todo = cases(ca, etcds.urls, server,
                     ["--etcd-user", "root", "--etcd-password-file", secret])
        again = 6
        while todo:  # each wrong one takes 5 s; too many make each other late
            some, todo = todo[:6], todo[6:]
            runs = [d.start("run", "-n", "1", "--job", f"J{len(todo)}-{i}",
                            *flags, HELLO) for i, (flags, _, _) in
                    enumerate(some)]
            for run, (flags, code, says) in zip(runs, some):
                out, said = run.communicate(timeout=60)
                if "connection timeout" in said and again > 0:
                    again -= 1  # on a busy machine
                    todo.append((flags, code, says))
                    continue
                claims.equal(run.returncode, code, f"{flags}: {said}")
                if says:
                    claims.hold(said.startswith("regroup: ") and says in said
                                and said.count("\n") == 1, f"{flags}: {said}")
                else:
                    claims.hold("rank 0 of 1" in out, out)
claims.end()
