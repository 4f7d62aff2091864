"""tests/etcd/chain.c under a test: a client that goes through an outage and
says at its end what it saw of it."""

import base64
import json
import os
import subprocess

from house import BUILD, PATIENCE, Failed, claim, until


class Chain:
    """A client of those members, in that order."""

    def __init__(self, cluster, members, user=None, password=None):
        self.cluster = cluster
        self.words = [os.path.join(BUILD, "tests", "chain"), "--endpoints",
                      ",".join(m.url for m in members)]
        if user:
            self.words += ["--user", user, "--password", password]
        if cluster.tls:
            self.words += ["--cacert", cluster.tls[1].cert, "--cert",
                           cluster.client.cert, "--key", cluster.client.key]

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def number(self):
        """What it has written last, as any member says; 0: none answers."""
        claim(self.process.poll() is None, "the client has ended early: "
              + (self.process.stderr.read() if self.process.poll() else ""))
        key = base64.b64encode(b"chain/number").decode()
        for member in self.cluster.members:
            try:
                found = member.post("kv/range", 1, key=key).get("kvs")
            except OSError:
                continue
            if found:
                return int(base64.b64decode(found[0]["value"]))
        return 0

    def wait_writes(self, more=20, seconds=30):
        """That many numbers after those that are written now."""
        enough = self.number() + more
        until(lambda: self.number() >= enough, seconds,
              f"{more} more writes of the client")

    def finish(self):
        """End it; what it says of its life."""
        self.process.terminate()
        try:
            said, wrong = self.process.communicate(timeout=90 * PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise Failed("the client does not end") from error
        claim(self.process.returncode == 0, f"the client failed: {wrong}")
        return json.loads(said)
