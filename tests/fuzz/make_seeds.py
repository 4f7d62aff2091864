#!/usr/bin/env python3
"""Make the seeds again: what a real etcd and a real job say, and what is written
here by hand. Inputs that were found by a fuzzer, `found-*`, are left alone.

    REGROUP_BUILD=build/dev REGROUP_SOURCE=. PYTHONPATH=tests/lib \\
        python3 tests/fuzz/make_seeds.py
"""

import base64
import http.client
import json
import os
import re
import struct
import subprocess
import tempfile
import urllib.parse

from house import SOURCE, Etcd, Job, claim, main, trainer, until

SEEDS = os.path.join(SOURCE, "tests", "fuzz", "seeds")
STEP_END = b"\x1e"


def write(target, name, content):
    folder = os.path.join(SEEDS, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def clear():
    for folder, _, names in os.walk(SEEDS):
        for name in names:
            if not name.startswith("found-"):
                os.unlink(os.path.join(folder, name))


# --------------------------------------------------------------- etcd's words

def b64(text):
    return base64.b64encode(text.encode()).decode()


def plain(text):
    """Without what differs from one etcd to the next."""
    text = re.sub(r'"(cluster|member)_id":"\d+"', r'"\1_id":"1"', text)
    return re.sub(r'"token":"[^"]*"', '"token":"abc.7"', text)


class Talk:
    """Raw answers of an etcd to the requests that the client makes."""

    def __init__(self, url):
        self.at = urllib.parse.urlparse(url).netloc
        self.streams = []

    def post(self, path, request, token=None):
        """(code, text) of the whole answer."""
        link = http.client.HTTPConnection(self.at, timeout=5)
        headers = {"Authorization": token} if token else {}
        link.request("POST", path, json.dumps(request), headers)
        answer = link.getresponse()
        got = answer.status, plain(answer.read().decode())
        link.close()
        return got

    def txn(self, *gets, **more):
        return self.post("/v3/kv/txn", dict(
            success=[{"request_range": g} for g in gets], **more))

    def watch(self, start):
        """A function that returns the next line of a watch of j/."""
        link = http.client.HTTPConnection(self.at, timeout=5)
        link.request("POST", "/v3/watch", json.dumps({"create_request": {
            "key": b64("j/"), "range_end": b64("j0"),
            "start_revision": str(start), "fragment": True}}))
        answer = link.getresponse()
        self.streams.append(link)
        return lambda: plain(answer.readline().decode())

    def put(self, key, value):
        return self.post("/v3/kv/put", {"key": b64(key), "value": b64(value)})


RANGE = {"key": b64("j/"), "range_end": b64("j0")}
META = {"key": b64("j/meta")}


def answers(talk):
    """{name: (code, text)}"""
    got = {"empty list": talk.txn(RANGE, META)}
    talk.put("j/meta", "{}")
    for key in "abc":
        talk.put("j/" + key, '{"value":"%s"}' % key)
    got["list"] = talk.txn(RANGE, META)
    revision = int(json.loads(got["list"][1])["header"]["revision"])
    got["guard"] = talk.txn(dict(
        RANGE, min_mod_revision=str(revision + 1), keys_only=True, limit="1"),
        META)
    got["txn refused"] = talk.txn(RANGE, compare=[
        {"key": b64("j/meta"), "target": "CREATE", "create_revision": "1"}],
        failure=[{"request_range": RANGE}])
    got["txn put"] = talk.post("/v3/kv/txn", {"success": [
        {"request_put": {"key": b64("j/a"), "value": b64("new")}}]})
    got["no lease"] = talk.post("/v3/kv/txn", {"success": [{"request_put": {
        "key": b64("j/a"), "value": "", "lease": "77"}}]})
    got["grant"] = talk.post("/v3/lease/grant", {"ID": "7", "TTL": "10"})
    got["grant again"] = talk.post("/v3/lease/grant", {"ID": "7", "TTL": "10"})
    got["keepalive"] = talk.post("/v3/lease/keepalive", {"ID": "7"})
    got["keepalive lost"] = talk.post("/v3/lease/keepalive", {"ID": "78"})
    got["revoke"] = talk.post("/v3/lease/revoke", {"ID": "7"})
    got["revoke again"] = talk.post("/v3/lease/revoke", {"ID": "7"})
    got["malformed"] = talk.post("/v3/kv/txn", {"success": 5})
    got["not found"] = talk.post("/v3/nowhere", {})
    got["auth is off"] = talk.post("/v3/auth/authenticate",
                                   {"name": "root", "password": "x"})
    return revision, got


def lines(talk, revision):
    """{name: text of a watch}"""
    follow = talk.watch(revision)
    got = {"created": follow()}
    talk.put("j/d", "new")
    got["put"] = follow()
    talk.post("/v3/kv/deleterange", {"key": b64("j/b")})
    got["delete"] = follow()
    talk.post("/v3/kv/txn", {"success": [
        {"request_put": {"key": b64("j/" + k), "value": b64("x")}}
        for k in "ef"]})
    got["two"] = follow()
    now = revision + 3
    talk.post("/v3/kv/compaction", {"revision": str(now), "physical": True})
    late = talk.watch(1)
    got["compacted"] = late()
    got["compacted behind"] = late()
    return got


def with_auth(talk):
    root = {"name": "root", "password": "secret"}
    steps = {
        "user added": talk.post("/v3/auth/user/add", root),
        "user added again": talk.post("/v3/auth/user/add", root),
        "password changed": talk.post("/v3/auth/user/changepw", root),
        "role granted": talk.post("/v3/auth/user/grant",
                                  {"user": "root", "role": "root"}),
        "role there": talk.post("/v3/auth/role/add", {"name": "root"}),
        "granted": talk.post("/v3/auth/user/grant",
                             {"user": "root", "role": "root"}),
        "enabled": talk.post("/v3/auth/enable", {}),
        "token": talk.post("/v3/auth/authenticate", root),
        "wrong password": talk.post("/v3/auth/authenticate",
                                    dict(root, password="x")),
        "no token": talk.txn(RANGE),
        "bad token": talk.post("/v3/kv/txn", {"success": [
            {"request_range": RANGE}]}, token="abc.7")}
    return steps


def file_name(name):
    return name.replace(" ", "-")


def write_client(say, stream):
    """Conversations of the client with that etcd."""
    def reply(name, letter="r"):
        return f"{letter}{say[name][0]:03}{say[name][1]}"

    def data(*names):
        return "d" + "".join(stream[n] for n in names)

    def talk(name, *steps):
        write("etcd_client", name,
              STEP_END.join(s.encode() for s in steps))

    whole = data("created", "put", "delete", "two")
    mirror = ["-m", reply("list"), data("created"), data("put"),
              data("delete"), data("two")]
    talk("mirror-follows", *mirror)
    talk("mirror-in-one-piece", "-m", reply("list"), whole)
    talk("mirror-in-small-pieces", "-m", reply("list"),
         *["d" + whole[1:][i:i + 50] for i in range(0, len(whole), 50)])
    talk("mirror-is-guarded", *mirror, "p600", reply("guard"), "p900",
         reply("guard"), "p200", reply("list"), "p600", reply("guard"))
    talk("mirror-is-compacted", "-m", reply("list"), data("compacted"),
         "p100", reply("list"), data("created"))
    talk("mirror-is-cut", "-m", reply("list"), data("created"), "e000", "p100",
         data("created"), "e200", "p100", data("created", "put"))
    talk("mirror-finds-another-store", "-m", reply("list"), data("created"),
         "p800", reply("empty list"), reply("empty list"))
    talk("lease-is-kept-and-lost", "-l", reply("grant"), "p999", "p999",
         "p999", "p999", reply("keepalive"), "p999", "p999", "p999", "p999",
         reply("keepalive lost"), reply("grant again"), "L", reply("revoke"))
    talk("txns", "-x", reply("txn put"), "x", reply("txn refused"), "x",
         reply("no lease"), "p200", reply("txn put"), "x", reply("malformed"))
    talk("errors", "-x", reply("not found"), "x", "f", "p050", "f", "p100",
         "r503{\"error\":\"etcdserver: leader changed\",\"code\":14}", "p200",
         "r408", "p300", "r200[]", "p999", reply("txn put"))
    talk("login", "u", "x", reply("token"), reply("bad token"), "t",
         reply("token"), "t", reply("txn put"), "x", reply("no token"))
    talk("login-is-refused", "u", "xl", "m", reply("wrong password"), "t", "t")
    talk("login-is-off", "um", reply("auth is off"), "t", reply("list"))
    talk("auth-is-turned-on", "-a", reply("auth is off"),
         reply("user added"), reply("password changed"), reply("granted"),
         reply("enabled"))
    talk("given-up-in-a-callback", "-m", "x", "l", "k", reply("list"))
    talk("given-up-in-an-event", *mirror[:3], "k", *mirror[3:])


def etcd_seeds():
    with Etcd() as etcd:
        talk = Talk(etcd.url)
        revision, say = answers(talk)
        stream = lines(talk, revision + 1)
        say.update(with_auth(talk))
        for name, (_, text) in say.items():
            write("etcd_reply", file_name(name), text)
        for name, text in stream.items():
            write("etcd_reply", "watch-" + file_name(name), text)
        write_client(say, stream)


def line_seeds():
    def chunks(most, *pieces):
        return most.to_bytes(2, "little") + b"".join(
            bytes([len(p)]) + p for p in pieces)

    write("etcd_lines", "two-lines", chunks(64, b"one\ntwo\n"))
    write("etcd_lines", "cut-anywhere", chunks(64, b"on", b"e\nt", b"wo", b"\n"))
    write("etcd_lines", "no-newline-at-the-end", chunks(64, b"one\ntw", b"o"))
    write("etcd_lines", "empty-lines", chunks(64, b"\n\n", b"", b"\n"))
    write("etcd_lines", "too-long", chunks(8, b"12345", b"67890"))
    write("etcd_lines", "base64", b"AAECAwQ=")


# --------------------------------------------------------------- a job's keys

PREFIX = "/regroup/v1/test/"


NUMBERS = {}  # what differs from run to run: what stands for it

RANDOM = [  # and the first of those that stand for it
    (re.compile(r"\b[0-9a-f]{64}\b"), lambda n: f"{0xc0 + n:064x}"),
    (re.compile(r"\b[0-9a-f]{32}\b"), lambda n: f"{0xd0 + n:032x}"),
    (re.compile(r"\b[0-9a-f]{16}\b(?<!\b0{8}\w{8})"),
     lambda n: f"{0xa1 + n:016x}"),
    (re.compile(r'(?<="at_ms":)\d+'), lambda n: str(1700000000000 + n)),
    (re.compile(r"\b[3-6]\d{4}\b"), lambda n: str(4000 + n)),  # ports
    (re.compile(r"(?<=\[\d,\d,)\d+(?=,(true|false))"),
     lambda n: str(100 + n)),  # pids
    (re.compile(r'(?<=")[^"]*/tests/trainer(?=")'), lambda n: "./train")]


def steady(value):
    for which, (pattern, name) in enumerate(RANDOM):
        known = NUMBERS.setdefault(which, {})
        value = pattern.sub(lambda m, known=known, name=name: known.setdefault(
            m.group(), name(len(known))), value)
    return value


def keys(etcd):
    """[(key below the prefix, value)] of the job."""
    got = etcd.ask("range", key=PREFIX, range_end=PREFIX[:-1] + "0")
    return [(base64.b64decode(kv["key"]).decode()[len(PREFIX):],
             steady(base64.b64decode(kv["value"]).decode()))
            for kv in got.get("kvs", [])]


def write_records(name, found, numbers="0 3 0 0"):
    write("records", name, "\n".join(
        [numbers] + [f"{key}={value}" for key, value in sorted(found)]))


def checkpoint_records():
    number, op = "000000000000000c", "89abcdef"
    write_records("checkpoints", [(key, json.dumps(value)) for key, value in (
        (f"all/claim/{number}", {"serial": number, "op": op, "commit": [3, 40]}),
        ("all/checkpoint", {
            "serial": number, "commit": [3, 40], "file": "/d/c", "host": "h1",
            "hash": number, "at_ms": 1700000000000, "error": ""}),
        ("all/order", {"serial": number, "op": op, "commit": [3, 80],
                       "host": number}),
        ("all/share/h2", {"op": op, "error": ""}),
        ("all/share/h3", {"op": op, "error": "no room"}))])


def phase(etcd):
    found = dict(keys(etcd))
    return json.loads(found.get("all/cur", "{}")).get("phase")


def id_of(found, kind="lead/host/"):
    return next(json.loads(v)["id"] for k, v in found if k.startswith(kind))


def with_second_host(found, record=True):
    """The same with a host h2 that has two workers at the door."""
    host = next((k, v) for k, v in found if k.startswith("lead/host/"))
    other = json.loads(host[1])
    other.update(id="00000000000000b2", port=7000)
    for worker in other["workers"]:
        worker[3:5] = [True, True]
    return found + [("lead/host/h2", json.dumps(other))] * record


def suspicion(host, by):
    return (f"lead/susp/{host}/{by}", "{}")


def write_variants(found):
    """What else may befall a generation that is decided."""
    both = with_second_host(found)
    first = id_of(found)
    g = json.loads(dict(found)["all/cur"])["g"]
    name = "h1"
    reason = {"kind": "broken", "why": f"{name}.0: connection reset",
              "by": name, "link": "h2"}
    write_records("newcomers", both)
    write_records("newcomers-and-a-lost-host", both, "0 3 1 0")
    write_records("newcomers-and-a-host-without-etcd", both, "0 3 0 1")
    write_records("below-min", found, "6 8 0 0")
    write_records("suspected", both + [
        ("all/probe", "{}"), suspicion(first, "00000000000000b2"),
        suspicion("00000000000000b2", first)])
    write_records("broken", found + [
        (f"all/ev/{g:016x}/{name}.0.1", json.dumps(reason)),
        (f"all/ev/{g - 1:016x}/h2.0.1", json.dumps(dict(
            reason, by="h2", link=name)))])
    write_records("drained", both + [
        (f"all/drain/{name}", '{"deadline_ms":30000}'),
        ("all/drain/h2",
         '{"deadline_ms":0,"code":75,"why":"h1 is not heard of"}')])
    write_records("draining", [
        (k, v.replace('"draining":false', '"draining":true'))
        for k, v in both])
    write_records("finished", found + [(f"lead/fin/{g:016x}/{name}", "{}")])
    write_records("given-up", [
        (k, re.sub(r'"open":\d+', '"open":0', v).replace(
            '"failed":""', '"failed":"h1.0 used up its --max-restarts"'))
        for k, v in found])
    proposal = dict(found)[f"all/gen/{g:016x}"]
    proposed = [(k, v) for k, v in found if k != "all/cur"] + [
        ("all/cur", json.dumps({"g": g + 1, "phase": "propose"})),
        (f"all/gen/{g + 1:016x}",
         json.dumps(dict(json.loads(proposal), **{"from": g})))]
    write_records("proposed", proposed)
    write_records("acked", proposed + [
        (f"lead/ack/{g + 1:016x}/{name}",
         json.dumps({"id": first, "loaded": "0" * 16, "source": 0,
                     "held": [[g, 5, True, 0, []], None], "step": 7}))])
    write_records("acked-by-two", with_second_host(proposed) + [
        ("all/begun", '{"generation":"0000000000000001"}'),
        (f"lead/ack/{g + 1:016x}/{name}",
         json.dumps({"id": first, "loaded": "0" * 16, "source": 0,
                     "held": [[g, 9, True, 2, [0, 1]]], "step": 12})),
        (f"lead/ack/{g + 1:016x}/h2",
         json.dumps({"id": "00000000000000b2", "loaded": "0" * 16,
                     "source": 0, "held": [], "step": 0}))])


def record_seeds():
    checkpoint_records()
    with Etcd() as etcd, Job(
            ["--etcd", etcd.url, "--host", "h1", "--min", "1", "--max", "3", "--slots", "3"],
            trainer("--steps", "400", "--step-ms", "5")) as job:
        until(lambda: dict(keys(etcd)).get("lead/host/h1"), 20,
              "a host's record")
        write_records("forming", keys(etcd))
        job.wait_world(3)
        running = keys(etcd)
        write_records("running", running)
        agent_and_others(running)
        before = job.generation()
        job.kill(rank=1)
        job.wait_world(3, above=before)
        found = keys(etcd)
        write_records("after-a-death", found)
        write_variants(found)
        claim(phase(etcd) in ("decided", "propose"), "the job runs")
        until(lambda: phase(etcd) == "done" or job.process.poll() is not None,
              60, "the job is done")
        if keys(etcd):
            write_records("done", keys(etcd))


# -------------------------------------------------------------- small readers

def small_seeds():
    def pieces(mark, *fields, bytes_=0, unit=1, count=1, i=0):
        return bytes_.to_bytes(6, "little") + (unit - 1).to_bytes(
            2, "little") + (count - 1).to_bytes(4, "little") + i.to_bytes(
                4, "little") + bytes([mark]) + b"".join(map(bytes, fields))

    whole = ([2, 0, 4, 1, 9], [2, 1, 4, 1, 9], [2, 0, 4, 1, 12], [2])
    write("vault", "whole", pieces(1, *whole, bytes_=1 << 20, count=4, i=3))
    write("vault", "one-is-writing", pieces(
        0, [2, 0, 2, 1, 9], [1, 0, 2, 1, 9], bytes_=100, count=7, unit=8))
    write("vault", "counts-beyond", pieces(
        1, [2, 0, 65, 1, 9], bytes_=(1 << 40) - 1, count=64))
    write("vault", "wide-numbers", pieces(
        15, [2, 0, 1, 0, 0, 0] + [255] * 16, bytes_=4097, count=3))
    write("vault", "more-than-64-bits", pieces(
        1, bytes_=(1 << 48) - 1, count=(1 << 32) - 1, i=(1 << 32) - 2))

    write("failpoint", "one", "commit.before_agree:rank3:step10:start1:kill")
    write("failpoint", "many", "a:kill,b:gen7:stop,c:sleep20,d:exit1,e:segv")
    write("failpoint", "malformed", "a:rank,:kill,b:,,rank1:,c:sleep,d:exit:1")
    write("failpoint", "large", "a:rank18446744073709551615:kill,"
          "b:step18446744073709551614:sleep99999999999999999999")

    write("settings", "file", "fmin = 3\n# a comment\nREGROUP_MAX=4\n\n"
          "agent-grace = 5s # more\nlog = info,etcd=debug\n")
    write("settings", "file-of-errors", "fmin 3\n = 4\nmni = 3\ndetect = 0s\n")
    write("settings", "words", "x--min\n2\n--max=4\n-np\n3\n--etcd\n"
          "http://10.0.0.1:2379\n--detect\nlan\n--\n./train\n--steps\n7\n")
    write("settings", "words-of-errors", "x--mni\n3\n-x\n--slots\n--json=3\n")
    write("settings", "status", "r--json\njob\n")
    write("settings", "environment", "eREGROUP_LOG=debug\nREGROUP_SLOT=3\n"
          "REGROUP_MINN=4\nOTHER=x\nREGROUP_\n")
    for i, text in enumerate((
            "http://10.0.0.1:2379,http://[fd00::1]:2379/", "https://a", ",",
            "10.0.0.1:2379", "[fd00::1]:2379", "fd00::1", "0.0.0.0",
            "info,etcd=debug,agent=trace")):
        write("settings", f"text-{i}", "t" + text)


def notice_seeds():
    def steps(name, *each):
        write("notices", name, STEP_END.join(
            one if isinstance(one, bytes) else one.encode() for one in each))

    at = "2026-05-01T10:04:31Z"
    begin = ["t"] * 6
    steps("nothing", *begin, "r200 token==", "r200 token==", "r200 FALSE",
          "r200 NONE", "r200 vm_0", "r404", "r404", "r404", 'r200 {"Events":[]}')
    steps("all", *begin, "r200 t1", "r200 t2", "r200 TRUE",
          "r200 TERMINATE_ON_HOST_MAINTENANCE", "r200 vm",
          'r200 {"seconds":90,"reason":"rack 7"}',
          f'r200 {{"action":"stop","time":"{at}"}}',
          f'r200 {{"noticeTime":"{at}"}}',
          'r200 {"Events":[{"EventId":"f020-a","EventType":"Preempt",'
          '"Resources":["vm"],"NotBefore":"Fri, 01 May 2026 10:04:31 GMT",'
          '"EventSource":"Platform"}]}', "t", "t", "a", "r200", "t")
    steps("failures", *begin, "f", "r500", "r200 <html>", "r200", "r401",
          "r204", "t", "t", "t", "r200 x", "r401", "F", "t")
    for i, text in enumerate((
            "rack 7\n", '{"at":"2026-05-01T12:04:31+02:00"}',
            '{"at":1777629871}', '{"advice":true}', "null", "[]", "{",
            '{"seconds":1e300}')):
        steps(f"document-{i}", "d" + text)
    for i, text in enumerate((
            "aws,gcp", "command:a, b,file:/x", "kubernetes", "url:http://h",
            "file:", "none,auto", ",", "azure:x")):
        steps(f"list-{i}", "l" + text)


# ------------------------------------------------------------- a whole agent

MEETS = ["h11", "h21", "r0", "r1"]
DOORS = ["n0d", "n1d", "T1100"]
BUILDS = ["n0b 1", "n1b 1"]
WORLD = MEETS + DOORS + BUILDS
FINISHES = ["n0f 1", "n1f 1", "x0@", "x0@"]


def agent(name, *steps):
    write("agent", name, STEP_END.join(
        s if isinstance(s, bytes) else s.encode() for s in steps))


def agent_alone():
    agent("whole-life", *WORLD, "T50", *FINISHES)
    agent("memory", *MEETS, "n0r 4096 weights", "n1r 4096 weights",
          "n1r 8192 weights", "n0a 1 4096", "n0a 2 4096", "n0e 1", "n1a 1 64",
          *DOORS, *BUILDS, "q0", "T2000")
    agent("too-much-memory", *MEETS, f"n0r {1 << 60} w", f"n0a 1 {1 << 50}")
    agent("a-death", *WORLD, "x0\t", "T300", "h11", "r2", "n2d", "n1l 1",
          "n1b 2", "T300", "n1l 2", "n1b 3", "n2b 3", "T100")
    agent("a-death-before-it-is-built", *MEETS, *DOORS, BUILDS[0], "x1\v",
          "T400", "n0l 1", "n0b 2", "T100")
    agent("broken", *WORLD, "n1k 1 0 a bad line", "n0s 1 2 slow", "T50",
          "n0l 1", "n1l 1", "n0b 2", "n1b 2", "T50")
    agent("never-built", *MEETS, *DOORS, *["n0k 1 0 no"] * 3, "T900")
    agent("silent", *WORLD, "s1", "T600", "T600")
    agent("early-end", *MEETS, "n0z", "x0@", "x0A", "T900", "x0A")
    agent("static", "h10", "h20", "r0", "r1", *DOORS, *BUILDS, "n0z", "n1z",
          "x0@", "x0@")
    agent("strangers", "h11not a hello", "h1", "h01", "h91", "h11", "h11",
          "m0xx", b"m1" + bytes(8), "C", "Jnot a hello", "C", "Q",
          b"u" + bytes(80))
    agent("scribbled-page", *MEETS, b"p0\0" + bytes(64), "T10",
          b"p1\x2a" + b"\xff" * 100, *DOORS)
    agent("scribbled-vault", *MEETS, "n0d", b"v\x40\0" + bytes(
        [2, 0, 0, 0, 1, 0, 0, 0, 1] + [0] * 7 + [5] + [0] * 7),
          *DOORS, *BUILDS, "T100")
    agent("commits", *MEETS, "n0r 4096 weights", *DOORS, *BUILDS,
          "w0 1 5 1 7", "n0c 1 5 2 0 ", "T100", "x2\0", "w1 1 9 0 s4096",
          "n0c 1 9 0 0 dir", "T300", "x1\t", "T300", "n0l 1", "n0b 2", "T300")
    agent("questions", *WORLD, "c0", "c1 0", "c2", "c4 300 h1", "c4 300 h9",
          "o", "c0", "T1100", "c3")
    agent("etcd-away", *WORLD, "o", "x0\t", "T900", "T900", "o", "T300", "i",
          "T50", "f", "T900")
    agent("ended", *MEETS, 'eall/end={"code":3,"why":"somebody"}', "T900")
    agent("drained", *WORLD, 'eall/drain/h1={"deadline_ms":300}', "T900")
    agent("taken-over", *WORLD, "K", "n0t 1 1 0 1 1 0", "n1t 1 1 0 1 1 0",
          "T300", "x0\t", "T300", "n1l 1", "n1b 2", "T300")
    agent("taken-over-before-the-door", "h11", "K", "r0", "n0t 0 0 0 0 0 0",
          "h21", "r1", *DOORS, *BUILDS, "K", "x0\t", "T300")
    agent("taken-over-while-it-prepares", *MEETS, *DOORS, "K",
          "n0t 1 1 1 0 0 0", "n1t 1 0 0 0 0 0", "T300", "n0b 1", "T300")
    agent("taken-over-without-etcd", *WORLD, "o", "K", "n0t 1 1 0 1 1 0",
          "T900", "x0\t", "T900", "o", "T300")


H2 = '"host":"h2","id":"00000000000000b2","address":"$A","port":$P'


def agent_and_others(running):
    second = [(k, v.replace('"port": 7000', '"port": $P').replace(
        "127.0.0.1", "$A"))
              for k, v in with_second_host(running)
              if k.startswith("lead/host/h2")]
    record = [f"e{key}={value}" for key, value in second]
    agent("beats", *MEETS, *record, *DOORS, "U1111", "U2112", "U3113", "U4114",
          "U111 5", "U411 6 1", "T600")
    agent("another-host", *MEETS, *record, *DOORS, *BUILDS, "T300",
          "elead/susp/00000000000000b2/$I={}", "eall/probe={}", "T900",
          "Elead/host/h2", "T900")
    agent("another-leader", *MEETS, "Eall/leader", "eall/leader={" + H2 + "}",
          *DOORS, "T900", "T900")
    agent("another-job", *MEETS, *[
        f"e{key}={value}" for key, value in sorted(running)
        if key != "all/end"])
    member = '["$I",0,1,4000],["00000000000000b2",0,1,4000]'
    host = '["h1","$I","$A",9]'
    two = '["h2","00000000000000b2","$A",$P]'
    led = ["Eall/leader", "eall/leader={" + H2 + "}",
           'eall/gen/0000000000000001={"from":0,"op":"x","cause":"first",'
           f'"announced":false,"members":[{member}],"hosts":[{host},{two}]}}',
           'eall/cur={"g":1,"phase":"propose"}', "n0b 1"]
    line = ('eall/line/0000000000000001={"prev":0,"resume":[1,5],"source":-1,'
            '"copies":[["$I","00000000000000b2","$A",$P,true,[]]],'
            '"steps_lost":0,"from_size":0,"to_size":1,"at_ms":1,'
            '"cause":"first","kind":"start","total":{}}')
    fetch = ["h11", "r0", "n0r 100 weights", "n0d", *led, line,
             'eall/cur={"g":1,"phase":"decided"}']
    agent("fetches-a-commit", *fetch, "j3 100 1 weights", "j4 0 1 s100",
          "j5 100", "n0b 1", "T300")
    agent("is-told-of-more-and-more-buffers", *fetch, "j3 100 1 weights",
          "j3 50 2 other", "j3 60 9 third", "T300")
    agent("registers-while-it-fetches", *fetch, "j3 100 1 weights",
          "j4 0 1 s100", "n0r 64 other", "j5 50", "j5 50", "T300")
    agent("registers-while-it-gives", *WORLD, "n0r 300000 weights",
          "w0 1 5 0 7", "C", "j1 1 1 5", "n0r 300000 other", "T300")
    agent("is-refused-a-commit", *fetch, "j2no such commit", "T300")
    agent("fetches-what-does-not-fit", *fetch, "j3 100 2 weights",
          "j3 100 2 other", "j4 0 1 0", "j5 100", "j5 100")
    agent("a-source-goes", *fetch, "j3 100 1 weights", "Q", "T300")
    agent("a-source-is-silent", *fetch, "T3000")
    agent("fetches-shards", *[
        s.replace("n0r 100 weights", "n0r 100 #w").replace("true,[]",
                                                           "true,[0,1]")
        for s in fetch], "j3 100 1 #w", "j4 0 1 0", "j4 0 2 7 1 5 1",
          "j5 64", "j4 1 2 7 1 5 1", "j5 36", "T300")
    agent("gives-shards", *WORLD, "n0r 300000 #w", "w0 1 5 0 0 2", "C",
          "j1 1 1 5 2", "T100", "C", "j1 1 1 5 3", "T100")
    agent("keeps-copies", *WORLD, "n0r 1000 #w", "w0 1 5 0 0 2", "C", "j6 1 9",
          "j3 1000 1 #w", "j4 1 2 7 1 5 1", "j5 488", "j4 0 2 7 1 5 1",
          "j5 512", "T100", "C", "j6 1 9", "j3 1000 1 #w", "j4 1 2 7 1 4 1")
    agent("sends-copies", *fetch[:-2], 'eall/line/0000000000000001={"prev":0,'
          '"resume":null,"source":0,"copies":[],"steps_lost":0,"from_size":0,'
          '"to_size":1,"at_ms":1,"cause":"first","kind":"start","total":{}}', fetch[-1],
          "T100", "n0r 1000 #w", "w0 1 5 0 0 1", "n0y", "T100", "j7 1", "T300")
    agent("gives-a-damaged-commit", *WORLD, "n0r 100 weights", "w0 1 5 0 7",
          "C", "j1 1 1 5", "T100")
    agent("gives-a-commit", *WORLD, "n0r 100 weights", "w0 1 5 0 s100", "C",
          "j1 1 1 5", "T100", "C", "j1 1 1 7", "T100", "C", "j9", "C", "j1 1")


def scrape_seeds():
    heads = {"get": "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
             "head": "HEAD /healthz?full HTTP/1.0\n\n",
             "post": "POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
             "long": f"GET /{'x' * 40} HTTP/1.1\r\n\r\n",
             "old": "GET /metrics\r\n\r\n", "tls": "\x16\x03\x01"}
    for name, head in heads.items():
        write("scrape", name, head)
    for name, text in {"port": "9100", "four": "10.0.0.7:0",
                       "six": "[fd00::1]:9100", "bare": "::1:9100"}.items():
        write("scrape", "address-" + name, "a" + text)


def dump_seeds():
    for name, record in {
            "zeros": bytes(64), "honest": b"\3\5\1" + bytes(range(1, 90)),
            "full-rings": b"\x40\x40\1" + bytes(range(7, 98)) * 2,
            "ones": b"\xff\xff\1\xff", "all-ones": b"\xff\xff\0\xff",
            "names": b"\2\4\1" + "\x1b[31m\u00e9\n".encode() * 9}.items():
        write("dump", name, record)
    note = {"number": 2, "state": "runs", "kind": "allreduce", "type": "f32",
            "op": "sum", "count": 4, "peer": 0, "started_ms": 9}
    sets = [{"id": 0, "name": "world", "size": 2, "rank": 0, "started": 2,
             "ended": 1, "members": "0" * 16, "closed": False,
             "operations": [note]}]
    worker = {"slot": 0, "pid": 7, "alive": True, "rank": 0, "size": 2,
              "generation": 1, "sets": sets,
              "stacks": {"python": "a\nb", "c": "#0 x\n", "from": "tool"}}
    for name, part in {"part": {"host": "h2", "workers": [worker]},
                       "wrong-types": {"host": 7, "workers": {"sets": [[]]}},
                       "null": {"host": None, "workers": [
                           {**worker, "sets": [None, {"operations": 3}]}]},
                       "error": {"host": "h2", "error": "it is cut off"}}.items():
        write("dump", "host-" + name, "j" + json.dumps(part))


# ----------------------------------------------------------------- checkpoints

def real_checkpoint():
    """What a worker alone writes."""
    with tempfile.TemporaryDirectory(prefix="rg-seeds-") as folder:
        subprocess.run(trainer("--steps", 2, "--step-ms", 0, "--bytes", 100,
                               "--save-every", 2),
                       check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, REGROUP_CHECKPOINT_DIR=folder))
        name = os.listdir(folder)[0]
        with open(os.path.join(folder, name), "rb") as file:
            return name, file.read()


