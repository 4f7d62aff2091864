"""`regroup doctor --etcd`: an etcd without users is open to all; one with a
password, of a version that lets strangers raise alarms, is open to any client
that raises one; asking changes nothing there. One that refuses strangers is
fine, and one that is away or wants another password fails.

Covers: doctor_etcd.c probe.c finding.c"""

import http.server
import json
import os
import threading

import house
from command import Claims, RunDir

NAME = "etcd of --etcd"


class Careful(http.server.BaseHTTPRequestHandler):
    """An etcd as it should be: a token, or nothing."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v3/auth/authenticate":
            code, answer = 200, {"token": "t"}
        elif self.headers.get("Authorization") == "t":
            code, answer = 200, {"header": {"revision": "1"}, "succeeded": True}
        else:
            code, answer = 400, {"error": "etcdserver: user name is empty",
                                 "code": 3}
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def looked_at(d, *flags):
    """(verdict, its line)."""
    got = d.run("doctor", *flags)
    lines = [line for line in got.stdout.splitlines() if NAME in line]
    return lines[0].split()[0] if lines else "nothing", str(lines)


def give_users(etcd):
    etcd.post("auth/user/add", name="root", password="right")
    etcd.post("auth/user/grant", user="root", role="root")
    etcd.post("auth/enable")


house.need_etcd()
claims = Claims()
with RunDir() as d, house.Etcd() as etcd:
    claims.equal(looked_at(d)[0], "nothing", "none is given")
    verdict, line = looked_at(d, "--etcd", etcd.url)
    claims.equal(verdict, "warn", line)
    claims.hold("lets in every client" in line, line)

    give_users(etcd)
    for word in ("right", "wrong"):
        with open(f"{d.path}/.{word}", "w") as file:
            file.write(word + "\n")
    login = ["--etcd", etcd.url, "--etcd-user", "root", "--etcd-password-file"]
    verdict, line = looked_at(d, *login, d.path + "/.right")
    claims.equal(verdict, "warn", line)
    claims.hold("raise an alarm" in line, line)
    claims.equal(etcd.post("maintenance/alarm").get("alarms"), None,
                 "an alarm is raised now")
    claims.equal(etcd.put("x", "y"), None, "no password is needed now")
    verdict, line = looked_at(d, *login, d.path + "/.wrong")
    claims.equal(verdict, "fail", line)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Careful)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    login[1] = f"http://127.0.0.1:{server.server_port}"
    verdict, line = looked_at(d, *login, d.path + "/.right")
    claims.equal(verdict, "ok", line)
    server.shutdown()
    server.server_close()
    verdict, line = looked_at(d, "--etcd", login[1])
    claims.equal(verdict, "fail", line)
    os.unlink(f"{d.path}/.right")
claims.end()