def built_checkpoint(*buffers, form=1, files=0):
    """buffers: (name, kind, bytes of each piece); hashes are the target's.
    files: the last pieces lie in files of their own."""
    pieces = [(i, sum(sizes[:k]), size)
              for i, (_, _, sizes) in enumerate(buffers)
              for k, size in enumerate(sizes)]
    head = 256 + 80 * len(buffers) + 40 * len(pieces)
    at = head_bytes = -(-head // 4096) * 4096
    table, data = b"", b""
    for k, (i, begin, size) in enumerate(pieces):
        file = max(0, k + 1 + files - len(pieces))
        if file:
            table += struct.pack("=IIQQQQ", i, file, begin, size, 0, 0)
            continue
        table += struct.pack("=IIQQQQ", i, 0, begin, size, at, 0)
        data += b"x" * size + bytes(-size % 4096)
        at += size + -size % 4096
    file = struct.pack("=8sIIQQQQQQIIII16s64s64s16sQQ",
                       b"\x89RGCK\r\n\x1a", 0x01020304, form, head_bytes,
                       at + 32,
                       3, 41, 7, 1700000000000, 4, len(buffers), len(pieces), files,
                       b"0.1.0", b"job", b"h1", b"0123abcd", 0, 0)
    for name, kind, sizes in buffers:
        file += struct.pack("=64sQII", name.encode(), sum(sizes), kind, 0)
    file += table
    return file.ljust(head_bytes, b"\0") + data + \
        struct.pack("=8sQQQ", b"RGCKend\n", 0, 0, 0)


def checkpoint_seeds():
    name, content = real_checkpoint()
    write("checkpoint", "real", b"r" + content)
    write("checkpoint", "real-cut", b"r" + content[:-100])
    write("checkpoint", "name", f"n{name}\n")
    write("checkpoint", "name-of-a-part", f"n{name}.part\n")
    write("checkpoint", "name-too-short", "ncheckpoint-1-step1-0123abcd.rgck\n")
    write("checkpoint", "no-buffers", b"s" + built_checkpoint())
    write("checkpoint", "one", b"s" + built_checkpoint(("w", 0, [10])))
    write("checkpoint", "pieces",
          b"s" + built_checkpoint(("w", 0, [10, 20]), ("opt", 0, [4096])))
    write("checkpoint", "same-name",
          b"s" + built_checkpoint(("w", 0, [1]), ("w", 0, [1])))
    write("checkpoint", "shards", b"s" + built_checkpoint(("w", 1, [64, 20]), form=2))
    write("checkpoint", "files", b"s" + built_checkpoint(
        ("w", 0, [10]), ("s", 1, [64, 20, 5000]), form=3, files=2))
    write("checkpoint", "shards-of-format-1",
          b"s" + built_checkpoint(("w", 1, [64, 20])))
    write("checkpoint", "other-kind", b"s" + built_checkpoint(("w", 7, [8])))


# ------------------------------------------------------- the agent of a worker

def worker(name, *steps):
    write("worker", name, STEP_END.join(
        s if isinstance(s, bytes) else s.encode() for s in ("W",) + steps))


def worker_seeds():
    world = ["D", "p1 0 0 1 0 1 0 1", "d1 0 0 0", "D"]
    worker("whole-life", *world, "o0 100", "o1 7", "o2 40", "o3", "n1", "D")
    worker("two-here", "D", "p1 0 1 2 1 2 0 1", "d1 1 5 0", "D", "o0 1", "A1",
           "p2 0 0 1 0 1 0 1", "d2 1 5 0", "D")
    worker("two-hosts", "D", "p1 0 0 2 0 1 0 2", "d1 0 0 0", "D", "o0 9",
           "o0 9", "T100", "A1", "T9000")
    worker("three-hosts", "D", "p1 0 1 3 0 1 1 3", "d1 0 0 0", "D", "o3",
           "T500", "T5000", "A1")
    worker("announced", *world, "N2", "p2 1 0 1 0 1 0 1", "l1", "d2 1 9 0",
           "D", "o3")
    worker("given-up", "D", "p1 0 0 1 0 1 0 1", "p2 0 0 1 0 1 0 1", "d1",
           "d2 0 0 0", "D")
    worker("aborted-before-it-is-built", "D", "A3", "p3 0 0 1 0 1 0 1",
           "p4 0 0 1 0 1 0 1", "d4 0 0 0", "D")
    worker("ranks-that-can-not-be", "D", "p1 0 5 2 0 2 0 1",
           "p2 0 0 2 0 1 0 1", "p3 0 0 2 9 2 0 1", "p4 0 1 2 0 1 7 2")
    worker("memory", "R", "b1 0 fine", "R", "b1 4 no memory", "b2 0", "S",
           "s1 4096 0 0", "s2 4096 0 1", "u2 1", "u1 0", "s3 9999999 0 1",
           "S", "s4 0 4 0 no room")
    worker("ended", *world, "o0 100", "eno more", "D")
    worker("cut", *world, "q", "T900", "T200", "T9000")
    worker("taken-over", *world, "g", "T500", "a", "T2000", "o3", "g", "T1100",
           "a")
    worker("raw", *world, b"m\x0c\0\0\0", b"m" + bytes(8), b"M" + bytes(100),
           b"m\x0c\0\0\0\x04\0\0\0" + bytes(60))
    write("worker", "no-welcome", b"not a welcome")
    write("worker", "refused", (3).to_bytes(4, "little") +
          (4).to_bytes(4, "little") + b"no" + bytes(254))


# -------------------------------------------------- other members of the world

def frames(name, first, *steps):
    write("frames", name, STEP_END.join(
        s if isinstance(s, bytes) else s.encode() for s in (first,) + steps))


def frame_seeds():
    """First: 0 1 of two members, 4 5 6 of three."""
    frames("small", "1", "C0", "o0 4", "b0 0 32", "o3", "b0 0 0", "y0")
    frames("small-accepted", "0", "T10", "o0 4", "b1 0 32", "o1 5", "b1 0 0")
    frames("medium", "1", "C0", "o0 2000", "b0 0 16000")
    frames("large", "1", "C0", "o0 40000", "b0 0 0", *[
        f"d0 {i} {step} {size}" for step, size in ((1, 131072), (2, 28928))
        for i in range(2)])
    frames("large-broadcast", "1", "C0", "o1 40000", "b0 0 0",
           "d0 0 1 262144", "d0 0 2 57856")
    frames("large-allgather", "1", "C0", "o2 20000", "b0 0 0",
           "d0 0 1 87296", "d0 0 2 72704")
    frames("three", "5", "C0", "T10", "o0 4", "b2 0 32", "b0 1 32", "o3")
    frames("three-last", "6", "C0", "C1", "o2 4", "b0 0 32", "b1 1 32")
    frames("difference", "1", "C0", "o0 4", "p0 0 0", "o0 4", "b0 0 32")
    frames("early", "1", "C0", "b0 0 32", "o0 4", "o0 4", "b0 0 32")
    frames("other-data", "1", "C0", "o0 4", "b0 0 8", "o0 4", "b0 0 64")
    frames("broken", "1", "C0", "o0 4", "c0", "T50", "T200", "T5000")
    frames("never-connected", "0", "o0 4", "T1000", "T4000", "T9000")
    frames("strangers", "1", "C0", "C0", b"r0" + bytes(64), "o0 4", "T200")
    frames("heads", "1", "C0", "o0 4", "f0 5 0 1 4000000000", "T200")
    frames("any-kind", "1", "C0", "o0 4", *[
        f"f0 {kind} 0 1 0" for kind in range(10)])


def make():
    clear()
    scrape_seeds()
    dump_seeds()
    etcd_seeds()
    line_seeds()
    record_seeds()
    small_seeds()
    notice_seeds()
    checkpoint_seeds()
    agent_alone()
    worker_seeds()
    frame_seeds()


if __name__ == "__main__":
    main(make)
